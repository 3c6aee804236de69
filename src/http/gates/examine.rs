//! What a gate may approve: a job's certificate, checked anew at every request, and what it says about one
//! candidate.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, header};
use serde::Serialize;
use serde_json::Value;

use super::stored::{check_dataset, check_policy};
use crate::http::App;
use crate::http::codes::Code;
use crate::http::jobs::{certificate_url, require_success};
use crate::http::problem::Problem;
use crate::store::{DatasetId, GateName, Job, JobId, Owner, PolicyId, Resource, StoreError, Timestamp};
use guarantor_engine::certificate::{
    BoundRecord, BoundedQuantity, Certificate, Decision, Document, FIRST_CHECKED_METHOD, GuardrailResult,
    LedgerPlace, Reason, SignatureState, check_signature, guardrails_hold, reasons,
};
use guarantor_engine::checks::{CheckName, CheckResult};
use guarantor_engine::log::{Logging, Outcome};
use guarantor_engine::spec::BaselineKind;

/// The name of the learned policy, as the certificate's bounds name it.
const LEARNED: &str = "learned";

/// What a gate approves, in the units of the outcome.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct GateUnits {
    /// The kind and range of the outcome.
    pub outcome: Outcome,
    /// Lower bound on the improvement in expected outcome.
    pub guaranteed_improvement: f64,
    /// The worst expected outcome: an upper bound on a cost, a lower bound on a reward.
    pub guaranteed_outcome: f64,
    /// The improvement that the job's spec requires.
    pub min_improvement: f64,
}

/// What a gate approves, with everything that the approval rests on.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[schema(as = Gate)]
pub struct GateAnswer {
    /// Whether to proceed with the rollout.
    pub ok: bool,
    /// The standing gate that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub gate: Option<GateName>,
    /// What the certificate recommends for the candidate.
    pub decision: Decision,
    #[schema(value_type = String, format = "uuid")]
    pub job_id: JobId,
    #[schema(value_type = String, format = "uuid")]
    pub dataset_id: DatasetId,
    /// The version of the dataset that was certified on.
    pub dataset_version: u64,
    /// The digest of that version's rows.
    pub dataset_digest: String,
    /// Whether the certificate was merged from partials, which the service did not recompute.
    pub merged: bool,
    /// Whether one fixed policy logged the dataset, as its uploader stated.
    pub logging: Option<Logging>,
    /// The policy that is approved, as the certificate names it: `learned`, `logged:NAME` or `policy:ID`.
    pub candidate: String,
    /// The id of that policy; null if the log carries the candidate.
    #[schema(value_type = Option<String>, format = "uuid", required)]
    pub policy_id: Option<PolicyId>,
    /// The digest of its parameters; null if the log carries the candidate.
    #[schema(required)]
    pub policy_digest: Option<String>,
    /// The outcome that improves; absent if the dataset's outcome has no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// The dataset's primary outcome, as the certificate names it.
    #[serde(skip)]
    pub primary_outcome: Option<String>,
    pub guaranteed_improvement: f64,
    pub guaranteed_risk: f64,
    /// The improvement that the job's spec requires.
    pub min_improvement: f64,
    /// The same numbers in the units of the outcome.
    pub user_units: GateUnits,
    /// The guardrails of the candidate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<GuardrailResult>,
    /// The probability, at least, that the certificate is true: 1 − δ.
    pub confidence: f64,
    /// Where the risk of the logging policy comes from.
    pub baseline: BaselineKind,
    /// The number of the look in the dataset's ledger.
    pub look: u64,
    /// The probability, at least, that all looks up to this one hold together.
    pub family_wise_confidence: f64,
    /// The reasons for the decision about the candidate.
    pub reasons: Vec<Reason>,
    /// The checks of the log against the assumptions of the guarantee.
    pub checks: Vec<CheckResult>,
    /// The checks that failed and that the submitter accepted.
    pub accepted_checks: Vec<CheckName>,
    /// When the certificate was issued.
    #[schema(value_type = String, format = "date-time")]
    pub issued_at: Timestamp,
    pub certificate_url: String,
    pub certificate_digest: String,
    /// The key whose signature on the certificate was verified for this response.
    pub signing_key_id: String,
}

/// The response of an open gate. No cache may keep it: the gate may close at any time.
pub type Opened = ([(HeaderName, HeaderValue); 1], Json<GateAnswer>);

impl GateAnswer {
    /// The response of the open gate.
    pub fn opened(self) -> Opened {
        ([(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))], Json(self))
    }

    /// Whether `wanted` names the candidate that the answer is about.
    pub fn is_about(&self, wanted: &str) -> bool {
        let by_id = |id: PolicyId| is_named(&format!("policy:{id}"), wanted);
        is_named(&self.candidate, wanted) || self.policy_id.is_some_and(by_id)
    }

    /// The problem with everything that the gate knows as members, and `ok: false`.
    pub fn closed(mut self, mut problem: Problem) -> Problem {
        self.ok = false;
        if let Ok(Value::Object(members)) = serde_json::to_value(self) {
            for (name, value) in members {
                problem.more.entry(name).or_insert(value);
            }
        }
        problem.member("ok", false)
    }
}

/// A job whose certificate is genuine and whose dataset exists.
pub struct Examined {
    job: Job,
    certificate: Certificate,
    ledger: LedgerPlace,
    issued_at: Timestamp,
    signing_key_id: String,
    /// The newest version of the dataset.
    pub newest_version: u64,
}

/// Checks whether a gate may consider the job at all.
///
/// # Errors
/// If the job has not succeeded, or was canceled; if its certificate is of an earlier method, damaged, or not
/// signed by a key of this server; if its dataset or a file of it is gone.
pub async fn examine(app: &App, job: Job) -> Result<Examined, Problem> {
    succeeded(&job).map_err(|problem| problem.member("ok", false).member("job_id", job.id.to_string()))?;
    // Checked against the ledger, because another job's certificate in its place would be intact too.
    let document = app.store.document(&job).await?;
    let document = document.ok_or_else(|| Problem::internal("a job succeeded without a certificate"))?;
    if document.certificate.method < FIRST_CHECKED_METHOD {
        return Err(outdated(document.certificate.method));
    }
    let signing_key_id = verify_signature(app, &job, &document).await?;
    let Document { certificate, ledger, .. } = document;
    // They were written together, so if they differ, one of them was changed.
    if job.result.as_ref().map(|result| result.decision) != Some(certificate.decision) {
        let damaged = StoreError::damaged("its result", "the certificate has another decision");
        return Err(Problem::from(damaged.of(Owner::Job(job.id))).member("ok", false));
    }
    let ledger = ledger.ok_or_else(|| Problem::internal("a signed certificate has no ledger entry"))?;
    let issued_at = job.finished_at.ok_or_else(|| Problem::internal("a job succeeded without an end"))?;
    let newest_version = check_dataset(app, &job).await?;
    Ok(Examined { job, certificate, ledger, issued_at, signing_key_id, newest_version })
}

/// Whether the job ended with a certificate, and nobody was told that it was canceled. Earlier releases let a
/// canceled job succeed if its computation was already done.
fn succeeded(job: &Job) -> Result<(), Problem> {
    require_success(job)?;
    if job.cancel_requested {
        let detail = "The job was canceled, although it finished before it could be stopped.";
        return Err(Problem::new(Code::JobCancelled, detail));
    }
    Ok(())
}

/// Earlier methods took every log for one of a fixed policy and did not check it. Their certificates stay as they
/// were signed, but they open nothing.
fn outdated(method: u32) -> Problem {
    let detail = format!(
        "The certificate was issued by method {method}, which did not check the log against the assumptions of the \
         guarantee. Submit the job again with POST /v1/jobs, and ask the gate of that job."
    );
    Problem::new(Code::CertificateOutdated, detail).member("ok", false).member("method", method)
}

/// Checks the signature of the document as it is now, with its job and its ledger entry. Returns the key's id.
async fn verify_signature(app: &App, job: &Job, document: &Document) -> Result<String, Problem> {
    let value = serde_json::to_value(document).map_err(Problem::internal)?;
    let why = match check_signature(&value, &app.store.public_keys().await?) {
        SignatureState::Valid { key_id } => return Ok(key_id),
        SignatureState::Unsigned => "it has no signature".to_owned(),
        SignatureState::Invalid(why) => why,
    };
    tracing::error!(job_id = %job.id, why, "a certificate has no valid signature; the gate stays closed");
    let detail = format!(
        "The certificate has no valid signature: {why}. Its stored data was changed, or it was issued before \
         certificates were signed. Submit the job again with POST /v1/jobs."
    );
    Err(Problem::new(Code::SignatureInvalid, detail).member("ok", false))
}

/// What a certificate says about one policy.
struct Subject {
    name: String,
    policy_id: Option<String>,
    policy_digest: Option<String>,
    decision: Decision,
    reasons: Vec<Reason>,
    risk: f64,
    improvement: f64,
    guardrails: Vec<GuardrailResult>,
    /// Whether the certificate's own results are about it.
    is_own: bool,
}

impl Examined {
    /// What the certificate says about the candidate with this name, or about the one that its own results are
    /// about. `None` if the certificate is not about such a candidate.
    ///
    /// # Errors
    /// If the policy is gone, or is not the one that was certified.
    pub async fn answer(&self, app: &App, candidate: Option<&str>) -> Result<Option<GateAnswer>, Problem> {
        let Some(subject) = self.subject(candidate) else { return Ok(None) };
        let policy_id = self.check_policy(app, &subject).await?;
        let Examined { job, certificate, .. } = self;
        let failed = failed_checks(certificate, &subject.name);
        let spec = &certificate.spec;
        let mut accepted_checks: Vec<CheckName> =
            failed.iter().map(|check| check.name).filter(|name| spec.accept.contains(name)).collect();
        accepted_checks.sort();
        accepted_checks.dedup();
        // Certificates of earlier methods have no reasons for each candidate.
        let mut reasons = match subject.reasons.is_empty() {
            true => {
                reasons(spec, subject.decision, (subject.improvement, None), &subject.guardrails, &failed)
            }
            false => subject.reasons,
        };
        if subject.is_own || reasons.is_empty() {
            reasons = certificate.reasons.clone();
        }
        let units = certificate.user_units.outcome;
        Ok(Some(GateAnswer {
            ok: subject.decision == Decision::Deploy,
            gate: None,
            decision: subject.decision,
            job_id: job.id,
            dataset_id: job.dataset_id,
            dataset_version: certificate.dataset.version,
            dataset_digest: certificate.dataset.digest.clone(),
            merged: certificate.merged.is_some(),
            logging: certificate.dataset.logging,
            candidate: subject.name,
            policy_id,
            policy_digest: subject.policy_digest,
            objective: certificate.objective.clone(),
            primary_outcome: certificate.dataset.outcomes.first().map(|named| named.name.clone()),
            guaranteed_improvement: subject.improvement,
            guaranteed_risk: subject.risk,
            min_improvement: certificate.min_improvement,
            user_units: GateUnits {
                outcome: units,
                guaranteed_improvement: units.improvement_to_user(subject.improvement),
                guaranteed_outcome: units.risk_to_user(subject.risk),
                min_improvement: units.improvement_to_user(certificate.min_improvement),
            },
            guardrails: subject.guardrails,
            confidence: certificate.confidence,
            baseline: certificate.baseline_risk.kind,
            look: self.ledger.look,
            family_wise_confidence: self.ledger.family_wise_confidence,
            reasons,
            checks: certificate.checks.clone(),
            accepted_checks,
            issued_at: self.issued_at,
            certificate_url: certificate_url(job.id),
            certificate_digest: certificate.digest.clone(),
            signing_key_id: self.signing_key_id.clone(),
        }))
    }

    /// The names of everything that the certificate is about.
    pub fn names(&self) -> Vec<String> {
        match self.certificate.candidates.as_slice() {
            [] => vec![LEARNED.into()],
            candidates => candidates.iter().map(|result| result.candidate.clone()).collect(),
        }
    }

    fn subject(&self, wanted: Option<&str>) -> Option<Subject> {
        let certificate = &self.certificate;
        if certificate.candidates.is_empty() {
            return self.learned(wanted);
        }
        // The certificate's own results rest on claims about one candidate, and on one about the baseline if it needs
        // its own bound.
        let of_own = |bound: &&BoundRecord| bound.used && bound.quantity != BoundedQuantity::BaselineRisk;
        let own = certificate.bounds.iter().find(of_own)?.subject.clone();
        let name = match wanted {
            Some(wanted) => self.names().into_iter().find(|name| is_named(name, wanted))?,
            None => own.clone(),
        };
        let result = certificate.candidates.iter().find(|result| result.candidate == name)?;
        Some(Subject {
            policy_id: name.strip_prefix("policy:").map(str::to_owned),
            policy_digest: result.policy_digest.clone(),
            // All claims of a certificate hold together, so each candidate may be deployed on its own. But the
            // certificate keeps although a candidate deploys only if the bound of another one is impossible, and
            // then the log cannot be relied on for any of them.
            decision: match certificate.decision {
                Decision::Deploy => self.guarded(result.decision, &result.guardrails),
                Decision::Keep => Decision::Keep,
            },
            // The reasons of a candidate that is kept because of another one are those of the certificate.
            reasons: match certificate.decision == Decision::Keep && result.decision == Decision::Deploy {
                true => certificate.reasons.clone(),
                false => result.reasons.clone(),
            },
            risk: result.guaranteed_risk,
            improvement: result.guaranteed_improvement,
            guardrails: result.guardrails.clone(),
            is_own: name == own,
            name,
        })
    }

    fn learned(&self, wanted: Option<&str>) -> Option<Subject> {
        let certificate = &self.certificate;
        let policy_id = self.job.result.as_ref()?.policy_id?.to_string();
        let fits = |wanted: &str| wanted == LEARNED || is_named(&format!("policy:{policy_id}"), wanted);
        wanted.is_none_or(fits).then(|| Subject {
            name: LEARNED.into(),
            policy_digest: certificate.policy.as_ref().map(|policy| policy.digest.clone()),
            decision: self.guarded(certificate.decision, &certificate.guardrails),
            reasons: certificate.reasons.clone(),
            risk: certificate.guaranteed_risk,
            improvement: certificate.guaranteed_improvement,
            guardrails: certificate.guardrails.clone(),
            is_own: true,
            policy_id: Some(policy_id),
        })
    }

    /// The decision, which is `keep` if the guardrails of the spec do not hold, whatever the document says.
    fn guarded(&self, decision: Decision, results: &[GuardrailResult]) -> Decision {
        match guardrails_hold(&self.certificate.spec.guardrails, results) {
            true => decision,
            false => Decision::Keep,
        }
    }

    /// The id of the stored policy, which must still be the one that was certified.
    async fn check_policy(&self, app: &App, subject: &Subject) -> Result<Option<PolicyId>, Problem> {
        let Some(text) = &subject.policy_id else { return Ok(None) };
        let id: PolicyId = text.parse().map_err(|_| StoreError::not_found(Resource::Policy, text))?;
        check_policy(app, &self.job.workspace, id, subject.policy_digest.as_deref()).await?;
        Ok(Some(id))
    }
}

/// Whether a candidate's full name is `wanted`, or is `wanted` after its prefix. Text with a prefix of its own is
/// only compared as a whole, the id of a policy means that policy, and `learned` means the learned one, so that no
/// logged candidate can pass for a policy.
fn is_named(name: &str, wanted: &str) -> bool {
    let short = match wanted.parse::<PolicyId>() {
        Ok(_) => name.strip_prefix("policy:"),
        Err(_) if wanted.contains(':') || wanted == LEARNED => None,
        Err(_) => name.split_once(':').map(|(_, rest)| rest),
    };
    name == wanted || short == Some(wanted)
}

/// The failed checks that concern a candidate, as the engine decides it.
fn failed_checks<'a>(certificate: &'a Certificate, candidate: &str) -> Vec<&'a CheckResult> {
    let concerns = |check: &&CheckResult| {
        check.failed()
            && (check.name != CheckName::CandidateWeights
                || check
                    .subject
                    .as_deref()
                    .is_none_or(|subject| subject == candidate || certificate.candidates.is_empty()))
    };
    certificate.checks.iter().filter(concerns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_has_a_full_name_and_a_short_one() {
        assert!(is_named("logged:b", "logged:b") && is_named("logged:b", "b"));
        assert!(is_named("logged:a:b", "logged:a:b"));
        for other in ["", "logged", "logged:", "a", "policy:b", ":b", "a:b"] {
            assert!(!is_named("logged:b", other), "{other}");
        }
        // A logged candidate that is named like a policy is not that policy.
        assert!(!is_named("logged:policy:7", "policy:7"));
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        assert!(is_named(&format!("policy:{id}"), id) && !is_named(&format!("logged:{id}"), id));
        assert!(is_named("learned", "learned") && !is_named("logged:learned", "learned"));
    }
}
