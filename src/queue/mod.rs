//! The queue: jobs wait in the store, workers claim them under a lease, the core computes, and the
//! result goes back to the store fenced by the lease.
//!
//! Which thread does what. Claims, heartbeats, cancellation and all I/O are tokio tasks, one a
//! worker. The core runs on an OS thread with a rayon pool of its own (`compute.rs`), and knows
//! nothing of either: it sees a flag to stop by and a function to report to. So no request waits
//! for a computation, and no heartbeat does.
//!
//! What is certain. A job that was submitted is never lost, for it is a row until it ends; it may
//! be computed twice, but only the worker that holds the lease can write, so it ends once.

mod attempt;
mod compute;
mod ending;
mod resolve;
mod runner;
mod signals;
mod timeline;
mod worker;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;

use crate::store::{Job, JobId, LeaseTerms, LeaseToken, NewJob, QueueLimits, Result, Store, Workspace};

pub use resolve::{ResolveError, resolve};
pub use runner::{EngineRunner, Prepared, RunError, Runner, StoredInputs};
pub use signals::Subscription;
pub use worker::Workers;

#[derive(Debug, Clone)]
pub struct QueueSettings {
    /// Jobs that run at the same time.
    pub workers: usize,
    /// Compute threads of each of them.
    pub threads_per_job: usize,
    /// How long a worker may be silent before its job is given to another.
    pub lease: Duration,
    pub max_attempts: u32,
    pub limits: QueueLimits,
    /// How often an idle worker looks for jobs that other processes submitted or lost.
    pub poll: Duration,
    /// How often a running job's progress and cancellation are looked at.
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

/// Cheap to clone; all clones are one queue.
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
    /// Set when an ending could not be written for want of a disk that takes it: no job starts
    /// until the disk does again, for its result would have nowhere to go.
    unwritable: AtomicBool,
    /// Jobs of which not even that could be written, with the leases under which they ran.
    unwritten: tokio::sync::Mutex<HashMap<JobId, LeaseToken>>,
    ended: broadcast::Sender<Job>,
}

impl Queue {
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
        };
        Queue { shared: Arc::new(shared) }
    }

    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    pub fn settings(&self) -> &QueueSettings {
        &self.shared.settings
    }

    /// Starts the workers; `runner` does the jobs.
    pub fn start(&self, runner: Arc<dyn Runner>) -> std::io::Result<Workers> {
        Workers::start(self.clone(), runner)
    }

    pub async fn submit(&self, new: NewJob) -> Result<Job> {
        let job = self.store().repository().submit_job(new, &self.shared.settings.limits).await?;
        self.shared.work.notify_one();
        self.shared.signals.notify(job.id);
        Ok(job)
    }

    /// Cancels a queued job, or asks a running one to stop: at once where it runs in this process,
    /// by its next heartbeat where it runs in another.
    pub async fn cancel(&self, workspace: &Workspace, id: JobId) -> Result<Job> {
        let (job, changed) = self.store().repository().cancel_job(workspace, id).await?;
        if job.status.is_finished() {
            // Once, however often it is asked for.
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

    /// Tells of changes to the job from now on.
    pub fn subscribe(&self, id: JobId) -> Subscription {
        self.shared.signals.subscribe(id, self.shared.settings.poll)
    }

    /// The job when it has ended, or as it is when `limit` has passed.
    pub async fn wait(&self, workspace: &Workspace, id: JobId, limit: Duration) -> Result<Job> {
        let deadline = Instant::now() + limit;
        // Subscribed before the first look, so that no change falls between.
        let mut changes = self.subscribe(id);
        loop {
            let job = self.store().repository().job(workspace, id).await?;
            if job.status.is_finished() || Instant::now() >= deadline {
                return Ok(job);
            }
            // On either arm the next thing to do is to look again.
            let _ = tokio::time::timeout_at(deadline, changes.changed()).await;
        }
    }

    /// Jobs as they end in this process, for whoever counts them.
    pub fn ended(&self) -> broadcast::Receiver<Job> {
        self.shared.ended.subscribe()
    }

    fn announce_end(&self, job: &Job) {
        self.shared.signals.notify(job.id);
        // Nobody listening is fine.
        let _ = self.shared.ended.send(job.clone());
    }
}

impl Shared {
    fn raise_flag(&self, id: JobId) {
        let running = self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(flag) = running.get(&id) {
            flag.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn register(&self, id: JobId, flag: &Arc<AtomicBool>) {
        let mut running = self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        running.insert(id, flag.clone());
    }

    fn unregister(&self, id: JobId, flag: &Arc<AtomicBool>) {
        let mut running = self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // After a lost lease the same job may run here again already, under another flag.
        if running.get(&id).is_some_and(|registered| Arc::ptr_eq(registered, flag)) {
            running.remove(&id);
        }
    }
}
