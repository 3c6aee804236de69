//! `Idempotency-Key` for every POST that creates something: a repeated request with the same key gets
//! the first response again, for 24 hours, even after a restart.
//!
//! The work runs in its own task. If the client disconnects or the time limit passes, only the wait for
//! the response ends; the key never stays half-used.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tracing::Instrument;
use uuid::Uuid;

use super::App;
use super::codes::Code;
use super::extract::header_text;
use super::layers::panics;
use super::problem::Problem;
use crate::store::{Begun, IdempotentRequest, StoreError, StoredAnswer, Workspace};

const KEY: &str = "idempotency-key";
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Stored with the response of an upload and never sent: the digest of the body, which is known only
/// after the body has been read.
const BODY_DIGEST: &str = "guarantor-body-digest";
/// How often a failed write of a key's outcome is repeated.
const SETTLE_AGAIN: Duration = Duration::from_secs(1);

/// A creating request as idempotency sees it.
pub struct Creation {
    pub workspace: Workspace,
    key: Option<String>,
    fingerprint: String,
    patience: Duration,
}

/// A response that may be replayed.
pub struct Created {
    answer: StoredAnswer,
}

impl Created {
    /// A JSON response.
    pub fn json<T: Serialize>(
        status: StatusCode,
        headers: &[(HeaderName, String)],
        body: &T,
    ) -> Result<Created, Problem> {
        let body = serde_json::to_vec(body).map_err(Problem::internal)?;
        let mut all = vec![("content-type".to_owned(), "application/json".to_owned())];
        all.extend(headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.clone())));
        Ok(Created { answer: StoredAnswer { status: status.as_u16(), headers: all, body } })
    }

    /// Adds the digest of a body that the fingerprint does not cover.
    pub fn with_body_digest(mut self, digest: Option<String>) -> Created {
        self.answer.headers.extend(digest.map(|digest| (BODY_DIGEST.into(), digest)));
        self
    }
}

/// What to do about a creating request.
pub enum Start {
    /// Do the work, and give the resource this id.
    Work(Uuid),
    /// Send the stored response of the first request.
    Replay(StoredAnswer),
}

impl Creation {
    /// Two requests are the same if their `parts` are: path, query, body.
    ///
    /// # Errors
    /// If the key is not valid.
    pub fn new(
        workspace: &Workspace,
        headers: &HeaderMap,
        parts: &[&[u8]],
        patience: Duration,
    ) -> Result<Creation, Problem> {
        let key = header_text(headers, KEY)?.map(str::to_owned);
        if let Some(key) = &key
            && !((1..=255).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic()))
        {
            let message = "must have 1 to 255 visible ASCII characters and no spaces";
            return Err(Problem::field(Code::InvalidHeader, KEY, message));
        }
        Ok(Creation { workspace: workspace.clone(), key, fingerprint: fingerprint(parts), patience })
    }

    /// Whether the request has a key.
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Claims the key, if there is one.
    ///
    /// # Errors
    /// If the key belongs to another request, or the first request is still in progress.
    pub async fn start(&self, app: &App) -> Result<Start, Problem> {
        let fresh = Uuid::now_v7();
        let Some(key) = &self.key else { return Ok(Start::Work(fresh)) };
        let request = IdempotentRequest {
            workspace: self.workspace.clone(),
            key: key.clone(),
            fingerprint: self.fingerprint.clone(),
            resource_id: fresh,
            patience: self.hold(app),
        };
        match app.store.repository().begin_request(&request).await? {
            Begun::Proceed { resource_id } => Ok(Start::Work(resource_id)),
            Begun::Replay(answer) => Ok(Start::Replay(answer)),
            Begun::Mismatch => Err(mismatch()),
            Begun::InProgress => {
                let detail = "The first request with this Idempotency-Key is still in progress; try again.";
                Err(Problem::new(Code::IdempotencyInProgress, detail).retry_after(Duration::from_secs(1)))
            }
        }
    }

    /// How long the key is held without a sign of life. If several servers share a database, another one must be able to
    /// continue soon after this one dies, so the key is held briefly and the hold is renewed.
    fn hold(&self, app: &App) -> Duration {
        match app.store.repository().is_shared() {
            true => app.config.lease().min(self.patience),
            false => self.patience,
        }
    }

    /// Does the work, and meanwhile renews the hold on the key.
    async fn holding<T>(&self, app: &App, work: impl Future<Output = T>) -> T {
        let (Some(key), true) = (&self.key, app.store.repository().is_shared()) else { return work.await };
        let hold = self.hold(app);
        let renewing = async {
            loop {
                tokio::time::sleep(hold / 3).await;
                if let Err(error) = app.store.repository().renew_request(&self.workspace, key, hold).await {
                    tracing::warn!(%error, "cannot renew the hold on an idempotency key");
                }
            }
        };
        tokio::select! {
            done = work => done,
            () = renewing => unreachable!("it never ends"),
        }
    }

    /// Does the work and stores its response under the key. A failure frees the key: nothing was
    /// created, and the same request may succeed later. The exception is a body that differs from the
    /// first one: the key then stays with the first request, and can be used again once the time for
    /// this request has passed.
    pub async fn finish<W>(self, app: &App, work: W) -> Result<Response, Problem>
    where
        W: Future<Output = Result<Created, Problem>> + Send + 'static,
    {
        let app = app.clone();
        // It is passed on several times, and its size must not count against the thread's stack each time.
        let work = Box::pin(work);
        let task = async move {
            let done = match self.holding(&app, AssertUnwindSafe(work).catch_unwind()).await {
                Ok(done) => done,
                Err(panic) => Err(Problem::internal(panics::message(&*panic))),
            };
            let ours = !matches!(&done, Err(problem) if problem.code == Code::IdempotencyMismatch);
            if let Some(key) = self.key.filter(|_| ours) {
                let outcome = match &done {
                    Ok(created) => Outcome::Answered(created.answer.clone()),
                    Err(problem)
                        if app.store.repository().is_shared() && problem.code.status().is_server_error() =>
                    {
                        Outcome::Unknown
                    }
                    Err(_) => Outcome::Nothing,
                };
                settle(app, Settlement { workspace: self.workspace, key, outcome }, self.patience).await;
            }
            done
        };
        match tokio::spawn(task.in_current_span()).await {
            Ok(done) => Ok(answer(done?.answer, false)),
            Err(error) => Err(Problem::internal(error)),
        }
    }
}

/// What a request has created.
enum Outcome {
    /// The resource, with this response.
    Answered(StoredAnswer),
    /// Nothing.
    Nothing,
    /// Nobody knows: the connection to the database was lost, perhaps after it had committed. A repeated request
    /// continues with the same id, and finds what there is.
    Unknown,
}

/// What happens to a key when its work has ended: the response is stored, or the key is freed.
struct Settlement {
    workspace: Workspace,
    key: String,
    outcome: Outcome,
}

impl Settlement {
    async fn write(&self, app: &App) -> Result<(), StoreError> {
        let repository = app.store.repository();
        match &self.outcome {
            Outcome::Answered(answer) => {
                repository.complete_request(&self.workspace, &self.key, answer).await
            }
            Outcome::Nothing => repository.abandon_request(&self.workspace, &self.key).await,
            Outcome::Unknown => repository.release_request(&self.workspace, &self.key).await,
        }
    }
}

/// Writes the outcome of a key. The work is over either way, so if the store cannot write, it is tried
/// again in the background while the response is sent. Until then a repeated request is told to wait.
async fn settle(app: App, settlement: Settlement, patience: Duration) {
    let Err(error) = settlement.write(&app).await else { return };
    tracing::warn!(%error, "cannot write the outcome of an idempotency key; trying again");
    tokio::spawn(async move {
        let deadline = tokio::time::Instant::now() + patience;
        while tokio::time::Instant::now() < deadline {
            tokio::time::sleep(SETTLE_AGAIN).await;
            if settlement.write(&app).await.is_ok() {
                return;
            }
        }
    });
}

/// The stored response, if `digest` is the digest of the body that it answered.
pub fn replay(stored: StoredAnswer, digest: Option<&str>) -> Result<Response, Problem> {
    let kept = stored.headers.iter().find(|(name, _)| name == BODY_DIGEST).map(|(_, value)| value.as_str());
    if kept == digest { Ok(answer(stored, true)) } else { Err(mismatch()) }
}

fn answer(stored: StoredAnswer, replayed: bool) -> Response {
    let status = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::OK);
    let mut response = (status, stored.body).into_response();
    for (name, value) in stored.headers.into_iter().filter(|(name, _)| name != BODY_DIGEST) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// The key was used with another request.
pub fn mismatch() -> Problem {
    let detail = "This Idempotency-Key was used for another request in the last 24 hours; use a new key.";
    Problem::new(Code::IdempotencyMismatch, detail)
}

/// Each part is preceded by its length, so that different lists of parts have different hashes.
fn fingerprint(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex::encode(hash.finalize())
}
