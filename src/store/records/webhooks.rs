//! Webhooks, and which events they are told about.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::JobStatus;
use crate::store::ids::{DatasetId, Timestamp, WebhookId, Workspace, stored_as_text};
use guarantor_engine::certificate::Decision;

/// What a webhook can be told.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
pub enum EventKind {
    /// A job ended with a certificate.
    #[serde(rename = "job.succeeded")]
    JobSucceeded,
    /// A job ended with an error.
    #[serde(rename = "job.failed")]
    JobFailed,
    /// A job was canceled.
    #[serde(rename = "job.cancelled")]
    JobCancelled,
    /// A test of the webhook. It is sent on request only.
    #[serde(rename = "ping")]
    Ping,
}

impl EventKind {
    /// Every kind.
    pub const ALL: [EventKind; 4] =
        [EventKind::JobSucceeded, EventKind::JobFailed, EventKind::JobCancelled, EventKind::Ping];
    /// The kinds that happen by themselves.
    pub const OF_JOBS: [EventKind; 3] =
        [EventKind::JobSucceeded, EventKind::JobFailed, EventKind::JobCancelled];

    /// The name in JSON and in the database.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::JobSucceeded => "job.succeeded",
            EventKind::JobFailed => "job.failed",
            EventKind::JobCancelled => "job.cancelled",
            EventKind::Ping => "ping",
        }
    }

    /// The event of a job that has ended in this way; `None` if it has not ended.
    pub fn of_end(status: JobStatus) -> Option<Self> {
        match status {
            JobStatus::Succeeded => Some(EventKind::JobSucceeded),
            JobStatus::Failed => Some(EventKind::JobFailed),
            JobStatus::Cancelled => Some(EventKind::JobCancelled),
            JobStatus::Queued | JobStatus::Running => None,
        }
    }
}

impl FromStr for EventKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = EventKind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("{name:?} is not a kind of event"))
    }
}

stored_as_text!(EventKind);

/// What signs deliveries: `whsec_` and base64, as Standard Webhooks writes it. It is never shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(String);

/// A text that is not a secret. It does not repeat the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "is not a secret: use `whsec_` and the base64 of 24 to 64 random bytes, or leave it out to get a new one"
)]
pub struct BadSecret;

impl WebhookSecret {
    const PREFIX: &'static str = "whsec_";

    /// The secret of these bytes.
    pub fn of(key: &[u8]) -> Self {
        WebhookSecret(format!("{}{}", Self::PREFIX, STANDARD.encode(key)))
    }

    /// The text, for the response that shows it once and for the database.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The bytes that sign.
    pub fn key(&self) -> Vec<u8> {
        decode(&self.0).unwrap_or_default()
    }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text.strip_prefix(WebhookSecret::PREFIX)?).ok()
}

impl FromStr for WebhookSecret {
    type Err = BadSecret;

    fn from_str(text: &str) -> Result<Self, BadSecret> {
        // The longest text that can be one, before anything is decoded.
        let short = text.len() <= 100;
        match decode(text).filter(|key| short && (24..=64).contains(&key.len())) {
            Some(_) => Ok(WebhookSecret(text.into())),
            None => Err(BadSecret),
        }
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("WebhookSecret")
    }
}

stored_as_text!(WebhookSecret);

/// Where a webhook is, and what it is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WebhookDefinition {
    /// A name for people.
    pub name: String,
    /// The address, in the one spelling that the allow-list knows.
    pub url: String,
    /// The kinds of events.
    pub events: BTreeSet<EventKind>,
    /// Only jobs on this dataset.
    pub dataset_id: Option<DatasetId>,
    /// Of the jobs that succeed, only those with this decision.
    pub decision: Option<Decision>,
}

impl WebhookDefinition {
    /// Whether the webhook is told about a job that has ended.
    pub fn wants(&self, kind: EventKind, dataset: DatasetId, decision: Option<Decision>) -> bool {
        let decided = self.decision.is_none() || kind != EventKind::JobSucceeded || self.decision == decision;
        self.events.contains(&kind) && self.dataset_id.is_none_or(|own| own == dataset) && decided
    }
}

/// A webhook to be stored.
#[derive(Debug, Clone)]
pub struct NewWebhook {
    /// Its id.
    pub id: WebhookId,
    /// Its workspace.
    pub workspace: Workspace,
    /// What it is.
    pub definition: WebhookDefinition,
    /// Whether events are delivered.
    pub enabled: bool,
    /// What signs its deliveries.
    pub secret: WebhookSecret,
    /// Who creates it.
    pub by: String,
}

/// A webhook.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Its workspace.
    pub workspace: Workspace,
    /// What it is.
    #[sqlx(json)]
    pub definition: WebhookDefinition,
    /// Whether events are delivered.
    pub enabled: bool,
    /// What signs its deliveries.
    pub secret: WebhookSecret,
    /// The secret before, which signs too until `old_secret_until`.
    pub old_secret: Option<WebhookSecret>,
    /// Until when the secret before signs.
    pub old_secret_until: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
    /// Who created it.
    pub created_by: String,
    /// When it was changed last, or created.
    pub changed_at: Timestamp,
    /// Who changed it last, or created it.
    pub changed_by: String,
    /// When a delivery succeeded last.
    pub last_success_at: Option<Timestamp>,
    /// Since when every attempt has failed; `None` if the last one did not.
    pub failing_since: Option<Timestamp>,
    /// How many events were not stored, because too many deliveries waited.
    #[sqlx(try_from = "i64")]
    pub dropped: u64,
    /// Grows with every change of the definition or the secret.
    #[sqlx(try_from = "i64")]
    pub revision: u64,
}

impl Webhook {
    /// The secrets that sign at this time, the newest first.
    pub fn secrets(&self, now: Timestamp) -> impl Iterator<Item = &WebhookSecret> {
        let old = self.old_secret.as_ref().filter(|_| self.old_secret_until.is_some_and(|until| now < until));
        [&self.secret].into_iter().chain(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for kind in EventKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert!("job.deployed".parse::<EventKind>().is_err());
    }

    #[test]
    fn secrets_have_a_length_and_are_not_shown() {
        for bytes in [24, 32, 64] {
            let secret = WebhookSecret::of(&vec![7; bytes]);
            assert_eq!(secret.reveal().parse(), Ok(secret.clone()));
            assert_eq!(secret.key(), vec![7; bytes]);
            assert_eq!(format!("{secret:?}"), "WebhookSecret");
        }
        let (short, long) = (WebhookSecret::of(&[7; 23]), WebhookSecret::of(&[7; 65]));
        let huge = WebhookSecret::of(&vec![7; 1 << 20]);
        for bad in ["", "whsec_", "secret", "whsec_!!!!", short.reveal(), long.reveal(), huge.reveal()] {
            assert_eq!(bad.parse::<WebhookSecret>(), Err(BadSecret), "{}", bad.len());
        }
    }

    #[test]
    fn filters_narrow_what_a_webhook_is_told() {
        let (own, other) = (DatasetId::new(), DatasetId::new());
        let all = WebhookDefinition {
            name: String::new(),
            url: "https://a.example/".into(),
            events: EventKind::OF_JOBS.into(),
            dataset_id: None,
            decision: None,
        };
        let deploy = Some(Decision::Deploy);
        for kind in EventKind::OF_JOBS {
            assert!(all.wants(kind, own, deploy) && !all.wants(EventKind::Ping, own, deploy));
        }
        let one = WebhookDefinition { dataset_id: Some(own), ..all.clone() };
        assert!(one.wants(EventKind::JobFailed, own, None) && !one.wants(EventKind::JobFailed, other, None));
        let decided = WebhookDefinition { decision: deploy, ..all };
        assert!(decided.wants(EventKind::JobSucceeded, own, deploy));
        assert!(!decided.wants(EventKind::JobSucceeded, own, Some(Decision::Keep)));
        assert!(!decided.wants(EventKind::JobSucceeded, own, None));
        // A job without a decision is not one with the wrong decision.
        assert!(decided.wants(EventKind::JobFailed, own, None));
    }
}
