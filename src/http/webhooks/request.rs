//! The body with which a webhook is created or changed.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::http::App;
use crate::http::codes::Code;
use crate::http::datasets::find_dataset;
use crate::http::problem::Problem;
use crate::store::{EventKind, WebhookDefinition, WebhookSecret, Workspace, new_webhook_secret};
use guarantor_engine::certificate::Decision;

/// The most bytes of the name of a webhook.
const LONGEST_NAME: usize = 200;

/// A webhook to be created or changed.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WebhookRequest)]
pub struct WebhookRequest {
    /// What the webhook is for.
    #[schema(max_length = 200)]
    name: Option<String>,
    /// Where events are sent. It must be below an address that the operator of the server allows.
    #[schema(max_length = 2048)]
    pub url: String,
    /// Which events are sent: any of `job.succeeded`, `job.failed` and `job.cancelled`. All of them by default.
    #[schema(min_items = 1)]
    events: Option<BTreeSet<EventKind>>,
    /// Only jobs on this dataset.
    #[schema(value_type = Option<String>, format = "uuid")]
    dataset_id: Option<String>,
    /// Of the jobs that succeed, only those with this decision. Jobs that fail or are canceled have none and are not
    /// affected.
    decision: Option<Decision>,
    /// Whether events are sent. A disabled webhook is not told what happens meanwhile.
    #[schema(default = true)]
    enabled: Option<bool>,
    /// What signs, to create a webhook with a secret of your own: `whsec_` and the base64 of 24 to 64 random bytes.
    #[schema(max_length = 100)]
    secret: Option<String>,
}

fn invalid(field: &str, message: impl Into<String>) -> Problem {
    Problem::field(Code::InvalidValue, field, message)
}

/// The secret that a client sent, or a new one.
///
/// # Errors
/// If what was sent is not a secret.
pub fn sent_or_new(secret: Option<&str>) -> Result<WebhookSecret, Problem> {
    match secret {
        Some(text) => text.parse().map_err(|error| invalid("secret", format!("{error}"))),
        None => Ok(new_webhook_secret()?),
    }
}

impl WebhookRequest {
    /// Whether events are sent.
    pub fn enabled(&self) -> bool {
        self.enabled.unwrap_or(true)
    }

    /// The secret of a new webhook.
    ///
    /// # Errors
    /// If what was sent is not a secret.
    pub fn new_secret(&self) -> Result<WebhookSecret, Problem> {
        sent_or_new(self.secret.as_deref())
    }

    /// Checks that the body does not try to change the secret.
    ///
    /// # Errors
    /// If it does.
    pub fn check_no_secret(&self) -> Result<(), Problem> {
        match self.secret {
            Some(_) => Err(invalid("secret", "cannot be changed here; use POST /v1/webhooks/{id}/secret")),
            None => Ok(()),
        }
    }

    /// The definition with every default filled in. The address is not checked here.
    ///
    /// # Errors
    /// If a value is out of its range, or the dataset does not exist.
    pub async fn resolve(self, app: &App, workspace: &Workspace) -> Result<WebhookDefinition, Problem> {
        let name = self.name.unwrap_or_default();
        if name.len() > LONGEST_NAME {
            return Err(invalid("name", format!("has {} bytes; the maximum is {LONGEST_NAME}", name.len())));
        }
        let events = self.events.unwrap_or_else(|| EventKind::OF_JOBS.into());
        if events.is_empty() {
            return Err(invalid("events", "is empty; name at least one event, or disable the webhook"));
        }
        if events.contains(&EventKind::Ping) {
            return Err(invalid("events", "has `ping`, which is sent by POST /v1/webhooks/{id}/test only"));
        }
        let dataset_id = match self.dataset_id {
            Some(id) => Some(find_dataset(app, workspace, &id).await?.id),
            None => None,
        };
        Ok(WebhookDefinition { name, url: self.url, events, dataset_id, decision: self.decision })
    }
}
