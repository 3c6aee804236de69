//! The assembly of a certificate from an account and a verdict.

use super::account::Account;
use super::ground::Ground;
use super::judge::Judged;
use crate::certificate::{
    self, CandidateResult, Certificate, CertifiedRows, DatasetRecord, DeltaShare, Exploration, FORMAT,
    GuardrailResult, LearningRecord, METHOD, MergedRecord, PeriodEstimate, PolicyRecord, PriorEvidence,
    UserUnits,
};
use crate::checks::CheckResult;
use crate::cost_model::CostModel;
use crate::digest::digest_of;
use crate::error::{EngineError, Result, finite};
use crate::log::{LogShape, LogSource, NamedOutcome, Span};
use crate::policy::PolicyParams;
use crate::spec::JobSpec;

/// The shares must sum to δ, up to rounding.
fn check_shares(spec: &JobSpec, shares: &[DeltaShare]) -> Result<()> {
    let total: f64 = shares.iter().map(|s| s.share).sum();
    if shares.iter().all(|s| s.share > 0.0) && (total - spec.delta).abs() <= 1e-12 {
        return Ok(());
    }
    Err(EngineError::Numerical(format!("the shares of δ sum to {total}, not {}", spec.delta)))
}

fn policy_record(policy: &PolicyParams) -> Result<PolicyRecord> {
    Ok(PolicyRecord {
        kind: policy.kind(),
        digest: policy.digest()?,
        n_actions: policy.n_actions(),
        dim: policy.dim(),
    })
}

/// The policies of a certificate and their results.
#[derive(Default)]
pub struct Subjects<'a> {
    /// The results of each candidate (kind `evaluate`).
    pub candidates: Vec<CandidateResult>,
    /// The learned policy that is certified.
    pub policy: Option<&'a PolicyParams>,
    pub prior: Option<&'a PriorEvidence>,
    pub cost_model: Option<CostModel<'a>>,
    pub learning: Option<LearningRecord>,
    pub exploration: Option<Exploration>,
    /// The outcomes of the log, if they have names.
    pub outcomes: Vec<NamedOutcome>,
    /// The results of the guardrails for what is certified.
    pub guardrails: Vec<GuardrailResult>,
    /// The improvement of what is certified over the last quarter of the certified rows.
    pub last_quarter: Option<PeriodEstimate>,
    /// The candidate that the certificate's own results are about.
    pub best: Option<String>,
}

/// The rows that a certificate is about, and their checks.
pub struct Rows<'a> {
    pub spec: &'a JobSpec,
    /// The log as a whole.
    pub shape: &'a LogShape,
    /// Its digest and its version.
    pub dataset: (&'a str, u64),
    /// Whether the logging policy's parameters are known.
    pub policy_known: bool,
    /// How the certified rows were chosen, and the numbers of these rows and of their contexts.
    pub span: &'a Span,
    pub certified: (u64, u64),
    pub checks: &'a [CheckResult],
    /// What was merged, if the certificate is one of partials.
    pub merged: Option<MergedRecord>,
}

/// Assembles the certificate of the rows that a job has read.
pub fn assemble(
    ground: &Ground,
    account: Account,
    judged: Judged,
    subjects: Subjects,
) -> Result<Certificate> {
    let Ground { spec, inputs, .. } = *ground;
    let certified = ground.certified.shape();
    let rows = Rows {
        spec,
        shape: inputs.log.shape(),
        dataset: (inputs.dataset_digest, inputs.dataset_version),
        policy_known: inputs.logging_policy.is_some(),
        span: &ground.span,
        certified: (certified.rows, certified.contexts),
        checks: &ground.checks,
        merged: None,
    };
    assemble_rows(rows, account, judged, subjects)
}

/// Assembles the certificate.
pub fn assemble_rows(
    rows: Rows,
    account: Account,
    judged: Judged,
    subjects: Subjects,
) -> Result<Certificate> {
    let guarantee = judged.guarantee;
    finite("the guaranteed risk", guarantee.risk)?;
    finite("the guaranteed improvement", guarantee.improvement)?;
    if !(-1.0..=0.0).contains(&guarantee.risk) {
        return Err(EngineError::Numerical(format!("the guaranteed risk {} is not a risk", guarantee.risk)));
    }
    let Rows { spec, shape, span, .. } = rows;
    check_shares(spec, &account.shares)?;
    let mut certificate = Certificate {
        format: FORMAT.into(),
        method: METHOD,
        statement: String::new(),
        decision: judged.decision,
        reasons: judged.reasons,
        guaranteed_risk: guarantee.risk,
        guaranteed_improvement: guarantee.improvement,
        min_improvement: spec.min_improvement,
        confidence: 1.0 - spec.delta,
        numerical_slack: guarantee.slack,
        user_units: UserUnits::new(shape.outcome),
        baseline_risk: account.baseline,
        objective: spec.objective.clone(),
        guardrails: subjects.guardrails,
        breakdown: judged.breakdown,
        plan: judged.plan,
        candidate: subjects.best,
        candidates: subjects.candidates,
        bounds: account.records,
        delta_accounting: account.shares,
        dataset: DatasetRecord {
            version: rows.dataset.1,
            digest: rows.dataset.0.into(),
            rows: shape.rows,
            contexts: shape.contexts,
            n_actions: shape.n_actions,
            action_sets: shape.capabilities.action_sets,
            dim: shape.dim,
            logging: spec.logging,
            actions_declared: Some(shape.capabilities.actions_declared),
            designed_repetitions: Some(shape.capabilities.multiple_interactions),
            exact_propensities: Some(shape.capabilities.exact_propensities),
            outcomes: subjects.outcomes,
        },
        certified: Some(CertifiedRows {
            span: span.clone(),
            rows: rows.certified.0,
            contexts: rows.certified.1,
            last_quarter: subjects.last_quarter,
        }),
        merged: rows.merged,
        checks: rows.checks.to_vec(),
        policy: subjects.policy.map(policy_record).transpose()?,
        prior_digest: subjects.prior.map(digest_of).transpose()?,
        cost_model_digest: subjects.cost_model.map(|model| model.digest()).transpose()?,
        learning: subjects.learning,
        exploration: subjects.exploration,
        assumptions: certificate::assumptions(spec, span),
        attestations: certificate::attestations(spec, &shape.capabilities, rows.policy_known),
        engine_version: crate::VERSION.into(),
        seed: spec.seed,
        spec: spec.clone(),
        digest: String::new(),
    };
    certificate.user_units = UserUnits::of(&certificate);
    certificate.statement = certificate::statement(&certificate);
    certificate.digest = certificate.content_digest()?;
    Ok(certificate)
}
