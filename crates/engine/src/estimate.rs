//! Estimates of a policy's risk without a guarantee (docs/math.md#estimators): cIPS and, with a control
//! variate, cvcIPS. If a context has several interactions, they are averaged first.

use super::bound::{Played, Seen};
use super::control::Control;
use super::error::Result;
use super::log::LogSource;
use super::measure::{Statistics, Subject, measure};

struct Weighted {
    tau: f64,
    xi: f64,
}

impl Statistics for Weighted {
    fn count(&self) -> usize {
        1
    }

    fn add(&self, seen: &Seen, played: &[Played], _: &mut Vec<f64>, out: &mut [Vec<f64>]) -> Result<()> {
        let context = &seen.context;
        for (played, out) in played.iter().zip(out) {
            for j in 0..context.actions.len() {
                let weight = played.of(j, context.actions[j]) / context.propensities[j].max(self.tau);
                out[0] += context.weights[j] * weight * (context.costs[j] - self.xi);
            }
        }
        Ok(())
    }
}

/// The cIPS estimate R̂^τ(π) of a policy's risk; τ = 0 is importance weighting without clipping.
pub fn cips(log: &dyn LogSource, subject: Subject, tau: f64, control: &Control) -> Result<f64> {
    cvcips(log, subject, tau, 0.0, control)
}

/// The cvcIPS estimate R̂^{τ,ξ}(π) of a policy's risk.
pub fn cvcips(log: &dyn LogSource, subject: Subject, tau: f64, xi: f64, control: &Control) -> Result<f64> {
    let measured = measure(log, subject, None, &Weighted { tau, xi }, control)?;
    Ok(xi + measured.statistics[0])
}

/// An estimate of the improvement R(π0) − R(π), with the standard error of that estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
}

struct Differences;

impl Statistics for Differences {
    fn count(&self) -> usize {
        2
    }

    fn add(&self, seen: &Seen, played: &[Played], _: &mut Vec<f64>, out: &mut [Vec<f64>]) -> Result<()> {
        let context = &seen.context;
        for (played, out) in played.iter().zip(out) {
            let mut gain = 0.0;
            for j in 0..context.actions.len() {
                let weight = played.of(j, context.actions[j]) / context.propensities[j];
                gain += context.weights[j] * (1.0 - weight) * context.costs[j];
            }
            out[0] += gain;
            out[1] += gain * gain;
        }
        Ok(())
    }
}

/// The importance-weighted estimate of the improvement, without clipping and without a guarantee.
pub fn improvement(log: &dyn LogSource, subject: Subject, control: &Control) -> Result<Estimate> {
    let measured = measure(log, subject, None, &Differences, control)?;
    let (mean, square) = (measured.statistics[0], measured.statistics[1]);
    let n = log.shape().contexts.max(1) as f64;
    Ok(Estimate { value: mean, standard_error: ((square - mean * mean).max(0.0) / n).sqrt() })
}
