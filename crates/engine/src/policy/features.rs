//! φ, the fixed transform of contexts, docs/math.md#lig. Scores are linear in φ(x). It does not depend on the
//! rows of the bound: it is the identity or was learned on the learn side of a split.

use ndarray::{Array2, ArrayView2, CowArray, Ix2};
use serde::{Deserialize, Serialize};

use crate::error::{SpecCode, SpecError};
use crate::numerics::matrix::add_product;

/// Standardized features are clipped at ±5, so that outliers do not dominate the scores.
pub const CLIP: f32 = 5.0;

/// A transform φ of contexts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FeatureMap {
    /// φ(x) = x.
    #[default]
    Identity,
    /// φ(x) = (s, 1) with s = clip((x − center)·inverse_scale, ±5).
    Standardized {
        /// The number that is subtracted from each feature.
        center: Vec<f32>,
        /// The number that each centered feature is multiplied by.
        inverse_scale: Vec<f32>,
    },
    /// φ(x) = (max(s·weights + bias, 0), 1) with s as in `standardized`; `weights` has p rows of h numbers.
    Hidden {
        /// The number that is subtracted from each feature.
        center: Vec<f32>,
        /// The number that each centered feature is multiplied by.
        inverse_scale: Vec<f32>,
        /// The weights of the hidden layer: one row per feature, one number per hidden unit.
        weights: Vec<Vec<f32>>,
        /// The bias of each hidden unit.
        bias: Vec<f32>,
    },
}

/// Writes clip((x − center)·inverse_scale, ±5) of one context into the first numbers of `out`.
pub fn standardize(x: &[f32], center: &[f32], inverse_scale: &[f32], out: &mut [f32]) {
    for j in 0..center.len() {
        out[j] = ((x[j] - center[j]) * inverse_scale[j]).clamp(-CLIP, CLIP);
    }
}

/// (max(s·weights + bias, 0), 1) of each row of `s`.
pub fn rectified(s: ArrayView2<f32>, weights: ArrayView2<f32>, bias: &[f32]) -> Array2<f32> {
    let width = bias.len() + 1;
    let mut out = Vec::with_capacity(s.nrows() * width);
    for _ in 0..s.nrows() {
        out.extend_from_slice(bias);
        out.push(1.0);
    }
    add_product(s, weights, &mut out, width);
    // A comparison, because the sign of `max` of two zeros depends on the CPU.
    out.iter_mut().for_each(|v| *v = if *v > 0.0 { *v } else { 0.0 });
    Array2::from_shape_vec((s.nrows(), width), out).expect("rows of h + 1")
}

impl FeatureMap {
    /// Whether φ(x) = x.
    pub fn is_identity(&self) -> bool {
        matches!(self, FeatureMap::Identity)
    }

    /// The dimension of contexts if φ has `output` dimensions.
    pub fn input_dim(&self, output: usize) -> usize {
        match self {
            FeatureMap::Identity => output,
            FeatureMap::Standardized { center, .. } | FeatureMap::Hidden { center, .. } => center.len(),
        }
    }

    /// Checks that shapes fit one another and a mean of `output` rows, and that numbers are finite.
    ///
    /// # Errors
    /// `invalid_policy` with the field at fault.
    pub fn check(&self, output: usize) -> Result<(), SpecError> {
        let fault = |field: &str, message: &str| {
            Err(SpecError::new(SpecCode::InvalidPolicy, format!("features.{field}"), message))
        };
        let (center, inverse_scale) = match self {
            FeatureMap::Identity => return Ok(()),
            FeatureMap::Standardized { center, inverse_scale } => (center, inverse_scale),
            FeatureMap::Hidden { center, inverse_scale, weights, bias } => {
                let finite = weights.iter().flatten().chain(bias).all(|v| v.is_finite() && v.abs() < 1e15);
                if !finite {
                    return fault("weights", "weights and bias must be finite numbers below 1e15");
                }
                if weights.len() != center.len() || weights.iter().any(|r| r.len() != bias.len()) {
                    return fault("weights", "must have p rows, each with as many numbers as `bias`");
                }
                (center, inverse_scale)
            }
        };
        if center.len() != inverse_scale.len() {
            return fault("inverse_scale", "must have as many numbers as `center`");
        }
        if !center.iter().chain(inverse_scale).all(|v| v.is_finite() && v.abs() < 1e15) {
            return fault("center", "center and inverse_scale must be finite numbers below 1e15");
        }
        if self.output_dim(0) != output {
            return Err(SpecError::new(
                SpecCode::InvalidPolicy,
                "mean",
                format!("has {output} rows, but φ has {} dimensions", self.output_dim(0)),
            ));
        }
        Ok(())
    }

    /// The dimension of φ for contexts of dimension `input`.
    pub fn output_dim(&self, input: usize) -> usize {
        match self {
            FeatureMap::Identity => input,
            FeatureMap::Standardized { center, .. } => center.len() + 1,
            FeatureMap::Hidden { bias, .. } => bias.len() + 1,
        }
    }

    /// φ of each context.
    pub fn apply<'a>(&self, x: ArrayView2<'a, f32>) -> CowArray<'a, f32, Ix2> {
        let standard = |center: &[f32], inverse_scale: &[f32], width: usize| {
            let mut out = Array2::<f32>::ones((x.nrows(), width));
            for (row, mut out) in x.rows().into_iter().zip(out.rows_mut()) {
                let row = row.as_standard_layout();
                let (row, out) = (row.as_slice().expect("standard"), out.as_slice_mut().expect("standard"));
                standardize(row, center, inverse_scale, out);
            }
            out
        };
        match self {
            FeatureMap::Identity => CowArray::from(x),
            FeatureMap::Standardized { center, inverse_scale } => {
                CowArray::from(standard(center, inverse_scale, center.len() + 1))
            }
            FeatureMap::Hidden { center, inverse_scale, weights, bias } => {
                let s = standard(center, inverse_scale, center.len());
                let flat: Vec<f32> = weights.iter().flatten().copied().collect();
                let weights = ArrayView2::from_shape((center.len(), bias.len()), &flat).expect("checked");
                CowArray::from(rectified(s.view(), weights, bias))
            }
        }
    }
}
