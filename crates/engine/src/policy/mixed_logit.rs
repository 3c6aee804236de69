//! Mixed-logit policies (London and Sandler; paper, "Why not Mixed Logit Policies?"),
//! docs/math.md#mixed-logit, kept for comparison.
//!
//!   π(a|x) = E_{θ~N(μ,σ²I)}[softmax(φ(x)ᵀθ)_a]
//!
//! The K scores are independent N(φ(x)ᵀμ_a, σ²‖φ(x)‖²). The expectation is a quasi-Monte Carlo mean over a
//! fixed sequence, so it is reproducible and smooth in the parameters.

use super::{Policy, Scratch};
use crate::numerics::dispatch;
use crate::numerics::elementary::powf;
use crate::numerics::special::{cdf, density, exp_neg};

/// The number of draws that are computed side by side.
const LANES: usize = 8;
pub(super) type Lane = [f64; LANES];

/// The map from scores to propensities of a mixed-logit policy.
#[derive(Debug, Clone)]
pub struct MixedLogit {
    /// σ, the standard deviation of the weights.
    pub scale: f64,
    /// Standard normal numbers: for each block of draws, one lane per action.
    draws: Vec<Lane>,
}

impl MixedLogit {
    /// With at least `draws` draws; rounded up so that each quarter has whole lanes.
    pub fn new(scale: f64, n_actions: usize, draws: usize) -> Self {
        let points = normal_points(n_actions, draws.max(1).next_multiple_of(4 * LANES));
        let of_block = |block: &[f64]| -> Vec<Lane> {
            (0..n_actions).map(|a| std::array::from_fn(|l| block[l * n_actions + a])).collect()
        };
        MixedLogit { scale, draws: points.chunks_exact(n_actions * LANES).flat_map(of_block).collect() }
    }

    /// The share of one draw in the mean.
    fn weight(&self, n_actions: usize) -> f64 {
        n_actions as f64 / (self.draws.len() * LANES) as f64
    }
}

/// Roberts' R_d sequence, the additive recurrence of the generalized golden ratio, mapped by Φ⁻¹.
fn normal_points(dim: usize, draws: usize) -> Vec<f64> {
    let mut ratio = 1.5f64;
    for _ in 0..64 {
        ratio = powf(1.0 + ratio, 1.0 / (dim as f64 + 1.0));
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

/// Φ⁻¹ by safeguarded Newton steps; used only to compute the points.
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
    /// Leaves the softmax of each draw for `gradient`, and the mean over the first quarter for `coarse`.
    fn propensities(&self, scores: &[f64], norm: f64, scratch: &mut Scratch, pi: &mut [f64]) {
        let (k, weight) = (scores.len(), self.weight(scores.len()));
        scratch.lanes.resize(self.draws.len() + k, [0.0; LANES]);
        scratch.a.resize(k, 0.0);
        let (soft, sums) = scratch.lanes.split_at_mut(self.draws.len());
        let quarter = self.draws.len() / 4;
        sums.fill([0.0; LANES]);
        average(scores, self.scale * norm, &self.draws[..quarter], &mut soft[..quarter], sums);
        mean_of(sums, 4.0 * weight, &mut scratch.a);
        average(scores, self.scale * norm, &self.draws[quarter..], &mut soft[quarter..], sums);
        mean_of(sums, weight, pi);
    }

    fn coarse(&self, _: f64, scratch: &Scratch, _: &[f64], out: &mut [f64]) {
        out.copy_from_slice(&scratch.a);
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
        let weight = self.weight(scores.len());
        let (soft, sums) = scratch.lanes.split_at_mut(self.draws.len());
        let mut d_spread = [0.0; LANES];
        differentiate(&self.draws, soft, h, sums, &mut d_spread);
        mean_of(sums, weight, d_scores);
        weight * self.scale * norm * d_spread.iter().sum::<f64>()
    }
}

fn mean_of(sums: &[Lane], weight: f64, out: &mut [f64]) {
    for (sum, out) in sums.iter().zip(out) {
        *out = weight * sum.iter().sum::<f64>();
    }
}

dispatch! {
    /// The softmax of each draw, and their sums added to `sums`. It has its own exponential, over lanes of
    /// draws: `softmax` would be several times slower here, and rounds differently.
    fn average(scores: &[f64], spread: f64, draws: &[Lane], soft: &mut [Lane], sums: &mut [Lane]) = average_body
}

#[inline(always)]
fn average_body(scores: &[f64], spread: f64, draws: &[Lane], soft: &mut [Lane], sums: &mut [Lane]) {
    let k = scores.len();
    for (noise, soft) in draws.chunks_exact(k).zip(soft.chunks_exact_mut(k)) {
        let (mut max, mut total) = ([f64::NEG_INFINITY; LANES], [0.0f64; LANES]);
        for a in 0..k {
            for l in 0..LANES {
                let score = noise[a][l].mul_add(spread, scores[a]);
                soft[a][l] = score;
                max[l] = if score > max[l] { score } else { max[l] };
            }
        }
        for soft in soft.iter_mut() {
            let mut below = [0.0f64; LANES];
            for l in 0..LANES {
                below[l] = soft[l] - max[l];
            }
            *soft = exp_neg(&below);
            for l in 0..LANES {
                total[l] += soft[l];
            }
        }
        for l in 0..LANES {
            total[l] = 1.0 / total[l];
        }
        for (soft, sum) in soft.iter_mut().zip(sums.iter_mut()) {
            for l in 0..LANES {
                soft[l] *= total[l];
                sum[l] += soft[l];
            }
        }
    }
}

dispatch! {
    /// Sums over draws of ∂/∂score_a Σ_b h_b q_b = q_a(h_a − Σ_b q_b h_b), and of the same times the noise.
    fn differentiate(
        draws: &[Lane], soft: &[Lane], h: &[f64], sums: &mut [Lane], d_spread: &mut Lane,
    ) = differentiate_body
}

#[inline(always)]
fn differentiate_body(draws: &[Lane], soft: &[Lane], h: &[f64], sums: &mut [Lane], d_spread: &mut Lane) {
    let k = h.len();
    sums.fill([0.0; LANES]);
    for (noise, soft) in draws.chunks_exact(k).zip(soft.chunks_exact(k)) {
        let mut mean = [0.0f64; LANES];
        for a in 0..k {
            for l in 0..LANES {
                mean[l] = soft[a][l].mul_add(h[a], mean[l]);
            }
        }
        for a in 0..k {
            for l in 0..LANES {
                let d = soft[a][l] * (h[a] - mean[l]);
                sums[a][l] += d;
                d_spread[l] = d.mul_add(noise[a][l], d_spread[l]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::kernels::noise;
    use crate::policy::softmax;

    /// Compares with a loop over the same points that uses libm's exponential.
    #[test]
    fn lanes_agree_with_a_plain_loop() {
        for (k, draws, spread) in [(3, 64, 1.7), (10, 4096, 0.6), (5, 32, 400.0)] {
            let scores: Vec<f64> = (0..k).map(|a| (a * a % 7) as f64 * 0.3 - 1.0).collect();
            let h: Vec<f64> = (0..k).map(|a| ((a * 5 + 2) % 4) as f64 - 1.5).collect();
            let points = normal_points(k, draws);
            let (mut mean, mut quarter) = (vec![0.0; k], vec![0.0; k]);
            let (mut d_scores, mut d_scale) = (vec![0.0; k], 0.0);
            for (i, noise) in points.chunks_exact(k).enumerate() {
                let mut soft: Vec<f64> = scores.iter().zip(noise).map(|(s, u)| s + spread * u).collect();
                softmax(&mut soft);
                let value: f64 = soft.iter().zip(&h).map(|(q, h)| q * h).sum();
                for a in 0..k {
                    mean[a] += soft[a] / draws as f64;
                    quarter[a] += if i < draws / 4 { 4.0 * soft[a] / draws as f64 } else { 0.0 };
                    let d = soft[a] * (h[a] - value) / draws as f64;
                    d_scores[a] += d;
                    d_scale += d * noise[a] * spread;
                }
            }
            let policy = MixedLogit::new(spread / 2.0, k, draws);
            let (mut scratch, mut pi, mut coarse) = (Scratch::default(), vec![0.0; k], vec![0.0; k]);
            policy.propensities(&scores, 2.0, &mut scratch, &mut pi);
            policy.coarse(2.0, &scratch, &pi, &mut coarse);
            let mut d = vec![0.0; k];
            let scale = policy.gradient(&scores, 2.0, &mut scratch, &pi, &h, &mut d);
            let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-13);
            assert!(close(&pi, &mean), "{pi:?} {mean:?}");
            assert!(close(&coarse, &quarter), "{coarse:?} {quarter:?}");
            assert!(close(&d, &d_scores), "{d:?} {d_scores:?}");
            assert!((scale - d_scale).abs() < 1e-13 * (1.0 + spread), "{scale} {d_scale}");
        }
    }

    #[test]
    fn inverse_cdf_inverts() {
        for p in [1e-10, 0.01, 0.3, 0.5, 0.9, 1.0 - 1e-9] {
            assert!((cdf(inverse_cdf(p)) - p).abs() < 1e-14);
        }
    }

    /// Compares with plain Monte Carlo of a million draws, whose error is about 5e-4. 4096 points have an
    /// error below 2e-3.
    #[test]
    fn agrees_with_monte_carlo() {
        use rand::SeedableRng;
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let scores = [0.4, -0.3, 1.1];
        let mut mean = [0.0; 3];
        for _ in 0..1_000_000 {
            let mut soft = scores.map(|s| s + 1.4 * crate::numerics::random::standard_normal(&mut rng));
            softmax(&mut soft);
            (0..3).for_each(|a| mean[a] += soft[a] / 1e6);
        }
        let (mut scratch, mut pi) = (Scratch::default(), [0.0; 3]);
        MixedLogit::new(0.7, 3, 4096).propensities(&scores, 2.0, &mut scratch, &mut pi);
        for a in 0..3 {
            assert!((pi[a] - mean[a]).abs() < 2e-3, "{pi:?} {mean:?}");
        }
    }

    /// The copies that run on this CPU and those for any CPU.
    #[test]
    fn both_copies_have_the_same_bits() {
        for k in [2, 3, 10] {
            let draws = MixedLogit::new(1.0, k, 64).draws;
            let (scores, h) = (noise(k, 1), noise(k, 2));
            let empty = || (vec![[0.0; LANES]; draws.len()], vec![[0.5; LANES]; k], [0.25; LANES]);
            let (mut ours, mut any) = (empty(), empty());
            average(&scores, 1.7, &draws, &mut ours.0, &mut ours.1);
            average_body(&scores, 1.7, &draws, &mut any.0, &mut any.1);
            assert_eq!(ours, any, "{k}");
            differentiate(&draws, &ours.0, &h, &mut ours.1, &mut ours.2);
            differentiate_body(&draws, &any.0, &h, &mut any.1, &mut any.2);
            assert_eq!(ours, any, "{k}");
        }
    }
}
