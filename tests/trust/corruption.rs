//! Damaged files and rows are detected and named, and nothing is certified from them.

use std::fs;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, SqliteConnection};

use crate::common::{Answer, Client, Server, id_of, log};

/// A server that has issued a certificate, and where its files are.
struct Certified {
    server: Server,
    dataset: String,
    policy: String,
    /// A `learn` job whose decision was deploy.
    job: String,
    certificate: Value,
}

impl Certified {
    fn new() -> Certified {
        let server = Server::start();
        let client = server.client();
        let dataset = client.dataset(1000);
        let mean = json!([[0.0, 40.0, -40.0], [0.0, 0.0, 0.0]]);
        let policy = client.post("/v1/policies", &json!({"kind": "softmax", "mean": mean})).expect(201);
        let job = client.submit(json!({"dataset_id": dataset}));
        assert_eq!(client.finish(&job)["result"]["decision"], "deploy");
        let certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
        Certified { dataset, policy: id_of(&policy), job, certificate, server }
    }

    fn client(&self) -> Client {
        self.server.client()
    }

    fn blobs(&self) -> PathBuf {
        self.server.data.path().join("blobs")
    }

    fn log(&self) -> PathBuf {
        fs::read_dir(self.blobs().join("datasets").join(&self.dataset))
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path()
    }

    fn policy_file(&self) -> PathBuf {
        self.blobs().join(format!("policies/{}.json", self.policy))
    }

    fn job_file(&self, name: &str) -> PathBuf {
        let attempts = fs::read_dir(self.blobs().join("jobs").join(&self.job)).unwrap();
        attempts.into_iter().next().unwrap().unwrap().path().join(name)
    }

    fn learn(&self) -> Value {
        let client = self.client();
        client.finish(&client.submit(json!({"dataset_id": self.dataset, "seed": 7})))
    }

    fn evaluate(&self) -> Value {
        let client = self.client();
        let candidates = json!([{"kind": "policy", "policy_id": self.policy}]);
        let spec = json!({"dataset_id": self.dataset, "candidates": candidates, "independent_of_log": true});
        client.finish(&client.submit(spec))
    }

    fn verify(&self) -> Answer {
        self.client().post("/v1/certificates/verify", &self.certificate)
    }
}

/// Flips one bit of the file.
fn flip(file: &Path, at: impl Fn(usize) -> usize) {
    let mut bytes = fs::read(file).unwrap();
    let place = at(bytes.len());
    bytes[place] ^= 0x10;
    fs::write(file, bytes).unwrap();
}

/// Replaces a text by another of the same length.
fn rewrite(file: &Path, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{from} is not in {}", file.display());
    fs::write(file, text.replacen(from, to, 1)).unwrap();
}

#[track_caller]
fn assert_failed(job: &Value, code: &str, id: &str) {
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!(code)), "{job}");
    let message = job["error"]["message"].as_str().unwrap();
    assert!(message.contains(id), "{message} does not name {id}");
}

/// The response must be a 500 `damaged` that contains the id of what is damaged.
#[track_caller]
fn assert_damaged(answer: &Answer, id: &str) {
    answer.problem(500, "damaged");
    assert!(answer.json["detail"].as_str().unwrap().contains(id), "{}", answer.text);
}

#[test]
fn a_flipped_bit_in_a_log_is_found_wherever_it_is() {
    let it = Certified::new();
    assert_eq!(it.verify().expect(200)["valid"], true);
    let file = it.log();
    let sound = fs::read(&file).unwrap();
    for part in [2, 4, 6] {
        fs::write(&file, &sound).unwrap();
        flip(&file, |length| length * part / 10);
        assert_failed(&it.learn(), "dataset_unreadable", &it.dataset);
        assert_failed(&it.evaluate(), "dataset_unreadable", &it.dataset);
    }
    let verified = it.verify();
    assert_ne!((verified.status, &verified.json["valid"]), (200, &json!(true)), "{}", verified.text);
    // Appending to damaged rows would give them a digest that hides the damage.
    let path = format!("/v1/datasets/{}/rows", it.dataset);
    let kind = [("content-type", "application/x-ndjson")];
    assert_damaged(&it.client().send("POST", &path, &kind, Some(log(10).as_bytes())), &it.dataset);
    fs::write(&file, &sound[..sound.len() - 1]).unwrap();
    assert_failed(&it.learn(), "dataset_unreadable", &it.dataset);
    fs::remove_file(&file).unwrap();
    assert_failed(&it.learn(), "dataset_unreadable", &it.dataset);
    // With the file restored, as from a backup, everything works again.
    fs::write(&file, &sound).unwrap();
    assert_eq!(it.learn()["result"]["decision"], "deploy");
    assert_eq!(it.verify().expect(200)["valid"], true);
}

/// A job that reads no features certifies the same without them; verification reads them for the digest of all rows.
#[test]
fn a_feature_that_no_job_reads_is_found_by_verification() {
    let server = Server::start_with(&[("GUARANTOR_MAX_LOG_MEMORY_BYTES", "1")]);
    let client = server.client();
    let with_candidate = |line: &str| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        let action = row["action"].as_u64().unwrap();
        row["candidates"] = json!({"bold": if action == 1 { 0.9 } else { 0.05 }});
        row.to_string()
    };
    let rows: Vec<String> = log(2000).lines().map(with_candidate).collect();
    let dataset = id_of(&client.upload("?outcome=reward", &(rows.join("\n") + "\n")).expect(201));
    let evaluate = |seed: u64| {
        let candidates = json!([{"kind": "logged", "name": "bold"}]);
        let spec = json!({"dataset_id": dataset, "candidates": candidates, "independent_of_log": true, "seed": seed});
        client.submit(spec)
    };
    let job = evaluate(1);
    assert_eq!(client.finish(&job)["status"], "succeeded");
    let certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    let verify = || client.post("/v1/certificates/verify", &certificate);
    assert_eq!(verify().expect(200)["valid"], true);
    let folder = server.data.path().join("blobs/datasets").join(&dataset);
    let file = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let index = SerializedFileReader::new(fs::File::open(&file).unwrap()).unwrap();
    let columns = index.metadata().row_group(0).columns().to_vec();
    let features = columns.iter().find(|column| column.column_path().parts()[0] == "x").unwrap();
    let (start, length) = features.byte_range();
    flip(&file, |_| (start + length / 2) as usize);
    let again = client.finish(&evaluate(2));
    assert_eq!(again["status"], "succeeded", "the test must show a job that reads no features: {again}");
    let verified = verify();
    assert_ne!((verified.status, &verified.json["valid"]), (200, &json!(true)), "{}", verified.text);
}

#[test]
fn another_log_in_its_place_is_found() {
    let it = Certified::new();
    let part = |dataset: &str| -> PathBuf {
        fs::read_dir(it.blobs().join("datasets").join(dataset)).unwrap().next().unwrap().unwrap().path()
    };
    // A readable log, but not the one that was certified: first of another length, then of the same.
    let (place, sound) = (it.log(), fs::read(it.log()).unwrap());
    fs::copy(part(&it.client().dataset(999)), &place).unwrap();
    assert_failed(&it.learn(), "dataset_unreadable", &it.dataset);
    let other = sound_log_of_length(&it.client(), sound.len() as u64, &part);
    assert_ne!(fs::read(&other).unwrap(), sound);
    fs::copy(&other, &place).unwrap();
    let failed = it.learn();
    assert_failed(&failed, "dataset_unreadable", &it.dataset);
    assert!(failed["error"]["message"].as_str().unwrap().contains("digest"), "{failed}");
    assert_eq!(
        it.client().get(&format!("/v1/jobs/{}/gate", it.job)).status,
        200,
        "an issued certificate must stay valid"
    );
}

/// The file of an intact log of the given length: the same rows in another order.
fn sound_log_of_length(client: &Client, length: u64, part: &dyn Fn(&str) -> PathBuf) -> PathBuf {
    let rows: Vec<String> = log(1000).lines().map(str::to_owned).collect();
    for (a, b) in (0..40).flat_map(|a| (a + 1..40).map(move |b| (a, b))) {
        let mut rows = rows.clone();
        rows.swap(a, b);
        let dataset = id_of(&client.upload("?outcome=reward", &(rows.join("\n") + "\n")).expect(201));
        let file = part(&dataset);
        if fs::metadata(&file).unwrap().len() == length {
            return file;
        }
        client.delete(&format!("/v1/datasets/{dataset}"));
    }
    panic!("found no other log of {length} bytes");
}

#[test]
fn a_changed_policy_is_not_evaluated() {
    let it = Certified::new();
    assert_eq!(it.evaluate()["result"]["decision"], "deploy");
    rewrite(&it.policy_file(), "-40.0", "-41.0");
    assert_failed(&it.evaluate(), "policy_unreadable", &it.policy);
    let read = it.client().get(&format!("/v1/policies/{}?include=mean", it.policy));
    assert_damaged(&read, &it.policy);
    let asked = json!({"contexts": [[0.0, 1.0]]});
    let decided = it.client().post(&format!("/v1/policies/{}/propensities", it.policy), &asked);
    assert_damaged(&decided, &it.policy);
}

#[test]
fn a_changed_certificate_opens_no_gate() {
    let it = Certified::new();
    let (gate, document) = (format!("/v1/jobs/{}/gate", it.job), format!("/v1/jobs/{}/certificate", it.job));
    assert_eq!(it.client().get(&gate).status, 200);
    let file = it.job_file("certificate.json");
    let sound = fs::read(&file).unwrap();
    for (from, to) in [("\"seed\":0", "\"seed\":1"), ("\"confidence\":0.95", "\"confidence\":0.99")] {
        rewrite(&file, from, to);
        assert_damaged(&it.client().get(&gate), &it.job);
        assert_damaged(&it.client().get(&document), &it.job);
        assert_damaged(&it.verify(), &it.job);
        fs::write(&file, &sound).unwrap();
    }
    flip(&file, |length| length / 2);
    assert!(it.client().get(&gate).status >= 500);
    fs::remove_file(&file).unwrap();
    assert_damaged(&it.client().get(&gate), &it.job);
}

#[test]
fn a_kept_job_cannot_be_edited_into_a_deployment() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset(1000);
    let job = client.submit(json!({"dataset_id": dataset, "min_improvement": 0.99}));
    assert_eq!(client.finish(&job)["result"]["decision"], "keep");
    let attempts = fs::read_dir(server.data.path().join("blobs/jobs").join(&job)).unwrap();
    let file = attempts.into_iter().next().unwrap().unwrap().path().join("certificate.json");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"decision\":\"keep\""));
    let edited = text.replacen("\"decision\":\"keep\"", "\"decision\":\"deploy\"", 1);
    fs::write(&file, &edited).unwrap();
    assert_damaged(&client.get(&format!("/v1/jobs/{job}/gate")), &job);
    // Also with two letters removed elsewhere, so that the length is right.
    let statement = edited.find("\"statement\":\"").unwrap() + "\"statement\":\"".len();
    let edited = format!("{}{}", &edited[..statement], &edited[statement + 2..]);
    assert_eq!(edited.len(), text.len());
    fs::write(&file, &edited).unwrap();
    assert_damaged(&client.get(&format!("/v1/jobs/{job}/gate")), &job);
}

/// An intact certificate of another job.
#[test]
fn another_jobs_certificate_opens_no_gate() {
    let mut it = Certified::new();
    let other = it.learn();
    assert_eq!(other["result"]["decision"], "deploy");
    it.server.kill();
    let file = it.server.data.path().join("guarantor.sqlite");
    let swap = "UPDATE jobs SET certificate = (SELECT certificate FROM jobs WHERE id = $2) WHERE id = $1";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = SqliteConnectOptions::new().filename(file);
        let mut db = SqliteConnection::connect_with(&options).await.unwrap();
        sqlx::query(swap).bind(&it.job).bind(id_of(&other)).execute(&mut db).await.unwrap();
        db.close().await.unwrap();
    });
    it.server.restart();
    assert_damaged(&it.client().get(&format!("/v1/jobs/{}/gate", it.job)), &it.job);
    assert_eq!(it.client().get(&format!("/v1/jobs/{}/gate", id_of(&other))).status, 200);
}

#[test]
fn a_damaged_database_stops_the_start() {
    let mut it = Certified::new();
    it.server.terminate();
    let file = it.server.data.path().join("guarantor.sqlite");
    settle(&file);
    let sound = fs::read(&file).unwrap();
    let page = 4096;
    let mut refused = 0;
    for number in 1..sound.len() / page {
        let mut bytes = sound.clone();
        // Overwrites the page's type and the offsets of its rows.
        bytes[number * page..number * page + 64].fill(0xA5);
        fs::write(&file, &bytes).unwrap();
        forget_log(&file);
        let said = Server::refused_on(it.server.data.path());
        assert!(said.contains("damaged"), "page {number}: {said}");
        refused += 1;
    }
    assert!(refused > 5, "the database has too few pages");
    fs::write(&file, "not a database at all, but long enough to look like one".repeat(100)).unwrap();
    assert!(Server::refused_on(it.server.data.path()).contains("damaged"));
    fs::write(&file, &sound).unwrap();
    forget_log(&file);
    it.server.restart();
    assert_eq!(it.client().get(&format!("/v1/jobs/{}/gate", it.job)).status, 200);
}

/// Moves everything into one file without unused pages.
fn settle(file: &Path) {
    let options = SqliteConnectOptions::new().filename(file);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut db = SqliteConnection::connect_with(&options).await.unwrap();
        for step in ["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA journal_mode = DELETE"] {
            sqlx::query(step).execute(&mut db).await.unwrap();
        }
        db.close().await.unwrap();
    });
}

/// Removes what a failed start may have left beside the file.
fn forget_log(file: &Path) {
    for end in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{end}", file.display()));
    }
}
