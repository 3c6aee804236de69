//! Kind `evaluate`: candidates that the caller supplies, certified as given.

use super::account::{Account, PolicyClaims};
use super::assemble::{Subjects, assemble, decide};
use super::ground::{Checked, Ground};
use super::shares::{GIVEN, policy_delta};
use crate::bound::{Choice, ControlVariate, lambda_grid};
use crate::certificate::{About, CandidateResult, Certificate, Decision};
use crate::claims::{Claim, PolicyQuantity, bound_of, xi_grid};
use crate::control::Control;
use crate::error::{EngineError, Result};
use crate::estimate;
use crate::inputs::Inputs;
use crate::log::LogSource;
use crate::measure::Subject;
use crate::policy::PolicyParams;
use crate::spec::{BoundKind, Candidate, JobKind, JobSpec};

/// Certifies the candidates. They share δ equally, and the certificate's own results are those of the
/// best one.
///
/// # Errors
/// If a candidate is missing, the log cannot be read, or a number is not finite.
pub fn certify_candidates(spec: &JobSpec, inputs: &Inputs, control: &Control) -> Result<Certificate> {
    if spec.kind != JobKind::Evaluate {
        return Err(super::other_evidence());
    }
    let mut checked: Vec<Checked> = Vec::new();
    for candidate in &spec.candidates {
        checked.push((candidate.label(), subject_of(candidate, inputs)?.1));
    }
    let ground = Ground::new(spec, inputs, &checked, control)?;
    let log = &ground.certified;
    let mut account = Account::open(spec, ground.baseline(), control)?;
    let mut results: Vec<CandidateResult> = Vec::new();
    let mut best: Option<((bool, bool, f64), PolicyClaims, usize)> = None;
    for (i, candidate) in spec.candidates.iter().enumerate() {
        let control = control.span(i as f64 / spec.candidates.len() as f64, 1.0);
        let (policy, subject) = subject_of(candidate, inputs)?;
        let claims = claim_candidate(spec, log, candidate, subject, &mut account, &control)?;
        let failed = ground.failed(Some(&candidate.label()));
        let sound = failed.iter().all(|check| spec.accept.contains(&check.name));
        let decision = decide(spec, &claims.guarantee, &failed);
        results.push(CandidateResult {
            candidate: candidate.label(),
            policy_digest: policy.map(PolicyParams::digest).transpose()?,
            decision,
            guaranteed_risk: claims.guarantee.risk,
            guaranteed_improvement: claims.guarantee.improvement,
            estimated_risk: estimate::cips(log, subject, 0.0, &control)?,
        });
        // A candidate whose checks failed is the best one only if all others failed too. One that deploys without
        // any failed check comes before those whose failed checks were accepted.
        let clean = failed.is_empty() && decision == Decision::Deploy;
        let rank = (sound, clean, claims.guarantee.improvement);
        if best.as_ref().is_none_or(|(other, ..)| rank > *other) {
            best = Some((rank, claims, i));
        }
    }
    let (_, best, place) = best.ok_or_else(|| EngineError::Log("there is no candidate".into()))?;
    let guarantee = account.rest_on(&best);
    let (label, subject) = &checked[place];
    let subjects = Subjects {
        candidates: results,
        last_quarter: ground.last_quarter(*subject, control)?,
        best: Some(label.clone()),
        ..Subjects::default()
    };
    assemble(&ground, account, guarantee, subjects)
}

fn subject_of<'a>(
    candidate: &Candidate,
    inputs: &Inputs<'a>,
) -> Result<(Option<&'a PolicyParams>, Subject<'a>)> {
    match candidate {
        Candidate::Policy { policy_id } => {
            let missing = || EngineError::Log(format!("policy {policy_id} is missing"));
            let policy = inputs.policies.get(policy_id).ok_or_else(missing)?;
            Ok((Some(policy), Subject::Policy(policy)))
        }
        Candidate::Logged { name } => {
            let names = &inputs.log.shape().capabilities.candidates;
            let place = names.iter().position(|n| n == name);
            let missing = || EngineError::Log(format!("candidate {name} is missing from the log"));
            Ok((None, Subject::Logged(place.ok_or_else(missing)?)))
        }
    }
}

fn claim_candidate(
    spec: &JobSpec,
    log: &dyn LogSource,
    candidate: &Candidate,
    subject: Subject,
    account: &mut Account,
    control: &Control,
) -> Result<PolicyClaims> {
    let label = candidate.label();
    let about = About::Candidate(&label);
    let each = policy_delta(spec) / spec.candidates.len() as f64;
    account.claim(spec, about, GIVEN, each, |quantity, delta| {
        let claim = Claim { about, subject, quantity, delta };
        match spec.bound {
            BoundKind::LondonSandler | BoundKind::Catoni | BoundKind::Cbb | BoundKind::Ix => {
                claim.for_posterior(log, &*bound_of(spec, log, quantity, delta)?, 0.0, control)
            }
            BoundKind::LogSmoothing => {
                let grid = lambda_grid(ControlVariate::Constant(0.0), 0.0, quantity.kappa());
                claim.for_given(log, "log_smoothing", grid, None, control)
            }
            BoundKind::Betting | BoundKind::Auto => {
                let all = match subject {
                    Subject::Policy(_) => true,
                    Subject::Logged(place) => {
                        let capabilities = &log.shape().capabilities;
                        let name = capabilities.candidates.get(place);
                        name.is_some_and(|name| capabilities.candidate_propensities.contains(name))
                            && !capabilities.precision_of(place).is_coarse()
                    }
                };
                let grid = given_grid(spec, log, all, quantity);
                claim.for_given(log, "betting", grid, None, control)
            }
        }
    })
}

/// The grid of (λ, ξ) for a given policy. It does not depend on n, so a log can be certified again after
/// an append.
fn given_grid(
    spec: &JobSpec,
    log: &dyn LogSource,
    all_actions: bool,
    quantity: PolicyQuantity,
) -> Vec<Choice> {
    let member = |xi: f64| {
        let tau = if xi == 0.0 { 0.0 } else { spec.tau };
        lambda_grid(ControlVariate::Constant(xi), tau, quantity.kappa())
    };
    xi_grid(spec, log, all_actions).into_iter().flat_map(member).collect()
}
