//! The claims of guardrails: for each outcome that must not get much worse, an upper bound on how much worse a policy
//! is than the logging policy (docs/math.md#guardrails).

use super::account::{Account, PolicyClaims};
use super::ground::Ground;
use crate::baseline;
use crate::bound::Start;
use crate::certificate::{About, AutoEvidence, BoundRecord, GuardrailResult, LossNumbers};
use crate::claims::{Bet, Claim, Game, PolicyQuantity};
use crate::control::Control;
use crate::error::{EngineError, Result, finite};
use crate::estimate;
use crate::guardrail::control_of;
use crate::inputs::Inputs;
use crate::log::{LogSource, OutcomeLog, Span};
use crate::measure::{Modeled, Subject};
use crate::span::Certified;
use crate::spec::{Guardrail, JobSpec};

/// The certified rows with all of their outcomes; None if there is no guardrail to read them for.
///
/// # Errors
/// If the log cannot be read.
pub fn certified_outcomes<'a>(
    spec: &JobSpec,
    span: &Span,
    inputs: &Inputs<'a>,
) -> Result<Option<Certified<'a>>> {
    if spec.guardrails.is_empty() {
        return Ok(None);
    }
    Certified::new(span, inputs).map(Some)
}

/// The guardrails of a spec, each with the certified rows as a log of its outcome.
pub struct Guardrails<'a>(Vec<(&'a Guardrail, OutcomeLog<'a>)>);

impl<'a> Guardrails<'a> {
    /// The guardrails of a spec on these rows.
    ///
    /// # Errors
    /// If the rows do not have an outcome.
    pub fn new(spec: &'a JobSpec, rows: Option<&'a Certified<'a>>) -> Result<Self> {
        let mut all = Vec::with_capacity(spec.guardrails.len());
        for guardrail in &spec.guardrails {
            let missing = || EngineError::Log("the rows of a guardrail are missing".into());
            all.push((guardrail, OutcomeLog::new(rows.ok_or_else(missing)?, &guardrail.outcome)?));
        }
        Ok(Guardrails(all))
    }

    /// Enters one claim per guardrail about a policy, each with δ `delta`. `bound` computes the claim of the
    /// guardrail with this position on the log of its outcome.
    ///
    /// # Errors
    /// If the log cannot be read, a number is not finite, or the job is canceled.
    pub fn claim(
        &self,
        account: &mut Account,
        claims: &mut PolicyClaims,
        (about, subject): (About, Subject),
        delta: f64,
        control: &Control,
        bound: impl Fn(usize, &dyn LogSource, &Claim) -> Result<BoundRecord>,
    ) -> Result<()> {
        for (i, (guardrail, log)) in self.0.iter().enumerate() {
            let quantity = PolicyQuantity::Improvement;
            let claim =
                Claim { about, subject, quantity, delta, guardrail: Some(guardrail.outcome.as_str()) };
            let record = bound(i, log, &claim)?;
            let guaranteed = record.value + record.terms.numerical_slack;
            let improvement = estimate::improvement(log, subject, control)?;
            let loss = LossNumbers {
                guaranteed: finite("the bound of a guardrail", guaranteed)?,
                estimated: finite("the estimate of a guardrail", -improvement.value + 0.0)?,
                own: record.terms.estimate,
                standard_error: finite("a standard error", improvement.standard_error)?,
                baseline: baseline::mean_cost(log, control)?,
            };
            let result = GuardrailResult::new(guardrail, log.shape().outcome, &loss);
            account.guard(claims, about, record, result);
        }
        Ok(())
    }

    /// The claims about the policy of `auto`, with what its learn side fixed for each outcome.
    ///
    /// # Errors
    /// As [`Self::claim`], and if the evidence is that of other guardrails.
    pub fn claim_auto(
        &self,
        ground: &Ground,
        evidence: &AutoEvidence,
        delta: f64,
        account: &mut Account,
        claims: &mut PolicyClaims,
        control: &Control,
    ) -> Result<()> {
        let prepared = &evidence.split.guardrails;
        let other = || EngineError::Log("the evidence is that of other guardrails".into());
        if prepared.len() != self.0.len() {
            return Err(other());
        }
        let about = (About::Learned, Subject::Policy(&evidence.policy));
        self.claim(account, claims, about, delta, control, |i, log, claim| {
            let prepared = &prepared[i];
            if claim.guardrail != Some(prepared.outcome.as_str()) {
                return Err(other());
            }
            let model = prepared.cost_model.as_ref();
            model.map(|model| model.check(log.shape())).transpose()?;
            let (variate, start) = control_of(model, log.shape());
            let (name, game) = match ground.may_aim() {
                true => {
                    ("aimed_betting", Game::Aimed { seed: ground.order_seed(), guess: Some(prepared.loss) })
                }
                false => ("betting", Game::One(prepared.loss)),
            };
            // As for the objective: in order of arrival, rows of one context would choose factors for each other.
            let repeated = log.shape().capabilities.multiple_interactions;
            let start = Start { fixed: repeated && !ground.may_aim(), ..start };
            let bet =
                Bet { game, control: variate, start, cost_model: model.map(Modeled::Linear), plays: None };
            claim.for_given(log, name, &bet, control)
        })?;
        for (result, prepared) in claims.guardrails.iter_mut().zip(prepared) {
            result.cost_model_digest =
                prepared.cost_model.as_ref().map(|model| model.digest()).transpose()?;
        }
        Ok(())
    }
}
