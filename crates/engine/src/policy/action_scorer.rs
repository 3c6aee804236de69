//! A policy for logs whose rows have their own actions (docs/math.md#sets): it scores every available action from the
//! features of the request and of the action, and plays the softmax of the scores over the set that it is given.
//!
//!   s(x, a) = constant + Σ_i u_i x_i + Σ_j v_j a_j + Σ_ij W_ij x_i a_j + Σ_h o_h max(b_h + Σ_i F_hi x_i + Σ_j G_hj a_j, 0)
//!
//! x_i and a_j are scaled and clipped. Features that the policy does not know count as absent.

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::features::CLIP;
use crate::error::{EngineError, Result, SpecCode, SpecError};
use crate::log::{ActionSets, FeatureSpace, SetsView, SparseVector};

/// The most features of requests or of actions that a scorer knows.
pub const MAX_KNOWN: usize = 1 << 17;
/// The most weights of pairs, and the most pairs that have a weight each.
pub const MAX_PAIRS: usize = 1 << 20;
/// The most hidden units.
pub const MAX_UNITS: usize = 256;
/// The most numbers of a hidden layer.
pub const MAX_HIDDEN: usize = 1 << 22;
/// Weights are smaller than this, so that no score overflows.
const MAX_WEIGHT: f64 = 1e30;

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
    /// # Errors
    /// `invalid_policy` with the field at fault.
    pub fn check(&self) -> Result<(), SpecError> {
        if !self.inverse_temperature.is_finite() {
            return fault("inverse_temperature", "must be a finite number");
        }
        if !is_weight(self.constant) {
            return fault("constant", NOT_A_WEIGHT);
        }
        check_known("x", &self.x, self.features.x)?;
        check_known("actions", &self.actions, self.features.actions)?;
        if let Some(pairs) = &self.pairs {
            pairs.check(self.x.len(), self.actions.len())?;
        }
        self.hidden.as_ref().map_or(Ok(()), |hidden| hidden.check(self.x.len(), self.actions.len()))
    }

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

const NOT_A_WEIGHT: &str = "is not a finite number below 1e30";

fn fault<T>(field: &str, message: impl Into<String>) -> Result<T, SpecError> {
    Err(SpecError::new(SpecCode::InvalidPolicy, field, message))
}

fn is_weight(value: f64) -> bool {
    value.is_finite() && value.abs() < MAX_WEIGHT
}

fn check_known(field: &str, known: &[KnownFeature], space: FeatureSpace) -> Result<(), SpecError> {
    if known.len() > MAX_KNOWN {
        return fault(field, format!("has {} features; at most {MAX_KNOWN} are possible", known.len()));
    }
    if !known.is_sorted_by(|a, b| a.index < b.index) {
        return fault(field, "must be ascending by index, each index once");
    }
    for (i, feature) in known.iter().enumerate() {
        let fault = |name: &str, message: &str| fault(&format!("{field}[{i}].{name}"), message);
        if feature.index as usize >= space.dim() {
            return fault("index", "is not a dimension of the features");
        }
        if !feature.center.is_finite() {
            return fault("center", "must be a finite number");
        }
        if !(feature.scale.is_finite() && feature.scale > 0.0) {
            return fault("scale", "must be a positive number");
        }
        if !is_weight(feature.weight) {
            return fault("weight", NOT_A_WEIGHT);
        }
    }
    Ok(())
}

impl PairWeights {
    fn check(&self, x: usize, actions: usize) -> Result<(), SpecError> {
        let cells = match self.bits {
            Some(bits) if !(1..=20).contains(&bits) => return fault("pairs.bits", "must be from 1 to 20"),
            Some(bits) => 1 << bits,
            None => x.saturating_mul(actions),
        };
        if cells > MAX_PAIRS {
            let message =
                format!("{cells} pairs are too many; more than {MAX_PAIRS} must share cells by `bits`");
            return fault("pairs.bits", message);
        }
        if self.cells.len() != self.weights.len() {
            return fault("pairs.weights", "must have one weight per cell");
        }
        if !self.cells.is_sorted_by(|a, b| a < b) {
            return fault("pairs.cells", "must be ascending, each cell once");
        }
        if self.cells.last().is_some_and(|&last| last as usize >= cells) {
            return fault("pairs.cells", format!("has a cell that is not below {cells}"));
        }
        match self.weights.iter().position(|&weight| !is_weight(f64::from(weight))) {
            Some(at) => fault(&format!("pairs.weights[{at}]"), NOT_A_WEIGHT),
            None => Ok(()),
        }
    }
}

impl HiddenUnits {
    fn check(&self, x: usize, actions: usize) -> Result<(), SpecError> {
        let units = self.bias.len();
        if !(1..=MAX_UNITS).contains(&units) || units * (x + actions) > MAX_HIDDEN {
            return fault("hidden.bias", format!("{units} units are not possible with so many features"));
        }
        if self.output.len() != units {
            return fault("hidden.output", "must have one weight per unit");
        }
        for (field, rows, known) in [("hidden.x", &self.x, x), ("hidden.actions", &self.actions, actions)] {
            if rows.len() != known || rows.iter().any(|row| row.len() != units) {
                return fault(field, "must have one row per known feature, with one weight per unit");
            }
        }
        let rows = self.x.iter().chain(&self.actions).flatten();
        match rows.chain(&self.bias).chain(&self.output).all(|v| v.is_finite() && v.abs() < 1e9) {
            true => Ok(()),
            false => fault("hidden", "has a number that is not finite and below 1e9"),
        }
    }
}

/// A sum with what bounds its rounding error.
#[derive(Clone, Copy, Default)]
struct Term {
    sum: f64,
    /// Σ|term|.
    size: f64,
    /// The number of terms.
    count: f64,
}

impl Term {
    #[inline]
    fn add(&mut self, term: f64) {
        self.sum += term;
        self.size += term.abs();
        self.count += 1.0;
    }
}

/// A table of all cells is made if it has at most this many cells per row that is scored. Otherwise each weight is
/// searched for, so that one request does not wait for a large table.
const CELLS_PER_ROW: usize = 256;

/// A scorer with lookup tables, at one request.
struct Prepared<'a> {
    scorer: &'a ActionScorer,
    x: Scaling<'a>,
    actions: Scaling<'a>,
    table: Option<Vec<f32>>,
    /// The features of the current request, and what they add to every score.
    request: Vec<(u32, f32)>,
    common: Term,
    /// What the request adds to each hidden unit, and the sizes of these sums.
    units: Vec<(f64, f64)>,
    action: Vec<(u32, f32)>,
}

impl<'a> Prepared<'a> {
    fn new(scorer: &'a ActionScorer, rows: usize) -> Self {
        let table = scorer.pairs.as_ref().and_then(|pairs| {
            let cells = match pairs.bits {
                Some(bits) => 1usize << bits,
                None => scorer.x.len() * scorer.actions.len(),
            };
            (cells <= CELLS_PER_ROW.saturating_mul(rows)).then(|| {
                let mut table = vec![0.0f32; cells];
                pairs.cells.iter().zip(&pairs.weights).for_each(|(&cell, &w)| table[cell as usize] = w);
                table
            })
        });
        let (x, actions) = (Scaling::new(&scorer.x), Scaling::new(&scorer.actions));
        let common = Term::default();
        let (request, action, units) = (Vec::new(), Vec::new(), Vec::new());
        Prepared { scorer, x, actions, table, request, common, units, action }
    }

    fn request(&mut self, x: SparseVector) {
        self.x.apply(x, &mut self.request);
        self.common = Term::default();
        self.common.add(self.scorer.constant);
        for &(i, value) in &self.request {
            self.common.add(self.scorer.x[i as usize].weight * f64::from(value));
        }
        let Some(hidden) = &self.scorer.hidden else { return };
        self.units.clear();
        self.units.extend(hidden.bias.iter().map(|&bias| (f64::from(bias), f64::from(bias).abs())));
        for &(i, value) in &self.request {
            add_row(&mut self.units, &hidden.x[i as usize], value);
        }
    }

    fn weight(&self, pairs: &PairWeights, cell: u32) -> f64 {
        f64::from(match &self.table {
            Some(table) => table[cell as usize],
            None => pairs.cells.binary_search(&cell).map_or(0.0, |at| pairs.weights[at]),
        })
    }

    fn action(&mut self, action: SparseVector) -> Term {
        let mut features = std::mem::take(&mut self.action);
        self.actions.apply(action, &mut features);
        let (mut total, scorer) = (self.common, self.scorer);
        for &(j, value) in &features {
            total.add(scorer.actions[j as usize].weight * f64::from(value));
        }
        if let Some(pairs) = &scorer.pairs {
            let width = scorer.actions.len() as u32;
            for &(i, x) in &self.request {
                for &(j, a) in &features {
                    let cell = match pairs.bits {
                        Some(bits) => {
                            pair_bucket(scorer.x[i as usize].index, scorer.actions[j as usize].index, bits)
                        }
                        None => i * width + j,
                    };
                    total.add(self.weight(pairs, cell) * (f64::from(x) * f64::from(a)));
                }
            }
        }
        if let Some(hidden) = &scorer.hidden {
            let mut units = self.units.clone();
            features.iter().for_each(|&(j, value)| add_row(&mut units, &hidden.actions[j as usize], value));
            for ((sum, size), &output) in units.into_iter().zip(&hidden.output) {
                let output = f64::from(output);
                total.sum += output * if sum > 0.0 { sum } else { 0.0 };
                total.size += output.abs() * size;
            }
            total.count += (hidden.bias.len() + self.request.len() + features.len()) as f64;
        }
        self.action = features;
        // Products and scaled values are rounded too.
        total.count += 2.0;
        total
    }
}

fn add_row(units: &mut [(f64, f64)], weights: &[f32], value: f32) {
    for ((sum, size), &weight) in units.iter_mut().zip(weights) {
        let term = f64::from(weight) * f64::from(value);
        *sum += term;
        *size += term.abs();
    }
}
