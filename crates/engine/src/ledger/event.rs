//! Names for the events that looks rest on, and which of them hold at every number of rows at once, so
//! that looking again after an append is free (docs/math.md#looks; the argument in full is in
//! docs/trust.md, "Looking many times").
//!
//! A betting bound rests on one event: for no (λ, ξ) of its grid does a certain mean of supermartingales,
//! started at 1, ever exceed N/δ. The prior or the candidates, the grid, τ, δ and the first certified row
//! determine that event; it does not depend on what the rows say. Two certificates on the same rows and their continuation that share all of
//! these share the event, and therefore its δ.

use serde::Serialize;

use super::RowCounts;
use crate::bound::LAMBDA_POINTS;
use crate::certificate::{Certificate, METHOD};
use crate::digest::digest_of;
use crate::error::Result;
use crate::log::{Outcome, Span};
use crate::spec::{Guardrail, JobSpec, Looks};

/// Everything that determines the event of an anytime certificate.
#[derive(Serialize)]
struct Event<'a> {
    spec: JobSpec,
    /// Event, bound, δ and grid size of each claim, and whether it has a control variate.
    claims: Vec<(&'a str, &'a str, f64, Option<u64>, bool)>,
    lambda_points: usize,
    /// Where the certified rows begin, and the policy version that they are of: another beginning is another
    /// supermartingale. Absent in certificates of earlier methods.
    span: Option<&'a Span>,
    prior_digest: Option<&'a str>,
    candidate_digests: Vec<Option<&'a str>>,
    n_actions: usize,
    dim: usize,
    outcome: Outcome,
    method: u32,
}

/// The name of the event that a certificate rests on, or `None` if its bounds hold at one number of rows
/// only. Two certificates of one dataset with the same name share the event, so the second is free.
///
/// # Errors
/// If a number of the certificate is not finite.
pub fn anytime_event(certificate: &Certificate) -> Result<Option<String>> {
    let c = certificate;
    // An appended row of an earlier context would change that context's factor, which is then no
    // longer one step of a supermartingale.
    let each_context_once =
        RowCounts { rows: c.dataset.rows, contexts: c.dataset.contexts }.each_context_once();
    let betting = |bound: &str| matches!(bound, "betting" | "log_smoothing");
    if !each_context_once
        || !holds_at_every_n(&c.spec)
        || !c.bounds.iter().all(|record| betting(&record.bound))
    {
        return Ok(None);
    }
    let event = Event {
        spec: of_event(&c.spec),
        claims: (c.bounds.iter())
            .map(|r| (&*r.event, &*r.bound, r.delta, r.terms.grid_size, r.terms.theta.is_some()))
            .collect(),
        lambda_points: LAMBDA_POINTS,
        span: c.certified.as_ref().map(|certified| &certified.span),
        prior_digest: c.prior_digest.as_deref(),
        candidate_digests: c.candidates.iter().map(|result| result.policy_digest.as_deref()).collect(),
        n_actions: c.dataset.n_actions,
        dim: c.dataset.dim,
        outcome: c.user_units.outcome,
        method: c.method,
    };
    digest_of(&event).map(Some)
}

/// The spec without the fields that no event depends on: the required improvement, the limits of the guardrails, the
/// checks that may fail, how Q is searched (the bound holds for all Q), the family that δ comes from, and the traffic. The
/// objective and the outcomes of the guardrails stay: bounds on other outcomes are other events.
fn of_event(spec: &JobSpec) -> JobSpec {
    JobSpec {
        family: None,
        min_improvement: 0.0,
        guardrails: (spec.guardrails.iter())
            .map(|guardrail| Guardrail { max_loss: 0.0, ..guardrail.clone() })
            .collect(),
        rows_per_day: None,
        accept: Vec::new(),
        accepted_by: None,
        optimizer: None,
        ..spec.clone()
    }
}

/// The name of the question that a spec asks, known before anything is computed. On one dataset, the same
/// name means the same event: at every number of rows if [`holds_at_every_n`], and on the same rows if
/// [`prior_is_fixed`].
///
/// # Errors
/// If a number of the spec is not finite.
pub fn asked(spec: &JobSpec) -> Result<String> {
    digest_of(&(of_event(spec), LAMBDA_POINTS, METHOD))
}

/// Whether the prior does not depend on the dataset's rows. With a split it does, and with a time budget it
/// can come out differently each time.
pub fn prior_is_fixed(spec: &JobSpec) -> bool {
    spec.fraction().is_none()
}

/// Whether the event of a spec holds at every number of rows, and later looks pool old and new rows.
pub fn holds_at_every_n(spec: &JobSpec) -> bool {
    // Specs of earlier releases have no `looks`; their looks pooled.
    spec.holds_at_every_n() && spec.looks != Some(Looks::Once)
}
