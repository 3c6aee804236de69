//! Catoni's bound, C_n (paper, Proposition 2), docs/math.md#catoni.
//!
//!   R(π_Q) ≤ min_{λ>0} (1 − exp(−τλr − k/n))/(τ(e^λ − 1)) = (kl⁻¹(1 + τr, k/n) − 1)/τ,
//!   k = KL + ln(2√n/δ),  r = cIPS
//!
//! The code uses the second form. It never exceeds LS_n (paper, Theorem 2). Needs the logged propensities,
//! and every context logged once.

use super::{Bound, BoundValue, LondonSandler, Needs, Sample, Seen, add_cips, london_sandler};
use crate::error::Result;
use crate::numerics::divergence::bernoulli_inverse;
use crate::numerics::elementary::{exp_m1, ln};
use crate::terms::Terms;

/// The same as London–Sandler's: the proof treats rows as independent draws.
pub const NEEDS: Needs = london_sandler::NEEDS;

/// Catoni's bound.
#[derive(Debug, Clone, Copy)]
pub struct Catoni {
    /// The sizes of the log.
    pub sample: Sample,
    /// τ, the clipping level.
    pub tau: f64,
    /// δ, the probability, at most, that the bound is violated.
    pub delta: f64,
}

impl Catoni {
    fn penalty(&self) -> f64 {
        london_sandler::log_penalty(self.sample.rows, self.delta)
    }

    /// The bound at one λ in the paper's form, which the tests compare with the other form.
    pub fn at_lambda(&self, r: f64, kl: f64, lambda: f64) -> f64 {
        let k = kl + self.penalty();
        -exp_m1(-self.tau * lambda * r - k / self.sample.rows as f64) / (self.tau * exp_m1(lambda))
    }
}

impl Bound for Catoni {
    fn name(&self) -> &'static str {
        "catoni"
    }

    fn coefficients(&self, seen: &Seen, h: &mut [f64]) -> Result<()> {
        add_cips(seen, self.tau, 0.0, h);
        Ok(())
    }

    fn value_and_gradient(&self, statistics: &[f64], kl: f64) -> BoundValue {
        let (n, tau) = (self.sample.rows as f64, self.tau);
        let q = (1.0 + tau * statistics[0]).clamp(0.0, 1.0);
        let p = bernoulli_inverse(q, (kl + self.penalty()) / n);
        // kl(q‖p) = ε defines p(q, ε): ∂p/∂ε = p(1−p)/(p−q), ∂p/∂q = ln(p(1−q)/(q(1−p)))·∂p/∂ε.
        // If q or p is on the boundary, p is constant or vertical there; a slope of 1 keeps learning moving
        // toward a lower risk.
        let inside = q > 0.0 && p < 1.0 && p > q;
        let d_epsilon = if inside { p * (1.0 - p) / (p - q) } else { 0.0 };
        let d_q = if inside { ln((p * (1.0 - q)) / (q * (1.0 - p))) * d_epsilon } else { 1.0 };
        BoundValue { value: (p - 1.0) / tau, d_statistics: vec![d_q], d_kl: d_epsilon / (n * tau), choice: 0 }
    }

    fn held(&self, _: usize) -> Box<dyn Bound + '_> {
        Box::new(*self)
    }

    fn terms(&self, statistics: &[f64], kl: f64) -> Terms {
        let q = (1.0 + self.tau * statistics[0]).clamp(0.0, 1.0);
        let p = bernoulli_inverse(q, (kl + self.penalty()) / self.sample.rows as f64);
        // The λ at which the paper's form has its minimum.
        let lambda = ln((p * (1.0 - q)) / (q * (1.0 - p)));
        let Catoni { sample, tau, delta } = *self;
        let shared = LondonSandler { sample, tau, delta }.terms(statistics, kl);
        Terms { lambda: lambda.is_finite().then_some(lambda), ..shared }
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden::{assert_close, load, number};
    use super::*;

    #[test]
    fn reproduces_golden_values() {
        for case in load("bounds.json")["cips"].as_array().unwrap() {
            let get = |name: &str| number(&case[name]);
            let n = get("n") as u64;
            let sample = Sample { rows: n, contexts: n };
            let (tau, delta, r, kl) = (get("tau"), get("delta"), get("rhat"), get("kl"));
            let ls = LondonSandler { sample, tau, delta }.value_and_gradient(&[r], kl).value;
            assert_close("london_sandler", ls, get("london_sandler"));
            let catoni = Catoni { sample, tau, delta };
            let value = catoni.value_and_gradient(&[r], kl).value;
            assert_close("catoni", value, get("catoni"));
            let at = catoni.at_lambda(r, kl, 0.02);
            assert_close("catoni at λ = 0.02", at, get("catoni_at_lambda_0.02"));
            assert!(value <= at);
        }
    }

    /// Both forms give the same number: the λ in the terms attains the minimum.
    #[test]
    fn lambda_form_agrees() {
        let catoni = Catoni { sample: Sample { rows: 4000, contexts: 4000 }, tau: 0.2, delta: 0.05 };
        for (r, kl) in [(-0.3, 0.0), (-0.8, 12.0), (-2.0, 100.0), (-0.01, 1.0)] {
            let lambda = catoni.terms(&[r], kl).lambda.unwrap();
            let value = catoni.value_and_gradient(&[r], kl).value;
            assert!((catoni.at_lambda(r, kl, lambda) - value).abs() < 1e-9, "{r} {kl}");
        }
    }
}
