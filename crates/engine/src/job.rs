//! The entry point: a resolved spec and its inputs go in, a certificate and its evidence come out.

use std::time::Duration;

use ndarray::Array2;

use super::bound::{Foreseen, Guess, Plan};
use super::certificate::{
    AutoEvidence, Certificate, Evidence, LearnedEvidence, LearningRecord, PriorEvidence, SplitEvidence,
};
use super::certify::shares::{GIVEN, NAMED, Shares, objective_delta, policy_delta};
use super::certify::{certify_auto, certify_candidates, certify_learned};
use super::claims::{PolicyQuantity, bound_of, constant};
use super::control::{Control, Progress, TerminationReason};
use super::error::{EngineError, Result, SpecCode, SpecError};
use super::guardrail;
use super::inputs::Inputs;
use super::learn::bound_learner::{Gaussian, Learned, LearningProblem, minimize};
use super::log::{Guarded, LogSource, Span};
use super::objective::ObjectiveLog;
use super::policy::{FeatureMap, PolicyParams};
use super::rank;
use super::span::{Certified, span_of};
use super::spec::{
    BoundKind, Explore, ExploreWith, JobKind, JobSpec, MIN_SPLIT, Optimizer, PolicyClass, PriorKind,
    check_proved,
};
use super::split::{self, PartOne, Target, material};

/// The result of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The certificate.
    pub certificate: Certificate,
    /// What the certificate was computed from besides the log.
    pub evidence: Evidence,
}

/// A prior from the learn side is wider than the near-greedy policy itself. Otherwise the posterior could not move.
const PRIOR_WIDENING: f64 = 10.0;

/// Runs a job on the current rayon pool. The result does not depend on the number of threads.
///
/// # Errors
/// If the job is canceled, an input is missing or cannot be read, or a number is not finite.
pub fn run(spec: &JobSpec, inputs: &Inputs, control: &Control) -> Result<Finished> {
    control.check()?;
    check_proved(spec, inputs.log.shape())?;
    control.report(Progress::phase("preparing", 0.0));
    for policy in inputs.policies.values().chain(inputs.logging_policy) {
        policy.check()?;
    }
    let guarded = Guarded::new(inputs.log, control)?;
    let sure = Inputs { log: &guarded, ..*inputs };
    // A split reads the log a few times, and its learning must never see rows of the certify side. A bound
    // that holds for all policies does not depend on what learning sees in its many passes.
    let inputs = if spec.fraction().is_some() { &sure } else { inputs };
    // Learning sees the objective alone.
    let objective = ObjectiveLog::new(spec, inputs.log)?;
    let of_objective = Inputs { log: objective.source(), ..*inputs };
    let phase = control.span(0.9, 1.0);
    let certifying = || phase.report(Progress::phase("certifying", 0.0));
    let finished = match spec.kind {
        JobKind::Evaluate => {
            certifying();
            let certificate = certify_candidates(spec, &sure, &phase)?;
            Finished { certificate, evidence: Evidence::Candidates }
        }
        JobKind::Learn if spec.is_automatic() => {
            let (mut learned, learning) = learn_auto(spec, &of_objective, control)?;
            learned.split.guardrails = guardrail::prepare(spec, &sure, &learned.policy, &phase)?;
            certifying();
            let certificate = certify_auto(spec, &sure, &learned, Some(learning), &phase)?;
            Finished { certificate, evidence: Evidence::Auto(learned) }
        }
        JobKind::Learn => {
            let (learned, learning) = learn_named(spec, &of_objective, control)?;
            certifying();
            let certificate = certify_learned(spec, &sure, &learned, Some(learning), &phase)?;
            Finished { certificate, evidence: Evidence::Learned(learned) }
        }
    };
    control.report(Progress::phase("done", 1.0));
    Ok(finished)
}

fn optimizer_of(spec: &JobSpec) -> Result<&Optimizer> {
    let missing = || SpecError::new(SpecCode::InvalidValue, "optimizer", "is missing").into();
    spec.optimizer.as_ref().ok_or_else(missing)
}

fn budgeted<'a>(spec: &JobSpec, control: &Control<'a>) -> Result<Control<'a>> {
    Ok(control.with_budget(optimizer_of(spec)?.max_seconds.map(Duration::from_secs_f64)))
}

/// The log that a bound learns on, the transform of its features, and the prior.
struct Ground<'a> {
    log: Box<dyn LogSource + 'a>,
    features: FeatureMap,
    prior: Gaussian,
    split: Option<Span>,
    choices: Vec<String>,
}

/// Learns with a named bound.
fn learn_named(
    spec: &JobSpec,
    inputs: &Inputs,
    control: &Control,
) -> Result<(LearnedEvidence, LearningRecord)> {
    let control = budgeted(spec, control)?;
    let mut ground = ground(spec, inputs, &control)?;
    if spec.bound == BoundKind::Auto {
        let choice = format!(
            "fewer than {MIN_SPLIT} contexts: no split; the betting bound from the prior `zero` on all of them"
        );
        ground.choices.push(choice);
    }
    let class = spec.policy_class.unwrap_or(PolicyClass::Lig);
    let (quantity, share) = learned_quantity(spec, NAMED);
    let bound = bound_of(spec, &*ground.log, quantity, share * policy_delta(spec))?;
    let problem =
        LearningProblem { log: &*ground.log, bound: &*bound, class, prior: &ground.prior, seed: spec.seed };
    let learned = minimize(&problem, optimizer_of(spec)?, &control.span(0.3, 0.9))?;
    let evidence = LearnedEvidence {
        policy: exploring(policy_of(&learned, class, ground.features), spec, inputs)?,
        prior: prior_evidence(&ground.prior),
    };
    let record = LearningRecord {
        termination: learned.termination,
        iterations: learned.iterations,
        split: ground.split,
        choices: ground.choices,
    };
    Ok((evidence, record))
}

/// The quantity whose bound learning minimizes, and its share of δ.
fn learned_quantity(spec: &JobSpec, shares: Shares) -> (PolicyQuantity, f64) {
    match spec.bounds_improvement() {
        true => (PolicyQuantity::Improvement, shares.improvement),
        false => (PolicyQuantity::Risk, shares.risk_alone),
    }
}

fn policy_of(learned: &Learned, class: PolicyClass, map: FeatureMap) -> PolicyParams {
    let mut policy = learned.gaussian.policy(class);
    match &mut policy {
        PolicyParams::Lig { features, .. } | PolicyParams::MixedLogit { features, .. } => *features = map,
        _ => {}
    }
    policy
}

fn prior_evidence(prior: &Gaussian) -> PriorEvidence {
    PriorEvidence { mean: prior.mean.rows().into_iter().map(|r| r.to_vec()).collect(), scale: prior.scale }
}

fn ground<'a>(spec: &JobSpec, inputs: &Inputs<'a>, control: &Control) -> Result<Ground<'a>> {
    let missing = |what: &str| EngineError::Log(format!("{what} is missing"));
    let prior = spec.prior.as_ref().ok_or_else(|| missing("the prior"))?;
    let shape = inputs.log.shape();
    let policy = match prior.kind {
        PriorKind::Zero => {
            let mean = Array2::zeros((shape.dim, shape.n_actions));
            return on_log(spec, inputs, FeatureMap::Identity, Gaussian { mean, scale: prior.scale });
        }
        PriorKind::Split => return split_ground(spec, inputs, control),
        PriorKind::LoggingPolicy => inputs.logging_policy.ok_or_else(|| missing("the logging policy"))?,
        PriorKind::Policy => {
            let id = prior.policy_id.as_deref().unwrap_or_default();
            inputs.policies.get(id).ok_or_else(|| missing(&format!("policy {id}")))?
        }
    };
    let (mean, scale) = policy.gaussian(prior.scale).ok_or_else(|| missing("the prior's mean"))?;
    on_log(spec, inputs, policy.features().clone(), Gaussian { mean, scale })
}

fn on_log<'a>(
    spec: &JobSpec,
    inputs: &Inputs<'a>,
    features: FeatureMap,
    prior: Gaussian,
) -> Result<Ground<'a>> {
    let certified = Certified::new(&span_of(spec, inputs), inputs)?;
    let log: Box<dyn LogSource + 'a> =
        if features.is_identity() { Box::new(certified) } else { material(&certified, &features)? };
    Ok(Ground { log, features, prior, split: None, choices: Vec::new() })
}

/// The policy with the exploration that the spec asks for. It is what is certified, stored and served.
fn exploring(policy: PolicyParams, spec: &JobSpec, inputs: &Inputs) -> Result<PolicyParams> {
    let (share, with) = match spec.explore {
        None => return Ok(policy),
        Some(Explore { share: 0.0, .. }) => return Ok(policy),
        Some(Explore { share, with: ExploreWith::Uniform }) => {
            let uniform = match policy.plays_sets() {
                true => PolicyParams::UniformOverSets {},
                false => PolicyParams::Uniform { n_actions: policy.n_actions(), dim: policy.dim() },
            };
            (share, uniform)
        }
        Some(Explore { share, with: ExploreWith::LoggingPolicy }) => {
            let missing = || EngineError::Log("the logging policy is missing".into());
            (share, inputs.logging_policy.ok_or_else(missing)?.clone())
        }
    };
    Ok(PolicyParams::Exploring { share, base: Box::new(policy), with: Box::new(with) })
}

/// The prior is learned on the learn side, and the bound is computed on the certify side.
fn split_ground<'a>(spec: &JobSpec, inputs: &Inputs<'a>, control: &Control) -> Result<Ground<'a>> {
    let learned = learn_side(spec, inputs, &control.span(0.0, 0.3))?;
    let span = span_of(spec, inputs);
    let features = learned.policy.features().clone();
    let log = material(&Certified::new(&span, inputs)?, &features)?;
    let prior = widened(&learned)?;
    Ok(Ground { log, features, prior, split: Some(span), choices: learned.choices })
}

/// The learn side's near-greedy policy as a Gaussian that is wide enough for a posterior to move in.
fn widened(learned: &PartOne) -> Result<Gaussian> {
    let none = || EngineError::Numerical("the learn side's policy has no mean".into());
    let (mean, scale) = learned.policy.gaussian(1.0).ok_or_else(none)?;
    Ok(Gaussian { mean, scale: PRIOR_WIDENING * scale })
}

/// Learns on the learn side.
fn learn_side(spec: &JobSpec, inputs: &Inputs, control: &Control) -> Result<PartOne> {
    let span = span_of(spec, inputs);
    if inputs.log.shape().capabilities.action_sets.is_some() {
        return rank::learn(inputs.log, &span, spec.seed, control);
    }
    let target = Target {
        contexts: Certified::new(&span, inputs)?.shape().contexts,
        improvement_delta: GIVEN.improvement * objective_delta(spec),
    };
    split::learn(inputs.log, &span, &target, spec.seed, control)
}

/// Learns on all rows of a log, for a certificate of about `contexts` other rows (docs/math.md#partials).
///
/// # Errors
/// If the log cannot be read or the caller cancels.
pub fn learn_for_other_rows(
    spec: &JobSpec,
    inputs: &Inputs,
    contexts: u64,
    control: &Control,
) -> Result<(AutoEvidence, LearningRecord)> {
    let control = budgeted(spec, control)?;
    let span = Span::Time { first_certified_row: inputs.log.shape().rows, policy_version: None };
    let target = Target { contexts, improvement_delta: GIVEN.improvement * objective_delta(spec) };
    let learned = split::learn(inputs.log, &span, &target, spec.seed, &control.span(0.0, 0.9))?;
    let PartOne { policy, calibration, improvement, risk, choices, trainings, .. } = learned;
    let termination = match control.out_of_time() {
        true => TerminationReason::TimeBudget,
        false => TerminationReason::Converged,
    };
    let record = LearningRecord { termination, iterations: trainings, split: None, choices };
    let split = SplitEvidence { calibration, improvement, risk, budget: None, guardrails: Vec::new() };
    Ok((AutoEvidence { policy: exploring(policy, spec, inputs)?, split }, record))
}

/// `auto`: learns on the learn side everything that is certified.
fn learn_auto(spec: &JobSpec, inputs: &Inputs, control: &Control) -> Result<(AutoEvidence, LearningRecord)> {
    let control = budgeted(spec, control)?;
    let learned = learn_side(spec, inputs, &control.span(0.0, 0.9))?;
    let termination = match control.out_of_time() {
        true => TerminationReason::TimeBudget,
        false => TerminationReason::Converged,
    };
    let PartOne { policy, calibration, improvement, risk, plays, foreseen, choices, trainings } = learned;
    let split = Some(span_of(spec, inputs));
    let record = LearningRecord { termination, iterations: trainings, split, choices };
    let budget = plan(spec, inputs, &improvement, &plays, foreseen)?;
    let split = SplitEvidence { calibration, improvement, risk, budget, guardrails: Vec::new() };
    Ok((AutoEvidence { policy: exploring(policy, spec, inputs)?, split }, record))
}

/// The plan of bets with a budget for the variance, from plays of the learn side. Logs of one fixed policy get aimed bets.
/// Designed repetitions get none: rows of one context share x, so their plays are not independent given the contexts
/// before, and squares of single rows miss that.
fn plan(
    spec: &JobSpec,
    inputs: &Inputs,
    guess: &Guess,
    plays: &[f64],
    foreseen: Option<Foreseen>,
) -> Result<Option<Plan>> {
    if spec.is_fixed() || inputs.log.shape().capabilities.multiple_interactions {
        return Ok(None);
    }
    let contexts = Certified::new(&span_of(spec, inputs), inputs)?.shape().contexts;
    let delta = GIVEN.improvement * objective_delta(spec);
    // A policy that explores with the logging policy has z times this, and nearly so with uniform actions.
    let kept = 1.0 - spec.explore.map_or(0.0, |explore| explore.share);
    let plays: Vec<f64> = plays.iter().map(|z| kept * z).collect();
    let foreseen = foreseen.map(|foreseen| foreseen.scaled(kept));
    let lambda = constant(guess, contexts as f64, delta);
    Ok(Plan::choose(&plays, foreseen.as_ref(), 1, contexts, lambda, delta))
}
