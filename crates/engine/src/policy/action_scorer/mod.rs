//! A policy for logs whose rows have their own actions (docs/math.md#sets): it scores every available action from the
//! features of the request and of the action, and plays the softmax of the scores over the set that it is given.
//!
//!   s(x, a) = constant + Σ_i u_i x_i + Σ_j v_j a_j + Σ_ij W_ij x_i a_j + Σ_h o_h max(b_h + Σ_i F_hi x_i + Σ_j G_hj a_j, 0)
//!
//! x_i and a_j are scaled and clipped. Features that the policy does not know count as absent. The sum over pairs is left
//! out if there are more than `MAX_ROW_PAIRS`.

mod check;
mod prepared;

#[cfg(test)]
mod tests;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use self::prepared::Prepared;
use super::features::CLIP;
use crate::error::{EngineError, Result};
use crate::log::{ActionSets, SetsView, SparseVector};

/// The most features of requests or of actions that a scorer knows.
pub const MAX_KNOWN: usize = 1 << 17;
/// The most weights of pairs, and the most pairs that have a weight each.
pub const MAX_PAIRS: usize = 1 << 20;
/// An action with more pairs of known features than this is scored without pairs, so that no request takes long.
pub const MAX_ROW_PAIRS: usize = 1 << 16;
/// The most hidden units.
pub const MAX_UNITS: usize = 256;
/// The most numbers of a hidden layer.
pub const MAX_HIDDEN: usize = 1 << 22;

/// The parameters of a scorer of actions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ActionScorer {
    /// The features that the scores are computed from.
    pub features: ActionSets,
    /// α, the factor on the scores.
    pub inverse_temperature: f64,
    /// What every score contains. It changes no ranking, but the cost model reads the same scores.
    #[serde(default)]
    pub constant: f64,
    /// The known features of requests, ascending by index.
    #[serde(default)]
    pub x: Vec<KnownFeature>,
    /// The known features of actions, ascending by index.
    #[serde(default)]
    pub actions: Vec<KnownFeature>,
    /// The weights of pairs of a request's feature and an action's feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<PairWeights>,
    /// A hidden layer over the features of the request and of the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<HiddenUnits>,
}

/// A feature that a scorer knows. A value v counts as (v − center)·scale, clipped at ±5.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct KnownFeature {
    /// The dimension of the feature.
    pub index: u32,
    /// The number that is subtracted from its values. If it is not 0, an absent feature has the value 0 and counts as
    /// −center·scale; otherwise an absent feature does not count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub center: f32,
    /// The number that centered values are multiplied by.
    pub scale: f32,
    /// The weight of the feature by itself.
    #[serde(default)]
    pub weight: f64,
}

/// The weights of pairs. Cells without a weight have 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PairWeights {
    /// Absent: the pair of the i-th known request feature and the j-th known action feature has the cell
    /// i·(number of known action features) + j. Otherwise pairs share 2^bits cells by a hash of their two dimensions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<u8>,
    /// The cells with a weight, ascending.
    pub cells: Vec<u32>,
    /// Their weights.
    pub weights: Vec<f32>,
}

/// Hidden units max(bias + Σ_i x_i·x[i] + Σ_j a_j·actions[j], 0).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HiddenUnits {
    /// The bias of each unit.
    pub bias: Vec<f32>,
    /// For each known request feature, its weight in each unit.
    pub x: Vec<Vec<f32>>,
    /// For each known action feature, its weight in each unit.
    pub actions: Vec<Vec<f32>>,
    /// The weight of each unit in the score.
    pub output: Vec<f32>,
}

fn is_zero(value: &f32) -> bool {
    *value == 0.0
}

/// The cell among 2^bits that the pair of a request's and an action's dimension shares with others: the upper bits of
/// a product that mixes both.
#[inline]
pub fn pair_bucket(x: u32, action: u32, bits: u8) -> u32 {
    let mut h = (u64::from(x) << 32 | u64::from(action)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((h ^ (h >> 31)) >> (64 - u32::from(bits))) as u32
}

/// The known features of requests or of actions, and which of them count even where they are absent.
pub struct Scaling<'a> {
    known: &'a [KnownFeature],
    always: Vec<u32>,
}

impl<'a> Scaling<'a> {
    /// For these features, ascending by index.
    pub fn new(known: &'a [KnownFeature]) -> Self {
        let always = (0..known.len() as u32).filter(|&i| known[i as usize].center != 0.0).collect();
        Scaling { known, always }
    }

    /// Writes the position and the scaled value of each known feature that counts, ascending by position.
    pub fn apply(&self, vector: SparseVector, out: &mut Vec<(u32, f32)>) {
        out.clear();
        let mut always = self.always.iter().copied().peekable();
        for (index, value) in vector.iter() {
            let Ok(at) = self.known.binary_search_by_key(&index, |feature| feature.index) else { continue };
            while let Some(absent) = always.next_if(|&other| (other as usize) < at) {
                out.push((absent, self.known[absent as usize].scaled(0.0)));
            }
            always.next_if_eq(&(at as u32));
            out.push((at as u32, self.known[at].scaled(value)));
        }
        out.extend(always.map(|absent| (absent, self.known[absent as usize].scaled(0.0))));
    }
}

impl KnownFeature {
    fn scaled(&self, value: f32) -> f32 {
        ((value - self.center) * self.scale).clamp(-CLIP, CLIP)
    }
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
    /// The number of parameters.
    pub fn numbers(&self) -> usize {
        let pairs = self.pairs.as_ref().map_or(0, |pairs| 2 * pairs.cells.len());
        let known = self.x.len() + self.actions.len();
        let units = self.hidden.as_ref().map_or(0, |hidden| hidden.bias.len());
        2 + 4 * known + pairs + units * (known + 2)
    }

    /// The scores of every action of every row.
    ///
    /// # Errors
    /// If a score is not finite.
    pub fn scores(&self, sets: SetsView) -> Result<SetScores> {
        let mut prepared = Prepared::new(self, sets.rows());
        let mut scores = Array2::from_elem((sets.rows(), sets.width()), f64::NEG_INFINITY);
        let mut rounding = vec![0.0f64; sets.rows()];
        for i in 0..sets.rows() {
            prepared.request(sets.x(i));
            for a in 0..sets.size(i) {
                let term = prepared.action(sets.action(i, a));
                if !term.sum.is_finite() {
                    return Err(EngineError::Numerical("a score is not finite".into()));
                }
                scores[(i, a)] = term.sum;
                let moved = term.count * f64::EPSILON * term.size * self.inverse_temperature.abs();
                rounding[i] = rounding[i].max(2.0 * moved);
            }
        }
        Ok(SetScores { scores, rounding })
    }
}
