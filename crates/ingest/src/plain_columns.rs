//! Rows in whole columns, for files in which nothing is unusual: they are read and checked many times faster than row by
//! row, and are the same rows. Wherever something is unusual or wrong, the reader of rows decides what it means.

use guarantor_engine::log::{Outcome, OutcomeKind, check_distribution, disagrees};

use crate::batch::{LogLayout, LogRows};
use crate::layout::check_names;
use crate::rules::{MAX_ID_BYTES, MAX_VERSION_BYTES, Rules};

/// Rows as a file has them, all with the same fields.
#[derive(Debug, Default, PartialEq)]
pub struct PlainColumns {
    /// The number of each row in the file.
    pub numbers: Vec<u64>,
    pub layout: LogLayout,
    /// What was logged: `costs` has outcomes until they are checked. Without `has_propensity`, `propensities` is empty.
    pub rows: LogRows,
    pub outcome: Option<OutcomeKind>,
    pub has_propensity: bool,
}

impl PlainColumns {
    /// Checks all rows as `check_row` does, turns outcomes into costs and fills in propensities. Returns how many outcomes
    /// were cut; `None` if a row must be looked at alone, and then the columns are of no more use.
    pub fn check(&mut self, rules: &Rules, first: Option<&LogLayout>) -> Option<u64> {
        let PlainColumns { layout, rows, .. } = self;
        let n = rows.actions.len();
        let usual = rules.outcomes.is_empty() && Some(rules.outcome.kind) == self.outcome;
        if !usual || layout.dim > rules.limits.dim || first.is_some_and(|first| first != layout) {
            return None;
        }
        if let Some(k) = layout.full
            && !((2..=rules.limits.actions).contains(&k) && rules.known_actions(Some(k)) == Some(k))
        {
            return None;
        }
        check_names(&layout.candidates.iter().map(String::as_str).collect()).ok()?;
        let probabilities = |column: &Vec<f64>| {
            column.len() == n && column.iter().fold(true, |so_far, p| so_far & (0.0..=1.0).contains(p))
        };
        let k = rules.known_actions(layout.full).unwrap_or(rules.limits.actions);
        let fits = |ids: &[String], most: usize| ids.iter().all(|id| (1..=most).contains(&id.len()));
        let valid = rows.x.iter().fold(true, |so_far, x| so_far & x.is_finite())
            && rows.actions.iter().fold(true, |so_far, &action| so_far & ((action as usize) < k))
            && rows.candidates.iter().all(probabilities)
            && fits(&rows.event_ids, MAX_ID_BYTES)
            && fits(&rows.versions, MAX_VERSION_BYTES);
        if !valid || !self.check_propensities() {
            return None;
        }
        costs(&mut self.rows.costs, &rules.outcome)
    }

    /// Checks π0(·|x) and the propensities of logged actions, and takes them from it where they were not logged.
    fn check_propensities(&mut self) -> bool {
        let rows = &mut self.rows;
        let in_range = |p: f64| p > 0.0 && p <= 1.0;
        let Some(k) = self.layout.full else {
            return self.has_propensity
                && rows.propensities.iter().fold(true, |so_far, &p| so_far & in_range(p));
        };
        if !self.has_propensity {
            rows.propensities.reserve(rows.actions.len());
        }
        for (i, (full, &action)) in rows.full.chunks_exact(k).zip(&rows.actions).enumerate() {
            let given = full[action as usize];
            let propensity = if self.has_propensity {
                rows.propensities[i]
            } else {
                // A sum may exceed 1 by rounding, and so may its only nonzero term.
                rows.propensities.push(given.min(1.0));
                given.min(1.0)
            };
            let agrees = !self.has_propensity || !disagrees(propensity, given);
            if !agrees || !in_range(propensity) || check_distribution(full).is_err() {
                return false;
            }
        }
        true
    }
}

/// Turns outcomes into costs in place, and returns how many were cut; `None` if one is out of range.
fn costs(outcomes: &mut [f64], outcome: &Outcome) -> Option<u64> {
    let mut cut = 0;
    for value in outcomes {
        // An infinite value is an error of the log, and no large one.
        let counts = if value.is_finite() { outcome.cut(*value) } else { *value };
        if !outcome.contains(counts) {
            return None;
        }
        cut += u64::from(counts != *value);
        *value = outcome.to_cost(counts);
    }
    Some(cut)
}
