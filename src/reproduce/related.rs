//! The learners of the paper's related work (MATH.md 8), for comparison only: no guarantee comes with
//! them and the service never offers them. Both learn softmax policies from θ0, the logging policy's
//! parameters, on a part of the log for each λ of a grid, and keep the policy that the estimate on the
//! held-out part likes best. That estimate is all that they can promise.
//!
//! - CRM with sample variance penalisation (Swaminathan & Joachims, 2015): cIPS + λ √(V̂/n), by their
//!   majorisation: √V̂ lies below a tangent that is a sum over rows, drawn anew every few steps.
//! - Bayesian CRM (London & Sandler, 2019): cIPS + λ‖θ − θ0‖², with ln π in place of π, which makes it
//!   convex and never smaller (π ≥ 1 + ln π where costs are negative).

use ndarray::Array2;

use crate::engine::control::Control;
use crate::engine::error::{EngineError, Result};
use crate::engine::estimate::cips;
use crate::engine::learn::lbfgs::{Ended, Lbfgs};
use crate::engine::learn::sweep::{At, Pointwise, Work, sweep};
use crate::engine::log::{LogSource, PartLog, Side, Split};
use crate::engine::measure::Subject;
use crate::engine::policy::{FeatureMap, Policy, PolicyParams, Softmax};
use crate::engine::split::MaterialLog;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Principle {
    SampleVariance,
    Bayesian,
}

impl Principle {
    /// The λ to choose from.
    pub fn grid(self) -> [f64; 5] {
        match self {
            Principle::SampleVariance => [30.0, 10.0, 3.0, 1.0, 0.0],
            Principle::Bayesian => [1e-3, 1e-4, 1e-5, 1e-6, 1e-7],
        }
    }
}

/// The policy that the held-out part chose.
#[derive(Debug, Clone)]
pub struct Chosen {
    pub policy: PolicyParams,
    pub lambda: f64,
    /// cIPS on the held-out part: what is promised.
    pub promised_risk: f64,
    /// The mean logged cost of the held-out part, what the promise is compared with.
    pub logged_risk: f64,
}

/// Share of the contexts that each λ learns on; the rest chooses among them.
const LEARNING_SHARE: f64 = 0.75;
/// Steps between two tangents, tangents at most, and the decrease that ends a run.
const STEPS: usize = 8;
const ROUNDS: usize = 4;
const TOLERANCE: f64 = 1e-5;

pub fn learn(
    principle: Principle,
    log: &dyn LogSource,
    logging_policy: &PolicyParams,
    tau: f64,
    seed: u64,
    control: &Control,
) -> Result<Chosen> {
    let none = || EngineError::Log("the logging policy has no parameters to start from".into());
    let (start, _) = logging_policy.gaussian(1.0).ok_or_else(none)?;
    let split = Split { seed, fraction: LEARNING_SHARE };
    let part = |side: Side| MaterialLog::new(&PartLog::new(log, split, side)?, &FeatureMap::Identity);
    let (learning, held_out) = (part(Side::Learn)?, part(Side::Certify)?);
    let objective = Objective { principle, log: &learning, start: &start, tau, control };
    let mut best: Option<Chosen> = None;
    let logged_risk = crate::engine::baseline::mean_cost(&held_out, control)?;
    for lambda in principle.grid() {
        // Always from θ0: too heavy a penalty ends where no logged action is played, and stays there.
        let theta = objective.minimise(lambda, start.iter().copied().collect())?;
        let policy = softmax(&theta, start.ncols());
        let promised_risk = cips(&held_out, Subject::Policy(&policy), tau, control)?;
        if best.as_ref().is_none_or(|best| promised_risk < best.promised_risk) {
            best = Some(Chosen { policy, lambda, promised_risk, logged_risk });
        }
    }
    best.ok_or_else(|| EngineError::Numerical("no policy was learned".into()))
}

fn softmax(theta: &[f64], n_actions: usize) -> PolicyParams {
    let mean = theta.chunks_exact(n_actions).map(<[f64]>::to_vec).collect();
    PolicyParams::Softmax { mean, inverse_temperature: 1.0, features: FeatureMap::Identity }
}

struct Objective<'a> {
    principle: Principle,
    log: &'a dyn LogSource,
    start: &'a Array2<f64>,
    tau: f64,
    control: &'a Control<'a>,
}

/// Σ_i (a·u_i + b·u_i²)/n above cIPS + λ √(V̂/n) and touching it where the moments were taken.
#[derive(Clone, Copy)]
struct Tangent {
    a: f64,
    b: f64,
}

impl Tangent {
    /// V̂ = (mean u² − ū²)n/(n−1); −ū² lies below its tangent at ū, and √V̂ below V̂/(2√V̂0) + √V̂0/2.
    fn at(lambda: f64, moments: (f64, f64), n: f64) -> Self {
        let (mean, square) = moments;
        let variance = ((square - mean * mean) * n / (n - 1.0)).max(1e-12);
        let b = lambda * n / (n - 1.0) / (2.0 * (variance * n).sqrt());
        Tangent { a: 1.0 - 2.0 * mean * b, b }
    }
}

impl Objective<'_> {
    fn minimise(&self, lambda: f64, theta: Vec<f64>) -> Result<Vec<f64>> {
        let n = self.log.shape().contexts as f64;
        let mut state = Lbfgs::at(theta, 0.5);
        for _ in 0..ROUNDS {
            let tangent = match self.principle {
                Principle::SampleVariance => Tangent::at(lambda, self.moments(&state.point)?, n),
                Principle::Bayesian => Tangent { a: 1.0, b: 0.0 },
            };
            let mut evaluate = |theta: &[f64]| self.evaluate(lambda, tangent, theta);
            state.refresh(&mut evaluate)?;
            if state.run(STEPS, TOLERANCE, &mut evaluate)? == Ended::Converged {
                break;
            }
        }
        Ok(state.point)
    }

    fn swept(&self, point: &dyn Pointwise, theta: &[f64]) -> Result<(f64, f64, Vec<f64>)> {
        let mean = self.start.dim();
        let mean = Array2::from_shape_vec(mean, theta.iter().map(|&t| t as f32).collect())
            .map_err(|e| EngineError::Numerical(e.to_string()))?;
        let chunks: Vec<usize> = (0..self.log.chunks()).collect();
        let swept = sweep(self.log, &chunks, mean.view(), point, self.control)?;
        let n = self.log.shape().contexts as f64;
        Ok((swept.loss / n, swept.d_scalar / n, swept.d_mean.iter().map(|d| d / n).collect()))
    }

    /// (mean u, mean u²).
    fn moments(&self, theta: &[f64]) -> Result<(f64, f64)> {
        let point = Penalised { tau: self.tau, tangent: Tangent { a: 1.0, b: 0.0 } };
        let (mean, square, _) = self.swept(&point, theta)?;
        Ok((mean, square))
    }

    fn evaluate(&self, lambda: f64, tangent: Tangent, theta: &[f64]) -> Result<(f64, Vec<f64>)> {
        match self.principle {
            Principle::SampleVariance => {
                let (value, _, gradient) = self.swept(&Penalised { tau: self.tau, tangent }, theta)?;
                Ok((value, gradient))
            }
            Principle::Bayesian => {
                let (mut value, _, mut gradient) = self.swept(&LogTransformed { tau: self.tau }, theta)?;
                for ((g, t), t0) in gradient.iter_mut().zip(theta).zip(self.start) {
                    value += lambda * (t - t0) * (t - t0);
                    *g += 2.0 * lambda * (t - t0);
                }
                Ok((value, gradient))
            }
        }
    }
}

const LINK: Softmax = Softmax { inverse_temperature: 1.0 };

/// a·u + b·u² with u = π(a|x)/max(π0(a|x), τ)·c. The second number is u².
struct Penalised {
    tau: f64,
    tangent: Tangent,
}

impl Pointwise for Penalised {
    fn context(&self, at: At, scores: &[f64], work: &mut Work, d_scores: &mut [f64]) -> (f64, f64) {
        let (seen, Tangent { a, b }) = (at.chunk.context(at.c), self.tangent);
        work.pi.resize(scores.len(), 0.0);
        work.h.clear();
        work.h.resize(scores.len(), 0.0);
        LINK.propensities(scores, 0.0, &mut work.scratch, &mut work.pi);
        let (mut loss, mut squares) = (0.0, 0.0);
        for j in 0..seen.actions.len() {
            let action = seen.actions[j] as usize;
            let weighted_cost = seen.costs[j] / seen.propensities[j].max(self.tau);
            let u = work.pi[action] * weighted_cost;
            loss += seen.weights[j] * (a * u + b * u * u);
            squares += seen.weights[j] * u * u;
            work.h[action] += seen.weights[j] * (a + 2.0 * b * u) * weighted_cost;
        }
        LINK.gradient(scores, 0.0, &mut work.scratch, &work.pi, &work.h, d_scores);
        (loss, squares)
    }
}

/// c/max(π0(a|x), τ)·(1 + ln π(a|x)).
struct LogTransformed {
    tau: f64,
}

impl Pointwise for LogTransformed {
    fn context(&self, at: At, scores: &[f64], work: &mut Work, d_scores: &mut [f64]) -> (f64, f64) {
        let seen = at.chunk.context(at.c);
        work.pi.resize(scores.len(), 0.0);
        LINK.propensities(scores, 0.0, &mut work.scratch, &mut work.pi);
        d_scores.fill(0.0);
        let mut loss = 0.0;
        for j in 0..seen.actions.len() {
            let action = seen.actions[j] as usize;
            let coefficient = seen.weights[j] * seen.costs[j] / seen.propensities[j].max(self.tau);
            loss += coefficient * (1.0 + work.pi[action].max(f64::MIN_POSITIVE).ln());
            for (d, pi) in d_scores.iter_mut().zip(&work.pi) {
                *d -= coefficient * pi;
            }
            d_scores[action] += coefficient;
        }
        (loss, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::control::unattended;
    use crate::engine::log::{Columns, MemoryLog};

    /// 300 contexts in the plane, two actions; the action that fits the sign of x0 costs −1. The
    /// logging policy knows nothing.
    fn world() -> (MemoryLog, PolicyParams) {
        let n = 300;
        let x: Vec<f32> = (0..n).flat_map(|i| [((i * 37 % 100) as f32 - 49.5) / 50.0, 1.0]).collect();
        let actions: Vec<u32> = (0..n).map(|i| (i * 7 % 5 % 2) as u32).collect();
        let fits = |i: usize| (x[2 * i] > 0.0) == (actions[i] == 1);
        let costs = (0..n).map(|i| if fits(i) { -1.0 } else { 0.0 }).collect();
        let log = MemoryLog::new(Columns {
            n_actions: 2,
            dim: 2,
            propensities: vec![0.5; n],
            full: Some(vec![0.5; 2 * n]),
            costs,
            x,
            actions,
            ..Columns::default()
        });
        (log.unwrap(), softmax(&[0.0; 4], 2))
    }

    #[test]
    fn both_find_the_sign() {
        let (log, logging) = world();
        for principle in [Principle::SampleVariance, Principle::Bayesian] {
            let chosen = learn(principle, &log, &logging, 0.5, 1, &unattended()).unwrap();
            assert!(chosen.logged_risk > -0.7, "{chosen:?}");
            let x = ndarray::arr2(&[[-0.8f32, 1.0], [0.8, 1.0]]);
            let pi = chosen.policy.propensities(x.view()).unwrap();
            assert!(pi[(0, 0)] > 0.8 && pi[(1, 1)] > 0.8, "{principle:?}: {pi:?}");
            assert!(principle.grid().contains(&chosen.lambda));
        }
    }

    #[test]
    fn the_tangent_touches_the_objective_and_gradients_agree_with_differences() {
        let (log, _) = world();
        let start = Array2::zeros((2, 2));
        let control = unattended();
        let n = 300.0;
        for principle in [Principle::SampleVariance, Principle::Bayesian] {
            let objective = Objective { principle, log: &log, start: &start, tau: 0.5, control: &control };
            let theta = [0.3, -0.2, 0.1, 0.4];
            let (mean, square) = objective.moments(&theta).unwrap();
            let tangent = Tangent::at(2.0, (mean, square), n);
            let (value, gradient) = objective.evaluate(2.0, tangent, &theta).unwrap();
            if principle == Principle::SampleVariance {
                // What the tangent leaves out is constant: compare differences with the objective's.
                let objective_at = |theta: &[f64]| {
                    let (mean, square) = objective.moments(theta).unwrap();
                    mean + 2.0 * ((square - mean * mean) / (n - 1.0)).sqrt()
                };
                let there = [1.0, -0.9, 0.0, 0.4];
                let (moved, _) = objective.evaluate(2.0, tangent, &there).unwrap();
                let rise = objective_at(&there) - objective_at(&theta);
                assert!(moved - value >= rise - 1e-6, "{moved} {value} {rise}");
                let near = [0.3 + 1e-2, -0.2, 0.1, 0.4];
                let slope = (objective_at(&near) - objective_at(&theta)) / 1e-2;
                assert!((slope - gradient[0]).abs() < 2e-3, "{slope} {gradient:?}");
            }
            for i in 0..4 {
                let mut near = theta;
                near[i] += 1e-2;
                let mut far = theta;
                far[i] -= 1e-2;
                let (up, _) = objective.evaluate(2.0, tangent, &near).unwrap();
                let (down, _) = objective.evaluate(2.0, tangent, &far).unwrap();
                let difference = (up - down) / 2e-2;
                assert!((difference - gradient[i]).abs() < 1e-3, "{difference} {}", gradient[i]);
            }
        }
    }
}
