//! ĉ(x, a): a fixed model of the cost, learned on rows that the bound does not see, that may stand
//! in the place of ξ (MATH.md 5, doubly robust). ĉ(x, a) = −sigmoid(φ(x)ᵀw_a) or −softmax(φ(x)ᵀw)_a.

use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};

use super::certificate::digest_of;
use super::error::Result;
use super::policy::{PolicyParams, Resolution, Scratch};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "link", content = "model", rename_all = "snake_case")]
pub enum CostModel {
    /// Each action's reward on its own: −ĉ = sigmoid of the score.
    Sigmoid(PolicyParams),
    /// Actions compete for one reward: −ĉ is the softmax of the scores.
    Softmax(PolicyParams),
}

impl CostModel {
    pub fn digest(&self) -> String {
        digest_of(self)
    }

    /// ĉ(x, ·) of each context, in [−1, 0].
    pub fn costs(&self, x: ArrayView2<f32>) -> Result<Array2<f64>> {
        match self {
            CostModel::Sigmoid(params) => {
                let (mut scores, _) = params.scores(x)?;
                scores.mapv_inplace(|s| -1.0 / (1.0 + (-s).exp()));
                Ok(scores)
            }
            CostModel::Softmax(params) => {
                let (mut scores, norms) = params.scores(x)?;
                let (link, mut scratch) = (params.link(Resolution::Fine), Scratch::default());
                let mut pi = vec![0.0; params.n_actions()];
                for (mut row, norm) in scores.rows_mut().into_iter().zip(norms) {
                    let row = row.as_slice_mut().expect("row-major");
                    link.propensities(row, norm, &mut scratch, &mut pi);
                    row.iter_mut().zip(&pi).for_each(|(out, pi)| *out = -pi);
                }
                Ok(scores)
            }
        }
    }
}
