//! Wakes the tasks that wait for a job in this process. Changes by other processes are announced by the database, if it
//! does that, and are found by polling in any case.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::store::JobId;

/// The subscriptions of this process.
#[derive(Default)]
pub struct Signals {
    waiting: Mutex<HashMap<JobId, watch::Sender<()>>>,
}

/// A subscription to the changes of one job.
pub struct Subscription {
    receiver: watch::Receiver<()>,
    poll: Duration,
}

impl Subscription {
    /// Returns after a change since the last call, or after the poll interval, because another process may have
    /// changed the job. Read the job in both cases.
    pub async fn changed(&mut self) {
        if let Ok(Err(_)) = tokio::time::timeout(self.poll, self.receiver.changed()).await {
            // The queue is gone, so only polling is left.
            tokio::time::sleep(self.poll).await;
        }
    }
}

impl Signals {
    /// Subscribes to a job; `poll` is the longest time between two reads of it.
    pub fn subscribe(&self, id: JobId, poll: Duration) -> Subscription {
        let mut waiting = self.waiting.lock();
        let sender = waiting.entry(id).or_insert_with(|| watch::channel(()).0);
        Subscription { receiver: sender.subscribe(), poll }
    }

    /// Wakes all tasks that wait for the job.
    pub fn notify(&self, id: JobId) {
        let mut waiting = self.waiting.lock();
        if waiting.get(&id).is_some_and(|sender| sender.send(()).is_err()) {
            // Nothing waits for it anymore.
            waiting.remove(&id);
        }
    }

    /// Wakes all tasks, whatever they wait for.
    pub fn notify_all(&self) {
        self.waiting.lock().retain(|_, sender| sender.send(()).is_ok());
    }

    /// Removes jobs that nothing waits for anymore.
    pub fn tidy(&self) {
        self.waiting.lock().retain(|_, sender| sender.receiver_count() > 0);
    }
}
