//! The betting bounds (MATH.md 5). For a rule that plays a at row i, with a control variate ξ (a
//! constant, or a fixed cost model ĉ(x, a) in its place) and κ ∈ {0, 1},
//!   z_i(a) = 1[a = a_i](c_i − ξ)/max(π0(a_i|x_i), τ) + ξ·min(π0(a|x_i)/τ, 1) − κc_i,
//!   R(π_Q) − κR(π0) ≤ (1 − exp((S_λ − KL − ln(N/δ))/n_c))/λ,
//!   S_λ = Σ_i Σ_a π_Q(a|x_i) ln(1 − λz_i(a)).
//! N counts everything that is minimised over on these rows. κ = 0 bounds the risk, κ = 1 the
//! improvement itself. ξ = 0 with τ → 0 is logarithmic smoothing and needs the logged action's
//! propensity only; ξ < 0 needs π0(·|x). Clipping with ξ = 0 only ever loses, so that member of a
//! grid takes τ = 0.

use super::cbb::smallest;
use super::{Bound, BoundValue, Needs, Sample, Seen};
use crate::log::Context;
use crate::terms::Terms;

/// With ξ = 0, nothing; `spec` asks for π0(·|x) where ξ < 0 is named.
pub const NEEDS: Needs =
    Needs { full_propensities: false, single_interactions: false, instead: "ξ = 0, or log `propensities`" };

/// Points of the λ grid. It must not depend on n: the bound then holds at every n at once.
pub const LAMBDA_POINTS: usize = 32;

/// What stands in the place of ξ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Control {
    Constant(f64),
    /// ĉ(x, a), shrunk on the contexts where it would let z exceed 0.9/λ, and centred on π0 where
    /// κ = 1 (see `given.rs`, which alone takes it).
    Shrunk,
}

/// One member of what a betting bound minimises over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    pub control: Control,
    pub tau: f64,
    pub lambda: f64,
}

/// An upper limit of z.
fn z_max(control: Control, tau: f64, kappa: u8) -> f64 {
    let depth = match control {
        Control::Constant(xi) => -xi,
        // Shrinking keeps z below 0.9/λ for any λ up to 0.9.
        Control::Shrunk => 0.0,
    };
    (if depth > 0.0 { depth / tau } else { 0.0 }) + kappa as f64
}

/// The largest λ that leaves 1 − λz well above 0.
fn lambda_max(control: Control, tau: f64, kappa: u8) -> f64 {
    let z_max = z_max(control, tau, kappa);
    if z_max > 0.0 { 0.9 / z_max } else { 1.0 }
}

/// λ_max·2^{−k/2}, k = 0..31.
pub fn lambda_grid(control: Control, tau: f64, kappa: u8) -> Vec<Choice> {
    let max = lambda_max(control, tau, kappa);
    let at = |k: usize| Choice { control, tau, lambda: max * (-0.5 * k as f64).exp2() };
    (0..LAMBDA_POINTS).map(at).collect()
}

#[derive(Debug, Clone)]
pub struct Betting {
    pub name: &'static str,
    pub sample: Sample,
    pub kappa: u8,
    pub delta: f64,
    /// All that is minimised over; its length is N.
    pub choices: Vec<Choice>,
}

impl Betting {
    /// Over a grid of constants; each below 0 takes `tau`, 0 takes none.
    pub fn new(sample: Sample, kappa: u8, xis: &[f64], tau: f64, delta: f64) -> Self {
        let member = |&xi: &f64| {
            let tau = if xi == 0.0 { 0.0 } else { tau };
            lambda_grid(Control::Constant(xi), tau, kappa)
        };
        let choices = xis.iter().flat_map(member).collect();
        Betting { name: "betting", sample, kappa, delta, choices }
    }

    /// Logarithmic smoothing (Sakhi et al., NeurIPS 2024): ξ = 0, κ = 0, no clipping.
    pub fn log_smoothing(sample: Sample, delta: f64) -> Self {
        Betting { name: "log_smoothing", ..Betting::new(sample, 0, &[0.0], 1.0, delta) }
    }

    pub fn penalty(&self) -> f64 {
        (self.choices.len() as f64 / self.delta).ln()
    }

    /// The bound at λ from (1/n_c) S_λ, with its derivatives in the statistic and in KL.
    pub fn at(&self, choice: usize, statistic: f64, kl: f64) -> (f64, f64, f64) {
        let (n, lambda) = (self.sample.contexts as f64, self.choices[choice].lambda);
        let exponent = statistic - (kl + self.penalty()) / n;
        let slope = exponent.exp() / lambda;
        (-exponent.exp_m1() / lambda, -slope, slope / n)
    }

    pub fn terms_at(&self, choice: usize, statistic: f64, kl: f64) -> Terms {
        let member = self.choices[choice];
        let (xi, cost_model_max) = match member.control {
            Control::Constant(xi) => (Some(xi), None),
            Control::Shrunk => (None, Some(1.0)),
        };
        Terms {
            n: self.sample.rows,
            contexts: self.sample.contexts,
            kl: Some(kl),
            penalty: Some(self.penalty()),
            log_sum: Some(statistic * self.sample.contexts as f64),
            lambda: Some(member.lambda),
            xi,
            cost_model_max,
            tau: Some(member.tau),
            kappa: Some(self.kappa),
            grid_size: Some(self.choices.len() as u64),
            ..Terms::default()
        }
    }
}

/// ξ, the same for all actions.
#[inline]
pub(super) fn constant_of(control: Control) -> f64 {
    match control {
        Control::Constant(xi) => xi,
        // `given.rs` takes this one by itself; NaN here can only end in an error.
        Control::Shrunk => f64::NAN,
    }
}

/// ξ·min(π0(a|x)/τ, 1).
#[inline]
pub(super) fn expected_control(xi: f64, p: f64, tau: f64) -> f64 {
    if p >= tau { xi } else { xi * (p / tau) }
}

/// Adds Σ_j w_j ln(1 − λ z_j(a)) of one context for one choice.
fn add_logs(choice: &Choice, kappa: u8, seen: &Seen, h: &mut [f64]) {
    let Context { actions, costs, propensities, weights, full } = seen.context;
    let (tau, lambda) = (choice.tau, choice.lambda);
    for j in 0..actions.len() {
        let shift = -(kappa as f64) * costs[j];
        let logged = actions[j] as usize;
        // A constant ξ: actions that were not logged have the same z where ξ is 0 or π0 is not clipped.
        let plain = match choice.control {
            Control::Constant(xi) => Some((xi == 0.0, (-lambda * (shift + xi)).ln_1p())),
            _ => None,
        };
        for (a, h) in h.iter_mut().enumerate() {
            if a != logged
                && let Some((everywhere, plain)) = plain
                && (everywhere || full.is_some_and(|f| f[a] >= tau))
            {
                *h += weights[j] * plain;
                continue;
            }
            let xi = constant_of(choice.control);
            let mut z = shift;
            if xi != 0.0 {
                z += expected_control(xi, full.map_or(f64::NAN, |f| f[a]), tau);
            }
            if a == logged {
                z += (costs[j] - xi) * super::clipped(propensities[j], tau);
            }
            *h += weights[j] * (-lambda * z).ln_1p();
        }
    }
}

impl Bound for Betting {
    fn name(&self) -> &'static str {
        self.name
    }

    fn statistics(&self) -> usize {
        self.choices.len()
    }

    fn coefficients(&self, seen: &Seen, h: &mut [f64]) {
        let k = h.len() / self.choices.len();
        for (choice, h) in self.choices.iter().zip(h.chunks_exact_mut(k)) {
            add_logs(choice, self.kappa, seen, h);
        }
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

struct HeldBetting<'a> {
    bound: &'a Betting,
    choice: usize,
}

impl Bound for HeldBetting<'_> {
    fn name(&self) -> &'static str {
        self.bound.name
    }

    fn statistics(&self) -> usize {
        1
    }

    fn coefficients(&self, seen: &Seen, h: &mut [f64]) {
        add_logs(&self.bound.choices[self.choice], self.bound.kappa, seen, h);
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
