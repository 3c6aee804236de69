//! What a given policy makes of a logged interaction, docs/math.md#given-policy: a number z whose mean is at least
//! R(π) − κR(π0), as an affine function of the factor θ of the control variate.
//!
//!   z = u + θv,   u = (w_a − κ)c,   v = −(w_a − κ)ĉ(x, a) + Σ_b (π(b|x) m_b − κπ0(b|x)) ĉ(x, b),
//!   w_a = π(a|x)/max(π0(a|x), τ),   m_b = min(π0(b|x)/τ, 1), and 0 if π0(b|x) = 0
//!
//! v has mean 0 given x, whatever ĉ is. So θ may be any function of x and of what was played before.

use super::{Seen, clipped, impossible};
use crate::error::{EngineError, Result};

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

/// What is subtracted from costs to make z vary less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlVariate {
    /// Nothing. Only the propensity of the logged action is needed.
    None,
    /// The constant −1, times θ. It needs π0(·|x) and π(·|x).
    Constant,
    /// The cost model ĉ(x, a), times θ. It needs π0(·|x) and π(·|x).
    CostModel,
}

/// z = u + θv of one interaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Play {
    /// z without a control variate.
    pub u: f64,
    /// What the control variate adds at θ = 1.
    pub v: f64,
}

impl Play {
    /// z.
    pub fn z(&self, theta: f64) -> f64 {
        self.u + theta * self.v
    }
}

/// How z is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// κ: 1 for R(π) − R(π0), 0 for R(π).
    pub kappa: u8,
    /// The control variate.
    pub control: ControlVariate,
    /// τ, the clipping level. Clipping only loosens a bound of a given policy, so the engine uses 0.
    pub tau: f64,
}

impl Rules {
    /// π(a|x)/max(π0(a|x), τ).
    #[inline(always)]
    pub fn weight(&self, played: f64, propensity: f64) -> f64 {
        played * clipped(propensity, self.tau)
    }

    /// Appends u and v of each interaction of one context. Returns the largest z at θ = 1 that any action and any
    /// cost in [−1, 0] could have made, which is a function of x; at θ = 0 it is κ at most.
    ///
    /// # Errors
    /// If there is a control variate, and the propensities of all actions or the cost model are missing.
    pub fn plays(&self, seen: &Seen, played: Played, out: &mut Vec<Play>) -> Result<f64> {
        let (context, kappa) = (&seen.context, f64::from(self.kappa));
        let model = match self.control {
            ControlVariate::None => {
                out.extend((0..context.actions.len()).map(|j| {
                    let weight = self.weight(played.of(j, context.actions[j]), context.propensities[j]);
                    Play { u: (weight - kappa) * context.costs[j], v: 0.0 }
                }));
                return Ok(kappa);
            }
            ControlVariate::Constant => None,
            ControlVariate::CostModel => {
                Some(seen.cost_model.ok_or_else(|| impossible("the cost model is missing"))?)
            }
        };
        let (Played::All(pi), Some(full)) = (played, context.full) else {
            return Err(impossible("a control variate needs the propensities of all actions"));
        };
        if full.len() != pi.len() || model.is_some_and(|model| model.len() != pi.len()) {
            return Err(wrong_length());
        }
        let modeled = |a: usize| model.map_or(-1.0, |model| model[a].clamp(-1.0, 0.0));
        // The logged propensity may differ from π0(·|x) in its last digits, and the largest z must cover it.
        let weight = |a: usize| pi[a] * clipped(full[a], self.tau) - kappa;
        let (mut expected, mut highest) = (0.0, f64::NEG_INFINITY);
        for a in (0..pi.len()).filter(|&a| full[a] > 0.0) {
            let (cost, reached) = (modeled(a), if full[a] >= self.tau { 1.0 } else { full[a] / self.tau });
            expected += (pi[a] * reached - kappa * full[a]) * cost;
            // An action that π0 never plays is never logged.
            highest = highest.max(weight(a) * -cost).max(weight(a) * (-1.0 - cost));
        }
        for j in 0..context.actions.len() {
            let a = context.actions[j] as usize;
            if full[a] <= 0.0 {
                return Err(EngineError::Log("a logged action has the propensity 0".into()));
            }
            out.push(Play { u: weight(a) * context.costs[j], v: expected - weight(a) * modeled(a) });
        }
        Ok(expected + highest)
    }
}

/// The largest θ up to `theta` that keeps λz at or below 0.9: z ≤ κ + θ(top − κ), because z is affine in θ and at
/// most κ at θ = 0.
#[inline]
pub fn shrunk(theta: f64, top: f64, lambda: f64, kappa: f64) -> f64 {
    let room = (LIMIT / lambda - kappa).max(0.0);
    let reach = top - kappa;
    if theta * reach > room { room / reach } else { theta }
}

/// λz stays at or below this.
const LIMIT: f64 = 0.9;

fn wrong_length() -> EngineError {
    impossible("the propensities and the cost model have different numbers of actions")
}
