//! A job that does not fit into memory, and what to do about it.

use std::fmt;

use super::{Footprint, Resources, footprint};
use crate::log::LogShape;
use crate::spec::{JobKind, JobSpec};

/// A job that would take more memory than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// What it would take.
    pub footprint: Footprint,
    /// The most bytes that it may take.
    pub max_bytes: u64,
    kind: JobKind,
    has_sets: bool,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Footprint { log, policies, learning, certifying } = self.footprint;
        let text = |bytes: u64| format!("{:.1} MiB", bytes as f64 / (1u64 << 20) as f64);
        write!(
            f,
            "the job would take about {} of memory, and {} is allowed: {} for the rows, {} for stored policies, {} for \
             learning, {} for certifying; ",
            text(self.footprint.total()),
            text(self.max_bytes),
            text(log),
            text(policies),
            text(learning),
            text(certifying),
        )?;
        match self.kind {
            JobKind::Learn if self.has_sets => f.write_str("use fewer rows, or actions with fewer features"),
            JobKind::Learn => f.write_str(
                "a learned policy has a parameter per feature and action, so use fewer features or group actions, or \
                 learn elsewhere and use kind `evaluate`",
            ),
            JobKind::Evaluate => f.write_str("evaluate fewer or smaller policies in one job, or use fewer rows"),
        }
    }
}

/// Estimates the memory of a job, and compares it with the most bytes that it may take.
///
/// # Errors
/// The job would take more.
pub fn check_footprint(
    spec: &JobSpec,
    shape: &LogShape,
    resources: &Resources,
    max_bytes: u64,
) -> Result<(), TooLarge> {
    let footprint = footprint(spec, shape, resources);
    let (kind, has_sets) = (spec.kind, resources.sets.is_some());
    let fits = footprint.total() <= max_bytes;
    if fits { Ok(()) } else { Err(TooLarge { footprint, max_bytes, kind, has_sets }) }
}
