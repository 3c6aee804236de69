//! The claims that each bound makes about a policy on a simulated log.

use crate::given_union::Given;
use crate::light_kl::LightKl;
use guarantor_engine::Result;
use guarantor_engine::baseline::{lower_bound, mean_cost};
use guarantor_engine::bound::{
    Betting, Bound, Catoni, Cbb, ControlVariate, Ix, LondonSandler, Mixture, Rules, Sample, Start,
};
use guarantor_engine::control::unattended;
use guarantor_engine::cost_model::{CostModel, ScoreCalibration, ScoreLink};
use guarantor_engine::learn::bound_learner::{Gaussian, LearningProblem, minimize};
use guarantor_engine::log::{LogSource, MemoryLog};
use guarantor_engine::measure::{Modeled, Statistics, Subject, collect, measure};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{Optimizer, PolicyClass, Preset};
use ndarray::Array2;

use super::harness::{Claim, DELTA};
use super::world::{ACTIONS, Drawn, World};

/// Clipping at 1/K, the default.
pub const TAU: f64 = 1.0 / ACTIONS as f64;

/// The constants that the betting bounds choose from if π0(·|x) is known.
const XIS: &[f64] = &[0.0, -0.5];

/// Epochs of learning: enough to overfit logs of a few hundred rows.
const EPOCHS: u64 = 10;

/// A λ near the best one for logs of a hundred rows, fixed before they are drawn.
const LAMBDA: f64 = 0.15;

/// A bound with the name under which it is counted. κ says whether R(π) or R(π) − R(π0) is bounded.
pub struct Named {
    pub name: &'static str,
    pub kappa: u8,
    pub bound: Box<dyn Bound>,
}

pub fn sample(log: &MemoryLog) -> Sample {
    Sample { rows: log.shape().rows, contexts: log.shape().contexts }
}

fn named(name: &'static str, kappa: u8, bound: impl Bound + 'static) -> Named {
    Named { name, kappa, bound: Box::new(bound) }
}

/// All bounds that this log supports, each at confidence 1 − δ.
pub fn bounds(drawn: &Drawn, log: &MemoryLog) -> Vec<Named> {
    let (sample, tau, delta) = (sample(log), TAU, DELTA);
    let capabilities = &log.shape().capabilities;
    let mut all = vec![
        named("log_smoothing", 0, Betting::log_smoothing(sample, delta)),
        named("ix", 0, Ix { sample, delta }),
        named("improvement at ξ = 0", 1, Betting::new(sample, 1, &[0.0], tau, delta)),
    ];
    if !capabilities.multiple_interactions {
        all.push(named("london_sandler", 0, LondonSandler { sample, tau, delta }));
        all.push(named("catoni", 0, Catoni { sample, tau, delta }));
    }
    if capabilities.full_propensities {
        let cbb = |xi: f64| Cbb::new(sample, drawn.multiplicities.clone(), tau, xi, delta);
        all.push(named("cbb at ξ = 0", 0, cbb(0.0)));
        all.push(named("cbb at ξ = −½", 0, cbb(-0.5)));
        all.push(named("betting, risk", 0, Betting::new(sample, 0, XIS, tau, delta)));
        all.push(named("betting, improvement", 1, Betting::new(sample, 1, XIS, tau, delta)));
    }
    all
}

pub fn statistics(log: &MemoryLog, policy: &PolicyParams, of: &dyn Statistics) -> Vec<f64> {
    measure(log, Subject::Policy(policy), None, of, &unattended()).expect("a finite statistic").statistics
}

/// The bound's value for a policy at this KL from the prior.
pub fn value(log: &MemoryLog, policy: &PolicyParams, bound: &dyn Bound, kl: f64) -> f64 {
    bound.value_and_gradient(&statistics(log, policy, &bound), kl).value
}

/// The prior that plays uniformly.
pub fn uniform_prior(world: &World) -> Gaussian {
    Gaussian { mean: Array2::zeros((world.x.ncols(), ACTIONS)), scale: 1.0 }
}

/// Minimizes a bound on the log; with a `kl_weight` below 1 it overfits. If learning fails, the prior is used
/// instead, because bounds hold for any policy; `learning_never_fails` counts the failures.
pub fn learn(log: &MemoryLog, bound: &dyn Bound, prior: &Gaussian, kl_weight: f64) -> Gaussian {
    try_learn(log, bound, prior, kl_weight).unwrap_or_else(|_| prior.clone())
}

pub fn try_learn(log: &MemoryLog, bound: &dyn Bound, prior: &Gaussian, kl_weight: f64) -> Result<Gaussian> {
    let bound = &LightKl::new(bound, kl_weight);
    let problem = LearningProblem { log, bound, class: PolicyClass::Lig, prior, seed: 0 };
    let optimizer = Optimizer {
        preset: Preset::Fast,
        epochs: Some(EPOCHS),
        learning_rate: None,
        batch_size: None,
        max_seconds: None,
    };
    Ok(minimize(&problem, &optimizer, &unattended())?.gaussian)
}

/// R(π) − κR(π0).
pub fn truth(world: &World, policy: &PolicyParams, kappa: u8) -> f64 {
    world.risk(policy) - f64::from(kappa) * world.baseline_risk()
}

/// The claim of each bound about the policy that minimizes it on the same rows, with KL paid.
pub fn learned_claims(world: &World, drawn: &Drawn) -> Vec<Claim> {
    let (log, prior) = (drawn.log(), uniform_prior(world));
    let claim = |n: &Named| {
        let q = try_learn(&log, &*n.bound, &prior, 1.0).expect("learning works if KL is paid");
        let policy = q.policy(PolicyClass::Lig);
        let bound = value(&log, &policy, &*n.bound, q.kl(&prior));
        Claim { name: n.name, delta: DELTA, bound, truth: truth(world, &policy, n.kappa) }
    };
    bounds(drawn, &log).iter().map(claim).collect()
}

/// The claim of each bound about a policy that does not depend on the rows: P = Q.
pub fn fixed_claims(world: &World, drawn: &Drawn, policy: &PolicyParams) -> Vec<Claim> {
    let log = drawn.log();
    let claim = |n: &Named| {
        let bound = value(&log, policy, &*n.bound, 0.0);
        Claim { name: n.name, delta: DELTA, bound, truth: truth(world, policy, n.kappa) }
    };
    bounds(drawn, &log).iter().map(claim).collect()
}

/// The claims of the bound for given policies: on its grids, and at a single choice, where it is tightest.
pub fn given_claims(world: &World, drawn: &Drawn, policy: &PolicyParams) -> Vec<Claim> {
    let (log, full) = (drawn.log(), world.full_propensities);
    let betting = |kappa: u8, xis: &[f64]| Betting::new(sample(&log), kappa, xis, TAU, DELTA);
    let (xis, xi) = if full { (XIS, -0.5) } else { (&XIS[..1], 0.0) };
    let claims = [
        ("given, risk", betting(0, xis)),
        ("given, improvement", betting(1, xis)),
        ("given, risk, one bet", one_bet(betting(0, &[0.0]))),
        ("given, improvement, one bet", one_bet(betting(1, &[0.0]))),
        ("given, risk, one bet at ξ", one_bet(betting(0, &[xi]))),
        ("given, improvement, one bet at ξ", one_bet(betting(1, &[xi]))),
    ];
    let claim = |(name, betting): (&'static str, Betting)| {
        let truth = truth(world, policy, betting.kappa);
        Claim { name, delta: DELTA, bound: given_value(&log, policy, betting), truth }
    };
    claims.into_iter().map(claim).collect()
}

/// A betting bound at one λ. Nothing is minimized, so it pays ln(1/δ) only, and no bound of this family is
/// tighter.
pub fn one_bet(mut betting: Betting) -> Betting {
    let distance = |lambda: f64| (lambda / LAMBDA).ln().abs();
    let nearest = betting.choices.iter().min_by(|a, b| distance(a.lambda).total_cmp(&distance(b.lambda)));
    betting.choices = nearest.copied().into_iter().collect();
    betting
}

/// The claims of the doubly robust form with a wrong cost model, which makes bounds looser but not invalid.
/// At the larger λ, the model must be shrunk to keep z in its range.
pub fn modeled_claims(
    world: &World,
    drawn: &Drawn,
    policy: &PolicyParams,
    model: &PolicyParams,
) -> Vec<Claim> {
    let log = drawn.log();
    let calibration = ScoreCalibration { link: ScoreLink::Separate, offset: 0.0, slope: 4.0 };
    let model = CostModel { scores: model, calibration };
    let claim = |(name, kappa, lambda): (&'static str, u8, f64)| {
        let rules = Rules { kappa, control: ControlVariate::CostModel, tau: 0.2 * TAU };
        let subject = Subject::Policy(policy);
        let plays = collect(&log, subject, Some(Modeled::Fixed(&model)), &rules, None, &unattended())
            .expect("plays")
            .table;
        let start = Start { theta: 1.0, strength: 0.0, fixed: true };
        let contexts = sample(&log).contexts as f64;
        let bound = Mixture::one(lambda, DELTA).bound(&plays, contexts, start).expect("a bound").value;
        Claim { name, delta: DELTA, bound, truth: truth(world, policy, kappa) }
    };
    let claims = [
        ("modeled, risk", 0, LAMBDA),
        ("modeled, improvement", 1, LAMBDA),
        ("modeled, risk, shrunk", 0, 0.6),
        ("modeled, improvement, shrunk", 1, 0.6),
    ];
    claims.into_iter().map(claim).collect()
}

pub fn given_value(log: &MemoryLog, policy: &PolicyParams, betting: Betting) -> f64 {
    let given = Given { betting };
    given.betting.value_and_gradient(&statistics(log, policy, &given), 0.0).value
}

/// The claim of the certified baseline: a lower bound on R(π0), so an upper bound on −R(π0).
pub fn baseline_claim(world: &World, log: &MemoryLog) -> Claim {
    let mean = mean_cost(log, &unattended()).expect("a mean");
    let bound = -lower_bound(mean, sample(log).contexts, DELTA);
    Claim { name: "certified baseline", delta: DELTA, bound, truth: -world.baseline_risk() }
}
