//! Claims: one bound on one quantity of one subject, computed from the log, with its terms and its
//! numerical slack. Certificates are lists of them.

use super::bound::{
    Betting, Bound, Catoni, Cbb, Choice, ControlVariate, GivenBetting, LondonSandler, Sample,
};
use super::certificate::BoundRecord;
use super::control::Control;
use super::cost_model::CostModel;
use super::error::{EngineError, Result, finite};
use super::log::LogSource;
use super::measure::{Measured, Statistics, Subject, measure};
use super::spec::{BoundKind, JobSpec};
use super::terms::Terms;

/// The control variates of the betting family where π0(·|x) is there; 0 alone where not.
pub const XI_GRID: [f64; 3] = [0.0, -0.2, -0.5];

/// What a claim is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// R(π).
    Risk,
    /// R(π) − R(π0).
    Improvement,
}

impl Quantity {
    pub fn kappa(self) -> u8 {
        match self {
            Quantity::Risk => 0,
            Quantity::Improvement => 1,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Quantity::Risk => "risk",
            Quantity::Improvement => "improvement",
        }
    }
}

pub struct Claim<'a> {
    pub event: String,
    pub label: String,
    pub subject: Subject<'a>,
    pub quantity: Quantity,
    pub delta: f64,
}

pub fn sample_of(log: &dyn LogSource) -> Sample {
    Sample { rows: log.shape().rows, contexts: log.shape().contexts }
}

/// The distinct numbers of interactions a context has, ascending.
pub fn multiplicities(log: &dyn LogSource) -> Result<Vec<u64>> {
    let mut seen = std::collections::BTreeSet::new();
    for index in 0..log.chunks() {
        seen.extend(log.chunk(index)?.weights.iter().map(|w| (1.0 / w).round() as u64));
    }
    Ok(seen.into_iter().collect())
}

/// The ξ that a betting claim minimises over.
pub fn xi_grid(spec: &JobSpec, log: &dyn LogSource, all_actions: bool) -> Vec<f64> {
    match spec.xi {
        Some(xi) => vec![xi],
        None if log.shape().capabilities.full_propensities && all_actions => XI_GRID.to_vec(),
        None => vec![0.0],
    }
}

/// The bound that the specification names, for a learned Q.
pub fn bound_of(
    spec: &JobSpec,
    log: &dyn LogSource,
    quantity: Quantity,
    delta: f64,
) -> Result<Box<dyn Bound>> {
    let (sample, tau) = (sample_of(log), spec.tau);
    Ok(match spec.bound {
        BoundKind::LondonSandler => Box::new(LondonSandler { sample, tau, delta }),
        BoundKind::Catoni => Box::new(Catoni { sample, tau, delta }),
        BoundKind::Cbb => {
            Box::new(Cbb::new(sample, multiplicities(log)?, tau, spec.xi.unwrap_or(-0.5), delta))
        }
        BoundKind::LogSmoothing => Box::new(Betting::log_smoothing(sample, delta)),
        BoundKind::Betting | BoundKind::Auto => {
            let xis = xi_grid(spec, log, true);
            Box::new(Betting::new(sample, quantity.kappa(), &xis, tau, delta))
        }
    })
}

impl Claim<'_> {
    /// For a Q with this KL to its prior (0 for a given policy under the paper's bounds).
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
        terms.numerical_slack = slack(value.value, &value.d_statistics, &measured);
        self.record(bound.name(), value.value, terms)
    }

    /// For a policy that does not depend on these rows, minimising over `choices`.
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
            return Err(EngineError::Numerical("λ exceeds the range of a shrunk cost model".into()));
        }
        let betting = Betting { name, sample: sample_of(log), kappa, delta: self.delta, choices };
        let given = GivenBetting { betting };
        let measured = measure(log, self.subject, cost_model, &given, control)?;
        let value = given.betting.value_and_gradient(&measured.statistics, 0.0);
        let mut terms = given.betting.terms_at(value.choice, measured.statistics[value.choice], 0.0);
        terms.numerical_slack = slack(value.value, &value.d_statistics, &measured);
        self.record(name, value.value, terms)
    }

    fn record(&self, bound: &str, value: f64, terms: Terms) -> Result<BoundRecord> {
        finite("a bound", value)?;
        finite("a bound's numerical slack", terms.numerical_slack)?;
        Ok(BoundRecord {
            event: self.event.clone(),
            quantity: self.quantity.name().into(),
            subject: self.label.clone(),
            bound: bound.into(),
            value,
            delta: self.delta,
            terms,
            used: false,
        })
    }
}

/// What the statistics' errors can do to the value, twice over, and the rounding of the value itself.
fn slack(value: f64, d_statistics: &[f64], measured: &Measured) -> f64 {
    let first_order: f64 = d_statistics.iter().zip(&measured.errors).map(|(d, e)| d.abs() * e).sum();
    2.0 * first_order + 64.0 * f64::EPSILON * (1.0 + value.abs())
}
