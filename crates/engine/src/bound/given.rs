//! The betting bound for a policy that does not depend on the rows of the bound (MATH.md 5, "A given
//! policy"): P = Q, KL = 0, and the policy's own propensities in place of its decision rules, which
//! is tighter. With w = π(a_i|x_i)/max(π0(a_i|x_i), τ),
//!   z_i = w(c_i − ξ) + ξ Σ_a π(a|x_i) min(π0(a|x_i)/τ, 1) − κc_i,  S_λ = Σ_i ln(1 − λz_i).

use super::betting::{constant_of, expected_control};
use super::{Betting, Choice, ControlVariate, Seen};

/// π on one context: all of it, or of the logged actions only, a row each.
#[derive(Clone, Copy)]
pub enum Played<'a> {
    All(&'a [f64]),
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

/// `Betting`'s grid, penalty and value, with statistics that are no longer linear in the policy.
pub struct GivenBetting {
    pub betting: Betting,
}

impl GivenBetting {
    /// Adds Σ_j w_j ln(1 − λ z_j) of one context for each choice.
    pub fn add_statistics(&self, seen: &Seen, played: Played, out: &mut [f64]) {
        let context = &seen.context;
        let mut last: Option<(ControlVariate, f64, Centre)> = None;
        for (choice, out) in self.betting.choices.iter().zip(out) {
            // Choices of one constant follow one another; its expectation is the same.
            let centre = match last {
                Some((control, tau, centre))
                    if (control, tau) == (choice.control, choice.tau)
                        && control != ControlVariate::Shrunk =>
                {
                    centre
                }
                _ => Centre::new(choice, self.betting.kappa, seen, played),
            };
            last = Some((choice.control, choice.tau, centre));
            for j in 0..context.actions.len() {
                let z = centre.z(choice, self.betting.kappa, seen, played, j);
                *out += context.weights[j] * (-choice.lambda * z).ln_1p();
            }
        }
    }
}

/// What z has in common over a context's interactions.
///
/// For `Shrunk` it is the doubly robust z with the cost model multiplied by a number s(x) ∈ [0, 1]:
///   κ = 1: z_i = (w_i − 1)(c_i − sĉ(x_i, a_i)) + s Σ_a (π(a|x_i) m_a − π0(a|x_i)) ĉ(x_i, a)
///   κ = 0: z_i = w_i(c_i − sĉ(x_i, a_i)) + s Σ_a π(a|x_i) m_a ĉ(x_i, a),   m_a = min(π0(a|x_i)/τ, 1).
/// Since s and ĉ are functions of x, the terms in ĉ have mean 0 given x, and what is left has the mean
/// of MATH.md 5. z is affine in s; at s = 0 it is at most κ, so s can be chosen, by x alone, as the
/// largest for which no action and no cost in [−1, 0] makes z exceed 0.9/λ. No cap on λ through ĉ/τ
/// remains, and τ may be small.
#[derive(Clone, Copy)]
struct Centre {
    expected: f64,
    shrink: f64,
}

impl Centre {
    fn new(choice: &Choice, kappa: u8, seen: &Seen, played: Played) -> Self {
        if choice.control == ControlVariate::Constant(0.0) {
            return Centre { expected: 0.0, shrink: 1.0 };
        }
        match (played, seen.context.full) {
            (Played::All(pi), Some(full)) if choice.control == ControlVariate::Shrunk => {
                let model = seen.cost_model.unwrap_or(&[]);
                if model.len() != pi.len() {
                    return Centre { expected: f64::NAN, shrink: f64::NAN };
                }
                Centre::shrunk(pi, full, model, choice.tau, kappa, LIMIT / choice.lambda)
            }
            (Played::All(pi), Some(full)) => {
                let xi = constant_of(choice.control);
                let term = |(pi, &p): (&f64, &f64)| pi * expected_control(xi, p, choice.tau);
                Centre { expected: pi.iter().zip(full).map(term).sum(), shrink: 1.0 }
            }
            // Refused before a bound is made; NaN here can only end in an error.
            _ => Centre { expected: f64::NAN, shrink: f64::NAN },
        }
    }

    fn shrunk(pi: &[f64], full: &[f64], model: &[f64], tau: f64, kappa: u8, limit: f64) -> Self {
        let k = kappa as f64;
        let (mut expected, mut highest) = (0.0, f64::NEG_INFINITY);
        for a in 0..pi.len() {
            let cost = model[a].clamp(-1.0, 0.0);
            expected += (expected_control(pi[a], full[a], tau) - k * full[a]) * cost;
            let weight = pi[a] * super::clipped(full[a], tau) - k;
            // An action that π0 never plays is never logged. (π0 = 0 with τ = 0 has no weight at all.)
            if full[a] > 0.0 {
                highest = highest.max(weight * -cost).max(weight * (-1.0 - cost));
            }
        }
        let z = expected + highest;
        let shrink = if z > limit { (limit - k) / (z - k) } else { 1.0 };
        Centre { expected: shrink * expected, shrink }
    }

    fn z(&self, choice: &Choice, kappa: u8, seen: &Seen, played: Played, j: usize) -> f64 {
        let context = &seen.context;
        let action = context.actions[j] as usize;
        // The limit of a shrunk z was computed from π0(·|x), which may differ from the logged
        // propensity in its last digits.
        let propensity = match (choice.control, context.full) {
            (ControlVariate::Shrunk, Some(full)) => full[action],
            _ => context.propensities[j],
        };
        let weight = played.of(j, context.actions[j]) * super::clipped(propensity, choice.tau);
        let (k, cost) = (kappa as f64, context.costs[j]);
        if choice.control == ControlVariate::Shrunk {
            let model = seen.cost_model.map_or(f64::NAN, |m| m[action].clamp(-1.0, 0.0));
            (weight - k) * (cost - self.shrink * model) + self.expected
        } else {
            let xi = constant_of(choice.control);
            weight * (cost - xi) + self.expected - k * cost
        }
    }
}

/// λz stays below this.
const LIMIT: f64 = 0.9;

/// z of each interaction of one context under a shrunk cost model or ξ = 0, for choosing λ on rows
/// that the bound does not see.
pub fn z_values(choice: &Choice, kappa: u8, seen: &Seen, played: Played, out: &mut Vec<f64>) {
    let centre = Centre::new(choice, kappa, seen, played);
    out.extend((0..seen.context.actions.len()).map(|j| centre.z(choice, kappa, seen, played, j)));
}
