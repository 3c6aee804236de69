//! Softmax policies, docs/math.md#softmax: the usual logging policies.
//!
//!   π(a|x) ∝ exp(α φ(x)ᵀμ_a),  α the inverse temperature; α = 0 is the uniform policy

use super::{Policy, Scratch};
use crate::numerics::elementary::Real;

/// The map from scores to propensities of a softmax policy.
#[derive(Debug, Clone, Copy)]
pub struct Softmax {
    /// α, the inverse temperature.
    pub inverse_temperature: f64,
}

/// Replaces scores by exp(s − max s) and returns their sum. The softmax is each of them divided by it.
pub fn exponentials<F: Real>(scores: &mut [F]) -> F {
    let max = scores.iter().copied().fold(F::neg_infinity(), F::max);
    let mut total = F::zero();
    for score in scores.iter_mut() {
        *score = (*score - max).exponential();
        total += *score;
    }
    total
}

/// Replaces scores by their softmax.
pub fn softmax<F: Real>(scores: &mut [F]) {
    let total = exponentials(scores);
    scores.iter_mut().for_each(|score| *score /= total);
}

impl Policy for Softmax {
    fn propensities(&self, scores: &[f64], _: f64, _: &mut Scratch, pi: &mut [f64]) {
        for (out, s) in pi.iter_mut().zip(scores) {
            // An action that is not available stays so at every temperature.
            *out = if *s == f64::NEG_INFINITY { *s } else { self.inverse_temperature * s };
        }
        softmax(pi);
    }

    fn gradient(
        &self,
        _: &[f64],
        _: f64,
        _: &mut Scratch,
        pi: &[f64],
        h: &[f64],
        d_scores: &mut [f64],
    ) -> f64 {
        let mean: f64 = pi.iter().zip(h).map(|(p, h)| p * h).sum();
        for a in 0..pi.len() {
            d_scores[a] = self.inverse_temperature * pi[a] * (h[a] - mean);
        }
        0.0
    }
}
