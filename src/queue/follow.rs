//! Follows what other processes do with jobs, if the database announces it.

use std::sync::Weak;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::{Queue, Shared};
use crate::store::JobChange;

impl Queue {
    /// From now on, jobs that other processes queue wake the workers of this one, cancellations that they accept stop
    /// jobs here, and whoever waits for a job here hears what others do with it. It ends with the queue.
    pub fn follow(&self) {
        if let Some(changes) = self.store().repository().changes() {
            tokio::spawn(follow(std::sync::Arc::downgrade(&self.shared), changes));
        }
    }
}

async fn follow(queue: Weak<Shared>, mut changes: Receiver<JobChange>) {
    loop {
        let change = match changes.recv().await {
            Ok(change) => change,
            Err(RecvError::Lagged(_)) => JobChange::Missed,
            Err(RecvError::Closed) => return,
        };
        let Some(queue) = queue.upgrade() else { return };
        match change {
            JobChange::Queued(_) => queue.work.notify_one(),
            JobChange::CancelRequested(id) => queue.raise_flag(id),
            JobChange::Missed => {
                queue.work.notify_waiters();
                queue.signals.notify_all();
            }
            JobChange::Ended(_) | JobChange::Other(_) => {}
        }
        if let Some(id) = change.job() {
            queue.signals.notify(id);
        }
    }
}
