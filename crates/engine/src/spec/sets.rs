//! What can be asked of a log whose rows have their own actions (docs/math.md#sets).

use super::types::{BoundKind, JobKind, PriorKind};
use super::{MIN_SPLIT, SpecContext, SpecRequest};
use crate::error::{SpecCode, SpecError};
use crate::log::FeatureSpace;

/// Checks a request against a log with action sets, if it is one.
///
/// # Errors
/// If the request needs one fixed set of actions, or the rows cannot be learned from.
pub fn check_sets(
    sent: &SpecRequest,
    kind: JobKind,
    bound: BoundKind,
    context: &SpecContext,
) -> Result<(), SpecError> {
    let Some(features) = context.shape.capabilities.action_sets else { return Ok(()) };
    let fails = |code: SpecCode, field: &str, message: String| Err(SpecError::new(code, field, message));
    let instead = match (kind, bound) {
        (_, BoundKind::Auto) => None,
        (JobKind::Learn, _) => Some("auto"),
        (JobKind::Evaluate, BoundKind::LondonSandler | BoundKind::Catoni | BoundKind::Cbb) => {
            Some("auto, betting, log_smoothing or ix")
        }
        (JobKind::Evaluate, _) => None,
    };
    if let Some(instead) = instead {
        let message = format!(
            "{} is for policies over one fixed set of actions, and every row of this dataset has its own; use {instead}",
            bound.name()
        );
        return fails(SpecCode::BoundNeedsFixedActions, "bound", message);
    }
    if kind == JobKind::Evaluate {
        return Ok(());
    }
    if sent.policy_class.is_some() {
        let message = "a policy over action sets has a class of its own; remove policy_class".into();
        return fails(SpecCode::NotForThisKind, "policy_class", message);
    }
    let prior = sent.prior.clone().unwrap_or_default();
    if prior.policy_id.is_some() || prior.kind.is_some_and(|kind| kind != PriorKind::Split) {
        let message =
            "learning over action sets always uses the prior `split`; remove prior.kind and prior.policy_id"
                .into();
        return fails(SpecCode::NotForThisKind, "prior.kind", message);
    }
    if features.actions == FeatureSpace::None {
        let message =
            "learning needs features of the actions, which this log does not have; log them in `actions`, \
                       or log the candidates' propensities and use kind `evaluate`"
                .into();
        return fails(SpecCode::LearningNeedsFeatures, "kind", message);
    }
    if context.shape.contexts < MIN_SPLIT {
        let message = format!(
            "learning over action sets needs at least {MIN_SPLIT} rows, and this dataset has {}; append more",
            context.shape.contexts
        );
        return fails(SpecCode::BoundCannotLearnHere, "kind", message);
    }
    Ok(())
}
