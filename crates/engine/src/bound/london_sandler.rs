//! London–Sandler's bound, LS_n (paper, Proposition 1), docs/math.md#london-sandler.
//!
//!   R(π_Q) ≤ r + 2k/(τn) + sqrt(2(r + 1/τ)k/(τn)),  k = KL + ln(2√n/δ),  r = cIPS
//!
//! Needs the logged propensities, and every context logged once.

use super::{Bound, BoundValue, Needs, Sample, Seen, add_cips};
use crate::error::Result;
use crate::numerics::elementary::ln;
use crate::terms::Terms;

/// The proof treats rows as independent draws, so a context may be logged only once.
pub const NEEDS: Needs = Needs {
    full_propensities: false,
    single_interactions: true,
    fixed_logging: true,
    instead: "betting, log_smoothing or, with π0(·|x), cbb",
};

/// London–Sandler's bound.
#[derive(Debug, Clone, Copy)]
pub struct LondonSandler {
    /// The sizes of the log.
    pub sample: Sample,
    /// τ, the clipping level.
    pub tau: f64,
    /// δ, the probability, at most, that the bound is violated.
    pub delta: f64,
}

impl LondonSandler {
    fn penalty(&self) -> f64 {
        log_penalty(self.sample.rows, self.delta)
    }
}

/// ln(2√n/δ).
pub(super) fn log_penalty(n: u64, delta: f64) -> f64 {
    ln(2.0 * (n as f64).sqrt() / delta)
}

impl Bound for LondonSandler {
    fn name(&self) -> &'static str {
        "london_sandler"
    }

    fn coefficients(&self, seen: &Seen, h: &mut [f64]) -> Result<()> {
        add_cips(seen, self.tau, 0.0, h);
        Ok(())
    }

    fn value_and_gradient(&self, statistics: &[f64], kl: f64) -> BoundValue {
        let (r, scale) = (statistics[0], self.tau * self.sample.rows as f64);
        let k = kl + self.penalty();
        // r ≥ −1/τ always; rounding must not put a negative number under the root.
        let spread = (r + 1.0 / self.tau).max(0.0);
        let root = (2.0 * spread * k / scale).sqrt();
        let half = if root > 0.0 { 0.5 / root } else { 0.0 };
        BoundValue {
            value: r + 2.0 * k / scale + root,
            d_statistics: vec![1.0 + half * 2.0 * k / scale],
            d_kl: 2.0 / scale + half * 2.0 * spread / scale,
            choice: 0,
        }
    }

    fn held(&self, _: usize) -> Box<dyn Bound + '_> {
        Box::new(*self)
    }

    fn terms(&self, statistics: &[f64], kl: f64) -> Terms {
        Terms {
            n: self.sample.rows,
            contexts: self.sample.contexts,
            empirical_risk: Some(statistics[0]),
            kl: Some(kl),
            penalty: Some(self.penalty()),
            tau: Some(self.tau),
            ..Terms::default()
        }
    }
}
