//! The health report: whether a log is good enough to learn and certify from, and whether its propensities
//! are plausible (docs/math.md#health).

use serde::{Deserialize, Serialize};

use crate::batch::LogRows;
use crate::row::Notes;

/// At this probability or above, the logging policy had practically no choice.
const NEAR_DETERMINISTIC: f64 = 0.99;
/// Deviations of more standard errors than this are not chance (1 in 1.7 million).
const MAX_Z: f64 = 5.0;

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
    /// Whether the observed value is within 5 standard errors of the expected one, or differs only by
    /// rounding.
    pub ok: bool,
}

/// Something about a log that deserves attention, although the log was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Warning {
    /// The stable code of the warning.
    pub code: WarningCode,
    /// The warning as a sentence.
    pub message: String,
}

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WarningCode {
    /// The mean of 1/propensity is far from its expectation.
    PropensitiesDoNotFit,
    /// An action was logged far more or less often than its propensities say.
    ActionCountsDoNotFit,
    /// The logging policy had practically no choice in most rows.
    NearDeterministic,
    /// A few rows with small propensities outweigh all others.
    LowEffectiveSampleSize,
    /// Some actions were never logged.
    ActionsNeverLogged,
    /// DSJSON: some rewards belong to decisions that are not in the file.
    DanglingRewards,
    /// DSJSON: the features of actions are ignored.
    ActionFeaturesNotUsed,
    /// DSJSON: decisions were dropped before they were logged.
    RowsDroppedUpstream,
}

impl WarningCode {
    /// Whether the warning comes from the file and not from the rows, which `HealthBuilder` sees again at
    /// every version.
    fn is_of_file(self) -> bool {
        use WarningCode::{ActionFeaturesNotUsed, DanglingRewards, RowsDroppedUpstream};
        matches!(self, DanglingRewards | ActionFeaturesNotUsed | RowsDroppedUpstream)
    }
}

/// The code as it is written in JSON.
impl std::fmt::Display for WarningCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
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
    /// The mean of 1/π0(a|x), which should be the number of actions that π0 can take: K if it can take all.
    pub inverse_propensity_mean: Fit,
    /// The action whose count is furthest from Σπ0; null if π0(·|x) is not known.
    pub worst_action_count: Option<ActionFit>,
    /// What deserves attention, one entry each.
    pub warnings: Vec<Warning>,
    /// The share of decisions that were dropped before they were logged, if the log's format has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pdrop: Option<f64>,
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
}

impl HealthBuilder {
    /// Adds rows. Their π0(·|x) is added by `expect_all`, or by `judge` if only the logged action's is known.
    pub fn update(&mut self, rows: &LogRows) {
        self.rows += rows.len() as u64;
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
        }
    }

    /// Adds π0(·|x) of some rows, K numbers each.
    pub fn expect_all(&mut self, k: usize, full: &[f64]) {
        full.chunks_exact(k).for_each(|pi| self.expect(pi));
    }

    /// Adds the propensities of rows whose π0(·|x) is not known.
    pub fn judge(&mut self, propensities: &[f64]) {
        let certain = |p: &&f64| **p >= NEAR_DETERMINISTIC;
        self.near_deterministic += propensities.iter().filter(certain).count() as u64;
    }

    fn expect(&mut self, pi: &[f64]) {
        self.expected.resize(pi.len(), (0.0, 0.0));
        for ((sum, variance), &p) in self.expected.iter_mut().zip(pi) {
            *sum += p;
            *variance += p * (1.0 - p);
        }
        let support = pi.iter().filter(|&&p| p > 0.0).count() as f64;
        self.support = Some(self.support.unwrap_or(0.0) + support);
        self.near_deterministic += u64::from(pi.iter().any(|&p| p >= NEAR_DETERMINISTIC));
    }

    /// The report on the rows so far.
    pub fn finish(mut self, n_actions: usize) -> Health {
        self.counts.resize(n_actions, 0);
        let n = self.rows.max(1) as f64;
        let never = self.counts.iter().enumerate().filter(|(_, count)| **count == 0);
        let min_propensity = self.min_propensity.unwrap_or(1.0);
        let mut health = Health {
            min_propensity,
            max_weight: (1.0 / min_propensity).min(f64::MAX),
            effective_sample_size: self.effective_sample_size(),
            near_deterministic_share: self.near_deterministic as f64 / n,
            actions_never_logged: never.map(|(action, _)| action as u64).collect(),
            inverse_propensity_mean: self.inverse_propensity_mean(n_actions),
            worst_action_count: self.worst_action_count(),
            action_counts: self.counts,
            warnings: Vec::new(),
            pdrop: None,
        };
        health.warnings = warnings(&health, n);
        health
    }

    /// If the squares of the weights overflow, the largest weight outweighs all others: the size is 1 or
    /// slightly more.
    fn effective_sample_size(&self) -> f64 {
        let size = self.weight * self.weight / self.weight_squared.max(f64::MIN_POSITIVE);
        if self.weight_squared.is_finite() && size.is_finite() { size } else { 1.0 }
    }

    fn inverse_propensity_mean(&self, n_actions: usize) -> Fit {
        let n = self.rows.max(1) as f64;
        let observed = self.weight / n;
        let mean_square = self.weight_squared / n;
        // `max` would turn NaN into 0.
        let variance = if mean_square.is_finite() {
            (mean_square - observed * observed).max(0.0)
        } else {
            f64::INFINITY
        };
        let expected = self.support.map_or(n_actions as f64, |support| support / n);
        fit(expected, observed, (variance / n).sqrt())
    }

    fn worst_action_count(&self) -> Option<ActionFit> {
        let fits = self.expected.iter().enumerate().map(|(action, &(sum, variance))| {
            let count = self.counts.get(action).copied().unwrap_or(0) as f64;
            ActionFit { action: action as u64, fit: fit(sum, count, variance.sqrt()) }
        });
        let size = |f: &ActionFit| f.fit.z.map_or(0.0, f64::abs);
        fits.max_by(|a, b| size(a).total_cmp(&size(b)))
    }
}

/// Whether a deviation is explained by rounding; logs in single precision round a lot.
fn is_rounding(expected: f64, observed: f64) -> bool {
    (observed - expected).abs() <= 1e-3 * expected.abs().max(1e-9)
}

fn fit(expected: f64, observed: f64, standard_error: f64) -> Fit {
    if !(observed.is_finite() && standard_error.is_finite()) {
        return Fit { expected, observed: observed.min(f64::MAX), z: None, ok: false };
    }
    let z = (standard_error > 0.0).then(|| (observed - expected) / standard_error);
    let ok = is_rounding(expected, observed) || z.is_some_and(|z| z.abs() <= MAX_Z);
    Fit { expected, observed, z, ok }
}

/// A number with four decimals, unless it has too many digits before them.
fn readable(value: f64) -> String {
    if value < 1e15 { format!("{value:.4}") } else { format!("{value:.3e}") }
}

fn warnings(health: &Health, rows: f64) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code, message: String| warnings.push(Warning { code, message });
    let mean = &health.inverse_propensity_mean;
    // With few rows and rare actions the mean is often too small by more than its own estimated error.
    if !mean.ok && (mean.observed > mean.expected || health.actions_never_logged.is_empty()) {
        warn(
            WarningCode::PropensitiesDoNotFit,
            format!(
                "the mean of 1/propensity is {}, but {:.4} is expected: the logged propensities are probably not \
                 those with which the actions were drawn",
                readable(mean.observed),
                mean.expected
            ),
        );
    }
    if let Some(worst) = health.worst_action_count.as_ref().filter(|worst| !worst.fit.ok) {
        warn(
            WarningCode::ActionCountsDoNotFit,
            format!(
                "action {} was logged {} times, but its propensities sum to {:.1}",
                worst.action, worst.fit.observed, worst.fit.expected
            ),
        );
    }
    if health.near_deterministic_share > 0.5 {
        warn(
            WarningCode::NearDeterministic,
            format!(
                "in {:.0}% of the rows the logging policy had practically no choice; such rows say little about \
                 other policies, so log with more exploration",
                100.0 * health.near_deterministic_share
            ),
        );
    }
    if health.effective_sample_size < 0.1 * rows {
        warn(
            WarningCode::LowEffectiveSampleSize,
            format!(
                "a few rows with small propensities outweigh the others: {rows} rows are worth {:.0}",
                health.effective_sample_size
            ),
        );
    }
    if !health.actions_never_logged.is_empty() {
        warn(
            WarningCode::ActionsNeverLogged,
            format!(
                "{} of {} actions were never logged; nothing can be guaranteed for a policy that takes them",
                health.actions_never_logged.len(),
                health.action_counts.len()
            ),
        );
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn propensities_whose_weights_overflow_do_not_fit() {
        for smallest in [1e-155, 1e-200, 1e-308, 5e-324] {
            let rows = LogRows {
                actions: (0..100).map(|i| i % 2).collect(),
                propensities: (0..100).map(|i| if i == 7 { smallest } else { 0.5 }).collect(),
                ..LogRows::default()
            };
            let mut builder = HealthBuilder::default();
            builder.update(&rows);
            builder.judge(&rows.propensities);
            let health = builder.finish(2);
            assert!(!health.inverse_propensity_mean.ok, "{health:?}");
            assert_eq!(health.effective_sample_size, 1.0);
            let codes: Vec<String> = health.warnings.iter().map(|w| w.code.to_string()).collect();
            assert_eq!(codes, ["propensities_do_not_fit", "low_effective_sample_size"]);
            assert!(health.warnings.iter().all(|w| w.message.len() < 300), "{:?}", health.warnings);
            let written = serde_json::to_value(&health).unwrap();
            assert_eq!(serde_json::from_value::<Health>(written).unwrap(), health);
        }
    }
}
