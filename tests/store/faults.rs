//! Faults inside the engine and between the engine and the store, each on a log whose decision is `deploy`
//! without the fault. With the fault, no decision may be `deploy`.

use crate::support;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use guarantor::queue::{Prepared, Queue, QueueSettings, RunError, Runner};
use guarantor::store::{Job, JobId, JobStatus, LeaseTerms, Store, StoreError};
use guarantor_engine::certificate::Decision;
use guarantor_engine::control::{Control, unattended};
use guarantor_engine::log::{Chunk, ChunkSets, Columns, LogShape, LogSource, Logging, MemoryLog};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{BoundKind, Candidate, JobSpec, PolicyShape, SpecContext, SpecRequest};
use guarantor_engine::{self, EngineError, Finished, Inputs};
use ndarray::CowArray;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, SqliteConnection};
use support::{dataset, finished, new_job, store};

const LONG: Duration = Duration::from_secs(60);
const ACTIONS: usize = 3;

/// A uniform log over three actions, in three chunks; the sign of the first feature tells the best action.
fn columns() -> Columns {
    let rows = 2100;
    let mut columns = Columns {
        n_actions: ACTIONS,
        dim: 2,
        full: Some(vec![1.0 / 3.0; rows * ACTIONS]),
        logging: Logging::Fixed,
        ..Columns::default()
    };
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    for _ in 0..rows {
        let x = [random() as f32 - 0.5, random() as f32 - 0.5];
        let action = (random() * 3.0) as u32;
        let right = if x[0] > 0.0 { 1 } else { 2 };
        columns.x.extend(x);
        columns.actions.push(action);
        columns.costs.push(if action == right { -1.0 } else { 0.0 });
        columns.propensities.push(1.0 / 3.0);
    }
    columns
}

/// A good policy, for evaluations.
fn policy() -> PolicyParams {
    let mean = vec![vec![0.0, 40.0, -40.0], vec![0.0; 3]];
    PolicyParams::Softmax { mean, inverse_temperature: 1.0, features: Default::default() }
}

/// What is done to a chunk; `None` is a chunk that cannot be read.
type Change = Option<fn(&mut Chunk<'_>)>;

/// Faults that no valid log can have.
const VISIBLE: &[(&str, Change)] = &[
    ("a NaN in the features", Some(|c| c.x[(0, 0)] = f32::NAN)),
    ("an infinite feature", Some(|c| c.x[(0, 1)] = f32::INFINITY)),
    ("a NaN cost", Some(|c| c.costs.to_mut()[0] = f64::NAN)),
    ("a cost above 0", Some(|c| c.costs.to_mut()[0] = 0.5)),
    ("a cost below -1", Some(|c| c.costs.to_mut()[0] = -1e6)),
    ("a NaN propensity", Some(|c| c.propensities.to_mut()[0] = f64::NAN)),
    ("a propensity of 0", Some(|c| c.propensities.to_mut()[0] = 0.0)),
    ("a propensity above 1", Some(|c| c.propensities.to_mut()[0] = 1.5)),
    ("an action that does not exist", Some(|c| c.actions.to_mut()[0] = ACTIONS as u32)),
    ("the last action there could be", Some(|c| c.actions.to_mut()[0] = u32::MAX)),
    ("a weight of 0", Some(|c| c.weights.to_mut()[0] = 0.0)),
    ("a weight above 1", Some(|c| c.weights.to_mut()[0] = 7.0)),
    ("a NaN among all propensities", Some(|c| c.full.as_mut().unwrap()[(0, 0)] = f64::NAN)),
    ("a chunk without its last row", Some(|c| truncate(c, c.rows() - 1))),
    ("a chunk of half its rows", Some(|c| truncate(c, c.rows() / 2))),
    ("costs that are too few", Some(|c| c.costs.to_mut().truncate(1))),
    ("offsets that do not fit", Some(|c| c.offsets.to_mut()[1] = u32::MAX)),
    ("a disk that fails", None),
];

/// Changes that give another valid log: only a comparison with the first reading can notice them.
const INVISIBLE: &[(&str, Change)] = &[
    ("every cost is the best", Some(|c| c.costs.to_mut().fill(-1.0))),
    ("one cost is better", Some(|c| flip_one(c.costs.to_mut()))),
    ("propensities are halved", Some(|c| c.propensities.to_mut().iter_mut().for_each(|p| *p /= 2.0))),
    ("the features change sides", Some(|c| c.x.mapv_inplace(|v| -v))),
    ("one feature changes its last bit", Some(|c| c.x[(3, 1)] = f32::from_bits(c.x[(3, 1)].to_bits() ^ 1))),
    ("the actions move on by one", Some(|c| c.actions.to_mut().iter_mut().for_each(|a| *a = (*a + 1) % 3))),
    ("two rows change places", Some(swap)),
];

fn flip_one(costs: &mut [f64]) {
    if let Some(cost) = costs.iter_mut().find(|cost| **cost == 0.0) {
        *cost = -1.0;
    }
}

fn swap(chunk: &mut Chunk<'_>) {
    let first = chunk.actions[0];
    let other = chunk.actions.iter().position(|a| *a != first).unwrap();
    chunk.actions.to_mut().swap(0, other);
    chunk.costs.to_mut().swap(0, other);
}

fn truncate(chunk: &mut Chunk<'_>, rows: usize) {
    chunk.x = CowArray::from(chunk.x.slice(ndarray::s![..rows, ..]).to_owned());
    chunk.full = chunk.full.take().map(|full| CowArray::from(full.slice(ndarray::s![..rows, ..]).to_owned()));
    chunk.ordinals.to_mut().truncate(rows);
    chunk.arrivals.to_mut().truncate(rows);
    chunk.offsets.to_mut().truncate(rows + 1);
    chunk.actions.to_mut().truncate(rows);
    for column in [&mut chunk.costs, &mut chunk.propensities, &mut chunk.weights] {
        column.to_mut().truncate(rows);
    }
}

/// A valid log whose chunk 1 is changed from the `from`-th reading on, until it heals.
struct Faulty {
    log: MemoryLog,
    change: Change,
    from: usize,
    until: usize,
    read: AtomicUsize,
}

impl Faulty {
    fn was_shown(&self) -> bool {
        self.read.load(Ordering::SeqCst) > self.from
    }
}

impl LogSource for Faulty {
    fn shape(&self) -> &LogShape {
        self.log.shape()
    }

    fn chunks(&self) -> usize {
        self.log.chunks()
    }

    fn chunk(&self, index: usize) -> guarantor_engine::Result<Chunk<'_>> {
        let chunk = self.log.chunk(index)?;
        if index != 1 || !(self.from..self.until).contains(&self.read.fetch_add(1, Ordering::SeqCst)) {
            return Ok(chunk);
        }
        let mut chunk = Chunk {
            sets: chunk.sets.map(|sets| {
                ChunkSets::owned(sets.view().to_sets(0..sets.view().rows()), sets.view().width())
            }),
            x: CowArray::from(chunk.x.to_owned()),
            ordinals: Cow::Owned(chunk.ordinals.into_owned()),
            arrivals: Cow::Owned(chunk.arrivals.into_owned()),
            offsets: Cow::Owned(chunk.offsets.into_owned()),
            actions: Cow::Owned(chunk.actions.into_owned()),
            costs: Cow::Owned(chunk.costs.into_owned()),
            outcomes: chunk.outcomes.into_iter().map(|c| Cow::Owned(c.into_owned())).collect(),
            propensities: Cow::Owned(chunk.propensities.into_owned()),
            weights: Cow::Owned(chunk.weights.into_owned()),
            full: chunk.full.map(|full| CowArray::from(full.into_owned())),
            candidates: Vec::new(),
            candidate_full: Vec::new(),
            last_version: None,
        };
        let change = self.change.ok_or(EngineError::Log("an input/output error".into()))?;
        change(&mut chunk);
        Ok(chunk)
    }
}

/// One job of each kind: three ways to learn, and a given policy.
fn jobs(shape: &LogShape) -> Vec<(&'static str, JobSpec)> {
    let of_policy = |_: &str| Some(PolicyShape::of(&policy()));
    let context =
        SpecContext { shape, logging_policy: None, policy: &of_policy, seen_rows: 0, caller: "a test" };
    let learn = |bound| SpecRequest { bound: Some(bound), ..SpecRequest::default() };
    let evaluate = SpecRequest {
        candidates: Some(vec![Candidate::Policy { policy_id: "given".into() }]),
        independent_of_log: Some(true),
        ..SpecRequest::default()
    };
    [
        ("auto", learn(BoundKind::Auto)),
        ("betting", learn(BoundKind::Betting)),
        ("cbb", learn(BoundKind::Cbb)),
        ("evaluate", evaluate),
    ]
    .map(|(name, request)| (name, request.resolve(&context).unwrap()))
    .to_vec()
}

fn run(spec: &JobSpec, log: &dyn LogSource) -> guarantor_engine::Result<Finished> {
    let policies = BTreeMap::from([("given".to_owned(), policy())]);
    let inputs = Inputs {
        log,
        logging_policy: None,
        policies: &policies,
        dataset_version: 1,
        dataset_digest: "sha256:00",
        log_checks: None,
    };
    guarantor_engine::run(spec, &inputs, &unattended())
}

#[test]
fn no_fault_in_the_log_ends_in_deploy() {
    let sound = MemoryLog::new(columns()).unwrap();
    assert_eq!(sound.chunks(), 3);
    let mut shown = 0;
    for (job, spec) in jobs(sound.shape()) {
        assert_eq!(
            run(&spec, &sound).unwrap().certificate.decision,
            Decision::Deploy,
            "{job} without a fault"
        );
        // From the first reading on, if that can be noticed at all; from the second; and late.
        let visible = VISIBLE.iter().flat_map(|fault| [(fault, 0), (fault, 3)]);
        let invisible = INVISIBLE.iter().flat_map(|fault| [(fault, 1), (fault, 4)]);
        let lasting = visible.chain(invisible).map(|(fault, from)| (fault, from, usize::MAX));
        // In the second reading only: all of these jobs that learn use a split, which must not see rows
        // that the certificate does not.
        let healing = INVISIBLE.iter().map(|fault| (fault, 1, 2));
        for ((name, change), from, until) in lasting.chain(healing) {
            let log = MemoryLog::new(columns()).unwrap();
            let faulty = Faulty { log, change: *change, from, until, read: AtomicUsize::new(0) };
            let ending = run(&spec, &faulty);
            if !faulty.was_shown() {
                continue;
            }
            shown += 1;
            // A fault in the last reading is an error, and an error deploys nothing.
            let decided = ending.map(|finished| finished.certificate.decision);
            assert_ne!(
                decided.as_ref().ok(),
                Some(&Decision::Deploy),
                "{job}: {name} from reading {from} to {until}"
            );
        }
    }
    assert!(shown > 150, "only {shown} faults were ever read");
}

#[test]
fn a_stopped_job_certifies_nothing() {
    let log = MemoryLog::new(columns()).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    for (job, spec) in jobs(log.shape()) {
        for phase in ["preparing", "learning", "certifying"] {
            stop.store(false, Ordering::SeqCst);
            let report = |progress: guarantor_engine::control::Progress| {
                if progress.phase == phase {
                    stop.store(true, Ordering::SeqCst);
                }
            };
            let policies = BTreeMap::from([("given".to_owned(), policy())]);
            let inputs = Inputs {
                log: &log,
                logging_policy: None,
                policies: &policies,
                dataset_version: 1,
                dataset_digest: "sha256:00",
                log_checks: None,
            };
            let ending = guarantor_engine::run(&spec, &inputs, &Control::new(&stop, &report));
            if stop.load(Ordering::SeqCst) {
                assert_eq!(ending.err(), Some(EngineError::Cancelled), "{job} stopped when {phase}");
            }
        }
    }
}

/// A worker that decides `deploy` when it is told to.
struct Late {
    began: Mutex<mpsc::Sender<JobId>>,
    go: Arc<Mutex<mpsc::Receiver<()>>>,
}

#[async_trait]
impl Runner for Late {
    async fn prepare(&self, job: &Job) -> Result<Prepared, RunError> {
        self.began.lock().unwrap().send(job.id).unwrap();
        let (go, spec) = (self.go.clone(), job.spec.clone());
        Ok(Box::new(move |_| {
            // It ignores the flag that asks it to stop.
            go.lock().unwrap().recv_timeout(LONG).unwrap();
            let mut finished = finished(&spec);
            finished.certificate.decision = Decision::Deploy;
            finished.certificate.digest = finished.certificate.content_digest().unwrap();
            Ok(finished)
        }))
    }
}

struct Scene {
    _directory: tempfile::TempDir,
    store: Store,
    queue: Queue,
    database: SqliteConnection,
    job: Job,
    began: mpsc::Receiver<JobId>,
    go: mpsc::Sender<()>,
    runner: Arc<Late>,
}

impl Scene {
    async fn new() -> Scene {
        let (directory, store) = store().await;
        let settings = QueueSettings {
            workers: 1,
            threads_per_job: 1,
            lease: LONG,
            poll: Duration::from_millis(20),
            tick: Duration::from_millis(10),
            ..QueueSettings::default()
        };
        let queue = Queue::new(store.clone(), settings);
        let dataset = dataset(store.repository(), "a").await;
        let (began, has_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel();
        let runner = Arc::new(Late { began: Mutex::new(began), go: Arc::new(Mutex::new(may_go)) });
        let database = database(directory.path()).await;
        let job = queue.submit(new_job(&dataset)).await.unwrap();
        Scene { _directory: directory, store, queue, database, job, began: has_begun, go, runner }
    }

    fn wait_for_begin(&self) {
        let begun = tokio::task::block_in_place(|| self.began.recv_timeout(LONG).unwrap());
        assert_eq!(begun, self.job.id);
    }

    async fn now(&self) -> Job {
        self.store.repository().job(&self.job.workspace, self.job.id).await.unwrap()
    }

    /// Changes the times in the database as if the clock had jumped by `seconds`.
    async fn jump(&mut self, seconds: i64) {
        for times in [
            "UPDATE jobs SET created_at = created_at - $1, queued_at = queued_at - $1, started_at = started_at - $1, lease_until = lease_until - $1",
            "UPDATE requests SET pending_until = pending_until - $1, expires_at = expires_at - $1",
            "UPDATE job_events SET created_at = created_at - $1",
        ] {
            sqlx::query(times).bind(seconds * 1_000_000).execute(&mut self.database).await.unwrap();
        }
    }
}

async fn database(directory: &Path) -> SqliteConnection {
    let file = directory.join("guarantor.sqlite");
    let options = SqliteConnectOptions::new().filename(file).busy_timeout(LONG);
    SqliteConnection::connect_with(&options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deploy_from_a_worker_without_its_lease_is_ignored() {
    let scene = Scene::new().await;
    let workers = scene.queue.start(scene.runner.clone()).unwrap();
    scene.wait_for_begin();
    // Another process finds that the lease has expired and takes the job; heartbeats may come in between.
    let (repository, terms) = (scene.store.repository(), LeaseTerms { duration: LONG, max_attempts: 3 });
    let stolen = loop {
        repository.end_all_leases().await.unwrap();
        if !repository.expire_leases(&terms).await.unwrap().is_empty() {
            break repository.claim_job(&terms).await.unwrap().unwrap();
        }
    };
    scene.go.send(()).unwrap();
    workers.shutdown(LONG).await;
    let job = scene.now().await;
    assert_eq!((job.status, job.attempt, job.result), (JobStatus::Running, 2, None));
    assert!(scene.store.certificate(&scene.now().await).await.unwrap().is_none());
    assert!(scene.store.blobs().keys().await.unwrap().is_empty(), "no files may be left either");
    assert_eq!(stolen.job.id, job.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_ahead_costs_an_attempt_and_nothing_else() {
    let mut scene = Scene::new().await;
    let workers = scene.queue.start(scene.runner.clone()).unwrap();
    scene.wait_for_begin();
    // A day ahead, repeated until it falls between two heartbeats and a second server notices.
    let (store, terms) = (scene.store.clone(), LeaseTerms { duration: LONG, max_attempts: 3 });
    loop {
        scene.jump(86_400).await;
        if !store.repository().expire_leases(&terms).await.unwrap().is_empty() {
            break;
        }
    }
    // The first worker's result comes from before the jump. The job runs again and ends once.
    scene.go.send(()).unwrap();
    scene.wait_for_begin();
    assert_eq!(scene.now().await.result, None, "the result without a lease was written");
    scene.go.send(()).unwrap();
    let job = scene.queue.wait(&scene.job.workspace, scene.job.id, LONG).await.unwrap();
    assert_eq!((job.status, job.attempt), (JobStatus::Succeeded, 2));
    let ends = scene.store.repository().job_events(&job.workspace, job.id, 0, 1000).await.unwrap();
    assert_eq!(ends.iter().filter(|event| event.kind == "succeeded").count(), 1);
    workers.shutdown(LONG).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_back_changes_nothing() {
    let mut scene = Scene::new().await;
    let workers = scene.queue.start(scene.runner.clone()).unwrap();
    scene.wait_for_begin();
    scene.jump(-86_400).await;
    // It was submitted later but has an earlier time: it still waits for its turn.
    let dataset = scene.store.repository().dataset(&scene.job.workspace, scene.job.dataset_id).await.unwrap();
    let second = scene.queue.submit(new_job(&dataset)).await.unwrap();
    assert!(second.created_at < scene.now().await.created_at, "the clock did not jump");
    scene.go.send(()).unwrap();
    let job = scene.queue.wait(&scene.job.workspace, scene.job.id, LONG).await.unwrap();
    assert_eq!((job.status, job.attempt), (JobStatus::Succeeded, 1));
    // By the clock it ended before it started, but no reported duration is negative.
    assert!(job.finished_at < job.started_at);
    assert_eq!(job.finished_at.unwrap().seconds_since(job.started_at.unwrap()), 0.0);
    let begun = tokio::task::block_in_place(|| scene.began.recv_timeout(LONG).unwrap());
    assert_eq!(begun, second.id);
    scene.go.send(()).unwrap();
    let next = scene.queue.wait(&scene.job.workspace, second.id, LONG).await.unwrap();
    assert_eq!((next.status, next.attempt), (JobStatus::Succeeded, 1));
    let place = scene.store.repository().look_of_job(&job.workspace, second.id).await.unwrap().unwrap().place;
    assert_eq!(place.look, 2, "looks follow each other, whatever the clock says");
    workers.shutdown(LONG).await;
}

#[tokio::test]
async fn full_and_read_only_are_told_apart() {
    use std::io::{Error, ErrorKind};
    let (directory, _store) = store().await;
    let mut database = database(directory.path()).await;
    let fill = "CREATE TABLE filler AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
                SELECT randomblob(4096) AS bytes FROM n";
    sqlx::query("PRAGMA max_page_count = 1").execute(&mut database).await.unwrap();
    let full = sqlx::query(fill).execute(&mut database).await.unwrap_err();
    assert!(matches!(StoreError::from(full), StoreError::Full(_)));
    sqlx::query("PRAGMA query_only = ON").execute(&mut database).await.unwrap();
    let read_only = sqlx::query(fill).execute(&mut database).await.unwrap_err();
    assert!(matches!(StoreError::from(read_only), StoreError::ReadOnly(_)));
    let wrapped = |kind: ErrorKind| {
        let source = Box::new(Error::from(kind));
        StoreError::from(object_store::Error::Generic { store: "test", source })
    };
    for (kind, plain) in [(ErrorKind::StorageFull, 28), (ErrorKind::QuotaExceeded, 122)] {
        assert!(matches!(StoreError::from(Error::from_raw_os_error(plain)), StoreError::Full(_)), "{kind}");
        assert!(matches!(wrapped(kind), StoreError::Full(_)), "{kind}");
    }
    for (kind, plain) in [(ErrorKind::ReadOnlyFilesystem, 30), (ErrorKind::PermissionDenied, 13)] {
        assert!(
            matches!(StoreError::from(Error::from_raw_os_error(plain)), StoreError::ReadOnly(_)),
            "{kind}"
        );
        assert!(matches!(wrapped(kind), StoreError::ReadOnly(_)), "{kind}");
    }
    assert!(StoreError::from(Error::from_raw_os_error(28)).is_unwritable());
    assert!(!StoreError::from(Error::from_raw_os_error(5)).is_unwritable());
}
