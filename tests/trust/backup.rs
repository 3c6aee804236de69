//! A backup that is taken while clients write contains everything that was acknowledged before it began.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::{BINARY, Client, Server, id_of, log_of};
use serde_json::{Value, json};

fn back_up(from: &Path, to: &Path) -> Output {
    Command::new(BINARY).arg("backup").arg(to).arg("--data-dir").arg(from).output().unwrap()
}

/// The datasets and jobs that were acknowledged and not deleted since, by id.
#[derive(Default, Clone)]
struct Answered {
    datasets: HashMap<String, [Value; 3]>,
    jobs: Vec<String>,
}

/// Version, rows and digest.
fn known(dataset: &Value) -> [Value; 3] {
    ["version", "rows", "digest"].map(|name| dataset[name].clone())
}

/// Uploads, appends, submits and deletes until `stop` is set.
fn write(client: &Client, answered: &Mutex<Answered>, stop: &AtomicBool) {
    // Looks at one dataset would count for others with the same rows.
    static SEED: AtomicU64 = AtomicU64::new(100);
    while !stop.load(Ordering::SeqCst) {
        let seed = SEED.fetch_add(2, Ordering::SeqCst);
        let (rows, next) = (log_of(seed, 60), log_of(seed + 1, 60));
        let dataset = client.upload("?outcome=reward&logging=fixed", &rows).expect(201);
        let id = id_of(&dataset);
        answered.lock().unwrap().datasets.insert(id.clone(), known(&dataset));
        let more = [("content-type", "application/x-ndjson")];
        let longer =
            client.send("POST", &format!("/v1/datasets/{id}/rows"), &more, Some(next.as_bytes())).expect(201);
        answered.lock().unwrap().datasets.insert(id.clone(), known(&longer));
        let job = client
            .submit(json!({"dataset_id": id, "bound": "cbb", "prior": {"kind": "zero"}, "optimizer": {"preset": "paper", "epochs": 2}}));
        client.finish(&job);
        answered.lock().unwrap().jobs.push(job);
        // Every other dataset is deleted, so that files disappear during the backup.
        if answered.lock().unwrap().jobs.len().is_multiple_of(2) {
            answered.lock().unwrap().datasets.remove(&id);
            assert_eq!(client.delete(&format!("/v1/datasets/{id}")).status, 204);
        }
    }
}

#[test]
fn a_backup_under_load_restores_completely() {
    let server = Server::start();
    let answered = Mutex::new(Answered::default());
    let stop = AtomicBool::new(false);
    let place = tempfile::tempdir().unwrap();
    let mut copies = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| write(&server.client(), &answered, &stop));
        }
        for i in 0..4 {
            let enough = || answered.lock().unwrap().jobs.len() >= 3 * (i + 1);
            while !enough() {
                std::thread::yield_now();
            }
            let before = answered.lock().unwrap().clone();
            let to = place.path().join(format!("copy-{i}"));
            let output = back_up(server.data.path(), &to);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            copies.push((to, before));
        }
        stop.store(true, Ordering::SeqCst);
    });
    let after = answered.into_inner().unwrap();
    for (copy, before) in copies {
        check_copy(&copy, &before, &after);
    }
}

/// Starts a server on the copy. Everything that was acknowledged before the backup and not deleted later must
/// be there, and a job must succeed on every dataset.
fn check_copy(copy: &Path, before: &Answered, after: &Answered) {
    let restored = Server::start_on(copy, &[]);
    let client = restored.client();
    for (id, known_before) in &before.datasets {
        let Some(known_after) = after.datasets.get(id) else { continue };
        let found = known(&client.get(&format!("/v1/datasets/{id}")).expect(200));
        // The append may have happened during the backup or after it.
        let whole = found == *known_before || found == *known_after;
        assert!(whole, "{id} was {known_before:?}, then {known_after:?}, and is {found:?} in the backup");
    }
    for job in &before.jobs {
        let found = client.get(&format!("/v1/jobs/{job}")).expect(200);
        assert_eq!(found["status"], "succeeded");
        client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
        client.get(&format!("/v1/jobs/{job}/policy?include=mean")).expect(200);
    }
    let listed = client.get("/v1/datasets?limit=100").expect(200);
    let listed = listed["data"].as_array().unwrap();
    assert!(!listed.is_empty());
    for dataset in listed {
        let job =
            client.submit(json!({"dataset_id": dataset["id"], "bound": "cbb", "prior": {"kind": "zero"}, "optimizer": {"preset": "paper", "epochs": 1}}));
        let done = client.finish(&job);
        assert_eq!(done["status"], "succeeded", "{done}");
    }
}

#[test]
fn a_backup_has_what_a_restart_needs_and_nothing_else() {
    let mut server = Server::start();
    let key = server.create_key("ranking");
    // A server without keys notices its first key a little later; a restart does not wait for that.
    server.kill();
    server.restart();
    let client = server.client().with_key(&key);
    let dataset = client.dataset(300);
    let job = client.submit(json!({"dataset_id": dataset}));
    let done = client.finish(&job);
    let certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    let orphan = server.data.path().join("blobs/datasets/orphan.parquet");
    std::fs::write(&orphan, "left by an unfinished upload").unwrap();
    let place = tempfile::tempdir().unwrap();
    let output = back_up(server.data.path(), place.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!place.path().join("blobs/datasets/orphan.parquet").exists());
    let restored = Server::start_on(place.path(), &[]);
    let restored = restored.client().with_key(&key);
    assert_eq!(restored.get(&format!("/v1/jobs/{job}")).expect(200), done);
    let again = restored.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    assert_eq!(again, certificate);
    let verified = restored.post("/v1/certificates/verify", &again).expect(200);
    assert_eq!(verified["valid"], true, "{verified}");
}

#[test]
fn an_incomplete_backup_is_rejected() {
    let server = Server::start();
    let dataset = server.client().dataset(50);
    let place = tempfile::tempdir().unwrap();
    let refused = |from: &Path, to: &Path, words: &str| {
        let output = back_up(from, to);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    };
    let occupied = place.path().join("occupied");
    std::fs::create_dir_all(&occupied).unwrap();
    std::fs::write(occupied.join("a file"), "").unwrap();
    refused(server.data.path(), &occupied, "not empty");
    refused(place.path(), &place.path().join("new"), "is not a data directory");
    // A truncated log must not go unnoticed in a backup.
    let folder = server.data.path().join("blobs/datasets").join(&dataset);
    let part = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    std::fs::OpenOptions::new().write(true).open(&part).unwrap().set_len(100).unwrap();
    let to = place.path().join("cut");
    refused(server.data.path(), &to, "it has 100 bytes, but");
    assert!(!to.join("guarantor.sqlite").exists(), "a server could be started on an incomplete backup");
}
