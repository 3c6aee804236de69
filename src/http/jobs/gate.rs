//! `GET /v1/jobs/{id}/gate`: the URL that rollout tools call. 200 means deploy, and nothing else does:
//! every other state of the job, and every failure on the way, has another status.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::require_success;
use super::view::certificate_url;
use crate::http::App;
use crate::http::auth::Caller;
use crate::http::codes::Code;
use crate::http::extract::{Id, Nothing, Params};
use crate::http::problem::Problem;
use crate::store::{Job, JobId};
use guarantor_engine::certificate::{Certificate, Decision, METHOD, Reason};
use guarantor_engine::checks::CheckResult;

/// The decision, with the numbers that it rests on.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Gate {
    /// Whether to proceed with the rollout.
    ok: bool,
    decision: Decision,
    #[schema(value_type = String, format = "uuid")]
    job_id: JobId,
    guaranteed_improvement: f64,
    guaranteed_risk: f64,
    min_improvement: f64,
    confidence: f64,
    reasons: Vec<Reason>,
    /// The checks of the log against the assumptions of the guarantee.
    checks: Vec<CheckResult>,
    certificate_url: String,
    certificate_digest: String,
}

/// Ask whether the policy may be rolled out. The status is 200 only if the decision is `deploy`.
#[utoipa::path(get, path = "/v1/jobs/{id}/gate", tag = "Jobs", operation_id = "gate",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "Deploy", body = Gate),
              (status = 403, description = "`decision_keep`, with `ok: false` and the numbers; `certificate_outdated`, with `ok: false`: an earlier release issued the certificate, without checks of the log"),
              (status = 409, description = "`job_unfinished`, with `ok: false`",
               headers(("retry-after" = u32, description = "Seconds"))),
              (status = 424, description = "`job_failed` or `job_cancelled`, with `ok: false`")))]
pub async fn gate(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<JobId>,
    Params(_): Params<Nothing>,
) -> Result<Json<Gate>, Problem> {
    let job = app.store.repository().job(&workspace, id).await?;
    require_success(&job).map_err(|problem| problem.member("ok", false))?;
    // Checked against the ledger, because another job's certificate in its place would be intact too.
    let document = app.store.document(&job).await?;
    let document = document.ok_or_else(|| Problem::internal("a job succeeded without a certificate"))?;
    if document.certificate.method < METHOD {
        return Err(outdated(document.certificate.method));
    }
    let gate = open(&job, document.certificate)?;
    if gate.ok { Ok(Json(gate)) } else { Err(rejection(gate)) }
}

/// Opens only if the job's row and its certificate both have the decision `deploy`. They were written
/// together, so if they differ, one of them was changed.
fn open(job: &Job, certificate: Certificate) -> Result<Gate, Problem> {
    let row = job.result.as_ref().map(|result| result.decision);
    if row != Some(certificate.decision) {
        return Err(Problem::internal(format!(
            "job {} and its certificate have different decisions",
            job.id
        )));
    }
    Ok(Gate {
        ok: certificate.decision == Decision::Deploy,
        decision: certificate.decision,
        job_id: job.id,
        guaranteed_improvement: certificate.guaranteed_improvement,
        guaranteed_risk: certificate.guaranteed_risk,
        min_improvement: certificate.min_improvement,
        confidence: certificate.confidence,
        reasons: certificate.reasons,
        checks: certificate.checks,
        certificate_url: certificate_url(job.id),
        certificate_digest: certificate.digest,
    })
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

fn rejection(gate: Gate) -> Problem {
    let reasons: Vec<&str> = gate.reasons.iter().map(|reason| reason.message.as_str()).collect();
    let mut problem =
        Problem::new(Code::DecisionKeep, format!("Keep the deployed policy. {}", reasons.join(" ")));
    match serde_json::to_value(gate) {
        Ok(serde_json::Value::Object(members)) => problem.more = members,
        _ => problem = problem.member("ok", false),
    }
    problem
}
