//! Mixed logit (London & Sandler; paper, "Why not Mixed Logit Policies?"): the mean of softmaxes,
//! π(a|x) = E_{θ~N(μ,σ²I)}[softmax(φ(x)ᵀθ)_a], kept for comparison. The K scores are independent
//! N(φ(x)ᵀμ_a, σ²‖φ(x)‖²); the expectation over them is quasi-Monte Carlo on a fixed additive
//! recurrence, so that it is smooth in the parameters and reproducible.

use super::softmax::normalise_exp;
use super::{Policy, Scratch};
use crate::engine::numerics::special::{cdf, density};

#[derive(Debug, Clone)]
pub struct MixedLogit {
    pub scale: f64,
    /// Draws × K standard normals.
    draws: Vec<f64>,
}

impl MixedLogit {
    pub fn new(scale: f64, n_actions: usize, draws: usize) -> Self {
        MixedLogit { scale, draws: normal_points(n_actions, draws.max(2)) }
    }
}

/// The additive recurrence of the generalised golden ratio (Roberts' R_d sequence) through Φ⁻¹.
fn normal_points(dim: usize, draws: usize) -> Vec<f64> {
    let mut ratio = 1.5f64;
    for _ in 0..64 {
        ratio = (1.0 + ratio).powf(1.0 / (dim as f64 + 1.0));
    }
    let mut points = Vec::with_capacity(draws * dim);
    for i in 0..draws {
        let mut step = 1.0;
        for _ in 0..dim {
            step /= ratio;
            let unit = (0.5 + step * (i as f64 + 1.0)).fract();
            points.push(inverse_cdf(unit.clamp(1e-12, 1.0 - 1e-12)));
        }
    }
    points
}

/// Φ⁻¹ by safeguarded Newton steps on our own Φ; only used to lay out the points.
fn inverse_cdf(p: f64) -> f64 {
    let (mut low, mut high, mut u) = (-8.0, 8.0, 0.0);
    for _ in 0..80 {
        let error = cdf(u) - p;
        if error > 0.0 {
            high = u;
        } else {
            low = u;
        }
        let newton = u - error / density(u);
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        if next == u {
            break;
        }
        u = next;
    }
    u
}

impl Policy for MixedLogit {
    fn propensities(&self, scores: &[f64], norm: f64, scratch: &mut Scratch, pi: &mut [f64]) {
        let (k, spread) = (scores.len(), self.scale * norm);
        let weight = k as f64 / self.draws.len() as f64;
        pi.fill(0.0);
        // Each draw's softmax is kept for the gradient.
        scratch.b.resize(self.draws.len(), 0.0);
        for (noise, soft) in self.draws.chunks_exact(k).zip(scratch.b.chunks_exact_mut(k)) {
            for a in 0..k {
                soft[a] = noise[a].mul_add(spread, scores[a]);
            }
            normalise_exp(soft);
            for a in 0..k {
                pi[a] += weight * soft[a];
            }
        }
    }

    /// The first quarter of the draws.
    fn coarse(&self, _: f64, scratch: &Scratch, pi: &[f64], out: &mut [f64]) {
        let (k, draws) = (pi.len(), scratch.b.len() / pi.len() / 4);
        out.fill(0.0);
        for soft in scratch.b.chunks_exact(k).take(draws) {
            out.iter_mut().zip(soft).for_each(|(out, q)| *out += q / draws as f64);
        }
    }

    fn gradient(
        &self,
        scores: &[f64],
        norm: f64,
        scratch: &mut Scratch,
        _: &[f64],
        h: &[f64],
        d_scores: &mut [f64],
    ) -> f64 {
        let (k, spread) = (scores.len(), self.scale * norm);
        let weight = k as f64 / self.draws.len() as f64;
        let mut d_log_scale = 0.0;
        d_scores.fill(0.0);
        for (noise, soft) in self.draws.chunks_exact(k).zip(scratch.b.chunks_exact(k)) {
            let mean: f64 = soft.iter().zip(h).map(|(q, h)| q * h).sum();
            for a in 0..k {
                let d = weight * soft[a] * (h[a] - mean);
                d_scores[a] += d;
                d_log_scale += d * noise[a] * spread;
            }
        }
        d_log_scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_cdf_inverts() {
        for p in [1e-10, 0.01, 0.3, 0.5, 0.9, 1.0 - 1e-9] {
            assert!((cdf(inverse_cdf(p)) - p).abs() < 1e-14);
        }
    }

    /// Against plain Monte Carlo with a million draws (error about 5e-4); 4096 points are good to 2e-3.
    #[test]
    fn agrees_with_monte_carlo() {
        use rand::SeedableRng;
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let scores = [0.4, -0.3, 1.1];
        let mut mean = [0.0; 3];
        for _ in 0..1_000_000 {
            let mut soft = scores.map(|s| s + 1.4 * crate::engine::policy::lig::standard_normal(&mut rng));
            normalise_exp(&mut soft);
            (0..3).for_each(|a| mean[a] += soft[a] / 1e6);
        }
        let (mut scratch, mut pi) = (Scratch::default(), [0.0; 3]);
        MixedLogit::new(0.7, 3, 4096).propensities(&scores, 2.0, &mut scratch, &mut pi);
        for a in 0..3 {
            assert!((pi[a] - mean[a]).abs() < 2e-3, "{pi:?} {mean:?}");
        }
    }
}
