//! The learners of the paper's related work, docs/math.md#related-learners, for comparison only. They have no
//! guarantee, and the service does not offer them. Both learn softmax policies from θ0, the parameters of the
//! logging policy, on a part of the log for each λ of a grid. The policy with the best estimate on the
//! held-out part is kept, and that estimate is its promise.
//!
//! - CRM with sample-variance penalization (Swaminathan and Joachims, 2015): cIPS + λ√(V̂/n). They majorize
//!   √V̂ by a tangent that is a sum over rows and is redrawn every few steps.
//! - Bayesian CRM (London and Sandler, 2019): cIPS + λ‖θ − θ0‖², with 1 + ln π in place of π. This makes the
//!   objective convex and never smaller, because π ≥ 1 + ln π and costs are not positive.

mod objective;

use guarantor_engine::baseline::mean_cost;
use guarantor_engine::control::Control;
use guarantor_engine::error::{EngineError, Result};
use guarantor_engine::estimate::cips;
use guarantor_engine::log::{LogSource, PartLog, Side, Span, Split};
use guarantor_engine::measure::Subject;
use guarantor_engine::policy::{FeatureMap, PolicyParams};
use guarantor_engine::split::material;

use objective::Objective;

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

    /// Whether λ is at an end of the grid, so that one beyond it might have been better. 0 is not such an
    /// end.
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

/// The two parts of a log, copied into memory once for all learners.
pub struct Parts {
    learning: Box<dyn LogSource>,
    held_out: Box<dyn LogSource>,
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
            |side: Side| material(&PartLog::new(log, Span::Hash(split(seed)), side)?, &FeatureMap::Identity);
        let (learning, held_out) = (part(Side::Learn)?, part(Side::Certify)?);
        let logged_risk = mean_cost(&*held_out, control)?;
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
    let objective = Objective { principle, log: &*parts.learning, start: &start, tau, control };
    let theta0: Vec<f64> = start.iter().copied().collect();
    let moments = match principle {
        Principle::SampleVariance => Some(objective.moments(&theta0)?),
        Principle::Bayesian => None,
    };
    let mut best: Option<Chosen> = None;
    for lambda in principle.grid() {
        // Always from θ0: a large penalty leads to policies that play no logged action, where the gradient is
        // 0.
        let theta = objective.minimize(lambda, theta0.clone(), moments)?;
        let policy = softmax(&theta, start.ncols());
        let promised_risk = cips(&*parts.held_out, Subject::Policy(&policy), tau, control)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use guarantor_engine::control::unattended;
    use guarantor_engine::log::{Columns, MemoryLog};

    /// 300 contexts in the plane and two actions. The action that matches the sign of x0 costs −1. The
    /// logging policy is uniform.
    pub(in crate::related) fn world() -> (MemoryLog, PolicyParams) {
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
            logging: guarantor_engine::log::Logging::Fixed,
            repetitions: guarantor_engine::log::Repetitions::Designed,
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

    /// cIPS of a policy and the mean cost on the held-out contexts, computed by hand.
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

    #[test]
    fn ends_of_the_grid_are_marked_unless_lambda_is_0() {
        let ends = |p: Principle| p.grid().map(|lambda| p.at_an_end(lambda));
        assert_eq!(ends(Principle::SampleVariance), [true, false, false, false, false, false, false]);
        assert_eq!(ends(Principle::Bayesian), [true, false, false, false, false, false, true]);
    }
}
