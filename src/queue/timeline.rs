//! Where an attempt's time went, phase by phase, for the log line and the metrics of its end.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Reading the job's inputs from the store.
pub const FETCHING: &str = "fetching";
/// Decoding them and checking their digests, until the engine reports its first phase.
pub const DECODING: &str = "decoding";
/// Writing the certificate and the job's end.
pub const STORING: &str = "storing";

pub struct Timeline {
    /// Each phase with its beginning; one that comes again begins again.
    begun: Mutex<Vec<(String, Instant)>>,
}

impl Timeline {
    pub fn new() -> Self {
        Timeline { begun: Mutex::new(vec![(FETCHING.into(), Instant::now())]) }
    }

    /// From now on, unless it is the phase already.
    pub fn enter(&self, phase: &str) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if begun.last().is_none_or(|(last, _)| last != phase) {
            begun.push((phase.into(), Instant::now()));
        }
    }

    /// Each phase with the time that it took, in the order in which they were first entered.
    pub fn phases(&self) -> Vec<(String, Duration)> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = begun.iter().skip(1).map(|(_, start)| *start).chain([Instant::now()]);
        let mut spent: Vec<(String, Duration)> = Vec::new();
        for ((phase, start), end) in begun.iter().zip(ends) {
            let took = end.duration_since(*start);
            match spent.iter_mut().find(|(known, _)| known == phase) {
                Some((_, sum)) => *sum += took,
                None => spent.push((phase.clone(), took)),
            }
        }
        spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_summed_in_the_order_of_their_first() {
        let timeline = Timeline::new();
        for phase in ["learning", "learning", "certifying", "learning"] {
            timeline.enter(phase);
        }
        let names: Vec<_> = timeline.phases().into_iter().map(|(phase, _)| phase).collect();
        assert_eq!(names, [FETCHING, "learning", "certifying"]);
    }
}
