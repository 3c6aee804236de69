//! Whether a log supports what a spec asks for.

use super::types::{BoundKind, Candidate, JobSpec, Looks, PriorKind, SpecRequest};
use super::{Checked, SpecContext};
use crate::bound::{self, Needs};
use crate::error::{SpecCode, SpecError};
use crate::log::{LogShape, Logging};
use crate::policy::PolicyKind;

/// What the bound needs from the log.
fn needs(bound: BoundKind) -> Needs {
    match bound {
        BoundKind::LondonSandler => bound::london_sandler::NEEDS,
        BoundKind::Catoni => bound::catoni::NEEDS,
        BoundKind::Cbb => bound::cbb::NEEDS,
        BoundKind::Ix => bound::ix::NEEDS,
        BoundKind::Auto | BoundKind::LogSmoothing | BoundKind::Betting => bound::betting::NEEDS,
    }
}

pub(super) fn check_bound(bound: BoundKind, context: &SpecContext) -> Checked<()> {
    let (needs, has) = (needs(bound), &context.shape.capabilities);
    let (name, instead) = (bound.name(), needs.instead);
    if needs.full_propensities && !has.full_propensities {
        let message = format!(
            "{name} needs the propensities of all actions, which this log does not have; use {instead}"
        );
        return Err(SpecError::new(SpecCode::BoundNeedsFullPropensities, "bound", message));
    }
    if needs.fixed_logging && context.shape.logging == Logging::Adaptive {
        let message = format!(
            "{name} is proved for one fixed logging policy, and this dataset has logging = adaptive; use auto, \
             betting, log_smoothing or ix, or, if one policy logged every row and traffic came from one \
             distribution, upload the log with logging=fixed"
        );
        return Err(SpecError::new(SpecCode::BoundNeedsFixedLogging, "bound", message));
    }
    if needs.fixed_logging && has.repeated_contexts {
        let message = format!(
            "{name} needs independent rows, but rows of this log share a context_id; use auto or betting, or, if \
             the number of rows of a context was chosen without looking at its outcomes, upload the log with \
             repetitions=designed"
        );
        return Err(SpecError::new(SpecCode::BoundNeedsSingleInteractions, "bound", message));
    }
    if needs.full_propensities && !has.control_variate() {
        let message = format!(
            "{name} needs unrounded propensities, but those of this log look rounded; log all of their digits, \
             upload with exact_propensities=true if they are exact, or use auto or betting"
        );
        return Err(SpecError::new(SpecCode::BoundNeedsFullPropensities, "bound", message));
    }
    if needs.single_interactions && has.multiple_interactions {
        let message = format!("{name} is valid only if every context was logged once; use {instead}");
        return Err(SpecError::new(SpecCode::BoundNeedsSingleInteractions, "bound", message));
    }
    Ok(())
}

/// Checks again, when a job runs, that its bound is proved for its log.
///
/// # Errors
/// If the bound needs a fixed logging policy, and the spec or the log does not have one.
pub(crate) fn check_proved(spec: &JobSpec, shape: &LogShape) -> Checked<()> {
    if !needs(spec.bound).fixed_logging || (spec.is_fixed() && shape.logging == Logging::Fixed) {
        return Ok(());
    }
    let message =
        format!("{} is proved for one fixed logging policy, which this log may not have", spec.bound.name());
    Err(SpecError::new(SpecCode::BoundNeedsFixedLogging, "bound", message))
}

/// What depends on the number of actions must not depend on the actions that were logged.
pub(super) fn check_actions(spec: &JobSpec, sent: &SpecRequest, context: &SpecContext) -> Checked<()> {
    if context.shape.capabilities.knows_actions() {
        return Ok(());
    }
    let tau = matches!(spec.bound, BoundKind::LondonSandler | BoundKind::Catoni) && sent.tau.is_none();
    let prior = spec.prior.as_ref().is_some_and(|prior| prior.kind == PriorKind::Zero);
    let (field, what) = match (tau, prior) {
        (true, _) => ("tau", "the default of tau, 1/K,"),
        (_, true) => ("prior.kind", "the prior `zero`, which plays all actions equally,"),
        _ => return Ok(()),
    };
    let message = format!(
        "{what} depends on the number of actions, which was read off the logged rows; upload the log with n_actions"
    );
    Err(SpecError::new(SpecCode::ActionsNotStated, field, message))
}

/// Pooling old and new rows needs a bound that holds at every number of rows.
pub(super) fn check_looks(spec: &JobSpec) -> Checked<()> {
    if spec.looks != Some(Looks::Anytime) || spec.holds_at_every_n() {
        return Ok(());
    }
    let message = "`anytime` needs a bound that holds at every number of rows at once: `evaluate` with auto or \
                   betting, or `learn` with betting and the prior zero, policy or logging_policy; use `once`";
    Err(SpecError::new(SpecCode::LooksNeedAnytimeBound, "looks", message))
}

pub(super) fn check_policy(field: &str, id: &str, needs_mean: bool, context: &SpecContext) -> Checked<()> {
    let Some(policy) = (context.policy)(id) else {
        return Err(SpecError::new(SpecCode::UnknownPolicy, field, format!("policy {id} does not exist")));
    };
    let mismatch = |message: &str| Err(SpecError::new(SpecCode::PolicyShapeMismatch, field, message));
    match (context.shape.capabilities.action_sets, policy.plays_sets) {
        (Some(features), true) if policy.sets.is_none_or(|read| read == features) => return Ok(()),
        (Some(features), true) => {
            let read = policy.sets.unwrap_or_default();
            return mismatch(&format!(
                "the policy reads {} of requests and {} of actions, but the dataset has {} and {}",
                read.x, read.actions, features.x, features.actions
            ));
        }
        (Some(_), false) => {
            return mismatch(
                "the policy has fixed actions, but every row of the dataset has its own actions",
            );
        }
        (None, true) => {
            return mismatch("the policy plays over action sets, which the dataset does not have");
        }
        (None, false) => {}
    }
    let (k, p) = (context.shape.n_actions, context.shape.dim);
    if policy.n_actions != k || policy.dim != p {
        let message = format!(
            "the policy has {} actions and {} features, but the dataset has {k} and {p}",
            policy.n_actions, policy.dim
        );
        return Err(SpecError::new(SpecCode::PolicyShapeMismatch, field, message));
    }
    if needs_mean && policy.kind == PolicyKind::Uniform {
        let message = "the uniform policy has no parameters to use as a prior; use the prior `zero`, which plays uniformly";
        return Err(SpecError::new(SpecCode::PolicyShapeMismatch, field, message));
    }
    Ok(())
}

pub(super) fn check_candidate(
    i: usize,
    candidate: &Candidate,
    spec: &JobSpec,
    context: &SpecContext,
) -> Checked<()> {
    match candidate {
        Candidate::Policy { policy_id } => {
            check_policy(&format!("candidates[{i}].policy_id"), policy_id, false, context)
        }
        Candidate::Logged { name } => {
            let capabilities = &context.shape.capabilities;
            if !capabilities.candidates.contains(name) {
                let known = capabilities.candidates.join(", ");
                let message = format!("the dataset has no candidate {name}; its candidates are: {known}");
                return Err(SpecError::new(
                    SpecCode::UnknownCandidate,
                    format!("candidates[{i}].name"),
                    message,
                ));
            }
            // Rounded probabilities are used at the logged action only (docs/math.md#rounding).
            let place = capabilities.candidates.iter().position(|other| other == name);
            let known = capabilities.candidate_propensities.contains(name)
                && place.is_some_and(|place| !capabilities.precision_of(place).is_coarse());
            if !known && (spec.bound == BoundKind::Cbb || spec.xi.is_some_and(|xi| xi < 0.0)) {
                let message = "this bound needs the candidate's probabilities of all actions, but the log has only \
                               those of the logged actions; use auto, log_smoothing, ix or betting with \
                               xi = 0, log `candidate_propensities` with all of their digits, or send a policy";
                return Err(SpecError::new(SpecCode::BoundNeedsFullPropensities, "bound", message));
            }
            if !known && spec.bound == BoundKind::Ix && capabilities.multiple_interactions {
                let message = "ix needs the candidate's probabilities of all actions if contexts were logged more \
                               than once; use auto, betting or log_smoothing, log `candidate_propensities`, or \
                               send a policy";
                return Err(SpecError::new(SpecCode::BoundNeedsSingleInteractions, "bound", message));
            }
            Ok(())
        }
    }
}
