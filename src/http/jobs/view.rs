//! A job as clients see it.

use serde::Serialize;

use crate::store::{DatasetId, Job, JobFailure, JobId, JobProgress, JobResult, JobStatus, Timestamp};
use guarantor_engine::control::Progress;
use guarantor_engine::spec::{JobKind, JobSpec};

/// A job.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Job)]
pub struct JobView {
    #[schema(value_type = String, format = "uuid")]
    pub id: JobId,
    kind: JobKind,
    status: JobStatus,
    /// Who submitted the job: the name and the id of the API key, or `anonymous`; null for jobs of earlier
    /// releases.
    #[schema(required)]
    submitted_by: Option<String>,
    #[schema(value_type = String, format = "date-time")]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = "date-time", required)]
    started_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = "date-time", required)]
    finished_at: Option<Timestamp>,
    /// How many times the job was started: 1, unless an attempt was interrupted.
    attempt: u32,
    spec: SpecView,
    /// The progress of the job.
    #[schema(required)]
    progress: Option<JobProgress>,
    /// The result of a job that succeeded.
    #[schema(required)]
    result: Option<ResultView>,
    /// Why a job failed.
    #[schema(required)]
    error: Option<JobFailure>,
}

/// The spec of a job with every default filled in.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ResolvedSpec)]
pub struct SpecView {
    #[schema(value_type = String, format = "uuid")]
    dataset_id: DatasetId,
    /// The version that the job uses, even if rows are appended later.
    dataset_version: u64,
    #[serde(flatten)]
    spec: JobSpec,
    #[schema(value_type = Object)]
    metadata: serde_json::Value,
}

/// The result of a job.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Result)]
pub struct ResultView {
    #[serde(flatten)]
    result: JobResult,
    /// The path of the certificate.
    certificate_url: String,
}

/// The path of the certificate of a job.
pub fn certificate_url(id: JobId) -> String {
    format!("/v1/jobs/{id}/certificate")
}

/// How far the job has come. The engine's last report is older than the end of the job, so a job that succeeded
/// is done whatever that report says. A job that failed or was canceled keeps the report: it shows how far it came.
fn progress(job: &Job) -> Option<JobProgress> {
    if job.status != JobStatus::Succeeded {
        return job.progress.clone();
    }
    let elapsed = job.finished_at.zip(job.started_at).map(|(end, start)| end.seconds_since(start));
    Some(JobProgress { progress: Progress::phase("done", 1.0), elapsed_seconds: elapsed.unwrap_or_default() })
}

impl From<Job> for JobView {
    fn from(job: Job) -> Self {
        let certificate_url = certificate_url(job.id);
        let progress = progress(&job);
        JobView {
            id: job.id,
            kind: job.spec.kind,
            status: job.status,
            submitted_by: job.submitted_by,
            created_at: job.created_at,
            started_at: job.started_at,
            finished_at: job.finished_at,
            attempt: job.attempt,
            spec: SpecView {
                dataset_id: job.dataset_id,
                dataset_version: job.dataset_version,
                spec: job.spec,
                metadata: job.metadata,
            },
            progress,
            result: job.result.map(|result| ResultView { result, certificate_url }),
            error: job.failure,
        }
    }
}
