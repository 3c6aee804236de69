//! Where training starts, docs/math.md#auto: the linear fit of log π0(·|x), times the factor at which it predicts
//! the rewards best. Logging policies tend to play what pays, and one factor is learned from few rows. If π0 says
//! nothing about the rewards, the factor is near 0 and training starts from nothing.

use ndarray::{Array1, Array2, Axis};

use super::calibrate::{HeldOutPoint, calibrate};
use super::network::{Network, Start};
use super::rows::Rows;
use crate::cost_model::ScoreLink;
use crate::error::Result;
use crate::numerics::elementary::ln;
use crate::numerics::matrix::product;

/// The contexts that the linear fit uses, at most.
const SAMPLE: usize = 5000;
/// Steps of the conjugate gradient method, which are enough for a start.
const STEPS: usize = 30;
/// The ridge, as a share of the variance of a standardized feature.
const RIDGE: f32 = 1e-3;
/// Probabilities below this are taken for it, so that their logarithms are finite.
const FLOOR: f64 = 1e-9;

/// A linear function of the standardized features, one number per action.
pub struct LoggingFit {
    weights: Array2<f32>,
    constant: Array1<f32>,
}

impl LoggingFit {
    /// The fit as a score function.
    pub fn network(&self) -> Network {
        let head = self.constant.clone().insert_axis(Axis(0));
        Network { hidden: None, head, linear: self.weights.clone() }
    }
}

/// The ridge regression of log π0(·|x), less its mean over the actions, on the standardized features of some
/// contexts. None if the log does not have π0(·|x).
///
/// # Errors
/// If the log cannot be read.
pub fn fit_logging(rows: &Rows, members: &[u32], k: usize) -> Result<Option<LoggingFit>> {
    let members = sample(members, SAMPLE);
    let mut targets = Vec::with_capacity(members.len() * k);
    rows.each(&members, |_, context| {
        if let Some(full) = context.full {
            let logs: Vec<f64> = full.iter().map(|&q| ln(q.max(FLOOR))).collect();
            let mean = logs.iter().sum::<f64>() / k as f64;
            targets.extend(logs.iter().map(|v| (v - mean) as f32));
        }
        Ok(())
    })?;
    let Ok(mut targets) = Array2::from_shape_vec((members.len(), k), targets) else { return Ok(None) };
    let Some(constant) = targets.mean_axis(Axis(0)) else { return Ok(None) };
    targets -= &constant;
    Ok(Some(LoggingFit { weights: ridge(&rows.standardized(&members)?, &targets), constant }))
}

/// At most `most` of the contexts, evenly spread.
fn sample(members: &[u32], most: usize) -> Vec<u32> {
    members.iter().step_by(members.len().div_ceil(most).max(1)).copied().collect()
}

/// (sᵀs/n + RIDGE·I)⁻¹ sᵀt/n by conjugate gradients, all columns of t at once.
fn ridge(s: &Array2<f32>, t: &Array2<f32>) -> Array2<f32> {
    let n = s.nrows().max(1) as f32;
    let squares = |m: &Array2<f32>| m.map(|v| v * v).sum_axis(Axis(0));
    let mut residual = product(s.t(), t.view()) / n;
    let mut solution = Array2::<f32>::zeros(residual.dim());
    let mut direction = residual.clone();
    let mut norms = squares(&residual);
    let small = norms.map(|v| v * 1e-8);
    for _ in 0..STEPS {
        let image = product(s.t(), product(s.view(), direction.view()).view()) / n + &direction * RIDGE;
        let curvature = (&direction * &image).sum_axis(Axis(0));
        let step = Array1::from_shape_fn(norms.len(), |j| match norms[j] > small[j] && curvature[j] > 0.0 {
            true => norms[j] / curvature[j],
            false => 0.0,
        });
        solution += &(&direction * &step);
        residual -= &(&image * &step);
        let next = squares(&residual);
        let factor =
            Array1::from_shape_fn(norms.len(), |j| if step[j] > 0.0 { next[j] / norms[j] } else { 0.0 });
        direction = &residual + &(&direction * &factor);
        norms = next;
    }
    solution
}

/// Where a network of a family starts that is trained on `members`.
///
/// # Errors
/// If the log cannot be read.
pub fn start(
    rows: &Rows,
    members: &[u32],
    fit: Option<&LoggingFit>,
    k: usize,
    link: ScoreLink,
) -> Result<Start> {
    let p = rows.center.len();
    let mut start = Start { linear: Array2::zeros((p, k)), constant: Array1::zeros(k) };
    let zero = LoggingFit { weights: Array2::zeros((p, k)), constant: Array1::zeros(k) };
    let fit = fit.unwrap_or(&zero);
    let members = sample(members, 4 * SAMPLE);
    let mut points = Vec::new();
    for members in members.chunks(256) {
        let scores = product(rows.standardized(members)?.view(), fit.weights.view()) + &fit.constant;
        for (scores, &member) in scores.rows().into_iter().zip(members) {
            let scores: Vec<f64> = scores.iter().map(|&v| v as f64).collect();
            let context = rows.logged(member);
            points.extend((0..context.actions.len()).map(|j| HeldOutPoint {
                log_odds: link.log_odds(&scores, context.actions[j] as usize),
                reward: -context.costs[j],
                weight: context.weights[j],
            }));
        }
    }
    let calibration = calibrate(&points);
    let slope = calibration.slope as f32;
    start.linear.zip_mut_with(&fit.weights, |to, from| *to = slope * from);
    start.constant.zip_mut_with(&fit.constant, |to, from| *to = slope * from);
    // The competing actions share one constant, which has no effect.
    if link == ScoreLink::Separate {
        start.constant += calibration.offset as f32;
    }
    Ok(start)
}
