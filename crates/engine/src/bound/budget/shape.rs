//! The payoff f and its expectation under a normal distribution, and the square Q that goes with it.

use crate::numerics::elementary::{exp, ln, ln_1p};
use crate::numerics::special::{cdf, cdf_and_hazard, density};

/// A convex payoff f with f″(s) = e^{ρ(s − a)} below the knee a and e^{p(s − a)} above it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// p, which is not 0, and |p| < ρ.
    pub low: f64,
    /// ρ > 0.
    pub high: f64,
    /// a.
    pub knee: f64,
}

/// Below this share of the budget, what is left of it counts as nothing.
const NOTHING: f64 = 1e-12;
/// The knee is between 0 and this many standard deviations.
const FURTHEST: f64 = 4.0;

impl Shape {
    /// The shape whose bound is narrowest on average if V_n may turn out as each of `likely`, a value and its weight, and
    /// that average width.
    pub fn narrowest(low: f64, high: f64, budget: f64, likely: &[(f64, f64)], delta: f64) -> (Self, f64) {
        let scale = budget.sqrt();
        let at = |knee: f64| {
            let shape = Shape { low, high, knee: knee * scale };
            let target = ln(shape.value(0.0, budget)) - ln(delta);
            let width = |&(spent, weight): &(f64, f64)| weight * shape.width(budget, spent, target);
            (shape, likely.iter().map(width).sum::<f64>())
        };
        // Golden section. The width has one minimum; if it had more, the bound would be valid but wider.
        const GOLDEN: f64 = 0.618_033_988_749_894_9;
        let (mut left, mut right) = (0.0, FURTHEST);
        let (mut a, mut b) = (right - GOLDEN * (right - left), left + GOLDEN * (right - left));
        let (mut at_a, mut at_b) = (at(a), at(b));
        for _ in 0..20 {
            if at_a.1 <= at_b.1 {
                (right, b, at_b) = (b, a, at_a);
                a = right - GOLDEN * (right - left);
                at_a = at(a);
            } else {
                (left, a, at_a) = (a, b, at_b);
                b = left + GOLDEN * (right - left);
                at_b = at(b);
            }
        }
        if at_a.1 <= at_b.1 { at_a } else { at_b }
    }

    /// The smallest s with ln u(s, spent) ≥ `target`.
    fn width(&self, budget: f64, spent: f64, target: f64) -> f64 {
        let (mut low, mut high) = (0.0, 16.0 * budget.sqrt());
        for _ in 0..32 {
            let middle = 0.5 * (low + high);
            if self.log_value(middle, budget, spent) >= target { high = middle } else { low = middle }
        }
        high
    }

    /// ln u(s, v) for v = `spent`: E f(s + √(B − v)·G) up to the budget, and e^{−ρ²(v − B)/2}·f(s) beyond it. Minus infinity
    /// if it is not a number.
    pub fn log_value(&self, s: f64, budget: f64, spent: f64) -> f64 {
        let over = (spent - budget).max(0.0);
        let value = ln(self.value(s, (budget - spent).max(0.0))) - 0.5 * self.high * self.high * over;
        if value.is_nan() { f64::NEG_INFINITY } else { value }
    }

    /// f(s).
    pub fn payoff(&self, s: f64) -> f64 {
        let (p, rho, x) = (self.low, self.high, s - self.knee);
        if x < 0.0 {
            return exp(rho * x) / (rho * rho);
        }
        1.0 / (rho * rho) + x / rho + (exp(p * x) - 1.0 - p * x) / (p * p)
    }

    /// E f(s + √rest·G), a lower bound if next to nothing is left.
    pub fn value(&self, s: f64, rest: f64) -> f64 {
        let (p, rho, x) = (self.low, self.high, s - self.knee);
        if rest * rho * rho <= NOTHING {
            return self.payoff(s);
        }
        let sigma = rest.sqrt();
        let (above, at) = (cdf(x / sigma), density(x / sigma));
        // E[e^{ρX}; X < 0] and E[e^{pX}; X > 0] for X = x + σG. φ(x/σ)/r(u) = e^{…}Φ(u) where e^{…} would overflow.
        let part = |slope: f64, u: f64| {
            if u >= 0.0 {
                exp(slope * x + 0.5 * slope * slope * rest) * cdf(u)
            } else {
                at / cdf_and_hazard(&[u]).1[0]
            }
        };
        let below = part(rho, -(x + rho * rest) / sigma) / (rho * rho);
        let excess = x * above + sigma * at;
        let beyond = part(p, (x + p * rest) / sigma) / (p * p);
        below + (1.0 / (rho * rho) - 1.0 / (p * p)) * above + (1.0 / rho - 1.0 / p) * excess + beyond
    }
}

/// Q, the square of y = z − m as the budget counts it: −2(ρy + ln(1 − ρy))/ρ² for y > 0, and 2(ph − ln(1 + ph))/p² for
/// y = −h < 0. Both are y² up to terms of third order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Square {
    low: f64,
    high: f64,
}

impl Square {
    /// Q for the slopes p and ρ.
    pub fn new(low: f64, high: f64) -> Self {
        Square { low, high }
    }

    /// How far below the center z may be: 1/ρ. It also limits what one play can use of the budget.
    pub fn reach(&self) -> f64 {
        1.0 / self.high
    }

    /// Q(y), and infinity where it is not defined.
    pub fn of(&self, y: f64) -> f64 {
        // x − ln(1 + x) with x = −ρy or ph, and a bound on its rounding.
        let slope = if y > 0.0 { self.high } else { self.low };
        let x = -slope * y;
        if x <= -0.999 {
            return f64::INFINITY;
        }
        2.0 * (x - ln_1p(x) + 4.0 * f64::EPSILON * x.abs()).max(0.0) / (slope * slope)
    }
}
