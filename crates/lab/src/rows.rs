//! The results, one row per job, and their CSV file.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::lines::{Line, Promise};
use guarantor_engine::certificate::Decision;
use guarantor_engine::control::TerminationReason;

/// One job's result as one figure shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The figure's number.
    pub figure: u8,
    /// The dataset's name.
    pub dataset: String,
    /// The line of the figure: which learner and bound.
    pub line: Line,
    /// What the promised numbers are.
    pub promise: Promise,
    /// α, the inverse temperature of the logging policy.
    pub alpha: f64,
    /// m, the interactions per context.
    pub interactions: usize,
    /// The seed of the log and of the job.
    pub seed: u64,
    /// The number of contexts of the log.
    pub contexts: u64,
    /// R(π0) on the test set.
    pub logging_risk: f64,
    /// R(π0) as the paper estimates it: the mean cost of the log.
    pub logged_risk: f64,
    /// GR*, or the held-out estimate of a learner that guarantees nothing.
    pub promised_risk: f64,
    /// GI*, or the estimate of the improvement.
    pub promised_improvement: f64,
    /// R(π*) on the test set.
    pub true_risk: f64,
    /// R(π0) − R(π*) on the test set.
    pub true_improvement: f64,
    /// Standard error of `true_improvement` on the test set.
    pub test_error: f64,
    /// The true improvement on the contexts of the bound, computed from their labels. Only if learning did
    /// not use those contexts.
    pub own_improvement: Option<f64>,
    /// Standard error of `own_improvement`.
    pub own_error: Option<f64>,
    /// The λ that a learner without a guarantee chose on held-out rows.
    pub lambda: Option<f64>,
    /// Why learning stopped.
    pub termination: Option<TerminationReason>,
    /// The numerical slack in GR*.
    pub numerical_slack: Option<f64>,
    /// The certificate's decision; empty for a learner without a guarantee.
    pub decision: Option<Decision>,
    /// Wall-clock time of learning and certifying.
    pub seconds: f64,
}

/// Writes rows as CSV.
pub fn write(rows: &[Row], path: &Path) -> csv::Result<()> {
    let mut out = csv::Writer::from_path(path)?;
    rows.iter().try_for_each(|row| out.serialize(row))?;
    Ok(out.flush()?)
}

/// Reads rows from CSV.
pub fn read(path: &Path) -> csv::Result<Vec<Row>> {
    csv::Reader::from_path(path)?.deserialize().collect()
}

/// Mean and standard deviation over seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation; 0 for a single value.
    pub deviation: f64,
    /// The number of values.
    pub count: usize,
}

impl Summary {
    /// None if there are no values.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        let deviation = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
        (!values.is_empty()).then_some(Summary { mean, deviation, count: values.len() })
    }
}

/// The rows of one line of one figure.
#[derive(Clone, Copy)]
pub struct Of<'a> {
    /// All rows.
    pub rows: &'a [Row],
    /// The figure to select.
    pub figure: u8,
    /// The line to select.
    pub line: Line,
}

impl<'a> Of<'a> {
    /// The rows at one α and m, one per seed.
    pub fn at(&self, alpha: f64, interactions: usize) -> impl Iterator<Item = &'a Row> + use<'a> {
        let (figure, line) = (self.figure, self.line);
        self.rows.iter().filter(move |r| {
            r.figure == figure && r.line == line && r.alpha == alpha && r.interactions == interactions
        })
    }

    /// Mean and deviation of a value over the rows at one α and m.
    pub fn summary(&self, alpha: f64, interactions: usize, value: fn(&Row) -> f64) -> Option<Summary> {
        Summary::of(self.at(alpha, interactions).map(value))
    }
}

/// The distinct values of a figure's rows, ascending.
pub fn distinct(rows: &[Row], figure: u8, value: fn(&Row) -> f64) -> Vec<f64> {
    let mut values: Vec<f64> = rows.iter().filter(|r| r.figure == figure).map(value).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}
