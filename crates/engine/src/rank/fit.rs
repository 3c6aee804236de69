//! Fits a model to rewards by cross-entropy, with a Gaussian prior on each weight whose variances are estimated from
//! the same rows (docs/math.md#sets).

use std::sync::Mutex;

use super::model::{Layout, Pairs, curvature, loss_and_gradient};
use super::rows::Rows;
use crate::control::{Control, Progress};
use crate::error::Result;
use crate::learn::lbfgs::{self, Lbfgs, RunEnd};
use crate::numerics::elementary::ln;

/// The steps of L-BFGS before the prior is first estimated, between two estimates, and after the last one.
const FIRST_STEPS: usize = 20;
const STEPS: usize = 8;
const LAST_STEPS: usize = 20;
/// How often the prior is estimated.
const ROUNDS: usize = 4;
/// A step that gains less than this, in units of the log-likelihood, is the last one.
const TOLERANCE: f64 = 5e-3;
/// L-BFGS keeps pairs of vectors with about this many numbers in each half.
const MEMORY: usize = 1 << 22;
/// The precisions of the prior at first: of request features, of action features, and of pairs.
const PRECISIONS: [f64; 3] = [1.0, 3.0, 10.0];
/// The precision of the constant, which is nearly free.
const CONSTANT: f64 = 1e-6;
/// The factor of a feature's pairs is drawn toward its last value as if by this many weights.
const STRENGTH: f64 = 0.5;
/// Variances are never below or above these.
const LEAST_VARIANCE: f64 = 1e-4;
const LARGEST_VARIANCE: f64 = 1e2;

/// A fitted model.
#[derive(Debug, Clone)]
pub struct Fit {
    /// The weights.
    pub weights: Vec<f64>,
    /// The precision of the prior of each weight.
    pub precision: Vec<f64>,
}

/// The mean of several fits, weight by weight.
pub fn mean_of(fits: &[Fit]) -> Fit {
    let n = fits.len().max(1) as f64;
    let mean = |of: fn(&Fit) -> &[f64]| {
        let mut mean = vec![0.0; fits.first().map_or(0, |fit| fit.weights.len())];
        for fit in fits {
            mean.iter_mut().zip(of(fit)).for_each(|(mean, value)| *mean += value / n);
        }
        mean
    };
    Fit { weights: mean(|fit| &fit.weights), precision: mean(|fit| &fit.precision) }
}

/// Reports progress, in steps of any fit.
pub struct Steps<'a> {
    /// The job's control.
    pub control: &'a Control<'a>,
    done: Mutex<usize>,
    total: usize,
}

impl<'a> Steps<'a> {
    /// For fits that take about `total` steps together.
    pub fn new(control: &'a Control<'a>, total: usize) -> Self {
        Steps { control, done: Mutex::new(0), total: total.max(1) }
    }

    /// The steps of one fit from scratch, and of one that starts from another.
    pub const WHOLE: usize = FIRST_STEPS + (ROUNDS - 1) * STEPS + LAST_STEPS;
    /// The steps of a fit that starts from another.
    pub const REFIT: usize = LAST_STEPS;

    /// Counts steps.
    pub fn add(&self, steps: usize) {
        // If the lock is poisoned, another fit panicked and the job fails anyway.
        if let Ok(mut done) = self.done.lock() {
            *done += steps;
            let fraction = (*done as f64 / self.total as f64).min(1.0);
            self.control.report(Progress::phase("learning", fraction));
        }
    }
}

/// What is fitted to which rows.
pub struct Task<'a> {
    /// The form of the model.
    pub layout: &'a Layout,
    /// All rows.
    pub rows: &'a Rows,
    /// Those to fit to.
    pub members: &'a [u32],
}

impl Task<'_> {
    /// Fits the model, and estimates the variances of its prior on the way.
    ///
    /// # Errors
    /// If the job is canceled.
    pub fn fit(&self, steps: &Steps) -> Result<Fit> {
        let mut fit = self.start();
        for round in 0..ROUNDS {
            self.descend(&mut fit, if round == 0 { FIRST_STEPS } else { STEPS }, steps)?;
            if steps.control.out_of_time() {
                return Ok(fit);
            }
            self.estimate_prior(&mut fit);
        }
        self.descend(&mut fit, LAST_STEPS, steps)?;
        Ok(fit)
    }

    /// Fits the model with the mean precision of these fits, from the mean of their weights.
    ///
    /// # Errors
    /// If the job is canceled.
    pub fn refit(&self, fits: &[Fit], steps: &Steps) -> Result<Fit> {
        let mut fit = mean_of(fits);
        if !steps.control.out_of_time() {
            self.descend(&mut fit, LAST_STEPS, steps)?;
        }
        Ok(fit)
    }

    fn start(&self) -> Fit {
        let mut weights = vec![0.0; self.layout.len()];
        let mut precision = vec![PRECISIONS[2]; self.layout.len()];
        precision[1..self.layout.first_action()].fill(PRECISIONS[0]);
        precision[self.layout.first_action()..self.layout.first_pair()].fill(PRECISIONS[1]);
        precision[0] = CONSTANT;
        let q = self.mean_reward();
        weights[0] = ln(q / (1.0 - q));
        Fit { weights, precision }
    }

    /// The mean reward, away from 0 and 1.
    fn mean_reward(&self) -> f64 {
        let total: f64 = self.members.iter().map(|&row| f64::from(self.rows.rewards[row as usize])).sum();
        (total + 0.5) / (self.members.len() as f64 + 1.0)
    }

    /// Takes steps of L-BFGS in units in which the second derivative is about 1 in each direction.
    fn descend(&self, fit: &mut Fit, count: usize, steps: &Steps) -> Result<()> {
        let layout = self.layout;
        let Fit { weights, precision } = fit;
        let curved = curvature(layout, weights, self.rows, self.members);
        let unit: Vec<f64> = curved.iter().zip(&*precision).map(|(c, p)| 1.0 / (c + p).sqrt()).collect();
        let mut evaluate = |point: &[f64]| {
            steps.control.check()?;
            let weights: Vec<f64> = point.iter().zip(&unit).map(|(v, unit)| v * unit).collect();
            let (mut loss, mut gradient) = loss_and_gradient(layout, &weights, self.rows, self.members);
            for i in 0..weights.len() {
                loss += 0.5 * precision[i] * weights[i] * weights[i];
                gradient[i] = (gradient[i] + precision[i] * weights[i]) * unit[i];
            }
            Ok((loss, gradient))
        };
        let point: Vec<f64> = weights.iter().zip(&unit).map(|(w, unit)| w / unit).collect();
        let memory = (MEMORY / layout.len()).clamp(4, lbfgs::MEMORY);
        let mut state = Lbfgs::at(point, 1.0).with_memory(memory);
        state.refresh(&mut evaluate)?;
        // Features appear together, so a whole step of Newton's method on the diagonal would be too long.
        let length = state.gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        state.set_first_step(0.2 * length);
        let mut taken = 0;
        while taken < count && !steps.control.out_of_time() {
            let some = (count - taken).min(4);
            let end = state.run(some, TOLERANCE, &mut evaluate)?;
            taken += some;
            steps.add(some);
            if end == RunEnd::Converged {
                break;
            }
        }
        weights.iter_mut().zip(&state.point).zip(&unit).for_each(|((w, v), unit)| *w = v * unit);
        Ok(())
    }

    /// One step of MacKay's fixed point for the variances of the prior: the variance of a group is the sum of w² over the
    /// number of its weights that the rows determine, where a weight counts as h/(h + 1/σ²). It has the same fixed points as
    /// the EM algorithm, and gets to those near 0 in far fewer steps. The variance of a pair is the product of a factor of
    /// its request feature and one of its action feature.
    fn estimate_prior(&self, fit: &mut Fit) {
        let layout = self.layout;
        let Fit { weights, precision } = fit;
        let curved = curvature(layout, weights, self.rows, self.members);
        let determined = |at: usize| curved[at] / (curved[at] + precision[at]);
        let limited = |variance: f64| 1.0 / variance.clamp(LEAST_VARIANCE, LARGEST_VARIANCE);
        let mut estimated = precision.clone();
        let (first_action, first_pair) = (layout.first_action(), layout.first_pair());
        let hashed =
            if layout.pairs == Pairs::Exact { first_pair..first_pair } else { first_pair..layout.len() };
        for range in [1..first_action, first_action..first_pair, hashed] {
            let squares: f64 = range.clone().map(|at| weights[at] * weights[at]).sum();
            let count: f64 = range.clone().map(determined).sum();
            if count > 0.0 {
                estimated[range].fill(limited(squares / count));
            }
        }
        if layout.pairs == Pairs::Exact {
            let (x, actions) = layout.sizes();
            let mut variances: Vec<f64> = precision[first_pair..].iter().map(|p| 1.0 / p).collect();
            for by_request in [true, false, true, false] {
                let group = |at: usize| if by_request { at / actions } else { at % actions };
                let mut sums = vec![(STRENGTH, STRENGTH); if by_request { x } else { actions }];
                for (at, variance) in variances.iter().enumerate() {
                    let (weight, sum) = (weights[first_pair + at], &mut sums[group(at)]);
                    *sum = (sum.0 + weight * weight / variance, sum.1 + determined(first_pair + at));
                }
                for (at, variance) in variances.iter_mut().enumerate() {
                    let (squares, count) = sums[group(at)];
                    *variance = (*variance * squares / count).clamp(LEAST_VARIANCE, LARGEST_VARIANCE);
                }
            }
            estimated[first_pair..].iter_mut().zip(variances).for_each(|(to, variance)| *to = 1.0 / variance);
        }
        *precision = estimated;
    }
}
