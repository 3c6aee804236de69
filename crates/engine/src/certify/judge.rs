//! The verdict about one policy: what is guaranteed, how that comes about, and why it is enough or not.

use super::account::{Account, Guarantee, PolicyClaims};
use super::breakdown::breakdown;
use super::causes::{Case, causes};
use super::findings::Findings;
use super::ground::Ground;
use super::planned::{NextLook, plan_after};
use crate::certificate::{self, Breakdown, Decision, Reason, exceeds, guardrails_hold};
use crate::checks::CheckResult;
use crate::control::Control;
use crate::error::Result;
use crate::measure::Subject;
use crate::plan::Plan;
use crate::spec::JobSpec;

/// The verdict about one policy.
pub struct Judged {
    /// What its claims guarantee.
    pub guarantee: Guarantee,
    /// From the estimate to the guarantee.
    pub breakdown: Option<Breakdown>,
    /// What is recommended.
    pub decision: Decision,
    /// Why.
    pub reasons: Vec<Reason>,
    /// What would change a keep.
    pub plan: Option<Plan>,
    /// The importance-weighted estimate of the risk, if the rows show one.
    pub estimated_risk: Option<f64>,
}

/// Decides `deploy` only if no check failed, or every failed one was accepted, and the guaranteed improvement,
/// slack included, exceeds the required one and not its own estimate, and no guardrail's loss can exceed its limit. NaN
/// compares false, so the decision is `keep`.
fn decide(spec: &JobSpec, claims: &PolicyClaims, failed: &[&CheckResult], estimate: Option<f64>) -> Decision {
    let guarantee = &claims.guarantee;
    let sound = guarantee.improvement.is_finite()
        && guarantee.risk.is_finite()
        && failed.iter().all(|check| spec.accept.contains(&check.name))
        && guardrails_hold(&spec.guardrails, &claims.guardrails);
    // Aimed bets may guarantee more than they estimate. That is within δ, but nobody should act on it.
    let likely = estimate.is_none_or(|estimate| !exceeds(guarantee.improvement, estimate));
    // R(π0) − R(π) is at most 1, so a larger guarantee shows that an assumption does not hold.
    if sound && likely && guarantee.improvement > spec.min_improvement && guarantee.improvement <= 1.0 {
        Decision::Deploy
    } else {
        Decision::Keep
    }
}

/// Judges a policy by its claims. `candidate` is its label, or None if it was learned.
///
/// # Errors
/// If the log cannot be read or the job is canceled.
pub fn judge(
    ground: &Ground,
    account: &Account,
    claims: &PolicyClaims,
    (candidate, subject): (Option<&str>, Subject),
    control: &Control,
) -> Result<Judged> {
    let findings = Findings::measure(&ground.certified, subject, control)?;
    let failed = ground.failed(candidate);
    Ok(verdict(ground.spec, account, claims, findings, &failed, ground.next_look()))
}

/// The verdict, given what the rows show, the failed checks that concern the policy, and what a later look would be.
pub fn verdict(
    spec: &JobSpec,
    account: &Account,
    claims: &PolicyClaims,
    findings: Option<Findings>,
    failed: &[&CheckResult],
    next: NextLook,
) -> Judged {
    let guarantee = claims.guarantee;
    let records = account.records_of(claims);
    let breakdown = breakdown(records, &guarantee, findings.as_ref());
    let estimate = breakdown.as_ref().map(|breakdown| breakdown.estimate);
    let decision = decide(spec, claims, failed, estimate);
    let numbers = (guarantee.improvement, estimate);
    let mut reasons = certificate::reasons(spec, decision, numbers, &claims.guardrails, failed);
    let case = Case {
        spec,
        decision,
        guaranteed: guarantee.improvement,
        breakdown: breakdown.as_ref(),
        findings: findings.as_ref(),
        failed,
    };
    reasons.extend(causes(&case));
    let plan = match decision {
        Decision::Keep => plan_after(next, &case, records, &claims.guardrails),
        Decision::Deploy => None,
    };
    let estimated_risk = findings.map(|found| found.risk);
    Judged { guarantee, breakdown, decision, reasons, plan, estimated_risk }
}
