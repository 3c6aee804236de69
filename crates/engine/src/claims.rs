//! Claims: one bound on one quantity of one policy, computed from the log, with its terms and its
//! numerical slack. A certificate is a list of them.

use std::cell::RefCell;

use super::bound::{
    Aimed, Betting, Bound, Budget, Catoni, Cbb, Change, ControlVariate, Guess, Ix, LondonSandler, Mixture,
    Moments, Order, Plan, Rules, Sample, Start, pilot_of,
};
use super::certificate::{About, BoundRecord, BoundedQuantity};
use super::control::Control;
use super::error::{Result, finite};
use super::log::LogSource;
use super::measure::{Collected, Measured, Modeled, Statistics, Subject, collect, collect_each, measure};
use super::numerics::elementary::ln;
use super::refit::{self, Refitted};
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
    /// The outcome, if the claim is for a guardrail.
    pub guardrail: Option<&'a str>,
}

/// The numbers of rows and contexts of a log.
pub fn sample_of(log: &dyn LogSource) -> Sample {
    Sample { rows: log.shape().rows, contexts: log.shape().contexts }
}

/// The distinct numbers of interactions per context, ascending.
pub fn multiplicities(log: &dyn LogSource) -> Result<Vec<u64>> {
    let mut seen = std::collections::BTreeSet::new();
    for index in 0..log.chunks() {
        seen.extend(log.lean_chunk(index)?.weights.iter().map(|w| (1.0 / w).round() as u64));
    }
    Ok(seen.into_iter().collect())
}

/// The ξ over which a betting claim for all posteriors is minimized.
fn xi_grid(spec: &JobSpec, log: &dyn LogSource) -> Vec<f64> {
    match spec.xi {
        Some(xi) => vec![xi],
        None if log.shape().capabilities.control_variate() => XI_GRID.to_vec(),
        None => vec![0.0],
    }
}

/// How a claim about a given policy bets (docs/math.md#given-policy).
pub struct Bet<'a> {
    /// The game.
    pub game: Game,
    /// The control variate.
    pub control: ControlVariate,
    /// Where the control variate's factor starts.
    pub start: Start,
    /// The cost model, if it is the control variate and was fitted on rows that are not certified. Without it, the
    /// rows that were played before fit one.
    pub cost_model: Option<Modeled<'a>>,
    /// The plays of the improvement and of the risk, if they were collected already.
    pub plays: Option<&'a Plays>,
}

/// The plays of a given policy for the improvement and for the risk, collected in one pass. Each is used once.
pub struct Plays(RefCell<[Option<Collected>; 2]>);

impl Plays {
    /// Collects the plays of a bet in order of arrival.
    ///
    /// # Errors
    /// If the log cannot be read or a number is not finite.
    pub fn collect(log: &dyn LogSource, subject: Subject, bet: &Bet, control: &Control) -> Result<Plays> {
        let rules = [PolicyQuantity::Improvement, PolicyQuantity::Risk].map(|quantity| Rules {
            kappa: quantity.kappa(),
            control: bet.control,
            tau: 0.0,
        });
        let both = collect_each(log, subject, bet.cost_model, [&rules[0], &rules[1]], None, control)?;
        Ok(Plays(RefCell::new(both.map(Some))))
    }

    fn take(&self, quantity: PolicyQuantity) -> Option<Collected> {
        let place = match quantity {
            PolicyQuantity::Improvement => 0,
            PolicyQuantity::Risk => 1,
        };
        self.0.borrow_mut()[place].take()
    }
}

/// The game that a bet is played in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Game {
    /// Bets that aim at 1/δ, in a random order from this seed. For independent contexts under one policy. Without a
    /// guess, the first contexts are left out of the claim and give one.
    Aimed {
        /// The seed of the order.
        seed: u64,
        /// The mean and variance of z.
        guess: Option<Guess>,
    },
    /// The mixture of the constants of the grid, in order of arrival, whatever the logging policy learned.
    Mixture,
    /// The mixture of the constants of the grid and of factors of the control variate. It holds at every n, also if rows
    /// are added out of order.
    Anytime,
    /// One constant, from the variance of z on rows that are not certified.
    One(Guess),
    /// Bets with a budget for the variance, in order of arrival, whatever the logging policy learned. The plan and the
    /// constant for the case that the budget is exceeded come from rows that are not certified.
    Budget(Guess, Plan),
}

/// The factors of the control variate in looks at any time.
const ANYTIME_THETAS: [f64; 3] = [0.0, 0.25, 0.6];

impl Start {
    /// A constant's factor is chosen by the rows.
    pub const CONSTANT: Start = Start { theta: 0.0, strength: 5.0, fixed: false };
    /// A model that was fitted on some of the rows is trusted less.
    pub const REFITTED: Start = Start { theta: 0.9, strength: 20.0, fixed: false };
    /// A cost model is used as it was fitted until the rows say otherwise.
    pub const COST_MODEL: Start = Start { theta: 1.0, strength: 50.0, fixed: false };
}

/// λ = √(2 ln(1/δ)/(n·Var z)), which minimizes the second-order expansion of the bound.
pub fn constant(guess: &Guess, contexts: f64, delta: f64) -> f64 {
    let lambda = (2.0 * ln(1.0 / delta) / (contexts * guess.variance)).sqrt();
    if lambda.is_finite() { lambda.clamp(1e-6, 0.5) } else { 0.5 }
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
            let xis = xi_grid(spec, log);
            Box::new(Betting::new(sample, quantity.kappa(), &xis, tau, delta))
        }
    })
}

/// The bound on the loss in the outcome of a guardrail, for a posterior: the betting bound with κ = 1, whatever bound
/// the objective has. It holds for every log (docs/math.md#guardrails).
pub fn guardrail_bound(spec: &JobSpec, log: &dyn LogSource, delta: f64) -> Betting {
    let kappa = PolicyQuantity::Improvement.kappa();
    Betting::new(sample_of(log), kappa, &xi_grid(spec, log), spec.tau, delta)
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
        if kl > 0.0 {
            let unmoved = bound.value_and_gradient(&measured.statistics, 0.0).value;
            terms.value_without_kl = Some(finite("a bound", unmoved)?);
        }
        terms.numerical_slack = slack(value.value, &value.d_statistics, &measured) + single_slack(log);
        self.record(bound.name(), value.value, terms)
    }

    /// Bounds a policy that does not depend on these rows.
    pub fn for_given(
        &self,
        log: &dyn LogSource,
        name: &'static str,
        bet: &Bet,
        control: &Control,
    ) -> Result<BoundRecord> {
        let (sample, delta) = (sample_of(log), self.delta);
        let rules = Rules { kappa: self.quantity.kappa(), control: bet.control, tau: 0.0 };
        let order = match bet.game {
            Game::Aimed { seed, guess } => {
                let pilot = if guess.is_some() { 0 } else { pilot_of(sample.contexts) };
                Some(Order::new(seed, sample.contexts, pilot))
            }
            Game::Mixture | Game::Anytime | Game::One(_) | Game::Budget(..) => None,
        };
        // A cost model that no one has fitted is fitted on the blocks before.
        let refitted = match (&order, rules.control, bet.cost_model) {
            (Some(order), ControlVariate::CostModel, None) => Some(Refitted::fit(log, order, control)?),
            _ => None,
        };
        let modeled = bet.cost_model.or(refitted.as_ref().map(Modeled::Refitted));
        let collected = match bet.plays.and_then(|plays| plays.take(self.quantity)) {
            Some(collected) => collected,
            None => collect(log, self.subject, modeled, &rules, order.as_ref(), control)?,
        };
        let contexts = sample.contexts as f64;
        let sums = collected.table.moments(0..collected.table.len());
        let mut terms = Terms {
            n: sample.rows,
            contexts: sample.contexts,
            kl: Some(0.0),
            penalty: Some(ln(1.0 / delta)),
            tau: Some(rules.tau),
            kappa: Some(rules.kappa),
            ..Terms::default()
        };
        let value = if let (Some(order), Game::Aimed { guess, .. }) = (&order, bet.game) {
            let change = refitted
                .is_some()
                .then(|| Change { block: refit::first_block(order), start: Start::REFITTED });
            let starts = (bet.start, change);
            let aimed = Aimed::new(collected.table, &collected.blocks, order, starts, guess, delta)?;
            let aim = aimed.bound(|| control.check())?;
            terms.estimate = Some(finite("an estimate", aim.mean)?);
            terms.theta = (rules.control != ControlVariate::None).then_some(aim.theta);
            terms.pilot = guess.is_none().then_some(aim.pilot.round() as u64);
            terms.step = Some(aim.step);
            terms.spread = spread(&sums, aim.theta);
            aim.value
        } else if let Game::Budget(guess, plan) = bet.game {
            let table = collected.table;
            let budget = Budget::new(plan, contexts, |delta| constant(&guess, contexts, delta), delta);
            let kept = budget.bound(&table, contexts, bet.start)?;
            terms.estimate = Some(finite("an estimate", (sums.u + kept.theta * sums.v) / contexts)?);
            terms.theta = (rules.control != ControlVariate::None).then_some(kept.theta);
            terms.lambda = Some(budget.lambda());
            terms.log_sum = Some(kept.log_sum);
            terms.center = Some(plan.center);
            terms.budget = Some(finite("a budget", budget.budget())?);
            terms.spent = Some(finite("a spent budget", kept.spent)?);
            terms.knee = Some(finite("a knee", budget.knee())?);
            terms.slope_above = Some(plan.low);
            terms.slope_below = Some(plan.high);
            terms.spread = spread(&sums, kept.theta);
            kept.value
        } else {
            let mixture = match bet.game {
                Game::One(guess) => Mixture::one(constant(&guess, contexts, delta), delta),
                Game::Anytime if rules.control != ControlVariate::None && !bet.start.fixed => {
                    Mixture::in_any_order(rules.kappa, &ANYTIME_THETAS, delta)
                }
                Game::Mixture | Game::Anytime | Game::Aimed { .. } | Game::Budget(..) => {
                    Mixture::of_grid(rules.kappa, delta)
                }
            };
            let table = collected.table;
            let found = mixture.bound(&table, contexts, bet.start)?;
            let theta = found.theta.unwrap_or(0.0);
            terms.estimate = Some(finite("an estimate", (sums.u + theta * sums.v) / contexts)?);
            terms.theta = (rules.control != ControlVariate::None).then_some(theta);
            terms.lambda = Some(found.lambda);
            terms.log_sum = Some(found.log_sum);
            terms.spread = spread(&sums, theta);
            terms.grid_size = Some(mixture.members.len() as u64);
            found.value
        };
        terms.numerical_slack = 64.0 * f64::EPSILON * (1.0 + value.abs());
        self.record(name, value, terms)
    }

    /// The claim with its value and its terms.
    ///
    /// # Errors
    /// If a number is not finite.
    pub fn record(&self, bound: &str, value: f64, terms: Terms) -> Result<BoundRecord> {
        finite("a bound", value)?;
        finite("a bound's numerical slack", terms.numerical_slack)?;
        let (event, quantity) = match self.guardrail {
            Some(outcome) => (self.about.guardrail_event(outcome), BoundedQuantity::GuardrailLoss),
            None => (self.about.event(self.quantity.into()), self.quantity.into()),
        };
        Ok(BoundRecord {
            event,
            quantity,
            subject: self.about.subject(),
            bound: bound.into(),
            value,
            delta: self.delta,
            terms,
            used: false,
            outcome: self.guardrail.map(Into::into),
        })
    }
}

/// The standard deviation of u + θv; None if it is not finite.
pub fn spread(sums: &Moments, theta: f64) -> Option<f64> {
    let mean = (sums.u + theta * sums.v) / sums.contexts;
    let square = (sums.uu + 2.0 * theta * sums.uv + theta * theta * sums.vv) / sums.contexts;
    Some((square - mean * mean).max(0.0).sqrt()).filter(|spread| spread.is_finite())
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
