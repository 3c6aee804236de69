//! Jobs, their results and their events.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::BlobRef;
use crate::store::failure::JobFailure;
use crate::store::ids::{DatasetId, JobId, PolicyId, Timestamp, Workspace, stored_as_text};
use guarantor_engine::certificate::{BaselineRisk, Decision, Exploration, Issued, Reason, UserUnits};
use guarantor_engine::control::Progress;
use guarantor_engine::spec::JobSpec;

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Waits for a worker.
    Queued,
    /// Claimed by a worker.
    Running,
    /// Ended with a certificate.
    Succeeded,
    /// Ended with an error.
    Failed,
    /// Ended because a client canceled it.
    Cancelled,
}

impl JobStatus {
    /// Every status.
    pub const ALL: [JobStatus; 5] = [
        JobStatus::Queued,
        JobStatus::Running,
        JobStatus::Succeeded,
        JobStatus::Failed,
        JobStatus::Cancelled,
    ];

    /// The name in JSON and in the database.
    pub fn name(self) -> &'static str {
        match self {
            JobStatus::Queued => "queued",
            JobStatus::Running => "running",
            JobStatus::Succeeded => "succeeded",
            JobStatus::Failed => "failed",
            JobStatus::Cancelled => "cancelled",
        }
    }

    /// The status with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        JobStatus::ALL.into_iter().find(|status| status.name() == name)
    }

    /// Whether the job has ended and will not change anymore.
    pub fn is_finished(self) -> bool {
        matches!(self, JobStatus::Succeeded | JobStatus::Failed | JobStatus::Cancelled)
    }
}

impl FromStr for JobStatus {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        JobStatus::from_name(name).ok_or_else(|| format!("{name:?} is not a job status"))
    }
}

stored_as_text!(JobStatus);

/// The engine's progress, and how long the attempt had been running when it was reported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobProgress {
    /// The last report of the engine.
    #[serde(flatten)]
    pub progress: Progress,
    /// How long the attempt had been running.
    pub elapsed_seconds: f64,
}

/// A summary of the certificate, stored in the job's row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobResult {
    /// Whether to deploy the policy.
    pub decision: Decision,
    /// The reasons for the decision.
    pub reasons: Vec<Reason>,
    /// The certified upper bound on the policy's risk.
    pub guaranteed_risk: f64,
    /// The certified lower bound on the improvement.
    pub guaranteed_improvement: f64,
    /// The risk of the logging policy.
    pub baseline_risk: BaselineRisk,
    /// 1−δ.
    pub confidence: f64,
    /// The same numbers in the outcome's own units.
    pub user_units: UserUnits,
    /// The candidate that the numbers are about (kind `evaluate`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// The learned policy (kind `learn`).
    #[schema(value_type = Option<String>)]
    pub policy_id: Option<PolicyId>,
    /// How much the learned policy explores, and what that costs (kind `learn`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exploration: Option<Exploration>,
}

/// A job to be queued.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Its id.
    pub id: JobId,
    /// Its workspace.
    pub workspace: Workspace,
    /// The dataset that it reads.
    pub dataset_id: DatasetId,
    /// The version that it reads, which must be the newest.
    pub dataset_version: u64,
    /// How many rows had been seen when the spec was resolved. The job is not queued if that has changed; `None` if
    /// it does not matter.
    pub seen_rows: Option<u64>,
    /// What it does.
    pub spec: JobSpec,
    /// The caller's own data.
    pub metadata: serde_json::Value,
    /// Every stored policy that the job will read, including the dataset's logging policy.
    pub policy_ids: Vec<PolicyId>,
    /// Who submits it, as certificates name them.
    pub submitted_by: String,
}

/// A job.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Its workspace.
    pub workspace: Workspace,
    /// The dataset that it reads.
    pub dataset_id: DatasetId,
    /// The version that it reads.
    #[sqlx(try_from = "i64")]
    pub dataset_version: u64,
    /// Its state.
    pub status: JobStatus,
    /// What it does.
    #[sqlx(json)]
    pub spec: JobSpec,
    /// The caller's own data.
    #[sqlx(json)]
    pub metadata: serde_json::Value,
    /// Who submitted it; `None` for jobs of earlier releases.
    pub submitted_by: Option<String>,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it was queued for the current or next attempt: submitted, or last returned to the queue.
    pub queued_at: Timestamp,
    /// When the current or last attempt started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Whether any attempt has shown a bound on the rows of the certificate. That is a look at them, even
    /// if no certificate follows.
    pub shown: bool,
    /// How many times the job was started, including the current attempt; 0 before the first.
    #[sqlx(try_from = "i64")]
    pub attempt: u32,
    /// Whether a client asked for the job to be canceled.
    pub cancel_requested: bool,
    /// The last report of the current or last attempt.
    #[sqlx(json(nullable))]
    pub progress: Option<JobProgress>,
    /// A summary of the certificate.
    #[sqlx(json(nullable))]
    pub result: Option<JobResult>,
    /// Why it failed.
    #[sqlx(json(nullable))]
    pub failure: Option<JobFailure>,
    /// The certificate's file.
    #[sqlx(json(nullable))]
    pub certificate: Option<BlobRef>,
    /// The evidence's file.
    #[sqlx(json(nullable))]
    pub evidence: Option<BlobRef>,
    /// Grows with every change.
    #[sqlx(try_from = "i64")]
    pub revision: u64,
}

impl Job {
    /// How long the job was queued before its last attempt.
    pub fn wait_seconds(&self) -> Option<f64> {
        self.started_at.map(|start| start.seconds_since(self.queued_at))
    }

    /// What its certificate says about the job.
    pub fn issued(&self) -> Issued {
        Issued {
            job_id: self.id.to_string(),
            dataset_id: self.dataset_id.to_string(),
            policy_id: self.result.as_ref().and_then(|result| result.policy_id).map(|id| id.to_string()),
            created_at: self.created_at.to_string(),
            started_at: self.started_at.map(|time| time.to_string()),
            finished_at: self.finished_at.map(|time| time.to_string()),
            submitted_by: self.submitted_by.clone(),
        }
    }
}

/// The order of a list of jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobOrder {
    /// The newest job first.
    #[default]
    Newest,
    /// The oldest job first.
    Oldest,
}

/// Which jobs a list contains, and in which order; `None` means all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobFilter {
    /// Only jobs with this status.
    pub status: Option<JobStatus>,
    /// Only jobs whose certificate decided this.
    pub decision: Option<Decision>,
    /// Only jobs that read this dataset.
    pub dataset_id: Option<DatasetId>,
    /// The order.
    pub order: JobOrder,
}

/// How many jobs may be queued; `None` means no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueLimits {
    /// In all workspaces together.
    pub total: Option<u64>,
    /// In the workspace of the new job.
    pub workspace: Option<u64>,
}

/// How many jobs are unfinished.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QueueDepth {
    /// Queued jobs.
    pub queued: u64,
    /// Running jobs.
    pub running: u64,
    /// How long the oldest queued job has been queued.
    pub oldest_seconds: f64,
}

/// Something that happened to a job. Ids count up from 1 for each job, and clients resume with them.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct JobEvent {
    /// The number of the event.
    #[sqlx(try_from = "i64")]
    pub id: u64,
    /// `queued`, `started`, `progress`, `cancel_requested`, `requeued`, `succeeded`, `failed` or `cancelled`.
    pub kind: String,
    /// Details.
    #[sqlx(json)]
    pub data: serde_json::Value,
    /// When it happened.
    pub created_at: Timestamp,
}

/// A change of a job by another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobChange {
    /// It waits for a worker.
    Queued(JobId),
    /// A client asked for it to be canceled.
    CancelRequested(JobId),
    /// It has ended.
    Ended(JobId),
    /// Anything else.
    Other(JobId),
    /// Changes may have been missed, of any job.
    Missed,
}

impl JobChange {
    /// The job, if it is known.
    pub fn job(self) -> Option<JobId> {
        match self {
            JobChange::Queued(id)
            | JobChange::CancelRequested(id)
            | JobChange::Ended(id)
            | JobChange::Other(id) => Some(id),
            JobChange::Missed => None,
        }
    }
}
