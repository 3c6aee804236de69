//! The bounds. Each is a smooth function of a few statistics that are linear in the policy, and of
//! KL(Q‖P); it holds with probability at least 1 − δ for all Q at once. One file each, behind one
//! trait; the learner knows none of them by name.

pub mod betting;
pub mod catoni;
pub mod cbb;
mod given;
pub mod london_sandler;

use super::log::Context;
use super::terms::Terms;

pub use betting::{Betting, Choice, Control as ControlVariate, LAMBDA_POINTS, lambda_grid};
pub use catoni::Catoni;
pub use cbb::Cbb;
pub use given::{GivenBetting, Played, z_values};
pub use london_sandler::LondonSandler;

/// What a context shows to a bound: its interactions, and ĉ(x, ·) where a cost model is in use.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    pub n_actions: usize,
    pub context: Context<'a>,
    pub cost_model: Option<&'a [f64]>,
}

/// What a bound needs of a log beyond logged actions, costs and propensities, and what to use where
/// that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// π0(·|x) for all actions.
    pub full_propensities: bool,
    /// Every context logged once.
    pub single_interactions: bool,
    pub instead: &'static str,
}

/// The sizes that enter a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub rows: u64,
    pub contexts: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BoundValue {
    pub value: f64,
    pub d_statistics: Vec<f64>,
    pub d_kl: f64,
    /// Which of the choices that the bound minimises over was the best.
    pub choice: usize,
}

pub trait Bound: Sync {
    fn name(&self) -> &'static str;

    /// How many linear statistics it is a function of. Statistic s of a policy is
    /// (1/n_c) Σ_i Σ_a π(a|x_i) h_i^{(s)}(a).
    fn statistics(&self) -> usize;

    /// Adds h^{(s)}(a) of one context to `h[s·K + a]`. Interactions are averaged by their weights.
    fn coefficients(&self, seen: &Seen, h: &mut [f64]);

    fn value_and_gradient(&self, statistics: &[f64], kl: f64) -> BoundValue;

    /// The same bound with `choice` held fixed, as a function of one statistic. It pays for the
    /// choice as the whole does, so its value is the whole's wherever `choice` is the best.
    fn held(&self, choice: usize) -> Box<dyn Bound + '_>;

    /// The terms of the value, for the certificate.
    fn terms(&self, statistics: &[f64], kl: f64) -> Terms;
}

/// Importance weight of the logged action with the propensity clipped at τ.
#[inline]
fn clipped(propensity: f64, tau: f64) -> f64 {
    1.0 / propensity.max(tau)
}

/// Σ_j w_j · c_j/max(π0, τ) on the logged actions: the coefficients of cIPS.
fn add_cips(seen: &Seen, tau: f64, xi: f64, h: &mut [f64]) {
    let c = &seen.context;
    for j in 0..c.actions.len() {
        let weight = c.weights[j] * clipped(c.propensities[j], tau);
        h[c.actions[j] as usize] += weight * (c.costs[j] - xi);
    }
}

#[cfg(test)]
pub(crate) mod golden {
    //! The golden files, as numbers.
    use serde_json::Value;

    pub fn load(name: &str) -> Value {
        let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    /// Numbers are written as JSON numbers or as strings of 20 digits.
    pub fn number(value: &Value) -> f64 {
        value.as_f64().unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
    }

    pub fn assert_close(what: &str, got: f64, want: f64) {
        assert!((got - want).abs() <= 1e-9 * want.abs().max(1e-3), "{what}: {got} is not {want}");
    }
}
