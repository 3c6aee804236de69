//! Deliveries: each is one event for one webhook. And what the events of jobs contain.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{EventKind, Job, JobStatus, Webhook};
use crate::store::failure::JobFailure;
use crate::store::ids::{DatasetId, DeliveryId, JobId, Timestamp, WebhookId, Workspace, stored_as_text};

/// The state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    /// Waits for its first or next attempt.
    Pending,
    /// The receiver has acknowledged it.
    Delivered,
    /// Every attempt has failed, and there will be no other unless a client asks for it.
    Failed,
}

impl DeliveryStatus {
    /// The name in JSON and in the database.
    pub fn name(self) -> &'static str {
        match self {
            DeliveryStatus::Pending => "pending",
            DeliveryStatus::Delivered => "delivered",
            DeliveryStatus::Failed => "failed",
        }
    }
}

impl FromStr for DeliveryStatus {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [DeliveryStatus::Pending, DeliveryStatus::Delivered, DeliveryStatus::Failed];
        let found = all.into_iter().find(|status| status.name() == name);
        found.ok_or_else(|| format!("{name:?} is not the status of a delivery"))
    }
}

stored_as_text!(DeliveryStatus);

/// One event for one webhook.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Delivery {
    /// Its id.
    pub id: DeliveryId,
    /// The webhook.
    pub webhook_id: WebhookId,
    /// The id of the event: the same for every attempt and every webhook.
    pub event_id: String,
    /// What happened.
    pub kind: EventKind,
    /// What it happened to, such as `jobs/ID`.
    pub subject: String,
    /// The details.
    #[sqlx(json)]
    pub data: Value,
    /// When the event happened.
    pub created_at: Timestamp,
    /// The state.
    pub status: DeliveryStatus,
    /// When the current series of attempts began.
    pub since: Timestamp,
    /// How many attempts of the current series have ended.
    #[sqlx(try_from = "i64")]
    pub attempts: u32,
    /// When it is tried next.
    pub next_at: Option<Timestamp>,
    /// When the last attempt was.
    pub last_at: Option<Timestamp>,
    /// The HTTP status of the response to the last attempt, if there was one.
    #[sqlx(try_from = "StoredStatus")]
    pub last_status: Option<u16>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// When it was delivered or failed.
    pub ended_at: Option<Timestamp>,
}

/// An HTTP status as it is stored.
#[derive(sqlx::Type)]
#[sqlx(transparent)]
struct StoredStatus(Option<i64>);

impl TryFrom<StoredStatus> for Option<u16> {
    type Error = std::num::TryFromIntError;

    fn try_from(stored: StoredStatus) -> Result<Self, Self::Error> {
        stored.0.map(u16::try_from).transpose()
    }
}

/// A delivery whose time has come, with its webhook.
#[derive(Debug, Clone, PartialEq)]
pub struct DueDelivery {
    /// The delivery.
    pub delivery: Delivery,
    /// Its webhook, as it was when the delivery was read.
    pub webhook: Webhook,
}

/// What follows an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterAttempt {
    /// The receiver has acknowledged the event.
    Delivered,
    /// Another attempt at this time.
    Again(Timestamp),
    /// No other attempt.
    Failed,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempted {
    /// When it began.
    pub at: Timestamp,
    /// The HTTP status of the response, if there was one.
    pub status: Option<u16>,
    /// Why it failed.
    pub error: Option<String>,
    /// What follows.
    pub after: AfterAttempt,
}

/// What the outbox contains.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OutboxDepth {
    /// Deliveries of enabled webhooks that wait for an attempt.
    pub pending: u64,
    /// How long the oldest of them has waited.
    pub oldest_seconds: f64,
    /// Enabled webhooks whose last attempt failed.
    pub failing: u64,
}

/// The most bytes of a job's error message in an event.
const LONGEST_MESSAGE: usize = 500;

/// The id of the event of a job's end. A job ends once, so the id follows from the job: even a job that ends again
/// because an older database was restored has the same event.
pub fn end_event_id(job: JobId, status: JobStatus) -> String {
    format!("{job}-{}", status.name())
}

/// What webhooks are told about a job that has ended. No rows and no metadata: receivers may be less trusted than
/// readers of the job.
pub fn end_event_data(job: &Job, dataset_digest: Option<&str>) -> Value {
    let result = job.result.as_ref();
    json!({
        "job_id": job.id,
        "workspace": job.workspace,
        "status": job.status,
        "kind": job.spec.kind,
        "submitted_by": job.submitted_by,
        "dataset_id": job.dataset_id,
        "dataset_version": job.dataset_version,
        "dataset_digest": dataset_digest,
        "finished_at": job.finished_at,
        "decision": result.map(|result| result.decision),
        "guaranteed_improvement": result.map(|result| result.guaranteed_improvement),
        "confidence": result.map(|result| result.confidence),
        "candidate": result.and_then(|result| result.candidate.as_deref()),
        "policy_id": result.and_then(|result| result.policy_id),
        "error": job.failure.as_ref().map(error_data),
    })
}

/// The same for a job whose row cannot be read anymore.
pub fn damaged_event_data(
    job: JobId,
    workspace: &Workspace,
    dataset: DatasetId,
    finished_at: Timestamp,
    failure: &JobFailure,
) -> Value {
    json!({
        "job_id": job,
        "workspace": workspace,
        "status": JobStatus::Failed,
        "dataset_id": dataset,
        "finished_at": finished_at,
        "decision": null,
        "guaranteed_improvement": null,
        "error": error_data(failure),
    })
}

fn error_data(failure: &JobFailure) -> Value {
    let end = failure.message.floor_char_boundary(LONGEST_MESSAGE);
    json!({ "code": failure.code, "message": &failure.message[..end] })
}
