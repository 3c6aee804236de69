//! The one door: a resolved specification and its inputs go in, a certificate comes out.

use std::collections::BTreeMap;
use std::time::Duration;

use ndarray::Array2;

use super::certificate::{
    Certificate, DirectEvidence, Evidence, LearningRecord, PriorEvidence, Verification, Words,
    certified_policy,
};
use super::certify::{
    self, DIRECT_IMPROVEMENT, DIRECT_RISK, DIRECT_RISK_ALONE, certify, certify_part, split_of,
};
use super::claims::{Quantity, bound_of};
use super::control::{Control, Progress, TerminationReason};
use super::error::{EngineError, Result, SpecCode, SpecError};
use super::learn::bound_learner::{Gaussian, Learned, Problem, minimise};
use super::log::{Guarded, LogSource, Split};
use super::policy::{FeatureMap, PolicyParams};
use super::spec::{BoundKind, JobKind, JobSpec, MIN_SPLIT, Optimizer, PolicyClass, PriorKind};
use super::split::{self, MaterialLog, PartOne, Target};

/// What a job works on. `policies` holds every policy that the specification names, by id.
pub struct Inputs<'a> {
    pub log: &'a dyn LogSource,
    pub logging_policy: Option<&'a PolicyParams>,
    pub policies: &'a BTreeMap<String, PolicyParams>,
    /// Version and digest of the dataset, printed on the certificate.
    pub dataset_version: u64,
    pub dataset_digest: &'a str,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    pub certificate: Certificate,
    pub evidence: Evidence,
}

/// Refining on the second part takes few steps: it starts where the first part ended.
const REFINING_EPOCHS: u64 = 12;
/// The refined policy's prior is wider than the near-greedy policy itself, or it could not move.
const PRIOR_WIDENING: f64 = 10.0;

/// Runs on the current rayon pool and gives the same result whatever its size.
pub fn run(spec: &JobSpec, inputs: &Inputs, control: &Control) -> Result<Finished> {
    control.check()?;
    control.report(Progress::phase("preparing", 0.0));
    for policy in inputs.policies.values().chain(inputs.logging_policy) {
        policy.check()?;
    }
    let guarded = Guarded::new(inputs.log, control)?;
    let sure = Inputs { log: &guarded, ..*inputs };
    // A split reads the log a few times and must not see its second part where the first should be; a
    // bound for all policies does not mind what learning sees, in its many passes.
    let inputs = if split_of(spec).is_some() { &sure } else { inputs };
    let (mut evidence, learning) = match spec.kind {
        JobKind::Evaluate => (Evidence::default(), None),
        JobKind::Learn if certify::is_automatic(spec) => learn_auto(spec, inputs, control)?,
        JobKind::Learn => learn_named(spec, inputs, control)?,
    };
    let phase = control.span(0.9, 1.0);
    phase.report(Progress::phase("certifying", 0.0));
    let certificate = certify(spec, &sure, &evidence, learning, &phase)?;
    settle(spec, &mut evidence, &certificate)?;
    control.report(Progress::phase("done", 1.0));
    Ok(Finished { certificate, evidence })
}

/// Computes a certificate's numbers again from the log and the evidence.
pub fn verify(
    certificate: &Certificate,
    words: Words,
    evidence: &Evidence,
    inputs: &Inputs,
    control: &Control,
) -> Result<Verification> {
    super::certificate::verify(certificate, words, evidence, inputs, control)
}

/// After `auto` compared its two policies, the evidence names the better as the policy.
fn settle(spec: &JobSpec, evidence: &mut Evidence, certificate: &Certificate) -> Result<()> {
    if spec.kind == JobKind::Learn && evidence.policy.is_none() {
        let chosen = certified_policy(spec, evidence, &certificate.bounds)?.cloned();
        let refined = certificate.bounds.iter().any(|r| r.used && r.event.ends_with(":refined"));
        evidence.policy = chosen;
        if refined {
            evidence.refined = None;
        } else if let Some(direct) = &mut evidence.direct {
            direct.policy = None;
        }
    }
    Ok(())
}

fn optimizer_of(spec: &JobSpec) -> Result<&Optimizer> {
    let missing = || SpecError::new(SpecCode::InvalidValue, "optimizer", "is missing").into();
    spec.optimizer.as_ref().ok_or_else(missing)
}

fn budgeted<'a>(spec: &JobSpec, control: &Control<'a>) -> Result<Control<'a>> {
    Ok(control.with_budget(optimizer_of(spec)?.max_seconds.map(Duration::from_secs_f64)))
}

/// The log that a bound learns on, the transform that its features went through, and the prior.
struct Ground<'a> {
    log: Box<dyn LogSource + 'a>,
    features: FeatureMap,
    prior: Gaussian,
    split: Option<Split>,
    choices: Vec<String>,
}

/// Kind `learn` with a named bound.
fn learn_named(
    spec: &JobSpec,
    inputs: &Inputs,
    control: &Control,
) -> Result<(Evidence, Option<LearningRecord>)> {
    let control = budgeted(spec, control)?;
    let mut ground = ground(spec, inputs, &control)?;
    if spec.bound == BoundKind::Auto {
        let choice = format!(
            "fewer than {MIN_SPLIT} contexts: no split; the betting bound from the prior `zero` on all of them"
        );
        ground.choices.push(choice);
    }
    let class = spec.policy_class.unwrap_or(PolicyClass::Lig);
    let quantity = learned_quantity(spec);
    let share = if quantity == Quantity::Improvement { 0.5 } else { 1.0 };
    let bound = bound_of(spec, &*ground.log, quantity, share * certify::policy_delta(spec))?;
    let problem = Problem {
        log: &*ground.log,
        bound: &*bound,
        class,
        prior: &ground.prior,
        kl_weight: 1.0,
        seed: spec.seed,
    };
    let learned = minimise(&problem, optimizer_of(spec)?, &control.span(0.3, 0.9))?;
    let evidence = Evidence {
        policy: Some(policy_of(&learned, class, ground.features)),
        prior: Some(prior_evidence(&ground.prior)),
        ..Evidence::default()
    };
    let record = LearningRecord {
        termination: learned.termination,
        iterations: learned.iterations,
        split: ground.split,
        choices: ground.choices,
    };
    Ok((evidence, Some(record)))
}

/// What learning bounds from above.
fn learned_quantity(spec: &JobSpec) -> Quantity {
    match certify::bounds_improvement(spec) {
        true => Quantity::Improvement,
        false => Quantity::Risk,
    }
}

fn policy_of(learned: &Learned, class: PolicyClass, map: FeatureMap) -> PolicyParams {
    let mut policy = learned.gaussian.policy(class);
    match &mut policy {
        PolicyParams::Lig { features, .. } | PolicyParams::MixedLogit { features, .. } => *features = map,
        PolicyParams::Softmax { .. } | PolicyParams::Uniform { .. } => {}
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
            return on_log(inputs, FeatureMap::Identity, Gaussian { mean, scale: prior.scale });
        }
        PriorKind::Split => return split_ground(spec, inputs, control),
        PriorKind::LoggingPolicy => inputs.logging_policy.ok_or_else(|| missing("the logging policy"))?,
        PriorKind::Policy => {
            let id = prior.policy_id.as_deref().unwrap_or_default();
            inputs.policies.get(id).ok_or_else(|| missing(&format!("policy {id}")))?
        }
    };
    let (mean, scale) = policy.gaussian(prior.scale).ok_or_else(|| missing("the prior's mean"))?;
    on_log(inputs, policy.features().clone(), Gaussian { mean, scale })
}

fn on_log<'a>(inputs: &Inputs<'a>, features: FeatureMap, prior: Gaussian) -> Result<Ground<'a>> {
    let log: Box<dyn LogSource + 'a> = if features.is_identity() {
        Box::new(Borrowed(inputs.log))
    } else {
        Box::new(MaterialLog::new(inputs.log, &features)?)
    };
    Ok(Ground { log, features, prior, split: None, choices: Vec::new() })
}

/// A log that somebody else owns.
struct Borrowed<'a>(&'a dyn LogSource);

impl LogSource for Borrowed<'_> {
    fn shape(&self) -> &super::log::LogShape {
        self.0.shape()
    }

    fn chunks(&self) -> usize {
        self.0.chunks()
    }

    fn chunk(&self, index: usize) -> Result<super::log::Chunk<'_>> {
        self.0.chunk(index)
    }
}

/// The prior learned on the first part, the bound on the second.
fn split_ground<'a>(spec: &JobSpec, inputs: &Inputs<'a>, control: &Control) -> Result<Ground<'a>> {
    let (part_one, second) = first_part(spec, inputs, &control.span(0.0, 0.3))?;
    let features = part_one.policy.features().clone();
    let prior = widened(&part_one)?;
    Ok(Ground { log: Box::new(second), features, prior, split: split_of(spec), choices: part_one.choices })
}

/// The near-greedy policy of the first part as a Gaussian that a posterior can move in.
fn widened(part_one: &PartOne) -> Result<Gaussian> {
    let none = || EngineError::Numerical("the first part's policy has no mean".into());
    let (mean, scale) = part_one.policy.gaussian(1.0).ok_or_else(none)?;
    Ok(Gaussian { mean, scale: PRIOR_WIDENING * scale })
}

/// Learns on the first part; returns it with the second part on its features.
fn first_part(spec: &JobSpec, inputs: &Inputs, control: &Control) -> Result<(PartOne, MaterialLog)> {
    let missing = || EngineError::Log("the split is missing".into());
    let split = split_of(spec).ok_or_else(missing)?;
    let second = certify_part(spec, inputs)?.ok_or_else(missing)?;
    let (improvement, risk) = match certify::bounds_improvement(spec) {
        true => (DIRECT_IMPROVEMENT, DIRECT_RISK),
        false => (DIRECT_IMPROVEMENT, DIRECT_RISK_ALONE),
    };
    let target = Target {
        contexts: second.shape().contexts,
        improvement_delta: improvement * spec.delta,
        risk_delta: risk * spec.delta,
        tau: 0.5 * spec.tau,
    };
    let part_one = split::learn(inputs.log, split, &target, spec.seed, control)?;
    let material = MaterialLog::new(&second, part_one.policy.features())?;
    Ok((part_one, material))
}

/// `auto`: learn on the first part, refine on the second; `certify` compares the two.
fn learn_auto(
    spec: &JobSpec,
    inputs: &Inputs,
    control: &Control,
) -> Result<(Evidence, Option<LearningRecord>)> {
    let control = budgeted(spec, control)?;
    let (part_one, second) = first_part(spec, inputs, &control.span(0.0, 0.7))?;
    let prior = widened(&part_one)?;
    let quantity = learned_quantity(spec);
    let share = match quantity {
        Quantity::Improvement => certify::REFINED_IMPROVEMENT,
        Quantity::Risk => certify::REFINED_RISK_ALONE,
    };
    let bound = bound_of(spec, &second, quantity, share * spec.delta)?;
    let problem = Problem {
        log: &second,
        bound: &*bound,
        class: PolicyClass::Lig,
        prior: &prior,
        kl_weight: 1.0,
        seed: spec.seed,
    };
    let mut optimizer = optimizer_of(spec)?.clone();
    optimizer.epochs = Some(optimizer.epochs.unwrap_or(REFINING_EPOCHS).min(REFINING_EPOCHS));
    let learned = minimise(&problem, &optimizer, &control.span(0.7, 0.9))?;
    let PartOne { policy, calibration, improvement, risk, choices, trainings } = part_one;
    let features = policy.features().clone();
    let termination = match learned.termination {
        TerminationReason::TimeBudget => TerminationReason::TimeBudget,
        _ => TerminationReason::Converged,
    };
    let record = LearningRecord {
        termination,
        iterations: trainings + learned.iterations,
        split: split_of(spec),
        choices,
    };
    let evidence = Evidence {
        policy: None,
        refined: Some(policy_of(&learned, PolicyClass::Lig, features)),
        prior: Some(prior_evidence(&prior)),
        direct: Some(DirectEvidence {
            policy: Some(policy),
            calibration,
            tau: improvement.tau,
            improvement_lambda: improvement.lambda,
            risk_lambda: risk.lambda,
        }),
    };
    Ok((evidence, Some(record)))
}
