//! The mean of 1/π0(a|x). If π0 draws the actions it is the number of actions that π0 can take.

use super::CheckName;
use super::bets::Bets;
use super::centered::{Centered, Widths};
use super::evidence::{Finding, log_mean, readable};
use crate::numerics::dispatch;

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

/// The test of a log whose number of actions was not stated and of which only the logged propensity is known. A K
/// that was read off the rows is too small while a rare action has not been seen. But whatever K is,
/// E[1[a < k]/p] ≤ k for every k, so there is a bet for each of some k that do not depend on the rows.
#[derive(Default)]
pub(super) struct FirstActions {
    bets: [Bets; FIRST.len()],
    observed: f64,
    rows: u64,
    seen: usize,
}

/// The numbers of first actions.
const FIRST: [usize; 22] =
    [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 32, 64, 128, 256, 512, 1024, 4096];

impl FirstActions {
    /// Adds a row.
    pub fn add(&mut self, action: usize, p: f64, widths: &Widths) {
        self.rows += 1;
        self.observed += (1.0 / p).min(1e12);
        self.seen = self.seen.max(action + 1);
        bet_on_each(&mut self.bets, action, 1.0 / widths.upper(p));
    }

    pub fn merge(&mut self, other: FirstActions) {
        self.bets.iter_mut().zip(other.bets).for_each(|(mine, theirs)| mine.merge(theirs));
        self.observed += other.observed;
        self.rows += other.rows;
        self.seen = self.seen.max(other.seen);
    }

    pub fn finish(&self) -> Finding {
        let (observed, expected) = (self.observed / self.rows.max(1) as f64, self.seen as f64);
        let logs: Vec<f64> = self.bets.iter().map(|bets| bets.log_evidence_relative(self.rows)).collect();
        Finding {
            name: CheckName::Propensities,
            subject: None,
            observed,
            expected,
            log_evidence: log_mean(&logs),
            rows: self.rows,
            message: format!(
                "the mean of 1/propensity is {}, expected at most {} for the actions that were logged",
                readable(observed),
                readable(expected)
            ),
            remedy: REMEDY,
            skipped: false,
        }
    }
}

dispatch! {
    /// Bets on the first actions of each k that this action is among.
    fn bet_on_each(bets: &mut [Bets; FIRST.len()], action: usize, inverse: f64) = bet_on_each_body
}

#[inline(always)]
fn bet_on_each_body(bets: &mut [Bets; FIRST.len()], action: usize, inverse: f64) {
    // All quotients at once: divisions would take longer than the bets.
    let shares: [f64; FIRST.len()] = FIRST.map(|k| inverse / k as f64);
    let first = FIRST.iter().filter(|&&k| k <= action).count();
    for (bets, share) in bets.iter_mut().zip(shares).skip(first) {
        bets.bet_relative(share);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_copies_of_the_bets_agree_with_one_bet_at_a_time() {
        let [mut fast, mut plain, mut single] = [(); 3].map(|()| <[Bets; FIRST.len()]>::default());
        for i in 0..2000usize {
            let (action, inverse) = (i * 7 % 40, 1.0 + (i * 37 % 101) as f64 / 9.0);
            bet_on_each(&mut fast, action, inverse);
            bet_on_each_body(&mut plain, action, inverse);
            for (bets, k) in single.iter_mut().zip(FIRST).filter(|(_, k)| action < *k) {
                bets.bet_relative(inverse / k as f64);
            }
        }
        for ((fast, plain), single) in fast.iter().zip(&plain).zip(&single) {
            let [fast, plain, single] = [fast, plain, single].map(|bets| bets.log_evidence_relative(2000));
            assert_eq!((fast.to_bits(), plain.to_bits()), (single.to_bits(), single.to_bits()));
        }
    }
}
