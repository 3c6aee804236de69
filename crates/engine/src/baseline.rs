//! The baseline R(π0) (docs/math.md#baseline).

use rayon::prelude::*;

use super::bound::{Mixture, Sample};
use super::certificate::{About, BoundRecord, BoundedQuantity};
use super::control::Control;
use super::error::{Result, finite};
use super::log::{Chunk, LogSource};
use super::numerics::divergence::bernoulli_inverse;
use super::numerics::elementary::{ln, ln_1p};
use super::numerics::sum::Sum;
use super::spec::JobSpec;
use super::terms::Terms;

/// How many chunks are read before their terms are added.
const READ_AT_ONCE: usize = 256;
/// A bound on the rounding error of the baseline's bound.
const SLACK: f64 = 1e-12;

/// The mean logged cost, averaged within contexts first.
///
/// # Errors
/// If the log cannot be read or the job is canceled.
pub fn mean_cost(log: &dyn LogSource, control: &Control) -> Result<f64> {
    // Chunks are read in parallel and added in their order.
    let terms = |index: usize| {
        control.check()?;
        let chunk = log.lean_chunk(index)?;
        chunk.check_lean(log.shape())?;
        Ok(chunk.costs.iter().zip(chunk.weights.iter()).map(|(c, w)| c * w).collect())
    };
    let mut total = Sum::default();
    for first in (0..log.chunks()).step_by(READ_AT_ONCE) {
        let range = first..(first + READ_AT_ONCE).min(log.chunks());
        let chunks = range.into_par_iter().map(terms).collect::<Result<Vec<Vec<f64>>>>()?;
        chunks.iter().flatten().for_each(|&term| total.add(term));
    }
    Ok((total.value() / log.shape().contexts as f64).clamp(-1.0, 0.0))
}

fn each_chunk(log: &dyn LogSource, control: &Control, mut visit: impl FnMut(&Chunk)) -> Result<()> {
    for index in 0..log.chunks() {
        control.check()?;
        let chunk = log.lean_chunk(index)?;
        chunk.check_lean(log.shape())?;
        visit(&chunk);
    }
    Ok(())
}

/// A lower bound on R(π0) that holds with probability at least 1 − δ: the kl bound if all rows are independent
/// draws under one policy, and otherwise the betting bound, which holds for the average over the rows of any
/// log.
///
/// # Errors
/// If the log cannot be read, the job is canceled, or the bound is not finite.
pub fn certify(
    spec: &JobSpec,
    log: &dyn LogSource,
    mean_cost: f64,
    delta: f64,
    control: &Control,
) -> Result<BoundRecord> {
    let shape = log.shape();
    let sample = Sample { rows: shape.rows, contexts: shape.contexts };
    let (about, quantity) = (About::LoggingPolicy, BoundedQuantity::BaselineRisk);
    let independent = spec.is_fixed() && !shape.capabilities.repeated_contexts;
    let mut terms = terms(mean_cost, sample, delta);
    let value = if independent {
        lower_bound(mean_cost, sample.contexts, delta)
    } else {
        let mixture = Mixture::of_grid(1, delta);
        terms.grid_size = Some(mixture.members.len() as u64);
        betting_lower_bound(log, &mixture, control)?
    };
    terms.numerical_slack = SLACK;
    Ok(BoundRecord {
        event: about.event(quantity),
        quantity,
        subject: about.subject(),
        bound: if independent { "bernoulli_kl" } else { "betting" }.into(),
        value: finite("the bound on the baseline", value)?,
        delta,
        terms,
        used: true,
        outcome: None,
    })
}

/// The betting bound on the mean of −c, which lies in [0, 1] (docs/math.md#mixture with z = −c): a lower bound on
/// the mean of E[c | the past] over the rows.
fn betting_lower_bound(log: &dyn LogSource, mixture: &Mixture, control: &Control) -> Result<f64> {
    let mut sums = vec![Sum::default(); mixture.members.len()];
    each_chunk(log, control, |chunk| {
        for (cost, weight) in chunk.costs.iter().zip(chunk.weights.iter()) {
            let terms = mixture.members.iter().zip(&mut sums);
            terms.for_each(|(member, sum)| sum.add(weight * ln_1p(member.lambda * cost)));
        }
    })?;
    let sums: Vec<f64> = sums.iter().map(Sum::value).collect();
    Ok(-mixture.invert(&sums, log.shape().contexts as f64, 1.0)?.value)
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
