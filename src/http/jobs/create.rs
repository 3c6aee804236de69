//! `POST /v1/jobs`: a job is checked against what the dataset supports before it is queued.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;

use super::request::{JobRequest, check_metadata};
use super::view::JobView;
use crate::http::App;
use crate::http::auth::{Caller, CallerName};
use crate::http::codes::Code;
use crate::http::datasets::{find_dataset, require_rows};
use crate::http::extract::{JsonBody, Nothing, Params, field_problem};
use crate::http::idempotency::{Created, Creation, Start, replay};
use crate::http::problem::Problem;
use crate::queue::{require_fit, resolve};
use crate::store::{Job, JobId, NewJob, Resource, StoreError};
use guarantor_engine::spec::SpecRequest;

/// How often a spec is resolved again because the dataset has changed since.
const RESOLVED_AGAIN: u32 = 10;

/// Submit a job.
#[utoipa::path(post, path = "/v1/jobs", tag = "Jobs", operation_id = "create_job",
    params(("idempotency-key" = Option<String>, Header, description = "Repeated requests with this key get the first response")),
    request_body(content = JobRequest, example = json!(
        {"dataset_id": "01890a5d-ac96-774b-bcce-b302099a8057", "delta": 0.05, "min_improvement": 0.01})),
    responses((status = 202, description = "Queued", body = JobView,
               headers(("location" = String, description = "The path of the job"))),
              (status = 409, description = "`idempotency_in_progress`"),
              (status = 422, description = "`job_too_large`: by its estimate, the job would take more memory than the server allows; other codes say which field is wrong"),
              (status = 429, description = "`queue_full`: too many queued jobs",
               headers(("retry-after" = u32, description = "Seconds")))))]
pub async fn create(
    State(app): State<App>,
    Caller(workspace): Caller,
    CallerName(caller): CallerName,
    Params(_): Params<Nothing>,
    headers: HeaderMap,
    body: JsonBody<JobRequest>,
) -> Result<Response, Problem> {
    check_metadata(&body.value.metadata)?;
    let request: SpecRequest = serde_path_to_error::deserialize(body.value.spec).map_err(|error| {
        let path = error.path().to_string();
        field_problem(Code::InvalidValue, &path, &error.into_inner().to_string())
    })?;
    let parts: [&[u8]; 2] = [b"POST /v1/jobs", &body.bytes];
    let creation = Creation::new(&workspace, &headers, &parts, app.json_patience())?;
    let id = match creation.start(&app).await? {
        Start::Work(id) => JobId::from(id),
        Start::Replay(answer) => return replay(answer, None),
    };
    let worker = app.clone();
    let (dataset_id, metadata) = (body.value.dataset_id, body.value.metadata);
    let work = async move {
        let mut left = RESOLVED_AGAIN;
        loop {
            let dataset = find_dataset(&worker, &workspace, &dataset_id).await?;
            require_rows(&dataset, "dataset_id")?;
            let resolved = resolve(&worker.store, &workspace, &dataset, &request, &caller).await?;
            require_fit(&worker.store, &workspace, &dataset, &resolved.spec, &worker.job_memory).await?;
            let new = NewJob {
                id,
                workspace: workspace.clone(),
                dataset_id: dataset.id,
                dataset_version: dataset.version,
                seen_rows: Some(resolved.seen_rows),
                spec: resolved.spec,
                metadata: metadata.clone().into(),
                policy_ids: resolved.policy_ids,
                submitted_by: caller.clone(),
            };
            match submit(&worker, new).await {
                // Rows were appended or seen in the meantime.
                Err(StoreError::Changed) if left > 0 => left -= 1,
                job => return queued(job?),
            }
        }
    };
    creation.finish(&app, work).await
}

/// Queues a job, or finds the one that an earlier attempt of the same request has queued.
///
/// # Errors
/// If the queue is full, the ledger has changed, or the store fails.
pub async fn submit(app: &App, new: NewJob) -> Result<Job, StoreError> {
    let (id, workspace) = (new.id, new.workspace.clone());
    match app.queue.submit(new).await {
        // An earlier attempt of this request queued it, and the process died before it could respond.
        Err(StoreError::Exists(Resource::Job, _)) => app.store.repository().job_now(&workspace, id).await,
        job => job,
    }
}

fn queued(job: Job) -> Result<Created, Problem> {
    tracing::info!(job_id = %job.id, workspace = %job.workspace, kind = ?job.spec.kind,
        dataset_id = %job.dataset_id, submitted_by = job.submitted_by, "job queued");
    let location = [(header::LOCATION, format!("/v1/jobs/{}", job.id))];
    Created::json(StatusCode::ACCEPTED, &location, &JobView::from(job))
}
