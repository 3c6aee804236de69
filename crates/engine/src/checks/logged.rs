//! Rows of which nothing but numbers of the logged actions is known, column by column: what `ChecksBuilder::row` does for
//! each of them, with the same bits, and several times as fast.

use std::ops::Range;

use super::builder::{ChecksBuilder, TOLERANCE};
use super::centered::Widths;
use super::{CandidateWeight, CheckRow};

/// How many rows are looked at at once.
pub(super) const AT_ONCE: usize = 256;

/// A number of each of these rows.
pub(super) type Numbers = [f64; AT_ONCE];

/// Columns of rows, as long as each other.
#[derive(Debug, Clone)]
pub struct LoggedColumns<'a> {
    /// The logged actions.
    pub actions: &'a [u32],
    /// Their costs, in [-1, 0].
    pub costs: &'a [f64],
    /// Their propensities, as written.
    pub propensities: &'a [f64],
    /// The probabilities that each candidate gives them, in the order of the plan.
    pub candidates: Vec<&'a [f64]>,
}

impl LoggedColumns<'_> {
    fn part(&self, range: Range<usize>) -> LoggedColumns<'_> {
        LoggedColumns {
            actions: &self.actions[range.clone()],
            costs: &self.costs[range.clone()],
            propensities: &self.propensities[range.clone()],
            candidates: self.candidates.iter().map(|column| &column[range.clone()]).collect(),
        }
    }

    /// Whether the numbers are in the ranges of `ChecksBuilder::is_valid`. NaN is in none.
    fn are_valid(&self, k: Option<usize>) -> bool {
        let most = 1.0 + TOLERANCE;
        let actions = k.is_none_or(|k| all(self.actions, |&action| (action as usize) < k));
        let probabilities = |column: &&[f64]| all(column, |&p| (p >= 0.0) & (p <= most));
        actions
            && all(self.costs, |cost| (-1.0..=0.0).contains(cost))
            && all(self.propensities, |&p| (p > 0.0) & (p <= most))
            && self.candidates.iter().all(probabilities)
    }
}

/// Whether all numbers pass, without a branch for each.
fn all<T>(numbers: &[T], passes: impl Fn(&T) -> bool) -> bool {
    numbers.iter().fold(true, |so_far, number| so_far & passes(number))
}

/// The upper ends of the intervals of some propensities, and the inverses of these ends.
pub(super) struct Uppers {
    pub ends: Numbers,
    pub inverses: Numbers,
}

impl Uppers {
    fn new(propensities: &[f64], widths: &Widths) -> Uppers {
        let (mut ends, mut inverses) = ([1.0; AT_ONCE], [1.0; AT_ONCE]);
        widths.uppers(propensities, &mut ends);
        inverses.iter_mut().zip(&ends).for_each(|(inverse, end)| *inverse = 1.0 / end);
        Uppers { ends, inverses }
    }
}

impl ChecksBuilder {
    /// Adds rows that are entries of their own, each of which counts for drift.
    pub fn logged(&mut self, rows: &LoggedColumns) {
        let n = rows.actions.len();
        for from in (0..n).step_by(AT_ONCE) {
            let part = rows.part(from..n.min(from + AT_ONCE));
            let plain = !self.plan.full && !self.plan.sets && !self.plan.designed;
            let fits = part.candidates.len() == self.candidates.len() && part.are_valid(self.k);
            match plain && fits {
                true => self.add_part(&part),
                false => self.each(&part),
            }
        }
    }

    fn each(&mut self, rows: &LoggedColumns) {
        let mut weights = vec![CandidateWeight { played: 0.0, all: None }; rows.candidates.len()];
        for (i, &action) in rows.actions.iter().enumerate() {
            weights.iter_mut().zip(&rows.candidates).for_each(|(weight, column)| weight.played = column[i]);
            self.row(&CheckRow {
                action,
                cost: rows.costs[i],
                propensity: rows.propensities[i],
                full: None,
                n_actions: None,
                candidates: &weights,
                repetition: None,
                counts_for_drift: true,
            });
        }
    }

    fn add_part(&mut self, rows: &LoggedColumns) {
        let LoggedColumns { actions, costs, propensities, candidates } = rows;
        let uppers = Uppers::new(propensities, &self.widths);
        match self.k {
            Some(k) => self.propensities.add_all_logged(propensities, &uppers, k),
            None => {
                for (&action, &p) in actions.iter().zip(*propensities) {
                    self.first_actions.add(action as usize, p, &self.widths);
                }
            }
        }
        self.bets.add_all(actions, propensities, &uppers);
        for ((candidate, column), plan) in
            self.candidates.iter_mut().zip(candidates).zip(&self.plan.candidates)
        {
            candidate.add_all(column, propensities, &uppers, plan);
        }
        if let Some(stated) = self.plan.known_baseline {
            costs.iter().for_each(|&cost| self.known.add(cost, stated));
        }
        self.slices.add_all(actions, costs, propensities);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{CandidatePlan, CheckPlan, CheckScope, Rounding};

    /// Some rows: rounded or not, and one with a number out of its range at `odd`.
    fn columns(n: usize, odd: Option<usize>) -> (Vec<u32>, Vec<f64>, Vec<f64>, Vec<f64>) {
        let number = |i: usize, by: f64| (i as f64 * by).sin().abs();
        let actions = (0..n).map(|i| (i * i % 5) as u32).collect();
        let costs = (0..n).map(|i| if i % 3 == 0 { -1.0 } else { -number(i, 0.3) }).collect();
        let mut propensities: Vec<f64> = (0..n).map(|i| 0.001 + 0.999 * number(i, 0.7)).collect();
        let mut candidate: Vec<f64> = (0..n).map(|i| number(i, 1.3)).collect();
        if let Some(odd) = odd {
            propensities[odd] = f64::NAN;
            candidate[odd / 2] = 1.2;
        }
        (actions, costs, propensities, candidate)
    }

    #[test]
    fn columns_have_the_bits_of_rows() {
        let coarse = Rounding { absolute: 0.0005, ..Rounding::default() };
        let single = Rounding { relative: 6e-8, ..Rounding::default() };
        for (rounding, n_actions, odd) in [
            (Rounding::default(), 5, None),
            (coarse, 5, None),
            (single, 0, None),
            (Rounding::default(), 0, Some(700)),
            (coarse, 4, Some(10)),
            // Actions beyond those that are tracked, with and without one.
            (Rounding::default(), 9000, None),
        ] {
            let (mut actions, costs, propensities, candidate) = columns(3000, odd);
            if n_actions == 9000 {
                (actions[1000], actions[1300], actions[2900]) = (8000, 4095, 999);
            }
            let plan = CheckPlan {
                n_actions,
                actions_declared: n_actions > 0,
                rounding,
                candidates: (0..2)
                    .map(|i| CandidatePlan { label: format!("logged:{i}"), rounding })
                    .collect(),
                known_baseline: Some(-0.4),
                fixed: true,
                ..CheckPlan::default()
            };
            let columns = LoggedColumns {
                actions: &actions,
                costs: &costs,
                propensities: &propensities,
                candidates: vec![&candidate, &propensities],
            };
            let (mut by_columns, mut by_rows) = (ChecksBuilder::new(plan.clone()), ChecksBuilder::new(plan));
            // In unequal parts, so that products and slices are continued at any place.
            for range in [0..1, 1..700, 700..701, 701..3000] {
                by_columns.logged(&columns.part(range));
            }
            by_rows.each(&columns);
            assert_eq!(format!("{:?}", by_columns.drift()), format!("{:?}", by_rows.drift()));
            let (found, expected) = (by_columns.finish(CheckScope::Log), by_rows.finish(CheckScope::Log));
            assert!(found.len() >= 4);
            assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        }
    }
}
