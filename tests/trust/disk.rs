//! A full disk and a read-only one: clear responses, nothing half-stored, and recovery without a restart.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use guarantor::queue::{Prepared, Queue, QueueSettings, RunError, Runner};
use guarantor::store::{Job, JobStatus, Store};
use guarantor_engine::control::Progress;
use serde_json::{Value, json};

use crate::common::{Answer, Client, Server, files, id_of, log};
use crate::support::{dataset, finished, new_job};

const LONG: Duration = Duration::from_secs(120);

/// A test that cannot run must not look as if it had passed. It fails, unless `GUARANTOR_NO_DISK_TESTS=1` says
/// that this machine can neither mount a file system nor run the binary as another user.
fn cannot_run(why: String) {
    assert!(
        std::env::var_os("GUARANTOR_NO_DISK_TESTS").is_some(),
        "{why}; set GUARANTOR_NO_DISK_TESTS=1 to skip this test"
    );
    println!("NOT TESTED HERE: {why}");
}

/// A file system of a few megabytes that is unmounted when dropped.
struct SmallDisk {
    place: tempfile::TempDir,
}

impl SmallDisk {
    /// None if mounting is not allowed.
    fn mount(megabytes: u32) -> Option<SmallDisk> {
        let place = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m,mode=755");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(place.path()).output();
        match mount {
            Ok(output) if output.status.success() => Some(SmallDisk { place }),
            other => {
                cannot_run(format!("cannot mount a file system ({other:?})"));
                None
            }
        }
    }

    fn data(&self) -> PathBuf {
        self.place.path().join("data")
    }

    /// Uses all the space but `left` bytes.
    fn fill(&self, left: u64) -> PathBuf {
        let path = self.place.path().join("filler");
        let mut file = File::create(&path).unwrap();
        while file.write_all(&[7; 4096]).is_ok() {}
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(left)).unwrap();
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(self.place.path()).status();
        if !std::thread::panicking() {
            assert!(unmounted.unwrap().success());
        }
    }
}

fn upload_keyed(client: &Client, key: &str, rows: &str) -> Answer {
    let headers = [("content-type", "application/x-ndjson"), ("idempotency-key", key)];
    client.send("POST", "/v1/datasets?outcome=reward", &headers, Some(rows.as_bytes()))
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn quick(dataset: &str) -> Value {
    json!({"dataset_id": dataset, "bound": "cbb", "optimizer": {"preset": "paper", "epochs": 2}})
}

#[test]
fn a_full_disk_is_507_and_recovers_when_there_is_space() {
    let Some(disk) = SmallDisk::mount(24) else { return };
    let mut server = Server::start_on(&disk.data(), &[]);
    let client = server.client();
    let dataset = client.dataset(200);
    let before = client.get(&format!("/v1/datasets/{dataset}")).expect(200);
    let finished = client.submit(quick(&dataset));
    let finished = client.finish(&finished);
    assert_eq!(client.get("/readyz").status, 200);

    // Not full yet, but too full for this upload.
    let filler = disk.fill(64 << 10);
    let refused = upload_keyed(&client, "large", &log(40_000));
    refused.problem(507, "insufficient_storage");
    assert!(refused.header("retry-after").is_some());
    // Parquet is written to the disk before it is read.
    let kind = [("content-type", "application/vnd.apache.parquet")];
    let refused = client.send("POST", "/v1/datasets", &kind, Some(&vec![0; 1 << 20]));
    refused.problem(507, "insufficient_storage");
    let staged = |root: &Path| files(root).iter().filter(|(file, _)| file.contains('#')).count();
    until("the beginning of a rejected upload is removed", || staged(&disk.data().join("blobs")) == 0);

    // Full to the last block.
    std::fs::remove_file(&filler).unwrap();
    let filler = disk.fill(0);
    let small = log(50);
    upload_keyed(&client, "small", &small).problem(507, "insufficient_storage");
    let policy = json!({"kind": "softmax", "mean": [[0.0, 1.0]]});
    client.post("/v1/policies", &policy).problem(507, "insufficient_storage");
    client.get("/readyz").problem(503, "unavailable");
    // The database still has a little space for jobs; then it fails too.
    let accepted = fill_database(&client, &dataset);
    // What was stored before is still served.
    assert_eq!(client.get(&format!("/v1/datasets/{dataset}")).expect(200), before);
    client.get(finished["result"]["certificate_url"].as_str().unwrap()).expect(200);

    std::fs::remove_file(&filler).unwrap();
    until("ready again", || client.get("/readyz").status == 200);
    // The same requests, the same keys.
    until("the upload is accepted", || match upload_keyed(&client, "small", &small) {
        Answer { status: 201, .. } => true,
        busy => {
            busy.problem(409, "idempotency_in_progress");
            false
        }
    });
    assert_eq!(client.post("/v1/policies", &policy).status, 201);
    for job in &accepted {
        let done = client.finish(job);
        assert_eq!(done["status"], "succeeded", "{done}");
        // A full disk does not count as an attempt.
        assert_eq!(done["attempt"], 1, "{done}");
    }
    // The next start checks that no data was damaged.
    server.kill();
    server.restart();
    let client = server.client();
    // The second upload has the same rows, so both have one ledger now.
    let mut after = client.get(&format!("/v1/datasets/{dataset}")).expect(200);
    after["ledger"] = before["ledger"].clone();
    assert_eq!(after, before);
    assert_eq!(client.get("/v1/datasets").expect(200)["data"].as_array().unwrap().len(), 2);
    let done = client.finish(&client.submit(quick(&dataset)));
    assert_eq!(done["status"], "succeeded", "{done}");
}

/// A deletion needs a little space before it frees any.
#[test]
fn deleting_works_on_a_full_disk() {
    let Some(disk) = SmallDisk::mount(24) else { return };
    let server = Server::start_on(&disk.data(), &[]);
    let client = server.client();
    let large = id_of(&client.upload("?outcome=reward", &log(20_000)).expect(201));
    let dataset = client.dataset_of(2, 200);
    let policy =
        id_of(&client.post("/v1/policies", &json!({"kind": "softmax", "mean": [[0.0, 1.0]]})).expect(201));
    disk.fill(0);
    let accepted = fill_database(&client, &dataset);
    assert_eq!(client.delete(&format!("/v1/policies/{policy}")).status, 204);
    client.get(&format!("/v1/policies/{policy}")).problem(404, "not_found");
    for job in &accepted {
        assert_eq!(client.post(&format!("/v1/jobs/{job}/cancel"), &json!({})).status, 200);
        assert_eq!(client.finish(job)["status"], "cancelled");
    }
    assert_eq!(client.delete(&format!("/v1/datasets/{dataset}")).status, 204);
    assert_eq!(client.delete(&format!("/v1/datasets/{large}")).status, 204);
    client.get(&format!("/v1/datasets/{large}")).problem(404, "not_found");
    assert_eq!(client.get("/v1/datasets").expect(200)["data"], json!([]));
    // The files are gone too. The filler is still there, and the deleted files left space for small ones.
    until("the files are deleted", || files(&disk.data().join("blobs")).is_empty());
    until("an upload is accepted", || client.upload("?outcome=reward", &log(50)).status == 201);
    // Space is reserved for the next time.
    assert!(disk.data().join("reserve").exists());
}

/// Submits jobs until the database has no space for another one.
fn fill_database(client: &Client, dataset: &str) -> Vec<String> {
    let mut accepted = Vec::new();
    loop {
        let answer = client.post("/v1/jobs", &quick(dataset));
        if answer.status != 202 {
            answer.problem(507, "insufficient_storage");
            return accepted;
        }
        accepted.push(id_of(&answer.json));
        assert!(accepted.len() < 5_000, "jobs are accepted without space for them");
    }
}

/// Who must not have access any more cannot wait until somebody frees space.
#[test]
fn access_is_withdrawn_on_a_full_disk() {
    let Some(disk) = SmallDisk::mount(24) else { return };
    let mut server = Server::start_on(&disk.data(), &[]);
    let keys = ["one", "two"].map(|workspace| server.create_key(workspace));
    // A server without keys notices its first key a little later; a restart does not wait for that.
    server.kill();
    server.restart();
    let client = server.client().with_key(&keys[0]);
    let other = server.client().with_key(&keys[1]);
    let dataset = client.dataset(200);
    for name in ["a", "b"] {
        client.post("/v1/gates", &json!({"name": name, "selector": {"app": name}})).expect(201);
    }
    let token = client.post("/v1/gates/a/tokens", &json!({"name": "of a test"})).expect(201);
    let listed = server.keys(&["list"]);
    let id_in = |workspace: &str| {
        let line = listed.lines().find(|line| line.split_whitespace().nth(4) == Some(workspace)).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    disk.fill(0);
    fill_database(&client, &dataset);

    server.keys(&["revoke", &id_in("two")]);
    other.get("/v1/datasets").problem(401, "unauthorized");
    assert_eq!(client.delete(&format!("/v1/gates/a/tokens/{}", id_of(&token))).status, 204);
    assert_eq!(client.get("/v1/gates/a/tokens").expect(200)["data"], json!([]));
    let changed = json!({"selector": {"app": "a"}, "requirements": {"min_improvement": 0.5}});
    let kind = [("content-type", "application/json")];
    client.send("PUT", "/v1/gates/a", &kind, Some(changed.to_string().as_bytes())).expect(200);
    assert_eq!(client.delete("/v1/gates/b").status, 204);
    client.get("/v1/gates/b/definition").problem(404, "not_found");

    // Without a server, the command opens the database itself.
    server.kill();
    disk.fill(0);
    server.keys(&["revoke", &id_in("one")]);
    let listed = server.keys(&["list"]);
    let revoked = |line: &str| line.split_whitespace().nth(2) != Some("-");
    assert_eq!(listed.lines().skip(1).filter(|line| revoked(line)).count(), 2, "{listed}");
}

/// A cancellation frees no space, and nothing may take what it borrowed from the reserve.
#[test]
fn cancellations_and_uploads_do_not_use_up_the_reserve() {
    let Some(disk) = SmallDisk::mount(24) else { return };
    let server = Server::start_on(&disk.data(), &[]);
    let client = server.client();
    let dataset = client.dataset(200);
    let reserve = disk.data().join("reserve");
    let reserved = || std::fs::metadata(&reserve).unwrap().len();
    let whole = reserved();
    disk.fill(0);
    for job in fill_database(&client, &dataset) {
        assert_eq!(client.post(&format!("/v1/jobs/{job}/cancel"), &json!({})).status, 200);
    }
    // Larger than the space that the database's log may have returned.
    for seed in 0..20 {
        upload_keyed(&client, &format!("upload {seed}"), &log(20_000));
    }
    assert_eq!(reserved(), whole);
    disk.fill(0);
    assert_eq!(client.delete(&format!("/v1/datasets/{dataset}")).status, 204);
}

/// A runner whose first job computes and reports until it is stopped, and whose later jobs end at once.
struct Restless(Arc<Runs>);

struct Runs {
    count: AtomicUsize,
    began: Mutex<mpsc::Sender<()>>,
    stopped: Mutex<mpsc::Sender<()>>,
}

#[async_trait]
impl Runner for Restless {
    async fn prepare(&self, job: &Job) -> Result<Prepared, RunError> {
        let (this, spec) = (self.0.clone(), job.spec.clone());
        Ok(Box::new(move |control| {
            if this.count.fetch_add(1, Ordering::SeqCst) > 0 {
                return Ok(finished(&spec));
            }
            this.began.lock().unwrap().send(()).unwrap();
            for step in 0u64.. {
                control.report(Progress::phase("learning", (step % 1000) as f64 / 1000.0));
                if let Err(stopped) = control.check() {
                    this.stopped.lock().unwrap().send(()).unwrap();
                    return Err(stopped);
                }
            }
            unreachable!()
        }))
    }
}

/// The database itself is full: until there is space, the lease cannot be renewed and the job cannot be
/// returned to the queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_lost_to_a_full_disk_costs_no_attempt() {
    let Some(disk) = SmallDisk::mount(24) else { return };
    let store = Store::open(&disk.data()).await.unwrap();
    let settings = QueueSettings {
        workers: 1,
        threads_per_job: 1,
        lease: Duration::from_millis(300),
        max_attempts: 1,
        poll: Duration::from_millis(20),
        tick: Duration::from_millis(1),
        ..QueueSettings::default()
    };
    let queue = Queue::new(store.clone(), settings);
    let (began, has_begun) = mpsc::channel();
    let (stopped, has_stopped) = mpsc::channel();
    let (began, stopped) = (Mutex::new(began), Mutex::new(stopped));
    let runner = Restless(Arc::new(Runs { count: AtomicUsize::new(0), began, stopped }));
    let workers = queue.start(Arc::new(runner)).unwrap();
    let job = queue.submit(new_job(&dataset(store.repository(), "a").await)).await.unwrap();
    tokio::task::block_in_place(|| has_begun.recv_timeout(LONG).unwrap());
    let filler = disk.fill(0);
    tokio::task::block_in_place(|| has_stopped.recv_timeout(LONG).unwrap());
    std::fs::remove_file(filler).unwrap();
    let done = queue.wait(&job.workspace, job.id, LONG).await.unwrap();
    assert_eq!((done.status, done.attempt), (JobStatus::Succeeded, 1), "{:?}", done.failure);
    workers.shutdown(LONG).await;
}

/// Permissions do not stop root, so the server runs as this user.
const NOBODY: u32 = 65534;

fn set_writable(root: &Path, writable: bool) {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            }
        }
        std::fs::set_permissions(&folder, Permissions::from_mode(if writable { 0o755 } else { 0o555 }))
            .unwrap();
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_503_and_recovers() {
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let data = place.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&data).unwrap()) == 0;
    if root {
        std::os::unix::fs::chown(&data, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let Some(server) = Server::start_as(root.then_some(NOBODY), &data) else {
        cannot_run(format!("user {NOBODY} cannot run the binary"));
        return;
    };
    let client = server.client();
    let dataset = client.dataset(200);
    set_writable(&data, false);
    client.upload("?outcome=reward", &log(50)).problem(503, "unavailable");
    client
        .post("/v1/policies", &json!({"kind": "softmax", "mean": [[0.0, 1.0]]}))
        .problem(503, "unavailable");
    client.get("/readyz").problem(503, "unavailable");
    assert_eq!(client.get(&format!("/v1/datasets/{dataset}")).status, 200);
    // The database is already open and accepts the job, but its certificate cannot be stored yet.
    let job = client.submit(quick(&dataset));
    client.follow(&job, &[], |event| event.kind == "requeued");
    set_writable(&data, true);
    let done = client.finish(&job);
    assert_eq!((&done["status"], &done["attempt"]), (&json!("succeeded"), &json!(1)), "{done}");
    assert_eq!(client.get("/readyz").status, 200);
    assert_eq!(client.upload("?outcome=reward", &log(50)).status, 201);
}
