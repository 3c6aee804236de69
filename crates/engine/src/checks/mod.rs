//! Checks of a log against the assumptions of the guarantee (docs/math.md#checks).

use serde::{Deserialize, Serialize};

/// The name of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckName {
    /// The mean of 1/π0(a|x).
    Propensities,
    /// How often each action was logged.
    ActionCounts,
    /// The mean of π(a|x)/π0(a|x) of a candidate.
    CandidateWeights,
    /// The stated risk of the logging policy.
    KnownBaseline,
    /// Whether the log changed over time.
    Drift,
    /// Whether the number of rows of a context depends on its actions.
    Repetitions,
}

/// The rows that a check was made on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckScope {
    /// All rows, at upload.
    Log,
    /// The certified rows, in the job.
    CertifiedRows,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CheckResult {
    /// The name of the check.
    pub name: CheckName,
    /// The candidate or the action that the check is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The rows that the check was made on.
    pub scope: CheckScope,
    /// Whether the log passed.
    pub ok: bool,
    /// What was observed.
    pub observed: f64,
    /// What was expected.
    pub expected: f64,
    /// The evidence against the assumption.
    pub evidence: f64,
    /// The check fails if the evidence is at least 1/level.
    pub level: f64,
    /// The number of rows that were checked.
    pub rows: u64,
    /// What was found and, if the check failed, how to fix the logging.
    pub message: String,
}

impl CheckName {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            CheckName::Propensities => "propensities",
            CheckName::ActionCounts => "action_counts",
            CheckName::CandidateWeights => "candidate_weights",
            CheckName::KnownBaseline => "known_baseline",
            CheckName::Drift => "drift",
            CheckName::Repetitions => "repetitions",
        }
    }
}
