//! The betting bound for a given policy, docs/math.md#given-policy: one that does not depend on the rows
//! of the bound.
//!
//!   R(π) − κR(π0) ≤ (1 − exp((S_λ − ln(N/δ))/n))/λ,  S_λ = Σ_i ln(1 − λz_i),
//!   z_i = w_i(c_i − ξ) + ξ Σ_a π(a|x_i) min(π0(a|x_i)/τ, 1) − κc_i,  w_i = π(a_i|x_i)/max(π0(a_i|x_i), τ)
//!
//! P = Q and KL = 0. The policy's own propensities take the place of its decision rules, which is tighter.
//! ξ = 0 needs logged propensities only; ξ < 0 and the cost model need π0(·|x) and π(·|x).

use super::betting::expected_control;
use super::{Betting, Choice, ControlVariate, Seen, clipped, impossible};
use crate::error::{EngineError, Result};
use crate::numerics::elementary::ln_1p;

/// A policy's propensities on one context.
#[derive(Clone, Copy)]
pub enum Played<'a> {
    /// π(·|x) of all actions.
    All(&'a [f64]),
    /// π(a_j|x) of the logged action of each interaction.
    Logged(&'a [f64]),
}

impl Played<'_> {
    /// π(a_j|x) of interaction j.
    pub fn of(&self, j: usize, action: u32) -> f64 {
        match self {
            Played::All(pi) => pi[action as usize],
            Played::Logged(pi) => pi[j],
        }
    }
}

/// The bound for a given policy. It has the grid, penalty and value of [`Betting`], but its statistics are
/// not linear in the policy.
pub struct GivenBetting {
    /// The grid, κ and δ.
    pub betting: Betting,
}

impl GivenBetting {
    /// Adds Σ_j w_j ln(1 − λz_j) of one context for each member of the grid.
    ///
    /// # Errors
    /// If ξ is below 0 or a cost model is in use, and the propensities of all actions or the cost model are
    /// missing.
    pub fn add_statistics(&self, seen: &Seen, played: Played, out: &mut [f64]) -> Result<()> {
        let context = &seen.context;
        let mut last: Option<(f64, f64, Center)> = None;
        for (choice, out) in self.betting.choices.iter().zip(out) {
            // Members with the same ξ and τ are adjacent and have the same expectation.
            let center = match (last, choice.control) {
                (Some((xi, tau, center)), ControlVariate::Constant(same))
                    if (xi, tau) == (same, choice.tau) =>
                {
                    center
                }
                _ => Center::new(choice, self.betting.kappa, seen, played)?,
            };
            last = match choice.control {
                ControlVariate::Constant(xi) => Some((xi, choice.tau, center)),
                ControlVariate::Shrunk => None,
            };
            for j in 0..context.actions.len() {
                let z = center.z(choice, self.betting.kappa, seen, played, j);
                *out += context.weights[j] * ln_1p(-choice.lambda * z);
            }
        }
        Ok(())
    }
}

/// The part of z that is the same for all interactions of a context.
///
/// With the cost model, docs/math.md#cost-model, the model is multiplied by a number s(x) ∈ [0, 1]:
///   κ = 1: z_i = (w_i − 1)(c_i − sĉ(x_i, a_i)) + s Σ_a (π(a|x_i) m_a − π0(a|x_i)) ĉ(x_i, a)
///   κ = 0: z_i = w_i(c_i − sĉ(x_i, a_i)) + s Σ_a π(a|x_i) m_a ĉ(x_i, a),   m_a = min(π0(a|x_i)/τ, 1)
/// Both s and ĉ are functions of x, so the terms in ĉ have mean 0 given x. z is affine in s and at most κ
/// at s = 0. Therefore s can be the largest number, computed from x alone, for which no action and no cost
/// in [−1, 0] makes z exceed 0.9/λ.
#[derive(Clone, Copy)]
struct Center<'a> {
    /// ξ Σ_a π(a|x) m_a, or the sum over ĉ with its factor s.
    expected: f64,
    control: Subtracted<'a>,
}

/// What is subtracted from the cost of an interaction.
#[derive(Clone, Copy)]
enum Subtracted<'a> {
    /// ξ, the same for all actions.
    Constant(f64),
    /// s times ĉ(x, ·).
    Shrunk { shrink: f64, full: &'a [f64], model: &'a [f64] },
}

impl<'a> Center<'a> {
    fn new(choice: &Choice, kappa: u8, seen: &Seen<'a>, played: Played) -> Result<Self> {
        let xi = match choice.control {
            ControlVariate::Constant(0.0) => {
                return Ok(Center { expected: 0.0, control: Subtracted::Constant(0.0) });
            }
            ControlVariate::Constant(xi) => Some(xi),
            ControlVariate::Shrunk => None,
        };
        let (Played::All(pi), Some(full)) = (played, seen.context.full) else {
            return Err(impossible("a control variate needs the propensities of all actions"));
        };
        let same_length = |other: &[f64]| other.len() == pi.len();
        if !same_length(full) {
            return Err(wrong_length());
        }
        let Some(xi) = xi else {
            let model = seen.cost_model.ok_or_else(|| impossible("the cost model is missing"))?;
            return match same_length(model) {
                true => Ok(Center::shrunk(pi, full, model, choice.tau, kappa, LIMIT / choice.lambda)),
                false => Err(wrong_length()),
            };
        };
        let term = |(pi, &p): (&f64, &f64)| pi * expected_control(xi, p, choice.tau);
        Ok(Center { expected: pi.iter().zip(full).map(term).sum(), control: Subtracted::Constant(xi) })
    }

    fn shrunk(pi: &[f64], full: &'a [f64], model: &'a [f64], tau: f64, kappa: u8, limit: f64) -> Self {
        let k = kappa as f64;
        let (mut expected, mut highest) = (0.0, f64::NEG_INFINITY);
        for a in 0..pi.len() {
            let cost = model[a].clamp(-1.0, 0.0);
            expected += (expected_control(pi[a], full[a], tau) - k * full[a]) * cost;
            let weight = pi[a] * clipped(full[a], tau) - k;
            // An action that π0 never plays is never logged. (π0 = 0 with τ = 0 has no weight at all.)
            if full[a] > 0.0 {
                highest = highest.max(weight * -cost).max(weight * (-1.0 - cost));
            }
        }
        let z = expected + highest;
        let shrink = if z > limit { (limit - k) / (z - k) } else { 1.0 };
        Center { expected: shrink * expected, control: Subtracted::Shrunk { shrink, full, model } }
    }

    /// z of interaction j.
    fn z(&self, choice: &Choice, kappa: u8, seen: &Seen, played: Played, j: usize) -> f64 {
        let context = &seen.context;
        let action = context.actions[j] as usize;
        let (k, cost) = (kappa as f64, context.costs[j]);
        let weight = |propensity: f64| played.of(j, context.actions[j]) * clipped(propensity, choice.tau);
        match self.control {
            // The limit on z was computed from π0(·|x), which may differ from the logged propensity in its
            // last digits.
            Subtracted::Shrunk { shrink, full, model } => {
                let model = model[action].clamp(-1.0, 0.0);
                (weight(full[action]) - k) * (cost - shrink * model) + self.expected
            }
            Subtracted::Constant(xi) => {
                weight(context.propensities[j]) * (cost - xi) + self.expected - k * cost
            }
        }
    }
}

/// λz stays at or below this.
const LIMIT: f64 = 0.9;

fn wrong_length() -> EngineError {
    impossible("the propensities and the cost model have different numbers of actions")
}

/// Appends z of each interaction of one context, for choosing λ on rows that the bound does not use.
///
/// # Errors
/// As [`GivenBetting::add_statistics`].
pub fn z_values(choice: &Choice, kappa: u8, seen: &Seen, played: Played, out: &mut Vec<f64>) -> Result<()> {
    let center = Center::new(choice, kappa, seen, played)?;
    out.extend((0..seen.context.actions.len()).map(|j| center.z(choice, kappa, seen, played, j)));
    Ok(())
}
