//! Linear independent Gaussian policies (paper, section of that name), docs/math.md#lig: the argmax of scores
//! φ(x)ᵀθ_a with θ_a ~ N(μ_a, σ²I). With z_a = φ(x)ᵀμ_a/(σ‖φ(x)‖),
//!
//!   π(a|x) = ∫ F(t) r(t − z_a) dt,  F(t) = Π_b Φ(t − z_b),  r = Φ′/Φ
//!
//! One grid of t serves every action, so all K propensities cost O(K·S) for S nodes. The integrand is
//! analytic and decays like a Gaussian, so the trapezoid rule converges geometrically. If ‖φ(x)‖ = 0, the
//! policy is uniform.

use rand::{Rng, RngExt};

use super::{Policy, Scratch};
use crate::numerics::dispatch;
use crate::numerics::elementary::log10;
use crate::numerics::random::standard_normal;
use crate::numerics::special::cdf_and_hazard;

/// Sums over nodes run in this many lanes, so the number of nodes is a multiple of it.
const LANES: usize = 8;

/// The map from scores to propensities of a LIG policy, at the resolution of certificates.
#[derive(Debug, Clone, Copy)]
pub struct Lig {
    /// σ, the standard deviation of the weights.
    pub scale: f64,
    /// The number of nodes, and the range around max(z) that they cover.
    nodes: usize,
    below: f64,
    above: f64,
}

impl Lig {
    /// The best of many tied actions is a narrow peak, so the number of nodes grows with ln K. Up to K in the
    /// thousands the error stays below 1e-14, and below 1e-7 on every second node.
    pub fn fine(scale: f64, n_actions: usize) -> Self {
        let more = 64.0 * log10(n_actions as f64 / 10.0).max(0.0);
        let nodes = (80 + more.ceil() as usize).next_multiple_of(LANES);
        Lig { scale, nodes, below: 8.5, above: 9.0 }
    }

    fn is_flat(&self, norm: f64) -> bool {
        norm == 0.0
    }

    /// Draws an action exactly: draws the K independent scores and takes the largest.
    pub fn sample<R: Rng>(&self, scores: &[f64], norm: f64, rng: &mut R) -> usize {
        let spread = self.scale * norm;
        let draw = |s: &f64| s + spread * standard_normal(rng);
        if self.is_flat(norm) {
            return rng.random_range(0..scores.len());
        }
        let drawn: Vec<f64> = scores.iter().map(draw).collect();
        (0..drawn.len()).max_by(|&a, &b| drawn[a].total_cmp(&drawn[b])).unwrap_or(0)
    }
}

impl Policy for Lig {
    fn propensities(&self, scores: &[f64], norm: f64, scratch: &mut Scratch, pi: &mut [f64]) {
        let k = scores.len();
        if self.is_flat(norm) {
            pi.fill(1.0 / k as f64);
            return;
        }
        let inverse = 1.0 / (self.scale * norm);
        scratch.a.clear();
        scratch.a.extend(scores.iter().map(|s| s * inverse));
        scratch.b.resize(k * self.nodes, 0.0);
        scratch.c.resize(self.nodes, 0.0);
        let max = scratch.a.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let step = (self.below + self.above) / self.nodes as f64;
        let start = max - self.below + 0.5 * step;
        tabulate(&scratch.a, start, step, &mut scratch.b, &mut scratch.c);
        integrate(&scratch.b, &scratch.c, pi);
    }

    /// Every second node is the trapezoid rule with twice the step.
    fn coarse(&self, norm: f64, scratch: &Scratch, pi: &[f64], out: &mut [f64]) {
        if self.is_flat(norm) {
            return out.copy_from_slice(pi);
        }
        for (hazards, out) in scratch.b.chunks_exact(self.nodes).zip(out) {
            let even = hazards.iter().zip(&scratch.c).step_by(2).map(|(r, f)| r * f);
            *out = 2.0 * even.sum::<f64>();
        }
    }

    fn gradient(
        &self,
        _: &[f64],
        norm: f64,
        scratch: &mut Scratch,
        _: &[f64],
        h: &[f64],
        d_scores: &mut [f64],
    ) -> f64 {
        if self.is_flat(norm) {
            d_scores.fill(0.0);
            return 0.0;
        }
        let max = scratch.a.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let step = (self.below + self.above) / self.nodes as f64;
        let start = max - self.below + 0.5 * step;
        let Scratch { a: z, b: hazards, c: product, .. } = scratch;
        differentiate(z, start, step, hazards, product, h, d_scores);
        let inverse = 1.0 / (self.scale * norm);
        let mut d_log_scale = 0.0;
        for (d, z) in d_scores.iter_mut().zip(z) {
            d_log_scale -= *d * *z;
            *d *= inverse;
        }
        d_log_scale
    }
}

dispatch! {
    /// Computes r(t_j − z_b) for every action and node, and step·F(t_j).
    fn tabulate(z: &[f64], start: f64, step: f64, hazards: &mut [f64], product: &mut [f64]) = tabulate_body
}

#[inline(always)]
fn tabulate_body(z: &[f64], start: f64, step: f64, hazards: &mut [f64], product: &mut [f64]) {
    product.fill(step);
    for (z, hazards) in z.iter().zip(hazards.chunks_exact_mut(product.len())) {
        let offset = start - z;
        for (block, (r, f)) in
            hazards.chunks_exact_mut(LANES).zip(product.chunks_exact_mut(LANES)).enumerate()
        {
            let mut u = [0.0f64; LANES];
            for l in 0..LANES {
                u[l] = ((block * LANES + l) as i32 as f64).mul_add(step, offset);
            }
            let (cdf, hazard) = cdf_and_hazard(&u);
            r.copy_from_slice(&hazard);
            f.iter_mut().zip(&cdf).for_each(|(f, cdf)| *f *= cdf);
        }
    }
}

dispatch! {
    fn integrate(hazards: &[f64], product: &[f64], pi: &mut [f64]) = integrate_body
}

#[inline(always)]
fn integrate_body(hazards: &[f64], product: &[f64], pi: &mut [f64]) {
    for (hazards, pi) in hazards.chunks_exact(product.len()).zip(pi.iter_mut()) {
        let mut acc = [0.0f64; LANES];
        for (r, f) in hazards.chunks_exact(LANES).zip(product.chunks_exact(LANES)) {
            for l in 0..LANES {
                acc[l] = r[l].mul_add(f[l], acc[l]);
            }
        }
        *pi = acc.iter().sum();
    }
}

dispatch! {
    /// ∂/∂z_b Σ_a h_a π(a|x) = Σ_j F_j r_bj (h_b (u_bj + r_bj) − H_j),  H_j = Σ_a h_a r_aj.
    fn differentiate(
        z: &[f64], start: f64, step: f64, hazards: &[f64], product: &[f64], h: &[f64], d_z: &mut [f64],
    ) = differentiate_body
}

#[inline(always)]
fn differentiate_body(
    z: &[f64],
    start: f64,
    step: f64,
    hazards: &[f64],
    product: &[f64],
    h: &[f64],
    d_z: &mut [f64],
) {
    let nodes = product.len();
    d_z.fill(0.0);
    for block in 0..nodes / LANES {
        let first = block * LANES;
        let mut weighted = [0.0f64; LANES];
        for (b, &h) in h.iter().enumerate() {
            let r = &hazards[b * nodes + first..][..LANES];
            for l in 0..LANES {
                weighted[l] = h.mul_add(r[l], weighted[l]);
            }
        }
        let f = &product[first..][..LANES];
        for b in 0..z.len() {
            let r = &hazards[b * nodes + first..][..LANES];
            let offset = start - z[b];
            let mut acc = [0.0f64; LANES];
            for l in 0..LANES {
                let u = ((first + l) as i32 as f64).mul_add(step, offset);
                acc[l] = f[l] * r[l] * h[b].mul_add(u + r[l], -weighted[l]);
            }
            d_z[b] += acc.iter().sum::<f64>();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::kernels::noise;

    #[test]
    fn zero_features_are_uniform_and_extremes_are_finite() {
        let lig = Lig::fine(1.0, 4);
        let (mut scratch, mut pi, mut d) = (Scratch::default(), vec![0.0; 4], vec![1.0; 4]);
        lig.propensities(&[0.0; 4], 0.0, &mut scratch, &mut pi);
        assert_eq!(pi, vec![0.25; 4]);
        for scores in [[0.0, 1e6, -1e6, 3.0], [1e-300, 0.0, 0.0, 0.0], [700.0, 699.0, 0.0, 700.0]] {
            lig.propensities(&scores, 1.0, &mut scratch, &mut pi);
            assert!((pi.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{pi:?}");
            let h = [0.3, -1.0, 0.2, 5.0];
            let s = lig.gradient(&scores, 1.0, &mut scratch, &pi, &h, &mut d);
            assert!(s.is_finite() && d.iter().all(|v| v.is_finite()));
        }
    }

    /// The copies that run on this CPU and those for any CPU.
    #[test]
    fn both_copies_have_the_same_bits() {
        for (k, nodes) in [(2, 80), (3, 88), (10, 80), (27, 112)] {
            let z: Vec<f64> = noise(k, 1).iter().map(|z| 6.0 * z).collect();
            let (h, start, step) = (noise(k, 2), -8.0, 17.5 / nodes as f64);
            let mut tables =
                [(vec![0.0; k * nodes], vec![0.0; nodes]), (vec![0.0; k * nodes], vec![0.0; nodes])];
            let [(hazards, product), (hazards_body, product_body)] = &mut tables;
            tabulate(&z, start, step, hazards, product);
            tabulate_body(&z, start, step, hazards_body, product_body);
            assert_eq!(tables[0], tables[1], "{k} {nodes}");
            let (hazards, product) = &tables[0];
            let mut pi = [vec![0.0; k], vec![0.0; k]];
            integrate(hazards, product, &mut pi[0]);
            integrate_body(hazards, product, &mut pi[1]);
            assert_eq!(pi[0], pi[1], "{k} {nodes}");
            let mut d_z = [vec![0.0; k], vec![0.0; k]];
            differentiate(&z, start, step, hazards, product, &h, &mut d_z[0]);
            differentiate_body(&z, start, step, hazards, product, &h, &mut d_z[1]);
            assert_eq!(d_z[0], d_z[1], "{k} {nodes}");
        }
    }
}
