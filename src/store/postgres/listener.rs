//! Hears what other processes announce: every transaction that changes a job notifies one channel when it commits.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sqlx::postgres::PgListener;
use tokio::sync::broadcast;
use tokio::task::AbortHandle;

use super::Pool;
use crate::store::ids::JobId;
use crate::store::recent::RecentJobs;
use crate::store::records::JobChange;

/// The channel.
pub const CHANNEL: &str = "guarantor_jobs";
/// How many changes a slow receiver may be behind before it misses some.
const BEHIND: usize = 4096;
/// How long to wait before the next attempt to listen.
const PAUSE: Duration = Duration::from_millis(500);

/// The task that listens. It starts with the first subscription.
pub struct Listener {
    pool: Pool,
    recent: Arc<RecentJobs>,
    running: OnceLock<(broadcast::Sender<JobChange>, AbortHandle)>,
}

impl Listener {
    /// Will listen on the one connection of `pool`, and keep changed jobs out of the cache.
    pub fn new(pool: Pool, recent: Arc<RecentJobs>) -> Self {
        Listener { pool, recent, running: OnceLock::new() }
    }

    /// The changes from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<JobChange> {
        let (changes, _) = self.running.get_or_init(|| {
            let changes = broadcast::channel(BEHIND).0;
            let task = tokio::spawn(listen(self.pool.clone(), self.recent.clone(), changes.clone()));
            (changes, task.abort_handle())
        });
        changes.subscribe()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((_, task)) = self.running.get() {
            task.abort();
        }
    }
}

async fn listen(pool: Pool, recent: Arc<RecentJobs>, changes: broadcast::Sender<JobChange>) {
    loop {
        if let Err(error) = listen_once(&pool, &recent, &changes).await {
            tracing::warn!(%error, "changes of jobs by other servers are not heard; looking for them instead");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Listens until the connection is lost.
async fn listen_once(
    pool: &Pool,
    recent: &RecentJobs,
    changes: &broadcast::Sender<JobChange>,
) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    // It is fine if nobody receives, here and below.
    let _ = changes.send(JobChange::Missed);
    while let Some(notification) = listener.try_recv().await? {
        let Some(change) = parse(notification.payload()) else {
            tracing::debug!(payload = notification.payload(), "an announcement of another release");
            continue;
        };
        if let Some(id) = change.job() {
            recent.forget(id);
        }
        let _ = changes.send(change);
    }
    let _ = changes.send(JobChange::Missed);
    Ok(())
}

/// The announcement of a change: what happened, and the job.
pub fn announce(how: &str, id: JobId) -> String {
    format!("{how} {id}")
}

fn parse(payload: &str) -> Option<JobChange> {
    let (how, id) = payload.split_once(' ')?;
    let id = id.parse().ok()?;
    Some(match how {
        "queued" | "requeued" => JobChange::Queued(id),
        "cancel_requested" => JobChange::CancelRequested(id),
        "succeeded" | "failed" | "cancelled" => JobChange::Ended(id),
        _ => JobChange::Other(id),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_are_understood() {
        let id = JobId::new();
        for (how, change) in [
            ("queued", JobChange::Queued(id)),
            ("requeued", JobChange::Queued(id)),
            ("cancel_requested", JobChange::CancelRequested(id)),
            ("succeeded", JobChange::Ended(id)),
            ("progress", JobChange::Other(id)),
            ("whatever a later release announces", JobChange::Other(id)),
        ] {
            let how = how.split(' ').next().unwrap();
            assert_eq!(parse(&announce(how, id)), Some(change));
        }
        assert_eq!(parse("queued"), None);
        assert_eq!(parse("queued nonsense"), None);
    }
}
