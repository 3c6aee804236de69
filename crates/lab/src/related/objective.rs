//! The objectives of the related learners and how they are minimized, docs/math.md#related-learners.

use guarantor_engine::control::Control;
use guarantor_engine::error::{EngineError, Result};
use guarantor_engine::learn::lbfgs::{Lbfgs, RunEnd};
use guarantor_engine::learn::sweep::{At, Pointwise, Work, sweep};
use guarantor_engine::log::LogSource;
use guarantor_engine::policy::{Policy, Softmax};
use ndarray::Array2;

use super::Principle;

/// Steps per tangent, the maximum number of tangents, and the decrease below which a run stops.
const STEPS: usize = 8;
const ROUNDS: usize = 4;
const TOLERANCE: f64 = 1e-5;

/// The objective of one learner on one log.
pub struct Objective<'a> {
    pub principle: Principle,
    pub log: &'a dyn LogSource,
    pub start: &'a Array2<f64>,
    pub tau: f64,
    pub control: &'a Control<'a>,
}

/// Σ_i (a·u_i + b·u_i²)/n plus a constant, which lies above cIPS + λ√(V̂/n) and touches it at the point of
/// the moments.
#[derive(Clone, Copy)]
struct Tangent {
    a: f64,
    b: f64,
}

impl Tangent {
    /// V̂ = (mean u² − ū²)n/(n−1). −ū² lies below its tangent at ū, and √V̂ lies below V̂/(2√V̂0) + √V̂0/2.
    fn at(lambda: f64, moments: Moments, n: f64) -> Self {
        let (mean, square) = moments;
        let variance = ((square - mean * mean) * n / (n - 1.0)).max(1e-12);
        let b = lambda * n / (n - 1.0) / (2.0 * (variance * n).sqrt());
        Tangent { a: 1.0 - 2.0 * mean * b, b }
    }
}

/// (mean u, mean u²).
pub type Moments = (f64, f64);

impl Objective<'_> {
    /// Minimizes the objective from θ. `moments` are CRM's moments at θ.
    pub fn minimize(&self, lambda: f64, theta: Vec<f64>, moments: Option<Moments>) -> Result<Vec<f64>> {
        let state = Lbfgs::at(theta, 0.5);
        match moments.filter(|_| lambda > 0.0) {
            Some(moments) => self.by_tangents(lambda, state, moments),
            None => self.at_once(lambda, state),
        }
    }

    /// Minimizes an objective that needs no tangent.
    fn at_once(&self, lambda: f64, mut state: Lbfgs) -> Result<Vec<f64>> {
        let mut evaluate = |theta: &[f64]| {
            let (value, _, gradient) = self.evaluate(lambda, Tangent { a: 1.0, b: 0.0 }, theta)?;
            Ok((value, gradient))
        };
        state.refresh(&mut evaluate)?;
        state.run(ROUNDS * STEPS, TOLERANCE, &mut evaluate)?;
        Ok(state.point)
    }

    fn by_tangents(&self, lambda: f64, mut state: Lbfgs, mut moments: Moments) -> Result<Vec<f64>> {
        let n = self.log.shape().contexts as f64;
        for _ in 0..ROUNDS {
            let tangent = Tangent::at(lambda, moments, n);
            // The last point that was evaluated is nearly always the end of the last step.
            let mut last = (Vec::new(), moments);
            let mut evaluate = |theta: &[f64]| {
                let (value, square, gradient) = self.evaluate(lambda, tangent, theta)?;
                last = (theta.to_vec(), ((value - tangent.b * square) / tangent.a, square));
                Ok((value, gradient))
            };
            state.refresh(&mut evaluate)?;
            // The minimum of one tangent is not that of the objective. Stop if a new tangent does not help.
            if state.run(1, TOLERANCE, &mut evaluate)? == RunEnd::Converged {
                break;
            }
            state.run(STEPS - 1, TOLERANCE, &mut evaluate)?;
            moments = if last.0 == state.point { last.1 } else { self.moments(&state.point)? };
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

    /// CRM's moments at θ.
    pub fn moments(&self, theta: &[f64]) -> Result<Moments> {
        let point = Penalized { tau: self.tau, tangent: Tangent { a: 1.0, b: 0.0 } };
        let (mean, square, _) = self.swept(&point, theta)?;
        Ok((mean, square))
    }

    /// The value, the mean of u² for CRM, and the gradient.
    fn evaluate(&self, lambda: f64, tangent: Tangent, theta: &[f64]) -> Result<(f64, f64, Vec<f64>)> {
        match self.principle {
            Principle::SampleVariance => self.swept(&Penalized { tau: self.tau, tangent }, theta),
            Principle::Bayesian => {
                let (mut value, _, mut gradient) = self.swept(&LogTransformed { tau: self.tau }, theta)?;
                for ((g, t), t0) in gradient.iter_mut().zip(theta).zip(self.start) {
                    value += lambda * (t - t0) * (t - t0);
                    *g += 2.0 * lambda * (t - t0);
                }
                Ok((value, 0.0, gradient))
            }
        }
    }
}

const LINK: Softmax = Softmax { inverse_temperature: 1.0 };

/// a·u + b·u² with u = π(a|x)/max(π0(a|x), τ)·c. The second number that it returns is u².
struct Penalized {
    tau: f64,
    tangent: Tangent,
}

impl Pointwise for Penalized {
    fn context(&self, at: At, scores: &[f64], work: &mut Work, d_scores: &mut [f64]) -> Result<(f64, f64)> {
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
        Ok((loss, squares))
    }
}

/// c/max(π0(a|x), τ)·(1 + ln π(a|x)).
struct LogTransformed {
    tau: f64,
}

impl Pointwise for LogTransformed {
    fn context(&self, at: At, scores: &[f64], work: &mut Work, d_scores: &mut [f64]) -> Result<(f64, f64)> {
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
        Ok((loss, 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::world;
    use super::*;
    use guarantor_engine::control::unattended;

    /// Learning must not stop at the minimum of one tangent: if the penalty on the sample variance is large,
    /// new tangents lead to a lower objective.
    #[test]
    fn a_new_tangent_starts_where_the_last_one_ended() {
        let (log, _) = world();
        let (start, control) = (Array2::zeros((2, 2)), unattended());
        let principle = Principle::SampleVariance;
        let objective = Objective { principle, log: &log, start: &start, tau: 0.5, control: &control };
        let lambda = 30.0;
        let value = |theta: &[f64]| {
            let (mean, square) = objective.moments(theta).unwrap();
            mean + lambda * ((square - mean * mean) / 299.0).sqrt()
        };
        let theta0 = vec![0.1, -0.1, 0.0, 0.0];
        let moments = objective.moments(&theta0).unwrap();
        let tangent = Tangent::at(lambda, moments, 300.0);
        let mut one = |theta: &[f64]| objective.evaluate(lambda, tangent, theta).map(|(v, _, g)| (v, g));
        let mut first = Lbfgs::at(theta0.clone(), 0.5);
        first.refresh(&mut one).unwrap();
        first.run(200, TOLERANCE, &mut one).unwrap();
        let whole = objective.minimize(lambda, theta0, Some(moments)).unwrap();
        assert!(value(&whole) < value(&first.point) - 1e-4, "{} {}", value(&whole), value(&first.point));
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
            let (value, _, gradient) = objective.evaluate(2.0, tangent, &theta).unwrap();
            if principle == Principle::SampleVariance {
                // The tangent leaves out a constant, so compare differences.
                let objective_at = |theta: &[f64]| {
                    let (mean, square) = objective.moments(theta).unwrap();
                    mean + 2.0 * ((square - mean * mean) / (n - 1.0)).sqrt()
                };
                let there = [1.0, -0.9, 0.0, 0.4];
                let (moved, ..) = objective.evaluate(2.0, tangent, &there).unwrap();
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
                let (up, ..) = objective.evaluate(2.0, tangent, &near).unwrap();
                let (down, ..) = objective.evaluate(2.0, tangent, &far).unwrap();
                let difference = (up - down) / 2e-2;
                assert!((difference - gradient[i]).abs() < 1e-3, "{difference} {}", gradient[i]);
            }
        }
    }
}
