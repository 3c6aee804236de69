//! Platt's calibration, docs/math.md#auto: fits sigmoid(offset + slope·t) to the reward −c by Newton's
//! method, with a small ridge toward (0, 1) and slope ≥ 0.

use crate::numerics::elementary::{exp, ln_1p};

/// A fitted calibration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// The offset.
    pub offset: f64,
    /// The slope.
    pub slope: f64,
    /// The mean cross-entropy after calibration, by which score functions are compared.
    pub loss: f64,
}

/// One logged interaction that the score function was not trained on.
#[derive(Debug, Clone, Copy)]
pub struct HeldOutPoint {
    /// t, the score.
    pub log_odds: f64,
    /// −c, the reward.
    pub reward: f64,
    /// The interaction's weight in its context.
    pub weight: f64,
}

const RIDGE: f64 = 0.01;

fn sigmoid(t: f64) -> f64 {
    1.0 / (1.0 + exp(-t))
}

/// −r ln σ(t) − (1 − r) ln(1 − σ(t)).
fn cross_entropy(t: f64, reward: f64) -> f64 {
    t.max(0.0) - reward * t + ln_1p(exp(-t.abs()))
}

/// Fits a calibration.
pub fn calibrate(points: &[HeldOutPoint]) -> Calibration {
    let (mut offset, mut slope) = (0.0, 1.0);
    let total: f64 = points.iter().map(|p| p.weight).sum::<f64>().max(1.0);
    for _ in 0..30 {
        let (mut g0, mut g1) = (RIDGE * offset, RIDGE * (slope - 1.0));
        let (mut h00, mut h01, mut h11) = (RIDGE, 0.0, RIDGE);
        for p in points {
            let t = p.log_odds.clamp(-30.0, 30.0);
            let q = sigmoid(offset + slope * t);
            let (d, v) = (p.weight * (q - p.reward) / total, p.weight * q * (1.0 - q) / total);
            g0 += d;
            g1 += d * t;
            h00 += v;
            h01 += v * t;
            h11 += v * t * t;
        }
        let determinant = h00 * h11 - h01 * h01;
        let (step0, step1) = ((h11 * g0 - h01 * g1) / determinant, (h00 * g1 - h01 * g0) / determinant);
        // Steps are limited to 1, because Newton's method can overshoot far from the minimum.
        let shorten = 1.0 / (1.0f64).max(step0.abs()).max(step1.abs());
        offset -= shorten * step0;
        slope = (slope - shorten * step1).max(0.0);
        if step0.abs().max(step1.abs()) < 1e-9 {
            break;
        }
    }
    let term =
        |p: &HeldOutPoint| p.weight * cross_entropy(offset + slope * p.log_odds.clamp(-30.0, 30.0), p.reward);
    Calibration { offset, slope, loss: points.iter().map(term).sum::<f64>() / total }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovers_a_known_line() {
        // Rewards are the exact probabilities of offset 0.5, slope 2.
        let point = |i: i32| {
            let log_odds = i as f64 / 100.0;
            HeldOutPoint { log_odds, reward: sigmoid(0.5 + 2.0 * log_odds), weight: 1.0 }
        };
        let points: Vec<HeldOutPoint> = (-300..300).map(point).collect();
        let fitted = calibrate(&points);
        assert!((fitted.offset - 0.5).abs() < 0.1 && (fitted.slope - 2.0).abs() < 0.3, "{fitted:?}");
        // A score that is the opposite of the truth is ignored, not inverted.
        let inverted: Vec<HeldOutPoint> =
            points.iter().map(|p| HeldOutPoint { log_odds: -p.log_odds, ..*p }).collect();
        assert_eq!(calibrate(&inverted).slope, 0.0);
    }
}
