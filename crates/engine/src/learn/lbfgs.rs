//! Limited-memory BFGS (Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 7.5). The line search
//! backtracks by parabolas until the decrease is sufficient, and updates without positive curvature are
//! skipped. The caller keeps the best point that was evaluated.

use std::collections::VecDeque;

use crate::error::{EngineError, Result};

/// How many pairs of vectors are kept.
pub const MEMORY: usize = 20;
const SUFFICIENT_DECREASE: f64 = 1e-4;
const MAX_BACKTRACKS: usize = 12;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

struct Pair {
    step: Vec<f64>,
    change: Vec<f64>,
    inverse_curvature: f64,
}

/// Why a run of steps ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// No step decreased the function by at least the tolerance.
    Converged,
    /// The steps were used up.
    Steps,
}

/// The state between runs. Between them, the caller can choose λ again, report progress or stop.
pub struct Lbfgs {
    /// The current point.
    pub point: Vec<f64>,
    /// The function's value there.
    pub value: f64,
    /// Its gradient there.
    pub gradient: Vec<f64>,
    history: VecDeque<Pair>,
    /// The length of the first step.
    first_step: f64,
    /// How many pairs of vectors are kept.
    memory: usize,
}

type Evaluate<'a> = &'a mut dyn FnMut(&[f64]) -> Result<(f64, Vec<f64>)>;

impl Lbfgs {
    /// Starts at a point. `refresh` must be called before `run`.
    pub fn at(point: Vec<f64>, first_step: f64) -> Self {
        Lbfgs {
            point,
            value: f64::INFINITY,
            gradient: Vec::new(),
            history: VecDeque::new(),
            first_step,
            memory: MEMORY,
        }
    }

    /// The same with another number of pairs of vectors, for functions of many variables.
    pub fn with_memory(self, memory: usize) -> Self {
        Lbfgs { memory, ..self }
    }

    /// Sets the length of the first step, once the gradient is known.
    pub fn set_first_step(&mut self, length: f64) {
        self.first_step = length;
    }

    /// Evaluates the function at the current point, because it is new or has changed (another λ, other rows).
    /// Keeps the curvature seen so far.
    ///
    /// # Errors
    /// If the function cannot be evaluated.
    pub fn refresh(&mut self, evaluate: Evaluate) -> Result<()> {
        (self.value, self.gradient) = evaluate(&self.point)?;
        Ok(())
    }

    /// Takes up to `steps` steps, and stops when a step decreases the value by less than `tolerance`.
    ///
    /// # Errors
    /// If the function cannot be evaluated for a reason other than a number that is not finite.
    pub fn run(&mut self, steps: usize, tolerance: f64, evaluate: Evaluate) -> Result<RunEnd> {
        for _ in 0..steps {
            let before = self.value;
            if !self.step(evaluate)? {
                if self.history.is_empty() {
                    return Ok(RunEnd::Converged);
                }
                // The model of the curvature is bad: forget it and try steepest descent once.
                self.history.clear();
                if !self.step(evaluate)? {
                    return Ok(RunEnd::Converged);
                }
            }
            if before - self.value < tolerance {
                return Ok(RunEnd::Converged);
            }
        }
        Ok(RunEnd::Steps)
    }

    fn direction(&self) -> Vec<f64> {
        let mut q: Vec<f64> = self.gradient.iter().map(|g| -g).collect();
        let mut alphas = Vec::with_capacity(self.history.len());
        for pair in self.history.iter().rev() {
            let alpha = pair.inverse_curvature * dot(&pair.step, &q);
            q.iter_mut().zip(&pair.change).for_each(|(q, y)| *q -= alpha * y);
            alphas.push(alpha);
        }
        let scale = match self.history.back() {
            Some(last) => 1.0 / (last.inverse_curvature * dot(&last.change, &last.change)),
            None => self.first_step / dot(&self.gradient, &self.gradient).sqrt().max(f64::MIN_POSITIVE),
        };
        q.iter_mut().for_each(|q| *q *= scale);
        for (pair, alpha) in self.history.iter().zip(alphas.iter().rev()) {
            let beta = pair.inverse_curvature * dot(&pair.change, &q);
            q.iter_mut().zip(&pair.step).for_each(|(q, s)| *q += (alpha - beta) * s);
        }
        q
    }

    /// Takes one step. False if no step along the direction decreases the value enough.
    fn step(&mut self, evaluate: Evaluate) -> Result<bool> {
        let direction = self.direction();
        let slope = dot(&direction, &self.gradient);
        if !(slope.is_finite() && slope < 0.0) {
            return Ok(false);
        }
        let mut length = 1.0;
        for _ in 0..MAX_BACKTRACKS {
            let trial: Vec<f64> = self.point.iter().zip(&direction).map(|(x, d)| x + length * d).collect();
            let (value, gradient) = match evaluate(&trial) {
                Ok(evaluated) => evaluated,
                // If the function is not finite there, the step was too long.
                Err(EngineError::Numerical(_)) => {
                    length *= 0.1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if value <= self.value + SUFFICIENT_DECREASE * length * slope {
                self.accept(trial, value, gradient);
                return Ok(true);
            }
            // The minimum of the parabola through the value, the slope and the trial's value.
            let curvature = value - self.value - length * slope;
            let best = -0.5 * slope * length * length / curvature;
            length = if best.is_finite() { best.clamp(0.1 * length, 0.5 * length) } else { 0.5 * length };
        }
        Ok(false)
    }

    fn accept(&mut self, point: Vec<f64>, value: f64, gradient: Vec<f64>) {
        let step: Vec<f64> = point.iter().zip(&self.point).map(|(a, b)| a - b).collect();
        let change: Vec<f64> = gradient.iter().zip(&self.gradient).map(|(a, b)| a - b).collect();
        let curvature = dot(&step, &change);
        if curvature > 1e-10 * dot(&change, &change).sqrt() * dot(&step, &step).sqrt() {
            self.history.push_back(Pair { step, change, inverse_curvature: 1.0 / curvature });
            if self.history.len() > self.memory {
                self.history.pop_front();
            }
        }
        (self.point, self.value, self.gradient) = (point, value, gradient);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_minimum_of_rosenbrock() {
        let mut f = |x: &[f64]| {
            let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
            Ok((a * a + 100.0 * b * b, vec![-2.0 * a - 400.0 * x[0] * b, 200.0 * b]))
        };
        let mut state = Lbfgs::at(vec![-1.2, 1.0], 0.1);
        state.refresh(&mut f).unwrap();
        state.run(200, 0.0, &mut f).unwrap();
        assert!(state.value < 1e-12, "{}", state.value);
    }

    #[test]
    fn steps_back_from_points_where_the_function_is_not_finite() {
        let mut f = |x: &[f64]| match x[0] {
            x if x > 2.0 => Err(EngineError::Numerical("too far".into())),
            x => Ok(((x - 1.5) * (x - 1.5), vec![2.0 * (x - 1.5)])),
        };
        let mut state = Lbfgs::at(vec![0.0], 100.0);
        state.refresh(&mut f).unwrap();
        state.run(50, 0.0, &mut f).unwrap();
        assert!((state.point[0] - 1.5).abs() < 1e-6, "{}", state.point[0]);
    }

    #[test]
    fn stays_at_a_minimum() {
        let mut f = |x: &[f64]| Ok((x[0] * x[0], vec![2.0 * x[0]]));
        let mut state = Lbfgs::at(vec![0.0], 1.0);
        state.refresh(&mut f).unwrap();
        assert_eq!(state.run(10, 0.0, &mut f).unwrap(), RunEnd::Converged);
    }
}
