//! Bets with a budget for the variance, docs/math.md#budget: one bound on the average of E[z_t | the past] that holds
//! whatever the logging policy learned, and is narrower than one constant bet.
//!
//! S_t = Σ(E[z_i | the past] − z_i) is not observed, but V_t = Σ Q(z_i − m) is. For a budget B that was fixed beforehand,
//! u(s, v) = E f(s + √(B − v)·G) with a normal G is a supermartingale along (S_t, V_t) as long as V_t ≤ B, and beyond it
//! e^{−ρ²(v − B)/2}·f(s) is one. So u(S_n, V_n) reaches u(0, 0)/δ with probability δ at most. f is convex, and the slope of
//! ln f″ is between p and ρ: ρ below the knee a, and p above it. A small share is one constant bet, in case that the budget is
//! far exceeded.

mod foreseen;
mod plan;
mod shape;

pub use foreseen::Foreseen;
pub use plan::Plan;
pub use shape::{Shape, Square};

use super::aimed::Start;
use super::impossible;
use super::mixture::{LOWEST, ROUNDING, in_order_of_arrival};
use super::table::Table;
use crate::error::{EngineError, Result};
use crate::numerics::elementary::{exp, ln, ln_1p};
use crate::numerics::sum::Sum;

/// The share of δ of the constant bet that counts if the budget is far exceeded.
pub const RESERVE: f64 = 0.03;

/// The variance that was used is raised by this share for the rounding of its terms and of their sum.
const RAISED: f64 = 1e-9;

/// A bound by bets with a budget for the variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    plan: Plan,
    shape: Shape,
    /// B.
    budget: f64,
    /// λ of the constant bet.
    lambda: f64,
    delta: f64,
}

/// What the bets found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kept {
    /// The smallest D that is rejected: an upper bound.
    pub value: f64,
    /// V_n, the part of the budget that was used.
    pub spent: f64,
    /// Σ ln(1 − λz) of the constant bet.
    pub log_sum: f64,
    /// The last factor of the control variate.
    pub theta: f64,
}

/// Sums over all plays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sums {
    /// Σz, with z raised to the lowest value that counts.
    pub z: f64,
    /// V_n.
    pub spent: f64,
    /// Σ ln(1 − λz) of the constant bet.
    pub logs: f64,
}

impl Budget {
    /// The bets of a plan for so many contexts, with the constant bet that `lambda` gives for a share of δ. All of it must
    /// be fixed before the first play.
    pub fn new(plan: Plan, contexts: f64, lambda: impl Fn(f64) -> f64, delta: f64) -> Self {
        let (budget, likely) = (plan.budget * contexts, plan.likely(contexts));
        let shape = Shape::narrowest(plan.low, plan.high, budget, &likely, delta * (1.0 - RESERVE)).0;
        Budget { plan, shape, budget, lambda: lambda(delta * RESERVE), delta }
    }

    /// B.
    pub fn budget(&self) -> f64 {
        self.budget
    }

    /// a, where the payoff bends.
    pub fn knee(&self) -> f64 {
        self.shape.knee
    }

    /// λ of the constant bet.
    pub fn lambda(&self) -> f64 {
        self.lambda
    }

    /// The bound on plays in order of arrival, on `contexts` contexts. Earlier plays choose the control variate's
    /// factor, unless it is fixed.
    ///
    /// # Errors
    /// If a sum is not finite, or contexts have several plays: those of one context share x, so their squares do not add
    /// up to the variance of its mean.
    pub fn bound(&self, table: &Table, contexts: f64, start: Start) -> Result<Kept> {
        if table.weighted() {
            return Err(impossible("a budget for the variance needs contexts with one play each"));
        }
        let square = Square::new(self.plan.low, self.plan.high);
        let (mut z, mut spent, mut logs) = (Sum::default(), Sum::default(), 0.0);
        let theta = in_order_of_arrival(table, start, |range, theta| {
            logs += table.bets(range.clone(), theta, self.lambda).logs;
            table.each(range, theta, self.plan.limit(), |play| {
                let play = play.max(self.plan.center - square.reach());
                z.add(play);
                spent.add(square.of(play - self.plan.center));
            });
        });
        let sums = Sums { z: z.value(), spent: spent.value(), logs };
        let value = self.invert(&sums, contexts, table.kappa())?;
        Ok(Kept { value, spent: sums.spent, log_sum: logs, theta })
    }

    /// The smallest rejected D, if z ≤ `highest`.
    ///
    /// # Errors
    /// If a sum is not a number.
    pub fn invert(&self, sums: &Sums, contexts: f64, highest: f64) -> Result<f64> {
        let Sums { z, spent, logs } = *sums;
        if z.is_nan() || spent.is_nan() || logs.is_nan() || logs == f64::INFINITY {
            return Err(EngineError::Numerical("a sum over the bets is not finite".into()));
        }
        let spent = spent * (1.0 + RAISED);
        let first = ln(self.shape.value(0.0, self.budget));
        if !first.is_finite() {
            return Err(EngineError::Numerical("the budget's first wealth is not finite".into()));
        }
        // The rounding of the sums, which could otherwise tip the balance.
        let target = ln(1.0 / self.delta) + ROUNDING * (1.0 + contexts);
        let total = |d: f64| {
            let reserve = ln(RESERVE) + logs - contexts * ln_1p(-self.lambda * d);
            let main = ln(1.0 - RESERVE) + self.shape.log_value(contexts * d - z, self.budget, spent) - first;
            let most = main.max(reserve);
            if most.is_finite() { most + ln(exp(main - most) + exp(reserve - most)) } else { most }
        };
        // D ≤ `highest` always holds.
        let (mut low, mut high) = (LOWEST, highest);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if total(middle) >= target { high = middle } else { low = middle }
        }
        Ok(high)
    }
}
