//! Propensities that were written with few digits. The candidate is the logging policy itself, so it improves
//! nothing. Rewards come from actions whose propensities were rounded down, so every weight of a rewarded row is
//! too large, and with enough rows the policy would appear to improve on itself.

use std::collections::BTreeMap;

use guarantor_engine::log::{Columns, MemoryLog, Precision, PrecisionFinder};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::Candidate;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::case::evaluating_all;
use super::{DELTAS, LOGS};
use crate::harness::{Claim, Tally, assert_flagged, assert_valid, simulate};
use crate::jobs::run_job;
use crate::world::pick;

/// A policy without features, and the actions that are rewarded.
struct Plain {
    pi0: Vec<f64>,
    rewarded: usize,
    rows: usize,
}

/// How often a rewarded action is rewarded.
const REWARD: f64 = 0.9;

/// How a number is written.
#[derive(Clone, Copy)]
enum Written {
    Decimals(i32),
    /// As by `%.3g`.
    SignificantDigits(i32),
    Single,
}

impl Written {
    fn write(self, p: f64) -> f64 {
        let round = |digits: i32| (p * 10f64.powi(digits)).round() / 10f64.powi(digits);
        match self {
            Written::Decimals(digits) => round(digits),
            Written::SignificantDigits(digits) => round(digits - 1 - p.log10().floor() as i32),
            Written::Single => f64::from(p as f32),
        }
    }
}

/// What the writer of a log does with it, and what its reader knows.
#[derive(Clone, Copy)]
struct Case {
    written: Written,
    /// Whether the log has the propensities of all actions.
    full: bool,
    /// Whether the precision of the numbers is found, or they are taken as exact.
    found: bool,
}

impl Plain {
    /// Half of the actions are rewarded. Their propensities are `more`, the others' are `less`.
    fn halves(actions: usize, more: f64, less: f64, rows: usize) -> Plain {
        let pi0: Vec<f64> = (0..actions).map(|a| if a < actions / 2 { more } else { less }).collect();
        assert!((pi0.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        Plain { pi0, rewarded: actions / 2, rows }
    }

    /// The exact policy as parameters.
    fn policy(&self) -> PolicyParams {
        let mean = vec![self.pi0.iter().map(|p| p.ln()).collect()];
        PolicyParams::Softmax { mean, inverse_temperature: 1.0, features: Default::default() }
    }

    fn draw(&self, case: Case, rng: &mut ChaCha8Rng) -> Columns {
        let written: Vec<f64> = self.pi0.iter().map(|&p| case.written.write(p)).collect();
        let mut columns = Columns {
            n_actions: self.pi0.len(),
            dim: 1,
            x: vec![1.0; self.rows],
            full: case.full.then(Vec::new),
            ..Columns::default()
        };
        let (mut exact, mut rounded) = (Vec::new(), Vec::new());
        let (mut finder, mut exact_finder) = (PrecisionFinder::default(), PrecisionFinder::default());
        for _ in 0..self.rows {
            let action = pick(self.pi0.iter().copied(), rng.random());
            let rewarded = action < self.rewarded && rng.random::<f64>() < REWARD;
            columns.actions.push(action as u32);
            columns.costs.push(-f64::from(u8::from(rewarded)));
            columns.propensities.push(written[action]);
            columns.full.iter_mut().for_each(|full| full.extend(&written));
            exact.push(self.pi0[action]);
            rounded.push(written[action]);
            finder.see(written[action]);
            exact_finder.see(self.pi0[action]);
        }
        if case.full {
            written.iter().for_each(|&p| finder.see(p));
        }
        columns.candidates = vec![("exact".into(), exact), ("rounded".into(), rounded)];
        if case.found {
            columns.precision = finder.finish();
            columns.candidate_precision = vec![Precision::default(), finder.finish()];
        }
        columns
    }

    /// The claim that none of the forms of the policy improves on itself by more than 0.
    fn claims(&self, name: &'static str, case: Case, rng: &mut ChaCha8Rng) -> Vec<Claim> {
        let log = MemoryLog::new(self.draw(case, rng)).expect("a drawn log is a log");
        self.claims_on(name, &log)
    }

    fn claims_on(&self, name: &'static str, log: &MemoryLog) -> Vec<Claim> {
        let policies = BTreeMap::from([("itself".to_string(), self.policy())]);
        let risk = -REWARD * self.pi0[..self.rewarded].iter().sum::<f64>();
        let claim = |delta: f64| {
            let logged = |name: &str| Candidate::Logged { name: name.into() };
            let mut candidates = vec![logged("exact"), logged("rounded")];
            // A stored policy with many actions takes long to evaluate, and differs little from a logged one.
            if self.pi0.len() < 100 {
                candidates.push(Candidate::Policy { policy_id: "itself".into() });
            }
            let results = run_job(&evaluating_all(candidates, delta), log, &policies).certificate.candidates;
            let excesses = results.iter().flat_map(|r| [r.guaranteed_improvement, risk - r.guaranteed_risk]);
            Claim::that_none_exceeds(name, excesses).at(delta)
        };
        DELTAS.map(claim).into()
    }

    fn tallies(&self, name: &'static str, logs: u64, seed: u64, case: Case) -> Vec<Tally> {
        simulate(logs, seed, |rng| self.claims(name, case, rng))
    }
}

/// Rewarded actions are rounded down: 0.0274 to 0.027, and 0.01144 to 0.0114.
fn three_decimals() -> Plain {
    Plain::halves(40, 0.0274, 0.0226, 1500)
}

fn four_decimals() -> Plain {
    Plain::halves(100, 0.01144, 0.00856, 7000)
}

#[test]
fn rounded_propensities_hold() {
    let case = Case { written: Written::Decimals(3), full: false, found: true };
    assert_valid(&three_decimals().tallies("three decimals", LOGS, 10_300, case));
    let case = Case { full: true, ..case };
    assert_valid(&three_decimals().tallies("three decimals, all actions", LOGS, 10_310, case));
    let case = Case { written: Written::Decimals(4), full: false, ..case };
    assert_valid(&four_decimals().tallies("four decimals", LOGS, 10_320, case));
}

/// Written as 0.3 and 0.2, which sum to 1, and as 0.25 and 0.25.
#[test]
fn one_and_two_decimals_hold() {
    for (plain, digits, seed) in [
        (Plain::halves(4, 0.345, 0.155, 2000), 1, 10_390),
        (Plain::halves(4, 0.2549, 0.2451, 2000), 2, 10_400),
    ] {
        let case = Case { written: Written::Decimals(digits), full: false, found: true };
        assert_valid(&plain.tallies("few decimals", LOGS, seed, case));
        assert_valid(&plain.tallies("few decimals, all actions", 60, seed + 1, Case { full: true, ..case }));
        let exact = Case { found: false, ..case };
        assert_flagged(&plain.tallies("few decimals as exact", 30, seed + 2, exact));
    }
}

#[test]
fn single_precision_holds() {
    let case = Case { written: Written::Single, full: true, found: true };
    assert_valid(&Plain::halves(4, 0.3, 0.2, 800).tallies("single precision", LOGS, 10_330, case));
}

#[test]
fn taking_rounded_propensities_as_exact_is_caught() {
    let case = Case { written: Written::Decimals(3), full: false, found: false };
    assert_flagged(&three_decimals().tallies("three decimals as exact", 12, 10_340, case));
    let case = Case { written: Written::Decimals(4), ..case };
    assert_flagged(&four_decimals().tallies("four decimals as exact", 12, 10_350, case));
}

/// Twenty rare actions are rounded up from 0.00496 to 0.0050, so the written numbers sum to 1.0008. Scaled to sum
/// to 1, the frequent action's 0.9008 becomes 0.9001, which is further from the truth than rounding alone.
#[test]
fn rounded_propensities_that_do_not_sum_to_one_hold() {
    let pi0 = [vec![0.9008], vec![0.00496; 20]].concat();
    let plain = Plain { pi0, rewarded: 1, rows: 25_000 };
    let case = Case { written: Written::Decimals(4), full: true, found: true };
    assert_valid(&plain.tallies("sum to 1.0008", 12, 10_360, case));
}

/// Rounded to three significant digits, the smallest propensity has five decimals, and the others three.
#[test]
fn significant_digits_hold() {
    let plain = Plain { pi0: vec![0.33344, 0.33344, 0.33189, 0.00123], rewarded: 2, rows: 25_000 };
    let case = Case { written: Written::SignificantDigits(3), full: false, found: true };
    assert_valid(&plain.tallies("three significant digits", 12, 10_370, case));
}

/// A policy that is nearly uniform is not uniform, even if its rounded propensities cannot be told from 1/K.
#[test]
fn taking_a_nearly_uniform_log_for_a_uniform_one_is_caught() {
    let plain = Plain { pi0: vec![0.2549, 0.2549, 0.2451, 0.2451], rewarded: 2, rows: 2000 };
    let case = Case { written: Written::Decimals(2), full: false, found: true };
    let uniform = simulate(30, 10_380, |rng| {
        let columns = Columns { uniform: true, ..plain.draw(case, rng) };
        plain.claims_on("nearly uniform as uniform", &MemoryLog::new(columns).expect("a log"))
    });
    assert_flagged(&uniform);
    assert_valid(&plain.tallies("nearly uniform", 60, 10_380, case));
}
