//! The outbox: the transaction that ends a job also writes what webhooks are told about it, so no event is lost or
//! made up by a crash. A job never fails because of a webhook: what cannot be read here is logged and left out.

use std::time::Duration;

use async_trait::async_trait;
use metrics::counter;
use sqlx::{FromRow, Row};

use super::rows::{Count, plain, to_json};
use super::{Document, Repo, Write, micros, now};
use crate::store::error::{Result, StoreError};
use crate::store::failure::JobFailure;
use crate::store::ids::{DatasetId, DeliveryId, JobId, Timestamp, WebhookId, Workspace};
use crate::store::records::{
    AfterAttempt, Attempted, Delivery, DueDelivery, EventKind, Job, JobStatus, OutboxDepth, Webhook,
    damaged_event_data, end_event_data, end_event_id,
};
use crate::store::repository::Outbox;
use guarantor_engine::certificate::Decision;

/// The most deliveries of a webhook that wait. More events are dropped and counted: a receiver that is gone must not
/// fill the disk.
pub const MOST_WAITING: u64 = 10_000;

/// An event to be delivered.
pub struct NewEvent {
    pub id: String,
    pub kind: EventKind,
    pub subject: String,
    pub data: Document,
}

/// What is left of a job whose row is damaged.
#[derive(FromRow)]
struct Remains {
    id: JobId,
    workspace: Workspace,
    dataset_id: DatasetId,
}

impl Write {
    /// Queues the event of a job that has ended, for every webhook that wants it.
    pub async fn announce_end(&mut self, job: &Job) -> Result<()> {
        let Some(kind) = EventKind::of_end(job.status) else { return Ok(()) };
        let decision = job.result.as_ref().map(|result| result.decision);
        let webhooks = self.interested(&job.workspace, kind, job.dataset_id, decision).await?;
        if webhooks.is_empty() {
            return Ok(());
        }
        let digest: Option<(String,)> =
            sqlx::query_as("SELECT digest FROM dataset_versions WHERE dataset_id = $1 AND version = $2")
                .bind(job.dataset_id.to_string())
                .bind(i64::try_from(job.dataset_version).unwrap_or(i64::MAX))
                .fetch_optional(self.connection())
                .await?;
        let data = end_event_data(job, digest.as_ref().map(|(digest,)| digest.as_str()));
        let event = NewEvent {
            id: end_event_id(job.id, job.status),
            kind,
            subject: format!("jobs/{}", job.id),
            data: to_json(&data)?,
        };
        self.queue_event(&webhooks, &event).await
    }

    /// The same for a job that has failed because its row is damaged, as far as it can still be read.
    pub async fn announce_damaged(&mut self, id: &str, failure: &JobFailure) -> Result<()> {
        let row = sqlx::query("SELECT id, workspace, dataset_id FROM jobs WHERE id = $1")
            .bind(id)
            .fetch_one(self.connection())
            .await?;
        let Remains { id, workspace, dataset_id } = match Remains::from_row(&row) {
            Ok(remains) => remains,
            Err(error) => {
                tracing::error!(job_id = id, %error, "webhooks were not told about a job whose row is damaged");
                return Ok(());
            }
        };
        let kind = EventKind::JobFailed;
        let webhooks = self.interested(&workspace, kind, dataset_id, None).await?;
        let data = damaged_event_data(id, &workspace, dataset_id, self.now, failure);
        let event = NewEvent {
            id: end_event_id(id, JobStatus::Failed),
            kind,
            subject: format!("jobs/{id}"),
            data: to_json(&data)?,
        };
        self.queue_event(&webhooks, &event).await
    }

    /// The enabled webhooks that want an event.
    async fn interested(
        &mut self,
        workspace: &Workspace,
        kind: EventKind,
        dataset: DatasetId,
        decision: Option<Decision>,
    ) -> Result<Vec<WebhookId>> {
        let rows = sqlx::query("SELECT * FROM webhooks WHERE workspace = $1 AND enabled = TRUE")
            .bind(workspace.as_str())
            .fetch_all(self.connection())
            .await?;
        let mut wanted = Vec::new();
        for row in &rows {
            match Webhook::from_row(row) {
                Ok(webhook) if webhook.definition.wants(kind, dataset, decision) => wanted.push(webhook.id),
                Ok(_) => {}
                Err(error) => {
                    tracing::error!(%error, %workspace, "a damaged webhook was not told about a job")
                }
            }
        }
        Ok(wanted)
    }

    async fn queue_event(&mut self, webhooks: &[WebhookId], event: &NewEvent) -> Result<()> {
        for id in webhooks {
            let webhook = id.to_string();
            if self.waiting(&webhook).await? >= MOST_WAITING {
                tracing::error!(
                    webhook_id = webhook,
                    event = event.id,
                    "too many deliveries wait; an event was dropped"
                );
                counter!("guarantor_webhook_events_dropped_total").increment(1);
                sqlx::query("UPDATE webhooks SET dropped = dropped + 1 WHERE id = $1")
                    .bind(&webhook)
                    .execute(self.connection())
                    .await?;
                continue;
            }
            self.queue_delivery(DeliveryId::new(), &webhook, event).await?;
        }
        Ok(())
    }

    /// How many deliveries of a webhook wait.
    pub async fn waiting(&mut self, webhook: &str) -> Result<u64> {
        let (waiting,): (Count,) =
            sqlx::query_as("SELECT COUNT(next_at) FROM deliveries WHERE webhook_id = $1 AND next_at >= 0")
                .bind(webhook)
                .fetch_one(self.connection())
                .await?;
        Ok(waiting.0)
    }

    /// Deletes the deliveries of a webhook that ended long ago or are too many, and fails those that wait for too long.
    async fn sweep_webhook(&mut self, webhook: &str, age: i64, most: u64) -> Result<u64> {
        let (now, before) = (self.now.0, self.now.0 - age);
        let beyond: Option<(i64,)> = sqlx::query_as(
            "SELECT ended_at FROM deliveries WHERE webhook_id = $1 AND ended_at >= 0 \
             ORDER BY ended_at DESC LIMIT 1 OFFSET $2",
        )
        .bind(webhook)
        .bind(i64::try_from(most).unwrap_or(i64::MAX))
        .fetch_optional(self.connection())
        .await?;
        let last = beyond.map_or(before, |(ended_at,)| before.max(ended_at));
        let deleted = sqlx::query("DELETE FROM deliveries WHERE webhook_id = $1 AND ended_at <= $2")
            .bind(webhook)
            .bind(last)
            .execute(self.connection())
            .await?;
        let failed = sqlx::query(
            "UPDATE deliveries SET status = 'failed', next_at = NULL, ended_at = $3, \
             last_error = 'waited too long: the webhook was disabled, or the server did not run' \
             WHERE webhook_id = $1 AND next_at >= 0 AND since <= $2",
        )
        .bind(webhook)
        .bind(before)
        .bind(now)
        .execute(self.connection())
        .await?;
        Ok(deleted.rows_affected() + failed.rows_affected())
    }

    /// Writes a delivery that is due at once. The same event is not written twice.
    pub async fn queue_delivery(&mut self, id: DeliveryId, webhook: &str, event: &NewEvent) -> Result<()> {
        let now = self.now.0;
        sqlx::query(
            "INSERT INTO deliveries (id, webhook_id, event_id, kind, subject, data, created_at, status, since, attempts, \
             next_at) VALUES ($1, $2, $3, $4, $5, $6, $7, 'pending', $7, 0, $7) ON CONFLICT DO NOTHING",
        )
        .bind(id.to_string())
        .bind(webhook)
        .bind(&event.id)
        .bind(event.kind.name())
        .bind(&event.subject)
        .bind(&event.data)
        .bind(now)
        .execute(self.connection())
        .await?;
        Ok(())
    }
}

impl Repo {
    /// Disables a webhook whose row cannot be read, so that it is not found again at once.
    async fn disable_damaged(&self, id: &str, error: &StoreError) -> Result<()> {
        tracing::error!(webhook_id = id, %error, "a webhook's row is damaged; the webhook was disabled");
        let mut write = self.write().await?;
        sqlx::query("UPDATE webhooks SET enabled = FALSE WHERE id = $1")
            .bind(id)
            .execute(write.connection())
            .await?;
        write.commit().await
    }

    /// Ends a delivery whose row cannot be read.
    async fn fail_damaged(&self, id: &str, error: &StoreError) -> Result<()> {
        tracing::error!(delivery_id = id, %error, "a delivery's row is damaged; the delivery has failed");
        let mut write = self.write().await?;
        let now = write.now.0;
        sqlx::query("UPDATE deliveries SET status = 'failed', next_at = NULL, ended_at = $2 WHERE id = $1")
            .bind(id)
            .bind(now)
            .execute(write.connection())
            .await?;
        write.commit().await
    }

    async fn due_of(&self, webhook: &Webhook, now: Timestamp, most: u32) -> Result<Vec<DueDelivery>> {
        let rows = sqlx::query(
            "SELECT * FROM deliveries WHERE webhook_id = $1 AND next_at <= $2 ORDER BY next_at, id LIMIT $3",
        )
        .bind(webhook.id.to_string())
        .bind(now.0)
        .bind(i64::from(most))
        .fetch_all(&self.readers)
        .await?;
        let mut due = Vec::with_capacity(rows.len());
        for row in &rows {
            match Delivery::from_row(row).map_err(StoreError::from) {
                Ok(delivery) => due.push(DueDelivery { delivery, webhook: webhook.clone() }),
                Err(error) => self.fail_damaged(&row.try_get::<String, _>("id")?, &error).await?,
            }
        }
        Ok(due)
    }
}

#[async_trait]
impl Outbox for Repo {
    async fn due_deliveries(&self, now: Timestamp, per_webhook: u32) -> Result<Vec<DueDelivery>> {
        let rows = sqlx::query(
            "SELECT * FROM webhooks w WHERE enabled = TRUE AND EXISTS \
             (SELECT 1 FROM deliveries d WHERE d.webhook_id = w.id AND d.next_at <= $1)",
        )
        .bind(now.0)
        .fetch_all(&self.readers)
        .await?;
        let mut due = Vec::new();
        for row in &rows {
            match Webhook::from_row(row).map_err(StoreError::from) {
                Ok(webhook) => due.extend(self.due_of(&webhook, now, per_webhook).await?),
                Err(error) => self.disable_damaged(&row.try_get::<String, _>("id")?, &error).await?,
            }
        }
        due.sort_by_key(|due| (due.delivery.next_at, due.delivery.id));
        Ok(due)
    }

    async fn next_delivery(&self) -> Result<Option<Timestamp>> {
        let (next,): (Option<Timestamp>,) = sqlx::query_as(
            "SELECT MIN((SELECT MIN(next_at) FROM deliveries d WHERE d.webhook_id = w.id)) FROM webhooks w \
             WHERE enabled = TRUE",
        )
        .fetch_one(&self.readers)
        .await?;
        Ok(next)
    }

    async fn claim_delivery(&self, id: DeliveryId, now: Timestamp, until: Timestamp) -> Result<bool> {
        if !Repo::SHARED {
            return Ok(true);
        }
        let mut write = self.write().await?;
        let claimed = sqlx::query(
            "UPDATE deliveries SET next_at = $3 WHERE id = $1 AND status = 'pending' AND next_at <= $2",
        )
        .bind(id.to_string())
        .bind(now.0)
        .bind(until.0)
        .execute(write.connection())
        .await?;
        write.commit().await?;
        Ok(claimed.rows_affected() > 0)
    }

    async fn record_attempt(&self, id: DeliveryId, attempted: &Attempted) -> Result<()> {
        let (status, next_at, ended_at) = match attempted.after {
            AfterAttempt::Delivered => ("delivered", None, Some(attempted.at.0)),
            AfterAttempt::Again(time) => ("pending", Some(time.0), None),
            AfterAttempt::Failed => ("failed", None, Some(attempted.at.0)),
        };
        let mut write = self.write().await?;
        let webhook: Option<(String,)> = sqlx::query_as(
            "UPDATE deliveries SET status = $2, attempts = attempts + 1, next_at = $3, last_at = $4, last_status = $5, \
             last_error = $6, ended_at = $7 WHERE id = $1 AND status = 'pending' RETURNING webhook_id",
        )
        .bind(id.to_string())
        .bind(status)
        .bind(next_at)
        .bind(attempted.at.0)
        .bind(attempted.status.map(i64::from))
        .bind(attempted.error.as_deref().map(plain))
        .bind(ended_at)
        .fetch_optional(write.connection())
        .await?;
        let Some((webhook,)) = webhook else { return Ok(()) };
        let success = (attempted.after == AfterAttempt::Delivered).then_some(attempted.at.0);
        sqlx::query(
            "UPDATE webhooks SET last_success_at = COALESCE($2, last_success_at), \
             failing_since = CASE WHEN $2 IS NULL THEN COALESCE(failing_since, $3) END WHERE id = $1",
        )
        .bind(webhook)
        .bind(success)
        .bind(attempted.at.0)
        .execute(write.connection())
        .await?;
        write.commit().await
    }

    async fn sweep_deliveries(&self, age: Duration, most: u64) -> Result<u64> {
        let webhooks: Vec<(String,)> =
            sqlx::query_as("SELECT id FROM webhooks").fetch_all(&self.readers).await?;
        let mut swept = 0;
        // Each in a transaction of its own, so that a sweep does not block other writers for long.
        for (webhook,) in webhooks {
            let mut write = self.write().await?;
            swept += write.sweep_webhook(&webhook, micros(age), most).await?;
            write.commit().await?;
        }
        Ok(swept)
    }

    async fn outbox_depth(&self) -> Result<OutboxDepth> {
        let mut connection = self.readers.acquire().await?;
        let (pending, oldest): (Count, Option<Timestamp>) = sqlx::query_as(
            "SELECT COUNT(*), MIN(d.created_at) FROM deliveries d JOIN webhooks w ON w.id = d.webhook_id \
             WHERE d.next_at >= 0 AND w.enabled = TRUE",
        )
        .fetch_one(&mut *connection)
        .await?;
        let (failing,): (Count,) = sqlx::query_as(
            "SELECT COUNT(*) FROM webhooks WHERE enabled = TRUE AND failing_since IS NOT NULL",
        )
        .fetch_one(&mut *connection)
        .await?;
        let now = now(&mut connection).await?;
        let oldest_seconds = oldest.map_or(0.0, |oldest| now.seconds_since(oldest));
        Ok(OutboxDepth { pending: pending.0, oldest_seconds, failing: failing.0 })
    }
}
