//! A job as clients see it.

use serde::Serialize;

use crate::store::{DatasetId, Job, JobFailure, JobId, JobProgress, JobResult, JobStatus, Timestamp};
use guarantor_engine::spec::{JobKind, JobSpec};

#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Job)]
pub struct JobView {
    #[schema(value_type = String, format = "uuid")]
    pub id: JobId,
    kind: JobKind,
    status: JobStatus,
    #[schema(value_type = String, format = "date-time")]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = "date-time", required)]
    started_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = "date-time", required)]
    finished_at: Option<Timestamp>,
    /// How often the job was started; 2 after a crash.
    attempt: u32,
    spec: SpecView,
    #[schema(required)]
    progress: Option<JobProgress>,
    #[schema(required)]
    result: Option<ResultView>,
    #[schema(required)]
    error: Option<JobFailure>,
}

/// The specification with every default filled in.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ResolvedSpec)]
pub struct SpecView {
    #[schema(value_type = String, format = "uuid")]
    dataset_id: DatasetId,
    /// The version that the job reads, whatever is appended later.
    dataset_version: u64,
    #[serde(flatten)]
    spec: JobSpec,
    #[schema(value_type = Object)]
    metadata: serde_json::Value,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Result)]
pub struct ResultView {
    #[serde(flatten)]
    result: JobResult,
    certificate_url: String,
}

pub fn certificate_url(id: JobId) -> String {
    format!("/v1/jobs/{id}/certificate")
}

impl From<Job> for JobView {
    fn from(job: Job) -> Self {
        let certificate_url = certificate_url(job.id);
        JobView {
            id: job.id,
            kind: job.spec.kind,
            status: job.status,
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
            progress: job.progress,
            result: job.result.map(|result| ResultView { result, certificate_url }),
            error: job.failure,
        }
    }
}
