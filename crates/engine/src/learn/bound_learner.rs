//! Minimizes any bound over Gaussians Q = N(μ, σ²I) from a prior P = N(μ0, σ0²I), docs/math.md#learning. It
//! works with any bound.
//!
//! The variables are u = (μ − μ0)/σ0 and v = √(2d)·ln(σ/σ0), in which KL ≈ (‖u‖² + v²)/2. The member of the
//! bound's grid (λ, ξ) is held during a run of steps and chosen again between runs.

use ndarray::Array2;
use rayon::prelude::*;

use super::adam::Adam;
use super::lbfgs::{Lbfgs, RunEnd};
use super::sweep::{At, Pointwise, Work, scores_of, sweep};
use crate::bound::{Bound, BoundValue, Seen};
use crate::control::{Control, Progress, TerminationReason};
use crate::error::Result;
use crate::log::LogSource;
use crate::log::ranges::blocks;
use crate::numerics::divergence;
use crate::numerics::elementary::exp;
use crate::numerics::product::{norms, pad, padded};
use crate::numerics::random::shuffled;
use crate::policy::{LigFast, MixedLogit, Policy, PolicyParams};
use crate::spec::{Optimizer, PolicyClass, Preset};

/// N(μ, σ²I).
#[derive(Debug, Clone, PartialEq)]
pub struct Gaussian {
    /// μ, p × K.
    pub mean: Array2<f64>,
    /// σ, the standard deviation.
    pub scale: f64,
}

impl Gaussian {
    /// KL(self‖prior), docs/math.md#kl.
    pub fn kl(&self, prior: &Gaussian) -> f64 {
        let squared = self.mean.iter().zip(&prior.mean).map(|(a, b)| (a - b) * (a - b)).sum();
        divergence::gaussian(squared, self.mean.len(), self.scale, prior.scale)
    }

    /// The policy of this class with these parameters.
    pub fn policy(&self, class: PolicyClass) -> PolicyParams {
        let mean = self.mean.rows().into_iter().map(|r| r.to_vec()).collect();
        let (scale, features) = (self.scale, Default::default());
        match class {
            PolicyClass::Lig => PolicyParams::Lig { mean, scale, features },
            PolicyClass::MixedLogit => PolicyParams::MixedLogit { mean, scale, features },
        }
    }
}

/// A bound, and the policies to minimize it over.
pub struct LearningProblem<'a> {
    /// The rows of the bound.
    pub log: &'a dyn LogSource,
    /// The bound to minimize.
    pub bound: &'a dyn Bound,
    /// The form of the policy.
    pub class: PolicyClass,
    /// P, which is also the starting point.
    pub prior: &'a Gaussian,
    /// The seed of the order of minibatches.
    pub seed: u64,
}

/// The result of learning.
#[derive(Debug, Clone)]
pub struct Learned {
    /// Q.
    pub gaussian: Gaussian,
    /// The bound as computed during learning, in f32. The certificate recomputes it in f64.
    pub value: f64,
    /// Why learning stopped.
    pub termination: TerminationReason,
    /// The number of passes over all rows.
    pub iterations: u64,
}

/// A learning problem with the data that all passes share.
pub struct Learner<'a> {
    problem: &'a LearningProblem<'a>,
    norms: Vec<Vec<f64>>,
    all: Vec<usize>,
    control: &'a Control<'a>,
    iterations: u64,
}

/// Preset `fast`: the number of steps between two choices of λ.
const STEPS_PER_CHOICE: usize = 8;
/// Preset `fast`: the maximum number of passes over all rows.
const FAST_EPOCHS: u64 = 60;
/// Preset `fast`: the decrease below which a run of steps has converged.
const TOLERANCE: f64 = 2e-5;
/// Preset `fast` starts on every 8th chunk and then on every second one, where steps are cheap. Each stage is
/// (minimum number of chunks of the log, stride, rounds).
const STAGES: [(usize, usize, usize); 2] = [(64, 8, 6), (16, 2, 1)];

/// Minimizes the bound. Starts at the prior and never ends above it.
///
/// # Errors
/// If the log cannot be read, the job is canceled, or the bound is not finite at the prior.
pub fn minimize(problem: &LearningProblem, optimizer: &Optimizer, control: &Control) -> Result<Learned> {
    let mut learner = Learner::new(problem, control)?;
    match optimizer.preset {
        Preset::Fast => learner.fast(optimizer),
        Preset::Paper => learner.paper(optimizer),
    }
}

impl<'a> Learner<'a> {
    /// Prepares the passes over the log.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn new(problem: &'a LearningProblem<'a>, control: &'a Control<'a>) -> Result<Self> {
        let norms = (0..problem.log.chunks())
            .into_par_iter()
            .map(|i| Ok(norms(problem.log.chunk(i)?.x.view())))
            .collect::<Result<_>>()?;
        let all = (0..problem.log.chunks()).collect();
        Ok(Learner { problem, norms, all, control, iterations: 0 })
    }

    fn link(&self, scale: f64) -> Box<dyn Policy> {
        let k = self.problem.log.shape().n_actions;
        match self.problem.class {
            PolicyClass::Lig => Box::new(LigFast { scale }),
            PolicyClass::MixedLogit => Box::new(MixedLogit::new(scale, k, 64)),
        }
    }

    fn dimension(&self) -> f64 {
        self.problem.prior.mean.len() as f64
    }

    /// Q from (u, v).
    fn gaussian(&self, point: &[f64]) -> Gaussian {
        let prior = self.problem.prior;
        let (u, v) = point.split_at(point.len() - 1);
        let mut mean = prior.mean.clone();
        mean.iter_mut().zip(u).for_each(|(m, u)| *m += prior.scale * u);
        Gaussian { mean, scale: prior.scale * exp(v[0] / (2.0 * self.dimension()).sqrt()) }
    }

    /// The held bound on all rows and its gradient at (u, v).
    ///
    /// # Errors
    /// If the log cannot be read, the job is canceled, or a number is not finite.
    pub fn pass(&self, held: &dyn Bound, point: &[f64]) -> Result<(f64, Vec<f64>)> {
        self.value_and_gradient(held, &self.all, point)
    }

    /// The held bound on `chunks` and its gradient at (u, v).
    fn value_and_gradient(
        &self,
        held: &dyn Bound,
        chunks: &[usize],
        point: &[f64],
    ) -> Result<(f64, Vec<f64>)> {
        let q = self.gaussian(point);
        let prior = self.problem.prior;
        let kl = q.kl(prior);
        let swept = {
            let link = self.link(q.scale);
            let n_actions = self.problem.log.shape().n_actions;
            let point = HeldPoint { held, link: &*link, norms: &self.norms, n_actions };
            let mean = q.mean.mapv(|m| m as f32);
            sweep(self.problem.log, chunks, mean.view(), &point, self.control)?
        };
        let contexts = self.contexts(chunks);
        let BoundValue { value, d_statistics, d_kl, .. } =
            held.value_and_gradient(&[swept.loss / contexts], kl);
        let d_loss = d_statistics[0] / contexts;
        let mut gradient: Vec<f64> =
            (swept.d_mean.iter().zip(point)).map(|(d, u)| d_loss * d * prior.scale + d_kl * u).collect();
        let d = self.dimension();
        let ratio = q.scale / prior.scale;
        let d_log_scale = d_loss * swept.d_scalar + d_kl * d * (ratio * ratio - 1.0);
        gradient.push(d_log_scale / (2.0 * d).sqrt());
        Ok((value, gradient))
    }

    /// The number of contexts in `chunks`.
    fn contexts(&self, chunks: &[usize]) -> f64 {
        if chunks.len() == self.norms.len() {
            return self.problem.log.shape().contexts as f64;
        }
        chunks.iter().map(|&i| self.norms[i].len()).sum::<usize>().max(1) as f64
    }

    /// The whole bound at Q with its best member of the grid, from a pass without gradients.
    ///
    /// # Errors
    /// If the log cannot be read or the job is canceled.
    pub fn choose(&self, chunks: &[usize], point: &[f64]) -> Result<BoundValue> {
        let q = self.gaussian(point);
        let (bound, log) = (self.problem.bound, self.problem.log);
        let link = self.link(q.scale);
        let mean = pad(q.mean.mapv(|m| m as f32).view());
        let width = padded(q.mean.ncols());
        let count = bound.statistics();
        let parts: Vec<Vec<f64>> = blocks(chunks.len())
            .into_par_iter()
            .map(|range| {
                let (mut work, mut products) = (Work::default(), Vec::new());
                let mut total = vec![0.0; count];
                for &index in &chunks[range] {
                    self.control.check()?;
                    let chunk = log.chunk(index)?;
                    scores_of(&chunk, &mean, width, &mut products);
                    for c in 0..chunk.contexts() {
                        let n_actions = log.shape().n_actions;
                        let seen = Seen { n_actions, context: chunk.context(c), cost_model: None };
                        work.h.clear();
                        work.h.resize(count * n_actions, 0.0);
                        work.pi.resize(n_actions, 0.0);
                        bound.coefficients(&seen, &mut work.h)?;
                        let row = &products[c * width..c * width + n_actions];
                        let scores: Vec<f64> = row.iter().map(|&s| s as f64).collect();
                        link.propensities(&scores, self.norms[index][c], &mut work.scratch, &mut work.pi);
                        for (total, h) in total.iter_mut().zip(work.h.chunks_exact(n_actions)) {
                            *total += h.iter().zip(&work.pi).map(|(h, pi)| h * pi).sum::<f64>();
                        }
                    }
                }
                Ok(total)
            })
            .collect::<Result<_>>()?;
        let contexts = self.contexts(chunks);
        let mean_of = |s: usize| parts.iter().map(|p| p[s]).sum::<f64>() / contexts;
        let statistics: Vec<f64> = (0..count).map(mean_of).collect();
        Ok(bound.value_and_gradient(&statistics, q.kl(self.problem.prior)))
    }

    fn report(&self, epoch: u64, epochs: u64, bound: f64) {
        self.control.report(Progress {
            phase: "learning".into(),
            fraction: epoch as f64 / epochs as f64,
            epoch: Some(epoch),
            epochs: Some(epochs),
            bound: Some(bound),
        });
    }

    /// (u, v) of the prior.
    pub fn start(&self) -> Vec<f64> {
        vec![0.0; self.problem.prior.mean.len() + 1]
    }

    fn finish(&self, point: &[f64], value: f64, termination: TerminationReason) -> Learned {
        let gaussian = self.gaussian(point);
        Learned { gaussian, value, termination, iterations: self.iterations }
    }

    /// L-BFGS, first on a part of the rows and then on all. The member of the grid is chosen again every few
    /// steps.
    fn fast(&mut self, optimizer: &Optimizer) -> Result<Learned> {
        let epochs = optimizer.epochs.unwrap_or(FAST_EPOCHS);
        let prior = self.start();
        let first = self.choose(&self.all, &prior)?;
        let mut state = Lbfgs::at(prior.clone(), optimizer.learning_rate.unwrap_or(0.5));
        let (mut work, mut choice) = (0.0, first.choice);
        for (at_least, stride, rounds) in STAGES {
            let part: Vec<usize> = self.all.iter().copied().step_by(stride).collect();
            for _ in 0..if self.all.len() < at_least { 0 } else { rounds } {
                if self.control.out_of_time() || work >= epochs as f64 {
                    break;
                }
                let (ended, chosen) = self.round(&mut state, choice, &part, STEPS_PER_CHOICE, &mut work)?;
                let settled = ended == RunEnd::Converged && chosen.choice == choice;
                choice = chosen.choice;
                if settled {
                    break;
                }
            }
        }
        let mut chosen = self.choose(&self.all, &state.point)?;
        let (mut best, mut point, mut ended) = (first, prior, RunEnd::Steps);
        loop {
            let gained = best.value - chosen.value;
            let settled = ended == RunEnd::Converged && (chosen.choice == best.choice || gained <= 0.0);
            if gained > 0.0 {
                point.clone_from(&state.point);
                best = chosen;
            }
            self.iterations = work as u64;
            self.report(self.iterations.min(epochs), epochs, best.value);
            let left = epochs.saturating_sub(self.iterations);
            let reason = if settled {
                Some(TerminationReason::Converged)
            } else if left == 0 {
                Some(TerminationReason::EpochBudget)
            } else {
                self.control.out_of_time().then_some(TerminationReason::TimeBudget)
            };
            if let Some(reason) = reason {
                return Ok(self.finish(&point, best.value, reason));
            }
            let steps = STEPS_PER_CHOICE.min(left as usize);
            (ended, chosen) = self.round(&mut state, best.choice, &self.all, steps, &mut work)?;
        }
    }

    /// Takes a few steps on `chunks` with one member of the grid held, then chooses again. Adds to `work`,
    /// which counts passes over all rows.
    fn round(
        &self,
        state: &mut Lbfgs,
        choice: usize,
        chunks: &[usize],
        steps: usize,
        work: &mut f64,
    ) -> Result<(RunEnd, BoundValue)> {
        let held = self.problem.bound.held(choice);
        let share = chunks.len() as f64 / self.all.len() as f64;
        let mut evaluate = |p: &[f64]| {
            *work += share;
            self.value_and_gradient(&*held, chunks, p)
        };
        state.refresh(&mut evaluate)?;
        let ended = state.run(steps, TOLERANCE, &mut evaluate)?;
        Ok((ended, self.choose(chunks, &state.point)?))
    }

    /// The paper's training: Adam at 1e-3 on minibatches, 100 epochs. A minibatch is a number of whole
    /// chunks, in an order shuffled by the seed.
    fn paper(&mut self, optimizer: &Optimizer) -> Result<Learned> {
        let epochs = optimizer.epochs.unwrap_or(100);
        let rate = optimizer.learning_rate.unwrap_or(1e-3);
        let largest = self.norms.iter().map(Vec::len).max().unwrap_or(1).max(1);
        let batch = (optimizer.batch_size.unwrap_or(1024) as usize).div_ceil(largest).max(1);
        // Adam's steps are in units of μ and ln σ, as in the paper.
        let mut units = vec![1.0 / self.problem.prior.scale; self.problem.prior.mean.len()];
        units.push((2.0 * self.dimension()).sqrt());
        let mut at = self.start();
        let mut adam = Adam::new(at.len());
        let mut point = at.clone();
        let mut best = self.choose(&self.all, &point)?;
        let mut choice = best.choice;
        for epoch in 1..=epochs {
            if self.control.out_of_time() {
                return Ok(self.finish(&point, best.value, TerminationReason::TimeBudget));
            }
            let held = self.problem.bound.held(choice);
            for chunks in shuffled(self.all.len(), self.problem.seed, epoch).chunks(batch) {
                let (_, gradient) = self.value_and_gradient(&*held, chunks, &at)?;
                let directions = adam.directions(gradient.iter().zip(&units).map(|(g, unit)| g * unit));
                for ((x, direction), unit) in at.iter_mut().zip(directions).zip(&units) {
                    *x -= rate * direction * unit;
                }
            }
            let chosen = self.choose(&self.all, &at)?;
            choice = chosen.choice;
            if chosen.value < best.value {
                point.clone_from(&at);
                best = chosen;
            }
            self.iterations = epoch;
            self.report(epoch, epochs, best.value);
        }
        Ok(self.finish(&point, best.value, TerminationReason::EpochBudget))
    }
}

/// The statistic of a held bound as a loss: Σ_a π(a|x) h(a) and its gradient.
struct HeldPoint<'a> {
    held: &'a dyn Bound,
    link: &'a dyn Policy,
    norms: &'a [Vec<f64>],
    n_actions: usize,
}

impl Pointwise for HeldPoint<'_> {
    fn context(&self, at: At, scores: &[f64], work: &mut Work, d_scores: &mut [f64]) -> Result<(f64, f64)> {
        let seen = Seen { n_actions: self.n_actions, context: at.chunk.context(at.c), cost_model: None };
        let norm = self.norms[at.index][at.c];
        work.h.clear();
        work.h.resize(self.n_actions, 0.0);
        work.pi.resize(self.n_actions, 0.0);
        self.held.coefficients(&seen, &mut work.h)?;
        self.link.propensities(scores, norm, &mut work.scratch, &mut work.pi);
        let d_log_scale = self.link.gradient(scores, norm, &mut work.scratch, &work.pi, &work.h, d_scores);
        let loss = work.pi.iter().zip(&work.h).map(|(pi, h)| pi * h).sum();
        Ok((loss, d_log_scale))
    }
}
