//! Why a certificate decided as it did: the verdict, and what caused it, with the numbers that show it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::checks::CheckName;

/// Why a certificate decided as it did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Reason {
    /// The stable code of the reason.
    pub code: ReasonCode,
    /// The reason as a sentence.
    pub message: String,
    /// The numbers of the sentence, by name; left out if there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, f64>,
    /// The outcome that the reason is about, if it is about one by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

impl Reason {
    /// A reason without numbers.
    pub fn new(code: ReasonCode, message: impl Into<String>) -> Self {
        Reason { code, message: message.into(), numbers: BTreeMap::new(), outcome: None }
    }

    /// The reason with these numbers. A number that is not finite is left out: no document could hold it.
    #[must_use]
    pub fn with_numbers(mut self, numbers: &[(&str, f64)]) -> Self {
        let finite = numbers.iter().filter(|(_, value)| value.is_finite());
        self.numbers.extend(finite.map(|(name, value)| ((*name).to_owned(), *value)));
        self
    }
}

/// The stable code of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReasonCode {
    /// Deploy: the guaranteed improvement exceeds `min_improvement`.
    ImprovementGuaranteed,
    /// Keep: the guaranteed improvement is positive, but not above `min_improvement`.
    ImprovementBelowMinimum,
    /// Keep: no improvement can be guaranteed.
    ImprovementNotGuaranteed,
    /// Keep: the bound exceeds what any policy can gain, so the logged propensities must be wrong.
    GuaranteeImpossible,
    /// The baseline is an estimate, so this is not a full guarantee.
    BaselineNotCertified,
    /// Keep: the mean of 1/propensity does not fit the number of actions.
    #[serde(rename = "log_check_failed:propensities")]
    PropensitiesCheckFailed,
    /// Keep: an action was logged more or less often than its propensities say.
    #[serde(rename = "log_check_failed:action_counts")]
    ActionCountsCheckFailed,
    /// Keep: the candidate's probabilities are not those of the logged actions.
    #[serde(rename = "log_check_failed:candidate_weights")]
    CandidateWeightsCheckFailed,
    /// Keep: the log contradicts the stated risk of the logging policy.
    #[serde(rename = "log_check_failed:known_baseline")]
    KnownBaselineCheckFailed,
    /// Keep: the log changed over time, although it was stated to be of one policy and one distribution.
    #[serde(rename = "log_check_failed:drift")]
    DriftCheckFailed,
    /// Keep: how often a context was logged depends on its actions, although it was stated to be designed.
    #[serde(rename = "log_check_failed:repetitions")]
    RepetitionsCheckFailed,
    /// A check failed, and the caller accepted that.
    CheckAccepted,
    /// Keep: the bound is above the policy's own estimate, so the log gives no reason to believe it.
    GuaranteeExceedsEstimate,
    /// Cause: the log always plays the same action where the policy plays another, so no number of rows helps.
    DeterministicLog,
    /// Cause: the estimated improvement is not above `min_improvement`.
    PolicyNoBetter,
    /// Cause: the log hardly explores what the policy plays.
    TooLittleOverlap,
    /// Cause: the estimate is good enough, but there are too few rows to be sure of it.
    TooFewRows,
    /// Cause: probabilities were read as rounded, which costs much of the guarantee.
    RoundedPropensities,
    /// Cause: the separate bound on the logging policy's risk is too wide.
    BaselineTooWide,
    /// Keep: the loss in the outcome of a guardrail may exceed its limit.
    GuardrailNotGuaranteed,
    /// Keep: the loss in the outcome of a guardrail exceeds its limit, according to its estimate.
    GuardrailViolated,
}

impl From<CheckName> for ReasonCode {
    fn from(check: CheckName) -> Self {
        match check {
            CheckName::Propensities => ReasonCode::PropensitiesCheckFailed,
            CheckName::ActionCounts => ReasonCode::ActionCountsCheckFailed,
            CheckName::CandidateWeights => ReasonCode::CandidateWeightsCheckFailed,
            CheckName::KnownBaseline => ReasonCode::KnownBaselineCheckFailed,
            CheckName::Drift => ReasonCode::DriftCheckFailed,
            CheckName::Repetitions => ReasonCode::RepetitionsCheckFailed,
        }
    }
}

impl ReasonCode {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ReasonCode::ImprovementGuaranteed => "improvement_guaranteed",
            ReasonCode::ImprovementBelowMinimum => "improvement_below_minimum",
            ReasonCode::ImprovementNotGuaranteed => "improvement_not_guaranteed",
            ReasonCode::GuaranteeImpossible => "guarantee_impossible",
            ReasonCode::BaselineNotCertified => "baseline_not_certified",
            ReasonCode::PropensitiesCheckFailed => "log_check_failed:propensities",
            ReasonCode::ActionCountsCheckFailed => "log_check_failed:action_counts",
            ReasonCode::CandidateWeightsCheckFailed => "log_check_failed:candidate_weights",
            ReasonCode::KnownBaselineCheckFailed => "log_check_failed:known_baseline",
            ReasonCode::DriftCheckFailed => "log_check_failed:drift",
            ReasonCode::RepetitionsCheckFailed => "log_check_failed:repetitions",
            ReasonCode::CheckAccepted => "check_accepted",
            ReasonCode::GuaranteeExceedsEstimate => "guarantee_exceeds_estimate",
            ReasonCode::DeterministicLog => "deterministic_log",
            ReasonCode::PolicyNoBetter => "policy_no_better",
            ReasonCode::TooLittleOverlap => "too_little_overlap",
            ReasonCode::TooFewRows => "too_few_rows",
            ReasonCode::RoundedPropensities => "rounded_propensities",
            ReasonCode::BaselineTooWide => "baseline_too_wide",
            ReasonCode::GuardrailNotGuaranteed => "guardrail_not_guaranteed",
            ReasonCode::GuardrailViolated => "guardrail_violated",
        }
    }
}
