//! `GET /v1/jobs/{id}/certificate` and `/policy`: what a finished job leaves.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::require_success;
use crate::engine::certificate::Certificate;
use crate::http::App;
use crate::http::auth::Caller;
use crate::http::codes::Code;
use crate::http::etag::tagged;
use crate::http::extract::{Id, Nothing, Params};
use crate::http::policies::{PolicyView, ReadParams, show};
use crate::http::problem::Problem;
use crate::store::{Job, JobId};

/// The engine's certificate, and beside it, outside of its digest, what only the service knows.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = IssuedCertificate)]
pub struct CertificateDocument {
    #[serde(flatten)]
    pub certificate: Certificate,
    pub issued: Issued,
}

/// Which job issued the certificate. Not under the digest: the same inputs give the same digest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Issued {
    #[schema(format = "uuid")]
    pub job_id: String,
    #[schema(format = "uuid")]
    pub dataset_id: String,
    /// The learned policy (kind `learn`).
    #[schema(format = "uuid", required)]
    pub policy_id: Option<String>,
    #[schema(format = "date-time")]
    pub created_at: String,
    #[schema(format = "date-time", required)]
    pub started_at: Option<String>,
    #[schema(format = "date-time", required)]
    pub finished_at: Option<String>,
}

impl Issued {
    pub fn of(job: &Job) -> Issued {
        Issued {
            job_id: job.id.to_string(),
            dataset_id: job.dataset_id.to_string(),
            policy_id: job.result.as_ref().and_then(|result| result.policy_id).map(|id| id.to_string()),
            created_at: job.created_at.to_string(),
            started_at: job.started_at.map(|time| time.to_string()),
            finished_at: job.finished_at.map(|time| time.to_string()),
        }
    }
}

/// The certificate of a finished job.
#[utoipa::path(get, path = "/v1/jobs/{id}/certificate", tag = "Certificates", operation_id = "get_certificate",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The certificate", body = CertificateDocument),
              (status = 304, description = "The client has it already"),
              (status = 409, description = "`job_unfinished`",
               headers(("retry-after" = u32, description = "Seconds"))),
              (status = 424, description = "`job_failed` or `job_cancelled`")))]
pub async fn certificate(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<JobId>,
    Params(_): Params<Nothing>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let job = app.store.repository().job(&workspace, id).await?;
    require_success(&job)?;
    let certificate = app.store.certificate(&job).await?;
    let certificate =
        certificate.ok_or_else(|| Problem::internal("a job succeeded without a certificate"))?;
    let tag = certificate.digest.clone();
    Ok(tagged(&headers, &tag, || CertificateDocument { certificate, issued: Issued::of(&job) }))
}

/// The policy that a finished job learned.
#[utoipa::path(get, path = "/v1/jobs/{id}/policy", tag = "Jobs", operation_id = "get_job_policy",
    params(("id" = String, Path, format = "uuid"), ReadParams),
    responses((status = 200, description = "The policy", body = PolicyView),
              (status = 304, description = "Unchanged since the version that `If-None-Match` names"),
              (status = 409, description = "`job_unfinished`",
               headers(("retry-after" = u32, description = "Seconds"))),
              (status = 424, description = "`job_failed` or `job_cancelled`")))]
pub async fn policy(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<JobId>,
    Params(params): Params<ReadParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let job = app.store.repository().job(&workspace, id).await?;
    require_success(&job)?;
    let Some(policy_id) = job.result.and_then(|result| result.policy_id) else {
        return Err(Problem::new(Code::NotFound, "The job evaluated candidates; it learned no policy."));
    };
    let policy = app.store.repository().policy(&workspace, policy_id).await?;
    show(&app, policy, params.include, &headers).await
}
