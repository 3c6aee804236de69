//! The weights π(a|x)/π0(a|x) of a candidate, whose mean is 1 if both are probabilities of the logged action.

use super::bets::Bets;
use super::centered::{Centered, Widths};
use super::evidence::{Finding, log_mean, readable};
use super::logged::{AT_ONCE, Uppers};
use super::propensities::FullRow;
use super::{CandidatePlan, CandidateWeight, CheckName};

/// What to do if the check failed.
pub(super) const REMEDY: &str =
    "log the candidate's probability of the logged action, not of the action that it prefers";

/// What was found, if this is the mean weight.
pub(super) fn message(observed: f64) -> String {
    format!(
        "the mean of the candidate's probability over the propensity is {}, expected 1 (less if the \
         candidate takes actions that were never logged)",
        readable(observed)
    )
}

/// Weights count as at most this where their exact mean is used.
const CAP: f64 = 100.0;

#[derive(Default)]
pub(super) struct Candidate {
    /// Against a mean above 1.
    above: Bets,
    /// Against a mean below 1, where π0 takes every action and π(·|x) is not known.
    below: Bets,
    /// Against both, where π(·|x) is known.
    exact: Centered,
    observed: f64,
    rows: u64,
    values: Vec<f64>,
}

impl Candidate {
    /// Adds a row with the propensity of its action. The bounds of intervals make w the smallest weight, so
    /// that Σ p·w ≤ Σ π ≤ 1 whatever the rounding was.
    pub fn add(&mut self, weight: &CandidateWeight, p: f64, widths: &Widths, plan: &CandidatePlan) {
        let own = match weight.all {
            Some(all) => Widths::of_scaled(plan.rounding, all.len()),
            None => Widths::of_written(plan.rounding),
        };
        self.above.bet(own.lower(weight.played) / widths.upper(p));
        self.observed += (weight.played / p).min(1e12);
        self.rows += 1;
    }

    /// Adds rows of which only the logged actions' numbers are known. There are uppers for all of them.
    pub fn add_all(&mut self, played: &[f64], propensities: &[f64], uppers: &Uppers, plan: &CandidatePlan) {
        let own = Widths::of_written(plan.rounding);
        let mut zs = [0.0; AT_ONCE];
        let zs = &mut zs[..played.len()];
        for ((z, played), p) in zs.iter_mut().zip(played).zip(propensities) {
            *z = (played / p).min(1e12);
        }
        self.observed = zs.iter().fold(self.observed, |sum, weight| sum + weight);
        self.rows += zs.len() as u64;
        let each = zs.iter_mut().zip(played).zip(&uppers.ends);
        match own.exact() {
            true => each.for_each(|((z, played), upper)| *z = played.max(0.0) / upper),
            false => each.for_each(|((z, played), upper)| *z = own.lower(*played) / upper),
        }
        self.above.bet_all(zs);
    }

    /// Adds what π0(·|x) tells in addition.
    pub fn add_full(&mut self, weight: &CandidateWeight, row: &FullRow, plan: &CandidatePlan) {
        if let Some(all) = weight.all {
            self.values.clear();
            self.values.extend(all.iter().zip(row.inverse).map(|(pi, inverse)| (pi * inverse).min(CAP)));
            self.exact.add(row.p, &self.values, row.action, row.widths);
            return;
        }
        // The largest weight w has a mean of at least 1, and is at most 1/least. So 1 + least·(1 − w) is not
        // negative and has a mean of at most 1. The factor depends on x only.
        let least = row.widths.lower(row.least);
        if least > 0.0 {
            let pi = Widths::of_written(plan.rounding).upper(weight.played);
            let w = pi / row.widths.lower(row.p[row.action]);
            self.below.bet(1.0 + least * (1.0 - w));
        }
    }

    pub fn merge(&mut self, other: Candidate) {
        self.above.merge(other.above);
        self.below.merge(other.below);
        self.exact.merge(&other.exact);
        self.observed += other.observed;
        self.rows += other.rows;
    }

    pub fn finish(&self, plan: &CandidatePlan) -> Finding {
        let observed = if self.rows == 0 { 1.0 } else { self.observed / self.rows as f64 };
        let (above, below) = (self.above.log_evidence(), self.below.log_evidence());
        Finding {
            name: CheckName::CandidateWeights,
            subject: Some(plan.label.clone()),
            observed,
            expected: 1.0,
            log_evidence: log_mean(&[above, above, below, self.exact.log_evidence(CAP)]),
            rows: self.rows,
            message: message(observed),
            remedy: REMEDY,
            skipped: false,
        }
    }
}
