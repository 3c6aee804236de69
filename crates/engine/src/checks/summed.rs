//! The checks of a log from sums over its rows alone, docs/math.md#partials. Sums are exact, so they can be computed in
//! parts and in any order. Where the other checks bet row by row, these use what a bet is worth at least:
//!
//!   ln(1 + λξ) ≥ λξ + (λ + ln(1 − λ))ξ²   for ξ ≥ −1 and 0 ≤ λ < 1,
//!
//! so the product of the left sides is at least the exponential of two sums, which is an e-value too.

mod logged;

use serde::{Deserialize, Serialize};

use super::builder::ChecksBuilder;
use super::centered::{Centered, Widths};
use super::counts::mix;
use super::evidence::{Finding, ln, log_mean, readable};
use super::{CheckName, CheckPlan, CheckResult, CheckRow, CheckScope};
use crate::numerics::exact::ExactSum;

/// The sizes of the bets. The smallest serve logs of billions of rows.
const GRID: [f64; 12] = [0.9, 0.5, 0.25, 0.12, 0.06, 0.03, 0.012, 0.005, 0.002, 5e-4, 1e-4, 2e-5];
/// A larger z counts as this one. Its mean is then smaller, so the test stays valid.
const CAP: f64 = 1e4;
/// As in the checks row by row.
const CAP_PER_ACTION: f64 = 20.0;
const WEIGHT_CAP: f64 = 100.0;
/// At this probability or above, the logging policy had practically no choice.
const NEAR_DETERMINISTIC: f64 = 0.99;
/// Without π0(·|x), actions beyond these are not counted one by one.
const TRACKED: usize = 4096;

/// Σz and Σz² of numbers z ≥ 0 whose mean is at most 1.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OneSided {
    sum: ExactSum,
    squares: ExactSum,
}

impl OneSided {
    fn add(&mut self, z: f64) {
        // NaN is evidence.
        let z = if z < CAP { z.max(0.0) } else { CAP };
        self.sum.add(z);
        self.squares.add(z * z);
    }

    fn merge(&mut self, other: &OneSided) {
        self.sum.merge(&other.sum);
        self.squares.merge(&other.squares);
    }

    /// The logarithm of the evidence against a mean of at most 1 over `rows` rows; z is 0 in rows that were not added.
    fn log_evidence(&self, rows: u64) -> f64 {
        let (n, sum) = (rows as f64, self.sum.value());
        let (excess, squares) = (sum - n, self.squares.value() - 2.0 * sum + n);
        let logs = GRID.map(|lambda| lambda * excess + (lambda + ln(1.0 - lambda)) * squares.max(0.0));
        log_mean(&logs)
    }
}

/// The sums of [`Centered`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CenteredSums {
    excess: ExactSum,
    slack: ExactSum,
    variance: ExactSum,
}

impl CenteredSums {
    fn add(&mut self, p: &[f64], y: &[f64], action: usize, widths: &Widths) -> f64 {
        let mut row = Centered::default();
        let mean = row.add(p, y, action, widths);
        self.excess.add(row.excess);
        self.slack.add(row.slack);
        self.variance.add(row.variance);
        mean
    }

    fn merge(&mut self, other: &CenteredSums) {
        self.excess.merge(&other.excess);
        self.slack.merge(&other.slack);
        self.variance.merge(&other.variance);
    }

    fn log_evidence(&self, b: f64) -> f64 {
        let (excess, slack) = (self.excess.value(), self.slack.value());
        Centered { excess, slack, variance: self.variance.value() }.log_evidence(b)
    }
}

/// What is summed for one action.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionSums {
    /// How often it was logged.
    count: u64,
    /// Σπ0 of the action, if π0(·|x) is known, and otherwise Σ1/π0 over the rows that logged it.
    sum: ExactSum,
    /// Σ of the variances, or of the squares.
    squares: ExactSum,
    /// Σ of the slacks of rounded propensities.
    slack: ExactSum,
}

/// Makes room for so many actions.
fn grow(actions: &mut Vec<ActionSums>, k: usize) {
    if actions.len() < k {
        actions.resize_with(k, ActionSums::default);
    }
}

/// The checks' statistics of some rows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckSums {
    rows: u64,
    /// Rows whose numbers are not in their ranges. They fail every check.
    invalid: u64,
    /// Rows in which an action had a propensity of at least 0.99.
    near_deterministic: u64,
    /// Σ1/π0, Σ1/π0², and what the first should be.
    inverse: ExactSum,
    inverse_squares: ExactSum,
    expected: ExactSum,
    /// Against a mean of 1/π0 that is too large, and against any other mean if π0(·|x) is known.
    inverse_above: OneSided,
    /// The number of rows in which π0 could play more than one action.
    random: u64,
    inverse_exact: CenteredSums,
    actions: Vec<ActionSums>,
    /// Σ of the policy's weights, and the tests of their mean.
    weights: ExactSum,
    weights_above: OneSided,
    weights_exact: CenteredSums,
}

impl CheckSums {
    /// How often each action was logged.
    pub fn counts(&self) -> Vec<u64> {
        self.actions.iter().map(|action| action.count).collect()
    }

    /// The mean of 1/π0(a|x).
    pub fn inverse_propensity_mean(&self) -> f64 {
        self.inverse.value() / self.rows.max(1) as f64
    }

    /// (Σ1/π0)²/Σ1/π0²: how many rows of a uniform log the rows are worth.
    pub fn effective_sample_size(&self) -> f64 {
        let (sum, squares) = (self.inverse.value(), self.inverse_squares.value());
        if squares > 0.0 { sum * sum / squares } else { 0.0 }
    }

    /// The share of rows in which an action had a propensity of at least 0.99.
    pub fn near_deterministic_share(&self) -> f64 {
        self.near_deterministic as f64 / self.rows.max(1) as f64
    }

    /// Adds the sums of other rows.
    pub fn merge(&mut self, other: &CheckSums) {
        self.rows += other.rows;
        self.invalid += other.invalid;
        self.random += other.random;
        self.near_deterministic += other.near_deterministic;
        self.inverse.merge(&other.inverse);
        self.inverse_squares.merge(&other.inverse_squares);
        self.expected.merge(&other.expected);
        self.inverse_above.merge(&other.inverse_above);
        self.inverse_exact.merge(&other.inverse_exact);
        self.weights.merge(&other.weights);
        self.weights_above.merge(&other.weights_above);
        self.weights_exact.merge(&other.weights_exact);
        grow(&mut self.actions, other.actions.len());
        for (mine, theirs) in self.actions.iter_mut().zip(&other.actions) {
            mine.count += theirs.count;
            mine.sum.merge(&theirs.sum);
            mine.squares.merge(&theirs.squares);
            mine.slack.merge(&theirs.slack);
        }
    }

    /// The results, one for each check that applies.
    pub fn finish(&self, plan: &CheckPlan, scope: CheckScope) -> Vec<CheckResult> {
        let mut findings = vec![self.propensities(plan), self.action_counts(plan)];
        findings.extend(plan.candidates.iter().map(|candidate| self.candidate(&candidate.label)));
        let level = plan.level / findings.len() as f64;
        if plan.fixed {
            let reason = "not checked: partials do not keep the order of the rows";
            findings.push(Finding::skipped(CheckName::Drift, reason));
        }
        findings.into_iter().map(|finding| finding.judge(scope, level, self.invalid)).collect()
    }

    fn propensities(&self, plan: &CheckPlan) -> Finding {
        let n = self.rows.max(1) as f64;
        let (observed, expected) = (self.inverse.value() / n, self.expected.value() / n);
        let above = self.inverse_above.log_evidence(self.random);
        let log_evidence = match plan.full {
            true => {
                log_mean(&[above, self.inverse_exact.log_evidence(CAP_PER_ACTION * plan.n_actions as f64)])
            }
            false => above,
        };
        let relation = if plan.full { "expected" } else { "expected at most" };
        let (got, want) = (readable(observed), readable(expected));
        Finding {
            name: CheckName::Propensities,
            subject: None,
            observed,
            expected,
            log_evidence,
            rows: self.rows,
            message: format!("the mean of 1/propensity is {got}, {relation} {want}"),
            remedy: super::propensities::REMEDY,
            skipped: false,
        }
    }

    fn action_counts(&self, plan: &CheckPlan) -> Finding {
        let logs: Vec<f64> = self.actions.iter().map(|action| self.of_action(action, plan)).collect();
        let (log_evidence, worst) = if logs.is_empty() { (0.0, 0) } else { mix(&logs, Some(plan.n_actions)) };
        let empty = ActionSums::default();
        let action = self.actions.get(worst).unwrap_or(&empty);
        let (count, sum) = (action.count, action.sum.value());
        let (observed, expected, message) = match plan.full {
            true => (
                count as f64,
                sum,
                format!("action {worst} was logged {count} times, and its propensities sum to {sum:.1}"),
            ),
            false => {
                let mean = sum / self.rows.max(1) as f64;
                let message = format!(
                    "1/propensity summed over the rows of action {worst} is {mean:.4} per row of the log, expected at \
                     most 1"
                );
                (mean, 1.0, message)
            }
        };
        Finding {
            name: CheckName::ActionCounts,
            subject: Some(format!("action {worst}")),
            observed,
            expected,
            log_evidence,
            rows: self.rows,
            message,
            remedy: super::counts::REMEDY,
            skipped: false,
        }
    }

    fn of_action(&self, action: &ActionSums, plan: &CheckPlan) -> f64 {
        if !plan.full {
            let bets = OneSided { sum: action.sum.clone(), squares: action.squares.clone() };
            return bets.log_evidence(self.rows);
        }
        let slack = action.slack.value();
        let (excess, variance) = (action.count as f64 - action.sum.value(), action.squares.value() + slack);
        Centered { excess, slack, variance }.log_evidence(1.0)
    }

    fn candidate(&self, label: &str) -> Finding {
        let observed = if self.rows == 0 { 1.0 } else { self.weights.value() / self.rows as f64 };
        let above = self.weights_above.log_evidence(self.rows);
        let exact = self.weights_exact.log_evidence(WEIGHT_CAP);
        Finding {
            name: CheckName::CandidateWeights,
            subject: Some(label.into()),
            observed,
            expected: 1.0,
            log_evidence: log_mean(&[above, exact]),
            rows: self.rows,
            message: super::candidates::message(observed),
            remedy: super::candidates::REMEDY,
            skipped: false,
        }
    }
}

/// Sums up the checks of rows. A plan for this has at most one candidate, and the number of actions.
pub struct SummedChecks {
    /// Knows what a valid row is, and the intervals of rounded propensities.
    rules: ChecksBuilder,
    plan: CheckPlan,
    sums: CheckSums,
    inverse: Vec<f64>,
    values: Vec<f64>,
}

impl SummedChecks {
    /// Goes on from the sums of other rows.
    pub fn new(plan: CheckPlan, sums: CheckSums) -> Self {
        let rules = ChecksBuilder::new(plan.clone());
        SummedChecks { rules, plan, sums, inverse: Vec::new(), values: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, row: &CheckRow) {
        if !self.rules.is_valid(row) {
            self.sums.invalid += 1;
            return;
        }
        self.sums.rows += 1;
        let action = row.action as usize;
        let widths = *self.rules.widths();
        let p = match row.full.filter(|_| self.plan.full) {
            Some(full) => {
                self.add_full(full, row, &widths);
                full[action]
            }
            None => {
                self.add_logged(row, &widths);
                row.propensity
            }
        };
        if let (Some(weight), Some(plan)) = (row.candidates.first(), self.plan.candidates.first()) {
            let own = match weight.all {
                Some(all) => Widths::of_scaled(plan.rounding, all.len()),
                None => Widths::of_written(plan.rounding),
            };
            self.sums.weights_above.add(own.lower(weight.played) / widths.upper(p));
            self.sums.weights.add((weight.played / p).min(1e12));
        }
    }

    fn add_full(&mut self, p: &[f64], row: &CheckRow, widths: &Widths) {
        let (k, action) = (p.len(), row.action as usize);
        let cap = CAP_PER_ACTION * k as f64;
        self.inverse.clear();
        self.inverse.extend(p.iter().map(|&p| if p > 0.0 { (1.0 / p).min(1e300) } else { 0.0 }));
        self.values.clear();
        self.values.extend(self.inverse.iter().map(|inverse| inverse.min(cap)));
        let sums = &mut self.sums;
        sums.expected.add(sums.inverse_exact.add(p, &self.values, action, widths));
        sums.inverse.add(self.values[action]);
        sums.inverse_squares.add(self.values[action] * self.values[action]);
        sums.near_deterministic += u64::from(p.iter().any(|&p| p >= NEAR_DETERMINISTIC));
        let support = p.iter().filter(|&&p| p > 0.0).count();
        if support > 1 {
            sums.random += 1;
            sums.inverse_above.add((1.0 / widths.upper(p[action]) - 1.0) / (support - 1) as f64);
        }
        grow(&mut sums.actions, k);
        let rounded = !widths.exact();
        let total: f64 = if rounded { p.iter().map(|&p| widths.half(p)).sum() } else { 0.0 };
        for (sums, &p) in sums.actions.iter_mut().zip(p) {
            sums.sum.add(p);
            sums.squares.add((p - p * p).max(0.0));
            if rounded {
                let half = widths.half(p);
                sums.slack.add(half * (1.0 - p) + p * (total - half));
            }
        }
        sums.actions[action].count += 1;
        if let Some(all) = row.candidates.first().and_then(|weight| weight.all) {
            self.values.clear();
            let weights = all.iter().zip(&self.inverse).map(|(pi, inverse)| (pi * inverse).min(WEIGHT_CAP));
            self.values.extend(weights);
            sums.weights_exact.add(p, &self.values, action, widths);
        }
    }

    fn add_logged(&mut self, row: &CheckRow, widths: &Widths) {
        let (sums, k, action) = (&mut self.sums, self.plan.n_actions, row.action as usize);
        let inverse = 1.0 / widths.upper(row.propensity);
        let written = (1.0 / row.propensity).min(1e12);
        sums.inverse.add(written);
        sums.inverse_squares.add(written * written);
        sums.near_deterministic += u64::from(row.propensity >= NEAR_DETERMINISTIC);
        sums.expected.add(k as f64);
        sums.random += 1;
        sums.inverse_above.add((inverse - 1.0) / (k.max(2) - 1) as f64);
        if action < TRACKED {
            grow(&mut sums.actions, action + 1);
            let sums = &mut sums.actions[action];
            let z = inverse.min(CAP);
            sums.count += 1;
            sums.sum.add(z);
            sums.squares.add(z * z);
        }
    }

    /// The sums.
    pub fn finish(self) -> CheckSums {
        self.sums
    }
}
