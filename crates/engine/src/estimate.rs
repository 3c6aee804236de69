//! Plain estimates of a policy's risk (MATH.md 2), without any guarantee: cIPS and, with a control
//! variate, cvcIPS. With several interactions a context, each context's are averaged first.

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

/// R̂^τ(π); τ = 0 is plain importance weighting.
pub fn cips(log: &dyn LogSource, subject: Subject, tau: f64, control: &Control) -> Result<f64> {
    cvcips(log, subject, tau, 0.0, control)
}

/// R̂^{τ,ξ}(π).
pub fn cvcips(log: &dyn LogSource, subject: Subject, tau: f64, xi: f64, control: &Control) -> Result<f64> {
    let measured = measure(log, subject, None, &Weighted { tau, xi }, control)?;
    Ok(xi + measured.statistics[0])
}
