//! Workers. Each claims a job, runs it to its end, and claims the next.

use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use rayon::ThreadPool;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::attempt::Attempt;
use super::ending::record_end;
use super::runner::Runner;
use super::{Queue, compute, imports};
use crate::store::{ClaimedJob, Result};

/// What the workers should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Claim and run jobs.
    Running,
    /// Start no job; running jobs continue.
    Draining,
    /// Stop running jobs and return them to the queue.
    Stopping,
}

/// The running workers of a queue. If they are dropped without [`Workers::shutdown`], they stop at once.
pub struct Workers {
    phase: watch::Sender<Phase>,
    tasks: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(super) fn start(queue: Queue, runner: Arc<dyn Runner>) -> std::io::Result<Self> {
        let (phase, _) = watch::channel(Phase::Running);
        let settings = queue.settings().clone();
        let mut tasks = Vec::with_capacity(settings.workers);
        for number in 0..settings.workers {
            let pool = Arc::new(compute::pool(number, settings.threads_per_job)?);
            let worker =
                Worker { queue: queue.clone(), runner: runner.clone(), pool, phase: phase.subscribe() };
            tasks.push(tokio::spawn(worker.work()));
        }
        // A workspace runs as many imports as there are workers, so that one more is left for the others.
        let imports_at_once = if settings.workers > 0 { settings.workers + 1 } else { 0 };
        tasks.extend((0..imports_at_once).map(|_| imports::start(queue.clone(), phase.subscribe())));
        Ok(Workers { phase, tasks })
    }

    /// Lets running jobs finish and starts no other.
    pub fn drain(&self) {
        self.phase.send_if_modified(|phase| {
            let running = *phase == Phase::Running;
            if running {
                *phase = Phase::Draining;
            }
            running
        });
    }

    /// Gives running jobs `grace` to finish. Jobs that are still running then are stopped and returned to
    /// their places in the queue, and the attempt is not counted. Returns when every worker has ended.
    pub async fn shutdown(mut self, grace: Duration) {
        self.drain();
        let all = async {
            for task in &mut self.tasks {
                // A worker does not panic; if one did, the others would still be given their time.
                let _ = task.await;
            }
        };
        if tokio::time::timeout(grace, all).await.is_ok() {
            return;
        }
        self.phase.send_replace(Phase::Stopping);
        for task in self.tasks.into_iter().filter(|task| !task.is_finished()) {
            let _ = task.await;
        }
    }
}

struct Worker {
    queue: Queue,
    runner: Arc<dyn Runner>,
    pool: Arc<ThreadPool>,
    phase: watch::Receiver<Phase>,
}

impl Worker {
    async fn work(mut self) {
        while self.phase.has_changed().is_ok() && *self.phase.borrow() == Phase::Running {
            match self.next().await {
                Ok(Some(claim)) => self.run(claim).await,
                Ok(None) => self.idle().await,
                Err(error) => {
                    tracing::error!(%error, "could not claim a job; trying again");
                    self.idle().await;
                }
            }
        }
    }

    /// Claims the next job, after returning jobs with expired leases to the queue.
    async fn next(&self) -> Result<Option<ClaimedJob>> {
        let (store, terms) = (self.queue.store(), self.queue.settings().terms());
        self.queue.recover().await?;
        for job in store.repository().expire_leases(&terms).await? {
            tracing::warn!(job_id = %job.id, attempt = job.attempt, "lease of a job expired");
            if job.status.is_finished() {
                record_end(&job, &[]);
                self.queue.announce_end(&job);
            } else {
                counter!("guarantor_jobs_requeued_total", "cause" => "lease").increment(1);
                self.queue.shared.signals.notify(job.id);
            }
        }
        store.repository().claim_job(&terms).await
    }

    async fn run(&self, claim: ClaimedJob) {
        let job = &claim.job;
        let wait_seconds = job.wait_seconds();
        tracing::info!(job_id = %job.id, workspace = %job.workspace, attempt = job.attempt, wait_seconds, "job started");
        self.queue.shared.signals.notify(job.id);
        let attempt = Attempt::new(&self.queue, &claim);
        let ended = attempt.run(&*self.runner, &self.pool, self.phase.clone()).await;
        self.queue.conclude(&claim, ended).await;
    }

    /// Waits for work, for the time to look for jobs of other processes, or for a change of phase.
    async fn idle(&mut self) {
        self.queue.shared.signals.tidy();
        tokio::select! {
            _ = self.queue.shared.work.notified() => {}
            _ = tokio::time::sleep(self.queue.settings().poll) => {}
            _ = self.phase.changed() => {}
        }
    }
}
