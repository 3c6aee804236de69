//! The bounds, one file each, behind the trait [`Bound`]. Each is a smooth function of a few statistics that
//! are linear in the policy, and of KL(Q‖P). It holds with probability at least 1 − δ for all posteriors Q at
//! once. The learner works with any of them.

mod aimed;
pub mod betting;
mod budget;
pub mod catoni;
pub mod cbb;
pub mod ix;
pub mod london_sandler;
mod mixture;
mod play;
mod table;

use super::error::{EngineError, Result};
use super::log::Context;
use super::terms::Terms;

pub use aimed::{Aim, Aimed, Change, Guess, Order, Start, pilot_of};
pub use betting::{Betting, Choice, LAMBDA_POINTS, lambda_grid};
pub use budget::{Budget, Foreseen, Kept, Plan, Shape, Square, Sums};
pub use catoni::Catoni;
pub use cbb::Cbb;
pub use ix::Ix;
pub use london_sandler::LondonSandler;
pub use mixture::{Found, Member, Mixture};
pub use play::{ControlVariate, Play, Played, Rules, shrunk};
pub use table::{Bets, Moments, Table};

/// A context as a bound sees it.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// K, the number of actions.
    pub n_actions: usize,
    /// The context's interactions.
    pub context: Context<'a>,
    /// ĉ(x, ·), if a cost model is in use.
    pub cost_model: Option<&'a [f64]>,
}

/// What a bound needs from a log besides logged actions, costs and propensities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// π0(·|x) for all actions.
    pub full_propensities: bool,
    /// Every context logged once.
    pub single_interactions: bool,
    /// One logging policy for all rows, and contexts from one distribution.
    pub fixed_logging: bool,
    /// What to use if the log does not have it, for error messages.
    pub instead: &'static str,
}

/// The sizes of a log that enter a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// n, the number of rows.
    pub rows: u64,
    /// n_c, the number of contexts.
    pub contexts: u64,
}

/// A bound's value at given statistics, with its derivatives.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundValue {
    /// The upper bound.
    pub value: f64,
    /// Its derivative with respect to each statistic.
    pub d_statistics: Vec<f64>,
    /// Its derivative with respect to KL.
    pub d_kl: f64,
    /// The member of the bound's grid that gave the value.
    pub choice: usize,
}

/// An upper bound on the risk, or on minus the improvement.
pub trait Bound: Sync {
    /// The bound's name on certificates.
    fn name(&self) -> &'static str;

    /// The number of linear statistics that the bound is a function of. Statistic s of a policy is
    /// (1/n_c) Σ_i Σ_a π(a|x_i) h_i^{(s)}(a).
    fn statistics(&self) -> usize {
        1
    }

    /// Adds h^{(s)}(a) of one context to `h[s·K + a]`, averaging interactions by their weights.
    ///
    /// # Errors
    /// If the context does not have what the bound needs. Job specs are checked beforehand, so this is a bug
    /// in the program, not an error in the request.
    fn coefficients(&self, seen: &Seen, h: &mut [f64]) -> Result<()>;

    /// The bound from the statistics and KL.
    fn value_and_gradient(&self, statistics: &[f64], kl: f64) -> BoundValue;

    /// The bound with one member of its grid held fixed, as a function of one statistic. It pays for the
    /// whole grid, so its value equals that of the whole bound if `choice` is the best member.
    fn held(&self, choice: usize) -> Box<dyn Bound + '_>;

    /// The terms of the value, as the certificate itemizes them.
    fn terms(&self, statistics: &[f64], kl: f64) -> Terms;
}

/// 1/max(π0, τ).
#[inline]
fn clipped(propensity: f64, tau: f64) -> f64 {
    1.0 / propensity.max(tau)
}

/// Adds w_j(c_j − ξ)/max(π0, τ) of each logged action: the coefficients of cvcIPS without its constant ξ.
fn add_cips(seen: &Seen, tau: f64, xi: f64, h: &mut [f64]) {
    let c = &seen.context;
    for j in 0..c.actions.len() {
        let weight = c.weights[j] * clipped(c.propensities[j], tau);
        h[c.actions[j] as usize] += weight * (c.costs[j] - xi);
    }
}

/// The index of the smallest number. NaN is chosen only if all are NaN.
fn smallest(values: &[f64]) -> usize {
    let mut best = 0;
    for (i, v) in values.iter().enumerate() {
        if *v < values[best] || values[best].is_nan() {
            best = i;
        }
    }
    best
}

/// The error for input that the check of the spec rules out.
fn impossible(what: &str) -> EngineError {
    EngineError::Numerical(format!("the bound cannot be computed: {what}"))
}

#[cfg(test)]
pub(crate) mod golden {
    //! Reads the golden files.
    use serde_json::Value;

    pub fn load(name: &str) -> Value {
        let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    /// Numbers are JSON numbers or strings of 20 digits.
    pub fn number(value: &Value) -> f64 {
        value.as_f64().unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
    }

    pub fn assert_close(what: &str, got: f64, want: f64) {
        assert!((got - want).abs() <= 1e-9 * want.abs().max(1e-3), "{what}: {got} is not {want}");
    }
}
