//! Softmax at an inverse temperature, π(a|x) ∝ exp(α φ(x)ᵀμ_a): the usual logging policy. At α = 0
//! it is the uniform policy.

use super::{Policy, Scratch};

#[derive(Debug, Clone, Copy)]
pub struct Softmax {
    pub inverse_temperature: f64,
}

/// exp(s − max s), normalised, in place.
pub(super) fn normalise_exp(pi: &mut [f64]) {
    let max = pi.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut total = 0.0;
    for v in pi.iter_mut() {
        *v = (*v - max).exp();
        total += *v;
    }
    pi.iter_mut().for_each(|v| *v /= total);
}

impl Policy for Softmax {
    fn propensities(&self, scores: &[f64], _: f64, _: &mut Scratch, pi: &mut [f64]) {
        for (out, s) in pi.iter_mut().zip(scores) {
            *out = self.inverse_temperature * s;
        }
        normalise_exp(pi);
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
