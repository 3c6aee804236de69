//! `/v1/jobs`: submitting jobs, following them, and reading their results.

mod answers;
mod cancel;
mod certificate;
mod create;
mod events;
mod gate;
mod read;
mod request;
mod tails;
mod view;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::codes::Code;
use super::problem::Problem;
use crate::store::{Job, JobStatus};

pub use answers::Answers;
pub use create::submit;
pub use read::{answered, wait_of};
pub use request::check_metadata;
pub use tails::Tails;
pub use view::{JobView, certificate_url};

/// How long a client should wait before it polls an unfinished job again.
pub const POLL_AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// The routes of jobs.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(read::list, create::create))
        .routes(routes!(read::read))
        .routes(routes!(cancel::cancel))
        .routes(routes!(events::events))
        .routes(routes!(certificate::certificate))
        .routes(routes!(certificate::policy))
        .routes(routes!(gate::gate))
}

/// Checks that the job succeeded.
///
/// # Errors
/// A problem that states the status of the job.
pub fn require_success(job: &Job) -> Result<(), Problem> {
    match job.status {
        JobStatus::Succeeded => Ok(()),
        JobStatus::Queued | JobStatus::Running => {
            let detail = format!(
                "The job is {}; try again later, or wait with GET /v1/jobs/{{id}}?wait=.",
                job.status.name()
            );
            Err(Problem::new(Code::JobUnfinished, detail).retry_after(POLL_AGAIN))
        }
        JobStatus::Failed => {
            let why = job.failure.as_ref().map_or("no reason was recorded", |failure| &failure.message);
            Err(Problem::new(Code::JobFailed, format!("The job failed: {why}")))
        }
        JobStatus::Cancelled => Err(Problem::new(Code::JobCancelled, "The job was canceled.")),
    }
}
