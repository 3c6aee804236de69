//! Kind `evaluate`: candidates that the caller supplies, certified as given.

use super::account::{Account, PolicyClaims};
use super::assemble::{Subjects, assemble};
use super::ground::{Checked, Ground};
use super::guardrails::{Guardrails, certified_outcomes};
use super::judge::{Judged, judge};
use super::shares::{GIVEN, guardrail_delta, policy_delta};
use crate::bound::{ControlVariate, Start};
use crate::certificate::{About, CandidateResult, CandidateUnits, Certificate, Decision, guardrails_hold};
use crate::claims::{Bet, Claim, Game, Plays, bound_of};
use crate::control::Control;
use crate::error::{EngineError, Result};
use crate::estimate;
use crate::inputs::Inputs;
use crate::log::LogSource;
use crate::measure::Subject;
use crate::objective::ObjectiveLog;
use crate::policy::PolicyParams;
use crate::refit;
use crate::spec::{BoundKind, Candidate, JobKind, JobSpec, Looks};

/// The best candidate so far: what it is ranked by, its claims, its verdict, and its place.
type Best = ((bool, bool, bool, f64), PolicyClaims, Judged, usize);

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
    let objective = ObjectiveLog::new(spec, inputs.log)?;
    let of_objective = Inputs { log: objective.source(), ..*inputs };
    let ground = Ground::new(spec, &of_objective, &checked, control)?;
    let rows = certified_outcomes(spec, &ground.span, inputs)?;
    let guardrails = Guardrails::new(spec, rows.as_ref())?;
    let log = &ground.certified;
    let mut account = Account::open(spec, ground.baseline(), control)?;
    let mut results: Vec<CandidateResult> = Vec::new();
    let mut best: Option<Best> = None;
    for (i, candidate) in spec.candidates.iter().enumerate() {
        let control = control.span(i as f64 / spec.candidates.len() as f64, 1.0);
        let (policy, subject) = subject_of(candidate, inputs)?;
        let mut claims = claim_candidate(&ground, candidate, subject, &mut account, &control)?;
        guard_candidate(
            &ground,
            &guardrails,
            (&candidate.label(), subject),
            &mut account,
            &mut claims,
            &control,
        )?;
        let failed = ground.failed(Some(&candidate.label()));
        let sound = failed.iter().all(|check| spec.accept.contains(&check.name));
        let label = candidate.label();
        let judged = judge(&ground, &account, &claims, (Some(&label), subject), &control)?;
        let (risk, improvement) = (claims.guarantee.risk, claims.guarantee.improvement);
        let estimated_risk = match judged.estimated_risk {
            Some(risk) => risk,
            None => estimate::cips(log, subject, 0.0, &control)?,
        };
        results.push(CandidateResult {
            candidate: label,
            policy_digest: policy.map(PolicyParams::digest).transpose()?,
            decision: judged.decision,
            reasons: judged.reasons.clone(),
            guaranteed_risk: risk,
            guaranteed_improvement: improvement,
            estimated_risk,
            estimated_improvement: judged.breakdown.as_ref().map(|breakdown| breakdown.estimate),
            user_units: Some(CandidateUnits::of(&log.shape().outcome, risk, improvement, estimated_risk)),
            guardrails: claims.guardrails.clone(),
        });
        // A candidate whose checks failed is the best one only if all others failed too. One that deploys without
        // any failed check comes before those whose failed checks were accepted, and one whose guardrails hold before
        // those whose do not, however much these improve.
        let clean = failed.is_empty() && judged.decision == Decision::Deploy;
        let guarded = guardrails_hold(&spec.guardrails, &claims.guardrails);
        let rank = (sound, clean, guarded, improvement);
        if best.as_ref().is_none_or(|(other, ..)| rank > *other) {
            best = Some((rank, claims, judged, i));
        }
    }
    let (_, claims, judged, place) = best.ok_or_else(|| EngineError::Log("there is no candidate".into()))?;
    account.rest_on(&claims);
    let (label, subject) = &checked[place];
    let subjects = Subjects {
        candidates: results,
        guardrails: claims.guardrails,
        outcomes: inputs.log.shape().capabilities.outcomes.clone(),
        last_quarter: ground.last_quarter(*subject, control)?,
        best: Some(label.clone()),
        ..Subjects::default()
    };
    assemble(&ground, account, judged, subjects)
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
    ground: &Ground,
    candidate: &Candidate,
    subject: Subject,
    account: &mut Account,
    control: &Control,
) -> Result<PolicyClaims> {
    let (spec, log) = (ground.spec, &ground.certified);
    let label = candidate.label();
    let about = About::Candidate(&label);
    let each = policy_delta(spec) / spec.candidates.len() as f64;
    // Without a random order, the plays of both claims are collected in one pass.
    let bets = matches!(spec.bound, BoundKind::Betting | BoundKind::Auto);
    let (name, bet) = bet_of(ground, subject);
    let together = bets && spec.bounds_improvement() && !matches!(bet.game, Game::Aimed { .. });
    let plays = match together {
        true => Some(Plays::collect(log, subject, &bet, control)?),
        false => None,
    };
    let bet = Bet { plays: plays.as_ref(), ..bet };
    account.claim(spec, about, GIVEN, each, |quantity, delta| {
        let claim = Claim { about, subject, quantity, delta, guardrail: None };
        match spec.bound {
            BoundKind::LondonSandler | BoundKind::Catoni | BoundKind::Cbb | BoundKind::Ix => {
                claim.for_posterior(log, &*bound_of(spec, log, quantity, delta)?, 0.0, control)
            }
            BoundKind::LogSmoothing => {
                let (control_variate, start) = (ControlVariate::None, Start::CONSTANT);
                let bet = Bet {
                    game: Game::Mixture,
                    control: control_variate,
                    start,
                    cost_model: None,
                    plays: None,
                };
                claim.for_given(log, "log_smoothing", &bet, control)
            }
            BoundKind::Betting | BoundKind::Auto => claim.for_given(log, name, &bet, control),
        }
    })
}

/// How a betting claim about a candidate bets. With another bound, only guardrails bet, and as with `auto`.
fn bet_of<'a>(ground: &Ground, subject: Subject) -> (&'static str, Bet<'a>) {
    let spec = ground.spec;
    let aimed = spec.bound != BoundKind::Betting && ground.may_aim();
    let (name, game) = match aimed {
        true => ("aimed_betting", Game::Aimed { seed: ground.order_seed(), guess: None }),
        false if spec.looks == Some(Looks::Once) => ("betting", Game::Mixture),
        false => ("betting", Game::Anytime),
    };
    let (control, start) = constant_control(ground, subject, aimed);
    (name, Bet { game, control, start, cost_model: None, plays: None })
}

/// Enters the claims of the guardrails about a candidate. It does not depend on the certified rows, so the betting
/// bound holds whatever bound the objective has.
fn guard_candidate(
    ground: &Ground,
    guardrails: &Guardrails,
    (label, subject): (&str, Subject),
    account: &mut Account,
    claims: &mut PolicyClaims,
    control: &Control,
) -> Result<()> {
    let (name, bet) = bet_of(ground, subject);
    let delta = guardrail_delta(ground.spec, ground.spec.candidates.len());
    let about = (About::Candidate(label), subject);
    guardrails.claim(account, claims, about, delta, control, |_, log, claim| {
        claim.for_given(log, name, &bet, control)
    })
}

/// The control variate of a candidate, where π0(·|x) and π(·|x) are known: a cost model that is refitted if the log has
/// features, and otherwise a constant.
fn constant_control(ground: &Ground, subject: Subject, aimed: bool) -> (ControlVariate, Start) {
    let capabilities = &ground.certified.shape().capabilities;
    let all = match subject {
        Subject::Policy(_) => true,
        Subject::Logged(place) => {
            let name = capabilities.candidates.get(place);
            name.is_some_and(|name| capabilities.candidate_propensities.contains(name))
                && !capabilities.precision_of(place).is_coarse()
        }
    };
    // In order of arrival, the rows of a context that was logged several times choose factors for each other. Looks at any
    // time have fixed factors.
    let running = aimed || !capabilities.multiple_interactions || ground.spec.looks != Some(Looks::Once);
    // ξ of cbb is its own.
    match ground.spec.xi.filter(|_| ground.spec.bound == BoundKind::Betting) {
        _ if !all || !capabilities.control_variate() => (ControlVariate::None, Start::CONSTANT),
        Some(0.0) => (ControlVariate::None, Start::CONSTANT),
        Some(xi) => (ControlVariate::Constant, Start { theta: -xi, strength: 0.0, fixed: true }),
        None if aimed && refit::possible(ground.certified.shape()) => {
            (ControlVariate::CostModel, Start::CONSTANT)
        }
        None if running => (ControlVariate::Constant, Start::CONSTANT),
        None => (ControlVariate::None, Start::CONSTANT),
    }
}
