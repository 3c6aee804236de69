//! Valid but extreme inputs: every number stays finite.

use std::collections::BTreeMap;

use crate::given::Given;
use guarantor_engine::baseline::{lower_bound, mean_cost};
use guarantor_engine::bound::Betting;
use guarantor_engine::certificate::{Certificate, Decision};
use guarantor_engine::control::unattended;
use guarantor_engine::learn::bound_learner::{Gaussian, LearningProblem, minimize};
use guarantor_engine::log::{Columns, LogSource, MemoryLog};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{Optimizer, PolicyClass, Preset, SpecContext, SpecRequest};
use guarantor_engine::verify::Wording;
use guarantor_engine::{Inputs, run, verify};
use ndarray::Array2;

use super::small::{Recipe, bounds, measured, multiplicities, sample, value};

const FEW: usize = 6;
/// Enough for `auto` to split.
const ENOUGH_TO_SPLIT: usize = 40;

fn ordinary(contexts: usize) -> Columns {
    Recipe { seed: 3, contexts, most: 1, k: 2, p: 2 }.columns()
}

/// A single context whose rows all have the same x and π0.
fn one_context(rows: usize) -> Columns {
    let one = Recipe { seed: 4, contexts: 1, most: 1, k: 2, p: 2 }.columns();
    Columns {
        x: one.x.repeat(rows),
        actions: one.actions.repeat(rows),
        costs: one.costs.repeat(rows),
        propensities: one.propensities.repeat(rows),
        full: one.full.map(|f| f.repeat(rows)),
        contexts: Some(vec![7; rows]),
        ..one
    }
}

/// Every row played action 0 with this propensity.
fn with_propensity(propensity: f64, contexts: usize) -> Columns {
    let columns = ordinary(contexts);
    let n = columns.rows();
    let full = [propensity, 1.0 - propensity].repeat(n);
    Columns { actions: vec![0; n], propensities: vec![propensity; n], full: Some(full), ..columns }
}

/// The degenerate logs. `contexts` is their size unless the case fixes it.
fn logs(contexts: usize) -> Vec<(&'static str, Columns)> {
    let ordinary = ordinary(contexts);
    let n = ordinary.rows();
    vec![
        ("n = 1", Recipe { seed: 5, contexts: 1, most: 1, k: 2, p: 1 }.columns()),
        ("K = 2", ordinary.clone()),
        ("zero features", Columns { x: vec![0.0; n * 2], ..ordinary.clone() }),
        ("huge features", Columns { x: vec![1e18; n * 2], ..ordinary.clone() }),
        ("costs all 0", Columns { costs: vec![0.0; n], ..ordinary.clone() }),
        ("costs all −1", Columns { costs: vec![-1.0; n], ..ordinary }),
        ("propensity 1", with_propensity(1.0, contexts)),
        ("propensity 1e-12", with_propensity(1e-12, contexts)),
        ("one repeated context", one_context(9)),
    ]
}

fn gaussians(dim: usize) -> Vec<Gaussian> {
    let gaussian = |size: f64, scale: f64| Gaussian {
        mean: Array2::from_shape_fn((dim, 2), |(j, a)| size * (j as f64 - 0.5) * (a as f64 + 0.3)),
        scale,
    };
    vec![gaussian(1.0, 1.0), gaussian(0.0, 1.0), gaussian(1e6, 1.0), gaussian(1.0, 1e-6), gaussian(1.0, 1e6)]
}

#[test]
fn every_bound_of_every_degenerate_log_is_finite() {
    for (what, columns) in logs(FEW) {
        let log = MemoryLog::new(columns.clone()).unwrap();
        let all = bounds(sample(&log), &multiplicities(&columns), 0.5, 0.05);
        for q in gaussians(columns.dim) {
            let policy = q.policy(PolicyClass::Lig);
            for bound in &all {
                let value = value(&log, &policy, &**bound, 0.7);
                assert!(value.is_finite(), "{what}, {}: {value}", bound.name());
            }
            for kappa in [0, 1] {
                let betting = Betting::new(sample(&log), kappa, &[0.0, -0.5], 0.5, 0.05);
                let given = Given { betting };
                let statistics = measured(&log, &policy, &given).statistics;
                let value = given.betting.at(0, statistics[0], 0.0).0;
                assert!(value.is_finite() && statistics.iter().all(|s| s.is_finite()), "{what}: {value}");
            }
        }
    }
}

#[test]
fn every_class_of_policy_is_finite_on_degenerate_logs() {
    for (what, columns) in logs(FEW) {
        let log = MemoryLog::new(columns.clone()).unwrap();
        let bound = Betting::log_smoothing(sample(&log), 0.05);
        let mean = vec![vec![0.5, -2.0]; columns.dim];
        let classes = [
            PolicyParams::Uniform { n_actions: 2, dim: columns.dim },
            PolicyParams::Softmax {
                mean: mean.clone(),
                inverse_temperature: 1e3,
                features: Default::default(),
            },
            PolicyParams::MixedLogit { mean, scale: 2.0, features: Default::default() },
        ];
        for policy in classes {
            let value = value(&log, &policy, &bound, 0.0);
            assert!(value.is_finite(), "{what}: {value}");
        }
    }
}

#[test]
fn learning_on_degenerate_logs_gives_finite_results() {
    for (what, columns) in logs(FEW) {
        let log = MemoryLog::new(columns.clone()).unwrap();
        let prior = Gaussian { mean: Array2::zeros((columns.dim, 2)), scale: 1.0 };
        for bound in bounds(sample(&log), &multiplicities(&columns), 0.5, 0.05) {
            let problem = LearningProblem {
                log: &log,
                bound: &*bound,
                class: PolicyClass::Lig,
                prior: &prior,
                seed: 0,
            };
            let optimizer = Optimizer {
                preset: Preset::Fast,
                epochs: Some(20),
                learning_rate: None,
                batch_size: None,
                max_seconds: None,
            };
            let q = match minimize(&problem, &optimizer, &unattended()) {
                Ok(learned) => learned.gaussian,
                Err(error) => panic!("{what}, {}: {error}", bound.name()),
            };
            let value = value(&log, &q.policy(PolicyClass::Lig), &*bound, q.kl(&prior));
            assert!(value.is_finite(), "{what}, {}: {value}", bound.name());
        }
    }
}

#[test]
fn baselines_of_degenerate_logs_are_risks() {
    for (what, columns) in logs(FEW) {
        let log = MemoryLog::new(columns).unwrap();
        let mean = mean_cost(&log, &unattended()).unwrap();
        let lower = lower_bound(mean, log.shape().contexts, 0.05);
        assert!((-1.0..=0.0).contains(&lower) && lower <= mean, "{what}: {lower} for {mean}");
    }
}

/// From the log to a certificate that verifies.
fn certified(what: &str, columns: Columns) -> Certificate {
    let log = MemoryLog::new(columns).unwrap();
    let context = SpecContext {
        shape: log.shape(),
        logging_policy: None,
        policy: &|_| None,
        seen_rows: 0,
        caller: "nobody",
    };
    let spec = SpecRequest::default().resolve(&context).unwrap();
    let policies = BTreeMap::new();
    let inputs = Inputs {
        log: &log,
        logging_policy: None,
        policies: &policies,
        dataset_version: 1,
        dataset_digest: "degenerate",
        log_checks: None,
    };
    let finished = run(&spec, &inputs, &unattended()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let verification =
        verify(&finished.certificate, Wording::Compared, &finished.evidence, &inputs, &unattended()).unwrap();
    assert!(verification.valid, "{what}: {verification:?}");
    finished.certificate
}

#[test]
fn whole_jobs_on_degenerate_logs_end_in_a_certificate() {
    for (what, columns) in logs(FEW).into_iter().chain(logs(ENOUGH_TO_SPLIT)) {
        let hopeless = columns.costs.iter().all(|c| *c == 0.0 || *c == -1.0);
        let certificate = certified(what, columns);
        let (risk, improvement) = (certificate.guaranteed_risk, certificate.guaranteed_improvement);
        assert!(risk.is_finite() && improvement.is_finite(), "{what}: {risk}, {improvement}");
        // If all costs are equal, nothing can be an improvement.
        assert!(!hopeless || certificate.decision == Decision::Keep, "{what}: {improvement}");
    }
}
