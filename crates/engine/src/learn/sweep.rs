//! One pass of learning over a log, docs/math.md#learning: an f32 matrix product gives the scores, a
//! [`Pointwise`] turns the scores of each context into a loss and its gradient, and a second product gives
//! the gradient of the parameters. Blocks of chunks run in parallel and are added in a fixed order.

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

use crate::control::Control;
use crate::error::{EngineError, Result};
use crate::log::ranges::blocks;
use crate::log::{Chunk, LogSource};
use crate::numerics::product::{add_narrow_gradient, narrow_scores, pad, padded};
use crate::policy::Scratch;

/// Working memory of one thread.
#[derive(Default)]
pub struct Work {
    /// For the policy.
    pub scratch: Scratch,
    /// π(·|x), the policy's propensities.
    pub pi: Vec<f64>,
    /// The coefficients of π(·|x) in the loss.
    pub h: Vec<f64>,
}

/// A context by its position in a log.
pub struct At<'a> {
    /// The chunk that has the context.
    pub chunk: &'a Chunk<'a>,
    /// The chunk's number in the log.
    pub index: usize,
    /// The context's number in the chunk.
    pub c: usize,
}

/// A loss that is a sum over contexts.
pub trait Pointwise: Sync {
    /// The loss of one context from its scores φ(x)ᵀμ, and the derivative of one scalar parameter (ln σ).
    /// Writes the gradient with respect to the scores into `d_scores`.
    ///
    /// # Errors
    /// If the context does not have what the loss needs.
    fn context(&self, at: At, scores: &[f64], work: &mut Work, d_scores: &mut [f64]) -> Result<(f64, f64)>;
}

/// The loss of a pass and its gradient, summed over contexts.
#[derive(Debug, Clone)]
pub struct Swept {
    /// The loss.
    pub loss: f64,
    /// Its gradient with respect to μ.
    pub d_mean: Array2<f64>,
    /// Its derivative with respect to the scalar parameter.
    pub d_scalar: f64,
}

/// Makes a pass over some chunks of a log.
///
/// # Errors
/// If the log cannot be read, the job is canceled, or the loss or its gradient is not finite.
pub fn sweep(
    log: &dyn LogSource,
    chunks: &[usize],
    mean: ArrayView2<f32>,
    point: &dyn Pointwise,
    control: &Control,
) -> Result<Swept> {
    let (padded_mean, k) = (pad(mean), mean.ncols());
    let parts: Vec<(f64, Vec<f32>, f64)> = blocks(chunks.len())
        .into_par_iter()
        .map(|block| sweep_block(log, &chunks[block], &padded_mean, k, point, control))
        .collect::<Result<_>>()?;
    let mut swept = Swept { loss: 0.0, d_mean: Array2::zeros(mean.dim()), d_scalar: 0.0 };
    for (loss, d_mean, d_scalar) in &parts {
        swept.loss += loss;
        swept.d_scalar += d_scalar;
        for (mut total, part) in swept.d_mean.rows_mut().into_iter().zip(d_mean.chunks_exact(padded(k))) {
            total.iter_mut().zip(part).for_each(|(total, &part)| *total += part as f64);
        }
    }
    if swept.loss.is_finite() && swept.d_scalar.is_finite() && swept.d_mean.iter().all(|g| g.is_finite()) {
        Ok(swept)
    } else {
        Err(EngineError::Numerical("the loss or its gradient is not finite".into()))
    }
}

fn sweep_block(
    log: &dyn LogSource,
    chunks: &[usize],
    mean: &[f32],
    k: usize,
    point: &dyn Pointwise,
    control: &Control,
) -> Result<(f64, Vec<f32>, f64)> {
    let width = padded(k);
    let (mut loss, mut d_scalar, mut d_mean) = (0.0, 0.0, vec![0.0f32; mean.len()]);
    let (mut work, mut scores, mut d_scores) = (Work::default(), vec![0.0; k], vec![0.0; k]);
    let mut products = Vec::new();
    for &index in chunks {
        control.check()?;
        let chunk = log.chunk(index)?;
        scores_of(&chunk, mean, width, &mut products);
        // Each row of scores is overwritten by its gradient.
        for (c, row) in products.chunks_exact_mut(width).enumerate() {
            scores.iter_mut().zip(row.iter()).for_each(|(s, &r)| *s = r as f64);
            let (l, d) = point.context(At { chunk: &chunk, index, c }, &scores, &mut work, &mut d_scores)?;
            loss += l;
            d_scalar += d;
            row.iter_mut().zip(&d_scores).for_each(|(r, &d)| *r = d as f32);
        }
        let x = chunk.x.as_slice().ok_or_else(not_row_major)?;
        add_narrow_gradient(x, &products, width, &mut d_mean);
    }
    Ok((loss, d_mean, d_scalar))
}

fn not_row_major() -> EngineError {
    EngineError::Log("a chunk's features are not row-major".into())
}

/// Writes φ(x)ᵀμ of a chunk into `out`, padded to rows of `width` numbers.
pub fn scores_of(chunk: &Chunk, mean: &[f32], width: usize, out: &mut Vec<f32>) {
    out.clear();
    out.resize(chunk.contexts() * width, 0.0);
    let x = chunk.x.as_standard_layout();
    narrow_scores(x.as_slice().unwrap_or(&[]), mean, width, out);
}
