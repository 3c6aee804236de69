//! The most important test: on thousands of small logs from worlds with a known true risk, the number of
//! violated claims must be consistent with δ, for fixed policies and for policies learned on the rows of the
//! bound. Then the harness is shown to have power: bounds that are broken on purpose are detected, and the
//! correct form of each passes.
//!
//! Counts are printed (`cargo test --test validity -- --nocapture`).

mod arrivals;
mod certify;
mod given;
#[path = "../common/given.rs"]
mod given_union;
mod guardrails;
mod harness;
mod jobs;
#[path = "../common/light_kl.rs"]
mod light_kl;
mod looks;
mod plans;
mod sets;
mod world;

use std::collections::BTreeMap;

use certify::*;
use guarantor_engine::bound::Betting;
use guarantor_engine::log::{Columns, MemoryLog};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{Baseline, BaselineKind, BoundKind, PolicyClass, SpecRequest};
use harness::{Claim, DELTA, Tally, assert_flagged, assert_valid, binomial_tail, simulate};
use jobs::{certificate_claim, evaluation_claim, learning, learning_from_zero, run_job};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use world::World;

const TRIALS: u64 = 300;
/// Independent contexts per log.
const CONTEXTS: u64 = 100;

/// Tallies on one world: learned policies, a fixed one, one learned on other rows, and the baseline.
fn tallies(world: &World, seed: u64) -> Vec<Tally> {
    let fixed = world.random_policy(0.3, &mut ChaCha8Rng::seed_from_u64(seed));
    let learned = simulate(TRIALS, seed, |rng| learned_claims(world, &world.draw(CONTEXTS, rng)));
    let others = simulate(TRIALS, seed + 1, |rng| {
        let drawn = world.draw(CONTEXTS, rng);
        let mut claims = fixed_claims(world, &drawn, &fixed);
        claims.extend(given_claims(world, &drawn, &fixed));
        claims.extend(given_claims(world, &drawn, &overfitted(world, &world.draw(CONTEXTS, rng).log())));
        if world.full_propensities {
            claims.extend(modeled_claims(world, &drawn, &fixed, &world.random_policy(1.0, rng)));
        }
        claims.push(baseline_claim(world, &drawn.log()));
        claims
    });
    [learned, others].concat()
}

/// A policy that overfits the log.
fn overfitted(world: &World, log: &MemoryLog) -> PolicyParams {
    let bound = Betting::log_smoothing(sample(log), DELTA);
    learn(log, &bound, &uniform_prior(world), 1e-3).policy(PolicyClass::Lig)
}

#[test]
fn holds_with_full_support() {
    let tallies = tallies(&World::full_support(), 10);
    assert_eq!(tallies.len(), 9 + 9 + 6 + 6 + 4 + 1);
    assert_valid(&tallies);
}

#[test]
fn holds_with_missing_support() {
    assert_valid(&tallies(&World::missing_support(), 20));
}

#[test]
fn holds_with_a_peaked_logging_policy() {
    assert_valid(&tallies(&World::peaked(), 30));
}

#[test]
fn holds_with_repeated_contexts() {
    let tallies = tallies(&World::repeated(), 40);
    assert_eq!(tallies.len(), 7 + 7 + 6 + 6 + 4 + 1, "LS and Catoni do not apply");
    assert_valid(&tallies);
}

#[test]
fn holds_with_logged_propensities_only() {
    assert_valid(&tallies(&World::missing_support().logged_propensities_only(), 50));
}

#[test]
fn holds_if_there_is_nothing_to_learn() {
    assert_valid(&tallies(&World::no_signal(), 60));
}

/// Logarithmic smoothing at one λ.
fn sharp(log: &MemoryLog, delta: f64) -> Betting {
    one_bet(Betting::log_smoothing(sample(log), delta))
}

/// Claims about a policy that overfits the rows of the bound: broken ones that do not pay, and a correct one.
fn overfitted_claims(world: &World, rng: &mut ChaCha8Rng) -> [Vec<Claim>; 2] {
    let drawn = world.draw(CONTEXTS, rng);
    let (log, prior) = (drawn.log(), uniform_prior(world));
    let bound = sharp(&log, DELTA);
    let free = Betting { delta: 1.0, ..bound.clone() };
    let q = learn(&log, &bound, &prior, 1e-3);
    let policy = q.policy(PolicyClass::Lig);
    let claim =
        |name: &'static str, bound: f64| Claim { name, delta: DELTA, bound, truth: world.risk(&policy) };
    let broken = vec![
        claim("no KL and no δ", value(&log, &policy, &free, 0.0)),
        claim("prior learned on the rows", value(&log, &policy, &bound, 0.0)),
    ];
    let honest = vec![claim("KL and δ paid", value(&log, &policy, &bound, q.kl(&prior)))];
    [broken, honest]
}

#[test]
fn leaving_out_what_learning_costs_is_caught() {
    let world = World::no_signal();
    let [broken, honest] = [0, 1].map(|which| {
        simulate(TRIALS, 70, |rng| overfitted_claims(&world, rng).into_iter().nth(which).unwrap())
    });
    assert_flagged(&broken);
    assert_valid(&honest);
}

/// The paper's bounds without their penalties: estimates at the policies that minimize them.
#[test]
fn estimates_are_not_bounds() {
    let world = World::no_signal();
    let estimates = simulate(TRIALS, 80, |rng| {
        let drawn = world.draw(CONTEXTS, rng);
        let (log, prior) = (drawn.log(), uniform_prior(&world));
        let claim = |name: &'static str| {
            let all = bounds(&drawn, &log);
            let bound = &all.iter().find(|n| n.name == name).expect("a bound of that name").bound;
            let policy = learn(&log, &**bound, &prior, 1e-3).policy(PolicyClass::Lig);
            let terms = bound.terms(&statistics(&log, &policy, &&**bound), 0.0);
            Claim { name, delta: DELTA, bound: terms.empirical_risk.unwrap(), truth: world.risk(&policy) }
        };
        ["london_sandler", "catoni", "cbb at ξ = 0", "cbb at ξ = −½", "ix"].map(claim).into()
    });
    assert_flagged(&estimates);
}

const CANDIDATES: u64 = 100;

/// The smallest bound among many candidates that do not depend on the rows, each at its share of δ.
fn best_of_many(world: &World, name: &'static str, share: f64, rng: &mut ChaCha8Rng) -> Claim {
    let candidates: Vec<PolicyParams> = (0..CANDIDATES).map(|_| world.random_policy(0.05, rng)).collect();
    let log = world.draw(CONTEXTS / 2, rng).log();
    let bound_of = |policy: &PolicyParams| given_value(&log, policy, sharp(&log, share));
    let best = candidates
        .iter()
        .map(|policy| (bound_of(policy), policy))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("there are candidates");
    Claim { name, delta: DELTA, bound: best.0, truth: world.risk(best.1) }
}

#[test]
fn choosing_without_paying_is_caught() {
    let world = World::no_signal();
    let trials = TRIALS / 4;
    let unpaid = simulate(trials, 90, |rng| vec![best_of_many(&world, "best of many, unpaid", DELTA, rng)]);
    let share = DELTA / CANDIDATES as f64;
    let paid = simulate(trials, 90, |rng| vec![best_of_many(&world, "best of many, paid", share, rng)]);
    assert_flagged(&unpaid);
    assert_valid(&paid);
}

/// The first `rows` of a log without repeated contexts.
fn prefix(columns: &Columns, rows: usize) -> MemoryLog {
    let cut = |values: &[f64]| values[..rows].to_vec();
    let columns = Columns {
        x: columns.x[..rows * columns.dim].to_vec(),
        actions: columns.actions[..rows].to_vec(),
        costs: cut(&columns.costs),
        other_costs: columns.other_costs.iter().map(|costs| cut(costs)).collect(),
        propensities: cut(&columns.propensities),
        full: columns.full.as_ref().map(|f| f[..rows * columns.n_actions].to_vec()),
        ..columns.clone()
    };
    MemoryLog::new(columns).unwrap()
}

/// Grids do not depend on n, so a log can be appended to and certified again any number of times at the same
/// δ: the smallest bound over all n is a bound.
#[test]
fn certifying_repeatedly_holds() {
    let world = World::no_signal();
    let policy = world.random_policy(0.3, &mut ChaCha8Rng::seed_from_u64(105));
    let tallies = simulate(TRIALS, 105, |rng| {
        let columns = world.draw(CONTEXTS, rng).columns;
        let logs: Vec<MemoryLog> = (1..=20).map(|i| prefix(&columns, i * columns.rows() / 20)).collect();
        let least = |name: &'static str, kappa: u8, wrap: &dyn Fn(Betting) -> Betting| {
            let at = |log: &MemoryLog| {
                given_value(log, &policy, wrap(Betting::new(sample(log), kappa, &[0.0], TAU, DELTA)))
            };
            let bound = logs.iter().map(at).fold(f64::INFINITY, f64::min);
            Claim { name, delta: DELTA, bound, truth: truth(&world, &policy, kappa) }
        };
        vec![
            least("risk, at every n", 0, &|b| b),
            least("risk, one bet, at every n", 0, &one_bet),
            least("improvement, one bet, at every n", 1, &one_bet),
        ]
    });
    assert_valid(&tallies);
}

/// The rows of a log, each treated as its own context.
fn ungrouped(columns: &Columns) -> MemoryLog {
    MemoryLog::new(Columns { contexts: None, ..columns.clone() }).unwrap()
}

#[test]
fn treating_rows_of_one_context_as_independent_is_caught() {
    let world = World::few_contexts_often();
    let policy = PolicyParams::Uniform { n_actions: world::ACTIONS, dim: world.x.ncols() };
    let claim = |name: &'static str, log: &MemoryLog| {
        let bound = given_value(log, &policy, sharp(log, DELTA));
        vec![Claim { name, delta: DELTA, bound, truth: world.risk(&policy) }]
    };
    let contexts = 15;
    let broken = simulate(TRIALS, 100, |rng| {
        claim("rows treated as contexts", &ungrouped(&world.draw(contexts, rng).columns))
    });
    let honest = simulate(TRIALS, 100, |rng| claim("rows grouped", &world.draw(contexts, rng).log()));
    assert_flagged(&broken);
    assert_valid(&honest);
}

/// Compares the tail with sums computed by hand.
#[test]
fn binomial_tail_is_exact() {
    let close = |got: f64, want: f64| assert!((got - want).abs() < 1e-12, "{got} not {want}");
    close(binomial_tail(0, 10, 0.2), 1.0);
    close(binomial_tail(1, 3, 0.5), 0.875);
    close(binomial_tail(3, 3, 0.2), 0.008);
    close(binomial_tail(2, 4, 0.25), 1.0 - 0.75f64.powi(4) - 0.75f64.powi(3));
}

/// Learning returns a policy on any log, however small the weight of KL.
#[test]
fn learning_never_fails() {
    let (world, mut failures) = (World::full_support(), Vec::new());
    for seed in 0..TRIALS {
        let log = world.draw(CONTEXTS, &mut ChaCha8Rng::seed_from_u64(seed)).log();
        let bound = Betting::log_smoothing(sample(&log), DELTA);
        failures.extend(try_learn(&log, &bound, &uniform_prior(&world), 0.01).err().map(|e| (seed, e)));
    }
    assert!(failures.is_empty(), "{} of {TRIALS} failed; the first: {:?}", failures.len(), failures[0]);
}

/// Jobs per world; each splits, learns and certifies.
const JOBS: u64 = 340;

/// Tallies of `auto` jobs and of `evaluate` jobs with three candidates.
fn whole_jobs(world: &World, seed: u64) -> Vec<Tally> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let candidates: BTreeMap<String, PolicyParams> =
        ["a", "b", "c"].map(|id| (id.to_string(), world.random_policy(0.1, &mut rng))).into();
    simulate(JOBS, seed, |rng| {
        let drawn = world.draw(2 * CONTEXTS, rng);
        let log = drawn.log();
        let finished = run_job(&learning(BoundKind::Auto, rng.random::<u64>() >> 11), &log, &BTreeMap::new());
        let logged = world.with_candidates(&drawn, &candidates);
        vec![
            certificate_claim("auto", world, &finished),
            evaluation_claim("three candidates", world, &log, &candidates),
            evaluation_claim("three logged candidates", world, &logged, &candidates),
        ]
    })
}

#[test]
fn jobs_hold_with_full_support() {
    assert_valid(&whole_jobs(&World::full_support(), 110));
}

#[test]
fn jobs_hold_with_logged_propensities_only() {
    assert_valid(&whole_jobs(&World::full_support().logged_propensities_only(), 120));
}

#[test]
fn jobs_hold_with_missing_support() {
    assert_valid(&whole_jobs(&World::missing_support(), 130));
}

#[test]
fn jobs_hold_with_repeated_contexts() {
    assert_valid(&whole_jobs(&World::repeated(), 140));
}

#[test]
fn jobs_hold_if_there_is_nothing_to_learn() {
    assert_valid(&whole_jobs(&World::no_signal(), 150));
}

#[test]
fn jobs_hold_with_a_peaked_logging_policy() {
    assert_valid(&whole_jobs(&World::peaked(), 155));
}

/// Tallies of the certificates of several requests on each log.
fn certificates(
    world: &World,
    seed: u64,
    contexts: u64,
    requests: &[(&'static str, SpecRequest)],
) -> Vec<Tally> {
    simulate(TRIALS, seed, |rng| {
        let log = world.draw(contexts, rng).log();
        let claim = |(name, request): &(&'static str, SpecRequest)| {
            certificate_claim(name, world, &run_job(request, &log, &BTreeMap::new()))
        };
        requests.iter().map(claim).collect()
    })
}

/// Each named bound on all rows, with a certified baseline.
#[test]
fn named_jobs_hold() {
    use BoundKind::{Betting, Catoni, Cbb, Ix, LogSmoothing, LondonSandler};
    let named = |bound: BoundKind| (bound.name(), learning_from_zero(bound));
    let single = [LondonSandler, Catoni, Cbb, Ix, LogSmoothing, Betting].map(named);
    assert_valid(&certificates(&World::no_signal(), 160, CONTEXTS, &single));
    let multiple = [Cbb, Ix, LogSmoothing, Betting].map(named);
    assert_valid(&certificates(&World::repeated(), 170, CONTEXTS, &multiple));
}

/// If R(π0) is known, all of δ goes to the policy.
#[test]
fn jobs_hold_with_a_known_baseline() {
    let world = World::no_signal();
    let baseline = Baseline { kind: BaselineKind::Known, risk: Some(world.baseline_risk()) };
    let known = |name, request| (name, SpecRequest { baseline: Some(baseline.clone()), ..request });
    let requests = [
        known("cbb, known baseline", learning_from_zero(BoundKind::Cbb)),
        known("betting, known baseline", learning_from_zero(BoundKind::Betting)),
    ];
    assert_valid(&certificates(&world, 180, CONTEXTS, &requests));
}

/// `auto` with too few contexts to split.
#[test]
fn jobs_hold_with_a_handful_of_contexts() {
    let requests = [("auto on a handful", learning(BoundKind::Auto, 0))];
    assert_valid(&certificates(&World::no_signal(), 190, 15, &requests));
    assert_valid(&certificates(&World::repeated(), 191, 15, &requests));
}

/// Why `independent_of_log` is required: a candidate learned on the rows that evaluate it is caught.
#[test]
fn evaluating_on_the_rows_that_were_learned_from_is_caught() {
    let world = World::no_signal();
    let evaluated = |name: &'static str, same_rows: bool| {
        simulate(TRIALS, 200, |rng| {
            let log = world.draw(CONTEXTS, rng).log();
            let policy = match same_rows {
                true => overfitted(&world, &log),
                false => overfitted(&world, &world.draw(CONTEXTS, rng).log()),
            };
            vec![evaluation_claim(name, &world, &log, &BTreeMap::from([("candidate".into(), policy)]))]
        })
    };
    assert_flagged(&evaluated("candidate of the same rows", true));
    assert_valid(&evaluated("candidate of other rows", false));
}
