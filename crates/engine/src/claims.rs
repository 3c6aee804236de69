//! Claims: one bound on one quantity of one policy, computed from the log, with its terms and its
//! numerical slack. A certificate is a list of them.

use super::bound::{
    Betting, Bound, Catoni, Cbb, Choice, ControlVariate, GivenBetting, Ix, LondonSandler, Sample,
};
use super::certificate::{About, BoundRecord, BoundedQuantity};
use super::control::Control;
use super::cost_model::CostModel;
use super::error::{EngineError, Result, finite};
use super::log::LogSource;
use super::measure::{Measured, Statistics, Subject, measure};
use super::spec::{BoundKind, JobSpec};
use super::terms::Terms;

/// The control variates of the betting bounds if the log has π0(·|x). Without it, only 0 is possible.
pub const XI_GRID: [f64; 3] = [0.0, -0.2, -0.5];

/// A quantity of a policy that is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyQuantity {
    /// R(π), the policy's risk.
    Risk,
    /// R(π) − R(π0), minus the improvement.
    Improvement,
}

impl PolicyQuantity {
    /// κ of the betting bounds.
    pub fn kappa(self) -> u8 {
        match self {
            PolicyQuantity::Risk => 0,
            PolicyQuantity::Improvement => 1,
        }
    }
}

impl From<PolicyQuantity> for BoundedQuantity {
    fn from(quantity: PolicyQuantity) -> Self {
        match quantity {
            PolicyQuantity::Risk => BoundedQuantity::Risk,
            PolicyQuantity::Improvement => BoundedQuantity::Improvement,
        }
    }
}

/// One claim: that a quantity of a policy is not above its bound, with probability at least 1 − δ.
pub struct Claim<'a> {
    /// The policy, as the certificate names it.
    pub about: About<'a>,
    /// The policy, as it is measured.
    pub subject: Subject<'a>,
    /// What is bounded.
    pub quantity: PolicyQuantity,
    /// The claim's share of δ.
    pub delta: f64,
}

/// The numbers of rows and contexts of a log.
pub fn sample_of(log: &dyn LogSource) -> Sample {
    Sample { rows: log.shape().rows, contexts: log.shape().contexts }
}

/// The distinct numbers of interactions per context, ascending.
pub fn multiplicities(log: &dyn LogSource) -> Result<Vec<u64>> {
    let mut seen = std::collections::BTreeSet::new();
    for index in 0..log.chunks() {
        seen.extend(log.chunk(index)?.weights.iter().map(|w| (1.0 / w).round() as u64));
    }
    Ok(seen.into_iter().collect())
}

/// The ξ over which a betting claim is minimized. `all_actions` says whether the policy's propensities
/// are known for all actions.
pub fn xi_grid(spec: &JobSpec, log: &dyn LogSource, all_actions: bool) -> Vec<f64> {
    match spec.xi {
        Some(xi) => vec![xi],
        None if log.shape().capabilities.control_variate() && all_actions => XI_GRID.to_vec(),
        None => vec![0.0],
    }
}

/// The bound that the spec names, for a posterior.
pub fn bound_of(
    spec: &JobSpec,
    log: &dyn LogSource,
    quantity: PolicyQuantity,
    delta: f64,
) -> Result<Box<dyn Bound>> {
    let (sample, tau) = (sample_of(log), spec.tau);
    Ok(match spec.bound {
        BoundKind::LondonSandler => Box::new(LondonSandler { sample, tau, delta }),
        BoundKind::Catoni => Box::new(Catoni { sample, tau, delta }),
        BoundKind::Cbb => {
            Box::new(Cbb::new(sample, multiplicities(log)?, tau, spec.xi.unwrap_or(-0.5), delta))
        }
        BoundKind::Ix => Box::new(Ix { sample, delta }),
        BoundKind::LogSmoothing => Box::new(Betting::log_smoothing(sample, delta)),
        BoundKind::Betting | BoundKind::Auto => {
            let xis = xi_grid(spec, log, true);
            Box::new(Betting::new(sample, quantity.kappa(), &xis, tau, delta))
        }
    })
}

impl Claim<'_> {
    /// Bounds a posterior with this KL from its prior (0 for a given policy under the paper's bounds).
    pub fn for_posterior(
        &self,
        log: &dyn LogSource,
        bound: &dyn Bound,
        kl: f64,
        control: &Control,
    ) -> Result<BoundRecord> {
        let statistics: &dyn Statistics = &bound;
        let measured = measure(log, self.subject, None, statistics, control)?;
        let value = bound.value_and_gradient(&measured.statistics, kl);
        let mut terms = bound.terms(&measured.statistics, kl);
        terms.numerical_slack = slack(value.value, &value.d_statistics, &measured) + single_slack(log);
        self.record(bound.name(), value.value, terms)
    }

    /// Bounds a policy that does not depend on these rows, minimizing over `choices`.
    pub fn for_given(
        &self,
        log: &dyn LogSource,
        name: &'static str,
        choices: Vec<Choice>,
        cost_model: Option<&CostModel>,
        control: &Control,
    ) -> Result<BoundRecord> {
        let kappa = self.quantity.kappa();
        let shrunk = choices.iter().any(|c| c.control == ControlVariate::Shrunk);
        if shrunk && choices.iter().any(|c| c.lambda > 0.9) {
            return Err(EngineError::Numerical("λ is above 0.9, the maximum for a shrunk cost model".into()));
        }
        let betting = Betting { name, sample: sample_of(log), kappa, delta: self.delta, choices };
        let given = GivenBetting { betting };
        let measured = measure(log, self.subject, cost_model, &given, control)?;
        let value = given.betting.value_and_gradient(&measured.statistics, 0.0);
        let mut terms = given.betting.terms_at(value.choice, measured.statistics[value.choice], 0.0);
        terms.numerical_slack = slack(value.value, &value.d_statistics, &measured) + single_slack(log);
        self.record(name, value.value, terms)
    }

    fn record(&self, bound: &str, value: f64, terms: Terms) -> Result<BoundRecord> {
        finite("a bound", value)?;
        finite("a bound's numerical slack", terms.numerical_slack)?;
        let quantity = self.quantity.into();
        Ok(BoundRecord {
            event: self.about.event(quantity),
            quantity,
            subject: self.about.subject(),
            bound: bound.into(),
            value,
            delta: self.delta,
            terms,
            used: false,
        })
    }
}

/// Twice the effect that the statistics' errors can have on the value, plus the rounding of the value
/// itself (docs/math.md#slack).
fn slack(value: f64, d_statistics: &[f64], measured: &Measured) -> f64 {
    let first_order: f64 = d_statistics.iter().zip(&measured.errors).map(|(d, e)| d.abs() * e).sum();
    2.0 * first_order + 64.0 * f64::EPSILON * (1.0 + value.abs())
}

/// What propensities in single precision can change (docs/math.md#rounding): each is off by a relative 2^-24 at
/// most, and so are the weights and the expectations that are computed from them.
fn single_slack(log: &dyn LogSource) -> f64 {
    let capabilities = &log.shape().capabilities;
    if capabilities.precision.single && !capabilities.uniform {
        8.0 * f64::from(f32::EPSILON) / 2.0
    } else {
        0.0
    }
}
