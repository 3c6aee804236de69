//! The health report: whether a log is good enough to learn and certify from, and whether its propensities
//! are plausible (docs/math.md#health).

use guarantor_engine::checks::{CheckName, CheckResult, Drift};
use std::ops::Range;

use guarantor_engine::log::{Places, Sets};
use serde::{Deserialize, Serialize};

use crate::batch::{LogLayout, LogRows};
use crate::distribution::{ExpectedCount, SmallPropensity, WeightClass, Weights, expected_counts};
use crate::outcome_health::OutcomeSummary;
use crate::row::Notes;
use crate::warning::{LogTraits, Warning, warnings};

/// At this probability or above, the logging policy had practically no choice.
const NEAR_DETERMINISTIC: f64 = 0.99;

/// A number that has a known expectation if the logged propensities are right.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Fit {
    /// The expected value.
    pub expected: f64,
    /// The value in the log.
    pub observed: f64,
    /// (observed − expected) in standard errors; null if the log is too short to estimate them.
    pub z: Option<f64>,
    /// Whether the check of this number passed; null if it was not made, see `checks`.
    #[serde(default)]
    pub ok: Option<bool>,
}

/// The report on a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Health {
    /// The smallest propensity of a logged action.
    pub min_propensity: f64,
    /// The largest 1/π0(a|x).
    pub max_weight: f64,
    /// (Σw)²/Σw² of w = 1/π0(a|x): how many rows of a uniform log this log is worth.
    pub effective_sample_size: f64,
    /// The share of rows in which an action had a propensity of at least 0.99.
    pub near_deterministic_share: f64,
    /// How often each action was logged.
    pub action_counts: Vec<u64>,
    /// The actions that were never logged.
    pub actions_never_logged: Vec<u64>,
    /// The mean of 1/π0(a|x), which should be the number of actions that π0 can take: K if it can take all. If K was
    /// not stated, `expected` is the number of actions in the log, which is no test.
    pub inverse_propensity_mean: Fit,
    /// The action whose count is furthest from Σπ0; null if π0(·|x) is not known.
    pub worst_action_count: Option<ActionFit>,
    /// What deserves attention, one entry each.
    pub warnings: Vec<Warning>,
    /// The checks of all rows against the assumptions of the guarantee.
    #[serde(default)]
    pub checks: Vec<CheckResult>,
    /// How the log changes over time, in the order of arrival of its rows; null if it was not computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// The share of decisions that were dropped before they were logged, if the log's format has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pdrop: Option<f64>,
    /// The sizes of the action sets and of their features, if every row has its own actions. An action is then a
    /// position in the list, and no position is reported as never logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_sets: Option<SetSizes>,
    /// A summary of each outcome, the primary one first; empty for reports of releases before 0.6.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<OutcomeSummary>,
    /// The histogram of 1/π0(a|x); empty in reports of earlier releases.
    #[serde(default)]
    pub weights: Vec<WeightClass>,
    /// The smallest propensities of logged actions, at most 10.
    #[serde(default)]
    pub smallest_propensities: Vec<SmallPropensity>,
    /// How often actions were logged, against their propensities: the 50 that are furthest from them; empty if π0(·|x)
    /// is not known.
    #[serde(default)]
    pub expected_counts: Vec<ExpectedCount>,
}

/// The sizes of action sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SetSizes {
    /// The smallest number of actions of a row.
    pub least_actions: u64,
    /// The mean number of actions of a row.
    pub mean_actions: f64,
    /// The largest number of actions of a row.
    pub most_actions: u64,
    /// The mean number of features of a request that are not 0.
    pub mean_request_features: f64,
    /// The mean number of features of an action that are not 0.
    pub mean_action_features: f64,
}

/// What the sizes are computed from.
#[derive(Default)]
struct Sizes {
    least: usize,
    most: usize,
    actions: u64,
    request_features: u64,
    action_features: u64,
}

impl Health {
    /// Adds what comes from the files and not from the rows: from this file, and from those of the earlier
    /// version.
    pub(crate) fn add_notes(&mut self, notes: Notes, earlier: Option<Health>) {
        let (before, pdrop) = earlier.map_or_else(Default::default, |health| (health.warnings, health.pdrop));
        let of_files = before.into_iter().filter(|warning| warning.code.is_of_file());
        for warning in of_files.chain(notes.warnings) {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        self.pdrop = notes.pdrop.or(pdrop);
    }
}

/// How well the count of one action fits its propensities.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ActionFit {
    /// The action.
    pub action: u64,
    /// The expected and the observed count.
    #[serde(flatten)]
    pub fit: Fit,
}

/// Computes the health of a log while its rows are read.
#[derive(Default)]
pub struct HealthBuilder {
    rows: u64,
    min_propensity: Option<f64>,
    weight: f64,
    weight_squared: f64,
    near_deterministic: u64,
    counts: Vec<u64>,
    /// The number of actions that π0 can take, summed over the rows for which it is known.
    support: Option<f64>,
    /// Σπ0(a) and Σπ0(a)(1 − π0(a)) for each action.
    expected: Vec<(f64, f64)>,
    sizes: Option<Sizes>,
    weights: Weights,
}

impl HealthBuilder {
    /// Adds rows. Their π0(·|x) is added by `expect_all`, or by `judge` if only the logged action's is known.
    pub fn update(&mut self, layout: &LogLayout, rows: &LogRows) {
        self.rows += rows.len() as u64;
        if layout.sets.is_some() {
            self.measure(&rows.sets);
        }
        for (&action, &propensity) in rows.actions.iter().zip(&rows.propensities) {
            let action = action as usize;
            if self.counts.len() <= action {
                self.counts.resize(action + 1, 0);
            }
            self.counts[action] += 1;
            self.min_propensity = Some(self.min_propensity.map_or(propensity, |m| m.min(propensity)));
            let weight = 1.0 / propensity;
            self.weight += weight;
            self.weight_squared += weight * weight;
            self.weights.add(propensity);
        }
    }

    fn measure(&mut self, sets: &Sets) {
        let sizes = self.sizes.get_or_insert(Sizes { least: usize::MAX, ..Sizes::default() });
        for i in 0..sets.rows() {
            let size = sets.size(i);
            (sizes.least, sizes.most) = (sizes.least.min(size), sizes.most.max(size));
        }
        sizes.actions += sets.actions.len() as u64;
        sizes.request_features += sets.x.non_zeros() as u64;
        sizes.action_features += sets.actions.non_zeros() as u64;
    }

    /// Adds π0(·|x) of rows.
    pub fn expect_all(&mut self, places: Places, rows: usize, full: &[f64]) {
        (0..rows).for_each(|i| self.expect(&full[places.of(i)]));
    }

    /// Adds π0(·|x) of a part of the rows. The numbers start with those of its first row.
    pub fn expect_part(&mut self, places: Places, rows: Range<usize>, full: &[f64]) {
        let start = places.first(rows.start);
        rows.for_each(|i| {
            let place = places.of(i);
            self.expect(&full[place.start - start..place.end - start]);
        });
    }

    /// Adds the propensities of rows whose π0(·|x) is not known.
    pub fn judge(&mut self, propensities: &[f64]) {
        let certain = |p: &&f64| **p >= NEAR_DETERMINISTIC;
        self.near_deterministic += propensities.iter().filter(certain).count() as u64;
    }

    fn expect(&mut self, pi: &[f64]) {
        if self.expected.len() < pi.len() {
            self.expected.resize(pi.len(), (0.0, 0.0));
        }
        for ((sum, variance), &p) in self.expected.iter_mut().zip(pi) {
            *sum += p;
            *variance += p * (1.0 - p);
        }
        let support = pi.iter().filter(|&&p| p > 0.0).count() as f64;
        self.support = Some(self.support.unwrap_or(0.0) + support);
        self.near_deterministic += u64::from(pi.iter().any(|&p| p >= NEAR_DETERMINISTIC));
    }

    /// The report on the rows so far, with the results of the checks.
    pub fn finish(
        mut self,
        n_actions: usize,
        (checks, drift): (Vec<CheckResult>, Drift),
        traits: LogTraits,
    ) -> Health {
        let ok = |name: CheckName| checks.iter().find(|check| check.name == name).and_then(|check| check.ok);
        self.counts.resize(n_actions, 0);
        let n = self.rows.max(1) as f64;
        let never = self.counts.iter().enumerate().filter(|(_, count)| **count == 0);
        let min_propensity = self.min_propensity.unwrap_or(1.0);
        let mut health = Health {
            min_propensity,
            max_weight: (1.0 / min_propensity).min(f64::MAX),
            effective_sample_size: self.effective_sample_size(),
            near_deterministic_share: self.near_deterministic as f64 / n,
            actions_never_logged: match self.sizes {
                Some(_) => Vec::new(),
                None => never.map(|(action, _)| action as u64).collect(),
            },
            inverse_propensity_mean: self.inverse_propensity_mean(n_actions, ok(CheckName::Propensities)),
            worst_action_count: self.worst_action_count(ok(CheckName::ActionCounts)),
            action_sets: self.sizes.as_ref().map(|sizes| sizes.finish(n)),
            weights: self.weights.classes(),
            smallest_propensities: self.weights.smallest(),
            expected_counts: expected_counts(&self.counts, &self.expected),
            action_counts: self.counts,
            warnings: Vec::new(),
            checks,
            drift: Some(drift),
            pdrop: None,
            outcomes: Vec::new(),
        };
        health.warnings = warnings(&health, LogTraits { rows: self.rows, ..traits });
        health
    }

    /// If the squares of the weights overflow, the largest weight outweighs all others: the size is 1 or
    /// slightly more.
    fn effective_sample_size(&self) -> f64 {
        let size = self.weight * self.weight / self.weight_squared.max(f64::MIN_POSITIVE);
        if self.weight_squared.is_finite() && size.is_finite() { size } else { 1.0 }
    }

    fn inverse_propensity_mean(&self, n_actions: usize, ok: Option<bool>) -> Fit {
        let n = self.rows.max(1) as f64;
        let observed = self.weight / n;
        let mean_square = self.weight_squared / n;
        // `max` would turn NaN into 0.
        let variance = if mean_square.is_finite() {
            (mean_square - observed * observed).max(0.0)
        } else {
            f64::INFINITY
        };
        let actions = self.sizes.as_ref().map_or(n_actions as f64, |sizes| sizes.actions as f64 / n);
        let expected = self.support.map_or(actions, |support| support / n);
        fit(expected, observed, (variance / n).sqrt(), ok)
    }

    fn worst_action_count(&self, ok: Option<bool>) -> Option<ActionFit> {
        let fits = self.expected.iter().enumerate().map(|(action, &(sum, variance))| {
            let count = self.counts.get(action).copied().unwrap_or(0) as f64;
            ActionFit { action: action as u64, fit: fit(sum, count, variance.sqrt(), ok) }
        });
        let size = |f: &ActionFit| f.fit.z.map_or(0.0, f64::abs);
        fits.max_by(|a, b| size(a).total_cmp(&size(b)))
    }
}

impl Sizes {
    fn finish(&self, rows: f64) -> SetSizes {
        SetSizes {
            least_actions: self.least as u64,
            mean_actions: self.actions as f64 / rows,
            most_actions: self.most as u64,
            mean_request_features: self.request_features as f64 / rows,
            mean_action_features: self.action_features as f64 / self.actions.max(1) as f64,
        }
    }
}

fn fit(expected: f64, observed: f64, standard_error: f64, ok: Option<bool>) -> Fit {
    let finite = observed.is_finite() && standard_error.is_finite() && standard_error > 0.0;
    let z = finite.then(|| (observed - expected) / standard_error);
    Fit { expected, observed: observed.min(f64::MAX), z, ok }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_overflow_do_not_break_the_report() {
        for smallest in [1e-155, 1e-200, 1e-308, 5e-324] {
            let rows = LogRows {
                actions: (0..100).map(|i| i % 2).collect(),
                propensities: (0..100).map(|i| if i == 7 { smallest } else { 0.5 }).collect(),
                ..LogRows::default()
            };
            let mut builder = HealthBuilder::default();
            builder.update(&LogLayout::default(), &rows);
            builder.judge(&rows.propensities);
            let health = builder.finish(2, Default::default(), LogTraits::default());
            assert_eq!((health.inverse_propensity_mean.z, health.effective_sample_size), (None, 1.0));
            assert!(health.inverse_propensity_mean.observed > 1e100);
            let written = serde_json::to_value(&health).unwrap();
            assert_eq!(serde_json::from_value::<Health>(written.clone()).unwrap(), health);
            // A report of an earlier release has no checks, and nothing for pictures.
            let mut old = written;
            let new = ["checks", "drift", "weights", "smallest_propensities", "expected_counts"];
            new.iter().for_each(|name| drop(old.as_object_mut().unwrap().remove(*name)));
            let read = serde_json::from_value::<Health>(old).unwrap();
            assert_eq!((read.checks.len(), read.drift), (0, None));
        }
    }
}
