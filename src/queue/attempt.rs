//! One attempt at one job: it fetches the inputs and computes, and meanwhile renews the lease, writes
//! progress and notices when to stop.

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
use crate::store::{ClaimedJob, FailureCode, JobFailure, JobProgress, StoreError};
use guarantor_engine::EngineError;
use guarantor_engine::control::Progress;

/// Progress is written when it has changed, and at least this often.
const REPORT_AT_LEAST: Duration = Duration::from_millis(600);
/// How often a preparation looks whether it must stop.
const FLAG: Duration = Duration::from_millis(100);
/// How long a shutdown waits for a computation that was told to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// A job that is being run by this process, under one lease.
pub struct Attempt<'a> {
    queue: &'a Queue,
    claim: &'a ClaimedJob,
    stop: Arc<AtomicBool>,
    timeline: Arc<Timeline>,
    began: Instant,
    last_renewal: Instant,
    last_report: Instant,
    lease_lost: bool,
    cancelled: bool,
}

/// How an attempt ended.
pub enum End {
    /// The computation returned or panicked.
    Computed(Computed),
    /// The computation did not start.
    NotRun(RunError),
    /// The server is shutting down and does not wait for the computation.
    Abandoned,
    /// Another worker may have the job, so nothing may be written.
    LeaseLost,
}

/// An attempt that has ended and whose end is not written yet.
pub struct Ended {
    /// How it ended.
    pub end: End,
    /// Whether a user stopped it, as opposed to a shutdown.
    pub cancelled: bool,
    /// Where its time went.
    pub timeline: Arc<Timeline>,
}

impl<'a> Attempt<'a> {
    /// An attempt at the claimed job, which can be canceled from now on.
    pub fn new(queue: &'a Queue, claim: &'a ClaimedJob) -> Self {
        let now = Instant::now();
        let stop = Arc::new(AtomicBool::new(claim.job.cancel_requested));
        queue.shared.register(claim.job.id, &stop);
        Attempt {
            queue,
            claim,
            stop,
            timeline: Arc::new(Timeline::new()),
            began: now,
            last_renewal: now,
            last_report: now,
            lease_lost: false,
            cancelled: false,
        }
    }

    /// Runs the job on `pool` until it ends, loses its lease, or has to stop.
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
        // Both are polled, because the preparation may hold the connection that a tick waits for.
        let ((end, give_up), ()) = tokio::join!(worked, self.supervise(&mut progress, &done));
        self.queue.shared.unregister(self.claim.job.id, &self.stop);
        let stopped_by_user = self.cancelled || (give_up.is_none() && self.stop.load(Ordering::Relaxed));
        let end = if self.lease_lost { End::LeaseLost } else { end };
        Ended { end, cancelled: stopped_by_user, timeline: self.timeline }
    }

    /// Ticks until `done`.
    async fn supervise(&mut self, progress: &mut watch::Receiver<Option<Progress>>, done: &Notify) {
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

    /// Writes progress and renews the lease if the progress has changed or it is time. Otherwise only checks
    /// whether the job was canceled.
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
                (self.last_report, self.last_renewal) = (Instant::now(), Instant::now());
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
            Err(StoreError::LeaseLost(_)) => self.lose_lease("another worker has the job"),
            Err(error) => {
                tracing::warn!(job_id = %id, %error, "could not renew the lease of a job");
                let unwritable = self.queue.note_unwritable(&error);
                // From here on another worker may claim the job: stop before it does.
                if self.last_renewal.elapsed() >= self.queue.settings().lease {
                    if unwritable {
                        self.queue.remember_unwritten(self.claim).await;
                    }
                    self.lose_lease("the store was unavailable for longer than the lease");
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
        tracing::warn!(job_id = %self.claim.job.id, why, "lease lost; stopping the computation");
        self.lease_lost = true;
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Fetches the inputs and computes.
async fn work(
    runner: &dyn Runner,
    claim: &ClaimedJob,
    pool: Arc<ThreadPool>,
    stop: Arc<AtomicBool>,
    reports: watch::Sender<Option<Progress>>,
    timeline: Arc<Timeline>,
) -> End {
    let prepared = tokio::select! {
        prepared = runner.prepare(&claim.job) => match prepared {
            Ok(prepared) => prepared,
            Err(error) => return End::NotRun(error),
        },
        // To read the objects of a pinned dataset may take long.
        () = raised(&stop) => return End::Computed(Computed::Returned(Err(EngineError::Cancelled))),
    };
    let started = match compute::start(pool, prepared, stop, reports, timeline) {
        Ok(started) => started,
        Err(error) => {
            tracing::error!(%error, "could not start a thread for a job");
            let failure =
                JobFailure::new(FailureCode::AttemptsExhausted, "the server could not start a thread");
            return End::NotRun(RunError::Retry(failure));
        }
    };
    match started.await {
        Ok(computed) => End::Computed(computed),
        // The thread always sends before it ends; anything else is a bug.
        Err(_) => End::Computed(Computed::Panicked("the compute thread ended without a result".into())),
    }
}

/// Returns when the flag is raised.
async fn raised(flag: &AtomicBool) {
    while !flag.load(Ordering::Relaxed) {
        tokio::time::sleep(FLAG).await;
    }
}

/// Returns when running jobs must stop, also if the workers were dropped.
pub(super) async fn stopping(phase: &mut watch::Receiver<Phase>) {
    let _ = phase.wait_for(|phase| *phase == Phase::Stopping).await;
}

/// Sleeps until the deadline, forever if there is none.
async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
