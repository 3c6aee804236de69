//! The spec of a job: the request as sent is checked against the log's capabilities, and its defaults are
//! filled in. The result is a `JobSpec`.

mod outcomes;
pub(crate) mod ranges;
mod sets;
mod supported;
mod types;

use super::checks::CheckName;
use super::error::{SpecCode, SpecError};
use super::log::{ActionSets, LogShape};
use super::policy::{PolicyKind, PolicyParams};

pub use outcomes::*;
use ranges::Range;
pub(crate) use supported::check_proved;
use supported::{check_actions, check_bound, check_candidate, check_looks, check_policy};
pub use types::*;

/// What [`SpecRequest::resolve`] must know about a stored policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyShape {
    /// The policy's kind.
    pub kind: PolicyKind,
    /// K, the number of actions; 0 if the policy plays over the actions that it is given.
    pub n_actions: usize,
    /// p, the number of features; 0 if the policy plays over the actions that it is given.
    pub dim: usize,
    /// Whether the policy plays over the actions that it is given.
    pub plays_sets: bool,
    /// The features that such a policy reads; `None` if it reads none, whatever they are.
    pub sets: Option<ActionSets>,
}

impl PolicyShape {
    /// The shape of a policy.
    pub fn of(policy: &PolicyParams) -> Self {
        PolicyShape {
            kind: policy.kind(),
            n_actions: policy.n_actions(),
            dim: policy.dim(),
            plays_sets: policy.plays_sets(),
            sets: policy.set_features(),
        }
    }
}

/// What [`SpecRequest::resolve`] must know about the log and the policies that a request may name.
pub struct SpecContext<'a> {
    /// The log.
    pub shape: &'a LogShape,
    /// The dataset's logging policy, if its parameters are known.
    pub logging_policy: Option<PolicyShape>,
    /// Looks up a stored policy by id.
    pub policy: &'a dyn Fn(&str) -> Option<PolicyShape>,
    /// How many rows certificates of earlier versions of the dataset have seen.
    pub seen_rows: u64,
    /// Who asks, as certificates name them.
    pub caller: &'a str,
}

/// The default share of the contexts on the learn side. It was chosen on FashionMNIST and a table of 21 000 rows for
/// large logs, and on tables of 250 to 5000 rows for small ones.
fn default_fraction(shape: &LogShape) -> f64 {
    // Scorers of actions need fewer rows (docs/math.md#sets).
    if shape.contexts >= 10_000 && shape.capabilities.action_sets.is_none() { 0.6 } else { 0.5 }
}

/// The default share of exploration, as teams that run contextual bandits expect.
const DEFAULT_EXPLORATION: f64 = 0.02;

/// With fewer contexts, `auto` does not split, because neither side would have enough of them.
pub const MIN_SPLIT: u64 = 20;

type Checked<T> = Result<T, SpecError>;

fn invalid<T>(field: &str, message: impl Into<String>) -> Checked<T> {
    Err(SpecError::new(SpecCode::InvalidValue, field, message))
}

/// The value, if it is in its range. The sum turns −0 into 0, so that equal specs have equal digests.
pub(crate) fn within(field: &str, value: f64, range: Range) -> Checked<f64> {
    match range.contains(value) {
        true => Ok(value + 0.0),
        false => invalid(field, format!("{} is not in {range}", ranges::text(value))),
    }
}

impl SpecRequest {
    /// Fills in the defaults and checks the request against the log.
    ///
    /// # Errors
    /// If a value is out of its range, or the log does not support the request.
    pub fn resolve(&self, context: &SpecContext) -> Checked<JobSpec> {
        let kind = self.kind.unwrap_or(match self.candidates {
            Some(_) => JobKind::Evaluate,
            None => JobKind::Learn,
        });
        let bound = self.bound.unwrap_or(BoundKind::Auto);
        let k = context.shape.n_actions as f64;
        let delta = self.resolve_delta()?;
        let tau = self.tau.unwrap_or(1.0 / k);
        within("tau", tau, ranges::TAU)?;
        let (objective, outcome) = self.resolve_objective(context.shape)?;
        let min_improvement = self.resolve_min_improvement(&outcome)?;
        let guardrails = self.resolve_guardrails(objective.as_deref(), context.shape)?;
        let rows_per_day = self.rows_per_day;
        let rows_per_day =
            rows_per_day.map(|rows| within("rows_per_day", rows, ranges::ROWS_PER_DAY)).transpose()?;
        sets::check_sets(self, kind, bound, context)?;
        check_bound(bound, context)?;
        let logging = context.shape.logging;
        let looks = self.looks.unwrap_or(Looks::Once);
        let accept = self.resolve_accepted()?;
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
            objective,
            guardrails,
            rows_per_day,
            logging: Some(logging),
            looks: Some(looks),
            seen_rows: (looks == Looks::Once && context.seen_rows > 0).then_some(context.seen_rows),
            explore: None,
            accepted_by: (!accept.is_empty()).then(|| context.caller.into()),
            accept,
            optimizer: None,
            seed: self.resolve_seed()?,
        };
        let spec = match kind {
            JobKind::Learn => self.resolve_learning(spec, context)?,
            JobKind::Evaluate => self.resolve_evaluation(spec, context)?,
        };
        check_actions(&spec, self, context)?;
        check_looks(&spec)?;
        Ok(spec)
    }

    fn resolve_accepted(&self) -> Checked<Vec<CheckName>> {
        let mut accept = self.accept.clone().unwrap_or_default();
        accept.sort();
        let before = accept.len();
        accept.dedup();
        if accept.len() < before {
            return invalid("accept", "names a check twice");
        }
        Ok(accept)
    }

    fn resolve_explore(&self, context: &SpecContext) -> Checked<Explore> {
        let (share, with) = match self.explore {
            None => (None, None),
            Some(ExploreRequest::Share(share)) => (Some(share), None),
            Some(ExploreRequest::Policy(ExplorePolicy { share, with })) => (share, with),
        };
        let share = within("explore", share.unwrap_or(DEFAULT_EXPLORATION), ranges::EXPLORE)?;
        let with = with.unwrap_or(ExploreWith::Uniform);
        if with == ExploreWith::LoggingPolicy && context.logging_policy.is_none() {
            let message = "the dataset has no stored logging policy; use `uniform`, or set `logging_policy_id` \
                           when you upload the log";
            return Err(SpecError::new(SpecCode::PriorNeedsLoggingPolicy, "explore.with", message));
        }
        Ok(Explore { share, with })
    }

    fn resolve_delta(&self) -> Checked<f64> {
        let in_range = |field: &str, delta: f64| within(field, delta, ranges::DELTA);
        match (self.delta, self.family) {
            (Some(_), Some(_)) => {
                let message = "`delta` and `family` are mutually exclusive; each look of a family gets family.delta/family.looks";
                Err(SpecError::new(SpecCode::FamilyDeltaConflict, "delta", message))
            }
            (None, Some(Family { delta, looks })) => {
                within("family.looks", looks as f64, ranges::FAMILY_LOOKS)?;
                in_range("family.delta", delta)?;
                let each = delta / looks as f64;
                if !ranges::DELTA.contains(each) {
                    let message =
                        format!("each of the {looks} looks gets {each}, which is not in {}", ranges::DELTA);
                    return invalid("family.delta", message);
                }
                Ok(each)
            }
            (delta, None) => in_range("delta", delta.unwrap_or(0.05)),
        }
    }

    /// Certificates are digested and signed as JSON, whose integers are exact only up to 2^53.
    fn resolve_seed(&self) -> Checked<u64> {
        let seed = self.seed.unwrap_or(0);
        if seed < 1 << 53 {
            Ok(seed)
        } else {
            invalid("seed", format!("{seed} is too large; the maximum is 2^53 − 1"))
        }
    }

    fn resolve_xi(&self, bound: BoundKind, context: &SpecContext) -> Checked<Option<f64>> {
        let Some(xi) = self.xi else {
            return Ok((bound == BoundKind::Cbb).then_some(-0.5));
        };
        let xi = within("xi", xi, ranges::XI)?;
        if xi < 0.0 && xi > ranges::NEAREST_XI {
            let message = format!("{xi} is too close to 0; use 0, or at most {:e}", ranges::NEAREST_XI);
            return invalid("xi", message);
        }
        if !matches!(bound, BoundKind::Cbb | BoundKind::Betting) {
            let message = format!("the bound {} has no control variate; remove xi", bound.name());
            return Err(SpecError::new(SpecCode::NotForThisKind, "xi", message));
        }
        if xi < 0.0 && !context.shape.capabilities.control_variate() {
            let message = "a control variate below 0 needs the propensities of all actions, not rounded; use \
                           xi = 0 with betting, or log `propensities` with all of their digits";
            return Err(SpecError::new(SpecCode::BoundNeedsFullPropensities, "xi", message));
        }
        Ok(Some(xi))
    }

    fn resolve_baseline(&self) -> Checked<Baseline> {
        let mut baseline =
            self.baseline.clone().unwrap_or(Baseline { kind: BaselineKind::Certified, risk: None });
        match (baseline.kind, baseline.risk) {
            (BaselineKind::Known, None) => invalid("baseline.risk", "is required for the kind `known`"),
            (BaselineKind::Known, Some(risk)) => {
                baseline.risk = Some(within("baseline.risk", risk, ranges::RISK)?);
                Ok(baseline)
            }
            (_, Some(_)) => invalid("baseline.risk", "is allowed for the kind `known` only"),
            (_, None) => Ok(baseline),
        }
    }

    fn resolve_learning(&self, mut spec: JobSpec, context: &SpecContext) -> Checked<JobSpec> {
        if !context.shape.capabilities.features {
            let message = "learning needs features `x`, which this log does not have; log the candidates' \
                           propensities instead and use kind `evaluate`";
            return Err(SpecError::new(SpecCode::LearningNeedsFeatures, "kind", message));
        }
        if self.candidates.is_some() || self.independent_of_log.is_some() {
            let field = if self.candidates.is_some() { "candidates" } else { "independent_of_log" };
            return Err(SpecError::new(
                SpecCode::NotForThisKind,
                field,
                "is allowed for kind `evaluate` only",
            ));
        }
        // A policy over action sets has no class to choose.
        if context.shape.capabilities.action_sets.is_none() {
            spec.policy_class = Some(self.policy_class.unwrap_or(PolicyClass::Lig));
        }
        if spec.bound == BoundKind::Auto && spec.policy_class == Some(PolicyClass::MixedLogit) {
            let message =
                "`auto` learns LIG policies only; choose another bound to learn a mixed-logit policy";
            return Err(SpecError::new(SpecCode::NotForThisKind, "policy_class", message));
        }
        spec.prior = Some(self.resolve_prior(spec.bound, context)?);
        spec.optimizer = Some(self.resolve_optimizer()?);
        spec.explore = Some(self.resolve_explore(context)?);
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
        within("prior.scale", scale, ranges::PRIOR_SCALE)?;
        match (kind, &sent.policy_id) {
            (PriorKind::Policy, None) => {
                return Err(SpecError::new(
                    SpecCode::PolicyRequired,
                    "prior.policy_id",
                    "is required for the kind `policy`",
                ));
            }
            (PriorKind::Policy, Some(id)) => check_policy("prior.policy_id", id, true, context)?,
            (_, Some(_)) => return invalid("prior.policy_id", "is allowed for the kind `policy` only"),
            (_, None) => {}
        }
        if kind == PriorKind::LoggingPolicy && !parametric {
            let message = "the dataset has no softmax, LIG or mixed-logit logging policy; use `split`, or set \
                           `logging_policy_id` when you upload the log";
            return Err(SpecError::new(SpecCode::PriorNeedsLoggingPolicy, "prior.kind", message));
        }
        if bound == BoundKind::Auto && sent.kind.is_some_and(|kind| kind != PriorKind::Split) {
            let message = "`auto` always uses the prior `split`; choose another bound to use another prior";
            return Err(SpecError::new(SpecCode::NotForThisKind, "prior.kind", message));
        }
        let fraction = match (kind, sent.fraction) {
            (PriorKind::Split, f) => {
                let f = f.unwrap_or(default_fraction(context.shape));
                Some(within("prior.fraction", f, ranges::PRIOR_FRACTION)?)
            }
            (_, Some(_)) => return invalid("prior.fraction", "is allowed for the kind `split` only"),
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
        let checked = |field: &str, value: Option<f64>, range: Range| -> Checked<Option<f64>> {
            value.map(|value| within(field, value, range)).transpose()
        };
        // Counts beyond 2^53 lose digits here, but are far out of range.
        checked("optimizer.epochs", sent.epochs.map(|epochs| epochs as f64), ranges::EPOCHS)?;
        checked("optimizer.batch_size", sent.batch_size.map(|size| size as f64), ranges::BATCH_SIZE)?;
        let learning_rate = checked("optimizer.learning_rate", sent.learning_rate, ranges::LEARNING_RATE)?;
        let max_seconds = checked("optimizer.max_seconds", sent.max_seconds, ranges::MAX_SECONDS)?;
        Ok(Optimizer {
            preset: sent.preset.unwrap_or(Preset::Fast),
            epochs: sent.epochs,
            learning_rate,
            batch_size: sent.batch_size,
            max_seconds,
        })
    }

    fn resolve_evaluation(&self, mut spec: JobSpec, context: &SpecContext) -> Checked<JobSpec> {
        for (field, sent) in [
            ("policy_class", self.policy_class.is_some()),
            ("prior", self.prior.is_some()),
            ("optimizer", self.optimizer.is_some()),
            ("explore", self.explore.is_some()),
        ] {
            if sent {
                return Err(SpecError::new(
                    SpecCode::NotForThisKind,
                    field,
                    "is allowed for kind `learn` only",
                ));
            }
        }
        let candidates = self.candidates.clone().unwrap_or_default();
        if candidates.is_empty() || candidates.len() > 1000 {
            let message = "must have 1 to 1000 candidates: {\"kind\": \"logged\", \"name\": …} or \
                           {\"kind\": \"policy\", \"policy_id\": …}";
            return Err(SpecError::new(SpecCode::CandidatesRequired, "candidates", message));
        }
        for (i, candidate) in candidates.iter().enumerate() {
            check_candidate(i, candidate, &spec, context)?;
            if candidates[..i].contains(candidate) {
                return invalid(&format!("candidates[{i}]"), "duplicate candidate");
            }
        }
        if self.independent_of_log != Some(true) {
            let message = match spec.is_fixed() {
                true => {
                    "must be true: with it you attest, on the certificate, that no candidate was learned from \
                         the certified rows; if one was, use other rows or kind `learn`"
                }
                false => {
                    "must be true: with it you attest, on the certificate, that no candidate depends on \
                          anything that was logged at or after the first certified row; if one does, use later \
                          rows or kind `learn`"
                }
            };
            return Err(SpecError::new(SpecCode::AttestationRequired, "independent_of_log", message));
        }
        spec.candidates = candidates;
        spec.independent_of_log = Some(true);
        Ok(spec)
    }
}
