//! The betting bounds, docs/math.md#betting.
//!
//!   R(π_Q) − κR(π0) ≤ (1 − exp((S_λ − KL − ln(N/δ))/n_c))/λ,  S_λ = Σ_i Σ_a π_Q(a|x_i) ln(1 − λz_i(a)),
//!   z_i(a) = 1[a = a_i](c_i − ξ)/max(π0(a_i|x_i), τ) + ξ·min(π0(a|x_i)/τ, 1) − κc_i
//!
//! κ = 0 bounds the risk, and κ = 1 bounds minus the improvement. N counts everything that is minimized over
//! on these rows. ξ = 0 with τ → 0 is logarithmic smoothing (Sakhi et al., NeurIPS 2024); it needs the logged
//! action's propensity only. ξ < 0 needs π0(·|x). With ξ = 0, clipping only loosens the bound, so members of
//! the grid with ξ = 0 use τ = 0.

use super::{Bound, BoundValue, Needs, Sample, Seen, clipped, impossible, smallest};
use crate::error::Result;
use crate::log::Context;
use crate::numerics::elementary::{exp, exp_m1, exp2, ln, ln_1p};
use crate::terms::Terms;

/// Nothing if ξ = 0. If the job sets a ξ below 0, `spec` requires π0(·|x).
pub const NEEDS: Needs = Needs {
    full_propensities: false,
    single_interactions: false,
    fixed_logging: false,
    instead: "ξ = 0, or log `propensities`",
};

/// Number of points of the λ grid, docs/math.md#betting-grid. The grid does not depend on n, so the bound
/// holds at every n at once.
pub const LAMBDA_POINTS: usize = 32;

/// One member of the grid that a betting bound is minimized over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// ξ, the control variate.
    pub xi: f64,
    /// τ, the clipping level.
    pub tau: f64,
    /// λ, the size of the bet.
    pub lambda: f64,
}

/// z_max, an upper bound on z.
fn z_max(xi: f64, tau: f64, kappa: u8) -> f64 {
    (if xi < 0.0 { -xi / tau } else { 0.0 }) + f64::from(kappa)
}

/// The largest λ that leaves 1 − λz well above 0.
fn lambda_max(xi: f64, tau: f64, kappa: u8) -> f64 {
    let z_max = z_max(xi, tau, kappa);
    if z_max > 0.0 { 0.9 / z_max } else { 1.0 }
}

/// The grid of λ for one ξ and τ: λ_max·2^{−k/2}, k = 0, …, 31.
pub fn lambda_grid(xi: f64, tau: f64, kappa: u8) -> Vec<Choice> {
    let max = lambda_max(xi, tau, kappa);
    let at = |k: usize| Choice { xi, tau, lambda: max * exp2(-0.5 * k as f64) };
    (0..LAMBDA_POINTS).map(at).collect()
}

/// A betting bound for all posteriors at once.
#[derive(Debug, Clone)]
pub struct Betting {
    /// The bound's name on certificates.
    pub name: &'static str,
    /// The sizes of the log.
    pub sample: Sample,
    /// κ: 1 bounds R(π) − R(π0), 0 bounds R(π).
    pub kappa: u8,
    /// δ, the probability, at most, that the bound is violated.
    pub delta: f64,
    /// The grid that is minimized over; its length is N.
    pub choices: Vec<Choice>,
}

impl Betting {
    /// The bound on a grid of constants ξ, each with its grid of λ. ξ below 0 is clipped at `tau`, ξ = 0 is
    /// not clipped.
    pub fn new(sample: Sample, kappa: u8, xis: &[f64], tau: f64, delta: f64) -> Self {
        let member = |&xi: &f64| {
            let tau = if xi == 0.0 { 0.0 } else { tau };
            lambda_grid(xi, tau, kappa)
        };
        let choices = xis.iter().flat_map(member).collect();
        Betting { name: "betting", sample, kappa, delta, choices }
    }

    /// Logarithmic smoothing: κ = 0, ξ = 0, no clipping.
    pub fn log_smoothing(sample: Sample, delta: f64) -> Self {
        Betting { name: "log_smoothing", ..Betting::new(sample, 0, &[0.0], 1.0, delta) }
    }

    /// ln(N/δ).
    pub fn penalty(&self) -> f64 {
        ln(self.choices.len() as f64 / self.delta)
    }

    /// The bound at one member of the grid from the statistic S_λ/n_c, with its derivatives with respect to
    /// the statistic and to KL.
    pub fn at(&self, choice: usize, statistic: f64, kl: f64) -> (f64, f64, f64) {
        let (n, lambda) = (self.sample.contexts as f64, self.choices[choice].lambda);
        let exponent = statistic - (kl + self.penalty()) / n;
        let slope = exp(exponent) / lambda;
        (-exp_m1(exponent) / lambda, -slope, slope / n)
    }

    /// The terms of the bound at one member of the grid.
    pub fn terms_at(&self, choice: usize, statistic: f64, kl: f64) -> Terms {
        let member = self.choices[choice];
        Terms {
            n: self.sample.rows,
            contexts: self.sample.contexts,
            kl: Some(kl),
            penalty: Some(self.penalty()),
            log_sum: Some(statistic * self.sample.contexts as f64),
            lambda: Some(member.lambda),
            xi: Some(member.xi),
            tau: Some(member.tau),
            kappa: Some(self.kappa),
            grid_size: Some(self.choices.len() as u64),
            ..Terms::default()
        }
    }
}

/// ξ·min(π0(a|x)/τ, 1).
#[inline]
fn expected_control(xi: f64, p: f64, tau: f64) -> f64 {
    if p >= tau { xi } else { xi * (p / tau) }
}

/// Adds Σ_j w_j ln(1 − λz_j(a)) of one context for one member of the grid.
///
/// # Errors
/// If ξ is not 0 and π0(·|x) is not known.
fn add_logs(choice: &Choice, kappa: u8, seen: &Seen, h: &mut [f64]) -> Result<()> {
    let Context { actions, costs, propensities, weights, full } = seen.context;
    let Choice { xi, tau, lambda } = *choice;
    let full = full.filter(|full| full.len() == h.len());
    if xi != 0.0 && full.is_none() {
        return Err(impossible("a control variate below 0 needs the propensities of all actions"));
    }
    for j in 0..actions.len() {
        let shift = -(kappa as f64) * costs[j];
        let logged = actions[j] as usize;
        // Actions that were not logged have the same z if ξ is 0 or their π0 is not clipped.
        let plain = ln_1p(-lambda * (shift + xi));
        for (a, h) in h.iter_mut().enumerate() {
            if a != logged && (xi == 0.0 || full.is_some_and(|f| f[a] >= tau)) {
                *h += weights[j] * plain;
                continue;
            }
            let mut z = shift;
            if let Some(full) = full.filter(|_| xi != 0.0) {
                z += expected_control(xi, full[a], tau);
            }
            if a == logged {
                z += (costs[j] - xi) * clipped(propensities[j], tau);
            }
            *h += weights[j] * ln_1p(-lambda * z);
        }
    }
    Ok(())
}

impl Bound for Betting {
    fn name(&self) -> &'static str {
        self.name
    }

    fn statistics(&self) -> usize {
        self.choices.len()
    }

    fn coefficients(&self, seen: &Seen, h: &mut [f64]) -> Result<()> {
        let k = h.len() / self.choices.len();
        let each = self.choices.iter().zip(h.chunks_exact_mut(k));
        each.into_iter().try_for_each(|(choice, h)| add_logs(choice, self.kappa, seen, h))
    }

    fn value_and_gradient(&self, statistics: &[f64], kl: f64) -> BoundValue {
        let values: Vec<f64> = (0..self.choices.len()).map(|c| self.at(c, statistics[c], kl).0).collect();
        let choice = smallest(&values);
        let (value, d_statistic, d_kl) = self.at(choice, statistics[choice], kl);
        let mut d_statistics = vec![0.0; self.choices.len()];
        d_statistics[choice] = d_statistic;
        BoundValue { value, d_statistics, d_kl, choice }
    }

    fn held(&self, choice: usize) -> Box<dyn Bound + '_> {
        Box::new(HeldBetting { bound: self, choice })
    }

    fn terms(&self, statistics: &[f64], kl: f64) -> Terms {
        let choice = self.value_and_gradient(statistics, kl).choice;
        self.terms_at(choice, statistics[choice], kl)
    }
}

/// The bound at one member of the grid.
struct HeldBetting<'a> {
    bound: &'a Betting,
    choice: usize,
}

impl Bound for HeldBetting<'_> {
    fn name(&self) -> &'static str {
        self.bound.name
    }

    fn coefficients(&self, seen: &Seen, h: &mut [f64]) -> Result<()> {
        add_logs(&self.bound.choices[self.choice], self.bound.kappa, seen, h)
    }

    fn value_and_gradient(&self, statistics: &[f64], kl: f64) -> BoundValue {
        let (value, d_statistic, d_kl) = self.bound.at(self.choice, statistics[0], kl);
        BoundValue { value, d_statistics: vec![d_statistic], d_kl, choice: self.choice }
    }

    fn held(&self, choice: usize) -> Box<dyn Bound + '_> {
        self.bound.held(choice)
    }

    fn terms(&self, statistics: &[f64], kl: f64) -> Terms {
        self.bound.terms_at(self.choice, statistics[0], kl)
    }
}
