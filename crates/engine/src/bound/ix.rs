//! Implicit exploration, IX (Gabbianelli, Neu and Papini, 2024), docs/math.md#ix.
//!
//!   R(π_Q) ≤ r + (KL + ln(1/δ))/(2γn_c),  r = (1/n_c) Σ_i π_Q(a_i|x_i)·c_i/(π0(a_i|x_i) + γ),  γ = 1/(2√n_c)
//!
//! Needs the logged propensities only, and holds for logs of policies that learn. γ depends on n_c, so the bound
//! holds at one number of contexts.

use super::{Bound, BoundValue, Needs, Sample, Seen};
use crate::error::Result;
use crate::numerics::elementary::ln;
use crate::terms::Terms;

/// Nothing besides the logged propensities.
pub const NEEDS: Needs = Needs {
    full_propensities: false,
    single_interactions: false,
    fixed_logging: false,
    instead: "betting or log_smoothing",
};

/// The bound of implicit exploration.
#[derive(Debug, Clone, Copy)]
pub struct Ix {
    /// The sizes of the log.
    pub sample: Sample,
    /// δ, the probability, at most, that the bound is violated.
    pub delta: f64,
}

impl Ix {
    /// γ, what is added to each propensity: 1/(2√n_c), as in the published comparisons.
    pub fn gamma(&self) -> f64 {
        0.5 / (self.sample.contexts as f64).sqrt()
    }

    fn penalty(&self) -> f64 {
        -ln(self.delta)
    }

    /// 1/(2γn_c), what one nat costs.
    fn price(&self) -> f64 {
        0.5 / (self.gamma() * self.sample.contexts as f64)
    }
}

impl Bound for Ix {
    fn name(&self) -> &'static str {
        "ix"
    }

    fn coefficients(&self, seen: &Seen, h: &mut [f64]) -> Result<()> {
        let (c, gamma) = (&seen.context, self.gamma());
        for j in 0..c.actions.len() {
            h[c.actions[j] as usize] += c.weights[j] * c.costs[j] / (c.propensities[j] + gamma);
        }
        Ok(())
    }

    fn value_and_gradient(&self, statistics: &[f64], kl: f64) -> BoundValue {
        let price = self.price();
        BoundValue {
            value: statistics[0] + price * (kl + self.penalty()),
            d_statistics: vec![1.0],
            d_kl: price,
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
            gamma: Some(self.gamma()),
            ..Terms::default()
        }
    }
}
