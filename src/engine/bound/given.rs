//! The betting bound for a policy that does not depend on the rows of the bound (MATH.md 5, "A given
//! policy"): P = Q, KL = 0, and the policy's own propensities in place of its decision rules, which
//! is tighter. With w = π(a_i|x_i)/max(π0(a_i|x_i), τ),
//!   z_i = w(c_i − ξ) + ξ Σ_a π(a|x_i) min(π0(a|x_i)/τ, 1) − κc_i,  S_λ = Σ_i ln(1 − λz_i).

use super::betting::{control_of, expected_control};
use super::{Betting, Choice, ControlVariate, Seen};

/// π on one context: all of it, or of the logged actions only, a row each.
#[derive(Clone, Copy)]
pub enum Played<'a> {
    All(&'a [f64]),
    Logged(&'a [f64]),
}

impl Played<'_> {
    /// π(a_j|x) of interaction j.
    fn of(&self, j: usize, action: u32) -> f64 {
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
        let mut last: Option<(ControlVariate, f64, f64)> = None;
        for (choice, out) in self.betting.choices.iter().zip(out) {
            // Choices of one control variate follow one another; its expectation is the same.
            let expected = match last {
                Some((control, tau, expected)) if (control, tau) == (choice.control, choice.tau) => expected,
                _ => self.expectation(choice, seen, played),
            };
            last = Some((choice.control, choice.tau, expected));
            for j in 0..context.actions.len() {
                let xi = control_of(choice.control, seen.cost_model, context.actions[j] as usize);
                let weight =
                    played.of(j, context.actions[j]) * super::clipped(context.propensities[j], choice.tau);
                let z = weight * (context.costs[j] - xi) + expected
                    - self.betting.kappa as f64 * context.costs[j];
                *out += context.weights[j] * (-choice.lambda * z).ln_1p();
            }
        }
    }

    /// Σ_a π(a|x) ξ(a) min(π0(a|x)/τ, 1).
    fn expectation(&self, choice: &Choice, seen: &Seen, played: Played) -> f64 {
        if choice.control == ControlVariate::Constant(0.0) {
            return 0.0;
        }
        match (played, seen.context.full) {
            (Played::All(pi), Some(full)) => (pi.iter().zip(full).enumerate())
                .map(|(a, (pi, &p))| {
                    pi * expected_control(control_of(choice.control, seen.cost_model, a), p, choice.tau)
                })
                .sum(),
            // Refused before a bound is made; NaN here can only end in an error.
            _ => f64::NAN,
        }
    }
}
