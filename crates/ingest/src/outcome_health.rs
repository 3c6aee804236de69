//! A summary of each outcome of a log, for the health report.

use guarantor_engine::log::{NamedOutcome, Outcome};
use serde::{Deserialize, Serialize};

use crate::batch::LogRows;
use crate::health::Health;
use crate::outcomes::CutCounts;
use crate::warning::{Warning, WarningCode};

/// If a larger share of the rows is cut, there is a warning.
const MUCH_CUT: f64 = 0.05;

/// The summary of an outcome, in its own units. Values that were cut count as what they were cut to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OutcomeSummary {
    /// The name, if the log has named outcomes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The mean over all rows.
    pub mean: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// The number of rows whose value was cut at the cap or the floor.
    pub cut_rows: u64,
    /// The share of such rows.
    pub cut_share: f64,
}

/// The costs of one outcome so far.
#[derive(Clone, Copy)]
struct Costs {
    sum: f64,
    least: f64,
    most: f64,
}

/// Computes the summaries while rows are read.
#[derive(Default)]
pub struct OutcomeTally {
    rows: u64,
    /// First the primary outcome.
    costs: Vec<Costs>,
}

impl OutcomeTally {
    /// Adds rows.
    pub fn add(&mut self, rows: &LogRows) {
        self.rows += rows.len() as u64;
        let none = Costs { sum: 0.0, least: f64::INFINITY, most: f64::NEG_INFINITY };
        self.costs.resize(1 + rows.outcomes.len(), none);
        for (to, column) in self.costs.iter_mut().zip(std::iter::once(&rows.costs).chain(&rows.outcomes)) {
            for &cost in column {
                *to = Costs { sum: to.sum + cost, least: to.least.min(cost), most: to.most.max(cost) };
            }
        }
    }

    /// The summaries. `cut` counts the rows of this upload, and `earlier` those of the versions before.
    pub fn finish(
        self,
        primary: &Outcome,
        named: &[NamedOutcome],
        cut: &CutCounts,
        earlier: &[OutcomeSummary],
    ) -> Vec<OutcomeSummary> {
        let rows = self.rows.max(1) as f64;
        let summary = |(i, costs): (usize, Costs)| {
            let outcome = named.get(i).map_or(primary, |named| &named.outcome);
            let ends = [costs.least, costs.most].map(|cost| outcome.risk_to_user(cost));
            let cut_rows = cut.of(i) + earlier.get(i).map_or(0, |before| before.cut_rows);
            OutcomeSummary {
                name: named.get(i).map(|named| named.name.clone()),
                mean: outcome.risk_to_user(costs.sum / rows),
                min: ends[0].min(ends[1]),
                max: ends[0].max(ends[1]),
                cut_rows,
                cut_share: cut_rows as f64 / rows,
            }
        };
        self.costs.into_iter().enumerate().map(summary).collect()
    }
}

impl Health {
    /// Adds the summaries of the outcomes, and a warning for each that was cut in many rows.
    pub(crate) fn add_outcomes(&mut self, outcomes: Vec<OutcomeSummary>) {
        for outcome in outcomes.iter().filter(|outcome| outcome.cut_share > MUCH_CUT) {
            let name =
                outcome.name.as_ref().map_or("the outcome".to_owned(), |name| format!("the outcome {name}"));
            let message = format!(
                "{name} was cut at its cap or floor in {:.1}% of the rows; guarantees are about the cut outcome, which \
                 says nothing about how far values lie beyond",
                100.0 * outcome.cut_share
            );
            self.warnings.push(Warning { code: WarningCode::OutcomesCut, message });
        }
        self.outcomes = outcomes;
    }
}
