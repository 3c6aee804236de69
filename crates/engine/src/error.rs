//! What can go wrong in the core, as data. None of these can read "deploy": a certificate exists
//! only where every step returned `Ok`.

use serde::Serialize;

/// Why a spec or a policy is rejected. Clients branch on the snake_case names, so they are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpecCode {
    /// A value is out of range or of the wrong form.
    InvalidValue,
    /// A policy's parameters are ragged, empty or not finite.
    InvalidPolicy,
    /// The bound needs the propensities of all actions.
    BoundNeedsFullPropensities,
    /// The bound needs one interaction per context.
    BoundNeedsSingleInteractions,
    /// The bound cannot learn with this prior.
    BoundCannotLearnHere,
    /// Learning needs features.
    LearningNeedsFeatures,
    /// The prior is the logging policy, and the dataset has none.
    PriorNeedsLoggingPolicy,
    /// A policy must be named.
    PolicyRequired,
    /// The policy that is named does not exist.
    UnknownPolicy,
    /// The policy was learned from the rows that it would be certified on.
    PolicyLearnedHere,
    /// The policy has other actions or features than the dataset.
    PolicyShapeMismatch,
    /// The dataset has no candidate of this name.
    UnknownCandidate,
    /// An evaluation without candidates.
    CandidatesRequired,
    /// The caller must attest that candidates are independent of the log.
    AttestationRequired,
    /// The field cannot be combined with the rest of the spec.
    NotForThisKind,
    /// `delta` and `family` are mutually exclusive.
    FamilyDeltaConflict,
}

/// A spec that cannot be run on this log, found before anything is computed.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[error("{field}: {message}")]
pub struct SpecError {
    /// What kind of error it is.
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

/// A row (1-based) that the engine refuses.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[error("row {row}, {field}: {message}")]
pub struct RowError {
    pub row: u64,
    pub field: String,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Row(#[from] RowError),
    /// The log could not be read (a missing chunk, a changed digest).
    #[error("the log cannot be read: {0}")]
    Log(String),
    /// What keeps the log is away; nothing is wrong with the log itself, and later it may be read.
    #[error("the log cannot be read at the moment: {0}")]
    Unavailable(String),
    /// The caller raised the cancel flag. Distinct from failure: nothing is wrong with the inputs.
    #[error("cancelled")]
    Cancelled,
    /// A number that must be finite is not, or a check of the arithmetic itself did not hold.
    #[error("numerical failure: {0}")]
    Numerical(String),
}

pub type Result<T, E = EngineError> = std::result::Result<T, E>;

/// NaN and infinities are explicit errors, never values that flow on into a decision.
pub fn finite(what: &str, value: f64) -> Result<f64> {
    if value.is_finite() { Ok(value) } else { Err(EngineError::Numerical(format!("{what} is {value}"))) }
}
