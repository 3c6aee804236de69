//! Why a certificate decided as it did: its causes with their numbers, its breakdown, and its plan.

use std::collections::BTreeMap;

use guarantor_engine::certificate::{Certificate, Decision, Reason};
use guarantor_engine::certify::plan_before;
use guarantor_engine::control::unattended;
use guarantor_engine::log::{Columns, LogSource, Logging, MemoryLog, Precision};
use guarantor_engine::plan::{Plan, PlanRequest, PlanUnit, Route};
use guarantor_engine::policy::{PolicyParams, pick};
use guarantor_engine::spec::{
    Baseline, BaselineKind, BoundKind, Candidate, JobKind, Looks, PriorKind, PriorRequest, SpecContext,
    SpecRequest,
};
use guarantor_engine::verify::Wording;
use guarantor_engine::{Inputs, run, verify};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How a world is logged, what a candidate plays in it, and what its actions bring.
struct World {
    logging: Vec<f64>,
    candidate: Vec<f64>,
    rewards: Vec<f64>,
}

fn world(logging: &[f64], candidate: &[f64], rewards: &[f64]) -> World {
    World { logging: logging.into(), candidate: candidate.into(), rewards: rewards.into() }
}

/// A log of n rows with one feature and the candidate `new`.
fn log(world: &World, n: usize, seed: u64) -> Columns {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (k, mut played) = (world.logging.len(), Vec::new());
    let mut columns = Columns {
        n_actions: k,
        dim: 1,
        full: Some(Vec::new()),
        logging: Logging::Fixed,
        ..Columns::default()
    };
    for _ in 0..n {
        let action = pick(world.logging.iter().copied(), rng.random());
        let reward = rng.random::<f64>() < world.rewards[action];
        columns.x.push(rng.random::<f32>());
        columns.actions.push(action as u32);
        columns.costs.push(if reward { -1.0 } else { 0.0 });
        columns.propensities.push(world.logging[action]);
        columns.full.iter_mut().for_each(|full| full.extend(&world.logging));
        played.push(world.candidate[action]);
    }
    columns.candidates = vec![("new".into(), played)];
    columns.candidate_full = vec![Some(world.candidate.repeat(n))];
    columns
}

fn evaluating() -> SpecRequest {
    let candidates = Some(vec![Candidate::Logged { name: "new".into() }]);
    SpecRequest { candidates, independent_of_log: Some(true), ..SpecRequest::default() }
}

/// Runs a job, and verifies its certificate.
fn certify(columns: &Columns, request: &SpecRequest) -> Certificate {
    let log = MemoryLog::new(columns.clone()).unwrap();
    let none = |_: &str| None;
    let context =
        SpecContext { shape: log.shape(), logging_policy: None, policy: &none, seen_rows: 0, caller: "test" };
    let inputs = Inputs {
        log: &log,
        logging_policy: None,
        policies: &BTreeMap::<String, PolicyParams>::new(),
        dataset_version: 1,
        dataset_digest: "sha256:test",
        log_checks: Some(&[]),
    };
    let finished = run(&request.resolve(&context).unwrap(), &inputs, &unattended()).unwrap();
    let again =
        verify(&finished.certificate, Wording::Compared, &finished.evidence, &inputs, &unattended()).unwrap();
    assert!(again.valid, "{:?}", again.checks.iter().filter(|check| !check.ok).collect::<Vec<_>>());
    finished.certificate
}

fn codes(reasons: &[Reason]) -> Vec<&'static str> {
    reasons.iter().map(|reason| reason.code.name()).collect()
}

#[track_caller]
fn cause<'a>(certificate: &'a Certificate, code: &str) -> &'a Reason {
    assert_eq!(certificate.decision, Decision::Keep, "{}", certificate.statement);
    let found = certificate.reasons.iter().find(|reason| reason.code.name() == code);
    found.unwrap_or_else(|| panic!("{code} is not among {:?}", certificate.reasons))
}

#[track_caller]
fn plan_of(certificate: &Certificate) -> &Plan {
    certificate.plan.as_ref().expect("every keep has a plan")
}

/// The first log that gives a keep with a plan: in small logs the estimate may be below 0.
fn promising(world: &World, n: usize) -> Columns {
    let planned = |columns: &Columns| certify(columns, &evaluating()).plan.is_some_and(|plan| plan.possible);
    (0..50).map(|seed| log(world, n, seed)).find(planned).expect("a keep with a plan")
}

const UNIFORM: [f64; 3] = [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0];

#[test]
fn too_few_rows_are_named_and_planned_for() {
    let world = world(&UNIFORM, &[0.05, 0.05, 0.9], &[0.3, 0.3, 0.5]);
    let certificate = certify(&promising(&world, 60), &evaluating());
    let reason = cause(&certificate, "too_few_rows");
    assert_eq!(reason.numbers["rows"], 60.0);
    assert!(reason.numbers["taken_off"] > reason.numbers["estimated_improvement"], "{reason:?}");
    assert_eq!(codes(&certificate.candidates[0].reasons), codes(&certificate.reasons));
    let plan = plan_of(&certificate);
    assert!(plan.possible && plan.rows > Some(60), "{plan:?}");
    assert_eq!((plan.power, plan.rows_per_day, plan.days), (0.8, None, None));
    // With so many rows, the decision is usually the other one.
    let many = certify(&log(&world, plan.fresh.unwrap().rows as usize * 2, 4), &evaluating());
    assert_eq!(many.decision, Decision::Deploy);
    assert!(many.plan.is_none() && many.breakdown.is_some());
}

#[test]
fn a_deterministic_log_is_named_and_no_rows_are_promised() {
    let world = world(&[1.0, 0.0, 0.0], &[0.0, 0.0, 1.0], &[0.3, 0.3, 0.9]);
    let certificate = certify(&log(&world, 500, 1), &evaluating());
    let reason = cause(&certificate, "deterministic_log");
    assert_eq!(reason.numbers["certain_share"], 1.0);
    assert!(certificate.reasons.iter().all(|reason| !reason.message.contains("more rows help")));
    let plan = plan_of(&certificate);
    assert!(!plan.possible && plan.rows.is_none() && plan.message.contains("explore"), "{plan:?}");
}

#[test]
fn a_policy_that_is_no_better_is_named() {
    let worse = world(&UNIFORM, &[0.9, 0.05, 0.05], &[0.1, 0.5, 0.5]);
    let certificate = certify(&log(&worse, 2000, 1), &evaluating());
    let reason = cause(&certificate, "policy_no_better");
    assert!(reason.numbers["estimated_improvement"] < 0.0);
    assert!(!codes(&certificate.reasons).contains(&"too_few_rows"));
    assert!(!plan_of(&certificate).possible);
    let same = world(&[0.5, 0.25, 0.25], &[0.5, 0.25, 0.25], &[0.1, 0.5, 0.5]);
    let certificate = certify(&log(&same, 2000, 1), &evaluating());
    assert!(cause(&certificate, "policy_no_better").message.contains("plays what the logging policy plays"));
    assert!(!plan_of(&certificate).possible && plan_of(&certificate).message.contains("nothing to gain"));
    // Better, but by less than is required.
    let little = world(&UNIFORM, &[0.0, 0.0, 1.0], &[0.4, 0.4, 0.5]);
    let request = SpecRequest { min_improvement: Some(0.5.into()), ..evaluating() };
    let certificate = certify(&log(&little, 3000, 1), &request);
    assert_eq!(cause(&certificate, "policy_no_better").numbers["min_improvement"], 0.5);
    assert!(!plan_of(&certificate).possible);
}

#[test]
fn too_little_overlap_is_named_and_exploration_saves_rows() {
    let world = world(&[0.98, 0.01, 0.01], &[0.0, 0.0, 1.0], &[0.3, 0.3, 0.5]);
    // Some logs of this size have too few plays for a plan, and some estimate no improvement.
    let planned = (0..40).map(|seed| certify(&log(&world, 1500, seed), &evaluating())).find(|certificate| {
        certificate.decision == Decision::Keep && certificate.plan.as_ref().is_some_and(|plan| plan.possible)
    });
    let certificate = planned.expect("a keep with a plan");
    let reason = cause(&certificate, "too_little_overlap");
    assert!(reason.numbers["effective_rows"] < 100.0, "{reason:?}");
    let plan = plan_of(&certificate);
    assert!(!plan.exploration.is_empty(), "{plan:?}");
    assert!(plan.exploration.windows(2).all(|pair| pair[1].rows <= pair[0].rows), "{plan:?}");
    assert!(plan.exploration.iter().all(|explored| explored.rows < plan.fresh.unwrap().rows));
}

#[test]
fn rounded_probabilities_that_cost_much_are_named() {
    let world = world(&[0.7, 0.2, 0.1], &[0.1, 0.2, 0.7], &[0.3, 0.4, 0.5]);
    let rounded = Precision { decimals: Some(1), significant: Some(1), single: false };
    let exact = log(&world, 4000, 5);
    let coarse = Columns { precision: rounded, candidate_precision: vec![rounded], ..exact.clone() };
    let certificate = certify(&coarse, &evaluating());
    let reason = certificate.reasons.iter().find(|reason| reason.code.name() == "rounded_propensities");
    let reason = reason.unwrap_or_else(|| panic!("{:?}", certificate.reasons));
    assert!(reason.message.contains("exact_propensities"));
    let breakdown = certificate.breakdown.as_ref().unwrap();
    assert_eq!(breakdown.steps[0].name, "rounding");
    assert_eq!(-breakdown.steps[0].change, reason.numbers["rounding_cost"]);
    let certificate = certify(&exact, &evaluating());
    assert!(!codes(&certificate.reasons).contains(&"rounded_propensities"));
}

#[test]
fn a_separate_baseline_that_is_too_wide_is_named() {
    let world = world(&UNIFORM, &UNIFORM.map(|p| p), &[0.3, 0.3, 0.5]);
    let mut columns = log(&world, 400, 2);
    // Weights near 1 give a narrow bound on the risk.
    columns.candidates[0].1.iter_mut().for_each(|pi| *pi *= 1.001);
    let request = SpecRequest { bound: Some(BoundKind::LogSmoothing), ..evaluating() };
    let certificate = certify(&columns, &request);
    let baseline = certificate.breakdown.as_ref().unwrap().steps.iter().find(|step| step.name == "baseline");
    assert!(baseline.is_some_and(|step| step.change < 0.0));
    let taken = certificate.breakdown.as_ref().unwrap().estimate - certificate.guaranteed_improvement;
    let named = codes(&certificate.reasons).contains(&"baseline_too_wide");
    assert_eq!(named, -baseline.unwrap().change >= 0.5 * taken);
}

/// estimate + Σ changes = guaranteed, for every bound and every baseline.
#[test]
fn breakdowns_add_up() {
    let world = world(&[0.5, 0.3, 0.2], &[0.1, 0.2, 0.7], &[0.3, 0.3, 0.6]);
    let zero = PriorRequest { kind: Some(PriorKind::Zero), ..PriorRequest::default() };
    let bounds = [
        BoundKind::Auto,
        BoundKind::Betting,
        BoundKind::LogSmoothing,
        BoundKind::Ix,
        BoundKind::LondonSandler,
        BoundKind::Catoni,
        BoundKind::Cbb,
    ];
    let known = Baseline { kind: BaselineKind::Known, risk: Some(-0.36) };
    let estimated = Baseline { kind: BaselineKind::PointEstimate, risk: None };
    let mut names = std::collections::BTreeSet::new();
    for (seed, rows) in [(1, 40), (2, 300), (3, 1500)] {
        let mut columns = log(&world, rows, seed);
        for bound in bounds {
            for baseline in [None, Some(known.clone()), Some(estimated.clone())] {
                let given = SpecRequest { bound: Some(bound), baseline: baseline.clone(), ..evaluating() };
                let mut requests = vec![given];
                if rows < 1000 {
                    let prior = (bound != BoundKind::Auto).then(|| zero.clone());
                    requests.push(SpecRequest {
                        bound: Some(bound),
                        baseline,
                        prior,
                        ..SpecRequest::default()
                    });
                }
                for request in requests {
                    let certificate = certify(&columns, &request);
                    let breakdown = certificate.breakdown.as_ref().expect("an estimate");
                    let sum: f64 =
                        breakdown.estimate + breakdown.steps.iter().map(|step| step.change).sum::<f64>();
                    assert!((sum - breakdown.guaranteed).abs() <= 1e-12, "{bound:?}: {breakdown:?}");
                    assert_eq!(breakdown.guaranteed, certificate.guaranteed_improvement);
                    names.extend(breakdown.steps.iter().map(|step| step.name.clone()));
                }
            }
        }
        columns.logging = Logging::Adaptive;
        let anytime = SpecRequest { looks: Some(Looks::Anytime), ..evaluating() };
        for request in [evaluating(), anytime] {
            let certificate = certify(&columns, &request);
            let breakdown = certificate.breakdown.as_ref().unwrap();
            let sum: f64 = breakdown.estimate + breakdown.steps.iter().map(|step| step.change).sum::<f64>();
            assert!((sum - certificate.guaranteed_improvement).abs() <= 1e-12);
        }
    }
    for name in ["confidence", "kl", "bias", "baseline", "numerical_slack"] {
        assert!(names.contains(name), "{name} is not among {names:?}");
    }
}

#[test]
fn days_come_from_timestamps_or_as_stated() {
    let world = world(&UNIFORM, &[0.05, 0.05, 0.9], &[0.3, 0.3, 0.5]);
    let mut columns = promising(&world, 61);
    // Six rows per hour.
    columns.timestamps = Some((0..61).map(|i| 1_700_000_000_000_000 + i * 600_000_000).collect());
    let plan = certify(&columns, &evaluating()).plan.unwrap();
    assert_eq!(plan.rows_per_day, Some(144.0));
    let rows = plan.rows.unwrap() as f64;
    assert!((plan.days.unwrap() - rows / 144.0).abs() <= 0.1 + 1e-9, "{plan:?}");
    let stated = certify(&columns, &SpecRequest { rows_per_day: Some(1000.0), ..evaluating() }).plan.unwrap();
    assert_eq!((stated.rows_per_day, stated.rows), (Some(1000.0), plan.rows));
    // Rows of one moment have no traffic.
    columns.timestamps = Some(vec![5; 61]);
    assert_eq!(certify(&columns, &evaluating()).plan.unwrap().rows_per_day, None);
}

#[test]
fn a_learned_policy_can_only_be_planned_with_fresh_rows() {
    let world = world(&UNIFORM, &UNIFORM, &[0.3, 0.32, 0.34]);
    let certificates = (0..20).map(|seed| certify(&log(&world, 200, seed), &SpecRequest::default()));
    let plan = certificates.filter_map(|certificate| certificate.plan).find(|plan| plan.possible);
    let plan = plan.expect("a keep with a plan");
    assert!(plan.pooled.is_none() && plan.sooner == Some(Route::Fresh), "{plan:?}");
}

/// What is asked before there is a log.
fn asking() -> PlanRequest {
    PlanRequest {
        improvement: Some(0.05),
        n_actions: Some(4),
        outcome_mean: Some(0.3),
        ..PlanRequest::default()
    }
}

#[test]
fn plans_before_a_log_get_smaller_with_what_is_known_and_larger_with_what_is_asked() {
    let rows = |request: PlanRequest| plan_before(&request).unwrap().rows.unwrap();
    let base = rows(asking());
    assert!(rows(PlanRequest { outcome_mean: None, ..asking() }) > base);
    assert!(rows(PlanRequest { outcome_spread: Some(0.1), ..asking() }) < base);
    assert!(rows(PlanRequest { full_propensities: Some(true), ..asking() }) < base);
    assert!(rows(PlanRequest { logging: Some(Logging::Fixed), ..asking() }) < base);
    assert!(rows(PlanRequest { changed: Some(0.3), exploration: Some(0.5), ..asking() }) > 0);
    assert!(rows(PlanRequest { candidates: Some(10), ..asking() }) > base);
    assert!(rows(PlanRequest { delta: Some(0.01), ..asking() }) > base);
    assert!(rows(PlanRequest { power: Some(0.95), ..asking() }) > base);
    assert!(rows(PlanRequest { min_improvement: Some(0.02), ..asking() }) > base);
    assert!(rows(PlanRequest { exploration: Some(0.1), ..asking() }) > base);
    let learn = PlanRequest { kind: Some(JobKind::Learn), ..asking() };
    let less = PlanRequest { fraction: Some(0.3), ..learn.clone() };
    assert!(rows(learn) > rows(less));
    // Half of a range of 2 is a quarter of one of 4.
    let outcome = |max: f64| {
        Some(guarantor_engine::plan::PlanOutcome {
            kind: guarantor_engine::log::OutcomeKind::Reward,
            min: 0.0,
            max,
        })
    };
    let share = PlanRequest { outcome: outcome(4.0), outcome_mean: Some(1.2), ..asking() };
    let units = PlanRequest { improvement: Some(0.2), unit: Some(PlanUnit::Outcome), ..share.clone() };
    assert_eq!((rows(share), rows(units)), (base, base));
}

#[test]
fn a_plan_before_a_log_says_what_exploration_saves_and_when_nothing_helps() {
    let greedy = PlanRequest { exploration: Some(0.05), rows_per_day: Some(500.0), ..asking() };
    let plan = plan_before(&greedy).unwrap();
    assert!(plan.exploration.len() >= 3 && plan.days.is_some(), "{plan:?}");
    assert!(plan.exploration.windows(2).all(|pair| pair[1].rows < pair[0].rows), "{plan:?}");
    assert!(plan_before(&asking()).unwrap().exploration.is_empty(), "uniform is as much as there is");
    let equal = PlanRequest { min_improvement: Some(0.05), ..asking() };
    let plan = plan_before(&equal).unwrap();
    assert!(!plan.possible && plan.rows.is_none() && plan.sooner.is_none(), "{plan:?}");
    let vector = PlanRequest { n_actions: None, propensities: Some(vec![0.9, 0.05, 0.05]), ..asking() };
    assert!(plan_before(&vector).unwrap().possible);
}
