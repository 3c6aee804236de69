//! A mixture of constant bets, docs/math.md#mixture: D is rejected if
//!
//!   Σ_k w_k Π_i (1 − λ_k z_i)/(1 − λ_k D) ≥ 1/δ.
//!
//! It is never worse than the union bound over the same λ, holds at every n at once, and covers the average of
//! E[z_i | the past]. The left side increases in D, so the smallest rejected D is found by bisection.

use std::ops::Range;

use rayon::prelude::*;

use super::aimed::Start;
use super::betting::lambda_grid;
use super::table::{Moments, Table};
use crate::error::{EngineError, Result};
use crate::numerics::elementary::{exp, ln, ln_1p};

/// The control variate's factor is chosen again whenever this many plays have doubled. The number does not depend on
/// n, so that appended rows change no factor of earlier ones.
const FIRST_REFRESH: usize = 16;

/// A bound on the rounding of a sum of logarithms, per context.
pub const ROUNDING: f64 = 1e-12;

/// No D below this is tried: R(π) − R(π0) is at least −1.
pub const LOWEST: f64 = -2.0;

/// One constant bet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Member {
    /// λ, the size of the bet.
    pub lambda: f64,
    /// Its share of the mixture.
    pub share: f64,
    /// The control variate's factor, if it is the same for all plays. Otherwise earlier plays choose it.
    pub theta: Option<f64>,
}

/// A mixture of constant bets.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    /// The bets. Their shares sum to 1.
    pub members: Vec<Member>,
    /// δ, the probability, at most, that the bound is violated.
    pub delta: f64,
}

/// What a mixture found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// The smallest D that is rejected: an upper bound.
    pub value: f64,
    /// λ of the member with the largest part of the wealth there.
    pub lambda: f64,
    /// Σ ln(1 − λz) of that member.
    pub log_sum: f64,
    /// The factor of the control variate: that of the member, or the last one.
    pub theta: Option<f64>,
}

impl Mixture {
    /// The mixture in equal shares of λ_max·2^{−k/2}, k = 0, …, 31.
    pub fn of_grid(kappa: u8, delta: f64) -> Self {
        Mixture::of_grids(kappa, &[None], delta)
    }

    /// The same with each of these factors of the control variate. No factor depends on other plays, so the order of
    /// the plays does not matter, and rows can be added anywhere.
    pub fn in_any_order(kappa: u8, thetas: &[f64], delta: f64) -> Self {
        let thetas: Vec<Option<f64>> = thetas.iter().copied().map(Some).collect();
        Mixture::of_grids(kappa, &thetas, delta)
    }

    fn of_grids(kappa: u8, thetas: &[Option<f64>], delta: f64) -> Self {
        // The grid for z ≤ κ.
        let grid = lambda_grid(0.0, 0.0, kappa);
        let share = 1.0 / (grid.len() * thetas.len()) as f64;
        let member = |theta: Option<f64>, lambda: f64| Member { lambda, share, theta };
        let members = thetas.iter().flat_map(|&theta| grid.iter().map(move |c| member(theta, c.lambda)));
        Mixture { members: members.collect(), delta }
    }

    /// One constant bet.
    pub fn one(lambda: f64, delta: f64) -> Self {
        Mixture { members: vec![Member { lambda, share: 1.0, theta: None }], delta }
    }

    /// The bound on plays in order of arrival, on `contexts` contexts. Earlier plays choose the control variate's
    /// factor, unless it is fixed.
    ///
    /// # Errors
    /// If a sum is not finite.
    pub fn bound(&self, table: &Table, contexts: f64, start: Start) -> Result<Found> {
        let mut sums = vec![0.0; self.members.len()];
        let last = in_order_of_arrival(table, start, |range, theta| {
            self.members.par_iter().zip(&mut sums).for_each(|(member, sum)| {
                *sum += table.logs(range.clone(), member.theta.unwrap_or(theta), member.lambda);
            });
        });
        let found = self.invert(&sums, contexts, table.kappa())?;
        Ok(Found { theta: found.theta.or(Some(last)), ..found })
    }

    /// The smallest rejected D, given Σ ln(1 − λz) of each member, if z ≤ `highest`.
    ///
    /// # Errors
    /// If a sum is not finite.
    pub fn invert(&self, sums: &[f64], contexts: f64, highest: f64) -> Result<Found> {
        // −∞ is a member that has lost everything.
        if sums.iter().any(|sum| sum.is_nan() || *sum == f64::INFINITY) {
            return Err(EngineError::Numerical("a sum of logarithms is not finite".into()));
        }
        // The rounding of the sums, which could otherwise tip the balance.
        let target = ln(1.0 / self.delta) + ROUNDING * (1.0 + contexts);
        let wealth = |k: usize, d: f64| {
            let Member { lambda, share, .. } = self.members[k];
            ln(share) + sums[k] - contexts * ln_1p(-lambda * d)
        };
        let total = |d: f64| {
            let parts: Vec<f64> = (0..sums.len()).map(|k| wealth(k, d)).collect();
            let max = parts.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if max == f64::NEG_INFINITY {
                return max;
            }
            max + ln(parts.iter().map(|part| exp(part - max)).sum::<f64>())
        };
        // D ≤ `highest` always holds.
        let (mut low, mut high) = (LOWEST, highest);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if total(middle) >= target { high = middle } else { low = middle }
        }
        let most = (0..sums.len()).max_by(|&a, &b| wealth(a, high).total_cmp(&wealth(b, high))).unwrap_or(0);
        let Member { lambda, theta, .. } = self.members[most];
        Ok(Found { value: high, lambda, log_sum: sums[most], theta })
    }
}

/// Shows plays in order of arrival, with the factor of the control variate that the plays before them choose, unless it
/// is fixed. Returns the last factor.
pub fn in_order_of_arrival(table: &Table, start: Start, mut play: impl FnMut(Range<usize>, f64)) -> f64 {
    let mut last = start.theta;
    let (mut past, mut first, mut end) = (Moments::default(), 0, FIRST_REFRESH);
    while first < table.len() {
        let range = first..end.min(table.len());
        let theta = if start.fixed { start.theta } else { past.theta(start.theta, start.strength) };
        play(range.clone(), theta);
        // Without a control variate there is no factor to choose.
        if table.controlled() && !start.fixed {
            past.add(&table.moments(range));
        }
        (first, end, last) = (end, 2 * end, theta);
    }
    last
}
