//! What deserves attention in a log that was accepted.

use guarantor_engine::checks::{CheckName, CheckResult};
use guarantor_engine::log::Precision;
use serde::{Deserialize, Serialize};

use crate::health::Health;

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
    /// The check `propensities` failed: the mean of 1/propensity is far from its expectation.
    PropensitiesDoNotFit,
    /// The check `action_counts` failed: an action was logged far more or less often than its propensities say.
    ActionCountsDoNotFit,
    /// The check `candidate_weights` failed: a candidate's column does not hold its probabilities of the logged
    /// actions.
    CandidateWeightsDoNotFit,
    /// The check `drift` failed: the log was stated to be of one fixed policy, but it changes over time.
    LogDrifts,
    /// The check `repetitions` failed: repetitions were stated to be designed, but how often a context was logged
    /// depends on its actions.
    RepetitionsDoNotFit,
    /// The propensities have few digits, which costs some of every guarantee.
    PropensitiesLookRounded,
    /// The times of the rows are not in the order of the rows.
    RowsOutOfOrder,
    /// The logging policy had practically no choice in most rows.
    NearDeterministic,
    /// A few rows with small propensities outweigh all others.
    LowEffectiveSampleSize,
    /// Some actions were never logged.
    ActionsNeverLogged,
    /// DSJSON: some rewards belong to decisions that are not in the file.
    DanglingRewards,
    /// The actions of the rows have neither features nor ids.
    ActionsWithoutFeatures,
    /// DSJSON: the features of actions are ignored.
    ActionFeaturesNotUsed,
    /// DSJSON: decisions were dropped before they were logged.
    RowsDroppedUpstream,
    /// An outcome was cut at its cap or floor in many rows.
    OutcomesCut,
    /// Parquet and Arrow: columns that are no fields of a row are ignored.
    ColumnsIgnored,
}

impl WarningCode {
    /// Whether the warning comes from the file and not from the rows, which `HealthBuilder` sees again at
    /// every version.
    pub(crate) fn is_of_file(self) -> bool {
        use WarningCode::{ActionFeaturesNotUsed, ColumnsIgnored, DanglingRewards, RowsDroppedUpstream};
        matches!(self, DanglingRewards | ActionFeaturesNotUsed | RowsDroppedUpstream | ColumnsIgnored)
    }
}

/// The code as it is written in JSON.
impl std::fmt::Display for WarningCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// What the warnings about the rows of a log follow from, besides its health.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogTraits {
    pub rows: u64,
    pub precision: Precision,
    pub uniform: bool,
    pub out_of_order: bool,
    /// Whether rows have their own actions, which have no features.
    pub bare_actions: bool,
}

/// The warnings about the rows.
pub fn warnings(health: &Health, traits: LogTraits) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = health.checks.iter().filter_map(of_check).collect();
    let mut warn = |code, message: String| warnings.push(Warning { code, message });
    if let Some(decimals) = traits.precision.decimals.filter(|_| !traits.uniform) {
        let costs = relative_cost(traits.precision, health.min_propensity);
        warn(
            WarningCode::PropensitiesLookRounded,
            format!(
                "the propensities have at most {decimals} decimals, so each stands for an interval, and bounds use its \
                 unfavorable end: up to {costs} of a row's weight is lost, and there is no control variate; log all \
                 digits, or upload with exact_propensities if the policy drew with exactly these numbers"
            ),
        );
    }
    if traits.out_of_order {
        warn(
            WarningCode::RowsOutOfOrder,
            "the timestamps are not in the order of the rows; drift here and everything in jobs follow the timestamps"
                .into(),
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
    let rows = traits.rows as f64;
    if health.effective_sample_size < 0.1 * rows {
        warn(
            WarningCode::LowEffectiveSampleSize,
            format!(
                "a few rows with small propensities outweigh the others: {rows} rows are worth {:.0}",
                health.effective_sample_size
            ),
        );
    }
    if traits.bare_actions {
        warn(
            WarningCode::ActionsWithoutFeatures,
            "every row has its own actions, but they have neither features nor ids, so that nothing can be learned \
             about them; candidates and stored policies can be evaluated"
                .into(),
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

/// A failed check is a warning.
fn of_check(check: &CheckResult) -> Option<Warning> {
    let code = match check.name {
        _ if !check.failed() => return None,
        CheckName::Propensities => WarningCode::PropensitiesDoNotFit,
        CheckName::ActionCounts => WarningCode::ActionCountsDoNotFit,
        CheckName::CandidateWeights => WarningCode::CandidateWeightsDoNotFit,
        CheckName::Drift => WarningCode::LogDrifts,
        CheckName::Repetitions => WarningCode::RepetitionsDoNotFit,
        // This is checked only in jobs.
        CheckName::KnownBaseline => return None,
    };
    Some(Warning { code, message: check.message.clone() })
}

/// The share of the smallest propensity's weight that rounding costs.
fn relative_cost(precision: Precision, smallest: f64) -> String {
    let share = 1.0 - smallest / precision.upper(smallest).max(f64::MIN_POSITIVE);
    if share < 0.001 { format!("{:.3}%", 100.0 * share) } else { format!("{:.1}%", 100.0 * share) }
}
