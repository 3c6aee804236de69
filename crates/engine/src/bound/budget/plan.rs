//! What is fixed on the learn side: the center, the slopes, and the budget of a play.

use serde::{Deserialize, Serialize};

use super::RESERVE;
use super::shape::{Shape, Square};
use crate::numerics::elementary::{exp_m1, ln, ln_1p};

/// The slopes that are tried, in units of one over the standard deviation of the sum.
const LOWS: [f64; 7] = [-5.0, -3.0, -1.5, -0.5, 0.5, 1.0, 1.5];
const HIGHS: [f64; 4] = [3.0, 4.5, 6.5, 10.0];
/// ρ(z − m) is at most this.
const LIMIT: f64 = 0.9;
/// How many standard errors the budget is above the variance that is expected. Chosen on simulated logs.
const ERRORS: f64 = 2.0;
/// The budget is at least this much above it.
const LEAST_MARGIN: f64 = 0.01;
/// Plans are not made from fewer plays than this, nor for fewer contexts.
const FEWEST: usize = 50;
/// A plan must promise a width below this share of that of one constant bet.
const WORTHWHILE: f64 = 0.995;

/// What bets with a budget for the variance need to know before the first play.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// m, from which squares are taken.
    pub center: f64,
    /// p, the slope above the knee.
    pub low: f64,
    /// ρ, the slope below the knee.
    pub high: f64,
    /// The budget of a play.
    pub budget: f64,
    /// What a play is expected to use of it.
    pub expected: f64,
}

impl Plan {
    /// The plan for a bound on `contexts` contexts at δ that would be narrowest if its plays were like these, which
    /// it does not use. None if one constant bet `lambda` would be as narrow.
    pub fn choose(plays: &[f64], kappa: u8, contexts: u64, lambda: f64, delta: f64) -> Option<Plan> {
        let (count, n) = (plays.len() as f64, contexts as f64);
        if plays.len() < FEWEST || n < FEWEST as f64 || plays.iter().any(|z| !z.is_finite()) {
            return None;
        }
        let center = plays.iter().sum::<f64>() / count;
        let variance = plays.iter().map(|z| (z - center) * (z - center)).sum::<f64>() / count;
        let scale = (n * variance).sqrt();
        let room = f64::from(kappa) - center;
        if !(scale > 1e-9 && scale < 1e12 && room > 0.0) {
            return None;
        }
        let logs = plays.iter().map(|z| ln_1p(-(lambda * z).min(LIMIT))).sum::<f64>() / count;
        let one = n * (-exp_m1(logs - ln(1.0 / delta) / n) / lambda - center);
        let mut best: Option<(f64, Plan)> = None;
        for (high, low) in HIGHS.iter().flat_map(|high| LOWS.iter().map(move |low| (*high, *low))) {
            let (high, low) = ((high / scale).min(LIMIT / room), low / scale);
            if low.abs() >= 0.95 * high {
                continue;
            }
            let (plan, raised) = Plan::with_slopes(plays, center, (low, high), n);
            let (budget, expected) = (n * plan.budget, n * plan.expected);
            let width = Shape::narrowest(low, high, budget, expected, delta * (1.0 - RESERVE)).1 + n * raised;
            if width < best.map_or(WORTHWHILE * one, |(width, _)| width) {
                best = Some((width, plan));
            }
        }
        best.map(|(_, plan)| plan)
    }

    /// The plan with these slopes, and by how much it raises the mean of the plays.
    fn with_slopes(plays: &[f64], center: f64, (low, high): (f64, f64), n: f64) -> (Plan, f64) {
        let square = Square::new(low, high);
        let (mut raised, mut sum, mut sum2) = (0.0, 0.0, 0.0);
        for &play in plays {
            let z = play.max(center - square.reach());
            let used = square.of((z - center).min(LIMIT / high));
            raised += z - play;
            sum += used;
            sum2 += used * used;
        }
        let count = plays.len() as f64;
        let expected = sum / count;
        let relative = (sum2 / count / (expected * expected) - 1.0).max(0.0);
        let margin = (ERRORS * (relative * (1.0 / count + 1.0 / n)).sqrt()).max(LEAST_MARGIN);
        (Plan { center, low, high, budget: expected * (1.0 + margin), expected }, raised / count)
    }

    /// The λ for which control variates are shrunk, so that ρ(z − m) is at most 0.9.
    pub fn limit(&self) -> f64 {
        LIMIT / (self.center + LIMIT / self.high)
    }
}
