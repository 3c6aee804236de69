//! What can go wrong in the core, as data. None of these can read "deploy": a certificate exists
//! only where every step returned `Ok`.

use serde::Serialize;

/// A job specification that cannot be run on this log. Decided before any compute.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[error("{field}: {message}")]
pub struct SpecError {
    /// Stable and snake_case; one of the codes in `spec.rs`.
    pub code: &'static str,
    /// The field of the specification, dotted.
    pub field: String,
    /// What is wrong and what would work instead.
    pub message: String,
}

impl SpecError {
    pub fn new(code: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
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
