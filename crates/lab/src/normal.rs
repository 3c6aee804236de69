//! The normal interval, which has no guarantee at any number of rows: the yardstick for bounds.

use guarantor_engine::bound::{Played, Seen};
use guarantor_engine::control::Control;
use guarantor_engine::error::Result;
use guarantor_engine::log::LogSource;
use guarantor_engine::measure::{Statistics, Subject, measure};
use guarantor_engine::numerics::special::cdf;
use serde::Serialize;

/// An importance-weighted estimate with its standard error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Moments {
    /// The estimate.
    pub mean: f64,
    /// Its standard error.
    pub standard_error: f64,
}

/// The estimates of a policy's risk R(π) and of its improvement R(π0) − R(π).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimates {
    /// The risk.
    pub risk: Moments,
    /// The improvement.
    pub improvement: Moments,
}

struct Squares;

impl Statistics for Squares {
    fn count(&self) -> usize {
        4
    }

    fn add(&self, seen: &Seen, played: &[Played], _: &mut Vec<f64>, out: &mut [Vec<f64>]) -> Result<()> {
        let context = &seen.context;
        for (played, out) in played.iter().zip(out) {
            let (mut risk, mut gain) = (0.0, 0.0);
            for j in 0..context.actions.len() {
                let weight = played.of(j, context.actions[j]) / context.propensities[j];
                risk += context.weights[j] * weight * context.costs[j];
                gain += context.weights[j] * (1.0 - weight) * context.costs[j];
            }
            for (out, term) in out.iter_mut().zip([risk, risk * risk, gain, gain * gain]) {
                *out += term;
            }
        }
        Ok(())
    }
}

/// Estimates risk and improvement by importance weighting, without clipping.
///
/// # Errors
/// If the log cannot be read, or a number is not finite.
pub fn estimates(log: &dyn LogSource, subject: Subject, control: &Control) -> Result<Estimates> {
    let s = measure(log, subject, None, &Squares, control)?.statistics;
    let n = log.shape().contexts.max(1) as f64;
    let of = |mean: f64, square: f64| Moments {
        mean,
        standard_error: ((square - mean * mean).max(0.0) / n).sqrt(),
    };
    Ok(Estimates { risk: of(s[0], s[1]), improvement: of(s[2], s[3]) })
}

/// The u with Φ(u) = p, for p in (0, 1): 1.645 for 0.95.
pub fn quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if cdf(middle) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    #[test]
    fn quantiles() {
        for (p, want) in [(0.95, 1.644_853_626_951_472_7), (0.5, 0.0), (0.025, -1.959_963_984_540_054)] {
            assert!((super::quantile(p) - want).abs() < 1e-12, "{p}");
        }
    }
}
