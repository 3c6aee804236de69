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
    fn see(&mut self, value: f64) {
        self.finder.see(value);
        self.seen = true;
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
            Some(_) => rows.full.iter().for_each(|&p| self.propensities.see(p)),
            None if !filled => rows.propensities.iter().for_each(|&p| self.propensities.see(p)),
            None => {}
        }
        for (i, &p) in rows.propensities.iter().enumerate() {
            let size = if layout.sets.is_some() { rows.sets.size(i) } else { 0 };
            let (least, most) = self.ranges.entry(size).or_insert((p, p));
            (*least, *most) = (least.min(p), most.max(p));
        }
        self.candidates.resize_with(layout.candidates.len(), Finder::default);
        for ((name, column), finder) in
            layout.candidates.iter().zip(&rows.candidates).zip(&mut self.candidates)
        {
            let column =
                layout.full_position(name).and_then(|at| rows.candidate_full.get(at)).unwrap_or(column);
            column.iter().for_each(|&p| finder.see(p));
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
