//! Which certificates hold at every number of rows at once, so that looking again after an append
//! costs nothing (MATH.md 5; the argument is in docs/trust.md, "Looking many times").
//!
//! A betting bound rests on one event: that for none of its (λ, ξ) a certain mean of supermartingales,
//! started at 1, ever exceeds N/δ. That event is fixed by the prior or the candidates, the grid, τ and
//! δ, and by nothing that the rows decide. Two certificates on the same rows and their continuation
//! that share all of these share the event, and so share its δ.

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

/// A name for the event that the certificate rests on, equal for two certificates of one dataset
/// exactly where the second is free; None where its bounds hold at one number of rows only.
pub fn anytime_event(certificate: &Certificate) -> Result<Option<String>> {
    let c = certificate;
    // An appended row of an earlier context would change that context's factor, which is then no
    // longer one step of a supermartingale.
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

/// The specification without what no event depends on: what is asked of the improvement, how Q is
/// searched (the bound holds for all Q), and how δ was arrived at.
fn of_event(spec: &JobSpec) -> JobSpec {
    JobSpec { family: None, min_improvement: 0.0, optimizer: None, ..spec.clone() }
}

/// A name for what a specification asks. On one dataset the same name means the same event: on more
/// rows too where `holds_at_every_n`, and on the same rows where `prior_is_fixed`. Unlike the event's
/// own name it is known before anything is computed.
pub fn asked(spec: &JobSpec) -> Result<String> {
    digest_of(&(of_event(spec), crate::VERSION))
}

/// Whether the event that the specification asks about holds at every number of rows, as long as each
/// context was logged once.
pub fn holds_at_every_n(spec: &JobSpec) -> bool {
    is_fixed(spec)
}

/// Whether rows of the dataset have no part in the prior. With a split they do, and by a time budget
/// they may differently each time.
pub fn prior_is_fixed(spec: &JobSpec) -> bool {
    spec.split().is_none()
}

/// Whether all that the bounds minimise over was fixed before the first row was seen.
fn is_fixed(spec: &JobSpec) -> bool {
    let bound = match spec.bound {
        // For given policies `auto` is the betting bound on its fixed grid; with learning it is the
        // split, where the first part's rows choose λ, τ, the cost model and the policy.
        BoundKind::Betting => true,
        BoundKind::Auto => spec.kind == JobKind::Evaluate,
        // With a certified baseline it needs a bound on R(π0), and that one holds at one n only.
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
