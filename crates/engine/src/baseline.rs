//! The baseline R(π0), from all rows of the log (docs/math.md#baseline).

use super::bound::Sample;
use super::control::Control;
use super::error::Result;
use super::log::LogSource;
use super::numerics::divergence::bernoulli_inverse;
use super::numerics::elementary::ln;
use super::numerics::sum::Sum;
use super::terms::Terms;

/// The mean logged cost, averaged within contexts first.
///
/// # Errors
/// If the log cannot be read or the job is canceled.
pub fn mean_cost(log: &dyn LogSource, control: &Control) -> Result<f64> {
    let mut total = Sum::default();
    for index in 0..log.chunks() {
        control.check()?;
        let chunk = log.chunk(index)?;
        chunk.check(log.shape())?;
        chunk.costs.iter().zip(chunk.weights.iter()).for_each(|(c, w)| total.add(c * w));
    }
    Ok((total.value() / log.shape().contexts as f64).clamp(-1.0, 0.0))
}

/// The lower bound on R(π0): R(π0) ≥ −kl⁻¹(mean(−c), ln(1/δ)/n_c) with probability at least 1 − δ, for
/// any cost in [−1, 0].
pub fn lower_bound(mean_cost: f64, contexts: u64, delta: f64) -> f64 {
    -bernoulli_inverse(-mean_cost, ln(1.0 / delta) / contexts as f64)
}

/// The terms of the lower bound.
pub fn terms(mean_cost: f64, sample: Sample, delta: f64) -> Terms {
    Terms {
        n: sample.rows,
        contexts: sample.contexts,
        empirical_risk: Some(mean_cost),
        penalty: Some(ln(1.0 / delta)),
        ..Terms::default()
    }
}
