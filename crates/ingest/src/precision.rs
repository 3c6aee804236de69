//! How precisely the probabilities of a log were written, and whether its propensities are uniform.

use std::collections::BTreeMap;

use guarantor_engine::log::{Precision, PrecisionFinder};

use crate::batch::{LogLayout, LogRows};

/// Relative differences up to this are arithmetic, not rounding.
const ARITHMETIC: f64 = 4.0 * f64::EPSILON;

/// The precision of the rows so far.
#[derive(Default)]
pub struct Precisions {
    propensities: Finder,
    candidates: Vec<Finder>,
    /// The smallest and the largest propensity of a logged action, by the number of actions of the row; 0 if all
    /// rows have the same actions.
    ranges: BTreeMap<usize, (f64, f64)>,
}

#[derive(Default)]
struct Finder {
    finder: PrecisionFinder,
    seen: bool,
}

impl Finder {
    fn see_all(&mut self, values: &[f64]) {
        self.finder.see_all(values);
        self.seen |= !values.is_empty();
    }

    fn finish(&self) -> Precision {
        if self.seen { self.finder.finish() } else { Precision::default() }
    }
}

impl Precisions {
    /// Adds rows as they were uploaded. `filled` says that the logging policy is known: jobs take its numbers, which
    /// have all their digits, in place of the logged ones.
    pub fn add(&mut self, layout: &LogLayout, rows: &LogRows, filled: bool) {
        match layout.full {
            Some(_) => self.propensities.see_all(&rows.full),
            None if !filled => self.propensities.see_all(&rows.propensities),
            None => {}
        }
        let mut widen = |size: usize, (low, high): (f64, f64)| {
            let (least, most) = self.ranges.entry(size).or_insert((low, high));
            (*least, *most) = (least.min(low), most.max(high));
        };
        match layout.sets {
            Some(_) => {
                rows.propensities.iter().enumerate().for_each(|(i, &p)| widen(rows.sets.size(i), (p, p)));
            }
            None if rows.propensities.is_empty() => {}
            None => {
                let range = |(low, high): (f64, f64), &p: &f64| (low.min(p), high.max(p));
                widen(0, rows.propensities.iter().fold((f64::INFINITY, f64::NEG_INFINITY), range));
            }
        }
        self.candidates.resize_with(layout.candidates.len(), Finder::default);
        for ((name, column), finder) in
            layout.candidates.iter().zip(&rows.candidates).zip(&mut self.candidates)
        {
            let column =
                layout.full_position(name).and_then(|at| rows.candidate_full.get(at)).unwrap_or(column);
            finder.see_all(column);
        }
    }

    /// The precision of the propensities.
    pub fn propensities(&self) -> Precision {
        self.propensities.finish()
    }

    /// The precision of each candidate; empty if all have full precision.
    pub fn candidates(&self) -> Vec<Precision> {
        let all: Vec<Precision> = self.candidates.iter().map(Finder::finish).collect();
        if all.iter().all(|&precision| precision == Precision::default()) { Vec::new() } else { all }
    }

    /// Whether every logged propensity is 1/K, or one over the number of actions of its row. Rounded numbers cannot
    /// show it: a policy that is nearly uniform is not uniform.
    pub fn is_uniform(&self, n_actions: usize, precision: Precision) -> bool {
        let near = |p: f64, share: f64| (p - share).abs() <= precision.half_width(p) + ARITHMETIC * share;
        let uniform = |(&size, &(least, most)): (&usize, &(f64, f64))| {
            let share = 1.0 / if size == 0 { n_actions } else { size } as f64;
            near(least, share) && near(most, share)
        };
        !precision.is_coarse() && !self.ranges.is_empty() && self.ranges.iter().all(uniform)
    }
}
