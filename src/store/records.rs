//! The store's records: what callers give and get. `revision` grows with every change of a record,
//! so that it can serve as an ETag.

use super::failure::JobFailure;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ids::{DatasetId, JobId, KeyId, LeaseToken, PolicyId, Timestamp, Workspace};
use guarantor_engine::certificate::{
    BaselineRisk, Certificate, Decision, Issued, LedgerPlace, Reason, Signature, SigningKey, UserUnits,
};
use guarantor_engine::control::Progress;
use guarantor_engine::log::{Capabilities, LogShape, Outcome};
use guarantor_engine::policy::PolicyKind;
use guarantor_engine::spec::{BoundKind, JobKind, JobSpec, PolicyShape};

/// An API key as it may be shown: the secret itself is not stored.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiKey {
    pub id: KeyId,
    pub workspace: Workspace,
    pub name: String,
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
pub struct NewKey {
    pub id: KeyId,
    pub workspace: Workspace,
    pub name: String,
    /// SHA-256 of the secret, hex.
    pub hash: String,
}

/// A stored file and its length. Blobs are written before the row that names them, and a blob that
/// no row names is swept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlobRef {
    pub key: String,
    pub bytes: u64,
}

/// What a version of a dataset holds.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetContent {
    pub rows: u64,
    pub contexts: u64,
    pub n_actions: usize,
    pub dim: usize,
    pub outcome: Outcome,
    pub digest: String,
    pub capabilities: Capabilities,
    pub health: serde_json::Value,
    /// The rows, in order. A version that appends starts with its predecessor's parts.
    pub parts: Vec<BlobRef>,
}

#[derive(Debug, Clone)]
pub struct NewDataset {
    pub id: DatasetId,
    pub workspace: Workspace,
    pub name: Option<String>,
    pub logging_policy_id: Option<PolicyId>,
    pub content: DatasetContent,
}

/// A dataset at one of its versions.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    pub id: DatasetId,
    pub workspace: Workspace,
    pub name: Option<String>,
    pub created_at: Timestamp,
    pub revision: u64,
    pub version: u64,
    pub logging_policy_id: Option<PolicyId>,
    pub content: DatasetContent,
}

impl Dataset {
    pub fn bytes(&self) -> u64 {
        self.content.parts.iter().map(|part| part.bytes).sum()
    }

    /// What specifications are resolved against.
    pub fn shape(&self) -> LogShape {
        LogShape {
            rows: self.content.rows,
            contexts: self.content.contexts,
            n_actions: self.content.n_actions,
            dim: self.content.dim,
            outcome: self.content.outcome,
            capabilities: self.content.capabilities.clone(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct NewPolicy {
    pub id: PolicyId,
    pub workspace: Workspace,
    pub kind: PolicyKind,
    pub n_actions: usize,
    pub dim: usize,
    pub digest: String,
    /// The job that learned it.
    pub source_job_id: Option<JobId>,
    /// `PolicyParams` as JSON.
    pub params: BlobRef,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    pub id: PolicyId,
    pub workspace: Workspace,
    pub created_at: Timestamp,
    pub revision: u64,
    pub kind: PolicyKind,
    pub n_actions: usize,
    pub dim: usize,
    pub digest: String,
    pub source_job_id: Option<JobId>,
    /// The datasets whose rows it depends on, as far as the store knows: of the job that learned it
    /// and of every policy that this job read.
    pub origins: BTreeSet<DatasetId>,
    pub params: BlobRef,
}

impl Policy {
    pub fn shape(&self) -> PolicyShape {
        PolicyShape { kind: self.kind, n_actions: self.n_actions, dim: self.dim }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    Queued,
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

impl JobStatus {
    pub const ALL: [JobStatus; 5] = [
        JobStatus::Queued,
        JobStatus::Running,
        JobStatus::Succeeded,
        JobStatus::Failed,
        JobStatus::Cancelled,
    ];

    pub fn name(self) -> &'static str {
        match self {
            JobStatus::Queued => "queued",
            JobStatus::Running => "running",
            JobStatus::Succeeded => "succeeded",
            JobStatus::Failed => "failed",
            JobStatus::Cancelled => "cancelled",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        JobStatus::ALL.into_iter().find(|status| status.name() == name)
    }

    pub fn is_finished(self) -> bool {
        matches!(self, JobStatus::Succeeded | JobStatus::Failed | JobStatus::Cancelled)
    }
}

/// The engine's progress and how long the attempt has run when it was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobProgress {
    #[serde(flatten)]
    pub progress: Progress,
    pub elapsed_seconds: f64,
}

/// The certificate's answer in short, kept in the job's row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobResult {
    pub decision: Decision,
    pub reasons: Vec<Reason>,
    pub guaranteed_risk: f64,
    pub guaranteed_improvement: f64,
    pub baseline_risk: BaselineRisk,
    pub confidence: f64,
    pub user_units: UserUnits,
    /// The learned policy (kind `learn`).
    #[schema(value_type = Option<String>)]
    pub policy_id: Option<PolicyId>,
}

#[derive(Debug, Clone)]
pub struct NewJob {
    pub id: JobId,
    pub workspace: Workspace,
    pub dataset_id: DatasetId,
    pub dataset_version: u64,
    pub spec: JobSpec,
    pub metadata: serde_json::Value,
    /// Every stored policy that the job will read, the dataset's logging policy included.
    pub policy_ids: Vec<PolicyId>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub id: JobId,
    pub workspace: Workspace,
    pub dataset_id: DatasetId,
    pub dataset_version: u64,
    pub kind: JobKind,
    pub status: JobStatus,
    pub spec: JobSpec,
    pub metadata: serde_json::Value,
    pub created_at: Timestamp,
    /// Since when it waits, or waited for the attempt that runs: put back, a job waits anew.
    pub queued_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// Whether any attempt has shown a bound on the rows of the certificate. That is a look at them
    /// even where no certificate follows.
    pub shown: bool,
    /// How many times the job was started, this time included; 0 while it waits for the first.
    pub attempt: u32,
    pub cancel_requested: bool,
    pub progress: Option<JobProgress>,
    pub result: Option<JobResult>,
    pub failure: Option<JobFailure>,
    pub certificate: Option<BlobRef>,
    pub evidence: Option<BlobRef>,
    pub revision: u64,
}

impl Job {
    /// How long it waited before the attempt that ran last.
    pub fn wait_seconds(&self) -> Option<f64> {
        self.started_at.map(|start| start.seconds_since(self.queued_at))
    }

    /// What its certificate says of the job.
    pub fn issued(&self) -> Issued {
        Issued {
            job_id: self.id.to_string(),
            dataset_id: self.dataset_id.to_string(),
            policy_id: self.result.as_ref().and_then(|result| result.policy_id).map(|id| id.to_string()),
            created_at: self.created_at.to_string(),
            started_at: self.started_at.map(|time| time.to_string()),
            finished_at: self.finished_at.map(|time| time.to_string()),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobFilter {
    pub status: Option<JobStatus>,
    pub dataset_id: Option<DatasetId>,
}

/// How many jobs may wait; `None` is no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueLimits {
    pub total: Option<u64>,
    pub workspace: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QueueDepth {
    pub queued: u64,
    pub running: u64,
    /// How long the oldest queued job has waited.
    pub oldest_seconds: f64,
}

/// Something that happened to a job. Ids count up from 1 in each job, and clients resume by them.
#[derive(Debug, Clone, PartialEq)]
pub struct JobEvent {
    pub id: u64,
    /// `queued`, `started`, `progress`, `cancel_requested`, `requeued`, `succeeded`, `failed`, `cancelled`.
    pub kind: String,
    pub data: serde_json::Value,
    pub created_at: Timestamp,
}

/// A job in the hands of a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub job: Job,
    pub token: LeaseToken,
}

#[derive(Debug, Clone, Copy)]
pub struct LeaseTerms {
    /// How long a claim or a heartbeat keeps the job.
    pub duration: Duration,
    /// How many times a job is started before it is given up.
    pub max_attempts: u32,
}

/// What a worker leaves behind. All of it is written in one transaction or none of it.
#[derive(Debug, Clone)]
pub enum Finish {
    Succeeded(Box<Success>),
    Failed(JobFailure),
    Cancelled,
    /// Back to its place in the queue as if this attempt had not begun: the process is shutting down.
    Released,
    /// The same for a reason of the store's own: its result could not be written.
    Postponed(String),
    /// Back to its place in the queue, or failed when this was the last attempt: something outside
    /// of the job was in the way.
    Retry(JobFailure),
}

#[derive(Debug, Clone)]
pub struct Success {
    pub result: JobResult,
    pub certificate: BlobRef,
    pub evidence: BlobRef,
    pub policy: Option<NewPolicy>,
    /// The certificate itself, for the ledger.
    pub drawn: Arc<Certificate>,
    /// Signs it with its place in the ledger, where there is a key.
    pub signing_key: Option<Arc<SigningKey>>,
}

/// A look at a dataset's rows: a certificate, or a bound that a job showed before it ended without one.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerEntry {
    pub place: LedgerPlace,
    pub job_id: JobId,
    pub dataset_id: DatasetId,
    pub dataset_version: u64,
    pub created_at: Timestamp,
    pub kind: JobKind,
    pub bound: BoundKind,
    /// How many candidates shared its δ; 0 for kind `learn`.
    pub candidates: u64,
    /// None where there is no certificate.
    pub decision: Option<Decision>,
    /// The certificate's; None where there is none, or where it was issued before there was a ledger
    /// and so does not name its place.
    pub digest: Option<String>,
    pub signature: Option<Signature>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LedgerSummary {
    pub looks: u64,
    /// Σ of what they cost.
    pub spent: f64,
}

/// Who asks, and a fingerprint of what is asked, so that the same key with another body is noticed.
#[derive(Debug, Clone)]
pub struct IdempotentRequest {
    pub workspace: Workspace,
    pub key: String,
    pub fingerprint: String,
    /// The id that the resource gets if this is the first such request.
    pub resource_id: uuid::Uuid,
    /// How long the answer may take before a repeated request may take the work over.
    pub patience: Duration,
}

/// An answer as it was given, to be given again.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Begun {
    /// Do the work and give the resource this id. Where an earlier attempt died half-way it is that
    /// attempt's id, so the resource may exist already: `StoreError::Exists` then says so.
    Proceed {
        resource_id: uuid::Uuid,
    },
    Replay(StoredAnswer),
    /// The key was used with another body.
    Mismatch,
    /// The first request is still being answered.
    InProgress,
}
