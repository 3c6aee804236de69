//! The mean of 1/π0(a|x). If π0 draws the actions it is the number of actions that π0 can take.

use super::CheckName;
use super::bets::Bets;
use super::centered::{Centered, Widths};
use super::evidence::{Finding, log_mean, readable};
use super::logged::{AT_ONCE, Uppers};

/// 1/π0 counts as at most this times K where its exact mean is used: rare actions would make the variance
/// huge.
const CAP_PER_ACTION: f64 = 20.0;

/// π0(·|x) of a row with what several checks need.
pub(super) struct FullRow<'a> {
    pub p: &'a [f64],
    /// 1/p, or 0 for actions that π0 does not take.
    pub inverse: &'a [f64],
    /// The number of actions that π0 can take.
    pub support: usize,
    /// The smallest p.
    pub least: f64,
    pub action: usize,
    pub widths: &'a Widths,
}

pub(super) const REMEDY: &str =
    "log the probability with which the logged action was drawn, at the time of the decision";

#[derive(Default)]
pub(super) struct Propensities {
    bets: Bets,
    exact: Centered,
    observed: f64,
    expected: f64,
    rows: u64,
    values: Vec<f64>,
}

impl Propensities {
    /// Adds a row whose π0(·|x) is known. If every row has its own actions, the exact mean is that of 1/π0 divided by
    /// their number, so that one largest value holds for all rows.
    pub fn add_full(&mut self, row: &FullRow, sets: bool) {
        let cap = CAP_PER_ACTION * row.p.len() as f64;
        let unit = if sets { row.p.len() as f64 } else { 1.0 };
        self.values.clear();
        self.values.extend(row.inverse.iter().map(|inverse| inverse.min(cap) / unit));
        self.expected += unit * self.exact.add(row.p, &self.values, row.action, row.widths);
        self.observed += unit * self.values[row.action];
        self.bet(row.widths.upper(row.p[row.action]), row.support);
    }

    /// Adds a row of which only the logged propensity is known.
    pub fn add_logged(&mut self, p: f64, k: usize, widths: &Widths) {
        self.observed += (1.0 / p).min(1e12);
        self.expected += k as f64;
        self.bet(widths.upper(p), k);
    }

    /// Adds such rows. There are uppers for all of them.
    pub fn add_all_logged(&mut self, propensities: &[f64], uppers: &Uppers, k: usize) {
        let mut zs = [0.0; AT_ONCE];
        let zs = &mut zs[..propensities.len()];
        zs.iter_mut().zip(propensities).for_each(|(z, p)| *z = (1.0 / p).min(1e12));
        self.observed = zs.iter().fold(self.observed, |sum, inverse| sum + inverse);
        self.expected = zs.iter().fold(self.expected, |sum, _| sum + k as f64);
        self.rows += zs.len() as u64;
        if k > 1 {
            let of_others = (k - 1) as f64;
            zs.iter_mut().zip(&uppers.inverses).for_each(|(z, inverse)| *z = (inverse - 1.0) / of_others);
            self.bets.bet_all(zs);
        }
    }

    /// E[1/p] ≤ s, the number of possible actions, so (1/p − 1)/(s − 1) has a mean of at most 1.
    fn bet(&mut self, upper: f64, support: usize) {
        self.rows += 1;
        if support > 1 {
            self.bets.bet((1.0 / upper - 1.0) / (support - 1) as f64);
        }
    }

    pub fn merge(&mut self, other: Propensities) {
        self.bets.merge(other.bets);
        self.exact.merge(&other.exact);
        self.observed += other.observed;
        self.expected += other.expected;
        self.rows += other.rows;
    }

    /// `k` is the number of actions if π0(·|x) is known; 1 if every row has its own.
    pub fn finish(&self, k: Option<usize>) -> Finding {
        let n = self.rows.max(1) as f64;
        let (observed, expected) = (self.observed / n, self.expected / n);
        let log_evidence = match k {
            Some(k) => {
                let cap = CAP_PER_ACTION * k.max(1) as f64;
                log_mean(&[self.bets.log_evidence(), self.exact.log_evidence(cap)])
            }
            None => self.bets.log_evidence(),
        };
        let relation = if k.is_some() { "expected" } else { "expected at most" };
        Finding {
            name: CheckName::Propensities,
            subject: None,
            observed,
            expected,
            log_evidence,
            rows: self.rows,
            message: format!(
                "the mean of 1/propensity is {}, {relation} {}",
                readable(observed),
                readable(expected)
            ),
            remedy: REMEDY,
            skipped: false,
        }
    }
}
