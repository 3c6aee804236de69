//! The queue with fake computations that wait for the test at every step, so that nothing here depends on
//! speed.

use crate::support;

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use guarantor::queue::{Prepared, Queue, QueueSettings, RunError, Runner};
use guarantor::store::{
    ClaimedJob, Dataset, FailureCode, Finish, Job, JobFailure, JobId, JobStatus, LeaseTerms, Store,
    StoreError, Workspace,
};
use guarantor_engine::control::{Control, Progress};
use guarantor_engine::{EngineError, Finished, Result as EngineResult};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, SqliteConnection};
use support::{dataset, finished, new_job, store, workspace};

/// Far longer than any test takes: a test that waits this long has failed.
const LONG: Duration = Duration::from_secs(60);
const TERMS: LeaseTerms = LeaseTerms { duration: LONG, max_attempts: 3 };

type Work = dyn Fn(&Job, &Control) -> EngineResult<Finished> + Send + Sync;

/// Runs the given function on the compute thread.
struct Script(Arc<Work>);

#[async_trait]
impl Runner for Script {
    async fn prepare(&self, job: &Job) -> Result<Prepared, RunError> {
        let (work, job) = (self.0.clone(), job.clone());
        Ok(Box::new(move |control| work(&job, control)))
    }
}

fn script(
    work: impl Fn(&Job, &Control) -> EngineResult<Finished> + Send + Sync + 'static,
) -> Arc<dyn Runner> {
    Arc::new(Script(Arc::new(work)))
}

/// A computation that reports when it has started and continues when it is told to.
struct Steps {
    began: Mutex<mpsc::Receiver<JobId>>,
    go: mpsc::Sender<()>,
}

impl Steps {
    fn new() -> (Steps, Arc<dyn Runner>) {
        let (began, has_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let (began, may_go) = (Mutex::new(began), Mutex::new(may_go));
        let runner = script(move |job, control| {
            began.lock().unwrap().send(job.id).unwrap();
            may_go.lock().unwrap().recv_timeout(LONG).unwrap();
            control.check()?;
            Ok(finished(&job.spec))
        });
        (Steps { began: Mutex::new(has_begun), go }, runner)
    }

    fn wait_for_begin(&self) -> JobId {
        tokio::task::block_in_place(|| self.began.lock().unwrap().recv_timeout(LONG).unwrap())
    }

    fn go_on(&self) {
        self.go.send(()).unwrap();
    }
}

/// Computes until it is stopped, as the engine does.
fn until_stopped(began: mpsc::Sender<JobId>) -> Arc<dyn Runner> {
    let began = Mutex::new(began);
    script(move |job, control| {
        control.report(Progress::phase("learning", 0.5));
        began.lock().unwrap().send(job.id).unwrap();
        loop {
            control.check()?;
            std::thread::yield_now();
        }
    })
}

fn begun(receiver: &mpsc::Receiver<JobId>) -> JobId {
    tokio::task::block_in_place(|| receiver.recv_timeout(LONG).unwrap())
}

fn settings() -> QueueSettings {
    QueueSettings {
        workers: 1,
        threads_per_job: 1,
        lease: LONG,
        poll: Duration::from_millis(20),
        tick: Duration::from_millis(10),
        ..QueueSettings::default()
    }
}

struct Fixture {
    queue: Queue,
    store: Store,
    dataset: Dataset,
    directory: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Fixture {
        let (directory, store) = store().await;
        let dataset = dataset(store.repository(), "a").await;
        Fixture { queue: Queue::new(store.clone(), settings()), store, dataset, directory }
    }

    async fn submit(&self) -> JobId {
        self.queue.submit(new_job(&self.dataset)).await.unwrap().id
    }

    fn workspace(&self) -> &Workspace {
        &self.dataset.workspace
    }

    async fn job(&self, id: JobId) -> Job {
        self.store.repository().job(self.workspace(), id).await.unwrap()
    }

    async fn ended(&self, id: JobId) -> Job {
        let job = self.queue.wait(self.workspace(), id, LONG).await.unwrap();
        assert!(job.status.is_finished(), "{job:?}");
        job
    }

    /// Changes a row without the store.
    async fn sql(&self, statement: &'static str, id: JobId) {
        let options = SqliteConnectOptions::new().filename(self.directory.path().join("guarantor.sqlite"));
        let mut db = SqliteConnection::connect_with(&options).await.unwrap();
        let changed = sqlx::query(statement).bind(id.to_string()).execute(&mut db).await.unwrap();
        assert_eq!(changed.rows_affected(), 1);
        db.close().await.unwrap();
    }

    async fn kinds(&self, id: JobId) -> Vec<String> {
        let events = self.store.repository().job_events(self.workspace(), id, 0, 1000).await.unwrap();
        events.into_iter().map(|event| event.kind).filter(|kind| kind != "progress").collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_to_its_certificate() {
    let fixture = Fixture::new().await;
    let workers = fixture.queue.start(script(|job, _| Ok(finished(&job.spec)))).unwrap();
    let mut ends = fixture.queue.ended();
    let id = fixture.submit().await;
    let job = fixture.ended(id).await;
    assert_eq!((job.status, job.attempt), (JobStatus::Succeeded, 1));
    assert_eq!(ends.recv().await.unwrap().id, id);
    let expected = finished(&job.spec);
    assert_eq!(fixture.store.certificate(&job).await.unwrap().unwrap(), expected.certificate);
    assert_eq!(fixture.store.evidence(&job).await.unwrap().unwrap(), expected.evidence);
    let policy_id = job.result.unwrap().policy_id.unwrap();
    let policy = fixture.store.repository().policy(fixture.workspace(), policy_id).await.unwrap();
    assert_eq!(policy.source_job_id, Some(id));
    assert_eq!(fixture.store.policy_params(&policy).await.unwrap(), *expected.evidence.policy().unwrap());
    assert_eq!(fixture.kinds(id).await, ["queued", "started", "succeeded"]);
    workers.shutdown(LONG).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workspaces_take_turns() {
    let fixture = Fixture::new().await;
    let other = dataset(fixture.store.repository(), "b").await;
    let mut ids = Vec::new();
    for dataset in [&fixture.dataset, &fixture.dataset, &fixture.dataset, &other] {
        ids.push(fixture.queue.submit(new_job(dataset)).await.unwrap().id);
    }
    let (steps, runner) = Steps::new();
    let workers = fixture.queue.start(runner).unwrap();
    for expected in [0, 3, 1, 2] {
        assert_eq!(steps.wait_for_begin(), ids[expected]);
        steps.go_on();
    }
    workers.shutdown(LONG).await;
    assert_eq!(fixture.job(ids[2]).await.status, JobStatus::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lost_its_lease_cannot_write() {
    let fixture = Fixture::new().await;
    let (steps, runner) = Steps::new();
    let workers = fixture.queue.start(runner).unwrap();
    let id = fixture.submit().await;
    assert_eq!(steps.wait_for_begin(), id);
    // Another process finds that the lease has expired and takes the job.
    let stolen = steal(&fixture, id).await;
    assert_eq!(stolen.job.attempt, 2);
    steps.go_on();
    workers.shutdown(LONG).await;
    let job = fixture.job(id).await;
    assert_eq!((job.status, job.result), (JobStatus::Running, None));
    let finish = Finish::Failed(JobFailure::new(FailureCode::EngineError, "written by the other worker"));
    let ended = fixture.store.repository().finish_job(id, stolen.token, &TERMS, finish).await.unwrap();
    assert_eq!(ended.failure.unwrap().message, "written by the other worker");
}

/// Retries because the worker's heartbeat may renew the lease in between.
async fn steal(fixture: &Fixture, id: JobId) -> ClaimedJob {
    let repository = fixture.store.repository();
    loop {
        repository.end_all_leases().await.unwrap();
        if repository.expire_leases(&TERMS).await.unwrap().iter().any(|job| job.id == id) {
            return repository.claim_job(&TERMS).await.unwrap().unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn canceling_stops_a_running_job() {
    let fixture = Fixture::new().await;
    let (sender, receiver) = mpsc::channel();
    let workers = fixture.queue.start(until_stopped(sender)).unwrap();
    let id = fixture.submit().await;
    assert_eq!(begun(&receiver), id);
    let asked = fixture.queue.cancel(fixture.workspace(), id).await.unwrap();
    assert!(asked.cancel_requested);
    let job = fixture.ended(id).await;
    assert_eq!((job.status, job.failure), (JobStatus::Cancelled, None));
    assert_eq!(fixture.kinds(id).await, ["queued", "started", "cancel_requested", "cancelled"]);
    workers.shutdown(LONG).await;
}

/// The computation returns a result after the cancellation was acknowledged, because it looks at its flag no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_after_a_cancellation_is_dropped_with_its_files() {
    let fixture = Fixture::new().await;
    let (began, has_begun) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    let (began, may_go) = (Mutex::new(began), Mutex::new(may_go));
    let runner = script(move |job, _| {
        began.lock().unwrap().send(job.id).unwrap();
        may_go.lock().unwrap().recv_timeout(LONG).unwrap();
        Ok(finished(&job.spec))
    });
    let workers = fixture.queue.start(runner).unwrap();
    let id = fixture.submit().await;
    assert_eq!(begun(&has_begun), id);
    assert!(fixture.queue.cancel(fixture.workspace(), id).await.unwrap().cancel_requested);
    go.send(()).unwrap();
    let job = fixture.ended(id).await;
    assert_eq!((job.status, job.result, job.certificate), (JobStatus::Cancelled, None, None));
    assert_eq!(fixture.kinds(id).await, ["queued", "started", "cancel_requested", "cancelled"]);
    workers.shutdown(LONG).await;
    let left = fixture.store.blobs().keys().await.unwrap();
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn canceling_from_another_process_is_noticed() {
    let fixture = Fixture::new().await;
    let (sender, receiver) = mpsc::channel();
    let workers = fixture.queue.start(until_stopped(sender)).unwrap();
    let id = fixture.submit().await;
    assert_eq!(begun(&receiver), id);
    fixture.store.repository().cancel_job(fixture.workspace(), id).await.unwrap();
    assert_eq!(fixture.ended(id).await.status, JobStatus::Cancelled);
    workers.shutdown(LONG).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_job_is_canceled_without_a_worker() {
    let fixture = Fixture::new().await;
    let id = fixture.submit().await;
    let mut ends = fixture.queue.ended();
    for _ in 0..3 {
        let job = fixture.queue.cancel(fixture.workspace(), id).await.unwrap();
        assert_eq!(job.status, JobStatus::Cancelled);
    }
    // It ended once, however often that was requested.
    assert_eq!(ends.recv().await.unwrap().id, id);
    assert!(ends.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_the_job_and_spares_the_worker() {
    let fixture = Fixture::new().await;
    let bad = fixture.submit().await;
    let good = fixture.submit().await;
    let runner = script(move |job, _| {
        assert!(job.id != bad, "this job panics");
        Ok(finished(&job.spec))
    });
    let workers = fixture.queue.start(runner).unwrap();
    let failed = fixture.ended(bad).await;
    assert_eq!(failed.status, JobStatus::Failed);
    let failure = failed.failure.unwrap();
    assert_eq!(failure.code, FailureCode::Panicked);
    // What a panic says is for the log: it may contain anything.
    assert!(!failure.message.contains("this job panics"), "{}", failure.message);
    assert!(failure.message.contains("internal error"), "{}", failure.message);
    assert_eq!(fixture.ended(good).await.status, JobStatus::Succeeded);
    workers.shutdown(LONG).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_engine_fails_the_job() {
    let fixture = Fixture::new().await;
    let runner = script(|_, _| Err(EngineError::Numerical("a sum is NaN".into())));
    let workers = fixture.queue.start(runner).unwrap();
    let id = fixture.submit().await;
    let job = fixture.ended(id).await;
    assert_eq!((job.status, job.attempt), (JobStatus::Failed, 1));
    assert_eq!(
        job.failure,
        Some(JobFailure::new(FailureCode::EngineError, "numerical failure: a sum is NaN"))
    );
    workers.shutdown(LONG).await;
}

/// A damaged job at the head of the queue, or left by a process that died, must not be chosen again forever.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_row_is_damaged_does_not_stop_the_queue() {
    let fixture = Fixture::new().await;
    let (waiting, running) = (fixture.submit().await, fixture.submit().await);
    fixture.sql("UPDATE jobs SET spec = '{\"kind\":' WHERE id = $1", waiting).await;
    fixture
        .sql(
            "UPDATE jobs SET status = 'running', attempt = 1, lease_token = 'x', lease_until = 0, \
                 metadata = 'x' WHERE id = $1",
            running,
        )
        .await;
    let good = fixture.submit().await;
    let workers = fixture.queue.start(script(|job, _| Ok(finished(&job.spec)))).unwrap();
    assert_eq!(fixture.ended(good).await.status, JobStatus::Succeeded);
    workers.shutdown(LONG).await;
    for id in [waiting, running] {
        // The row itself stays as it is, so that it can be restored.
        let read = fixture.store.repository().job(fixture.workspace(), id).await;
        assert!(matches!(read, Err(StoreError::Damaged(_))), "{read:?}");
        assert_eq!(fixture.kinds(id).await.last().unwrap(), "failed");
        fixture
            .sql(
                "UPDATE jobs SET spec = (SELECT spec FROM jobs WHERE status = 'succeeded'), \
                     metadata = '{}' WHERE id = $1",
                id,
            )
            .await;
        let job = fixture.job(id).await;
        assert_eq!((job.status, job.failure.unwrap().code), (JobStatus::Failed, FailureCode::JobUnreadable));
    }
}

/// A damaged job that had shown a bound has looked at the rows nevertheless.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_job_that_showed_a_bound_is_in_the_ledger() {
    let fixture = Fixture::new().await;
    let (readable, damaged) = (fixture.submit().await, fixture.submit().await);
    let lost = "UPDATE jobs SET status = 'running', attempt = 1, lease_token = id, lease_until = 0, shown = 1, \
                metadata = 'x' WHERE id = $1";
    fixture.sql(lost, readable).await;
    fixture.sql(lost, damaged).await;
    fixture.sql("UPDATE jobs SET spec = '{\"kind\":' WHERE id = $1", damaged).await;
    let repository = fixture.store.repository();
    repository.expire_leases(&TERMS).await.unwrap();
    let look = async |id| repository.look_of_job(fixture.workspace(), id).await.unwrap().unwrap();
    let (first, second) = (look(readable).await, look(damaged).await);
    let good = fixture.submit().await;
    let delta = fixture.job(good).await.spec.delta;
    assert_eq!((first.place.look, first.place.cost, first.decision), (1, delta, None));
    // Nobody knows what it cost, so nothing that was certified on these rows can be relied on together.
    assert_eq!((second.place.look, second.place.cost, second.place.family_wise_confidence), (2, 1.0, 0.0));
}

/// The store is unavailable for a moment in the middle of a computation.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_read_for_a_moment_is_read_again() {
    let away = EngineError::from(StoreError::from(std::io::Error::from_raw_os_error(5)));
    assert!(matches!(away, EngineError::Unavailable(_)), "{away:?}");
    let damaged = EngineError::from(StoreError::damaged("a log", "its digest has changed"));
    assert!(matches!(damaged, EngineError::Log(_)), "{damaged:?}");
    let fixture = Fixture::new().await;
    let runner = script(move |job, _| match job.attempt {
        1 => Err(away.clone()),
        _ => Ok(finished(&job.spec)),
    });
    let workers = fixture.queue.start(runner).unwrap();
    let job = fixture.submit().await;
    let job = fixture.ended(job).await;
    assert_eq!((job.status, job.attempt), (JobStatus::Succeeded, 2), "{:?}", job.failure);
    workers.shutdown(LONG).await;
}

struct StoreAway;

#[async_trait]
impl Runner for StoreAway {
    async fn prepare(&self, _: &Job) -> Result<Prepared, RunError> {
        Err(RunError::Retry(JobFailure::new(FailureCode::DatasetUnreadable, "the store is unavailable")))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_are_bounded() {
    let fixture = Fixture::new().await;
    let workers = fixture.queue.start(Arc::new(StoreAway)).unwrap();
    let id = fixture.submit().await;
    let job = fixture.ended(id).await;
    assert_eq!((job.status, job.attempt), (JobStatus::Failed, 3));
    let failure = job.failure.unwrap();
    assert_eq!(failure.code, FailureCode::AttemptsExhausted);
    assert!(failure.message.contains("the store is unavailable"), "{}", failure.message);
    workers.shutdown(LONG).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_puts_running_jobs_back_uncounted() {
    let fixture = Fixture::new().await;
    let (sender, receiver) = mpsc::channel();
    let workers = fixture.queue.start(until_stopped(sender)).unwrap();
    let id = fixture.submit().await;
    assert_eq!(begun(&receiver), id);
    workers.shutdown(Duration::ZERO).await;
    let job = fixture.job(id).await;
    assert_eq!((job.status, job.attempt), (JobStatus::Queued, 0));
    let workers = fixture.queue.start(script(|job, _| Ok(finished(&job.spec)))).unwrap();
    let job = fixture.ended(id).await;
    assert_eq!((job.status, job.attempt), (JobStatus::Succeeded, 1));
    assert_eq!(fixture.kinds(id).await, ["queued", "started", "requeued", "started", "succeeded"]);
    workers.shutdown(LONG).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_lets_running_jobs_finish_and_starts_no_others() {
    let fixture = Fixture::new().await;
    let (steps, runner) = Steps::new();
    let workers = fixture.queue.start(runner).unwrap();
    let (running, waiting) = (fixture.submit().await, fixture.submit().await);
    assert_eq!(steps.wait_for_begin(), running);
    workers.drain();
    steps.go_on();
    workers.shutdown(LONG).await;
    assert_eq!(fixture.job(running).await.status, JobStatus::Succeeded);
    assert_eq!(fixture.job(waiting).await.status, JobStatus::Queued);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_process_died_runs_again_at_once() {
    let fixture = Fixture::new().await;
    let id = fixture.submit().await;
    // A process claims it with a long lease and disappears.
    fixture.store.repository().claim_job(&TERMS).await.unwrap().unwrap();
    let store = Store::open(fixture.directory.path()).await.unwrap();
    let _lock = store.take_over(fixture.directory.path()).await.unwrap();
    let queue = Queue::new(store, settings());
    let workers = queue.start(script(|job, _| Ok(finished(&job.spec)))).unwrap();
    let job = queue.wait(fixture.workspace(), id, LONG).await.unwrap();
    assert_eq!((job.status, job.attempt), (JobStatus::Succeeded, 2));
    workers.shutdown(LONG).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_written_while_a_job_runs() {
    let fixture = Fixture::new().await;
    let (sender, receiver) = mpsc::channel();
    let workers = fixture.queue.start(until_stopped(sender)).unwrap();
    let id = fixture.submit().await;
    begun(&receiver);
    let mut changes = fixture.queue.subscribe(id);
    let progress = loop {
        if let Some(progress) = fixture.job(id).await.progress.filter(|p| p.progress.phase == "learning") {
            break progress;
        }
        changes.changed().await;
    };
    assert_eq!(progress.progress.fraction, 0.5);
    fixture.queue.cancel(fixture.workspace(), id).await.unwrap();
    workers.shutdown(LONG).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_when_its_time_is_up() {
    let fixture = Fixture::new().await;
    let id = fixture.submit().await;
    let job = fixture.queue.wait(fixture.workspace(), id, Duration::ZERO).await.unwrap();
    assert_eq!(job.status, JobStatus::Queued);
    let foreign = fixture.queue.wait(&workspace("b"), id, LONG).await;
    assert!(matches!(foreign, Err(StoreError::NotFound(..))), "{foreign:?}");
}
