//! `GET /v1/jobs` and `GET /v1/jobs/{id}`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use serde::Deserialize;

use super::POLL_AGAIN;
use super::view::JobView;
use crate::http::App;
use crate::http::auth::Caller;
use crate::http::codes::Code;
use crate::http::etag::tagged;
use crate::http::extract::{Id, Params};
use crate::http::page::{ListView, listed, page_request};
use crate::http::problem::Problem;
use crate::store::{DatasetId, Job, JobFilter, JobId, JobOrder, JobStatus, Workspace};
use guarantor_engine::certificate::Decision;

/// The query parameters of the list of jobs.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobListParams {
    /// The size of the page, at most 100.
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u32>,
    /// The `next` of the previous page.
    after: Option<String>,
    /// Return only jobs with this status.
    #[param(inline)]
    status: Option<JobStatus>,
    /// Return only jobs whose certificate decided this.
    #[param(inline)]
    decision: Option<Decision>,
    /// Return only jobs on this dataset.
    #[param(value_type = Option<String>, format = "uuid")]
    dataset_id: Option<DatasetId>,
    /// The order of the list. A cursor goes on in the order of its request.
    #[param(inline, default = "newest")]
    order: Option<JobOrder>,
}

/// List jobs, newest first unless `order` says otherwise.
#[utoipa::path(get, path = "/v1/jobs", tag = "Jobs", operation_id = "list_jobs", params(JobListParams),
    responses((status = 200, description = "A page of jobs", body = ListView<JobView>)))]
pub async fn list(
    State(app): State<App>,
    Caller(workspace): Caller,
    Params(params): Params<JobListParams>,
) -> Result<Json<ListView<JobView>>, Problem> {
    let filter = JobFilter {
        status: params.status,
        decision: params.decision,
        dataset_id: params.dataset_id,
        order: params.order.unwrap_or_default(),
    };
    let page = page_request(params.limit, params.after)?;
    Ok(listed(app.store.repository().jobs(&workspace, &filter, &page).await?))
}

/// The query parameters of a request for a job.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobReadParams {
    /// How many seconds to wait for the job to finish before responding.
    #[param(minimum = 0, maximum = 60)]
    wait: Option<u64>,
}

/// Get a job, or wait until it finishes.
#[utoipa::path(get, path = "/v1/jobs/{id}", tag = "Jobs", operation_id = "get_job",
    params(("id" = String, Path, format = "uuid"), JobReadParams),
    responses((status = 200, description = "The job, with `Retry-After` while it is not finished", body = JobView,
               headers(("etag" = String, description = "Changes when the job does"),
                       ("retry-after" = Option<u32>, description = "Seconds, while it is not finished"))),
              (status = 304, description = "Unchanged since the version in `If-None-Match`")))]
pub async fn read(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<JobId>,
    Params(params): Params<JobReadParams>,
    request: Request,
) -> Result<Response, Problem> {
    let wait = wait_of(&app, params.wait)?;
    let job = match wait {
        0 => current(&app, &workspace, id).await?,
        _ => Arc::new(wait_for_end(&app, &workspace, id, Duration::from_secs(wait)).await?),
    };
    answered(&app, request.headers(), &job)
}

/// The response to a request for a job.
///
/// # Errors
/// If the job cannot be written as JSON.
pub fn answered(app: &App, headers: &HeaderMap, job: &Job) -> Result<Response, Problem> {
    let mut response = tagged(headers, job.revision, || app.answers.of(job))?;
    if !job.status.is_finished() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(POLL_AGAIN.as_secs()));
    }
    Ok(response)
}

/// How many seconds a request may wait.
///
/// # Errors
/// If it asks for more than the server allows.
pub fn wait_of(app: &App, asked: Option<u64>) -> Result<u64, Problem> {
    let (wait, most) = (asked.unwrap_or(0), app.config.max_wait_seconds);
    if wait > most {
        let message = format!("{wait} exceeds the maximum of {most} seconds");
        return Err(Problem::field(Code::InvalidQuery, "wait", message));
    }
    Ok(wait)
}

/// The job as it is, from the cache if it was read a moment ago.
///
/// # Errors
/// If there is no such job, or the store fails.
pub async fn current(app: &App, workspace: &Workspace, id: JobId) -> Result<Arc<Job>, Problem> {
    match app.store.repository().recent_job(workspace, id) {
        Some(job) => Ok(job),
        None => Ok(Arc::new(app.store.repository().job(workspace, id).await?)),
    }
}

/// The job once it has finished, or as it is when `wait` is over or the server shuts down.
async fn wait_for_end(app: &App, workspace: &Workspace, id: JobId, wait: Duration) -> Result<Job, Problem> {
    tokio::select! {
        job = app.queue.wait(workspace, id, wait) => Ok(job?),
        _ = app.drained() => Ok(app.store.repository().job(workspace, id).await?),
    }
}
