//! The affine map between the caller's outcomes and the paper's costs in [-1, 0] (docs/math.md#setting).
//!
//! A log has one outcome, or several with names. The first of these is the primary one.

use serde::{Deserialize, Serialize};

/// Whether less or more of an outcome is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// Less is better.
    Cost,
    /// More is better.
    Reward,
}

/// The kind of a log's outcomes, and the range in which each must lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Outcome {
    /// Whether the outcome is a cost or a reward.
    pub kind: OutcomeKind,
    /// The smallest possible outcome.
    pub min: f64,
    /// The largest possible outcome.
    pub max: f64,
    /// A value above this one counts as this one. It is then `max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<f64>,
    /// A value below this one counts as this one. It is then `min`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
}

/// One of several outcomes of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NamedOutcome {
    /// The name in the rows' `outcomes`.
    pub name: String,
    /// The kind and range.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Default for Outcome {
    fn default() -> Self {
        Outcome { kind: OutcomeKind::Cost, min: -1.0, max: 0.0, cap: None, floor: None }
    }
}

impl Outcome {
    /// A reward in [0, 1].
    pub fn reward() -> Self {
        Outcome { kind: OutcomeKind::Reward, min: 0.0, max: 1.0, cap: None, floor: None }
    }

    /// An outcome in a range; None if the range is empty or not finite.
    pub fn new(kind: OutcomeKind, min: f64, max: f64) -> Option<Self> {
        let valid = min.is_finite() && max.is_finite() && min < max && (max - min).is_finite();
        valid.then_some(Outcome { kind, min, max, cap: None, floor: None })
    }

    /// The value that counts: `value`, cut at the cap and the floor. NaN stays NaN.
    #[inline]
    pub fn cut(&self, value: f64) -> f64 {
        match (self.cap, self.floor) {
            (Some(cap), _) if value > cap => cap,
            (_, Some(floor)) if value < floor => floor,
            _ => value,
        }
    }

    /// What a reader must know about where values are cut, as the end of a sentence about the outcome; `None` if they
    /// are not.
    pub fn cuts(&self) -> Option<String> {
        match (self.floor, self.cap) {
            (None, None) => None,
            (None, Some(cap)) => Some(format!("a value above {cap} counts as {cap}")),
            (Some(floor), None) => Some(format!("a value below {floor} counts as {floor}")),
            (Some(floor), Some(cap)) => {
                Some(format!("a value below {floor} counts as {floor}, and one above {cap} as {cap}"))
            }
        }
    }

    /// Whether a value lies in the range.
    #[inline]
    pub fn contains(&self, value: f64) -> bool {
        value >= self.min && value <= self.max
    }

    /// Maps a value in the caller's units to a cost. A value in the range gives a cost in [-1, 0], whatever
    /// the rounding.
    #[inline]
    pub fn to_cost(&self, value: f64) -> f64 {
        let width = self.max - self.min;
        let cost = match self.kind {
            OutcomeKind::Cost => (value - self.max) / width,
            OutcomeKind::Reward => -(value - self.min) / width,
        };
        // `+ 0.0` turns −0 into 0, so that equal logs have equal bytes.
        cost.clamp(-1.0, 0.0) + 0.0
    }

    /// Maps a risk in the paper's units to the expected outcome in the caller's.
    pub fn risk_to_user(&self, risk: f64) -> f64 {
        let width = self.max - self.min;
        match self.kind {
            OutcomeKind::Cost => self.max + risk * width,
            OutcomeKind::Reward => self.min - risk * width,
        }
    }

    /// Maps an improvement in the paper's units to the caller's. A positive number is better in both: a lower
    /// cost or a higher reward.
    pub fn improvement_to_user(&self, improvement: f64) -> f64 {
        improvement * (self.max - self.min)
    }

    /// Maps an improvement in the caller's units to the paper's, the inverse of [`Self::improvement_to_user`].
    pub fn improvement_from_user(&self, improvement: f64) -> f64 {
        improvement / (self.max - self.min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_both_ways() {
        let cost = Outcome::new(OutcomeKind::Cost, 2.0, 6.0).unwrap();
        assert_eq!(cost.to_cost(2.0), -1.0);
        assert_eq!(cost.to_cost(6.0), 0.0);
        assert_eq!(cost.risk_to_user(cost.to_cost(3.0)), 3.0);
        let reward = Outcome::new(OutcomeKind::Reward, -1.0, 3.0).unwrap();
        assert_eq!(reward.to_cost(3.0), -1.0);
        assert_eq!(reward.risk_to_user(reward.to_cost(0.0)), 0.0);
        assert_eq!(reward.improvement_to_user(0.25), 1.0);
        assert!(Outcome::reward().to_cost(0.0).is_sign_positive());
        assert!(Outcome::new(OutcomeKind::Cost, 1.0, 1.0).is_none());
        assert!(Outcome::new(OutcomeKind::Cost, f64::NAN, 1.0).is_none());
    }

    #[test]
    fn values_are_cut_and_nothing_else_is() {
        let plain = Outcome::reward();
        assert_eq!((plain.cut(7.0), plain.cuts()), (7.0, None));
        let capped = Outcome { cap: Some(1.0), ..plain };
        assert_eq!([7.0, 1.0, 0.5, -7.0].map(|value| capped.cut(value)), [1.0, 1.0, 0.5, -7.0]);
        let both = Outcome { floor: Some(0.0), ..capped };
        assert_eq!([7.0, 0.5, -7.0].map(|value| both.cut(value)), [1.0, 0.5, 0.0]);
        assert_eq!(both.cuts().unwrap(), "a value below 0 counts as 0, and one above 1 as 1");
        // A missing number must not become a large one.
        assert!(both.cut(f64::NAN).is_nan() && !both.contains(both.cut(f64::NAN)));
    }
}
