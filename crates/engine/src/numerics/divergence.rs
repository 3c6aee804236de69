//! Kullback–Leibler divergences, docs/math.md#kl: between Bernoulli distributions, with its inverse, and
//! between Gaussians.

use super::elementary::{exp_m1, ln};

/// kl(q‖p) between Bernoulli(q) and Bernoulli(p). Infinite if an outcome is possible under q and not under p.
pub fn bernoulli(q: f64, p: f64) -> f64 {
    let term = |q: f64, p: f64| if q <= 0.0 { 0.0 } else { q * ln(q / p) };
    (term(q, p) + term(1.0 - q, 1.0 - p)).max(0.0)
}

/// kl⁻¹(q, ε) = sup{p ∈ [q, 1] : kl(q‖p) ≤ ε}, for q ∈ [0, 1] and ε ≥ 0. Returns the outer end of the last
/// bracket, because every use of it is an upper bound. NaN gives 1, the trivial bound.
pub fn bernoulli_inverse(q: f64, epsilon: f64) -> f64 {
    if q.is_nan() || q >= 1.0 || epsilon.is_nan() || epsilon == f64::INFINITY {
        return 1.0;
    }
    let q = q.max(0.0);
    // Bisection on the complement 1 − p, which keeps its digits when p is close to 1.
    let kl = |complement: f64| {
        let (p, rest) = (1.0 - complement, 1.0 - q);
        let first = if q > 0.0 { q * ln(q / p) } else { 0.0 };
        first + rest * ln(rest / complement)
    };
    let (mut low, mut high) = (0.0, 1.0 - q); // complements: kl(low) = ∞ > ε ≥ kl(high) = 0
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if kl(middle) > epsilon {
            low = middle;
        } else {
            high = middle;
        }
    }
    1.0 - low
}

/// KL(N(μ, σ²I_d) ‖ N(μ0, σ0²I_d)) from ‖μ − μ0‖².
pub fn gaussian(squared_distance: f64, dim: usize, sigma: f64, sigma0: f64) -> f64 {
    let log_ratio = ln(sigma / sigma0);
    // σ²/(2σ0²) − ½ − ln(σ/σ0) = (e^{2l} − 1)/2 − l without cancellation near σ = σ0.
    let spread = if log_ratio.abs() < 1e-3 {
        log_ratio * log_ratio * (1.0 + log_ratio * (2.0 / 3.0 + log_ratio / 3.0))
    } else {
        0.5 * exp_m1(2.0 * log_ratio) - log_ratio
    };
    squared_distance / (2.0 * sigma0 * sigma0) + dim as f64 * spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_inverts_from_above() {
        for q in [0.0, 1e-9, 0.2, 0.5, 0.97, 1.0 - 1e-9, 1.0] {
            for epsilon in [0.0, 1e-12, 1e-4, 0.1, 3.0, 50.0] {
                let p = bernoulli_inverse(q, epsilon);
                assert!((q..=1.0).contains(&p), "{q} {epsilon} {p}");
                if p < 1.0 && epsilon > 1e-9 {
                    assert!((bernoulli(q, p) - epsilon).abs() < 1e-6 * epsilon, "{q} {epsilon}");
                }
            }
        }
        assert_eq!(bernoulli_inverse(0.3, f64::INFINITY), 1.0);
        // kl(0‖p) = −ln(1 − p)
        assert!((bernoulli_inverse(0.0, 0.5) - (1.0 - (-0.5f64).exp())).abs() < 1e-15);
    }

    #[test]
    fn gaussian_is_smooth_at_equal_scales() {
        for l in [9.99e-4f64, 1.001e-3] {
            let direct = 10.0 * (0.5 * (2.0 * l).exp_m1() - l);
            assert!((gaussian(0.0, 10, l.exp(), 1.0) - direct).abs() < 1e-14);
        }
        assert_eq!(gaussian(0.0, 10, 1.3, 1.3), 0.0);
    }
}
