//! Webhooks and deliveries as clients see them. No view has the secret except the one that shows it once.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use crate::store::{
    DatasetId, Delivery, DeliveryId, DeliveryStatus, EventKind, Timestamp, Webhook, WebhookId, WebhookSecret,
};
use guarantor_engine::certificate::Decision;

/// How a webhook does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WebhookStatus {
    /// Events are sent, and the last one was received, or none was sent yet.
    Active,
    /// Every attempt since `failing_since` has failed.
    Failing,
    /// No events are sent.
    Disabled,
}

/// A webhook, without its secret.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Webhook)]
pub struct WebhookView {
    #[schema(value_type = String, format = "uuid")]
    id: WebhookId,
    name: String,
    url: String,
    events: BTreeSet<EventKind>,
    #[schema(value_type = Option<String>, format = "uuid", required)]
    dataset_id: Option<DatasetId>,
    #[schema(required)]
    decision: Option<Decision>,
    enabled: bool,
    status: WebhookStatus,
    #[schema(value_type = Option<String>, format = "date-time", required)]
    last_success_at: Option<Timestamp>,
    /// Since when every attempt has failed.
    #[schema(value_type = Option<String>, format = "date-time", required)]
    failing_since: Option<Timestamp>,
    /// How many events were dropped because 10 000 deliveries waited.
    dropped_events: u64,
    /// Until when the secret before the current one signs too.
    #[schema(value_type = Option<String>, format = "date-time", required)]
    old_secret_until: Option<Timestamp>,
    #[schema(value_type = String, format = "date-time")]
    created_at: Timestamp,
    /// The API key that created it.
    created_by: String,
    #[schema(value_type = String, format = "date-time")]
    changed_at: Timestamp,
    /// The API key that changed it last, or created it.
    changed_by: String,
}

impl From<Webhook> for WebhookView {
    fn from(webhook: Webhook) -> Self {
        let status = match (webhook.enabled, webhook.failing_since) {
            (false, _) => WebhookStatus::Disabled,
            (true, Some(_)) => WebhookStatus::Failing,
            (true, None) => WebhookStatus::Active,
        };
        let now = Timestamp::now();
        let definition = webhook.definition;
        WebhookView {
            id: webhook.id,
            name: definition.name,
            url: definition.url,
            events: definition.events,
            dataset_id: definition.dataset_id,
            decision: definition.decision,
            enabled: webhook.enabled,
            status,
            last_success_at: webhook.last_success_at,
            failing_since: webhook.failing_since,
            dropped_events: webhook.dropped,
            old_secret_until: webhook.old_secret_until.filter(|until| now < *until),
            created_at: webhook.created_at,
            created_by: webhook.created_by,
            changed_at: webhook.changed_at,
            changed_by: webhook.changed_by,
        }
    }
}

/// A webhook with its secret, which is shown this once.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = WebhookWithSecret)]
pub struct SecretView {
    #[serde(flatten)]
    about: WebhookView,
    /// What signs deliveries. Keep it: it is not shown again.
    secret: String,
}

impl SecretView {
    /// Shows a secret.
    pub fn new(webhook: Webhook, secret: &WebhookSecret) -> Self {
        SecretView { about: webhook.into(), secret: secret.reveal().to_owned() }
    }
}

/// One event for one webhook.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Delivery)]
pub struct DeliveryView {
    #[schema(value_type = String, format = "uuid")]
    id: DeliveryId,
    /// The id of the event, `webhook-id` in the request: the same for every attempt.
    event_id: String,
    #[serde(rename = "type")]
    kind: EventKind,
    subject: String,
    /// The details of the event, without links.
    #[schema(value_type = Object)]
    data: Value,
    #[schema(value_type = String, format = "date-time")]
    created_at: Timestamp,
    status: DeliveryStatus,
    /// How many attempts there were, since the event or since it was last asked to be delivered again.
    attempts: u32,
    #[schema(value_type = Option<String>, format = "date-time", required)]
    next_attempt_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = "date-time", required)]
    last_attempt_at: Option<Timestamp>,
    /// The HTTP status of the response to the last attempt; `null` if there was none.
    #[schema(required)]
    last_status: Option<u16>,
    /// Why the last attempt failed.
    #[schema(required)]
    last_error: Option<String>,
    #[schema(value_type = Option<String>, format = "date-time", required)]
    ended_at: Option<Timestamp>,
}

impl From<Delivery> for DeliveryView {
    fn from(delivery: Delivery) -> Self {
        DeliveryView {
            id: delivery.id,
            event_id: delivery.event_id,
            kind: delivery.kind,
            subject: delivery.subject,
            data: delivery.data,
            created_at: delivery.created_at,
            status: delivery.status,
            attempts: delivery.attempts,
            next_attempt_at: delivery.next_at,
            last_attempt_at: delivery.last_at,
            last_status: delivery.last_status,
            last_error: delivery.last_error,
            ended_at: delivery.ended_at,
        }
    }
}
