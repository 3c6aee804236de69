//! The log of the objective: the log itself if its outcome has no name, and otherwise the log of one of its outcomes.

use super::error::Result;
use super::log::{LogSource, OutcomeLog};
use super::spec::JobSpec;

/// The log whose costs are those of the objective.
pub enum ObjectiveLog<'a> {
    /// The log has one outcome, without a name.
    Unnamed(&'a dyn LogSource),
    /// The log has several outcomes.
    Named(Box<OutcomeLog<'a>>),
}

impl<'a> ObjectiveLog<'a> {
    /// The log of the objective of a spec. Without one, it is the log of the primary outcome.
    ///
    /// # Errors
    /// If the log has no outcome of this name.
    pub fn new(spec: &JobSpec, log: &'a dyn LogSource) -> Result<Self> {
        let primary = log.shape().capabilities.outcomes.first();
        match spec.objective.as_deref().or(primary.map(|named| named.name.as_str())) {
            Some(name) => Ok(ObjectiveLog::Named(Box::new(OutcomeLog::new(log, name)?))),
            None => Ok(ObjectiveLog::Unnamed(log)),
        }
    }

    /// The log.
    pub fn source(&self) -> &dyn LogSource {
        match self {
            ObjectiveLog::Unnamed(log) => *log,
            ObjectiveLog::Named(log) => &**log,
        }
    }
}
