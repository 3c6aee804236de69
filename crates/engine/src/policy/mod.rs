//! Policies. A policy is a map from scores φ(x)ᵀμ to propensities and back to gradients: the trait
//! `Policy`, one file each. `PolicyParams` is what is stored and exchanged: parameters, with the
//! fixed transform φ that they apply to.

mod features;
mod lig;
mod lig_fast;
mod mixed_logit;
mod params;
mod softmax;

pub use features::{FeatureMap, standardize};
pub use lig::Lig;
pub use lig_fast::LigFast;
pub use mixed_logit::MixedLogit;
pub use params::{PolicyKind, PolicyParams, pick};
pub use softmax::{Softmax, exponentials, softmax};

/// Working memory of one thread, kept between contexts.
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

pub trait Policy: Sync {
    /// π(·|x) from the scores φ(x)ᵀμ_a and ‖φ(x)‖.
    fn propensities(&self, scores: &[f64], norm: f64, scratch: &mut Scratch, pi: &mut [f64]);

    /// The same propensities from a part of the nodes that `propensities` left in `scratch`: their
    /// difference shows the error of the integration. A policy in closed form has none.
    fn coarse(&self, norm: f64, scratch: &Scratch, pi: &[f64], out: &mut [f64]) {
        let _ = (norm, scratch);
        out.copy_from_slice(pi);
    }

    /// The gradient of Σ_a h_a π(a|x) with respect to the scores, into `d_scores`; returns the
    /// derivative with respect to ln σ (0 for a policy without a scale). `pi` and `scratch` are as
    /// `propensities` left them for the same context.
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
