//! HTTP: the router, one file per resource, and what they share. It uses the store and the queue, and
//! contains no SQL and no mathematics.
//!
//! `connections.rs` accepts connections, within limits on their number (`seats.rs`) and idle time, and
//! handles TLS. Polls of jobs are answered by `polls.rs` if nothing has to be waited for. Every other request
//! passes the layers that `envelope.rs` lists in order, which are in `layers/`, and reaches its handler:
//!
//! 1. `compression` (with tower-http): gzip of large JSON
//! 2. `observe`: the request id (`request_id`), the span, the log line, the metrics, the body of every error
//!    (`problems`), and the headers of every response
//! 3. `linger`: 408 if a body stops arriving; reads the rest of a rejected one
//! 4. `time_limit`: 408 if there is no response in time
//! 5. `panics`: a 500 that reveals nothing
//! 6. `reserve`: 503 for everything but health checks if every connection has a request in progress
//! 7. `admit`: whether the request may reach its handler, by `origin`, API key, `share` and `uploads`

mod auth;
mod certificates;
pub mod codes;
mod connections;
mod contexts;
mod datasets;
mod decisions;
mod envelope;
mod etag;
mod extract;
mod gates;
mod health;
mod idempotency;
mod imports;
mod jobs;
mod layers;
mod metrics;
mod openapi;
mod page;
mod partials;
mod plans;
mod policies;
mod policy_cache;
mod polls;
mod problem;
mod seats;
mod server;
mod silence;
mod tally;
mod tls;
mod turns;
mod ui;
mod webhooks;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::metrics::counter;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{Semaphore, watch};

use crate::config::Config;
use crate::notify::Notifier;
use crate::queue::{JobMemory, Queue};
use crate::store::{KeyId, Store, Workspace};
use codes::Code;
use problem::Problem;
use tally::Tally;

pub use openapi::document;
pub use server::{Server, ServerError};

/// Whether logs are uploaded to `route`.
fn takes_uploads(route: &str) -> bool {
    matches!(route, "/v1/datasets" | "/v1/datasets/{id}/rows" | "/v1/datasets/{id}/candidates")
}

/// When a client whose workspace computes too much should try again.
const COMPUTE_RETRY_AFTER: Duration = Duration::from_secs(1);

/// What handlers share. It is cloned several times per request, so it is one pointer.
#[derive(Clone)]
pub struct App(Arc<Shared>);

/// The contents of [`App`].
pub struct Shared {
    config: Config,
    /// The most memory that a job may take.
    job_memory: JobMemory,
    store: Store,
    queue: Queue,
    /// Delivers events to webhooks.
    notifier: Notifier,
    auth: auth::Auth,
    metrics: PrometheusHandle,
    answers: jobs::Answers,
    /// The newest events of the jobs that are followed.
    tails: jobs::Tails,
    /// The parameters of policies that decide.
    policies: policy_cache::PolicyCache,
    /// The requests in progress, by workspace.
    requests: Arc<Tally<Workspace>>,
    /// The event streams, by key; `None` is the caller of a server without keys.
    streams: Arc<Tally<Option<KeyId>>>,
    /// The uploads, by workspace and by key.
    uploads: Arc<Tally<Workspace>>,
    uploads_of_keys: Arc<Tally<Option<KeyId>>>,
    /// Turns of requests that add to a dataset.
    turns: turns::Turns,
    /// Permits for what is computed while a request waits.
    computations: Arc<Semaphore>,
    /// The computations that run or wait for a permit, by workspace.
    computing: Arc<Tally<Workspace>>,
    /// The certificates that are being recomputed, by workspace.
    verifications: Arc<Tally<Workspace>>,
    draining: watch::Receiver<bool>,
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Returns when the server begins to shut down.
    async fn drained(&self) {
        let mut draining = self.draining.clone();
        // An error means that the sender is gone, so the server has shut down.
        let _ = draining.wait_for(|draining| *draining).await;
    }

    /// How long a creating request may take before a repeated one takes over its work.
    fn json_patience(&self) -> Duration {
        Duration::from_secs(self.config.request_seconds)
    }

    /// Runs a computation on a separate thread once a permit is free, so that it cannot delay other
    /// requests. A client that disconnects loses its turn, but does not stop work in progress.
    ///
    /// Permits are given in the order of the requests, so a workspace may have few that wait: those of other
    /// workspaces wait behind them.
    async fn compute<T: Send + 'static>(
        &self,
        workspace: &Workspace,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let turn = self.computing.take(workspace).map_err(|own| {
            let detail = format!(
                "This workspace has {own} requests that are being computed or wait for it, which is the maximum; \
                 try again when one of them has ended."
            );
            Problem::new(Code::TooManyRequests, detail).retry_after(COMPUTE_RETRY_AFTER)
        })?;
        let permit = self.computations.clone().acquire_owned().await.map_err(Problem::internal)?;
        compute_with((turn, permit), |_| work()).await
    }

    /// Counts jobs as they end, for as long as the queue runs.
    fn count_ended_jobs(&self) {
        let mut ended = self.queue.ended();
        tokio::spawn(async move {
            use tokio::sync::broadcast::error::RecvError;
            loop {
                match ended.recv().await {
                    Ok(job) => metrics::job_ended(&job),
                    Err(RecvError::Lagged(missed)) => {
                        counter!("guarantor_jobs_uncounted_total").increment(missed);
                    }
                    Err(RecvError::Closed) => return,
                }
            }
        });
    }
}

/// Runs `work` on a thread that may block. The permit is held until the work ends, even if nobody waits
/// for it anymore; the flag then tells it to stop.
async fn compute_with<T: Send + 'static>(
    permit: impl Send + 'static,
    work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
) -> Result<T, Problem> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let _waiting = Waiting(cancelled.clone());
    let work = move || {
        let _permit = permit;
        work(&cancelled)
    };
    tokio::task::spawn_blocking(work).await.map_err(Problem::internal)
}

/// Raises the flag when the request is dropped.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::sync::mpsc::sync_channel;

    #[tokio::test]
    async fn abandoned_work_is_canceled_and_keeps_its_permit_until_it_ends() {
        let permits = Arc::new(Semaphore::new(1));
        let (started, has_started) = sync_channel(0);
        let (dropped, was_dropped) = sync_channel(0);
        let (seen, cancelled) = sync_channel(1);
        let work = move |cancel: &AtomicBool| {
            started.send(()).unwrap();
            was_dropped.recv().unwrap();
            seen.send(cancel.load(Ordering::Relaxed)).unwrap();
        };
        let mut answer = Box::pin(compute_with(permits.clone().try_acquire_owned().unwrap(), work));
        assert!(answer.as_mut().now_or_never().is_none());
        has_started.recv().unwrap();
        drop(answer);
        assert_eq!(permits.available_permits(), 0);
        dropped.send(()).unwrap();
        assert!(cancelled.recv().unwrap());
        permits.acquire().await.unwrap().forget();
    }
}
