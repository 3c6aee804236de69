//! `guarantor simulate` through the real program: every format reads back as the same log, and what a
//! format cannot express is rejected.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{BINARY, Client, Server};

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn simulate(&self, name: &str, args: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.arg("simulate").args(args).arg("--out").arg(self.path(name));
        command.output().unwrap()
    }

    #[track_caller]
    fn simulated(&self, name: &str, args: &[&str]) -> Vec<u8> {
        let output = self.simulate(name, args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read(self.path(name)).unwrap()
    }

    #[track_caller]
    fn rejected(&self, name: &str, args: &[&str]) -> String {
        let output = self.simulate(name, args);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(std::fs::read_dir(self.0.path()).unwrap().count(), 0, "nothing is left behind");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// The certificate of a log file, computed without a server.
fn certify(log: &Path, args: &[&str]) -> Value {
    let output = Command::new(BINARY).arg("certify").arg(log).arg("--json").args(args).output().unwrap();
    assert!(output.status.code() < Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The content type of a file, and its encoding.
fn kind(name: &str) -> (&'static str, &'static str) {
    let (stem, encoding) = match name.rsplit_once('.') {
        Some((stem, "gz")) => (stem, "gzip"),
        Some((stem, "zst")) => (stem, "zstd"),
        _ => (name, "identity"),
    };
    let kind = match stem.rsplit_once('.').unwrap().1 {
        "ndjson" => "application/x-ndjson",
        "csv" => "text/csv",
        "arrow" => "application/vnd.apache.arrow.stream",
        "parquet" => "application/vnd.apache.parquet",
        other => panic!("{other}"),
    };
    (kind, encoding)
}

const TOY: &[&str] = &["--dataset", "toy", "--rows", "400", "--seed", "3", "--alpha", "0.7"];

/// The certificate of a job on the dataset, without the sections that differ between jobs.
fn certificate(client: &Client, dataset: &Value) -> Value {
    let job = client.submit(json!({"dataset_id": dataset["id"], "bound": "cbb"}));
    assert_eq!(client.finish(&job)["status"], "succeeded");
    let mut certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    // The ledger too: the same log in two formats has the same rows, and the second look at them is a repeat.
    for outside in ["issued", "ledger", "signature"] {
        certificate.as_object_mut().unwrap().remove(outside);
    }
    certificate
}

#[test]
fn every_format_is_the_same_log() {
    let (folder, server) = (Folder::new(), Server::start());
    let client = server.client();
    let plain = ["a.ndjson", "a.csv", "a.parquet", "a.arrow"];
    let packed = ["a.ndjson.zst", "a.csv.gz", "a.arrow.gz", "a.arrow.zst"];
    for m in ["1", "4"] {
        let mut first: Option<(Value, Value)> = None;
        for name in plain.into_iter().chain(packed) {
            let bytes = folder.simulated(name, &[TOY, &["--interactions", m]].concat());
            let (kind, encoding) = kind(name);
            let headers = [("content-type", kind), ("content-encoding", encoding)];
            let dataset = client
                .send(
                    "POST",
                    "/v1/datasets?outcome=reward&logging=fixed&repetitions=designed",
                    &headers,
                    Some(&bytes),
                )
                .expect(201);
            let shape = [&dataset["rows"], &dataset["n_actions"], &dataset["dim"]];
            assert_eq!(shape, [400, 5, 8], "{dataset}");
            assert_eq!(dataset["contexts"], 400 / m.parse::<i32>().unwrap());
            assert_eq!(dataset["capabilities"]["full_propensities"], true);
            let digest = dataset["digest"].clone();
            // A certificate depends on the digest only, so one text and one columnar format suffice.
            let certificate = match name {
                "a.ndjson" | "a.arrow" => certificate(&client, &dataset),
                _ => Value::Null,
            };
            let (wanted, same) = first.get_or_insert_with(|| (digest.clone(), certificate.clone()));
            assert_eq!(digest, *wanted, "{name}, m = {m}");
            assert!(certificate.is_null() || certificate == *same, "{name}, m = {m}");
        }
    }
}

/// DSJSON with one dimension per feature is the same log; OBD has no features.
#[test]
fn dsjson_and_obd_read_back_as_the_guide_says() {
    let (folder, server) = (Folder::new(), Server::start());
    let upload = |name: &str, args: &[&str], query: &str, kind: &str| {
        let bytes = folder.simulated(name, &[TOY, args].concat());
        let path = format!("/v1/datasets?outcome=reward&logging=fixed{query}");
        server.client().send("POST", &path, &[("content-type", kind)], Some(&bytes)).expect(201)
    };
    let ndjson = upload("a.ndjson", &[], "", "application/x-ndjson");
    let dsjson = upload("a.dsjson", &[], "&format=dsjson&hash_dims=8", "application/x-ndjson");
    assert_eq!(dsjson["digest"], ndjson["digest"]);
    let obd = ["--format", "obd", "--no-features"];
    let obd = upload("a.obd.csv", &obd, "&format=obd&hash_dims=0", "text/csv");
    // The only features are the three positions.
    assert_eq!([&obd["rows"], &obd["n_actions"], &obd["dim"]], [400, 5, 3], "{obd}");
    for member in ["min_propensity", "action_counts"] {
        assert!(!ndjson["health"][member].is_null());
        assert_eq!(obd["health"][member], ndjson["health"][member]);
    }
}

#[test]
fn the_same_log_in_two_formats_gives_the_same_certificate() {
    let folder = Folder::new();
    let policy = folder.path("policy.json");
    let policy = policy.to_str().unwrap();
    folder.simulated("a.parquet", &[TOY, &["--policy-out", policy]].concat());
    folder.simulated("a.ndjson", TOY);
    let args = ["--outcome", "reward", "--logging-policy", policy];
    let [first, second] = ["a.ndjson", "a.parquet"].map(|name| certify(&folder.path(name), &args));
    assert_eq!(first, second);
    assert_eq!(first["digest"], second["digest"]);
    assert!(first["digest"].as_str().unwrap().starts_with("sha256:"));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let folder = Folder::new();
    let first = folder.simulated("a.ndjson", TOY);
    assert_eq!(folder.simulated("b.ndjson", TOY), first);
    assert_ne!(folder.simulated("c.ndjson", &["--dataset", "toy", "--rows", "400", "--seed", "4"]), first);
    // The log of the demo is a toy world too.
    let demo = folder.path("demo.ndjson");
    let args = ["demo", "--rows", "400", "--seed", "3", "--write-log", demo.to_str().unwrap()];
    assert!(Command::new(BINARY).args(args).status().unwrap().success());
    let sure = ["--dataset", "toy", "--rows", "400", "--seed", "3", "--alpha", "1"];
    assert_eq!(std::fs::read(demo).unwrap(), folder.simulated("d.ndjson", &sure));
}

#[test]
fn what_a_format_cannot_express_is_rejected() {
    let folder = Folder::new();
    let toy = ["--dataset", "toy", "--rows", "10"];
    let rejected = |name: &str, args: &[&str]| folder.rejected(name, &[&toy[..], args].concat());
    assert!(rejected("a.obd", &["--format", "obd"]).contains("numeric features cannot be written"));
    assert!(rejected("a.dsjson", &["--interactions", "2"]).contains("repeated interactions with a context"));
    assert!(rejected("a.log", &[]).contains("does not imply a format"));
    assert!(rejected("a.csv", &["--interactions", "3"]).contains("multiple of --interactions"));
    assert!(rejected("a.csv", &["--alpha", "nan"]).contains("--alpha"));
    assert!(rejected("a.csv", &["--alpha=-1"]).contains("--alpha"));
    // A log that cannot be written leaves no policy behind either.
    let policy = folder.path("policy.json");
    assert!(rejected("nowhere/a.csv", &["--policy-out", policy.to_str().unwrap()]).contains("nowhere"));
    let elsewhere = folder.rejected("a.csv", &["--dataset", "fashion-mnist"]);
    assert!(elsewhere.contains("guarantor-lab simulate"), "{elsewhere}");
}
