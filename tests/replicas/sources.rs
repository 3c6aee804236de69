//! Logs by reference: objects of a bucket, read where they lie by the command line and by servers.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::bucket::{Bucket, KEY_ID, Mood, SECRET};
use crate::common::{BINARY, Client, eventually, id_of, log_of};
use crate::postgres;
use crate::site::Site;

/// Runs a command with the bucket's address and credentials in its environment, as the tools of AWS take them.
fn run(bucket: &Bucket, secret: &str, args: &[&str]) -> Output {
    let environment = [
        ("AWS_ACCESS_KEY_ID", KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_ENDPOINT_URL", bucket.url()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "us-east-1"),
    ];
    Command::new(BINARY).args(args).envs(environment).output().unwrap()
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// Two objects of a log, and one that is none.
fn fill(bucket: &Bucket) {
    let folder = bucket.files().join("data/logs");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("day-1.ndjson"), log_of(1, 300)).unwrap();
    std::fs::write(folder.join("day-2.ndjson"), log_of(2, 300)).unwrap();
    std::fs::write(folder.join("readme.txt"), "not a log").unwrap();
}

#[test]
fn the_certificate_of_objects_is_that_of_the_same_files() {
    let bucket = Bucket::start();
    fill(&bucket);
    let folder = bucket.files().join("data/logs");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let options = ["--outcome", "reward", "--json"];
    let certify = |files: &[&str]| {
        let output = run(&bucket, SECRET, &[&["certify"], files, &options].concat());
        assert!(output.stderr.is_empty(), "{}", said(&output));
        output.stdout
    };
    let files = certify(&[&path("day-1.ndjson"), &path("day-2.ndjson")]);
    assert_eq!(certify(&["s3://data/logs/day-*.ndjson"]), files);
    assert_eq!(certify(&["s3://data/logs/day-1.ndjson", "s3://data/logs/day-2.ndjson"]), files);
    assert_eq!(certify(&[&format!("file://{}", path("day-?.ndjson"))]), files);
    // Failures in between are repeated.
    bucket.set(Mood::Sometimes(503));
    assert_eq!(certify(&["s3://data/logs/day-*.ndjson"]), files);
    assert!(bucket.failed() > 0);
    bucket.set(Mood::Well);
    let certificate = bucket.files().join("certificate.json");
    std::fs::write(&certificate, files).unwrap();
    let verify = |log: &str| run(&bucket, SECRET, &["verify", certificate.to_str().unwrap(), "--log", log]);
    let verified = verify("s3://data/logs/day-*.ndjson");
    assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));
    let other = verify("s3://data/logs/day-1.ndjson");
    assert_ne!(other.status.code(), Some(0), "{}", said(&other));
}

/// Whoever answers for the bucket cannot send the service elsewhere.
#[test]
fn redirects_are_not_followed() {
    let [answering, elsewhere] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let to = elsewhere.local_addr().unwrap();
    let url = format!("http://{}", answering.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in answering.incoming() {
            let (mut stream, mut head) = (stream.unwrap(), [0; 4096]);
            let _ = stream.read(&mut head);
            let _ = write!(
                stream,
                "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{to}/data/log.ndjson\r\ncontent-length: 0\r\n\
                 connection: close\r\n\r\n"
            );
        }
    });
    let environment = [
        ("AWS_ACCESS_KEY_ID", KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_ENDPOINT_URL", url.as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "us-east-1"),
    ];
    let arguments = ["inspect", "s3://data/log.ndjson", "--outcome", "reward"];
    let output = Command::new(BINARY).args(arguments).envs(environment).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    elsewhere.set_nonblocking(true).unwrap();
    assert!(elsewhere.accept().is_err(), "the address of the redirect was connected to");
}

#[test]
fn what_cannot_be_read_is_named() {
    let bucket = Bucket::start();
    fill(&bucket);
    let inspect = |file: &str, secret: &str| {
        let output = run(&bucket, secret, &["inspect", file, "--outcome", "reward"]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        said(&output)
    };
    for (file, words) in [
        ("s3://data/logs/day-3.ndjson", "s3://data/logs/day-3.ndjson does not exist"),
        ("s3://data/logs/hour-*.ndjson", "nothing matches"),
        ("s3://data/logs/*.txt", "readme.txt"),
        ("s3://data/logs/../logs/day-1.ndjson", ".."),
        ("s3://data", "names no object"),
        ("file:///nowhere/day-1.ndjson", "does not exist"),
    ] {
        let told = inspect(file, SECRET);
        assert!(told.contains(words), "{file}: {told}");
    }
    let refused = inspect("s3://data/logs/day-1.ndjson", "wrong-secret");
    assert!(
        refused.contains("s3://data/logs/day-1.ndjson") && !refused.contains("wrong-secret"),
        "{refused}"
    );
    let recipe = run(&bucket, SECRET, &["certify", "s3://data/logs/day-1.ndjson", "--recipe", "r.json"]);
    assert_eq!(recipe.status.code(), Some(2), "{}", said(&recipe));
}

#[test]
fn an_object_that_changes_while_it_is_read_is_not_certified() {
    let bucket = Bucket::start();
    fill(&bucket);
    let day = bucket.files().join("data/logs/day-1.ndjson");
    // Larger than one range, so that there is a second request to be surprised.
    let rows = log_of(1, 300);
    let long = rows.repeat((20 << 20) / rows.len());
    std::fs::write(&day, &long).unwrap();
    bucket.set(Mood::Slow(300));
    let changed = std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            run(&bucket, SECRET, &["inspect", "s3://data/logs/day-1.ndjson", "--outcome", "reward"])
        });
        replace_until(&day, &long, || reading.is_finished());
        reading.join().unwrap()
    });
    assert_eq!(changed.status.code(), Some(2), "{}", said(&changed));
    assert!(
        said(&changed).contains("was changed, replaced or deleted while it was read"),
        "{}",
        said(&changed)
    );
}

/// Replaces a file again and again, each time with another length.
fn replace_until(file: &Path, text: &str, done: impl Fn() -> bool) {
    let row = text.lines().next().unwrap();
    let mut longer = text.to_owned();
    while !done() {
        longer.push_str(row);
        longer.push('\n');
        let next = file.with_extension("next");
        std::fs::write(&next, &longer).unwrap();
        std::fs::rename(&next, file).unwrap();
    }
}

/// What servers may read.
const ALLOW: (&str, &str) = ("GUARANTOR_SOURCES_ALLOW", "s3://data/logs");

fn reference(uri: &str, materialize: bool) -> Value {
    json!({"source": {"uris": [uri], "materialize": materialize}, "outcome": "reward"})
}

fn status(client: &Client, import: &Value) -> String {
    let found = client.get(&format!("/v1/imports/{}", id_of(import))).expect(200);
    found["status"].as_str().unwrap().to_owned()
}

/// Waits for the end of an import, on any server.
fn end_of(client: &Client, import: &Value) -> Value {
    loop {
        let found = client.get(&format!("/v1/imports/{}?wait=10", id_of(import))).expect(200);
        if !matches!(found["status"].as_str(), Some("queued" | "running")) {
            return found;
        }
    }
}

#[test]
fn a_server_that_only_answers_queues_and_a_worker_reads() {
    if postgres::is_left_out() {
        return;
    }
    let site = Site::new();
    fill(&site.bucket);
    let api = site.server(&[ALLOW, ("GUARANTOR_ROLE", "api")]);
    let client = api.client();
    let queued = client.post("/v1/datasets", &reference("s3://data/logs/day-*.ndjson", true)).expect(202);
    let pinned = client.post("/v1/datasets", &reference("s3://data/logs/day-*.ndjson", false)).expect(202);
    assert_eq!(status(&client, &queued), "queued");
    // Failures of the bucket in between are repeated.
    site.bucket.set(Mood::Sometimes(503));
    let _worker = site.server(&[ALLOW, ("GUARANTOR_ROLE", "worker")]);
    let (copied, pinned) = (end_of(&client, &queued), end_of(&client, &pinned));
    assert!(site.bucket.failed() > 0);
    site.bucket.set(Mood::Well);
    let rows = log_of(1, 300) + &log_of(2, 300);
    let uploaded = client.upload("?outcome=reward", &rows).expect(201);
    for (ended, is_pinned) in [(&copied, false), (&pinned, true)] {
        assert_eq!(ended["status"], "succeeded", "{ended}");
        let dataset = client.get(&format!("/v1/datasets/{}", id_of(ended))).expect(200);
        assert_eq!((&dataset["digest"], &dataset["pinned"]), (&uploaded["digest"], &json!(is_pinned)));
        let job = client.finish(&client.submit(json!({"dataset_id": id_of(&dataset)})));
        assert_eq!(job["status"], "succeeded", "{job}");
    }
    // The bucket has the service's own files too, which nobody may read by reference.
    let own = client.post("/v1/datasets", &reference("s3://data/p/datasets/*/*.parquet", true));
    own.problem(422, "address_not_allowed");
    let refused = site.refused(&[("GUARANTOR_SOURCES_ALLOW", "s3://data")]);
    assert!(refused.contains("sources_allow"), "{refused}");
    // An object that was replaced.
    std::fs::write(site.bucket.files().join("data/logs/day-1.ndjson"), log_of(3, 300)).unwrap();
    let job = client.finish(&client.submit(json!({"dataset_id": id_of(&pinned), "seed": 2})));
    assert_eq!(
        (&job["status"], &job["error"]["code"]),
        (&json!("failed"), &json!("source_changed")),
        "{job}"
    );
}

#[test]
fn an_import_that_waits_to_be_stored_keeps_its_lease() {
    if postgres::is_left_out() {
        return;
    }
    let site = Site::new();
    fill(&site.bucket);
    let server = site.server(&[ALLOW]);
    let client = server.client();
    let ended = std::thread::scope(|scope| {
        // The transaction that stores the dataset has the row of the import, and waits for this lock; meanwhile the lease
        // is renewed, several times.
        let lock = "BEGIN; LOCK TABLE dataset_versions IN ACCESS EXCLUSIVE MODE; \
                    SELECT pg_sleep(4); COMMIT";
        let locking = scope.spawn(|| site.execute(lock));
        let held = "SELECT mode FROM pg_locks l JOIN pg_class c ON c.oid = l.relation \
                    WHERE c.relname = 'dataset_versions' AND mode = 'AccessExclusiveLock' AND granted";
        eventually(|| site.query(held).is_some(), &true);
        let queued = client.post("/v1/datasets", &reference("s3://data/logs/day-*.ndjson", true)).expect(202);
        locking.join().unwrap();
        end_of(&client, &queued)
    });
    assert_eq!((&ended["status"], &ended["attempt"]), (&json!("succeeded"), &json!(1)), "{ended}");
    assert_eq!(ended["progress"]["bytes_read"], ended["progress"]["bytes"], "{ended}");
}

#[test]
fn an_import_can_be_canceled_and_goes_on_when_its_worker_dies() {
    if postgres::is_left_out() {
        return;
    }
    let site = Site::new();
    fill(&site.bucket);
    let mut dying = site.server(&[ALLOW]);
    let client = dying.client();
    // Nothing ends while every answer takes a minute.
    site.bucket.set(Mood::Slow(60_000));
    let canceled = client.post("/v1/datasets", &reference("s3://data/logs/day-*.ndjson", true)).expect(202);
    eventually(|| status(&client, &canceled), &"running".into());
    let waiting = client.post("/v1/datasets", &reference("s3://data/logs/day-1.ndjson", true)).expect(202);
    client.post(&format!("/v1/imports/{}/cancel", id_of(&waiting)), &json!({})).expect(200);
    assert_eq!(status(&client, &waiting), "cancelled");
    client.post(&format!("/v1/imports/{}/cancel", id_of(&canceled)), &json!({})).expect(200);
    assert_eq!(end_of(&client, &canceled)["status"], "cancelled");
    client.get(&format!("/v1/datasets/{}", id_of(&canceled))).problem(404, "not_found");
    let again = client.post("/v1/datasets", &reference("s3://data/logs/day-*.ndjson", true)).expect(202);
    eventually(|| status(&client, &again), &"running".into());
    dying.kill();
    site.bucket.set(Mood::Well);
    let other = site.server(&[ALLOW]);
    let ended = end_of(&other.client(), &again);
    assert_eq!((&ended["status"], &ended["attempt"]), (&json!("succeeded"), &json!(2)), "{ended}");
    let dataset = other.client().get(&format!("/v1/datasets/{}", id_of(&ended))).expect(200);
    assert_eq!(dataset["rows"], 600);
}
