//! Policies. [`PolicyParams`] are what is stored and exchanged: parameters with the fixed transform φ of
//! contexts. The trait [`Policy`] is the map from scores φ(x)ᵀμ to propensities and from there to gradients,
//! with one file per form.

mod action_scorer;
mod features;
mod lig;
mod lig_fast;
mod mixed_logit;
mod params;
mod play;
mod softmax;

pub use action_scorer::{
    ActionScorer, HiddenUnits, KnownFeature, MAX_KNOWN, MAX_PAIRS, MAX_ROW_PAIRS, PairWeights, Scaling,
    SetScores, pair_bucket,
};
pub use features::{CLIP, FeatureMap, rectified, standardize};
pub use lig::Lig;
pub use lig_fast::LigFast;
pub use mixed_logit::MixedLogit;
pub use params::{PolicyKind, PolicyParams};
pub use play::{DRAWS, Scored, mixed, pick};
pub use softmax::{Softmax, exponentials, softmax};

/// Working memory of one thread, reused between contexts.
#[derive(Default)]
pub struct Scratch {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    z: Vec<f32>,
    hazards: Vec<[f32; 32]>,
    product: [f32; 32],
    lanes: Vec<mixed_logit::Lane>,
}

/// The map from scores to propensities.
pub trait Policy: Sync {
    /// Writes π(·|x) from the scores φ(x)ᵀμ_a and ‖φ(x)‖.
    fn propensities(&self, scores: &[f64], norm: f64, scratch: &mut Scratch, pi: &mut [f64]);

    /// Writes the same propensities from a part of the nodes that `propensities` left in `scratch`. The
    /// difference estimates the integration error. It is 0 for a policy in closed form.
    fn coarse(&self, norm: f64, scratch: &Scratch, pi: &[f64], out: &mut [f64]) {
        let _ = (norm, scratch);
        out.copy_from_slice(pi);
    }

    /// Writes the gradient of Σ_a h_a π(a|x) with respect to the scores into `d_scores`. Returns the
    /// derivative with respect to ln σ, which is 0 for a policy without a scale. `pi` and `scratch` must be
    /// as `propensities` left them for the same context.
    fn gradient(
        &self,
        scores: &[f64],
        norm: f64,
        scratch: &mut Scratch,
        pi: &[f64],
        h: &[f64],
        d_scores: &mut [f64],
    ) -> f64;
}
