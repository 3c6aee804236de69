//! Which certificates hold at every number of rows at once, so that looking again after an append costs
//! nothing (docs/math.md#looks; the argument is in docs/trust.md).
//!
//! A betting bound rests on one event: for none of its (λ, ξ) does a certain mean of supermartingales that
//! starts at 1 ever exceed N/δ. The event depends on the prior or the candidates, the grid, τ and δ, and
//! not on the rows. Two certificates on the same rows, or on the same rows and appended ones, that have all
//! of these in common share the event, and so its δ.

use serde::Serialize;

use super::Certificate;
use crate::bound::LAMBDA_POINTS;
use crate::digest::digest_of;
use crate::error::Result;
use crate::log::Outcome;
use crate::spec::{BaselineKind, BoundKind, JobKind, JobSpec, PriorKind};

#[derive(Serialize)]
struct Event<'a> {
    spec: JobSpec,
    /// Event, bound, δ and number of choices of each claim.
    claims: Vec<(&'a str, &'a str, f64, Option<u64>)>,
    lambda_points: usize,
    prior_digest: Option<&'a str>,
    candidate_digests: Vec<Option<&'a str>>,
    n_actions: usize,
    dim: usize,
    outcome: Outcome,
    engine_version: &'a str,
}

/// A name for the event that the certificate rests on. Two certificates of one dataset have the same name
/// exactly if the second is free. None if its bounds hold at one number of rows only.
///
/// # Errors
/// If a number of the certificate is not finite.
pub fn anytime_event(certificate: &Certificate) -> Result<Option<String>> {
    let c = certificate;
    // An appended row of an earlier context would change a factor that was already multiplied in, so the
    // product would no longer be a supermartingale.
    let each_context_once = c.dataset.rows == c.dataset.contexts;
    let betting = |bound: &str| matches!(bound, "betting" | "log_smoothing");
    if !each_context_once || !is_fixed(&c.spec) || !c.bounds.iter().all(|record| betting(&record.bound)) {
        return Ok(None);
    }
    let event = Event {
        spec: of_event(&c.spec),
        claims: (c.bounds.iter()).map(|r| (&*r.event, &*r.bound, r.delta, r.terms.grid_size)).collect(),
        lambda_points: LAMBDA_POINTS,
        prior_digest: c.prior_digest.as_deref(),
        candidate_digests: c.candidates.iter().map(|result| result.policy_digest.as_deref()).collect(),
        n_actions: c.dataset.n_actions,
        dim: c.dataset.dim,
        outcome: c.user_units.outcome,
        engine_version: &c.engine_version,
    };
    digest_of(&event).map(Some)
}

/// The spec without what the event does not depend on: the required improvement, how Q is found (the bound
/// holds for all Q), and how δ was chosen.
fn of_event(spec: &JobSpec) -> JobSpec {
    JobSpec { family: None, min_improvement: 0.0, optimizer: None, ..spec.clone() }
}

/// A name for the question that a spec asks. On one dataset, the same name means the same event: on more
/// rows too if `holds_at_every_n`, and on the same rows if `prior_is_fixed`. Unlike the name of the event,
/// it is known before anything is computed.
///
/// # Errors
/// If a number of the spec is not finite.
pub fn asked(spec: &JobSpec) -> Result<String> {
    digest_of(&(of_event(spec), crate::VERSION))
}

/// Whether the event that the spec asks about holds at every number of rows, provided that each context was
/// logged once.
pub fn holds_at_every_n(spec: &JobSpec) -> bool {
    is_fixed(spec)
}

/// Whether the prior is independent of the dataset's rows. With a split it is not, and with a time budget it
/// may differ each time.
pub fn prior_is_fixed(spec: &JobSpec) -> bool {
    spec.split().is_none()
}

/// Whether everything that the bounds are minimized over was fixed before the first row was seen.
fn is_fixed(spec: &JobSpec) -> bool {
    let bound = match spec.bound {
        // For given policies, `auto` is the betting bound on its fixed grid. For `learn`, it is the split,
        // whose learn side chooses λ, τ, the cost model and the policy.
        BoundKind::Betting => true,
        BoundKind::Auto => spec.kind == JobKind::Evaluate,
        // A certified baseline needs a bound on R(π0), which holds at one n only.
        BoundKind::LogSmoothing => spec.baseline.kind != BaselineKind::Certified,
        BoundKind::LondonSandler | BoundKind::Catoni | BoundKind::Cbb => false,
    };
    let prior = match &spec.prior {
        None => spec.kind == JobKind::Evaluate,
        Some(prior) => {
            matches!(prior.kind, PriorKind::LoggingPolicy | PriorKind::Zero | PriorKind::Policy)
        }
    };
    bound && prior
}
