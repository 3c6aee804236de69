//! φ, the fixed transform of contexts that scores are linear in (paper, eq. scr_func).

use ndarray::{ArrayView2, CowArray, Ix2};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FeatureMap {
    /// φ(x) = x.
    #[default]
    Identity,
}

impl FeatureMap {
    pub fn is_identity(&self) -> bool {
        matches!(self, FeatureMap::Identity)
    }

    /// p, where φ has `output` dimensions.
    pub fn input_dim(&self, output: usize) -> usize {
        output
    }

    pub fn apply<'a>(&self, x: ArrayView2<'a, f32>) -> CowArray<'a, f32, Ix2> {
        CowArray::from(x)
    }
}
