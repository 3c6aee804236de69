//! The certificate's fields. Names are the API's; the order is the order that people read in.

use serde::{Deserialize, Serialize};

use crate::control::TerminationReason;
use crate::cost_model::ScoreCalibration;
use crate::log::{Outcome, Split};
use crate::policy::{PolicyKind, PolicyParams};
use crate::spec::{BaselineKind, JobSpec};
use crate::terms::Terms;

pub const FORMAT: &str = "guarantor.certificate/1";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Deploy,
    Keep,
}

impl Decision {
    pub fn name(self) -> &'static str {
        match self {
            Decision::Deploy => "deploy",
            Decision::Keep => "keep",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Reason {
    pub code: String,
    pub message: String,
}

/// R(π0) in the paper's units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BaselineRisk {
    pub kind: BaselineKind,
    /// The mean logged cost, or the caller's number when `known`.
    pub estimate: f64,
    /// None where the improvement is bounded directly and no separate bound on R(π0) was drawn.
    pub lower_bound: Option<f64>,
}

/// The numbers in the units of the dataset's outcome. Improvements are positive when better.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UserUnits {
    pub outcome: Outcome,
    /// Worst expected outcome of the certified policy: an upper bound on cost, a lower one on reward.
    pub guaranteed_outcome: f64,
    pub guaranteed_improvement: f64,
    pub baseline_outcome: f64,
}

/// One probabilistic event that the certificate relies on, with its terms, so that a reader can add
/// them up. `value` bounds `quantity` from above (below for `baseline_risk`), slack not yet added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BoundRecord {
    /// Names the event in `delta_accounting`.
    pub event: String,
    /// `risk`, `improvement` (R(π) − R(π0)) or `baseline_risk`.
    pub quantity: String,
    /// The candidate it speaks of, or `learned`.
    pub subject: String,
    /// The bound's name.
    pub bound: String,
    pub value: f64,
    pub delta: f64,
    pub terms: Terms,
    /// Whether the certificate's numbers rest on it.
    pub used: bool,
}

/// A part of δ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DeltaShare {
    pub event: String,
    pub share: f64,
    pub what: String,
}

/// A candidate's own numbers (kind `evaluate`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CandidateResult {
    pub candidate: String,
    /// Digest of the policy's parameters, or of nothing where the log carries the candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_digest: Option<String>,
    pub decision: Decision,
    pub guaranteed_risk: f64,
    pub guaranteed_improvement: f64,
    /// The plain importance-weighted estimate, no guarantee.
    pub estimated_risk: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DatasetRecord {
    pub version: u64,
    pub digest: String,
    pub rows: u64,
    pub contexts: u64,
    pub n_actions: usize,
    pub dim: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PolicyRecord {
    pub kind: PolicyKind,
    pub digest: String,
    pub n_actions: usize,
    pub dim: usize,
}

/// How the policy was found. It matters to nobody's guarantee, only to repeating it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LearningRecord {
    pub termination: TerminationReason,
    pub iterations: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// What `auto` chose and why, one sentence each.
    pub choices: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Certificate {
    pub format: String,
    pub statement: String,
    pub decision: Decision,
    pub reasons: Vec<Reason>,
    /// Upper bound on the policy's risk in the paper's units, slack included.
    pub guaranteed_risk: f64,
    /// Lower bound on R(π0) − R(π), slack included.
    pub guaranteed_improvement: f64,
    pub min_improvement: f64,
    /// 1 − δ.
    pub confidence: f64,
    pub numerical_slack: f64,
    pub baseline_risk: BaselineRisk,
    pub user_units: UserUnits,
    /// Empty for kind `learn`.
    pub candidates: Vec<CandidateResult>,
    pub bounds: Vec<BoundRecord>,
    pub delta_accounting: Vec<DeltaShare>,
    pub dataset: DatasetRecord,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prior_digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_model_digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning: Option<LearningRecord>,
    pub assumptions: Vec<String>,
    pub attestations: Vec<String>,
    pub engine_version: String,
    pub seed: u64,
    pub spec: JobSpec,
    /// SHA-256 over the canonical form of everything above.
    pub digest: String,
}

/// What a certificate was computed from besides the log: stored with the job, named in the
/// certificate by digest, and all that `verify` needs to compute it again.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// The learned policy (kind `learn`): the one that the certificate speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyParams>,
    /// The prior's Gaussian, on the features of the policy that it is the prior of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior: Option<PriorEvidence>,
    /// `auto`: the policy of the first part, certified as given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<DirectEvidence>,
    /// `auto`: the policy refined on the second part, where it is not the one above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refined: Option<PolicyParams>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PriorEvidence {
    pub mean: Vec<Vec<f64>>,
    pub scale: f64,
}

/// What the first part of a split fixed for the second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectEvidence {
    /// None where it is `Evidence::policy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyParams>,
    /// How the policy's scores are read as costs; None without π0(·|x).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<ScoreCalibration>,
    pub tau: f64,
    pub improvement_lambda: f64,
    pub risk_lambda: f64,
}

/// One line of what `verify` looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Check {
    pub name: String,
    pub ok: bool,
    pub detail: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Verification {
    pub valid: bool,
    pub checks: Vec<Check>,
}
