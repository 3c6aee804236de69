//! Catoni's bound, C_n (paper Prop. 2), through the inverse of the Bernoulli divergence: with
//! k = KL + ln(2√n/δ) and r = cIPS,
//!   min_{λ>0} (1 − exp(−τλr − k/n))/(τ(e^λ − 1)) = (kl⁻¹(1 + τr, k/n) − 1)/τ.
//! Never above LS_n (paper Thm 2). Needs the logged propensities and contexts logged once each.

use super::london_sandler::log_penalty;
use super::{Bound, BoundValue, Needs, Sample, Seen, add_cips};
use crate::numerics::divergence::bernoulli_inverse;
use crate::terms::Terms;

/// Its martingale counts rows as independent draws of a context.
pub const NEEDS: Needs = Needs {
    full_propensities: false,
    single_interactions: true,
    instead: "betting, log_smoothing or, with π0(·|x), cbb",
};

#[derive(Debug, Clone, Copy)]
pub struct Catoni {
    pub sample: Sample,
    pub tau: f64,
    pub delta: f64,
}

impl Catoni {
    fn penalty(&self) -> f64 {
        log_penalty(self.sample.rows, self.delta)
    }

    /// The bound at one λ, the paper's own form, which the tests hold the other to.
    pub fn at_lambda(&self, r: f64, kl: f64, lambda: f64) -> f64 {
        let k = kl + self.penalty();
        -(-self.tau * lambda * r - k / self.sample.rows as f64).exp_m1() / (self.tau * lambda.exp_m1())
    }
}

impl Bound for Catoni {
    fn name(&self) -> &'static str {
        "catoni"
    }

    fn statistics(&self) -> usize {
        1
    }

    fn coefficients(&self, seen: &Seen, h: &mut [f64]) {
        add_cips(seen, self.tau, 0.0, h);
    }

    fn value_and_gradient(&self, statistics: &[f64], kl: f64) -> BoundValue {
        let (n, tau) = (self.sample.rows as f64, self.tau);
        let q = (1.0 + tau * statistics[0]).clamp(0.0, 1.0);
        let p = bernoulli_inverse(q, (kl + self.penalty()) / n);
        // kl(q‖p) = ε defines p(q, ε): ∂p/∂ε = p(1−p)/(p−q), ∂p/∂q = ln(p(1−q)/(q(1−p)))·∂p/∂ε.
        // At the ends (q or p on the boundary) it is constant or vertical; a slope of 1 keeps learning
        // moving towards a lower risk.
        let inside = q > 0.0 && p < 1.0 && p > q;
        let d_epsilon = if inside { p * (1.0 - p) / (p - q) } else { 0.0 };
        let d_q = if inside { ((p * (1.0 - q)) / (q * (1.0 - p))).ln() * d_epsilon } else { 1.0 };
        BoundValue { value: (p - 1.0) / tau, d_statistics: vec![d_q], d_kl: d_epsilon / (n * tau), choice: 0 }
    }

    fn held(&self, _: usize) -> Box<dyn Bound + '_> {
        Box::new(*self)
    }

    fn terms(&self, statistics: &[f64], kl: f64) -> Terms {
        let q = (1.0 + self.tau * statistics[0]).clamp(0.0, 1.0);
        let p = bernoulli_inverse(q, (kl + self.penalty()) / self.sample.rows as f64);
        // The λ of the paper's form at its minimum.
        let lambda = ((p * (1.0 - q)) / (q * (1.0 - p))).ln();
        Terms {
            n: self.sample.rows,
            contexts: self.sample.contexts,
            empirical_risk: Some(statistics[0]),
            kl: Some(kl),
            penalty: Some(self.penalty()),
            lambda: lambda.is_finite().then_some(lambda),
            tau: Some(self.tau),
            ..Terms::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LondonSandler;
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

    /// The two forms are one: the λ that the terms name attains the minimum.
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
