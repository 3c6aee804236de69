//! `POST /v1/jobs/{id}/cancel`.

use axum::Json;
use axum::extract::State;

use super::view::JobView;
use crate::http::App;
use crate::http::auth::Caller;
use crate::http::extract::{Id, Nothing, Params};
use crate::http::problem::Problem;
use crate::store::JobId;

/// Cancel a job. A queued job ends at once, a running one within a second. Canceling a canceled job
/// changes nothing.
#[utoipa::path(post, path = "/v1/jobs/{id}/cancel", tag = "Jobs", operation_id = "cancel_job",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The job, canceled or about to be", body = JobView),
              (status = 409, description = "`job_finished`: the job has already succeeded or failed")))]
pub async fn cancel(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<JobId>,
    Params(_): Params<Nothing>,
) -> Result<Json<JobView>, Problem> {
    let job = app.queue.cancel(&workspace, id).await?;
    tracing::info!(job_id = %id, status = job.status.name(), "cancellation requested");
    Ok(Json(job.into()))
}
