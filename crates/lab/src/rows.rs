//! What was measured, a row a job, and its CSV.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::lines::{Line, Promise};
use guarantor_engine::certificate::Decision;
use guarantor_engine::control::TerminationReason;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub figure: u8,
    pub dataset: String,
    pub line: Line,
    pub promise: Promise,
    pub alpha: f64,
    /// m.
    pub interactions: usize,
    pub seed: u64,
    /// n_c of the log.
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
    pub true_improvement: f64,
    /// Standard error of `true_improvement` on the test set.
    pub test_error: f64,
    /// The true improvement on the rows of the bound, with their true labels, and its standard error:
    /// the population that was logged. Only where learning never saw those rows.
    pub own_improvement: Option<f64>,
    pub own_error: Option<f64>,
    /// What a learner without a guarantee chose on held-out rows.
    pub lambda: Option<f64>,
    pub termination: Option<TerminationReason>,
    /// What integration and rounding may have added to GR*.
    pub numerical_slack: Option<f64>,
    /// Empty for a learner that decides nothing.
    pub decision: Option<Decision>,
    /// Of learning and certifying, on the wall's clock.
    pub seconds: f64,
}

pub fn write(rows: &[Row], path: &Path) -> csv::Result<()> {
    let mut out = csv::Writer::from_path(path)?;
    rows.iter().try_for_each(|row| out.serialize(row))?;
    Ok(out.flush()?)
}

pub fn read(path: &Path) -> csv::Result<Vec<Row>> {
    csv::Reader::from_path(path)?.deserialize().collect()
}

/// Mean and standard deviation over seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    pub mean: f64,
    pub deviation: f64,
    pub count: usize,
}

impl Summary {
    /// None of nothing.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        let deviation = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
        (!values.is_empty()).then_some(Summary { mean, deviation, count: values.len() })
    }
}

/// A choice among rows, and what of them is looked at.
#[derive(Clone, Copy)]
pub struct Of<'a> {
    pub rows: &'a [Row],
    pub figure: u8,
    pub line: Line,
}

impl<'a> Of<'a> {
    pub fn at(&self, alpha: f64, interactions: usize) -> impl Iterator<Item = &'a Row> + use<'a> {
        let (figure, line) = (self.figure, self.line);
        self.rows.iter().filter(move |r| {
            r.figure == figure && r.line == line && r.alpha == alpha && r.interactions == interactions
        })
    }

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
