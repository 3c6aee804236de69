//! Two-sided evidence against "y has the conditional mean μ", from Σ(y − μ) and Σ Var(y) alone. It is the
//! mixture over λ of Freedman's supermartingale, docs/math.md#checks.

use super::Rounding;
use super::evidence::log_mean;

/// The largest λ·b of the grid; each next is half of it.
const LARGEST: f64 = 4.0;
const GRID: usize = 14;

/// How far the sum of written propensities may be from 1 before they are scaled.
const SUM_TOLERANCE: f64 = 1e-3;

/// The intervals of true propensities behind written ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Widths {
    rounding: Rounding,
    /// How much scaling to sum 1 can have changed a propensity, relative to it; 0 if it was not scaled.
    scaling: f64,
}

impl Widths {
    /// The intervals of propensities that were used as written.
    pub fn of_written(rounding: Rounding) -> Widths {
        Widths { rounding, scaling: 0.0 }
    }

    /// The intervals of K propensities that were scaled to sum to 1. If s is the sum as written, s·p is within
    /// the rounding of the truth, and |s − 1| is at most the sum of all half widths.
    pub fn of_scaled(rounding: Rounding, k: usize) -> Widths {
        let scaling = rounding.total(k) * (1.0 + SUM_TOLERANCE);
        Widths { rounding, scaling }
    }

    /// Half the width of the interval before scaling.
    pub fn half(&self, p: f64) -> f64 {
        // Scaling can have moved a number below a power of ten, where the interval is narrower.
        self.rounding.half_width((p * (1.0 + self.scaling)).min(1.0))
    }

    /// The largest true propensity.
    pub fn upper(&self, p: f64) -> f64 {
        (p * (1.0 + self.scaling) + self.half(p)).min(1.0)
    }

    /// The largest true propensities of some rows.
    pub fn uppers(&self, written: &[f64], uppers: &mut [f64]) {
        let each = uppers.iter_mut().zip(written);
        match self.exact() && self.scaling == 0.0 {
            true => each.for_each(|(upper, p)| *upper = p.min(1.0)),
            false => each.for_each(|(upper, &p)| *upper = self.upper(p)),
        }
    }

    /// The smallest true propensity.
    pub fn lower(&self, p: f64) -> f64 {
        (p * (1.0 - self.scaling) - self.half(p)).max(0.0)
    }

    /// Whether every number is the truth.
    pub fn exact(&self) -> bool {
        self.rounding.is_none()
    }
}

/// Σ(y − μ), Σ of the largest |true mean − μ| and Σ of the largest variance.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Centered {
    pub excess: f64,
    pub slack: f64,
    pub variance: f64,
}

impl Centered {
    /// Adds a row in which action a has probability `p[a]` and value `y[a]`, and returns μ = Σ p·y.
    ///
    /// Let e be the rounding errors before scaling. Because Σ p·(y − μ) = 0, whatever the scale, the true mean
    /// is μ − Σ e·(y − μ). The true variance is at most the second moment around μ.
    pub fn add(&mut self, p: &[f64], y: &[f64], action: usize, widths: &Widths) -> f64 {
        let (mut mean, mut square) = (0.0, 0.0);
        for (p, y) in p.iter().zip(y) {
            let term = p * y;
            mean += term;
            square += term * y;
        }
        self.excess += y[action] - mean;
        let variance = (square - mean * mean).max(0.0);
        if widths.exact() {
            self.variance += variance;
        } else {
            let (mut slack, mut more) = (0.0, 0.0);
            for (p, y) in p.iter().zip(y) {
                let distance = (y - mean).abs();
                let term = widths.half(*p) * distance;
                slack += term;
                more += term * distance;
            }
            self.slack += slack;
            self.variance += variance * (1.0 + widths.scaling) + more;
        }
        mean
    }

    /// Adds the sums of other rows.
    pub fn merge(&mut self, other: &Centered) {
        self.excess += other.excess;
        self.slack += other.slack;
        self.variance += other.variance;
    }

    /// The logarithm of the mean over both sides and all λ of
    /// exp(λ(±Σ(y − μ) − slack) − ((e^{λb} − 1 − λb)/b²)·variance), where |y − E y| ≤ b.
    pub fn log_evidence(&self, b: f64) -> f64 {
        let mut logs = [0.0; 2 * GRID];
        for (i, pair) in logs.chunks_exact_mut(2).enumerate() {
            let u = LARGEST / (1u64 << i) as f64;
            let cost = u * self.slack / b + remainder(u) * self.variance / (b * b);
            pair[0] = u * self.excess / b - cost;
            pair[1] = -u * self.excess / b - cost;
        }
        log_mean(&logs)
    }
}

/// e^u − 1 − u for 0 ≤ u ≤ 4, without cancellation.
fn remainder(u: f64) -> f64 {
    let (mut term, mut sum) = (u, 0.0);
    for k in 2..40 {
        term *= u / k as f64;
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remainder_is_right() {
        for u in [4.0, 1.0, 0.3f64] {
            assert!((remainder(u) - (u.exp() - 1.0 - u)).abs() < 1e-13 * remainder(u) + 1e-16);
        }
        assert!((remainder(1e-6) / 5e-13 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn moments_are_those_of_the_distribution() {
        let (p, y) = ([0.5, 0.3, 0.2], [1.0, 2.0, 4.0]);
        let mut centered = Centered::default();
        let exact = Widths::of_scaled(Rounding::default(), 3);
        assert!((centered.add(&p, &y, 2, &exact) - 1.9).abs() < 1e-15);
        assert!((centered.excess - 2.1).abs() < 1e-15 && centered.slack == 0.0);
        assert!((centered.variance - (0.5 + 1.2 + 3.2 - 3.61)).abs() < 1e-14);
    }

    /// The expectation of the evidence is at most 1: computed exactly for two rows. The written numbers sum to
    /// 0.96, and are scaled.
    #[test]
    fn the_evidence_is_an_e_value() {
        let rounding = Rounding { absolute: 0.05, digits: 0.01, relative: 0.01 };
        let (written, truth, y) = ([0.25, 0.35, 0.36].map(|p| p / 0.96), [0.3, 0.3, 0.4], [3.0, 0.5, 9.0]);
        for (p, rounding) in [(truth, Rounding::default()), (written, rounding)] {
            let widths = Widths::of_scaled(rounding, 3);
            let mut mean = 0.0;
            for a in 0..3 {
                for b in 0..3 {
                    let mut centered = Centered::default();
                    centered.add(&p, &y, a, &widths);
                    centered.add(&p, &y, b, &widths);
                    mean += truth[a] * truth[b] * centered.log_evidence(9.0).exp();
                }
            }
            assert!(mean <= 1.0 && mean > 0.3, "{mean}");
        }
    }
}
