//! What the learn side fixes for the guardrails of a learned policy: a cost model of each outcome, and the mean and
//! variance of z (docs/math.md#guardrails). The bounds on the certify side start from them.

use super::bound::{ControlVariate, Guess, Rules, Start};
use super::certificate::GuardrailEvidence;
use super::claims::PolicyQuantity;
use super::control::Control;
use super::error::Result;
use super::inputs::Inputs;
use super::log::{LogShape, LogSource, OutcomeLog, PartLog, Side, Span, Split};
use super::measure::{Modeled, Subject, collect};
use super::policy::PolicyParams;
use super::refit::{LinearModel, possible};
use super::span::{seed_of, span_of};
use super::spec::JobSpec;

/// The control variate of a guardrail of a learned policy, and where its factor starts.
pub fn control_of(model: Option<&LinearModel>, shape: &LogShape) -> (ControlVariate, Start) {
    match model {
        Some(_) => (ControlVariate::CostModel, Start::COST_MODEL),
        None if shape.capabilities.control_variate() => (ControlVariate::Constant, Start::CONSTANT),
        None => (ControlVariate::None, Start::CONSTANT),
    }
}

/// Prepares the guardrails of a spec on the learn side, for the policy that was learned there. `inputs` has the log
/// with all of its outcomes.
///
/// # Errors
/// If the log cannot be read, has no such outcome, or the job is canceled.
pub fn prepare(
    spec: &JobSpec,
    inputs: &Inputs,
    policy: &PolicyParams,
    control: &Control,
) -> Result<Vec<GuardrailEvidence>> {
    if spec.guardrails.is_empty() {
        return Ok(Vec::new());
    }
    let learned = PartLog::new(inputs.log, span_of(spec, inputs), Side::Learn)?;
    // Another seed than that of the split, so that both halves have rows.
    let halves = Span::Hash(Split { seed: seed_of(inputs.dataset_digest) ^ 1, fraction: 0.5 });
    let mut all = Vec::with_capacity(spec.guardrails.len());
    for guardrail in &spec.guardrails {
        let log = OutcomeLog::new(&learned, &guardrail.outcome)?;
        let cost_model = fit(&log, control)?;
        let loss = guess(&log, &halves, cost_model.as_ref(), policy, control)?;
        all.push(GuardrailEvidence { outcome: guardrail.outcome.clone(), cost_model, loss });
    }
    Ok(all)
}

fn fit(log: &dyn LogSource, control: &Control) -> Result<Option<LinearModel>> {
    match log.shape().capabilities.control_variate() {
        true => LinearModel::fit(log, control),
        false => Ok(None),
    }
}

/// The mean and variance of z. If there are enough rows, a model that was fitted on one half of them is judged on the
/// other: on its own rows it would look better than it is. Only the width of the bound depends on this guess.
fn guess(
    log: &dyn LogSource,
    halves: &Span,
    model: Option<&LinearModel>,
    policy: &PolicyParams,
    control: &Control,
) -> Result<Guess> {
    let shape = log.shape();
    if model.is_some() && possible(&LogShape { contexts: shape.contexts / 3, ..shape.clone() }) {
        let fitted = fit(&PartLog::new(log, halves.clone(), Side::Learn)?, control)?;
        let judge = PartLog::new(log, halves.clone(), Side::Certify)?;
        return moments(&judge, fitted.as_ref(), policy, control);
    }
    moments(log, model, policy, control)
}

fn moments(
    log: &dyn LogSource,
    model: Option<&LinearModel>,
    policy: &PolicyParams,
    control: &Control,
) -> Result<Guess> {
    let (variate, start) = control_of(model, log.shape());
    let rules = Rules { kappa: PolicyQuantity::Improvement.kappa(), control: variate, tau: 0.0 };
    let modeled = model.map(Modeled::Linear);
    let table = collect(log, Subject::Policy(policy), modeled, &rules, None, control)?.table;
    let sums = table.moments(0..table.len());
    let theta = if variate == ControlVariate::None { 0.0 } else { sums.theta(start.theta, start.strength) };
    let n = sums.contexts.max(1.0);
    let mean = (sums.u + theta * sums.v) / n;
    let square = (sums.uu + 2.0 * theta * sums.uv + theta * theta * sums.vv) / n;
    // A guess that cannot be used is replaced by a careful one.
    let usable = mean.is_finite() && square.is_finite();
    Ok(match usable {
        true => Guess { mean, variance: (square - mean * mean).max(1e-9) },
        false => Guess { mean: 0.0, variance: 1.0 },
    })
}
