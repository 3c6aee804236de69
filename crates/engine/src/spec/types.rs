//! The fields of a spec: as the caller sends them, and resolved.

use serde::{Deserialize, Serialize};

use super::outcomes::{Amount, Guardrail, GuardrailRequest};
use crate::checks::CheckName;
use crate::log::Logging;

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Learn a policy from the log and certify it.
    Learn,
    /// Certify candidates that already exist.
    Evaluate,
}

/// The bound that a job certifies with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BoundKind {
    /// `learn`: a split and the betting bound (docs/math.md#auto). `evaluate`: the betting bound.
    Auto,
    /// London–Sandler's bound (docs/math.md#london-sandler).
    LondonSandler,
    /// Catoni's bound (docs/math.md#catoni).
    Catoni,
    /// The conditional Bernstein bound (docs/math.md#cbb).
    Cbb,
    /// Implicit exploration (docs/math.md#ix).
    Ix,
    /// The betting bound on the risk, without a control variate.
    LogSmoothing,
    /// The betting bound (docs/math.md#betting).
    Betting,
}

impl BoundKind {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            BoundKind::Auto => "auto",
            BoundKind::LondonSandler => "london_sandler",
            BoundKind::Catoni => "catoni",
            BoundKind::Cbb => "cbb",
            BoundKind::Ix => "ix",
            BoundKind::LogSmoothing => "log_smoothing",
            BoundKind::Betting => "betting",
        }
    }
}

/// The form of a learned policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PolicyClass {
    /// Argmax of linear scores with independent Gaussian weights (docs/math.md#lig).
    Lig,
    /// Softmax averaged over Gaussian weights (docs/math.md#mixed-logit).
    MixedLogit,
}

/// Where the prior of a learned policy comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PriorKind {
    /// The dataset's logging policy.
    LoggingPolicy,
    /// A Gaussian with mean 0, which plays uniformly.
    Zero,
    /// A stored policy.
    Policy,
    /// A policy learned on the learn side of a split; the bound uses the certify side only.
    Split,
}

/// The prior as the caller sends it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PriorRequest {
    /// Where the prior comes from.
    pub kind: Option<PriorKind>,
    /// The stored policy (kind `policy`).
    pub policy_id: Option<String>,
    /// Share of the contexts on the learn side (kind `split`).
    #[cfg_attr(feature = "schema", schema(minimum = 0.01, maximum = 0.99))]
    pub fraction: Option<f64>,
    /// σ0, the standard deviation of the prior's Gaussian.
    #[cfg_attr(feature = "schema", schema(minimum = 1e-6, maximum = 1e6))]
    pub scale: Option<f64>,
}

/// The prior, resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Prior {
    /// Where the prior comes from.
    pub kind: PriorKind,
    /// The stored policy (kind `policy`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_id: Option<String>,
    /// Share of the contexts on the learn side (kind `split`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// σ0, the standard deviation of the prior's Gaussian.
    pub scale: f64,
}

/// Where R(π0) comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BaselineKind {
    /// Bounded from the log, as part of the guarantee.
    Certified,
    /// Stated by the caller.
    Known,
    /// The mean logged cost, taken as exact. This is not a full guarantee.
    PointEstimate,
}

/// The baseline that the improvement is measured against. `risk` is in the paper's units, [-1, 0], and
/// is required for `known` only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// Where R(π0) comes from.
    pub kind: BaselineKind,
    /// The known risk R(π0), in the paper's units (kind `known`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<f64>,
}

/// A policy that an `evaluate` job certifies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Candidate {
    /// A policy whose propensities the log carries under this name.
    Logged {
        /// The candidate's name in the log.
        name: String,
    },
    /// A stored policy.
    Policy {
        /// The id of the policy.
        policy_id: String,
    },
}

impl Candidate {
    /// The candidate's name on certificates: `logged:NAME` or `policy:ID`.
    pub fn label(&self) -> String {
        match self {
            Candidate::Logged { name } => format!("logged:{name}"),
            Candidate::Policy { policy_id } => format!("policy:{policy_id}"),
        }
    }
}

/// How a policy is learned: quickly, or as in the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// L-BFGS on all rows.
    Fast,
    /// Adam on batches.
    Paper,
}

/// The optimizer's settings as the caller sends them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OptimizerRequest {
    /// How the policy is learned.
    pub preset: Option<Preset>,
    /// The maximum number of passes over all rows.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 100000))]
    pub epochs: Option<u64>,
    /// The step size of Adam (preset `paper`).
    #[cfg_attr(feature = "schema", schema(minimum = 1e-9, maximum = 10))]
    pub learning_rate: Option<f64>,
    /// The number of contexts per minibatch, rounded up to whole chunks of the log (preset `paper`).
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1000000000))]
    pub batch_size: Option<u64>,
    /// The time in seconds after which learning ends; the policy found so far is certified.
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 86400))]
    pub max_seconds: Option<f64>,
}

/// The optimizer's settings, resolved. An absent setting has the preset's value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Optimizer {
    /// How the policy is learned.
    pub preset: Preset,
    /// The maximum number of passes over all rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// The step size of Adam (preset `paper`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<f64>,
    /// The number of contexts per minibatch, rounded up to whole chunks of the log (preset `paper`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<u64>,
    /// The time in seconds after which learning ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<f64>,
}

/// A number of looks at one dataset, announced in advance, that share one δ equally.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// δ of all looks together.
    #[cfg_attr(feature = "schema", schema(minimum = 1e-12, maximum = 0.999))]
    pub delta: f64,
    /// The maximum number of looks; each gets `delta`/`looks`.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 10000))]
    pub looks: u64,
}

/// Which rows a later look at a dataset certifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Looks {
    /// Only rows that no certificate of an earlier version of the dataset has seen. Older rows are learned
    /// from.
    Once,
    /// All rows, with a bound that holds at every number of rows at once. Looks after appends share one δ.
    Anytime,
}

/// What a certified policy explores with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExploreWith {
    /// Every action with the same probability.
    Uniform,
    /// The dataset's stored logging policy.
    LoggingPolicy,
}

/// How much a learned policy explores: it plays another policy with probability `share`. The mixture is what
/// is certified, stored and served.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Explore {
    /// The probability with which the other policy is played.
    pub share: f64,
    /// The other policy.
    pub with: ExploreWith,
}

/// Exploration as the caller sends it: a share, or a share and what to explore with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum ExploreRequest {
    /// The share of the uniform policy.
    Share(f64),
    /// The share, and what to explore with.
    Policy(ExplorePolicy),
}

/// Exploration with a named policy, as the caller sends it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ExplorePolicy {
    /// The probability with which the other policy is played. The default is 0.02.
    pub share: Option<f64>,
    /// The other policy. The default is `uniform`.
    pub with: Option<ExploreWith>,
}

/// A job's spec as the caller sends it, without the fields of the service (dataset, metadata).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SpecRequest {
    /// What the job does.
    pub kind: Option<JobKind>,
    /// The bound that the job certifies with.
    pub bound: Option<BoundKind>,
    /// The probability, at most, that the certificate is wrong.
    #[cfg_attr(feature = "schema", schema(minimum = 1e-12, maximum = 0.999))]
    pub delta: Option<f64>,
    /// The family that this look belongs to; mutually exclusive with `delta`.
    pub family: Option<Family>,
    /// The clipping level: propensities below it are replaced by it in weights.
    #[cfg_attr(feature = "schema", schema(minimum = 1e-9, maximum = 1))]
    pub tau: Option<f64>,
    /// The control variate of `cbb` and `betting`.
    #[cfg_attr(feature = "schema", schema(minimum = -1, maximum = 0))]
    pub xi: Option<f64>,
    /// The form of the learned policy (kind `learn`).
    pub policy_class: Option<PolicyClass>,
    /// The prior of the learned policy (kind `learn`).
    pub prior: Option<PriorRequest>,
    /// The baseline that the improvement is measured against.
    pub baseline: Option<Baseline>,
    /// The policies to certify (kind `evaluate`).
    pub candidates: Option<Vec<Candidate>>,
    /// The caller's statement that no candidate was learned from these rows.
    pub independent_of_log: Option<bool>,
    /// The improvement that must be exceeded for `deploy`: a number in the paper's units, or a value with its unit.
    pub min_improvement: Option<Amount>,
    /// The outcome that must improve, if the dataset's outcomes have names. The default is the first one. Learning
    /// optimizes it alone.
    pub objective: Option<String>,
    /// Outcomes that must not get much worse, at most 8. They are certified, and not learned from.
    #[cfg_attr(feature = "schema", schema(max_items = 8))]
    pub guardrails: Option<Vec<GuardrailRequest>>,
    /// The traffic from which the plan of a keep computes days. The default is that of the log's timestamps.
    #[cfg_attr(feature = "schema", schema(minimum = 1e-6, maximum = 1e12))]
    pub rows_per_day: Option<f64>,
    /// Which rows a later look certifies. The default is `once`.
    pub looks: Option<Looks>,
    /// How much the learned policy explores (kind `learn`). The default is 0.02 of the uniform policy; with 0,
    /// the log of the policy can hardly be certified again.
    pub explore: Option<ExploreRequest>,
    /// Checks that may fail without causing `keep`. The certificate names them and the key that accepted them.
    pub accept: Option<Vec<CheckName>>,
    /// The optimizer's settings (kind `learn`).
    pub optimizer: Option<OptimizerRequest>,
    /// The seed of all random choices.
    #[cfg_attr(feature = "schema", schema(maximum = 9007199254740991i64))]
    pub seed: Option<u64>,
}

/// A job's spec with every default filled in. `SpecRequest::resolve` returns it, and only resolved specs are
/// stored and run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobSpec {
    /// What the job does.
    pub kind: JobKind,
    /// The bound that the job certifies with.
    pub bound: BoundKind,
    /// The probability, at most, that the certificate is wrong.
    pub delta: f64,
    /// The family that `delta` is a share of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// The clipping level.
    pub tau: f64,
    /// The control variate. If absent, `cbb` uses −½, and `auto` and `betting` choose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xi: Option<f64>,
    /// The form of the learned policy (kind `learn`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_class: Option<PolicyClass>,
    /// The prior of the learned policy (kind `learn`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prior: Option<Prior>,
    /// The baseline that the improvement is measured against.
    pub baseline: Baseline,
    /// The policies to certify (kind `evaluate`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// The caller's statement that no candidate was learned from these rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub independent_of_log: Option<bool>,
    /// The improvement, in the paper's units, that must be exceeded for `deploy`.
    pub min_improvement: f64,
    /// The outcome that must improve; absent if the dataset's outcome has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// Outcomes that must not get much worse, in the order of the dataset's outcomes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<Guardrail>,
    /// The traffic from which the plan of a keep computes days, if the caller stated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_per_day: Option<f64>,
    /// How the dataset was logged; absent in specs of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<Logging>,
    /// Which rows a later look certifies; absent in specs of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looks: Option<Looks>,
    /// How many rows certificates of earlier versions have seen. They are learned from and not certified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_rows: Option<u64>,
    /// How much the learned policy explores (kind `learn`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explore: Option<Explore>,
    /// Checks that may fail without causing `keep`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<CheckName>,
    /// Who accepted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_by: Option<String>,
    /// The optimizer's settings (kind `learn`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<Optimizer>,
    /// The seed of all random choices.
    pub seed: u64,
}

impl JobSpec {
    /// The share of the contexts that are learned from, if the prior needs a split.
    pub fn fraction(&self) -> Option<f64> {
        self.prior.as_ref()?.fraction
    }

    /// Whether the dataset's rows are treated as those of one fixed policy.
    pub fn is_fixed(&self) -> bool {
        self.logging == Some(Logging::Fixed)
    }

    /// Whether the job is `auto` with a split. With few contexts, `auto` is the betting bound from the
    /// prior `zero` instead.
    pub fn is_automatic(&self) -> bool {
        self.bound == BoundKind::Auto && self.fraction().is_some()
    }

    /// Whether the improvement is bounded directly (κ = 1), without a bound on R(π0).
    pub fn bounds_improvement(&self) -> bool {
        self.baseline.kind == BaselineKind::Certified
            && matches!(self.bound, BoundKind::Auto | BoundKind::Betting)
    }

    /// Whether the event of the spec holds at every number of rows, provided that each context was logged once:
    /// everything that its bounds minimize over was fixed before the first row was seen.
    pub fn holds_at_every_n(&self) -> bool {
        let bound = match self.bound {
            // For given policies, `auto` is the betting bound on its fixed grid. For `learn` it is a split, in
            // which the rows of the learn side choose λ, τ, the cost model and the policy.
            BoundKind::Betting => true,
            BoundKind::Auto => self.kind == JobKind::Evaluate,
            // A certified baseline of a fixed log needs a bound on R(π0) that holds at one n only.
            BoundKind::LogSmoothing => self.baseline.kind != BaselineKind::Certified,
            BoundKind::LondonSandler | BoundKind::Catoni | BoundKind::Cbb | BoundKind::Ix => false,
        };
        let prior = match &self.prior {
            None => self.kind == JobKind::Evaluate,
            Some(prior) => {
                matches!(prior.kind, PriorKind::LoggingPolicy | PriorKind::Zero | PriorKind::Policy)
            }
        };
        bound && prior
    }
}
