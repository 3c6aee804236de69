//! One attempt at one job: prepare, compute, and meanwhile keep the lease, pass on progress, and
//! notice when to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rayon::ThreadPool;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Queue;
use super::compute::{self, Computed};
use super::runner::{RunError, Runner};
use super::timeline::Timeline;
use super::worker::Phase;
use crate::store::{Claim, JobFailure, JobProgress, StoreError};
use guarantor_engine::control::Progress;

/// Progress is written when it has changed, and at least this often all the same.
const REPORT_AT_LEAST: Duration = Duration::from_millis(600);
/// How long a stopped computation may take to return before a shutdown goes on without it.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

pub struct Attempt<'a> {
    queue: &'a Queue,
    claim: &'a Claim,
    stop: Arc<AtomicBool>,
    timeline: Arc<Timeline>,
    began: Instant,
    last_kept: Instant,
    last_report: Instant,
    lease_lost: bool,
    cancelled: bool,
}

/// What is left to write.
pub enum End {
    Computed(Computed),
    NotRun(RunError),
    /// The server is shutting down and the computation is not waited for.
    Abandoned,
    /// Another worker has the job; nothing may be written.
    LeaseLost,
}

pub struct Ended {
    pub end: End,
    /// Whether the user asked to stop, as opposed to a shutdown.
    pub cancelled: bool,
    pub timeline: Arc<Timeline>,
}

impl<'a> Attempt<'a> {
    pub fn new(queue: &'a Queue, claim: &'a Claim) -> Self {
        let now = Instant::now();
        let stop = Arc::new(AtomicBool::new(claim.job.cancel_requested));
        queue.shared.register(claim.job.id, &stop);
        Attempt {
            queue,
            claim,
            stop,
            timeline: Arc::new(Timeline::new()),
            began: now,
            last_kept: now,
            last_report: now,
            lease_lost: false,
            cancelled: false,
        }
    }

    pub async fn run(
        mut self,
        runner: &dyn Runner,
        pool: &Arc<ThreadPool>,
        mut phase: watch::Receiver<Phase>,
    ) -> Ended {
        let (reports, mut progress) = watch::channel(None);
        let timeline = self.timeline.clone();
        let (stop, done) = (self.stop.clone(), Notify::new());
        let work = work(runner, self.claim, pool.clone(), self.stop.clone(), reports, timeline);
        let worked = async {
            tokio::pin!(work);
            let mut give_up: Option<Instant> = None;
            let end = loop {
                tokio::select! {
                    end = &mut work => break end,
                    _ = stopping(&mut phase), if give_up.is_none() => {
                        stop.store(true, Ordering::Relaxed);
                        give_up = Some(Instant::now() + STOP_PATIENCE);
                    }
                    _ = sleep_until(give_up), if give_up.is_some() => break End::Abandoned,
                }
            };
            done.notify_one();
            (end, give_up)
        };
        // Side by side: the preparation may hold the very connection that a tick waits for.
        let ((end, give_up), ()) = tokio::join!(worked, self.keep(&mut progress, &done));
        self.queue.shared.unregister(self.claim.job.id, &self.stop);
        let stopped_by_user = self.cancelled || (give_up.is_none() && self.stop.load(Ordering::Relaxed));
        let end = if self.lease_lost { End::LeaseLost } else { end };
        Ended { end, cancelled: stopped_by_user, timeline: self.timeline }
    }

    async fn keep(&mut self, progress: &mut watch::Receiver<Option<Progress>>, done: &Notify) {
        let mut tick = interval(self.queue.settings().tick);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = done.notified() => return,
                _ = tick.tick() => {}
            }
            self.tick(progress).await;
        }
    }

    /// Keeps the lease with a write when there is something to say or it is time, else only looks.
    async fn tick(&mut self, progress: &mut watch::Receiver<Option<Progress>>) {
        if self.lease_lost {
            return;
        }
        let (id, token) = (self.claim.job.id, self.claim.token);
        let repository = self.queue.store().repository();
        let news = progress.has_changed().unwrap_or(false);
        let asked = if news || self.last_report.elapsed() >= REPORT_AT_LEAST {
            let report = self.report(progress);
            let terms = self.queue.settings().terms();
            let asked = repository.heartbeat(id, token, &terms, Some(&report)).await;
            if asked.is_ok() {
                (self.last_report, self.last_kept) = (Instant::now(), Instant::now());
                self.queue.shared.signals.notify(id);
            }
            asked
        } else {
            repository.cancel_requested(id, token).await
        };
        match asked {
            Ok(false) => {}
            Ok(true) => {
                self.cancelled = true;
                self.stop.store(true, Ordering::Relaxed);
            }
            Err(StoreError::LeaseLost(_)) => self.lose_lease("it was given to another worker"),
            Err(error) => {
                tracing::warn!(job_id = %id, %error, "a heartbeat failed");
                let unwritable = self.queue.note_unwritable(&error);
                // Somebody else may hold the job from here on; stop before they start.
                if self.last_kept.elapsed() >= self.queue.settings().lease {
                    if unwritable {
                        self.queue.remember_unwritten(self.claim).await;
                    }
                    self.lose_lease("the store was away for longer than the lease");
                }
            }
        }
    }

    fn report(&self, progress: &mut watch::Receiver<Option<Progress>>) -> JobProgress {
        let latest = progress.borrow_and_update().clone();
        JobProgress {
            progress: latest.unwrap_or_else(|| Progress::phase("preparing", 0.0)),
            elapsed_seconds: self.began.elapsed().as_secs_f64(),
        }
    }

    fn lose_lease(&mut self, why: &str) {
        tracing::warn!(job_id = %self.claim.job.id, why, "the lease is lost; the computation is stopped");
        self.lease_lost = true;
        self.stop.store(true, Ordering::Relaxed);
    }
}

async fn work(
    runner: &dyn Runner,
    claim: &Claim,
    pool: Arc<ThreadPool>,
    stop: Arc<AtomicBool>,
    reports: watch::Sender<Option<Progress>>,
    timeline: Arc<Timeline>,
) -> End {
    let prepared = match runner.prepare(&claim.job).await {
        Ok(prepared) => prepared,
        Err(error) => return End::NotRun(error),
    };
    let started = match compute::start(pool, prepared, stop, reports, timeline) {
        Ok(started) => started,
        Err(error) => {
            tracing::error!(%error, "no thread for a job");
            let failure = JobFailure::new("attempts_exhausted", "the server has no thread for it");
            return End::NotRun(RunError::Retry(failure));
        }
    };
    match started.await {
        Ok(computed) => End::Computed(computed),
        // The thread cannot end without sending; if it did, that is a bug like any other.
        Err(_) => End::Computed(Computed::Panicked("the compute thread vanished".into())),
    }
}

/// Until running jobs are to stop; whoever drops the workers wants that too.
async fn stopping(phase: &mut watch::Receiver<Phase>) {
    let _ = phase.wait_for(|phase| *phase == Phase::Stopping).await;
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
