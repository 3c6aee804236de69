//! A disk that is full, and one that cannot be written: clear answers, nothing half-stored, and all is
//! well again when it is.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Answer, Client, Server, id_of, log};

const LONG: Duration = Duration::from_secs(120);

/// A file system of a few megabytes, unmounted when dropped. None where mounting is not allowed.
struct SmallDisk {
    place: tempfile::TempDir,
}

impl SmallDisk {
    fn mount(megabytes: u32) -> Option<SmallDisk> {
        let place = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m,mode=755");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(place.path()).output();
        match mount {
            Ok(output) if output.status.success() => Some(SmallDisk { place }),
            other => {
                println!(
                    "NOT TESTED HERE: a full disk under the server, for nothing can be mounted ({other:?}); \
                          `full_and_read_only_are_told_apart` has tested how such errors are read"
                );
                None
            }
        }
    }

    fn data(&self) -> PathBuf {
        self.place.path().join("data")
    }

    /// Takes all the room but `left` bytes.
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
        let unmounted = Command::new("umount").arg(self.place.path()).status();
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
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn quick(dataset: &str) -> Value {
    json!({"dataset_id": dataset, "bound": "cbb", "optimizer": {"preset": "paper", "epochs": 2}})
}

#[test]
fn a_full_disk_is_507_and_recovers_when_there_is_room() {
    let Some(disk) = SmallDisk::mount(24) else { return };
    let mut server = Server::start_on(&disk.data(), &[]);
    let client = server.client();
    let dataset = client.dataset(200);
    let before = client.get(&format!("/v1/datasets/{dataset}")).expect(200);
    let finished = client.submit(quick(&dataset));
    let finished = client.finish(&finished);
    assert_eq!(client.get("/readyz").status, 200);

    // Not full yet, but too full for what is sent.
    let filler = disk.fill(64 << 10);
    let refused = upload_keyed(&client, "large", &log(40_000));
    refused.problem(507, "insufficient_storage");
    assert!(refused.header("retry-after").is_some());
    // Parquet is put down beside the data before it is read.
    let kind = [("content-type", "application/vnd.apache.parquet")];
    let refused = client.send("POST", "/v1/datasets", &kind, Some(&vec![0; 1 << 20]));
    refused.problem(507, "insufficient_storage");
    let staged =
        |root: &Path| walk(root).into_iter().filter(|file| file.to_string_lossy().contains('#')).count();
    until("a refused upload's beginning is removed", || staged(&disk.data().join("blobs")) == 0);

    // Full to the last block.
    std::fs::remove_file(&filler).unwrap();
    let filler = disk.fill(0);
    let small = log(50);
    upload_keyed(&client, "small", &small).problem(507, "insufficient_storage");
    let policy = json!({"kind": "softmax", "mean": [[0.0, 1.0]]});
    client.post("/v1/policies", &policy).problem(507, "insufficient_storage");
    client.get("/readyz").problem(503, "unavailable");
    // The database has a little room of its own for jobs; then it says no too.
    let mut accepted = Vec::new();
    let refused = loop {
        let answer = client.post("/v1/jobs", &quick(&dataset));
        match answer.status {
            202 => accepted.push(id_of(&answer.json)),
            _ => break answer,
        }
        assert!(accepted.len() < 5_000, "jobs are accepted without room for them");
    };
    refused.problem(507, "insufficient_storage");
    // What was stored is still served.
    assert_eq!(client.get(&format!("/v1/datasets/{dataset}")).expect(200), before);
    client.get(finished["result"]["certificate_url"].as_str().unwrap()).expect(200);

    std::fs::remove_file(&filler).unwrap();
    until("ready again", || client.get("/readyz").status == 200);
    // The same requests, the same keys.
    until("the upload is taken", || match upload_keyed(&client, "small", &small) {
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
    }
    // Nothing of it has hurt the data, as the next start finds.
    server.kill();
    server.restart();
    let client = server.client();
    assert_eq!(client.get(&format!("/v1/datasets/{dataset}")).expect(200), before);
    assert_eq!(client.get("/v1/datasets").expect(200)["data"].as_array().unwrap().len(), 2);
    let done = client.finish(&client.submit(quick(&dataset)));
    assert_eq!(done["status"], "succeeded", "{done}");
}

fn walk(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(walk(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Permissions do not stop root, so the server must be somebody else.
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
        println!(
            "NOT TESTED HERE: a read-only directory under the server: user {NOBODY} cannot run the binary"
        );
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
    // The database is open already and takes the job; its certificate has nowhere to go until later.
    let job = client.submit(quick(&dataset));
    client.follow(&job, &[], |event| event.kind == "requeued");
    set_writable(&data, true);
    let done = client.finish(&job);
    assert_eq!((&done["status"], &done["attempt"]), (&json!("succeeded"), &json!(1)), "{done}");
    assert_eq!(client.get("/readyz").status, 200);
    assert_eq!(client.upload("?outcome=reward", &log(50)).status, 201);
}
