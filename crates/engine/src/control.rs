//! The connection between a running job and its caller: progress goes out, cancellation and a time
//! budget come in. The engine checks them between chunks and never waits for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::error::{EngineError, Result};

/// How far a job has come. `fraction` never decreases during a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Progress {
    /// The phase: `preparing`, `learning`, `certifying` or `done`.
    pub phase: String,
    /// The share of the job that is done.
    pub fraction: f64,
    /// The current epoch; null in phases without epochs.
    pub epoch: Option<u64>,
    /// The number of epochs; null in phases without epochs.
    pub epochs: Option<u64>,
    /// The best value of the bound so far, in the paper's units.
    pub bound: Option<f64>,
}

impl Progress {
    /// Progress within a phase that has no epochs.
    pub fn phase(phase: &str, fraction: f64) -> Self {
        Progress { phase: phase.into(), fraction, epoch: None, epochs: None, bound: None }
    }
}

/// Why learning ended. In each case the policy can be certified: a bound holds for any policy, whether
/// learning converged or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TerminationReason {
    /// The bound no longer decreased.
    Converged,
    /// The maximum number of epochs was reached.
    EpochBudget,
    /// `max_seconds` passed.
    TimeBudget,
}

/// Reports progress, and tells the job when to stop.
pub struct Control<'a> {
    cancel: &'a AtomicBool,
    report: &'a (dyn Fn(Progress) + Sync),
    deadline: Option<Instant>,
    /// The part of the job's progress that the current phase covers.
    span: (f64, f64),
}

impl<'a> Control<'a> {
    /// A control that stops the job once `cancel` is true, and passes progress to `report`.
    pub fn new(cancel: &'a AtomicBool, report: &'a (dyn Fn(Progress) + Sync)) -> Self {
        Control { cancel, report, deadline: None, span: (0.0, 1.0) }
    }

    /// The same control, but learning ends once `budget` has passed.
    pub fn with_budget(&self, budget: Option<Duration>) -> Control<'a> {
        Control { deadline: budget.map(|b| Instant::now() + b), ..*self }
    }

    /// The same control for a phase that covers `[from, to]` of the current span.
    pub fn span(&self, from: f64, to: f64) -> Control<'a> {
        let width = self.span.1 - self.span.0;
        Control { span: (self.span.0 + from * width, self.span.0 + to * width), ..*self }
    }

    /// Returns an error if the job was canceled.
    ///
    /// # Errors
    /// `EngineError::Cancelled`.
    pub fn check(&self) -> Result<()> {
        if self.cancel.load(Ordering::Relaxed) { Err(EngineError::Cancelled) } else { Ok(()) }
    }

    /// Whether the time budget of learning is used up.
    pub fn out_of_time(&self) -> bool {
        self.deadline.is_some_and(|d| Instant::now() >= d)
    }

    /// Reports `progress`, whose fraction refers to the current span.
    pub fn report(&self, mut progress: Progress) {
        let within = progress.fraction.clamp(0.0, 1.0);
        progress.fraction = self.span.0 + (self.span.1 - self.span.0) * within;
        (self.report)(progress);
    }
}

/// A control for callers that neither follow progress nor cancel.
pub fn unattended() -> Control<'static> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    Control::new(&NEVER, &|_| {})
}
