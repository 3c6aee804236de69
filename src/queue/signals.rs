//! Who waits for which job in this process. Changes that other processes make are found by looking
//! again now and then.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::watch;

use crate::store::JobId;

#[derive(Default)]
pub struct Signals {
    waiting: Mutex<HashMap<JobId, watch::Sender<()>>>,
}

/// Changes of one job.
pub struct Subscription {
    receiver: watch::Receiver<()>,
    poll: Duration,
}

impl Subscription {
    /// Returns after a change since the last call or, a change elsewhere being possible, after a
    /// while. Look at the job either way.
    pub async fn changed(&mut self) {
        if let Ok(Err(_)) = tokio::time::timeout(self.poll, self.receiver.changed()).await {
            // The queue itself has gone; there is only the looking again.
            tokio::time::sleep(self.poll).await;
        }
    }
}

impl Signals {
    pub fn subscribe(&self, id: JobId, poll: Duration) -> Subscription {
        let mut waiting = self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let sender = waiting.entry(id).or_insert_with(|| watch::channel(()).0);
        Subscription { receiver: sender.subscribe(), poll }
    }

    pub fn notify(&self, id: JobId) {
        let mut waiting = self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if waiting.get(&id).is_some_and(|sender| sender.send(()).is_err()) {
            // The last of them has left.
            waiting.remove(&id);
        }
    }

    /// Drops the entries that nobody waits for any more.
    pub fn tidy(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        waiting.retain(|_, sender| sender.receiver_count() > 0);
    }
}
