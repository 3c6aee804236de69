//! The errors of the engine. A certificate exists only if every step returned `Ok`, so no error can end
//! in a `deploy`.

use serde::Serialize;

/// A spec that cannot be run on this log. It is rejected before anything is computed.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[error("{field}: {message}")]
pub struct SpecError {
    /// Stable and snake_case; one of the codes in `spec.rs`.
    pub code: &'static str,
    /// The field of the spec, dotted.
    pub field: String,
    /// What is wrong and what would work instead.
    pub message: String,
}

impl SpecError {
    /// An error at a field.
    pub fn new(code: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
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
