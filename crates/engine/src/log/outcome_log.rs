//! A log with several outcomes, seen as a log of one of them.

use std::ops::Range;

use super::{Chunk, LogShape, LogSource};
use crate::error::{EngineError, Result};

/// A log whose `costs` are those of one of its outcomes. The engine sees logs of one outcome only through it.
pub struct OutcomeLog<'a> {
    log: &'a dyn LogSource,
    /// The position among `Capabilities::outcomes`; 0 is the primary outcome.
    place: usize,
    shape: LogShape,
}

impl<'a> OutcomeLog<'a> {
    /// The log of the outcome with this name.
    ///
    /// # Errors
    /// If the log has no outcome of this name.
    pub fn new(log: &'a dyn LogSource, name: &str) -> Result<Self> {
        let mut shape = log.shape().clone();
        let named = std::mem::take(&mut shape.capabilities.outcomes);
        let place = named.iter().position(|named| named.name == name);
        let missing = || EngineError::Log(format!("the log has no outcome {name}"));
        let place = place.ok_or_else(missing)?;
        shape.outcome = named[place].outcome;
        Ok(OutcomeLog { log, place, shape })
    }
}

impl LogSource for OutcomeLog<'_> {
    fn shape(&self) -> &LogShape {
        &self.shape
    }

    fn chunks(&self) -> usize {
        self.log.chunks()
    }

    fn chunk(&self, index: usize) -> Result<Chunk<'_>> {
        self.of_outcome(self.log.chunk(index)?)
    }

    fn lean_chunk(&self, index: usize) -> Result<Chunk<'_>> {
        self.of_outcome(self.log.lean_chunk(index)?)
    }

    fn arrivals_of(&self, index: usize) -> Option<Range<u64>> {
        self.log.arrivals_of(index)
    }

    fn in_memory(&self) -> bool {
        self.log.in_memory()
    }

    fn seeks(&self) -> bool {
        self.log.seeks()
    }

    fn features(&self, places: &[(u32, u32)], to: &mut [f32]) -> Result<()> {
        self.log.features(places, to)
    }

    fn keep(&self, log: &dyn LogSource) -> Result<Box<dyn LogSource>> {
        self.log.keep(log)
    }
}

impl OutcomeLog<'_> {
    fn of_outcome<'a>(&self, mut chunk: Chunk<'a>) -> Result<Chunk<'a>> {
        let others = std::mem::take(&mut chunk.outcomes);
        if let Some(other) = self.place.checked_sub(1) {
            let missing = || EngineError::Log("a chunk does not have the log's outcomes".into());
            chunk.costs = others.into_iter().nth(other).ok_or_else(missing)?;
        }
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::log::{Columns, MemoryLog, NamedOutcome, Outcome};

    fn log() -> MemoryLog {
        let named = |name: &str| NamedOutcome { name: name.into(), outcome: Outcome::reward() };
        MemoryLog::new(Columns {
            n_actions: 2,
            actions: vec![0, 1, 1],
            costs: vec![-1.0, 0.0, -0.5],
            propensities: vec![0.5; 3],
            outcome: Outcome::reward(),
            named_outcomes: vec![named("revenue"), named("complaint")],
            other_costs: vec![vec![0.0, -1.0, -0.25]],
            timestamps: Some(vec![3, 2, 1]),
            ..Columns::default()
        })
        .unwrap()
    }

    #[test]
    fn each_outcome_is_a_log_of_its_own() {
        let log = log();
        for (name, expected) in [("revenue", [-0.5, 0.0, -1.0]), ("complaint", [-0.25, -1.0, 0.0])] {
            let one = OutcomeLog::new(&log, name).unwrap();
            let chunk = one.chunk(0).unwrap();
            chunk.check(one.shape()).unwrap();
            assert_eq!(chunk.costs, Cow::<[f64]>::from(&expected[..]));
            assert!(one.shape().capabilities.outcomes.is_empty());
        }
        assert!(OutcomeLog::new(&log, "other").is_err());
    }

    #[test]
    fn an_outcome_out_of_its_range_is_an_error() {
        let named = |name: &str| NamedOutcome { name: name.into(), outcome: Outcome::default() };
        let columns = Columns {
            n_actions: 2,
            actions: vec![0],
            costs: vec![0.0],
            propensities: vec![0.5],
            named_outcomes: vec![named("revenue"), named("complaint")],
            other_costs: vec![vec![f64::NAN]],
            ..Columns::default()
        };
        let error = MemoryLog::new(columns).err().unwrap().to_string();
        assert!(error.contains("outcomes.complaint"), "{error}");
    }
}
