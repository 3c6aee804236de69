//! Rounds: each starts the deliveries that are due, within limits, and writes how earlier ones ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use metrics::{counter, histogram};
use tokio::task::{Id, JoinSet};

use super::event;
use super::schedule::{next_try, retry_after};
use super::{Notifier, POLL, Shared, signature};
use crate::store::{AfterAttempt, Attempted, DeliveryId, DueDelivery, Result, StoreError, Timestamp};

/// The most attempts at a time, in total, of a workspace and of a webhook. A receiver that does not answer holds up only
/// its own deliveries, and a workspace with many of those leaves room for others.
const MOST: usize = 64;
const MOST_OF_WORKSPACE: usize = 8;
const MOST_OF_WEBHOOK: u32 = 2;

/// The shortest pause between two rounds that nothing else separates.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);

/// The database's times are rounded to milliseconds, so what has just been queued may seem to be due in a moment.
const ROUNDING: i64 = 1000;

/// For how long an attempt keeps other processes from sending the same event, in microseconds. It takes less.
const CLAIM: i64 = 60_000_000;

/// The most characters of an error that are stored. Some quote the receiver's certificate.
const LONGEST_ERROR: usize = 300;

/// The attempts in progress, and those that have ended but are not written yet.
pub struct Rounds<'a> {
    notifier: &'a Notifier,
    running: JoinSet<Attempted>,
    busy: HashMap<Id, DueDelivery>,
    unwritten: Vec<(DeliveryId, Attempted)>,
    /// Whether deliveries are this process's task.
    leads: bool,
}

impl<'a> Rounds<'a> {
    /// No attempt yet.
    pub fn new(notifier: &'a Notifier) -> Self {
        Rounds { notifier, running: JoinSet::new(), busy: HashMap::new(), unwritten: Vec::new(), leads: true }
    }

    /// Whether no attempt is in progress.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Writes the ends of attempts, and starts those that are due. As long as an end cannot be written, nothing starts:
    /// with a full disk every event would be sent again and again.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn begin(&mut self) -> Result<()> {
        self.write_ends().await?;
        let shared = &self.notifier.shared;
        self.leads = shared.store.repository().may_tidy().await?;
        if !self.leads {
            return Ok(());
        }
        let now = Timestamp(shared.clock.now().0 + ROUNDING);
        let due = shared.store.repository().due_deliveries(now, MOST_OF_WEBHOOK).await?;
        for due in due {
            if self.running.len() >= MOST {
                break;
            }
            if !self.may_start(&due) {
                continue;
            }
            // Another process may have been the one that delivers until just now.
            let until = Timestamp(now.0 + CLAIM);
            if shared.store.repository().claim_delivery(due.delivery.id, now, until).await? {
                let task = self.running.spawn(attempt(shared.clone(), due.clone()));
                self.busy.insert(task.id(), due);
            }
        }
        Ok(())
    }

    fn may_start(&self, due: &DueDelivery) -> bool {
        let of_workspace = |other: &&DueDelivery| other.webhook.workspace == due.webhook.workspace;
        let runs = self.busy.values().any(|other| other.delivery.id == due.delivery.id);
        !runs && self.busy.values().filter(of_workspace).count() < MOST_OF_WORKSPACE
    }

    /// Waits for the end of one attempt; `false` if none is in progress. It is written by the next round, so this can be
    /// dropped at any time.
    pub async fn end_one(&mut self) -> bool {
        let Some(joined) = self.running.join_next_with_id().await else { return false };
        let (id, attempted) = match joined {
            Ok((id, attempted)) => (id, Some(attempted)),
            Err(error) => {
                tracing::error!(%error, "an attempt to deliver an event panicked");
                (error.id(), None)
            }
        };
        if let Some(due) = self.busy.remove(&id) {
            let now = self.notifier.shared.clock.now();
            let internal = || ended(&due, now, Err("internal error".into()));
            self.unwritten.push((due.delivery.id, attempted.unwrap_or_else(internal)));
        }
        true
    }

    /// Writes the ends of attempts that have not been written yet.
    ///
    /// # Errors
    /// If the store fails. What could not be written is kept.
    pub async fn write_ends(&mut self) -> Result<()> {
        while let Some((id, attempted)) = self.unwritten.last() {
            match self.notifier.shared.store.repository().record_attempt(*id, attempted).await {
                // A row that is damaged stays so.
                Err(error @ StoreError::Damaged(_)) => {
                    tracing::error!(delivery_id = %id, %error, "the end of an attempt was not written");
                }
                written => written?,
            }
            self.unwritten.pop();
        }
        Ok(())
    }

    /// How long to wait for the next round, unless something happens before.
    pub async fn pause(&self) -> Duration {
        let shared = &self.notifier.shared;
        match shared.store.repository().next_delivery().await {
            Ok(Some(next)) if self.unwritten.is_empty() && self.leads => {
                let wait = Duration::from_secs_f64(next.seconds_since(shared.clock.now()));
                wait.clamp(SHORTEST_PAUSE, POLL)
            }
            _ => POLL,
        }
    }
}

/// Sends an event once.
async fn attempt(shared: Arc<Shared>, due: DueDelivery) -> Attempted {
    let (at, began) = (shared.clock.now(), Instant::now());
    let body = event::body(&due.delivery, &shared.settings.public_url);
    let sent = match headers(&due, at, &body) {
        Ok(headers) => shared.post.send(&due.webhook.definition.url, headers, body).await,
        Err(error) => Err(error),
    };
    histogram!("guarantor_webhook_attempt_seconds").record(began.elapsed().as_secs_f64());
    let answer = sent.map(|answer| {
        let asked = answer.retry_after.and_then(|text| retry_after(&text, at));
        (answer.status, asked)
    });
    let attempted = ended(&due, at, answer);
    record(&due, &attempted);
    attempted
}

fn headers(due: &DueDelivery, at: Timestamp, body: &[u8]) -> Result<HeaderMap, String> {
    let (id, seconds) = (&due.delivery.event_id, at.0.div_euclid(1_000_000));
    let signature = signature(due.webhook.secrets(at), id, seconds, body);
    let text = |value: &str| HeaderValue::try_from(value).map_err(|error| format!("a header: {error}"));
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(event::CONTENT_TYPE));
    headers.insert(USER_AGENT, text(&format!("guarantor/{}", guarantor_engine::VERSION))?);
    headers.insert(HeaderName::from_static("webhook-id"), text(id)?);
    headers.insert(HeaderName::from_static("webhook-timestamp"), text(&seconds.to_string())?);
    headers.insert(HeaderName::from_static("webhook-signature"), text(&signature)?);
    Ok(headers)
}

/// What follows from the answer: a status and the wait that the receiver asks for, or why there is none.
fn ended(due: &DueDelivery, at: Timestamp, answer: Result<(u16, Option<Duration>), String>) -> Attempted {
    let (status, asked, error) = match answer {
        Ok((status @ 200..=299, _)) => {
            return Attempted { at, status: Some(status), error: None, after: AfterAttempt::Delivered };
        }
        Ok((status @ 300..=399, asked)) => {
            (Some(status), asked, format!("the receiver answered {status}; redirects are not followed"))
        }
        Ok((status, asked)) => (Some(status), asked, format!("the receiver answered {status}")),
        Err(error) => (None, None, error.chars().take(LONGEST_ERROR).collect()),
    };
    let next = next_try(&due.delivery, at, asked);
    let after = next.map_or(AfterAttempt::Failed, AfterAttempt::Again);
    Attempted { at, status, error: Some(error), after }
}

/// Logs and counts an attempt. The address is left out, because its path may be a secret of the receiver.
fn record(due: &DueDelivery, attempted: &Attempted) {
    let (delivery, webhook) = (&due.delivery, &due.webhook);
    let (result, next) = match attempted.after {
        AfterAttempt::Delivered => ("delivered", None),
        AfterAttempt::Again(next) => ("retry", Some(next.to_string())),
        AfterAttempt::Failed => ("failed", None),
    };
    counter!("guarantor_webhook_attempts_total", "result" => result).increment(1);
    if attempted.after == AfterAttempt::Delivered {
        tracing::info!(webhook_id = %webhook.id, workspace = %webhook.workspace, delivery_id = %delivery.id,
            event_id = delivery.event_id, kind = delivery.kind.name(), status = attempted.status,
            attempt = delivery.attempts + 1, "event delivered");
    } else {
        tracing::warn!(webhook_id = %webhook.id, workspace = %webhook.workspace, delivery_id = %delivery.id,
            event_id = delivery.event_id, kind = delivery.kind.name(), status = attempted.status,
            attempt = delivery.attempts + 1, error = attempted.error, next, result, "event not delivered");
    }
}
