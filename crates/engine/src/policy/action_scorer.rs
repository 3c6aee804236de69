//! A policy for logs whose rows have their own actions (docs/math.md#sets): it scores every available action from the
//! features of the request and of the action, and plays the softmax of the scores over the set that it is given.

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use crate::error::{EngineError, Result, SpecCode, SpecError};
use crate::log::{ActionSets, SetsView, SparseVector};

/// The parameters of a scorer of actions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ActionScorer {
    /// The features that the scores are computed from.
    pub features: ActionSets,
    /// α, the factor on the scores.
    pub inverse_temperature: f64,
    /// The weights of the actions' features, ascending by dimension.
    pub action_weights: Vec<FeatureWeight>,
}

/// The weight of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FeatureWeight {
    /// The dimension of the feature.
    pub index: u32,
    /// Its weight.
    pub weight: f64,
}

/// The scores of actions, and how far rounding can have moved them.
pub struct SetScores {
    /// Rows × K. Actions that are not available have −∞.
    pub scores: Array2<f64>,
    /// A bound on the relative change of each row's propensities by the rounding of its scores, ρ in
    /// docs/math.md#slack.
    pub rounding: Vec<f64>,
}

impl ActionScorer {
    /// # Errors
    /// `invalid_policy` with the field at fault.
    pub fn check(&self) -> Result<(), SpecError> {
        let fault = |field: &str, message: &str| Err(SpecError::new(SpecCode::InvalidPolicy, field, message));
        if !self.inverse_temperature.is_finite() {
            return fault("inverse_temperature", "must be a finite number");
        }
        if !self.action_weights.is_sorted_by(|a, b| a.index < b.index) {
            return fault("action_weights", "must be ascending by index");
        }
        if self.action_weights.iter().any(|w| !w.weight.is_finite() || w.weight.abs() > 1e30) {
            return fault("action_weights", "has a weight that is not a finite number below 1e30");
        }
        Ok(())
    }

    fn weight(&self, index: u32) -> f64 {
        let at = self.action_weights.binary_search_by_key(&index, |w| w.index);
        at.map_or(0.0, |at| self.action_weights[at].weight)
    }

    fn score(&self, _x: SparseVector, action: SparseVector) -> (f64, f64) {
        let terms = action.iter().map(|(index, value)| self.weight(index) * f64::from(value));
        terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
    }

    /// The scores of every action of every row.
    ///
    /// # Errors
    /// If a score is not finite.
    pub fn scores(&self, sets: SetsView) -> Result<SetScores> {
        let mut scores = Array2::from_elem((sets.rows(), sets.width()), f64::NEG_INFINITY);
        let mut rounding = vec![0.0f64; sets.rows()];
        for i in 0..sets.rows() {
            let x = sets.x(i);
            for a in 0..sets.size(i) {
                let action = sets.action(i, a);
                let (score, size) = self.score(x, action);
                if !score.is_finite() {
                    return Err(EngineError::Numerical("a score is not finite".into()));
                }
                scores[(i, a)] = score;
                let terms = (action.indices.len() + 2) as f64;
                let moved = terms * f64::EPSILON * size * self.inverse_temperature.abs();
                rounding[i] = rounding[i].max(2.0 * moved);
            }
        }
        Ok(SetScores { scores, rounding })
    }
}
