//! The certificate of rows that nobody has at hand, from sums that were merged from partials (docs/math.md#partials).

use super::account::Account;
use super::assemble::{Rows, Subjects, assemble_rows};
use super::findings::Findings;
use super::judge::verdict;
use super::planned::{NextLook, rows_per_day};
use super::shares::{GIVEN, policy_delta};
use crate::certificate::{
    About, BoundRecord, CandidateResult, CandidateUnits, Certificate, LearningRecord, MergedRecord,
};
use crate::checks::CheckResult;
use crate::claims::PolicyQuantity;
use crate::cost_model::CostModel;
use crate::error::{Result, finite};
use crate::log::{LogShape, Span};
use crate::measure::Subject;
use crate::policy::PolicyParams;
use crate::spec::JobSpec;

/// What is known about the rows.
pub struct MergedNumbers<'a> {
    /// The spec.
    pub spec: &'a JobSpec,
    /// The certified rows.
    pub shape: &'a LogShape,
    /// The number of all rows, those that were learned from included.
    pub rows: u64,
    /// The digest of the rows.
    pub digest: &'a str,
    /// The policy as it was measured.
    pub subject: Subject<'a>,
    /// The policy's parameters, unless the rows carried its propensities.
    pub policy: Option<&'a PolicyParams>,
    /// The cost model, if it is the control variate.
    pub cost_model: Option<CostModel<'a>>,
    /// How the policy was learned.
    pub learning: Option<LearningRecord>,
    /// The mean cost.
    pub mean_cost: f64,
    /// The means of the terms of [`super::findings_of`].
    pub findings: &'a [f64],
    /// The checks.
    pub checks: &'a [CheckResult],
    /// What was merged.
    pub merged: MergedRecord,
}

/// The certificate of merged sums. `bound` computes the claim about a quantity with its share of δ.
///
/// # Errors
/// If a number is not finite.
pub fn certify_merged(
    numbers: MergedNumbers,
    bound: impl Fn(About, PolicyQuantity, f64) -> Result<BoundRecord>,
) -> Result<Certificate> {
    let MergedNumbers { spec, shape, subject, policy, .. } = numbers;
    let label = spec.candidates.first().map(|candidate| candidate.label());
    let about = label.as_deref().map_or(About::Learned, About::Candidate);
    let mut account = Account::of_mean(spec, numbers.mean_cost);
    let claims = account
        .claim(spec, about, GIVEN, policy_delta(spec), |quantity, delta| bound(about, quantity, delta))?;
    account.rest_on(&claims);
    let sound = numbers.findings.iter().all(|mean| mean.is_finite());
    let findings = sound.then(|| Findings::of(shape, subject, numbers.findings));
    let failed: Vec<&CheckResult> = numbers.checks.iter().filter(|check| check.failed()).collect();
    let rows_per_day = rows_per_day(shape.rows, shape.capabilities.period);
    let next = NextLook { independent: false, rows_per_day };
    let judged = verdict(spec, &account, &claims, findings, &failed, next);
    let (risk, improvement) = (claims.guarantee.risk, claims.guarantee.improvement);
    let estimated_risk = finite("the estimated risk", judged.estimated_risk.unwrap_or(f64::NAN))?;
    let candidates = match &label {
        Some(label) => vec![CandidateResult {
            candidate: label.clone(),
            policy_digest: policy.map(PolicyParams::digest).transpose()?,
            decision: judged.decision,
            reasons: judged.reasons.clone(),
            guaranteed_risk: risk,
            guaranteed_improvement: improvement,
            estimated_risk,
            estimated_improvement: judged.breakdown.as_ref().map(|breakdown| breakdown.estimate),
            user_units: Some(CandidateUnits::of(&shape.outcome, risk, improvement, estimated_risk)),
            guardrails: Vec::new(),
        }],
        None => Vec::new(),
    };
    let learned = policy.filter(|_| label.is_none());
    let subjects = Subjects {
        candidates,
        policy: learned,
        cost_model: numbers.cost_model,
        learning: numbers.learning,
        best: label,
        ..Subjects::default()
    };
    let first_certified_row = numbers.rows - shape.rows;
    let whole = LogShape { rows: numbers.rows, contexts: numbers.rows, ..shape.clone() };
    let rows = Rows {
        spec,
        shape: &whole,
        dataset: (numbers.digest, 1),
        policy_known: false,
        span: &Span::Time { first_certified_row, policy_version: None },
        certified: (shape.rows, shape.contexts),
        checks: numbers.checks,
        merged: Some(numbers.merged),
    };
    assemble_rows(rows, account, judged, subjects)
}
