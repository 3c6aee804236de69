//! `GET /v1/jobs/{id}/certificate` and `/policy`: the results of a finished job.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::require_success;
use crate::http::App;
use crate::http::auth::Caller;
use crate::http::codes::Code;
use crate::http::etag::{json, tagged};
use crate::http::extract::{Id, Nothing, Params};
use crate::http::policies::{PolicyView, ReadParams, show};
use crate::http::problem::Problem;
use crate::store::JobId;
use guarantor_engine::certificate::Document;

/// Get the certificate of a finished job.
#[utoipa::path(get, path = "/v1/jobs/{id}/certificate", tag = "Certificates", operation_id = "get_certificate",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The certificate", body = Document),
              (status = 304, description = "Unchanged since the version in `If-None-Match`"),
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
    let job = app.store.repository().job_now(&workspace, id).await?;
    require_success(&job)?;
    let document = app.store.document(&job).await?;
    let document = document.ok_or_else(|| Problem::internal("a job succeeded without a certificate"))?;
    tagged(&headers, &document.certificate.digest, || json(&document))
}

/// Get the policy that a finished job learned.
#[utoipa::path(get, path = "/v1/jobs/{id}/policy", tag = "Jobs", operation_id = "get_job_policy",
    params(("id" = String, Path, format = "uuid"), ReadParams),
    responses((status = 200, description = "The policy", body = PolicyView),
              (status = 304, description = "Unchanged since the version in `If-None-Match`"),
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
    let job = app.store.repository().job_now(&workspace, id).await?;
    require_success(&job)?;
    let Some(policy_id) = job.result.and_then(|result| result.policy_id) else {
        return Err(Problem::new(Code::NotFound, "The job learned no policy: it evaluated candidates."));
    };
    let policy = app.store.repository().policy(&workspace, policy_id).await?;
    show(&app, policy, params.include, &headers).await
}
