//! How precisely the probabilities of a log were written, and whether its propensities are uniform.

use guarantor_engine::log::{Precision, PrecisionFinder};

use crate::batch::{LogLayout, LogRows};

/// Relative differences up to this are arithmetic, not rounding.
const ARITHMETIC: f64 = 4.0 * f64::EPSILON;

/// The precision of the rows so far.
#[derive(Default)]
pub struct Precisions {
    propensities: Finder,
    candidates: Vec<Finder>,
    /// The smallest and the largest propensity of a logged action.
    range: Option<(f64, f64)>,
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
        for &p in &rows.propensities {
            let (least, most) = self.range.unwrap_or((p, p));
            self.range = Some((least.min(p), most.max(p)));
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

    /// Whether every logged propensity is 1/K. Rounded numbers cannot show it: a policy that is nearly uniform is
    /// not uniform.
    pub fn is_uniform(&self, n_actions: usize, precision: Precision) -> bool {
        let share = 1.0 / n_actions as f64;
        let near = |p: f64| (p - share).abs() <= precision.half_width(p) + ARITHMETIC * share;
        !precision.is_coarse() && self.range.is_some_and(|(least, most)| near(least) && near(most))
    }
}
