//! A plan before any log exists, from what the caller expects.

use serde::{Deserialize, Serialize};

use super::forecast::{Settings, Sight};
use super::width::Game;
use super::{POWER, Plan};
use crate::error::{SpecCode, SpecError};
use crate::log::{Logging, Outcome, OutcomeKind};
use crate::spec::ranges::{Range, text};
use crate::spec::{self, JobKind};

type Checked<T> = Result<T, SpecError>;

/// What the caller expects of a log that does not exist yet. Fields that are left out have the least favorable value
/// that is still plausible, so a plan gets smaller if more is known.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// The improvement that the policy is expected to have.
    pub improvement: Option<f64>,
    /// The improvement that must be exceeded for `deploy`. The default is 0.
    pub min_improvement: Option<f64>,
    /// The unit of the two improvements. The default is `paper`: shares of the outcome's range.
    pub unit: Option<PlanUnit>,
    /// The kind and range of the outcome. The default is a reward in [0, 1].
    pub outcome: Option<PlanOutcome>,
    /// The mean outcome under the logging policy. Without it, the largest outcome counts as usual.
    pub outcome_mean: Option<f64>,
    /// The standard deviation of the outcome. Without it, outcomes count as being at the ends of their range.
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub outcome_spread: Option<f64>,
    /// The number of actions; not needed with `propensities`.
    #[cfg_attr(feature = "schema", schema(minimum = 2, maximum = 1000000))]
    pub n_actions: Option<u64>,
    /// How often the logging policy plays each action; mutually exclusive with `exploration`.
    pub propensities: Option<Vec<f64>>,
    /// How often the logging policy plays uniformly at random, and otherwise one action. The default is 1: always.
    #[cfg_attr(feature = "schema", schema(minimum = 0.000001, maximum = 1))]
    pub exploration: Option<f64>,
    /// In what share of the decisions the policy plays another action than the logging policy's usual one. The default
    /// is 1.
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 1))]
    pub changed: Option<f64>,
    /// Whether rows will carry the probabilities of all actions, which makes bounds narrower. The default is false.
    pub full_propensities: Option<bool>,
    /// Whether a policy is learned from the log or exists already. The default is `evaluate`.
    pub kind: Option<JobKind>,
    /// Share of the rows that are learned from (kind `learn`). The default is 0.6.
    #[cfg_attr(feature = "schema", schema(minimum = 0.01, maximum = 0.99))]
    pub fraction: Option<f64>,
    /// The number of candidates that share δ (kind `evaluate`). The default is 1.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1000))]
    pub candidates: Option<u64>,
    /// The probability, at most, that the certificate is wrong. The default is 0.05.
    #[cfg_attr(feature = "schema", schema(minimum = 1e-12, maximum = 0.999))]
    pub delta: Option<f64>,
    /// The probability with which the rows should certify. The default is 0.8.
    #[cfg_attr(feature = "schema", schema(minimum = 0.5, maximum = 0.99))]
    pub power: Option<f64>,
    /// How the log will be logged. The default is `adaptive`.
    pub logging: Option<Logging>,
    /// The traffic, from which days are computed.
    #[cfg_attr(feature = "schema", schema(minimum = 1e-6, maximum = 1e12))]
    pub rows_per_day: Option<f64>,
}

/// The kind and range of an outcome that will be logged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PlanOutcome {
    /// Whether the outcome is a cost or a reward.
    pub kind: OutcomeKind,
    /// The smallest possible outcome.
    pub min: f64,
    /// The largest possible outcome.
    pub max: f64,
}

/// The unit of the improvements of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PlanUnit {
    /// The paper's: shares of the outcome's range.
    Paper,
    /// The outcome's own.
    Outcome,
}

fn invalid<T>(field: &str, message: impl Into<String>) -> Checked<T> {
    Err(SpecError::new(SpecCode::InvalidValue, field, message))
}

/// The value, if it is given and in its range, or the default.
fn within(field: &str, value: Option<f64>, default: f64, (min, max): (f64, f64)) -> Checked<f64> {
    spec::within(field, value.unwrap_or(default), Range::new(min, max))
}

/// More propensities than this are not read.
const MOST_PROPENSITIES: usize = 10_000;
/// How far propensities may be from summing to 1.
const SUM_TOLERANCE: f64 = 1e-3;
/// Shares of exploration that a plan compares with.
const SHARES: [f64; 5] = [0.05, 0.1, 0.2, 0.5, 1.0];
/// The default share of the rows that are learned from.
const FRACTION: f64 = 0.6;
/// The factors of the control variate in looks at any time.
const ANYTIME_FACTORS: [f64; 3] = [0.0, 0.25, 0.6];

/// How the logging policy plays: its usual action, and the mean of 1/propensity over the others.
struct Play {
    usual: f64,
    others: f64,
    n_actions: f64,
}

impl Play {
    /// The mean square of weight − 1 of a policy that plays another action in this share of the decisions.
    fn square(&self, changed: f64) -> f64 {
        changed * (self.others - 1.0) + (1.0 - changed) * (1.0 / self.usual - 1.0)
    }
}

/// The outcome in the paper's units.
struct Spread {
    /// The mean of −c, if it is known.
    mean: Option<f64>,
    /// The variance of c.
    variance: f64,
}

impl Spread {
    /// The mean square of c + θ.
    fn square(&self, theta: f64) -> f64 {
        match self.mean {
            Some(mean) => self.variance + (mean - theta) * (mean - theta),
            None => 1.0,
        }
    }
}

impl PlanRequest {
    /// The plan. `improvement_share` is the share of a policy's δ that the claim about its improvement gets.
    ///
    /// # Errors
    /// If a field is missing or out of its range, or fields contradict each other.
    pub fn plan(&self, improvement_share: f64) -> Checked<Plan> {
        let outcome = self.checked_outcome()?;
        let spread = self.spread(&outcome)?;
        let Some(expected) = self.improvement else {
            return invalid(
                "improvement",
                "is required: the improvement that the policy is expected to have",
            );
        };
        let unit = match self.unit {
            Some(PlanUnit::Outcome) => outcome.max - outcome.min,
            Some(PlanUnit::Paper) | None => 1.0,
        };
        let estimate = within("improvement", Some(expected), 0.0, (0.0, unit))? / unit;
        let min_improvement = within("min_improvement", self.min_improvement, 0.0, (0.0, unit))? / unit;
        if let Some(mean) = spread.mean.filter(|mean| mean + estimate > 1.0) {
            let most = unit * (1.0 - mean);
            return invalid("improvement", format!("with this outcome_mean, at most {most} can be gained"));
        }
        let play = self.play()?;
        let changed = within("changed", self.changed, 1.0, (0.0, 1.0))?;
        let kind = self.kind.unwrap_or(JobKind::Evaluate);
        let (delta, rows_per_context) = self.shared(kind, improvement_share)?;
        let fixed = self.logging.unwrap_or_default() == Logging::Fixed;
        let controlled = self.full_propensities == Some(true);
        let deviation = |factor: f64| {
            (play.square(changed) * spread.square(factor) - estimate * estimate).max(0.0).sqrt()
        };
        let best = if controlled { spread.mean.unwrap_or(0.0) } else { 0.0 };
        let anytime = ANYTIME_FACTORS.into_iter().filter(|factor| controlled || *factor == 0.0);
        let game = match (kind, fixed) {
            (_, true) => Game::Aimed,
            (JobKind::Learn, false) => Game::One,
            (JobKind::Evaluate, false) => Game::Mixture,
        };
        let pooled = (kind == JobKind::Evaluate).then(|| Sight {
            game: Game::Anytime { controlled },
            spread: anytime.map(deviation).fold(f64::INFINITY, f64::min),
        });
        let settings = Settings {
            min_improvement,
            estimate,
            delta,
            power: within("power", self.power, POWER, (0.5, 0.99))?,
            seen: None,
            fresh: Sight { game, spread: deviation(best) },
            pooled,
            rows_per_context,
            rows_per_day: match self.rows_per_day {
                None => None,
                given => Some(within("rows_per_day", given, 1.0, (1e-6, 1e12))?),
            },
            exploration: self.explored(&play, changed)?,
        };
        Ok(settings.plan(None))
    }

    fn checked_outcome(&self) -> Checked<Outcome> {
        let Some(outcome) = self.outcome else { return Ok(Outcome::reward()) };
        match Outcome::new(outcome.kind, outcome.min, outcome.max) {
            Some(checked) => Ok(checked),
            None => {
                invalid("outcome", format!("[{}, {}] is not a range", text(outcome.min), text(outcome.max)))
            }
        }
    }

    fn spread(&self, outcome: &Outcome) -> Checked<Spread> {
        let mean = match self.outcome_mean {
            Some(mean) if !outcome.contains(mean) => {
                let message =
                    format!("{mean} is not in the outcome's range [{}, {}]", outcome.min, outcome.max);
                return invalid("outcome_mean", message);
            }
            mean => mean.map(|mean| -outcome.to_cost(mean)),
        };
        let Some(spread) = self.outcome_spread else {
            return Ok(Spread { mean, variance: mean.map_or(1.0, |mean| mean * (1.0 - mean)) });
        };
        let Some(known) = mean else {
            return invalid("outcome_spread", "needs outcome_mean beside it");
        };
        let variance = (spread / (outcome.max - outcome.min)) * (spread / (outcome.max - outcome.min));
        // No outcome in [0, 1] with this mean varies more.
        if !(spread >= 0.0 && variance <= known * (1.0 - known) + 1e-12) {
            let most = (known * (1.0 - known)).sqrt() * (outcome.max - outcome.min);
            let message =
                format!("{spread} is not in [0, {most}], the spreads of outcomes with this mean and range");
            return invalid("outcome_spread", message);
        }
        Ok(Spread { mean, variance })
    }

    fn play(&self) -> Checked<Play> {
        let most = 1e6;
        match (&self.propensities, self.exploration) {
            (Some(_), Some(_)) => {
                invalid("exploration", "`exploration` and `propensities` are mutually exclusive")
            }
            (Some(all), None) => self.stated(all),
            (None, exploration) => {
                let Some(n_actions) = self.n_actions else {
                    return invalid("n_actions", "is required: the number of actions, or `propensities`");
                };
                let k = within("n_actions", Some(n_actions as f64), 2.0, (2.0, most))?;
                let share = within("exploration", exploration, 1.0, (1e-6, 1.0))?;
                Ok(Play { usual: 1.0 - share + share / k, others: k / share, n_actions: k })
            }
        }
    }

    fn stated(&self, all: &[f64]) -> Checked<Play> {
        if !(2..=MOST_PROPENSITIES).contains(&all.len()) {
            let message = format!("has {} entries; give 2 to {MOST_PROPENSITIES}", all.len());
            return invalid("propensities", message);
        }
        if self.n_actions.is_some_and(|k| k != all.len() as u64) {
            return invalid("n_actions", format!("differs from the {} propensities", all.len()));
        }
        if let Some(at) = all.iter().position(|p| !(1e-9..=1.0).contains(p)) {
            let message = format!(
                "{} is not in [1e-9, 1]; an action that is never logged cannot be planned for",
                all[at]
            );
            return invalid(&format!("propensities[{at}]"), message);
        }
        let total: f64 = all.iter().sum();
        if (total - 1.0).abs() > SUM_TOLERANCE {
            return invalid("propensities", format!("sum to {total}, not 1"));
        }
        let usual = all.iter().copied().fold(0.0, f64::max);
        let inverse: f64 = all.iter().map(|p| 1.0 / p).sum();
        let n_actions = all.len() as f64;
        Ok(Play { usual, others: (inverse - 1.0 / usual) / (n_actions - 1.0), n_actions })
    }

    /// δ of the improvement's claim, and the rows that must be logged for one certified context.
    fn shared(&self, kind: JobKind, improvement_share: f64) -> Checked<(f64, f64)> {
        let delta = within("delta", self.delta, 0.05, (1e-12, 0.999))?;
        let not_for = |field: &str, sent: bool, kind: &str| match sent {
            true => Err(SpecError::new(
                SpecCode::NotForThisKind,
                field,
                format!("is allowed for kind `{kind}` only"),
            )),
            false => Ok(()),
        };
        match kind {
            JobKind::Learn => {
                not_for("candidates", self.candidates.is_some(), "evaluate")?;
                let fraction = within("fraction", self.fraction, FRACTION, (0.01, 0.99))?;
                Ok((delta * improvement_share, 1.0 / (1.0 - fraction)))
            }
            JobKind::Evaluate => {
                not_for("fraction", self.fraction.is_some(), "learn")?;
                let candidates = self.candidates.map(|count| count as f64);
                let candidates = within("candidates", candidates, 1.0, (1.0, 1000.0))?;
                Ok((delta * improvement_share / candidates, 1.0))
            }
        }
    }

    /// Shares of exploration above the stated rate, each with the factor by which the variance of weights changes.
    fn explored(&self, play: &Play, changed: f64) -> Checked<Vec<(f64, f64)>> {
        let now = play.square(changed);
        let k = play.n_actions;
        let least = self.exploration.unwrap_or(match self.propensities {
            Some(_) => 0.0,
            None => 1.0,
        });
        let mixed = |share: f64| match &self.propensities {
            None => Play { usual: 1.0 - share + share / k, others: k / share, n_actions: k },
            Some(all) => {
                let mixed: Vec<f64> = all.iter().map(|p| (1.0 - share) * p + share / k).collect();
                let usual = mixed.iter().copied().fold(0.0, f64::max);
                let inverse: f64 = mixed.iter().map(|p| 1.0 / p).sum();
                Play { usual, others: (inverse - 1.0 / usual) / (k - 1.0), n_actions: k }
            }
        };
        let factor = |share: f64| (share, mixed(share).square(changed) / now);
        let more = SHARES.into_iter().filter(|share| *share > least).map(factor);
        Ok(more.filter(|(_, factor)| factor.is_finite() && *factor < 1.0).collect())
    }
}
