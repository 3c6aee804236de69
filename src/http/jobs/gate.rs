//! `GET /v1/jobs/{id}/gate`: the gate of one job. 200 means deploy, and nothing else does: every other state of
//! the job, every requirement that is not met, and every failure on the way has another status.

use axum::extract::State;

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::extract::{Id, Params};
use crate::http::gates::{GateAnswer, Opened, ask_about_job};
use crate::http::problem::Problem;
use crate::store::{GateRequirements, JobId};

/// Ask whether the policy may be rolled out. The status is 200 only if the decision is `deploy`, the certificate
/// meets every requirement in the query, and its signature is valid.
#[utoipa::path(get, path = "/v1/jobs/{id}/gate", tag = "Gates", operation_id = "gate",
    params(("id" = String, Path, format = "uuid"), GateRequirements),
    responses((status = 200, description = "Deploy", body = GateAnswer),
              (status = 403, description = "Closed, with `ok: false`: `decision_keep`, with the numbers; `requirement_failed`, with `requirement`, `required` and `actual`; `certificate_outdated`: an earlier release issued the certificate, without checks of the log; `signature_invalid`; `dataset_gone`; `policy_gone`"),
              (status = 409, description = "`job_unfinished`, with `ok: false`",
               headers(("retry-after" = u32, description = "Seconds"))),
              (status = 424, description = "`job_failed` or `job_cancelled`, with `ok: false`")))]
pub async fn gate(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<JobId>,
    Params(requirements): Params<GateRequirements>,
) -> Result<Opened, Problem> {
    let job = app.store.repository().job_now(&workspace, id).await?;
    ask_about_job(&app, job, &requirements).await.map(GateAnswer::opened)
}
