//! Why jobs fail.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The reason why a job failed, as a stable code for clients, metrics and alerts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// The engine rejected the inputs or could not compute a number.
    EngineError,
    /// The stored log is damaged, missing or unreachable.
    DatasetUnreadable,
    /// An object that has rows of a pinned dataset was changed, replaced or deleted.
    SourceChanged,
    /// The stored parameters of a policy are damaged, missing or unreachable.
    PolicyUnreadable,
    /// The job's own row in the database is damaged.
    JobUnreadable,
    /// The job would take more memory than is allowed.
    JobTooLarge,
    /// The job was submitted to an earlier release, whose spec lacks what this release needs. Submit it again.
    SpecOutdated,
    /// The computation stopped because of a bug.
    Panicked,
    /// The job was started `max_attempts` times without finishing.
    AttemptsExhausted,
}

impl FailureCode {
    /// The code as clients see it and as it is stored.
    pub fn name(self) -> &'static str {
        match self {
            FailureCode::EngineError => "engine_error",
            FailureCode::DatasetUnreadable => "dataset_unreadable",
            FailureCode::SourceChanged => "source_changed",
            FailureCode::PolicyUnreadable => "policy_unreadable",
            FailureCode::JobUnreadable => "job_unreadable",
            FailureCode::JobTooLarge => "job_too_large",
            FailureCode::SpecOutdated => "spec_outdated",
            FailureCode::Panicked => "panicked",
            FailureCode::AttemptsExhausted => "attempts_exhausted",
        }
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobFailure {
    /// A stable code.
    pub code: FailureCode,
    /// What went wrong.
    pub message: String,
}

impl JobFailure {
    /// A failure with a message for whoever reads the job.
    pub fn new(code: FailureCode, message: impl Into<String>) -> Self {
        JobFailure { code, message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_stored_and_served_by_their_names() {
        for code in [
            FailureCode::EngineError,
            FailureCode::DatasetUnreadable,
            FailureCode::SourceChanged,
            FailureCode::PolicyUnreadable,
            FailureCode::JobUnreadable,
            FailureCode::JobTooLarge,
            FailureCode::SpecOutdated,
            FailureCode::Panicked,
            FailureCode::AttemptsExhausted,
        ] {
            let text = serde_json::to_string(&JobFailure::new(code, "why")).unwrap();
            assert_eq!(text, format!("{{\"code\":\"{code}\",\"message\":\"why\"}}"));
            assert_eq!(serde_json::from_str::<JobFailure>(&text).unwrap().code, code);
        }
    }
}
