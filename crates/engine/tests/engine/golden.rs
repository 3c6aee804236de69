//! Everything in tests/golden through the public interface: propensities and gradients, bounds as functions
//! of their statistics, and a tiny log measured at the resolution of certificates. The files have 40-digit
//! reference values that an independent program computed.

use crate::given::Given;
use guarantor_engine::bound::{Betting, Bound, Catoni, Cbb, Ix, LondonSandler, Sample, lambda_grid};
use guarantor_engine::control::unattended;
use guarantor_engine::learn::bound_learner::Gaussian;
use guarantor_engine::log::{Columns, LogSource, Logging, MemoryLog, Repetitions};
use guarantor_engine::measure::{Statistics, Subject, measure};
use guarantor_engine::numerics::divergence;
use guarantor_engine::policy::{Lig, Policy, PolicyParams, Scratch};
use guarantor_engine::spec::PolicyClass;
use guarantor_engine::terms::Terms;
use serde_json::Value;

/// The promised agreement with the reference values. It must not be loosened.
const TOLERANCE: f64 = 1e-9;

/// Below this size a number is compared absolutely: a difference of two large terms cannot keep
/// more digits than they have.
const SMALL: f64 = 1e-3;

fn load(name: &str) -> Value {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Numbers are JSON numbers or strings of 20 digits.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| value.as_str().expect("a number").parse().expect("a number"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("an array").iter().map(number).collect()
}

fn assert_close(what: &str, got: f64, want: &Value) {
    let want = number(want);
    let error = (got - want).abs() / want.abs().max(SMALL);
    assert!(error <= TOLERANCE, "{what}: {got} is not {want} ({error:e})");
}

/// Propensities at z and, row by row, their derivatives, from unit vectors h.
fn propensities_and_gradients(z: &[f64]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let (lig, k) = (Lig::fine(1.0, z.len()), z.len());
    let (mut scratch, mut pi) = (Scratch::default(), vec![0.0; k]);
    lig.propensities(z, 1.0, &mut scratch, &mut pi);
    let mut row = |a: usize| {
        let (mut h, mut d) = (vec![0.0; k], vec![0.0; k]);
        h[a] = 1.0;
        lig.gradient(z, 1.0, &mut scratch, &pi, &h, &mut d);
        d
    };
    let gradients = (0..k).map(&mut row).collect();
    (pi, gradients)
}

#[test]
fn lig_propensities_and_gradients() {
    let cases = load("lig_propensities.json");
    let mut with_gradient = 0;
    for case in cases["cases"].as_array().unwrap() {
        let z = numbers(&case["z"]);
        let (pi, gradients) = propensities_and_gradients(&z);
        for a in 0..z.len() {
            assert_close(&format!("π({a}) at {z:?}"), pi[a], &case["pi"][a]);
        }
        let Some(want) = case["dpi_dz"].as_array() else { continue };
        with_gradient += 1;
        for (a, b) in (0..z.len()).flat_map(|a| (0..z.len()).map(move |b| (a, b))) {
            assert_close(&format!("dπ({a})/dz({b}) at {z:?}"), gradients[a][b], &want[a][b]);
        }
    }
    assert_eq!(with_gradient, 8, "golden cases that have gradients");
}

fn once_each(n: u64) -> Sample {
    Sample { rows: n, contexts: n }
}

#[test]
fn bounds_of_cips() {
    for case in load("bounds.json")["cips"].as_array().unwrap() {
        let get = |name: &str| number(&case[name]);
        let (sample, tau, delta) = (once_each(get("n") as u64), get("tau"), get("delta"));
        let (statistics, kl) = ([get("rhat")], get("kl"));
        let ls = LondonSandler { sample, tau, delta }.value_and_gradient(&statistics, kl);
        assert_close("london_sandler", ls.value, &case["london_sandler"]);
        let catoni = Catoni { sample, tau, delta };
        assert_close("catoni", catoni.value_and_gradient(&statistics, kl).value, &case["catoni"]);
        let at = catoni.at_lambda(statistics[0], kl, 0.02);
        assert_close("catoni at λ = 0.02", at, &case["catoni_at_lambda_0.02"]);
    }
}

#[test]
fn implicit_exploration_of_its_statistic() {
    for case in load("ix.json")["cases"].as_array().unwrap() {
        let get = |name: &str| number(&case[name]);
        let bound = Ix { sample: once_each(get("n") as u64), delta: get("delta") };
        assert_close("ix", bound.value_and_gradient(&[get("rhat")], get("kl")).value, &case["ix"]);
    }
}

#[test]
fn conditional_bernstein_of_its_statistics() {
    for case in load("bounds.json")["cbb"].as_array().unwrap() {
        let get = |name: &str| number(&case[name]);
        let sample = once_each(get("n") as u64);
        let bound = Cbb::new(sample, vec![1], get("tau"), get("xi"), get("delta"));
        // The golden `rhat` is cvcIPS including its constant ξ; the bound's statistic is without it.
        let statistics = [get("rhat") - get("xi"), get("bias"), get("second_moment")];
        let value = bound.value_and_gradient(&statistics, get("kl"));
        assert_close("cbb", value.value, &case["cbb"]);
        let terms = bound.terms(&statistics, get("kl"));
        assert_close("λ", terms.lambda.unwrap(), &case["lambda"]);
        assert_eq!(terms.grid_size, case["n_lambda"].as_u64());
    }
}

#[test]
fn divergence_of_gaussians() {
    for case in load("bounds.json")["gaussian_kl"].as_array().unwrap() {
        let get = |name: &str| number(&case[name]);
        let dim = case["dim"].as_u64().unwrap() as usize;
        let kl = divergence::gaussian(get("squared_distance"), dim, get("sigma"), get("sigma0"));
        assert_close("kl", kl, &case["kl"]);
    }
}

/// The tiny log with what is needed to measure a policy on it.
struct Tiny {
    golden: Value,
    log: MemoryLog,
    sample: Sample,
    multiplicities: Vec<u64>,
    policy: PolicyParams,
    kl: f64,
    tau: f64,
    delta: f64,
}

/// Features have three decimal places, which f32 cannot represent. LIG policies do not change if x is
/// multiplied by a constant, and multiplied by 1000 the features are integers, which f32 represents exactly.
const EXACT: f64 = 1000.0;

fn columns(golden: &Value, rows: &[&Value]) -> Columns {
    let mut columns = Columns {
        n_actions: golden["K"].as_u64().unwrap() as usize,
        dim: golden["p"].as_u64().unwrap() as usize,
        full: Some(Vec::new()),
        contexts: Some(Vec::new()),
        logging: Logging::Fixed,
        repetitions: Repetitions::Designed,
        ..Columns::default()
    };
    for row in rows {
        let (action, pi0) = (row["action"].as_u64().unwrap(), numbers(&row["pi0"]));
        columns.x.extend(numbers(&row["x"]).iter().map(|x| (x * EXACT).round() as f32));
        columns.actions.push(action as u32);
        columns.costs.push(number(&row["cost"]));
        columns.propensities.push(pi0[action as usize]);
        columns.full.as_mut().unwrap().extend(pi0);
        columns.contexts.as_mut().unwrap().push(row["context"].as_u64().unwrap());
    }
    columns
}

fn gaussian(golden: &Value, mean: &str, scale: &str) -> Gaussian {
    let rows: Vec<Vec<f64>> = golden[mean].as_array().unwrap().iter().map(numbers).collect();
    let (p, k) = (rows.len(), rows[0].len());
    let mean = ndarray::Array2::from_shape_vec((p, k), rows.concat()).unwrap();
    Gaussian { mean, scale: number(&golden[scale]) }
}

/// The distinct numbers of times that a context was logged, ascending.
fn multiplicities(contexts: &[u64]) -> Vec<u64> {
    let mut counts = std::collections::BTreeMap::new();
    contexts.iter().for_each(|c| *counts.entry(c).or_insert(0u64) += 1);
    counts.into_values().collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

impl Tiny {
    fn load(single: bool) -> Tiny {
        let golden = load("tiny_log.json");
        let all = golden["rows"].as_array().unwrap();
        let kept = |row: &&Value| !single || row["context"].as_u64().unwrap() < 40;
        let columns = columns(&golden, &all.iter().filter(kept).collect::<Vec<_>>());
        let multiplicities = multiplicities(columns.contexts.as_ref().unwrap());
        assert_eq!(multiplicities == [1], single);
        let log = MemoryLog::new(columns).unwrap();
        let sample = Sample { rows: log.shape().rows, contexts: log.shape().contexts };
        let (q, prior) = (gaussian(&golden, "mu", "sigma"), gaussian(&golden, "mu0", "sigma0"));
        Tiny {
            log,
            sample,
            multiplicities,
            policy: q.policy(PolicyClass::Lig),
            kl: q.kl(&prior),
            tau: number(&golden["tau"]),
            delta: number(&golden["delta"]),
            golden,
        }
    }

    fn statistics(&self, of: &dyn Statistics) -> Vec<f64> {
        measure(&self.log, Subject::Policy(&self.policy), None, of, &unattended()).unwrap().statistics
    }

    /// Value, terms and statistics of a bound on this log.
    fn value(&self, bound: &dyn Bound) -> (f64, Terms, Vec<f64>) {
        let statistics = self.statistics(&bound);
        let value = bound.value_and_gradient(&statistics, self.kl).value;
        (value, bound.terms(&statistics, self.kl), statistics)
    }

    fn assert_cbb(&self, xi: f64, want: &Value) {
        let bound = Cbb::new(self.sample, self.multiplicities.clone(), self.tau, xi, self.delta);
        let (value, terms, statistics) = self.value(&bound);
        assert_close("cvcips", terms.empirical_risk.unwrap(), &want["cvcips"]);
        assert_close("bias", statistics[1], &want["bias"]);
        if !want["second_moment"].is_null() {
            assert_close("second moment", terms.second_moment.unwrap(), &want["second_moment"]);
        }
        assert_close("cbb", value, &want["bound"]);
        // The appendix's λ is n times the main text's, which is the one in the terms.
        let scale = if self.multiplicities == [1] { 1.0 } else { self.sample.rows as f64 };
        assert_close("cbb's λ", scale * terms.lambda.unwrap(), &want["lambda"]);
    }

    fn assert_bet(&self, what: &str, bound: &Betting, want: &Value) {
        let (value, terms, _) = self.value(bound);
        assert_close(what, value, &want["upper_bound"]);
        assert_close(&format!("{what}'s λ"), terms.lambda.unwrap(), &want["lambda"]);
    }

    fn assert_given(&self, what: &str, kappa: u8, xi: f64, want: &Value) {
        let given = Given { betting: Betting::new(self.sample, kappa, &[xi], self.tau, self.delta) };
        let statistics = self.statistics(&given);
        let value = given.betting.value_and_gradient(&statistics, 0.0);
        assert_close(what, value.value, &want["upper_bound"]);
        let lambda = given.betting.choices[value.choice].lambda;
        assert_close(&format!("{what}'s λ"), lambda, &want["lambda"]);
    }

    fn betting(&self, kappa: u8, xi: f64) -> Betting {
        Betting::new(self.sample, kappa, &[xi], self.tau, self.delta)
    }
}

#[test]
fn tiny_log_propensities() {
    let tiny = Tiny::load(true);
    let pi = tiny.policy.propensities(tiny.log.x()).unwrap();
    for (c, row) in tiny.golden["rows"].as_array().unwrap().iter().take(pi.nrows()).enumerate() {
        for a in 0..pi.ncols() {
            assert_close(&format!("π({a}|x_{c})"), pi[(c, a)], &row["pi"][a]);
        }
    }
}

#[test]
fn tiny_log_with_single_interactions() {
    let tiny = Tiny::load(true);
    let want = &tiny.golden["single"];
    let (sample, tau, delta) = (tiny.sample, tiny.tau, tiny.delta);
    assert_close("kl", tiny.kl, &want["kl"]);
    let (value, terms, _) = tiny.value(&LondonSandler { sample, tau, delta });
    assert_close("cips", terms.empirical_risk.unwrap(), &want["cips"]);
    assert_close("london_sandler", value, &want["london_sandler"]);
    assert_close("catoni", tiny.value(&Catoni { sample, tau, delta }).0, &want["catoni"]);
    tiny.assert_cbb(0.0, &want["cbb_xi_0"]);
    tiny.assert_cbb(-0.5, &want["cbb_xi_-0.5"]);
    tiny.assert_bet("log_smoothing", &Betting::log_smoothing(sample, delta), &want["log_smoothing"]);
    tiny.assert_bet("improvement", &tiny.betting(1, 0.0), &want["log_smoothing_improvement"]);
    tiny.assert_bet("risk at ξ", &tiny.betting(0, -0.2), &want["betting_risk_xi_-0.2"]);
    tiny.assert_bet("improvement at ξ", &tiny.betting(1, -0.2), &want["betting_improvement_xi_-0.2"]);
}

#[test]
fn tiny_log_with_multiple_interactions() {
    let tiny = Tiny::load(false);
    let want = &tiny.golden["multiple"];
    tiny.assert_cbb(0.0, &want["cbb_xi_0"]);
    tiny.assert_cbb(-0.5, &want["cbb_xi_-0.5"]);
    let log_smoothing = Betting::log_smoothing(tiny.sample, tiny.delta);
    tiny.assert_bet("log_smoothing", &log_smoothing, &want["log_smoothing"]);
    tiny.assert_bet("improvement at ξ", &tiny.betting(1, -0.2), &want["betting_improvement_xi_-0.2"]);
}

#[test]
fn tiny_log_with_implicit_exploration() {
    for (part, single) in [("single", true), ("multiple", false)] {
        let (tiny, want) = (Tiny::load(single), &load("ix.json")["tiny_log"][part]);
        let (value, terms, statistics) = tiny.value(&Ix { sample: tiny.sample, delta: tiny.delta });
        assert_close("γ", terms.gamma.unwrap(), &want["gamma"]);
        assert_close("the statistic", statistics[0], &want["statistic"]);
        assert_close("ix", value, &want["ix"]);
    }
}

#[test]
fn tiny_log_of_a_given_policy() {
    for (part, single) in [("single", true), ("multiple", false)] {
        let tiny = Tiny::load(single);
        let want = |name: &str| &tiny.golden["given_policy"][name][part];
        tiny.assert_given("risk", 0, 0.0, want("risk_xi_0_tau_0"));
        tiny.assert_given("improvement", 1, 0.0, want("improvement_xi_0_tau_0"));
        tiny.assert_given("risk at −0.2", 0, -0.2, want("risk_xi_-0.2"));
        tiny.assert_given("improvement at −0.5", 1, -0.5, want("improvement_xi_-0.5"));
    }
}

/// The golden baseline is that of the single interactions: the mean cost, and −kl⁻¹(mean(−c), ln(1/δ)/n).
#[test]
fn tiny_log_baseline() {
    let tiny = Tiny::load(true);
    let want = &tiny.golden["single"]["baseline"];
    let mut total = 0.0;
    for index in 0..tiny.log.chunks() {
        let chunk = tiny.log.chunk(index).unwrap();
        total += chunk.costs.iter().zip(chunk.weights.iter()).map(|(c, w)| c * w).sum::<f64>();
    }
    let n = tiny.sample.contexts as f64;
    assert_close("mean cost", total / n, &want["mean_cost"]);
    let lower = -divergence::bernoulli_inverse(-total / n, (1.0 / tiny.delta).ln() / n);
    assert_close("lower bound on R(π0)", lower, &want["kl_lower_bound_on_risk_at_delta"]);
}

/// The reference values were computed on the documented grid, docs/math.md#betting-grid.
#[test]
fn betting_grid_is_the_documented_one() {
    let grid = lambda_grid(-0.5, 0.25, 1);
    assert_eq!(grid.len(), 32);
    for (k, choice) in grid.iter().enumerate() {
        let want = 0.9 / 3.0 * 2f64.powf(-0.5 * k as f64);
        assert!((choice.lambda - want).abs() <= TOLERANCE * want, "{k}: {} not {want}", choice.lambda);
    }
}

/// Certificates name policies by these ids, so they must never change. The value is that of release 0.6.0.
#[test]
fn the_id_of_a_policy_follows_from_its_parameters() {
    let policy = PolicyParams::Uniform { n_actions: 5, dim: 8 };
    assert_eq!(policy.id_of_content().unwrap(), "ec06429b-ed23-8c3f-8651-9c89e646f15d");
}
