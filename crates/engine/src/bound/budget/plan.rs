//! What is fixed on the learn side: the center, the slopes, and the budget of a play.

use serde::{Deserialize, Serialize};

use super::RESERVE;
use super::foreseen::Foreseen;
use super::shape::{Shape, Square};
use crate::numerics::elementary::{exp_m1, ln, ln_1p};

/// The slopes that are tried, in units of one over the standard deviation of the sum.
const LOWS: [f64; 7] = [-5.0, -3.0, -1.5, -0.5, 0.5, 1.0, 1.5];
const HIGHS: [f64; 4] = [3.0, 4.5, 6.5, 10.0];
/// ρ(z − m) is at most this.
const LIMIT: f64 = 0.9;
/// How many standard errors the budget is above the variance that is expected. Chosen on simulated logs.
const ERRORS: f64 = 1.25;
/// The standard error of what is used counts as at least this share of it.
const LEAST_ERROR: f64 = 0.01;
/// How many standard errors V_n may be from what is expected, with weights: the width is averaged over these.
const LIKELY: [(f64, f64); 4] = [(-1.0, 0.3), (0.0, 0.35), (1.0, 0.3), (2.5, 0.05)];
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

/// What is known on the learn side about the plays of the certify side.
struct Known<'a> {
    plays: &'a [f64],
    foreseen: Option<&'a Foreseen>,
    /// The number of contexts on the certify side.
    contexts: f64,
}

impl Plan {
    /// The plan for a bound on `contexts` contexts at δ that would be narrowest if its plays were like these, which
    /// it does not use, and like those that a cost model foresees. None if one constant bet `lambda` would be as narrow.
    pub fn choose(
        plays: &[f64],
        foreseen: Option<&Foreseen>,
        kappa: u8,
        contexts: u64,
        lambda: f64,
        delta: f64,
    ) -> Option<Plan> {
        let (count, n) = (plays.len() as f64, contexts as f64);
        if plays.len() < FEWEST || n < FEWEST as f64 || plays.iter().any(|z| !z.is_finite()) {
            return None;
        }
        let foreseen = foreseen.filter(|foreseen| {
            foreseen.contexts() >= FEWEST
                && foreseen.plays.iter().all(|(z, p)| z.is_finite() && p.is_finite())
        });
        let center = plays.iter().sum::<f64>() / count;
        let variance = plays.iter().map(|z| (z - center) * (z - center)).sum::<f64>() / count;
        let scale = (n * variance).sqrt();
        let room = f64::from(kappa) - center;
        if !(scale > 1e-9 && scale < 1e12 && room > 0.0) {
            return None;
        }
        let logs = plays.iter().map(|z| ln_1p(-(lambda * z).min(LIMIT))).sum::<f64>() / count;
        let one = n * (-exp_m1(logs - ln(1.0 / delta) / n) / lambda - center);
        let known = Known { plays, foreseen, contexts: n };
        let mut best: Option<(f64, Plan)> = None;
        for (high, low) in HIGHS.iter().flat_map(|high| LOWS.iter().map(move |low| (*high, *low))) {
            let (high, low) = ((high / scale).min(LIMIT / room), low / scale);
            if low.abs() >= 0.95 * high {
                continue;
            }
            let (plan, raised) = known.with_slopes(center, low, high);
            let shape =
                Shape::narrowest(low, high, n * plan.budget, &plan.likely(n), delta * (1.0 - RESERVE));
            let width = shape.1 + n * raised;
            if width < best.map_or(WORTHWHILE * one, |(width, _)| width) {
                best = Some((width, plan));
            }
        }
        best.map(|(_, plan)| plan)
    }

    /// What the plays of so many contexts may use of the budget, with the weight of each possibility.
    pub fn likely(&self, contexts: f64) -> [(f64, f64); LIKELY.len()] {
        let error = (self.budget - self.expected) / ERRORS;
        LIKELY.map(|(errors, weight)| ((self.expected + errors * error).max(0.0) * contexts, weight))
    }

    /// The λ for which control variates are shrunk, so that ρ(z − m) is at most 0.9.
    pub fn limit(&self) -> f64 {
        LIMIT / (self.center + LIMIT / self.high)
    }
}

impl Known<'_> {
    /// The plan with these slopes, and by how much it raises the mean of the plays.
    fn with_slopes(&self, center: f64, low: f64, high: f64) -> (Plan, f64) {
        let square = Square::new(low, high);
        let raised = |play: f64| play.max(center - square.reach());
        let used = |play: f64| square.of((raised(play) - center).min(LIMIT / high));
        let (mut bias, mut sum, mut sum2) = (0.0, 0.0, 0.0);
        for &play in self.plays {
            let own = used(play);
            bias += raised(play) - play;
            sum += own;
            sum2 += own * own;
        }
        let count = self.plays.len() as f64;
        let relative = |square: f64, mean: f64| (square / (mean * mean) - 1.0).max(0.0);
        let (mut expected, mut bias) = (sum / count, bias / count);
        let logged = (relative(sum2 / count, expected) / count).sqrt();
        let (mut spread, mut doubt) = (relative(sum2 / count, expected), logged);
        if let Some(foreseen) = self.foreseen {
            // The model knows the variance better than a few large plays do, as long as they do not contradict it.
            let model = foreseen.moments(used);
            let (least, most) = (expected * (1.0 - logged), expected * (1.0 + logged));
            if model.mean >= least && model.mean <= most {
                doubt = (relative(model.between, model.mean) / foreseen.contexts() as f64).sqrt();
                (expected, spread) = (model.mean, relative(model.square, model.mean));
                bias = foreseen.moments(|play| raised(play) - play).mean;
            } else {
                expected = model.mean.clamp(least, most);
            }
        }
        let error = (spread / self.contexts + doubt * doubt).sqrt().max(LEAST_ERROR);
        (Plan { center, low, high, budget: expected * (1.0 + ERRORS * error), expected }, bias)
    }
}
