//! Webhooks and their deliveries, as clients see them.

use std::time::Duration;

use async_trait::async_trait;

use super::outbox::{MOST_WAITING, NewEvent};
use super::rows::{Count, check_room, read_page, to_json};
use super::{Repo, Write, micros};
use crate::store::error::{Resource, Result, StoreError};
use crate::store::ids::{DeliveryId, WebhookId, Workspace};
use crate::store::page::{Page, PageRequest};
use crate::store::records::{Delivery, EventKind, NewWebhook, Webhook, WebhookDefinition, WebhookSecret};
use crate::store::repository::Webhooks;

fn no_webhook(id: WebhookId) -> StoreError {
    StoreError::not_found(Resource::Webhook, id)
}

impl Write {
    async fn own_webhook(&mut self, workspace: &Workspace, id: WebhookId) -> Result<Webhook> {
        let webhook = sqlx::query_as("SELECT * FROM webhooks WHERE id = $1 AND workspace = $2")
            .bind(id.to_string())
            .bind(workspace.as_str())
            .fetch_optional(self.connection())
            .await?;
        webhook.ok_or_else(|| no_webhook(id))
    }
}

#[async_trait]
impl Webhooks for Repo {
    async fn create_webhook(&self, new: NewWebhook, most: u64) -> Result<Webhook> {
        let mut write = self.write().await?;
        let now = write.now.0;
        let (present,): (Count,) = sqlx::query_as("SELECT COUNT(*) FROM webhooks WHERE workspace = $1")
            .bind(new.workspace.as_str())
            .fetch_one(write.connection())
            .await?;
        check_room(Resource::Webhook, present.0, most)?;
        let webhook = sqlx::query_as(
            "INSERT INTO webhooks (id, workspace, definition, enabled, secret, created_at, created_by, changed_at, \
             changed_by, dropped, revision) VALUES ($1, $2, $3, $4, $5, $6, $7, $6, $7, 0, 1) RETURNING *",
        )
        .bind(new.id.to_string())
        .bind(new.workspace.as_str())
        .bind(to_json(&new.definition)?)
        .bind(new.enabled)
        .bind(new.secret.reveal())
        .bind(now)
        .bind(&new.by)
        .fetch_one(write.connection())
        .await?;
        write.commit().await?;
        Ok(webhook)
    }

    async fn webhook(&self, workspace: &Workspace, id: WebhookId) -> Result<Webhook> {
        let webhook = sqlx::query_as("SELECT * FROM webhooks WHERE id = $1 AND workspace = $2")
            .bind(id.to_string())
            .bind(workspace.as_str())
            .fetch_optional(&self.readers)
            .await?;
        webhook.ok_or_else(|| no_webhook(id))
    }

    async fn webhooks(&self, workspace: &Workspace, page: &PageRequest) -> Result<Page<Webhook>> {
        let sql = "SELECT * FROM webhooks WHERE workspace = $1 AND (created_at, id) < ($2, $3) \
                   ORDER BY created_at DESC, id DESC LIMIT $4";
        read_page(&self.readers, sql, workspace.as_str(), page).await
    }

    async fn change_webhook(
        &self,
        workspace: &Workspace,
        id: WebhookId,
        definition: &WebhookDefinition,
        enabled: bool,
        by: &str,
    ) -> Result<Webhook> {
        let mut write = self.write().await?;
        let now = write.now.0;
        let before = write.own_webhook(workspace, id).await?;
        let failing_since = before.failing_since.filter(|_| before.definition.url == definition.url);
        let webhook = sqlx::query_as(
            "UPDATE webhooks SET definition = $2, enabled = $3, changed_at = $4, changed_by = $5, failing_since = $6, \
             revision = revision + 1 WHERE id = $1 RETURNING *",
        )
        .bind(id.to_string())
        .bind(to_json(definition)?)
        .bind(enabled)
        .bind(now)
        .bind(by)
        .bind(failing_since)
        .fetch_one(write.connection())
        .await?;
        write.commit().await?;
        Ok(webhook)
    }

    async fn rotate_webhook_secret(
        &self,
        workspace: &Workspace,
        id: WebhookId,
        secret: &WebhookSecret,
        grace: Duration,
        by: &str,
    ) -> Result<Webhook> {
        let mut write = self.write().await?;
        let now = write.now.0;
        let webhook: Option<Webhook> = sqlx::query_as(
            "UPDATE webhooks SET old_secret = secret, old_secret_until = $4, secret = $3, changed_at = $5, \
             changed_by = $6, revision = revision + 1 WHERE id = $1 AND workspace = $2 RETURNING *",
        )
        .bind(id.to_string())
        .bind(workspace.as_str())
        .bind(secret.reveal())
        .bind(now.saturating_add(micros(grace)))
        .bind(now)
        .bind(by)
        .fetch_optional(write.connection())
        .await?;
        let webhook = webhook.ok_or_else(|| no_webhook(id))?;
        write.commit().await?;
        Ok(webhook)
    }

    async fn delete_webhook(&self, workspace: &Workspace, id: WebhookId) -> Result<()> {
        let mut write = self.write().await?;
        let deleted = sqlx::query("DELETE FROM webhooks WHERE id = $1 AND workspace = $2")
            .bind(id.to_string())
            .bind(workspace.as_str())
            .execute(write.connection())
            .await?;
        if deleted.rows_affected() == 0 {
            return Err(no_webhook(id));
        }
        write.commit().await
    }

    async fn ping_webhook(&self, workspace: &Workspace, id: WebhookId) -> Result<Delivery> {
        let mut write = self.write().await?;
        let webhook = write.own_webhook(workspace, id).await?;
        let delivery_id = DeliveryId::new();
        let data = serde_json::json!({ "webhook_id": id, "workspace": workspace });
        let event = NewEvent {
            id: format!("{delivery_id}-ping"),
            kind: EventKind::Ping,
            subject: format!("webhooks/{id}"),
            data: to_json(&data)?,
        };
        check_room(Resource::Delivery, write.waiting(&webhook.id.to_string()).await?, MOST_WAITING)?;
        write.queue_delivery(delivery_id, &id.to_string(), &event).await?;
        let delivery = sqlx::query_as("SELECT * FROM deliveries WHERE id = $1")
            .bind(delivery_id.to_string())
            .fetch_one(write.connection())
            .await?;
        write.commit().await?;
        Ok(delivery)
    }

    async fn deliveries(
        &self,
        workspace: &Workspace,
        webhook: WebhookId,
        page: &PageRequest,
    ) -> Result<Page<Delivery>> {
        self.webhook(workspace, webhook).await?;
        let sql = "SELECT * FROM deliveries WHERE webhook_id = $1 AND (created_at, id) < ($2, $3) \
                   ORDER BY created_at DESC, id DESC LIMIT $4";
        read_page(&self.readers, sql, &webhook.to_string(), page).await
    }

    async fn redeliver(
        &self,
        workspace: &Workspace,
        webhook: WebhookId,
        delivery: DeliveryId,
    ) -> Result<Delivery> {
        let mut write = self.write().await?;
        let now = write.now.0;
        write.own_webhook(workspace, webhook).await?;
        let queued: Option<Delivery> = sqlx::query_as(
            "UPDATE deliveries SET status = 'pending', since = $3, attempts = 0, next_at = $3, ended_at = NULL \
             WHERE id = $1 AND webhook_id = $2 RETURNING *",
        )
        .bind(delivery.to_string())
        .bind(webhook.to_string())
        .bind(now)
        .fetch_optional(write.connection())
        .await?;
        let queued = queued.ok_or_else(|| StoreError::not_found(Resource::Delivery, delivery))?;
        write.commit().await?;
        Ok(queued)
    }
}
