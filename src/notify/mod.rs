//! Notifications: events of the outbox are delivered to webhooks.
//!
//! The transaction that ends a job writes the rows of its deliveries (`src/store/sql/outbox.rs`). The task here reads
//! those whose time has come, sends each as a signed request, and writes how that ended. So an event survives a crash
//! at any moment: it is sent again, with the same id. Of several servers on one database, one delivers at a time. Jobs never wait for this: the task runs beside them, and its
//! waits are those of the network.
//!
//! `allow.rs` decides which addresses may be reached at all, `address.rs` which answers of the name server are accepted,
//! `post.rs` sends, `sign.rs` signs, `event.rs` writes the body, `schedule.rs` says when to try again, and `rounds.rs`
//! puts them together.

mod address;
mod allow;
mod event;
mod post;
mod rounds;
mod schedule;
mod sign;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;

use crate::store::{Job, Result, Store, Timestamp};
use post::Post;
use rounds::Rounds;

pub use allow::{AllowList, NotAllowed};
pub use schedule::RETRY_FOR;
pub use sign::signature;

/// How often the outbox is read when nothing else wakes the task. Jobs with damaged rows, and jobs that other processes
/// end, wake nobody.
const POLL: Duration = Duration::from_secs(5);

/// Where the time comes from.
pub trait Clock: Send + Sync {
    /// The time.
    fn now(&self) -> Timestamp;
}

/// The clock of this machine, which is also that of SQLite.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The clock of a store's database, which may be on another machine.
pub struct DatabaseClock(pub Store);

impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        self.0.repository().clock()
    }
}

/// What may be reached, and how.
#[derive(Debug, Clone, Default)]
pub struct NotifySettings {
    /// The addresses that webhooks may have.
    pub allow: AllowList,
    /// A PEM file with the certificate authorities to trust; empty means those of the system.
    pub ca_file: PathBuf,
    /// The URL under which receivers reach this server; empty if that is not known.
    pub public_url: String,
}

/// Delivers the events of a store. It is cheap to clone, and all clones are the same.
#[derive(Clone)]
pub struct Notifier {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    settings: NotifySettings,
    post: Post,
    clock: Arc<dyn Clock>,
    /// Wakes the task.
    due: Notify,
}

impl Notifier {
    /// A notifier of the events in `store`. It delivers nothing before [`Notifier::start`].
    ///
    /// # Errors
    /// If there is no certificate authority to trust although HTTPS is allowed.
    pub fn new(
        store: Store,
        settings: NotifySettings,
        clock: Arc<dyn Clock>,
    ) -> std::result::Result<Self, String> {
        let post = Post::new(&settings)?;
        Ok(Notifier { shared: Arc::new(Shared { store, settings, post, clock, due: Notify::new() }) })
    }

    /// The addresses that webhooks may have.
    pub fn allow(&self) -> &AllowList {
        &self.shared.settings.allow
    }

    /// Tells the task that a delivery was queued.
    pub fn wake(&self) {
        self.shared.due.notify_one();
    }

    /// Starts the task that delivers. It is woken by every job that ends.
    pub fn start(&self, ended: broadcast::Receiver<Job>) -> Delivering {
        let (stop, stopping) = watch::channel(false);
        let task = tokio::spawn(deliver(self.clone(), ended, stopping));
        Delivering { stop, task }
    }

    /// Delivers everything that is due by the clock, and returns when the next delivery is due. For tests, which set the
    /// clock; a server uses [`Notifier::start`].
    ///
    /// # Errors
    /// If the store fails.
    pub async fn deliver_due(&self) -> Result<Option<Timestamp>> {
        let mut rounds = Rounds::new(self);
        loop {
            rounds.begin().await?;
            if rounds.is_idle() {
                return self.shared.store.repository().next_delivery().await;
            }
            while rounds.end_one().await {}
        }
    }
}

/// The running task. If it is dropped without [`Delivering::shutdown`], it stops at once; every delivery in progress is
/// repeated after the next start.
pub struct Delivering {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Delivering {
    /// Starts no other delivery, and gives those in progress `grace` to end.
    pub async fn shutdown(mut self, grace: Duration) {
        self.stop.send_replace(true);
        if tokio::time::timeout(grace, &mut self.task).await.is_err() {
            tracing::info!("deliveries in progress are repeated after the next start");
        }
    }
}

impl Drop for Delivering {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn deliver(
    notifier: Notifier,
    mut ended: broadcast::Receiver<Job>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut rounds = Rounds::new(&notifier);
    let mut queue_is_open = true;
    while !*stopping.borrow() {
        if let Err(error) = rounds.begin().await {
            tracing::warn!(%error, "the outbox cannot be read or written; trying again");
        }
        let (pause, idle) = (rounds.pause().await, rounds.is_idle());
        tokio::select! {
            _ = rounds.end_one(), if !idle => {}
            _ = notifier.shared.due.notified() => {}
            job = ended.recv(), if queue_is_open => {
                queue_is_open = !matches!(job, Err(broadcast::error::RecvError::Closed));
            }
            _ = tokio::time::sleep(pause) => {}
            _ = stopping.changed() => {}
        }
    }
    while rounds.end_one().await {}
    if let Err(error) = rounds.write_ends().await {
        tracing::warn!(%error, "the ends of deliveries cannot be written; they are repeated after the next start");
    }
}
