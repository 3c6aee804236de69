//! The errors of the engine. A certificate exists only if every step returned `Ok`, so no error can end
//! in a `deploy`.

use serde::Serialize;

/// Why a spec or a policy is rejected. Clients branch on the snake_case names, so they are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpecCode {
    /// A value is out of range or malformed.
    InvalidValue,
    /// A policy's parameters are ragged, empty or not finite.
    InvalidPolicy,
    /// The bound needs the propensities of all actions.
    BoundNeedsFullPropensities,
    /// The bound needs one interaction per context.
    BoundNeedsSingleInteractions,
    /// The bound needs one fixed logging policy.
    BoundNeedsFixedLogging,
    /// The bound needs one fixed set of actions.
    BoundNeedsFixedActions,
    /// Something depends on the number of actions, which was not stated.
    ActionsNotStated,
    /// `looks: anytime` needs a bound that holds at every number of rows.
    LooksNeedAnytimeBound,
    /// The bound cannot learn with this prior.
    BoundCannotLearnHere,
    /// Learning needs features.
    LearningNeedsFeatures,
    /// The prior is `logging_policy`, but the dataset has no logging policy.
    PriorNeedsLoggingPolicy,
    /// A policy must be named.
    PolicyRequired,
    /// The named policy does not exist.
    UnknownPolicy,
    /// The policy was learned from the rows that it would be certified on.
    PolicyLearnedHere,
    /// The policy's number of actions or features differs from the dataset's.
    PolicyShapeMismatch,
    /// The dataset has no candidate of this name.
    UnknownCandidate,
    /// An `evaluate` job has no candidates.
    CandidatesRequired,
    /// The caller must attest that candidates are independent of the log.
    AttestationRequired,
    /// The field cannot be combined with the rest of the spec.
    NotForThisKind,
    /// Every row was seen by looks at other datasets that have it.
    NoFreshRows,
    /// `delta` and `family` are mutually exclusive.
    FamilyDeltaConflict,
    /// The dataset has no outcome of this name.
    UnknownOutcome,
    /// The dataset's outcome has no name.
    OutcomesNotNamed,
    /// The objective cannot be a guardrail too.
    GuardrailIsObjective,
    /// An outcome has two guardrails.
    GuardrailRepeated,
    /// There are more guardrails than a job may have.
    TooManyGuardrails,
}

/// A spec that cannot be run on this log, found before anything is computed.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[error("{field}: {message}")]
pub struct SpecError {
    /// The kind of error.
    pub code: SpecCode,
    /// The field of the spec, dotted.
    pub field: String,
    /// What is wrong and what would work instead.
    pub message: String,
}

impl SpecError {
    /// An error at `field`.
    pub fn new(code: SpecCode, field: impl Into<String>, message: impl Into<String>) -> Self {
        SpecError { code, field: field.into(), message: message.into() }
    }
}

/// A row that the engine rejects. Rows are counted from 1; 0 is the log as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[error("row {row}, {field}: {message}")]
pub struct RowError {
    /// The number of the row.
    pub row: u64,
    /// The field of the row.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

/// Any error of the engine.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// The spec cannot be run on this log.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A row is invalid.
    #[error(transparent)]
    Row(#[from] RowError),
    /// The log or another input cannot be read: a missing chunk, a changed digest.
    #[error("the log cannot be read: {0}")]
    Log(String),
    /// The storage of the log is unavailable. Nothing is known to be wrong with the log; a later attempt
    /// may succeed.
    #[error("the log cannot be read at the moment: {0}")]
    Unavailable(String),
    /// The caller canceled the job. This is not a failure.
    #[error("canceled")]
    Cancelled,
    /// A number that must be finite is not, or a check of the arithmetic failed.
    #[error("numerical failure: {0}")]
    Numerical(String),
}

/// The engine's result type.
pub type Result<T, E = EngineError> = std::result::Result<T, E>;

/// Returns the value, or an error if it is NaN or infinite, so that no such value reaches a decision.
pub fn finite(what: &str, value: f64) -> Result<f64> {
    if value.is_finite() { Ok(value) } else { Err(EngineError::Numerical(format!("{what} is {value}"))) }
}
