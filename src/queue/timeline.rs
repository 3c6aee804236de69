//! Where the time of an attempt went, by phase, for the log line and the metrics.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Reading the job's inputs from the store.
pub const FETCHING: &str = "fetching";
/// Decoding the inputs and checking their digests, until the engine reports its first phase.
pub const DECODING: &str = "decoding";
/// Writing the certificate and the end of the job.
pub const STORING: &str = "storing";

/// The phases of one attempt.
pub struct Timeline {
    /// Each phase with its start. A phase that comes again has another entry.
    begun: Mutex<Vec<(String, Instant)>>,
}

impl Timeline {
    /// A timeline that begins now, with [`FETCHING`].
    pub fn new() -> Self {
        Timeline { begun: Mutex::new(vec![(FETCHING.into(), Instant::now())]) }
    }

    /// Begins a phase, unless it is the current one.
    pub fn enter(&self, phase: &str) {
        let mut begun = self.begun.lock();
        if begun.last().is_none_or(|(last, _)| last != phase) {
            begun.push((phase.into(), Instant::now()));
        }
    }

    /// Each phase with the time that it took, in the order of their first starts.
    pub fn phases(&self) -> Vec<(String, Duration)> {
        let begun = self.begun.lock();
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
    fn phases_are_summed_in_the_order_of_their_first_starts() {
        let timeline = Timeline::new();
        for phase in ["learning", "learning", "certifying", "learning"] {
            timeline.enter(phase);
        }
        let names: Vec<_> = timeline.phases().into_iter().map(|(phase, _)| phase).collect();
        assert_eq!(names, [FETCHING, "learning", "certifying"]);
    }
}
