//! HTTP: the router, a file per resource, and what all of them share. Knows the store and the
//! queue; knows no SQL and no maths.
//!
//! A connection is taken by `connections.rs` (how many, how long they may be silent, TLS). A request
//! on it passes `request::envelope` (id, caller, time limit, log line, problem bodies), then its
//! handler.

mod auth;
mod certificates;
pub mod codes;
mod connections;
mod datasets;
mod decisions;
mod etag;
mod extract;
mod health;
mod idempotency;
mod jobs;
mod linger;
mod metrics;
mod openapi;
mod page;
mod policies;
mod problem;
mod request;
mod server;
mod tls;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::metrics::counter;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::config::Config;
use crate::queue::Queue;
use crate::store::Store;
use problem::Problem;

pub use openapi::document;
pub use server::{Server, ServerError};

/// Whether logs are sent to `route`.
fn takes_uploads(route: &str) -> bool {
    matches!(route, "/v1/datasets" | "/v1/datasets/{id}/rows")
}

/// What handlers share. Cloned several times a request, so it is one pointer.
#[derive(Clone)]
pub struct App(Arc<Shared>);

pub struct Shared {
    config: Config,
    store: Store,
    queue: Queue,
    auth: auth::Auth,
    metrics: PrometheusHandle,
    answers: jobs::Answers,
    /// Permits of uploads.
    uploads: Arc<Semaphore>,
    /// Permits of what is computed for one request.
    computations: Arc<Semaphore>,
    /// Permits of certificates that are computed again.
    verifications: Arc<Semaphore>,
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
        // A sender that is gone has shut down too.
        let _ = draining.wait_for(|draining| *draining).await;
    }

    fn time_limit(&self, route: &str) -> Duration {
        Duration::from_secs(match takes_uploads(route) {
            true => self.config.upload_seconds,
            false => self.config.request_seconds,
        })
    }

    /// How long a creating request may be answered before a repeated one takes its work over.
    fn json_patience(&self) -> Duration {
        Duration::from_secs(self.config.request_seconds)
    }

    /// Runs arithmetic where it cannot hold up other requests, once it is its turn: a client that
    /// hangs up leaves the line, but not the processor.
    async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let permit = self.computations.clone().acquire_owned().await.map_err(Problem::internal)?;
        compute_with(permit, |_| work()).await
    }

    /// Counts jobs as they end, for as long as there is a queue.
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

/// Runs `work` on a thread that may block. The permit is held until it has ended, whoever still waits
/// for it; where nobody does, it is told so by the flag.
async fn compute_with<T: Send + 'static>(
    permit: OwnedSemaphorePermit,
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

/// Somebody who waits for an answer; dropped with their request.
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
    async fn work_that_nobody_waits_for_is_told_so_and_keeps_its_permit_until_it_ends() {
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
