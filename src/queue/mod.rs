//! The queue. Jobs are rows in the store. Workers claim them under a lease, the engine computes, and the
//! result is written to the store only if the lease is still held.
//!
//! **Threads.** Claims, heartbeats, cancellation and all I/O are tokio tasks, one per worker. The engine
//! runs on an OS thread with its own rayon pool (`compute.rs`). It sees only a flag that tells it to
//! stop and a function to report progress to. So neither requests nor heartbeats wait for a computation.
//!
//! **Guarantees.** A submitted job is never lost, because it is a row until it ends. It may be computed
//! twice, but only the worker that holds the lease can write, so it ends once.

mod attempt;
mod compute;
mod ending;
mod fit;
mod follow;
mod imports;
mod resolve;
mod runner;
mod signals;
mod timeline;
mod worker;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;

use crate::store::{Job, JobId, LeaseTerms, LeaseToken, NewJob, QueueLimits, Result, Store, Workspace};

pub use fit::{JobMemory, TooLarge, check_fit};
pub use resolve::{ResolveError, Resolved, require_fit, resolve};
pub use runner::{EngineRunner, Prepared, RunError, Runner, StoredInputs};
pub use signals::Subscription;
pub use worker::Workers;

/// How a queue runs its jobs.
#[derive(Debug, Clone)]
pub struct QueueSettings {
    /// Jobs that run at the same time.
    pub workers: usize,
    /// Compute threads of each running job.
    pub threads_per_job: usize,
    /// How long a worker may be silent before its job is given to another.
    pub lease: Duration,
    /// How many times a job is started before it fails.
    pub max_attempts: u32,
    /// How many jobs may be queued.
    pub limits: QueueLimits,
    /// How often an idle worker looks for jobs that other processes submitted or lost.
    pub poll: Duration,
    /// How often the progress and the cancellation of a running job are checked.
    pub tick: Duration,
}

impl Default for QueueSettings {
    fn default() -> Self {
        QueueSettings {
            workers: 1,
            threads_per_job: std::thread::available_parallelism().map_or(1, |n| n.get()),
            lease: Duration::from_secs(15),
            max_attempts: 3,
            limits: QueueLimits { total: Some(10_000), workspace: Some(1_000) },
            poll: Duration::from_millis(500),
            tick: Duration::from_millis(200),
        }
    }
}

impl QueueSettings {
    fn terms(&self) -> LeaseTerms {
        LeaseTerms { duration: self.lease, max_attempts: self.max_attempts }
    }
}

/// The queue of one process. It is cheap to clone, and all clones are the same queue.
#[derive(Clone)]
pub struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    settings: QueueSettings,
    signals: signals::Signals,
    /// Wakes idle workers.
    work: Notify,
    /// The stop flags of the jobs that run in this process.
    running: Mutex<HashMap<JobId, Arc<AtomicBool>>>,
    /// Set when the end of a job could not be written because of the disk. No job starts until the disk
    /// can be written again, because its result could not be stored.
    unwritable: AtomicBool,
    /// Jobs that could not even be returned to the queue, with their leases.
    unwritten: tokio::sync::Mutex<HashMap<JobId, LeaseToken>>,
    /// Announces jobs that have ended.
    ended: broadcast::Sender<Job>,
    imports: imports::ImportQueue,
}

impl Queue {
    /// A queue on the jobs of `store`. It runs nothing before [`Queue::start`].
    pub fn new(store: Store, settings: QueueSettings) -> Self {
        let shared = Shared {
            store,
            settings,
            signals: signals::Signals::default(),
            work: Notify::new(),
            running: Mutex::default(),
            unwritable: AtomicBool::new(false),
            unwritten: tokio::sync::Mutex::default(),
            ended: broadcast::channel(256).0,
            imports: imports::ImportQueue::default(),
        };
        Queue { shared: Arc::new(shared) }
    }

    /// The store that has the jobs.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// How the jobs are run.
    pub fn settings(&self) -> &QueueSettings {
        &self.shared.settings
    }

    /// Starts the workers, which run jobs with `runner`.
    ///
    /// # Errors
    /// If a compute thread cannot be started.
    pub fn start(&self, runner: Arc<dyn Runner>) -> std::io::Result<Workers> {
        Workers::start(self.clone(), runner)
    }

    /// Adds a job to the queue. When this returns, the job is on disk.
    ///
    /// # Errors
    /// If the queue is full, the family of looks is exhausted, or the store fails.
    pub async fn submit(&self, new: NewJob) -> Result<Job> {
        let job = self.store().repository().submit_job(new, &self.shared.settings.limits).await?;
        self.shared.work.notify_one();
        self.shared.signals.notify(job.id);
        Ok(job)
    }

    /// Cancels a queued job, or tells a running one to stop: at once if it runs in this process, with its
    /// next heartbeat if it runs in another.
    ///
    /// # Errors
    /// If the job does not exist or has already succeeded or failed, or the store fails.
    pub async fn cancel(&self, workspace: &Workspace, id: JobId) -> Result<Job> {
        // A canceled job frees its dataset for deletion, so this works on a full disk too.
        let cancel = || self.store().repository().cancel_job(workspace, id);
        let (job, changed) = self.store().freeing(cancel).await?;
        if job.status.is_finished() {
            // Only the first of several cancellations ends the job.
            if changed {
                ending::record_end(&job, &[]);
                self.announce_end(&job);
            }
        } else {
            self.shared.raise_flag(id);
            self.shared.signals.notify(id);
        }
        Ok(job)
    }

    /// Subscribes to changes of the job from now on.
    pub fn subscribe(&self, id: JobId) -> Subscription {
        self.shared.signals.subscribe(id, self.shared.settings.poll)
    }

    /// Returns the job when it has ended, or as it is after `limit`.
    ///
    /// # Errors
    /// If the job does not exist, or the store fails.
    pub async fn wait(&self, workspace: &Workspace, id: JobId, limit: Duration) -> Result<Job> {
        let deadline = Instant::now() + limit;
        // Subscribed before the job is read, so that no change is missed in between.
        let mut changes = self.subscribe(id);
        loop {
            let job = self.store().repository().job(workspace, id).await?;
            if job.status.is_finished() || Instant::now() >= deadline {
                return Ok(job);
            }
            // The job is read again after a change and after the limit.
            let _ = tokio::time::timeout_at(deadline, changes.changed()).await;
        }
    }

    /// Jobs as they end in this process, for metrics.
    pub fn ended(&self) -> broadcast::Receiver<Job> {
        self.shared.ended.subscribe()
    }

    fn announce_end(&self, job: &Job) {
        self.shared.signals.notify(job.id);
        // It is fine if nobody listens.
        let _ = self.shared.ended.send(job.clone());
    }
}

impl Shared {
    /// Tells the job to stop if it runs in this process.
    fn raise_flag(&self, id: JobId) {
        if let Some(flag) = self.running.lock().get(&id) {
            flag.store(true, Ordering::Relaxed);
        }
    }

    fn register(&self, id: JobId, flag: &Arc<AtomicBool>) {
        self.running.lock().insert(id, flag.clone());
    }

    fn unregister(&self, id: JobId, flag: &Arc<AtomicBool>) {
        let mut running = self.running.lock();
        // After a lost lease the same job may already run here again, with another flag.
        if running.get(&id).is_some_and(|registered| Arc::ptr_eq(registered, flag)) {
            running.remove(&id);
        }
    }
}
