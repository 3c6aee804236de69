//! LIG policies for learning, docs/math.md#lig: the integral of `lig.rs` on 32 nodes in f32, with all nodes
//! of an action side by side so that they fill vector registers. The error is about 1e-6, which is enough for
//! learning. Certificates use `lig.rs`.

#![allow(clippy::excessive_precision)]

use super::{Policy, Scratch};
use crate::numerics::dispatch;

const NODES: usize = 32;
const BELOW: f32 = 7.0;
const STEP: f32 = 15.0 / NODES as f32;
type Lane = [f32; NODES];

/// The map from scores to propensities of a LIG policy, at the resolution of learning.
#[derive(Debug, Clone, Copy)]
pub struct LigFast {
    /// σ, the standard deviation of the weights.
    pub scale: f64,
}

/// (v + 4)·m(v), where m is Mills' ratio, as a polynomial in (v − 4)/(v + 4). The relative error is 7e-8.
const MILLS: [f32; 10] = [
    1.8932191133499146,
    -1.523770809173584,
    0.9704099297523499,
    -0.4675467908382416,
    0.15138860046863556,
    -0.018852991983294487,
    -0.008713532239198685,
    0.003949824720621109,
    0.0003242076199967414,
    -0.00040761864511296153,
];

const EXP: [f32; 8] = [1.0, 1.0, 0.5, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0];

/// Φ(u) and Φ′(u)/Φ(u) for u ≥ −7.
#[inline(always)]
fn cdf_and_hazard(u: &Lane) -> (Lane, Lane) {
    const ROUND: f32 = 12_582_912.0; // 1.5·2^23: adding it rounds to an integer
    const LN2_HI: f32 = 0.693_359_4;
    const LN2_LO: f32 = -2.121_944_4e-4;
    let (mut scale, mut y, mut acc) = ([0.0f32; NODES], [0.0f32; NODES], [MILLS[9]; NODES]);
    let (mut r, mut power, mut exp) = ([0.0f32; NODES], [0.0f32; NODES], [EXP[7]; NODES]);
    for l in 0..NODES {
        let v = u[l].abs();
        scale[l] = 1.0 / (v + 4.0);
        y[l] = (v - 4.0) * scale[l];
        // Beyond |u| = 13 the density is too small to change 1 in f32.
        let v = if v > 13.0 { 13.0 } else { v };
        let x = -0.5 * v * v;
        let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
        let k = shifted - ROUND;
        r[l] = k.mul_add(-LN2_LO, k.mul_add(-LN2_HI, x));
        power[l] = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    }
    for k in (0..9).rev() {
        for l in 0..NODES {
            acc[l] = acc[l].mul_add(y[l], MILLS[k]);
        }
    }
    for k in (0..7).rev() {
        for l in 0..NODES {
            exp[l] = exp[l].mul_add(r[l], EXP[k]);
        }
    }
    let (mut cdf, mut hazard) = ([0.0f32; NODES], [0.0f32; NODES]);
    for l in 0..NODES {
        let mills = acc[l] * scale[l];
        let density = 0.398_942_3 * exp[l] * power[l];
        let tail = density * mills;
        let upper = 1.0 - tail;
        let positive = u[l] > 0.0;
        cdf[l] = if positive { upper } else { tail };
        let over = if positive { density } else { 1.0 };
        let under = if positive { upper } else { mills };
        hazard[l] = over / under;
    }
    (cdf, hazard)
}

dispatch! {
    /// Computes hazards, STEP·F and π from z relative to its maximum.
    fn forward(z: &[f32], hazards: &mut [Lane], product: &mut Lane, pi: &mut [f64]) = forward_body
}

#[inline(always)]
fn forward_body(z: &[f32], hazards: &mut [Lane], product: &mut Lane, pi: &mut [f64]) {
    let mut f = [STEP; NODES];
    for (z, hazards) in z.iter().zip(hazards.iter_mut()) {
        let (cdf, hazard) = cdf_and_hazard(&nodes(*z));
        *hazards = hazard;
        for l in 0..NODES {
            // The floor keeps products out of the slow subnormal range.
            let next = f[l] * cdf[l];
            f[l] = if next > 1e-30 { next } else { 1e-30 };
        }
    }
    for (hazards, pi) in hazards.iter().zip(pi.iter_mut()) {
        let mut acc = [0.0f32; 8];
        for (f, r) in f.chunks_exact(8).zip(hazards.chunks_exact(8)) {
            for l in 0..8 {
                acc[l] = f[l].mul_add(r[l], acc[l]);
            }
        }
        *pi = total(&acc);
    }
    *product = f;
}

/// t_j − z.
#[inline(always)]
fn nodes(z: f32) -> Lane {
    let mut u = [0.0f32; NODES];
    for l in 0..NODES {
        u[l] = (l as f32 + 0.5).mul_add(STEP, -BELOW - z);
    }
    u
}

#[inline(always)]
fn total(acc: &[f32; 8]) -> f64 {
    let quarter = [acc[0] + acc[4], acc[1] + acc[5], acc[2] + acc[6], acc[3] + acc[7]];
    ((quarter[0] + quarter[2]) + (quarter[1] + quarter[3])) as f64
}

dispatch! {
    /// As in `lig.rs`: ∂/∂z_b = Σ_j F_j r_bj (h_b (u_bj + r_bj) − H_j).
    fn backward(z: &[f32], hazards: &[Lane], product: &Lane, h: &[f64], d_z: &mut [f64]) = backward_body
}

#[inline(always)]
fn backward_body(z: &[f32], hazards: &[Lane], product: &Lane, h: &[f64], d_z: &mut [f64]) {
    let mut weighted = [0.0f32; NODES];
    for (hazards, &h) in hazards.iter().zip(h) {
        for l in 0..NODES {
            weighted[l] = hazards[l].mul_add(h as f32, weighted[l]);
        }
    }
    for b in 0..z.len() {
        let (u, r, h) = (nodes(z[b]), &hazards[b], h[b] as f32);
        let mut acc = [0.0f32; 8];
        for block in (0..NODES).step_by(8) {
            for l in 0..8 {
                let j = block + l;
                let inner = h.mul_add(u[j] + r[j], -weighted[j]);
                acc[l] = (product[j] * r[j]).mul_add(inner, acc[l]);
            }
        }
        d_z[b] = total(&acc);
    }
}

impl Policy for LigFast {
    fn propensities(&self, scores: &[f64], norm: f64, scratch: &mut Scratch, pi: &mut [f64]) {
        if norm == 0.0 {
            pi.fill(1.0 / scores.len() as f64);
            return;
        }
        let inverse = 1.0 / (self.scale * norm);
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        scratch.z.clear();
        scratch.z.extend(scores.iter().map(|s| ((s - max) * inverse) as f32));
        scratch.hazards.resize(scores.len(), [0.0; NODES]);
        forward(&scratch.z, &mut scratch.hazards, &mut scratch.product, pi);
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
        if norm == 0.0 {
            d_scores.fill(0.0);
            return 0.0;
        }
        backward(&scratch.z, &scratch.hazards, &scratch.product, h, d_scores);
        let inverse = 1.0 / (self.scale * norm);
        let mut d_log_scale = 0.0;
        for (d, s) in d_scores.iter_mut().zip(scores) {
            *d *= inverse;
            d_log_scale -= *d * s;
        }
        d_log_scale
    }
}

#[cfg(test)]
mod tests {
    use super::super::Lig;
    use super::*;
    use crate::numerics::kernels::noise;

    /// Compares with the f64 integral at the resolution of certificates.
    #[test]
    fn agrees_with_f64() {
        let scores = [0.3, -1.2, 2.5, 0.0, 40.0, 2.4, -300.0];
        for keep in [2, 3, 4, 6, 7] {
            for norm in [0.1, 1.0, 30.0] {
                let (s, h) = (&scores[..keep], &[0.2, -0.7, 1.0, 0.4, -0.1, 0.3, 0.9][..keep]);
                let run = |policy: &dyn Policy| {
                    let (mut scratch, mut pi, mut d) = (Scratch::default(), vec![0.0; keep], vec![0.0; keep]);
                    policy.propensities(s, norm, &mut scratch, &mut pi);
                    let d_scale = policy.gradient(s, norm, &mut scratch, &pi, h, &mut d);
                    d.iter_mut().for_each(|d| *d *= norm);
                    d.push(d_scale);
                    (pi, d)
                };
                let (fast, fine) = (run(&LigFast { scale: 0.8 }), run(&Lig::fine(0.8, keep)));
                for (got, want) in fast.0.iter().zip(&fine.0) {
                    assert!((got - want).abs() < 2e-6, "{fast:?} {fine:?}");
                }
                for (got, want) in fast.1.iter().zip(&fine.1) {
                    assert!((got - want).abs() < 2e-5 * (1.0 + want.abs()), "{fast:?} {fine:?}");
                }
            }
        }
    }

    /// The copies that run on this CPU and those for any CPU.
    #[test]
    fn both_copies_have_the_same_bits() {
        for k in [2, 3, 10, 27] {
            let z: Vec<f32> = noise(k, 1).iter().map(|z| 4.0 * (*z as f32 - 1.0)).collect();
            let h = noise(k, 2);
            let empty = || (vec![[0.0; NODES]; k], [0.0; NODES], vec![0.0; k]);
            let (mut ours, mut any) = (empty(), empty());
            forward(&z, &mut ours.0, &mut ours.1, &mut ours.2);
            forward_body(&z, &mut any.0, &mut any.1, &mut any.2);
            assert_eq!(ours, any, "{k}");
            let mut d_z = [vec![0.0; k], vec![0.0; k]];
            backward(&z, &ours.0, &ours.1, &h, &mut d_z[0]);
            backward_body(&z, &ours.0, &ours.1, &h, &mut d_z[1]);
            assert_eq!(d_z[0], d_z[1], "{k}");
        }
    }
}
