//! What a job is asked to do: the request as sent, its defaults, and the check against a log's
//! capabilities that turns it into a `JobSpec`. Only a `JobSpec` runs.

use serde::{Deserialize, Serialize};

use super::bound::{self, Needs};
use super::error::{SpecCode, SpecError};
use super::log::LogShape;
use super::policy::PolicyKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    Learn,
    Evaluate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BoundKind {
    Auto,
    LondonSandler,
    Catoni,
    Cbb,
    LogSmoothing,
    Betting,
}

impl BoundKind {
    pub fn name(self) -> &'static str {
        match self {
            BoundKind::Auto => "auto",
            BoundKind::LondonSandler => "london_sandler",
            BoundKind::Catoni => "catoni",
            BoundKind::Cbb => "cbb",
            BoundKind::LogSmoothing => "log_smoothing",
            BoundKind::Betting => "betting",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PolicyClass {
    Lig,
    MixedLogit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PriorKind {
    LoggingPolicy,
    Zero,
    Policy,
    Split,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PriorRequest {
    pub kind: Option<PriorKind>,
    pub policy_id: Option<String>,
    /// Share of the contexts that `split` learns on.
    pub fraction: Option<f64>,
    /// σ0 of the prior's Gaussian.
    pub scale: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Prior {
    pub kind: PriorKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    pub scale: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BaselineKind {
    Certified,
    Known,
    PointEstimate,
}

/// Where R(π0) comes from. `risk` is in the paper's units, [-1, 0], and goes with `known`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    pub kind: BaselineKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Candidate {
    /// Propensities that the log itself carries under this name.
    Logged { name: String },
    /// A stored policy.
    Policy { policy_id: String },
}

impl Candidate {
    pub fn label(&self) -> String {
        match self {
            Candidate::Logged { name } => format!("logged:{name}"),
            Candidate::Policy { policy_id } => format!("policy:{policy_id}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    Fast,
    Paper,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OptimizerRequest {
    pub preset: Option<Preset>,
    pub epochs: Option<u64>,
    pub learning_rate: Option<f64>,
    pub batch_size: Option<u64>,
    pub max_seconds: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Optimizer {
    pub preset: Preset,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<f64>,
}

/// Several looks at one dataset that share one δ evenly, announced beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// δ of all looks together.
    pub delta: f64,
    /// How many looks there may be; each gets `delta`/`looks`.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 10000))]
    pub looks: u64,
}

/// The specification as sent, without what belongs to the service (dataset, metadata).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SpecRequest {
    pub kind: Option<JobKind>,
    pub bound: Option<BoundKind>,
    pub delta: Option<f64>,
    /// In place of `delta`.
    pub family: Option<Family>,
    pub tau: Option<f64>,
    pub xi: Option<f64>,
    pub policy_class: Option<PolicyClass>,
    pub prior: Option<PriorRequest>,
    pub baseline: Option<Baseline>,
    pub candidates: Option<Vec<Candidate>>,
    pub independent_of_log: Option<bool>,
    pub min_improvement: Option<f64>,
    pub optimizer: Option<OptimizerRequest>,
    #[cfg_attr(feature = "schema", schema(maximum = 9007199254740991i64))]
    pub seed: Option<u64>,
}

/// The specification fully resolved. Made by `SpecRequest::resolve` and by reading back what that
/// stored; never by hand in the service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobSpec {
    pub kind: JobKind,
    pub bound: BoundKind,
    pub delta: f64,
    /// The family that `delta` is a share of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    pub tau: f64,
    /// The control variate. Left out, `cbb` takes −½ and `auto` and `betting` choose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xi: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_class: Option<PolicyClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prior: Option<Prior>,
    pub baseline: Baseline,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub independent_of_log: Option<bool>,
    pub min_improvement: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<Optimizer>,
    pub seed: u64,
}

/// What resolution must know of a stored policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyShape {
    pub kind: PolicyKind,
    pub n_actions: usize,
    pub dim: usize,
}

/// What resolution must know of the log and of the policies that a request may name.
pub struct SpecContext<'a> {
    pub shape: &'a LogShape,
    /// The dataset's parametric logging policy, where it has one.
    pub logging_policy: Option<PolicyShape>,
    pub policy: &'a dyn Fn(&str) -> Option<PolicyShape>,
}

/// Share of the contexts that `split` learns on, unless the request says otherwise: measured on
/// FashionMNIST above, on tabular logs of 500 to 5000 rows below.
fn default_fraction(contexts: u64) -> f64 {
    if contexts >= 10_000 { 0.6 } else { 0.4 }
}

/// With fewer contexts `auto` does not split: neither part could say anything.
pub const MIN_SPLIT: u64 = 20;

type Checked<T> = Result<T, SpecError>;

fn invalid<T>(field: &str, message: impl Into<String>) -> Checked<T> {
    Err(SpecError::new(SpecCode::InvalidValue, field, message))
}

fn within(field: &str, value: f64, ok: bool, range: &str) -> Checked<f64> {
    if ok { Ok(value) } else { invalid(field, format!("{value} is not in {range}")) }
}

impl SpecRequest {
    pub fn resolve(&self, context: &SpecContext) -> Checked<JobSpec> {
        let kind = self.kind.unwrap_or(match self.candidates {
            Some(_) => JobKind::Evaluate,
            None => JobKind::Learn,
        });
        let bound = self.bound.unwrap_or(BoundKind::Auto);
        let k = context.shape.n_actions as f64;
        let delta = self.resolve_delta()?;
        let tau = self.tau.unwrap_or(1.0 / k);
        within("tau", tau, tau > 0.0 && tau <= 1.0, "(0, 1]")?;
        let min_improvement = self.min_improvement.unwrap_or(0.0);
        within("min_improvement", min_improvement, (0.0..=1.0).contains(&min_improvement), "[0, 1]")?;
        check_bound(bound, context)?;
        let spec = JobSpec {
            kind,
            bound,
            delta,
            family: self.family,
            tau,
            xi: self.resolve_xi(bound, context)?,
            policy_class: None,
            prior: None,
            baseline: self.resolve_baseline()?,
            candidates: Vec::new(),
            independent_of_log: None,
            min_improvement,
            optimizer: None,
            seed: self.resolve_seed()?,
        };
        match kind {
            JobKind::Learn => self.resolve_learning(spec, context),
            JobKind::Evaluate => self.resolve_evaluation(spec, context),
        }
    }

    fn resolve_delta(&self) -> Checked<f64> {
        let in_range = |field: &str, delta: f64| within(field, delta, delta > 0.0 && delta < 1.0, "(0, 1)");
        match (self.delta, self.family) {
            (Some(_), Some(_)) => {
                let message = "goes without `family`, whose looks get delta/looks each; send one of the two";
                Err(SpecError::new(SpecCode::FamilyDeltaConflict, "delta", message))
            }
            (None, Some(Family { delta, looks })) => {
                within("family.looks", looks as f64, (1..=10_000).contains(&looks), "[1, 10000]")?;
                in_range("family.delta", delta)?;
                in_range("family.delta", delta / looks as f64)
            }
            (delta, None) => in_range("delta", delta.unwrap_or(0.05)),
        }
    }

    /// Certificates are digested and signed as JSON, whose numbers are exact up to 2^53.
    fn resolve_seed(&self) -> Checked<u64> {
        let seed = self.seed.unwrap_or(0);
        if seed < 1 << 53 { Ok(seed) } else { invalid("seed", format!("{seed} is not below 2^53")) }
    }

    fn resolve_xi(&self, bound: BoundKind, context: &SpecContext) -> Checked<Option<f64>> {
        let Some(xi) = self.xi else {
            return Ok((bound == BoundKind::Cbb).then_some(-0.5));
        };
        within("xi", xi, (-1.0..=0.0).contains(&xi), "[-1, 0]")?;
        if !matches!(bound, BoundKind::Cbb | BoundKind::Betting) {
            let message = format!("the bound {} has no control variate; leave xi out", bound.name());
            return Err(SpecError::new(SpecCode::NotForThisKind, "xi", message));
        }
        if xi < 0.0 && !context.shape.capabilities.full_propensities {
            let message = "a control variate below 0 needs π0(·|x) for all actions; use xi = 0 with \
                           betting, or log `propensities`";
            return Err(SpecError::new(SpecCode::BoundNeedsFullPropensities, "xi", message));
        }
        Ok(Some(xi + 0.0))
    }

    fn resolve_baseline(&self) -> Checked<Baseline> {
        let baseline =
            self.baseline.clone().unwrap_or(Baseline { kind: BaselineKind::Certified, risk: None });
        match (baseline.kind, baseline.risk) {
            (BaselineKind::Known, None) => invalid("baseline.risk", "`known` needs the risk that is known"),
            (BaselineKind::Known, Some(risk)) => {
                within("baseline.risk", risk, (-1.0..=0.0).contains(&risk), "[-1, 0], the paper's units")?;
                Ok(baseline)
            }
            (_, Some(_)) => invalid("baseline.risk", "goes with the kind `known` only"),
            (_, None) => Ok(baseline),
        }
    }

    fn resolve_learning(&self, mut spec: JobSpec, context: &SpecContext) -> Checked<JobSpec> {
        if !context.shape.capabilities.features {
            let message = "learning needs features `x`; without them, log candidates' propensities and \
                           send kind `evaluate`";
            return Err(SpecError::new(SpecCode::LearningNeedsFeatures, "kind", message));
        }
        if self.candidates.is_some() || self.independent_of_log.is_some() {
            let field = if self.candidates.is_some() { "candidates" } else { "independent_of_log" };
            return Err(SpecError::new(SpecCode::NotForThisKind, field, "goes with kind `evaluate`"));
        }
        spec.policy_class = Some(self.policy_class.unwrap_or(PolicyClass::Lig));
        if spec.bound == BoundKind::Auto && spec.policy_class == Some(PolicyClass::MixedLogit) {
            let message = "`auto` learns LIG policies; name a bound to learn a mixed logit";
            return Err(SpecError::new(SpecCode::NotForThisKind, "policy_class", message));
        }
        spec.prior = Some(self.resolve_prior(spec.bound, context)?);
        spec.optimizer = Some(self.resolve_optimizer()?);
        Ok(spec)
    }

    fn resolve_prior(&self, bound: BoundKind, context: &SpecContext) -> Checked<Prior> {
        let sent = self.prior.clone().unwrap_or_default();
        let parametric = context.logging_policy.is_some_and(|p| p.kind != PolicyKind::Uniform);
        let kind = sent.kind.unwrap_or(match (bound, &sent.policy_id) {
            (_, Some(_)) => PriorKind::Policy,
            (BoundKind::Auto, None) if context.shape.contexts < MIN_SPLIT => PriorKind::Zero,
            (BoundKind::Auto, None) => PriorKind::Split,
            _ if parametric => PriorKind::LoggingPolicy,
            _ => PriorKind::Split,
        });
        let scale = sent.scale.unwrap_or(1.0);
        within("prior.scale", scale, (1e-6..=1e6).contains(&scale), "[1e-6, 1e6]")?;
        match (kind, &sent.policy_id) {
            (PriorKind::Policy, None) => {
                return Err(SpecError::new(
                    SpecCode::PolicyRequired,
                    "prior.policy_id",
                    "kind `policy` needs it",
                ));
            }
            (PriorKind::Policy, Some(id)) => check_policy("prior.policy_id", id, true, context)?,
            (_, Some(_)) => return invalid("prior.policy_id", "goes with the kind `policy` only"),
            (_, None) => {}
        }
        if kind == PriorKind::LoggingPolicy && !parametric {
            let message = "the dataset has no softmax or LIG logging policy with features; use `split`, or \
                           attach one with `logging_policy_id` when uploading";
            return Err(SpecError::new(SpecCode::PriorNeedsLoggingPolicy, "prior.kind", message));
        }
        if bound == BoundKind::Auto && sent.kind.is_some_and(|kind| kind != PriorKind::Split) {
            let message = "`auto` is the split; name a bound to learn from another prior";
            return Err(SpecError::new(SpecCode::NotForThisKind, "prior.kind", message));
        }
        let fraction = match (kind, sent.fraction) {
            (PriorKind::Split, f) => {
                let f = f.unwrap_or(default_fraction(context.shape.contexts));
                Some(within("prior.fraction", f, (0.01..=0.99).contains(&f), "[0.01, 0.99]")?)
            }
            (_, Some(_)) => return invalid("prior.fraction", "goes with the kind `split` only"),
            (_, None) => None,
        };
        if kind == PriorKind::Split && context.shape.contexts < 2 {
            let message = "a split needs at least two contexts; use another prior";
            return Err(SpecError::new(SpecCode::BoundCannotLearnHere, "prior.kind", message));
        }
        Ok(Prior { kind, policy_id: sent.policy_id, fraction, scale })
    }

    fn resolve_optimizer(&self) -> Checked<Optimizer> {
        let sent = self.optimizer.clone().unwrap_or_default();
        if let Some(epochs) = sent.epochs {
            within("optimizer.epochs", epochs as f64, (1..=100_000).contains(&epochs), "[1, 100000]")?;
        }
        if let Some(rate) = sent.learning_rate {
            within("optimizer.learning_rate", rate, rate > 0.0 && rate <= 10.0, "(0, 10]")?;
        }
        if let Some(size) = sent.batch_size {
            within("optimizer.batch_size", size as f64, size >= 1, "[1, ∞)")?;
        }
        if let Some(seconds) = sent.max_seconds {
            within("optimizer.max_seconds", seconds, (0.0..=86_400.0).contains(&seconds), "[0, 86400]")?;
        }
        Ok(Optimizer {
            preset: sent.preset.unwrap_or(Preset::Fast),
            epochs: sent.epochs,
            learning_rate: sent.learning_rate,
            batch_size: sent.batch_size,
            max_seconds: sent.max_seconds,
        })
    }

    fn resolve_evaluation(&self, mut spec: JobSpec, context: &SpecContext) -> Checked<JobSpec> {
        for (field, sent) in [
            ("policy_class", self.policy_class.is_some()),
            ("prior", self.prior.is_some()),
            ("optimizer", self.optimizer.is_some()),
        ] {
            if sent {
                return Err(SpecError::new(SpecCode::NotForThisKind, field, "goes with kind `learn`"));
            }
        }
        let candidates = self.candidates.clone().unwrap_or_default();
        if candidates.is_empty() || candidates.len() > 1000 {
            let message = "name between 1 and 1000 candidates: {\"kind\": \"logged\", \"name\"} or \
                           {\"kind\": \"policy\", \"policy_id\"}";
            return Err(SpecError::new(SpecCode::CandidatesRequired, "candidates", message));
        }
        for (i, candidate) in candidates.iter().enumerate() {
            check_candidate(i, candidate, &spec, context)?;
            if candidates[..i].contains(candidate) {
                return invalid(&format!("candidates[{i}]"), "is named twice");
            }
        }
        if self.independent_of_log != Some(true) {
            let message = "must be true: your word that no candidate was learned from these rows, printed \
                           on the certificate; where one was, send kind `learn` or other rows";
            return Err(SpecError::new(SpecCode::AttestationRequired, "independent_of_log", message));
        }
        spec.candidates = candidates;
        spec.independent_of_log = Some(true);
        Ok(spec)
    }
}

/// Each bound says in its own file what it needs.
fn needs(bound: BoundKind) -> Needs {
    match bound {
        BoundKind::LondonSandler => bound::london_sandler::NEEDS,
        BoundKind::Catoni => bound::catoni::NEEDS,
        BoundKind::Cbb => bound::cbb::NEEDS,
        BoundKind::Auto | BoundKind::LogSmoothing | BoundKind::Betting => bound::betting::NEEDS,
    }
}

fn check_bound(bound: BoundKind, context: &SpecContext) -> Checked<()> {
    let (needs, has) = (needs(bound), &context.shape.capabilities);
    let (name, instead) = (bound.name(), needs.instead);
    if needs.full_propensities && !has.full_propensities {
        let message = format!("{name} needs π0(·|x) for all actions; use {instead}");
        return Err(SpecError::new(SpecCode::BoundNeedsFullPropensities, "bound", message));
    }
    if needs.single_interactions && has.multiple_interactions {
        let message = format!("{name} holds only where every context was logged once; use {instead}");
        return Err(SpecError::new(SpecCode::BoundNeedsSingleInteractions, "bound", message));
    }
    Ok(())
}

fn check_policy(field: &str, id: &str, needs_mean: bool, context: &SpecContext) -> Checked<()> {
    let Some(policy) = (context.policy)(id) else {
        return Err(SpecError::new(SpecCode::UnknownPolicy, field, format!("there is no policy {id}")));
    };
    let (k, p) = (context.shape.n_actions, context.shape.dim);
    if policy.n_actions != k || policy.dim != p {
        let message = format!(
            "the policy has {} actions and {} features, the dataset {k} and {p}",
            policy.n_actions, policy.dim
        );
        return Err(SpecError::new(SpecCode::PolicyShapeMismatch, field, message));
    }
    if needs_mean && policy.kind == PolicyKind::Uniform {
        let message = "the uniform policy is no Gaussian; use the prior `zero`, which plays uniformly";
        return Err(SpecError::new(SpecCode::PolicyShapeMismatch, field, message));
    }
    Ok(())
}

fn check_candidate(i: usize, candidate: &Candidate, spec: &JobSpec, context: &SpecContext) -> Checked<()> {
    match candidate {
        Candidate::Policy { policy_id } => {
            check_policy(&format!("candidates[{i}].policy_id"), policy_id, false, context)
        }
        Candidate::Logged { name } => {
            let capabilities = &context.shape.capabilities;
            if !capabilities.candidates.contains(name) {
                let known = capabilities.candidates.join(", ");
                let message = format!("the dataset has no candidate {name}; it has: {known}");
                return Err(SpecError::new(
                    SpecCode::UnknownCandidate,
                    format!("candidates[{i}].name"),
                    message,
                ));
            }
            if spec.bound == BoundKind::Cbb || spec.xi.is_some_and(|xi| xi < 0.0) {
                let message = "a logged candidate has only the logged action's probability; this bound needs \
                               all of them: use auto, log_smoothing or betting with xi = 0, or send a policy";
                return Err(SpecError::new(SpecCode::BoundNeedsFullPropensities, "bound", message));
            }
            Ok(())
        }
    }
}
