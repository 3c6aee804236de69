//! The fields of a certificate, named as in the API and in the order in which people read them.

use serde::{Deserialize, Serialize};

use super::{Breakdown, CandidateUnits, GuardrailResult, MergedRecord, Reason, UserUnits};
use crate::checks::CheckResult;
use crate::control::TerminationReason;
use crate::log::{ActionSets, Logging, NamedOutcome, Span};
use crate::plan::Plan;
use crate::policy::PolicyKind;
use crate::spec::{BaselineKind, Explore, JobSpec};
use crate::terms::Terms;

/// The name of the document format.
pub const FORMAT: &str = "guarantor.certificate/1";

/// The version of the statistical method of this release. Only certificates of this method can be
/// recomputed. It changes whenever the same log and spec could give other numbers.
pub const METHOD: u32 = 6;

/// The first method that checked logs against the assumptions of the guarantee. Certificates of earlier ones open no
/// gate.
pub const FIRST_CHECKED_METHOD: u32 = 3;

/// The method of certificates that do not name theirs: those issued before the field existed.
const FIRST_METHOD: u32 = 1;

fn first_method() -> u32 {
    FIRST_METHOD
}

/// An absent `method` must stay absent, or the digest and the signature would change.
fn is_first_method(method: &u32) -> bool {
    *method == FIRST_METHOD
}

/// The first release that can recompute certificates of a method; None if the method is unknown.
pub fn release_of_method(method: u32) -> Option<&'static str> {
    match method {
        FIRST_METHOD => Some("0.1"),
        2 => Some("0.2"),
        3 => Some("0.3"),
        4 => Some("0.4"),
        5 => Some("0.6"),
        METHOD => Some("0.7"),
        _ => None,
    }
}

/// What a certificate recommends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The guaranteed improvement exceeds `min_improvement`, no guardrail's loss can exceed its limit, and no check
    /// failed that was not accepted.
    Deploy,
    /// Keep the logging policy.
    Keep,
}

impl Decision {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Decision::Deploy => "deploy",
            Decision::Keep => "keep",
        }
    }
}

/// R(π0), the risk of the logging policy, in the paper's units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BaselineRisk {
    /// Where the baseline comes from.
    pub kind: BaselineKind,
    /// The mean logged cost, or the caller's number if the kind is `known`.
    pub estimate: f64,
    /// The lower bound on R(π0); null if the improvement is bounded directly, without a separate bound on
    /// R(π0).
    pub lower_bound: Option<f64>,
}

/// One claim that the certificate relies on, with every term of its bound, so that a reader can add them
/// up. `value` bounds `quantity` from above (from below for `baseline_risk`), before numerical slack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BoundRecord {
    /// Names the claim's event in `delta_accounting`.
    pub event: String,
    /// The quantity that is bounded.
    pub quantity: BoundedQuantity,
    /// The candidate that the claim is about, `learned`, or `logging_policy`.
    pub subject: String,
    /// The name of the bound.
    pub bound: String,
    /// The bound on the quantity.
    pub value: f64,
    /// The claim's share of δ.
    pub delta: f64,
    /// The terms that the value was computed from.
    pub terms: Terms,
    /// Whether the certificate's results rest on this claim.
    pub used: bool,
    /// The outcome of the guardrail that the claim is for; absent if it is for the objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// What a claim bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BoundedQuantity {
    /// R(π), the policy's risk.
    Risk,
    /// R(π) − R(π0), minus the improvement.
    Improvement,
    /// R(π0), the risk of the logging policy.
    BaselineRisk,
    /// R(π) − R(π0) in the outcome of a guardrail.
    GuardrailLoss,
}

impl BoundedQuantity {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            BoundedQuantity::Risk => "risk",
            BoundedQuantity::Improvement => "improvement",
            BoundedQuantity::BaselineRisk => "baseline_risk",
            BoundedQuantity::GuardrailLoss => "guardrail_loss",
        }
    }
}

/// The policy that a claim is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About<'a> {
    /// The learned policy.
    Learned,
    /// A candidate, by its label.
    Candidate(&'a str),
    /// The logging policy.
    LoggingPolicy,
}

impl About<'_> {
    /// The event of a claim about this policy, as `delta_accounting` names it.
    pub fn event(self, quantity: BoundedQuantity) -> String {
        let quantity = quantity.name();
        match self {
            About::Learned => quantity.into(),
            About::Candidate(label) => format!("{quantity}:{label}"),
            About::LoggingPolicy => "baseline".into(),
        }
    }

    /// The event of a guardrail's claim about this policy.
    pub fn guardrail_event(self, outcome: &str) -> String {
        match self {
            About::Candidate(label) => format!("guardrail:{outcome}:{label}"),
            About::Learned | About::LoggingPolicy => format!("guardrail:{outcome}"),
        }
    }

    /// The policy as `BoundRecord::subject` names it.
    pub fn subject(self) -> String {
        match self {
            About::Learned => "learned".into(),
            About::Candidate(label) => label.into(),
            About::LoggingPolicy => "logging_policy".into(),
        }
    }
}

/// The share of δ of one event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DeltaShare {
    /// The name of the event.
    pub event: String,
    /// The part of δ that the event gets.
    pub share: f64,
    /// What holds outside of the event, as a sentence.
    pub what: String,
}

/// The results of one candidate (kind `evaluate`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CandidateResult {
    /// `policy:` and the policy's id, or `logged:` and the name in the log.
    pub candidate: String,
    /// Digest of the policy's parameters; absent if the log carries the candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_digest: Option<String>,
    /// What the certificate recommends for this candidate.
    pub decision: Decision,
    /// Why: the verdict, and what caused it. Certificates of methods 1 to 4 have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// Upper bound on the candidate's risk in the paper's units, slack included.
    pub guaranteed_risk: f64,
    /// Lower bound on the candidate's improvement R(π0) − R(π), slack included.
    pub guaranteed_improvement: f64,
    /// The importance-weighted estimate of the risk, without a guarantee.
    pub estimated_risk: f64,
    /// The bound's own estimate of the improvement, from which `breakdown` leads to the guarantee, without a guarantee itself;
    /// absent in certificates of methods 1 to 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_improvement: Option<f64>,
    /// The results in the units of the dataset's outcome; absent in certificates of methods 1 to 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_units: Option<CandidateUnits>,
    /// The results of the guardrails for this candidate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<GuardrailResult>,
}

/// The dataset that a certificate was computed from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DatasetRecord {
    /// The version of the dataset.
    pub version: u64,
    /// The digest of the dataset's rows.
    pub digest: String,
    /// The number of rows.
    pub rows: u64,
    /// The number of contexts.
    pub contexts: u64,
    /// The number of actions; that of the largest set if every row has its own actions.
    pub n_actions: usize,
    /// The number of features; 0 if the dataset has none, or if every row has its own actions.
    pub dim: usize,
    /// The features of requests and actions, if every row has its own actions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_sets: Option<ActionSets>,
    /// How the dataset was logged; absent in certificates of methods 1 and 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<Logging>,
    /// Whether the number of actions was stated, and not read off the logged actions; absent in certificates of
    /// methods 1 and 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actions_declared: Option<bool>,
    /// Whether contexts were logged more than once by design; absent in certificates of methods 1 and 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub designed_repetitions: Option<bool>,
    /// Whether the caller stated that actions were drawn with exactly the probabilities that were written; absent
    /// in certificates of methods 1 and 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_propensities: Option<bool>,
    /// All outcomes of the dataset, if they have names; first the primary one. The digest of the rows depends on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<NamedOutcome>,
}

/// The rows that the bounds were computed on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CertifiedRows {
    /// How they were chosen.
    pub span: Span,
    /// The number of rows.
    pub rows: u64,
    /// The number of contexts; equal to `rows` if every row is a decision of its own.
    pub contexts: u64,
    /// The improvement over the last quarter of these rows, if the logging policy may have changed over them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_quarter: Option<PeriodEstimate>,
}

/// An estimate over a part of the certified period. It is no part of the guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PeriodEstimate {
    /// The number of rows.
    pub rows: u64,
    /// The estimated improvement.
    pub improvement: f64,
    /// The lower end of its normal interval at the certificate's confidence.
    pub lower: f64,
    /// The upper end of that interval.
    pub upper: f64,
}

/// How much the certified policy explores, and what that costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Exploration {
    /// The share of exploration, and with what.
    #[serde(flatten)]
    pub explore: Explore,
    /// The estimated risk that exploration adds. It is no part of the guarantee.
    pub estimated_cost: f64,
    /// What to know about it, as a sentence.
    pub note: String,
}

/// The learned policy that a certificate is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PolicyRecord {
    /// The form of the policy.
    pub kind: PolicyKind,
    /// The digest of the policy's parameters.
    pub digest: String,
    /// The number of actions.
    pub n_actions: usize,
    /// The number of features of a context.
    pub dim: usize,
}

/// How the policy was learned. The guarantee does not depend on it; repeating the job does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LearningRecord {
    /// Why learning ended.
    pub termination: TerminationReason,
    /// The number of passes over all rows; for `auto`, plus the number of networks that were trained.
    pub iterations: u64,
    /// The rows that were learned from and those that were certified, if they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Span>,
    /// What `auto` chose and why, one sentence each.
    pub choices: Vec<String>,
}

/// A certificate: the decision, the guaranteed numbers and every term that they were computed from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Certificate {
    /// The name and version of the document format.
    pub format: String,
    /// The version of the statistical method; absent in certificates of method 1. Certificates of
    /// another method keep their digest and signature, but this release cannot recompute them.
    #[serde(default = "first_method", skip_serializing_if = "is_first_method")]
    pub method: u32,
    /// The result as a sentence.
    pub statement: String,
    /// What the certificate recommends.
    pub decision: Decision,
    /// Why the certificate decided as it did: first the verdict, then what caused it.
    pub reasons: Vec<Reason>,
    /// Upper bound on the policy's risk in the paper's units, slack included.
    pub guaranteed_risk: f64,
    /// Lower bound on R(π0) − R(π), slack included.
    pub guaranteed_improvement: f64,
    /// The improvement that the spec requires for `deploy`.
    pub min_improvement: f64,
    /// The probability, at least, that everything the certificate states is true: 1 − δ.
    pub confidence: f64,
    /// A bound on the numerical error, already taken off the guaranteed numbers.
    pub numerical_slack: f64,
    /// The risk of the logging policy.
    pub baseline_risk: BaselineRisk,
    /// The results in the units of the dataset's outcome.
    pub user_units: UserUnits,
    /// The outcome that must improve; absent if the dataset's outcome has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// The results of the guardrails, for the policy that the results above are about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<GuardrailResult>,
    /// How the estimated improvement becomes the guaranteed one; absent in certificates of methods 1 to 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breakdown: Option<Breakdown>,
    /// What would certify `min_improvement`, if the decision is `keep`. It is a forecast and no part of the guarantee.
    /// Absent in certificates of methods 1 to 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// The candidate that the results above are about, as `candidates` names it; absent for kind `learn`, and in
    /// certificates of methods 1 and 2. A candidate whose checks failed is not chosen if another one passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// The results of each candidate; empty for kind `learn`.
    pub candidates: Vec<CandidateResult>,
    /// The claims that the certificate makes, one entry each.
    pub bounds: Vec<BoundRecord>,
    /// The events with their shares of δ; the shares sum to δ.
    pub delta_accounting: Vec<DeltaShare>,
    /// The dataset that the certificate was computed from.
    pub dataset: DatasetRecord,
    /// The rows that the bounds were computed on; absent in certificates of methods 1 and 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certified: Option<CertifiedRows>,
    /// What the certificate was merged from; absent if it was computed from the rows themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<MergedRecord>,
    /// The checks of the log against the assumptions of the guarantee, on all rows and on the certified ones. A
    /// check that failed and was not accepted means `keep`. Certificates of methods 1 and 2 have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckResult>,
    /// The learned policy (kind `learn`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyRecord>,
    /// Digest of the prior's parameters (kind `learn`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prior_digest: Option<String>,
    /// Digest of the cost model, if one was used as control variate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_model_digest: Option<String>,
    /// How the policy was learned (kind `learn`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning: Option<LearningRecord>,
    /// How much the certified policy explores (kind `learn`); absent in certificates of methods 1 and 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exploration: Option<Exploration>,
    /// The conditions of the guarantee that the service cannot check in full.
    pub assumptions: Vec<String>,
    /// What the caller stated and the guarantee depends on.
    pub attestations: Vec<String>,
    /// The version of the engine that computed the certificate.
    pub engine_version: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// The job's spec, with every default filled in.
    pub spec: JobSpec,
    /// SHA-256 of the canonical form of all other fields, with stored policies named by their digests instead of
    /// their ids, and without the dataset's version: the same log, spec and seed have the same digest everywhere.
    pub digest: String,
}
