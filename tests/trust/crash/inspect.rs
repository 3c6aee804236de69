//! Compares the data directory of a killed server with what its clients were told.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use guarantor::store::{DatasetId, JobId, JobStatus, KeyHash, PolicyId, Store, Workspace};
use guarantor_engine::certificate::{SignatureState, check_signature};
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{Connection, Row, SqliteConnection};

use super::workload::{KnownDataset, Op, Worker};
use crate::common::receiver::Receiver;
use crate::common::{Client, eventually, files};

/// Jobs are stuck if none of them has changed its status, attempt or progress for this long.
const STUCK: Duration = Duration::from_secs(180);

pub struct Inspector {
    runtime: tokio::runtime::Runtime,
    directory: PathBuf,
    /// Jobs that have ended, as they were when this was first seen. An end never changes.
    ended: HashMap<String, String>,
    pub swept: usize,
    pub restarted: u64,
}

struct Rows {
    datasets: BTreeMap<String, KnownDataset>,
    /// With their digests and the jobs that learned them.
    policies: BTreeMap<String, (String, Option<String>)>,
    jobs: BTreeMap<String, JobRow>,
    blobs: BTreeMap<String, u64>,
    gates: BTreeSet<String>,
    /// The hashes of tokens, with the names of their gates.
    tokens: BTreeMap<String, String>,
}

struct JobRow {
    status: String,
    attempt: i64,
    snapshot: String,
    certificate: bool,
}

impl Inspector {
    pub fn new(directory: &Path) -> Inspector {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let directory = directory.to_owned();
        Inspector { runtime: runtime.unwrap(), directory, ended: HashMap::new(), swept: 0, restarted: 0 }
    }

    /// Checks everything that can be checked while no server runs. Returns the files that no row names.
    pub fn inspect(&mut self, workers: &[Worker], kill: u64) -> Vec<PathBuf> {
        let rows = self.runtime.block_on(read_rows(&self.directory));
        compare(&rows, workers, kill);
        let newly_ended = self.check_jobs(&rows, kill);
        let orphans = self.check_files(&rows, kill);
        self.runtime.block_on(check_contents(&self.directory, &rows, &newly_ended, kill));
        self.swept += orphans.len();
        orphans
    }

    /// The last check. Every request was answered, so the store must have exactly what was acknowledged.
    pub fn finish(&mut self, client: &Client, workers: &[Worker], kills: u64) {
        self.wait_for_all(client, workers);
        let rows = self.runtime.block_on(read_rows(&self.directory));
        compare(&rows, workers, kills);
        self.check_jobs(&rows, kills);
        let acknowledged: BTreeMap<&String, bool> =
            workers.iter().flat_map(|worker| worker.jobs.iter().map(|(id, c)| (id, *c))).collect();
        for (id, job) in &rows.jobs {
            assert!(is_end(&job.status), "job {id} is stuck: {}", job.snapshot);
            assert_ne!(job.status, "failed", "{}", job.snapshot);
            let cancelled = acknowledged[id];
            let expected = if cancelled { "cancelled" } else { "succeeded" };
            assert_eq!(job.status, expected, "{}", job.snapshot);
            assert!(job.attempt <= kills as i64 + 1, "{}", job.snapshot);
            self.restarted += u64::try_from(job.attempt - 1).unwrap_or(0);
        }
        let all: Vec<String> = rows.jobs.keys().cloned().collect();
        self.runtime.block_on(check_contents(&self.directory, &rows, &all, kills));
        for token in workers.iter().flat_map(|worker| worker.gates.values().flat_map(BTreeMap::values)) {
            // Whether the gate is open depends on its jobs; it must be there.
            let answer = client.get(&format!("/v1/gate/{token}"));
            assert!(matches!(answer.status, 200 | 403 | 409 | 424), "{}", answer.text);
        }
        let orphans = self.check_files(&rows, kills);
        assert!(orphans.is_empty(), "an idle server has files that no row names: {orphans:?}");
    }

    /// Waits until every event is delivered. The receiver must have got exactly one event id for every job that has ended,
    /// with the end that the store has. Returns the number of events, and how many were sent more than once.
    pub fn check_events(&self, client: &Client, receiver: &Receiver) -> (usize, usize) {
        let pending = || {
            let metrics = client.get("/metrics").text;
            let line = metrics.lines().find(|line| line.starts_with("guarantor_webhook_deliveries_pending "));
            line.and_then(|line| line.split(' ').nth(1)).unwrap().to_owned()
        };
        // Retries of attempts that failed near the end would be due within minutes only.
        eventually(
            || {
                self.runtime.block_on(hurry(&self.directory));
                pending()
            },
            &"0".to_owned(),
        );
        let rows = self.runtime.block_on(read_rows(&self.directory));
        let mut told: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut sent: BTreeMap<String, (usize, String)> = BTreeMap::new();
        for request in receiver.received() {
            let event = request.json();
            let job = event["data"]["job_id"].as_str().unwrap().to_owned();
            assert_eq!(event["id"], request.event_id());
            assert_eq!(event["data"]["status"], rows.jobs[&job].status, "{event}");
            told.entry(job).or_default().insert(request.event_id().to_owned());
            let (times, body) =
                sent.entry(request.event_id().to_owned()).or_insert((0, request.body.clone()));
            assert_eq!(*body, request.body, "an event has changed between two attempts");
            *times += 1;
        }
        for id in rows.jobs.keys() {
            let ids = told.get(id).map_or(0, BTreeSet::len);
            assert_eq!(ids, 1, "events of job {id}: {:?}", told.get(id));
        }
        assert_eq!(told.len(), rows.jobs.len());
        (sent.len(), sent.values().filter(|(times, _)| *times > 1).count())
    }

    /// Waits until every job has ended, however long that takes, as long as there is progress.
    fn wait_for_all(&self, client: &Client, workers: &[Worker]) {
        let mut open: BTreeMap<&String, String> =
            workers.iter().flat_map(|worker| worker.jobs.keys()).map(|id| (id, String::new())).collect();
        let mut moved = Instant::now();
        while !open.is_empty() {
            let mut wait = "?wait=1";
            open.retain(|id, seen| {
                let job = client.get(&format!("/v1/jobs/{id}{wait}")).expect(200);
                wait = "";
                // Without the elapsed time, which also changes for a stuck job.
                let fraction = &job["progress"]["fraction"];
                let now =
                    format!("{} {} {} {fraction}", job["status"], job["attempt"], job["progress"]["epoch"]);
                if now != *seen {
                    (*seen, moved) = (now, Instant::now());
                }
                matches!(job["status"].as_str(), Some("queued" | "running"))
            });
            if moved.elapsed() > STUCK {
                let rows = self.runtime.block_on(unfinished(&self.directory));
                panic!("no job has made progress for {} s: {}", STUCK.as_secs(), rows.join("; "));
            }
        }
    }

    /// An end is written once, together with its events and its policy, and never changes. Returns the jobs
    /// that have ended since the last check.
    fn check_jobs(&mut self, rows: &Rows, kill: u64) -> Vec<String> {
        let mut learned: HashMap<&String, u32> = HashMap::new();
        for job in rows.policies.values().filter_map(|(_, job)| job.as_ref()) {
            *learned.entry(job).or_default() += 1;
        }
        let mut newly = Vec::new();
        for (id, job) in &rows.jobs {
            let policies = learned.get(id).copied().unwrap_or(0);
            let succeeded = job.status == "succeeded";
            assert_eq!(policies, u32::from(succeeded), "after kill {kill}: policies of {}", job.snapshot);
            assert_eq!(job.certificate, succeeded, "after kill {kill}: {}", job.snapshot);
            if !is_end(&job.status) {
                assert!(
                    !self.ended.contains_key(id),
                    "after kill {kill}: {id} has ended before and runs again: {}",
                    job.snapshot
                );
            } else if let Some(before) = self.ended.get(id) {
                assert_eq!(before, &job.snapshot, "after kill {kill}: the end of {id} has changed");
            } else {
                self.ended.insert(id.clone(), job.snapshot.clone());
                newly.push(id.clone());
            }
        }
        newly
    }

    fn check_files(&self, rows: &Rows, kill: u64) -> Vec<PathBuf> {
        let root = self.directory.join("blobs");
        let found = files(&root).into_iter().map(|(file, bytes)| (PathBuf::from(file), bytes));
        let mut found: BTreeMap<PathBuf, u64> = found.collect();
        for (key, bytes) in &rows.blobs {
            let file = found.remove(&root.join(key));
            assert_eq!(file, Some(*bytes), "after kill {kill}: the file {key}");
        }
        found.into_keys().collect()
    }
}

fn is_end(status: &str) -> bool {
    JobStatus::from_name(status).unwrap().is_finished()
}

async fn read_rows(directory: &Path) -> Rows {
    let options = SqliteConnectOptions::new().filename(directory.join("guarantor.sqlite"));
    let mut db = SqliteConnection::connect_with(&options).await.unwrap();
    let check: String = sqlx::query("PRAGMA integrity_check").fetch_one(&mut db).await.unwrap().get(0);
    assert_eq!(check, "ok");
    let datasets = "SELECT d.id, d.version, v.row_count, v.digest FROM datasets d \
                    JOIN dataset_versions v ON v.dataset_id = d.id AND v.version = d.version";
    // A job that has ended has one terminal event, which is its last. Others have none.
    let jobs = "SELECT j.*, (SELECT COUNT(*) FROM job_events e WHERE e.job_id = j.id AND e.kind IN \
                ('succeeded', 'failed', 'cancelled')) AS ends, (SELECT kind FROM job_events e WHERE \
                e.job_id = j.id ORDER BY e.id DESC LIMIT 1) AS last, (SELECT COUNT(*) FROM ledger l WHERE \
                l.job_id = j.id) AS looks, (SELECT COUNT(*) FROM deliveries d WHERE d.subject = 'jobs/' || j.id) \
                AS deliveries FROM jobs j";
    let text = |row: &SqliteRow, name: &str| row.get::<String, _>(name);
    let rows = Rows {
        datasets: (sqlx::query(datasets).fetch_all(&mut db).await.unwrap().iter())
            .map(|row| {
                let (rows, version): (i64, i64) = (row.get("row_count"), row.get("version"));
                let known =
                    KnownDataset { rows: rows as u64, version: version as u64, digest: text(row, "digest") };
                (text(row, "id"), known)
            })
            .collect(),
        policies: (sqlx::query("SELECT * FROM policies").fetch_all(&mut db).await.unwrap().iter())
            .map(|row| (text(row, "id"), (text(row, "digest"), row.get("source_job_id"))))
            .collect(),
        jobs: (sqlx::query(jobs).fetch_all(&mut db).await.unwrap().iter())
            .map(|row| (text(row, "id"), job_row(row)))
            .collect(),
        blobs: (sqlx::query("SELECT * FROM blobs").fetch_all(&mut db).await.unwrap().iter())
            .map(|row| (text(row, "key"), row.get::<i64, _>("bytes") as u64))
            .collect(),
        gates: (sqlx::query("SELECT * FROM gates").fetch_all(&mut db).await.unwrap().iter())
            .map(|row| text(row, "name"))
            .collect(),
        tokens: (sqlx::query("SELECT t.hash, g.name FROM gate_tokens t JOIN gates g ON g.id = t.gate_id")
            .fetch_all(&mut db)
            .await
            .unwrap()
            .iter())
        .map(|row| (text(row, "hash"), text(row, "name")))
        .collect(),
    };
    db.close().await.unwrap();
    rows
}

/// Makes every delivery that waits due, so that the test does not wait for the times of the schedule.
async fn hurry(directory: &Path) {
    let options = SqliteConnectOptions::new().filename(directory.join("guarantor.sqlite"));
    let mut db = SqliteConnection::connect_with(&options).await.unwrap();
    let due = "UPDATE deliveries SET next_at = created_at WHERE next_at > created_at";
    sqlx::query(due).execute(&mut db).await.unwrap();
    db.close().await.unwrap();
}

/// What the store knows about the jobs that have not ended.
async fn unfinished(directory: &Path) -> Vec<String> {
    let options = SqliteConnectOptions::new().filename(directory.join("guarantor.sqlite")).read_only(true);
    let mut db = SqliteConnection::connect_with(&options).await.unwrap();
    let query = "SELECT id || ' ' || status || ', attempt ' || attempt || ', lease ' || \
                 COALESCE(lease_until / 1000000.0 - unixepoch('subsec'), 'none') || ' s, ' || \
                 COALESCE(progress, 'no progress') FROM jobs WHERE status IN ('queued', 'running')";
    let rows = sqlx::query(query).fetch_all(&mut db).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

fn job_row(row: &SqliteRow) -> JobRow {
    let status: String = row.get("status");
    let (ends, last): (i64, String) = (row.get("ends"), row.get("last"));
    let (attempt, finished): (i64, Option<i64>) = (row.get("attempt"), row.get("finished_at"));
    let result: Option<String> = row.get("result");
    let failure: Option<String> = row.get("failure");
    let id: String = row.get("id");
    let snapshot = format!("{id} {status} {attempt} {finished:?} {result:?} {failure:?}");
    assert_eq!(ends, i64::from(is_end(&status)), "terminal events of {snapshot}");
    // A job that was canceled after it had shown its bound is also a look.
    let shown = status == "cancelled" && row.get::<i64, _>("shown") == 1;
    let looks = i64::from(status == "succeeded" || shown);
    assert_eq!(row.get::<i64, _>("looks"), looks, "ledger entries of {snapshot}");
    assert_eq!(row.get::<i64, _>("deliveries"), ends, "deliveries of {snapshot}");
    assert!(!is_end(&status) || last == status, "the last event of {snapshot} is {last}");
    JobRow { status, attempt, snapshot, certificate: row.get::<Option<String>, _>("certificate").is_some() }
}

/// Everything that was acknowledged is stored, and everything that is stored was acknowledged or requested by
/// an open request.
fn compare(rows: &Rows, workers: &[Worker], kill: u64) {
    let mut unexplained: BTreeSet<&String> = rows.datasets.keys().collect();
    let mut unknown_policies: BTreeSet<&String> =
        rows.policies.iter().filter(|(_, (_, job))| job.is_none()).map(|(id, _)| id).collect();
    let mut unknown_jobs: BTreeSet<&String> = rows.jobs.keys().collect();
    let mut open_uploads: Vec<u64> = Vec::new();
    let (mut open_policies, mut open_jobs) = (0, 0);
    let mut unknown_gates: BTreeSet<&String> = rows.gates.iter().collect();
    for worker in workers {
        let open = worker.pending.as_ref().map(|pending| &pending.op);
        match open {
            Some(Op::Upload { n, .. }) => open_uploads.push(*n),
            Some(Op::Policy { .. }) => open_policies += 1,
            Some(Op::Job { .. }) => open_jobs += 1,
            Some(Op::Gate { gate, .. }) => {
                unknown_gates.remove(gate);
            }
            _ => {}
        }
        for (gate, tokens) in &worker.gates {
            let deleting = matches!(open, Some(Op::DeleteGate { gate: open }) if open == gate);
            let found = unknown_gates.remove(gate);
            assert!(found || deleting, "after kill {kill}: gate {gate} is lost");
            for (id, token) in tokens.iter().filter(|_| found) {
                let revoking = matches!(open, Some(Op::RevokeToken { id: open, .. }) if open == id);
                let stored = rows.tokens.get(&KeyHash::of(token).to_hex());
                assert!(
                    stored == Some(gate) || (revoking && stored.is_none()),
                    "after kill {kill}: token {id}"
                );
            }
        }
        for (id, known) in &worker.datasets {
            unexplained.remove(id);
            let found = rows.datasets.get(id);
            let whole = found == Some(known);
            let explained = match open {
                Some(Op::DeleteDataset { dataset }) if dataset == id => whole || found.is_none(),
                Some(Op::Append { dataset, n, .. }) if dataset == id => {
                    let appended = (known.rows + n, known.version + 1);
                    whole || found.is_some_and(|found| (found.rows, found.version) == appended)
                }
                Some(Op::Candidates { dataset, .. }) if dataset == id => {
                    let added = (known.rows, known.version + 1);
                    whole || found.is_some_and(|found| (found.rows, found.version) == added)
                }
                _ => whole,
            };
            assert!(explained, "after kill {kill}: dataset {id} was {known:?}, is {found:?}; open: {open:?}");
        }
        for (id, digest) in &worker.policies {
            unknown_policies.remove(id);
            let found = rows.policies.get(id).map(|(digest, _)| digest);
            let deleting = matches!(open, Some(Op::DeletePolicy { policy }) if policy == id);
            assert!(found == Some(digest) || (deleting && found.is_none()), "after kill {kill}: policy {id}");
        }
        for id in worker.jobs.keys() {
            assert!(unknown_jobs.remove(id), "after kill {kill}: job {id} is lost");
        }
    }
    for id in unexplained {
        let n = rows.datasets[id].rows;
        let place = open_uploads.iter().position(|open| *open == n);
        open_uploads
            .remove(place.unwrap_or_else(|| panic!("after kill {kill}: nobody uploaded dataset {id}")));
    }
    assert!(unknown_gates.is_empty(), "after kill {kill}: nobody created {unknown_gates:?}");
    assert!(unknown_policies.len() <= open_policies, "after kill {kill}: {unknown_policies:?}");
    assert!(unknown_jobs.len() <= open_jobs, "after kill {kill}: {unknown_jobs:?}");
}

/// Reads every log, every policy and the certificates of `jobs`, and checks their digests and signatures.
async fn check_contents(directory: &Path, rows: &Rows, jobs: &[String], kill: u64) {
    let store = Store::open(directory).await.unwrap();
    let (ws, keys) = (Workspace::default(), store.public_keys().await.unwrap());
    for id in rows.datasets.keys() {
        let dataset = store.repository().dataset(&ws, id.parse::<DatasetId>().unwrap()).await.unwrap();
        let decoded = store.fetch_log(&dataset).await.unwrap().decode();
        let rows = decoded.unwrap_or_else(|error| panic!("after kill {kill}: {error}")).rows();
        assert_eq!(rows as u64, dataset.content.rows);
    }
    for id in rows.policies.keys() {
        let policy = store.repository().policy(&ws, id.parse::<PolicyId>().unwrap()).await.unwrap();
        store.policy_params(&policy).await.unwrap();
    }
    for id in jobs {
        let job = store.repository().job(&ws, id.parse::<JobId>().unwrap()).await.unwrap();
        // As it is served: checked against the digest in the ledger, with its ledger entry and signature.
        let document =
            store.document(&job).await.unwrap_or_else(|error| panic!("after kill {kill}: {error}"));
        assert_eq!(
            document.as_ref().map(|d| d.certificate.decision),
            job.result.map(|result| result.decision)
        );
        let Some(document) = document else { continue };
        let state = check_signature(&serde_json::to_value(&document).unwrap(), &keys);
        assert!(matches!(state, SignatureState::Valid { .. }), "after kill {kill}: {id}: {state:?}");
    }
}
