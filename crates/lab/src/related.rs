//! The learners of the paper's related work, docs/math.md#related-learners, for comparison only. They have no
//! guarantee, and the service does not offer them. Both learn softmax policies from θ0, the parameters of the
//! logging policy, on a part of the log for each λ of a grid. The policy with the best estimate on the
//! held-out part is kept, and that estimate is its promise.
//!
//! - CRM with sample-variance penalization (Swaminathan and Joachims, 2015): cIPS + λ√(V̂/n). They majorize
//!   √V̂ by a tangent that is a sum over rows and is redrawn every few steps.
//! - Bayesian CRM (London and Sandler, 2019): cIPS + λ‖θ − θ0‖², with 1 + ln π in place of π. This makes the
//!   objective convex and never smaller, because π ≥ 1 + ln π and costs are not positive.

use ndarray::Array2;

use guarantor_engine::baseline::mean_cost;
use guarantor_engine::control::Control;
use guarantor_engine::error::{EngineError, Result};
use guarantor_engine::estimate::cips;
use guarantor_engine::learn::lbfgs::{Ended, Lbfgs};
use guarantor_engine::learn::sweep::{At, Pointwise, Work, sweep};
use guarantor_engine::log::{LogSource, PartLog, Side, Split};
use guarantor_engine::measure::Subject;
use guarantor_engine::policy::{FeatureMap, Policy, PolicyParams, Softmax};
use guarantor_engine::split::MaterialLog;

/// A learner of the related work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Principle {
    /// CRM with sample-variance penalization.
    SampleVariance,
    /// Bayesian CRM.
    Bayesian,
}

impl Principle {
    /// The grid of λ, from the largest to the smallest. CRM's last one is plain cIPS.
    pub fn grid(self) -> [f64; 7] {
        match self {
            Principle::SampleVariance => [300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.0],
            Principle::Bayesian => [1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9],
        }
    }

    /// Whether λ is at an end of the grid, so that one beyond it might have been better. 0 is not such an end.
    pub fn at_an_end(self, lambda: f64) -> bool {
        let grid = self.grid();
        lambda == grid[0] || (lambda == grid[6] && lambda > 0.0)
    }
}

/// The policy with the best estimate on the held-out part.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The policy.
    pub policy: PolicyParams,
    /// The λ that it was learned with.
    pub lambda: f64,
    /// Its cIPS on the held-out part.
    pub promised_risk: f64,
    /// The mean logged cost of the held-out part, with which the promise is compared.
    pub logged_risk: f64,
}

/// The share of contexts that each λ learns on; the others are held out to choose λ.
const LEARNING_SHARE: f64 = 0.75;
/// Steps per tangent, the maximum number of tangents, and the decrease below which a run stops.
const STEPS: usize = 8;
const ROUNDS: usize = 4;
const TOLERANCE: f64 = 1e-5;

/// The two parts of a log, copied into memory once for all learners.
pub struct Parts {
    learning: MaterialLog,
    held_out: MaterialLog,
    logged_risk: f64,
}

/// The split into the two parts.
fn split(seed: u64) -> Split {
    Split { seed, fraction: LEARNING_SHARE }
}

impl Parts {
    /// Splits a log.
    pub fn new(log: &dyn LogSource, seed: u64, control: &Control) -> Result<Self> {
        let part =
            |side: Side| MaterialLog::new(&PartLog::new(log, split(seed), side)?, &FeatureMap::Identity);
        let (learning, held_out) = (part(Side::Learn)?, part(Side::Certify)?);
        let logged_risk = mean_cost(&held_out, control)?;
        Ok(Parts { learning, held_out, logged_risk })
    }
}

/// Learns a policy for each λ of the grid and chooses among them.
///
/// # Errors
/// If the logging policy has no parameters to start from, or learning fails.
pub fn learn(
    principle: Principle,
    parts: &Parts,
    logging_policy: &PolicyParams,
    tau: f64,
    control: &Control,
) -> Result<Chosen> {
    let none = || EngineError::Log("the logging policy has no parameters to start from".into());
    let (start, _) = logging_policy.gaussian(1.0).ok_or_else(none)?;
    let objective = Objective { principle, log: &parts.learning, start: &start, tau, control };
    let theta0: Vec<f64> = start.iter().copied().collect();
    let moments = match principle {
        Principle::SampleVariance => Some(objective.moments(&theta0)?),
        Principle::Bayesian => None,
    };
    let mut best: Option<Chosen> = None;
    for lambda in principle.grid() {
        // Always from θ0: a large penalty leads to policies that play no logged action, where the gradient is 0.
        let theta = objective.minimize(lambda, theta0.clone(), moments)?;
        let policy = softmax(&theta, start.ncols());
        let promised_risk = cips(&parts.held_out, Subject::Policy(&policy), tau, control)?;
        if best.as_ref().is_none_or(|best| promised_risk < best.promised_risk) {
            best = Some(Chosen { policy, lambda, promised_risk, logged_risk: parts.logged_risk });
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

/// Σ_i (a·u_i + b·u_i²)/n plus a constant, which lies above cIPS + λ√(V̂/n) and touches it at the point of the
/// moments.
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
type Moments = (f64, f64);

impl Objective<'_> {
    /// Minimizes the objective from θ. `moments` are CRM's moments at θ.
    fn minimize(&self, lambda: f64, theta: Vec<f64>, moments: Option<Moments>) -> Result<Vec<f64>> {
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
            if state.run(1, TOLERANCE, &mut evaluate)? == Ended::Converged {
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

    fn moments(&self, theta: &[f64]) -> Result<Moments> {
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
    use super::*;
    use guarantor_engine::control::unattended;
    use guarantor_engine::log::{Columns, MemoryLog};

    /// 300 contexts in the plane and two actions. The action that matches the sign of x0 costs −1. The logging
    /// policy is uniform.
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
        let parts = Parts::new(&log, 1, &unattended()).unwrap();
        let (promised, logged) = held_out(&log);
        for principle in [Principle::SampleVariance, Principle::Bayesian] {
            let chosen = learn(principle, &parts, &logging, 0.5, &unattended()).unwrap();
            assert!(chosen.logged_risk > -0.7, "{chosen:?}");
            let x = ndarray::arr2(&[[-0.8f32, 1.0], [0.8, 1.0]]);
            let pi = chosen.policy.propensities(x.view()).unwrap();
            assert!(pi[(0, 0)] > 0.8 && pi[(1, 1)] > 0.8, "{principle:?}: {pi:?}");
            assert!(principle.grid().contains(&chosen.lambda));
            // The promise is computed on the held-out contexts, and on no others.
            assert!((chosen.promised_risk - promised(&chosen.policy)).abs() < 1e-12, "{chosen:?}");
            assert!((chosen.logged_risk - logged).abs() < 1e-12, "{chosen:?} {logged}");
        }
    }

    /// cIPS of a policy and the mean cost on the held-out contexts, by hand.
    fn held_out(log: &MemoryLog) -> (impl Fn(&PolicyParams) -> f64, f64) {
        let chunk = log.chunk(0).unwrap();
        let kept = |&c: &usize| split(1).side(chunk.ordinals[c]) == Side::Certify;
        let contexts: Vec<usize> = (0..chunk.contexts()).filter(kept).collect();
        assert_eq!(log.chunks(), 1);
        assert!((50..100).contains(&contexts.len()), "{}", contexts.len());
        let n = contexts.len() as f64;
        let logged = contexts.iter().map(|&c| chunk.costs[c]).sum::<f64>() / n;
        let x = chunk.x.to_owned();
        let (actions, costs) = (chunk.actions.to_vec(), chunk.costs.to_vec());
        let cips = move |policy: &PolicyParams| {
            let pi = policy.propensities(x.view()).unwrap();
            // All propensities are ½, and so is τ.
            contexts.iter().map(|&c| pi[(c, actions[c] as usize)] / 0.5 * costs[c]).sum::<f64>() / n
        };
        (cips, logged)
    }

    /// The minimum of one tangent is no reason to stop: if the sample variance weighs much, new tangents lead
    /// to a lower objective than the first one.
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
    fn ends_of_the_grid_are_marked_unless_lambda_is_0() {
        let ends = |p: Principle| p.grid().map(|lambda| p.at_an_end(lambda));
        assert_eq!(ends(Principle::SampleVariance), [true, false, false, false, false, false, false]);
        assert_eq!(ends(Principle::Bayesian), [true, false, false, false, false, false, true]);
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
