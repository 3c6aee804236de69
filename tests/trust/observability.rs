//! Logs and metrics alone show why a job was slow, why it failed, and why its decision was keep.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Client, Server};

/// A server that logs as JSON to a file.
fn logging() -> (Server, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let settings =
        [("GUARANTOR_LOG_FORMAT", "json"), ("GUARANTOR_LOG_FILTER", "info"), ("GUARANTOR_WORKERS", "1")];
    (Server::start_logging(&settings, file.path()), file)
}

/// The log lines about a job with this message.
fn lines(file: &Path, job: &str, message: &str) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("every line is JSON"));
    all.filter(|line| line["job_id"] == job && line["message"] == message).collect()
}

fn ended(file: &Path, job: &str) -> Value {
    let found = lines(file, job, "job ended");
    assert_eq!(found.len(), 1, "expected one line for the end of a job: {found:?}");
    found.into_iter().next().unwrap()
}

fn metrics(client: &Client) -> BTreeMap<String, f64> {
    let text = client.get("/metrics").text;
    let samples = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    samples.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

/// Waits for the metric to have this value: it is counted a moment after the job has ended.
fn counted(client: &Client, name: &str, value: f64) {
    for _ in 0..500 {
        if metrics(client).get(name) == Some(&value) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{name} is not {value}: {:#?}", metrics(client));
}

#[test]
fn a_slow_job_shows_whether_it_waited_or_computed() {
    let (server, file) = logging();
    let client = server.client();
    let dataset = client.dataset(400);
    let first = client.submit_endless(&dataset);
    let second = client.submit(json!({"dataset_id": dataset}));
    assert_eq!(metrics(&client)["guarantor_queue_depth"], 1.0);
    assert_eq!(metrics(&client)["guarantor_jobs_running"], 1.0);
    // Long enough to tell waiting from computing.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    client.post(&format!("/v1/jobs/{first}/cancel"), &json!({})).expect(200);
    client.finish(&first);
    client.finish(&second);
    let (long, queued) = (ended(file.path(), &first), ended(file.path(), &second));
    let seconds =
        |line: &Value, field: &str| line[field].as_f64().unwrap_or_else(|| panic!("{field}: {line}"));
    assert_eq!(long["status"], "cancelled");
    assert!(
        seconds(&long, "run_seconds") >= 1.0
            && seconds(&long, "wait_seconds") < seconds(&long, "run_seconds")
    );
    assert!(long["phases"].as_str().unwrap().contains("learning "), "{long}");
    assert_eq!(queued["status"], "succeeded");
    assert!(seconds(&queued, "wait_seconds") >= 1.0, "{queued}");
    for phase in ["fetching ", "decoding ", "learning ", "certifying ", "storing "] {
        assert!(queued["phases"].as_str().unwrap().contains(phase), "{phase}: {queued}");
    }
    counted(&client, "guarantor_job_wait_seconds_count", 2.0);
    let all = metrics(&client);
    assert!(all["guarantor_job_wait_seconds_sum"] >= 1.0 && all["guarantor_job_compute_seconds_sum"] >= 1.0);
    assert!(all["guarantor_job_phase_seconds_sum{phase=\"learning\"}"] > 0.0);
    assert!(all["guarantor_data_free_bytes"] > 0.0);
}

#[test]
fn a_job_that_is_canceled_before_it_starts_ends_once() {
    let (server, file) = logging();
    let client = server.client();
    let dataset = client.dataset(400);
    let running = client.submit_endless(&dataset);
    let waiting = client.submit(json!({"dataset_id": dataset}));
    for _ in 0..3 {
        client.post(&format!("/v1/jobs/{waiting}/cancel"), &json!({})).expect(200);
    }
    client.post(&format!("/v1/jobs/{running}/cancel"), &json!({})).expect(200);
    client.finish(&running);
    assert_eq!(ended(file.path(), &waiting)["status"], "cancelled");
    // Jobs are counted in the order in which they ended, so after the last one all are.
    counted(&client, "guarantor_job_wait_seconds_count", 1.0);
    counted(&client, "guarantor_jobs_total{status=\"cancelled\"}", 2.0);
}

#[test]
fn a_failed_job_shows_why_and_on_which_dataset() {
    let (server, file) = logging();
    let client = server.client();
    let dataset = client.dataset(400);
    let folder = server.data.path().join("blobs/datasets").join(&dataset);
    let part = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&part, bytes).unwrap();
    let job = client.submit(json!({"dataset_id": dataset}));
    client.finish(&job);
    let line = ended(file.path(), &job);
    assert_eq!(
        (&line["status"], &line["error_code"]),
        (&json!("failed"), &json!("dataset_unreadable")),
        "{line}"
    );
    assert_eq!(line["dataset_id"], dataset);
    assert!(line["error"].as_str().unwrap().contains(&dataset), "{line}");
    counted(&client, "guarantor_job_failures_total{code=\"dataset_unreadable\"}", 1.0);
    counted(&client, "guarantor_jobs_total{status=\"failed\"}", 1.0);
}

#[test]
fn a_keep_decision_shows_its_reason() {
    let (server, file) = logging();
    let client = server.client();
    let dataset = client.dataset(400);
    let job = client.submit(json!({"dataset_id": dataset, "min_improvement": 0.99}));
    let done = client.finish(&job);
    let reasons = done["result"]["reasons"].as_array().unwrap();
    let codes: Vec<&str> = reasons.iter().map(|reason| reason["code"].as_str().unwrap()).collect();
    let reason = codes[0];
    let line = ended(file.path(), &job);
    assert_eq!((&line["decision"], &line["reasons"]), (&json!("keep"), &json!(codes.join(","))), "{line}");
    assert_eq!(line["guaranteed_improvement"], done["result"]["guaranteed_improvement"]);
    counted(&client, &format!("guarantor_keep_reasons_total{{reason=\"{reason}\"}}"), 1.0);
    counted(&client, "guarantor_decisions_total{decision=\"keep\"}", 1.0);
}

#[test]
fn a_restarted_job_shows_its_attempts() {
    let (mut server, file) = logging();
    let client = server.client();
    let dataset = client.dataset(2000);
    let job = client.submit_endless(&dataset);
    server.kill();
    server.restart();
    let client = server.client();
    client.follow(&job, &[], |event| event.kind == "started" && event.data["data"]["attempt"] == 2);
    assert_eq!(lines(file.path(), &job, "lease of a job expired").len(), 1);
    let starts = lines(file.path(), &job, "job started");
    assert_eq!(starts.iter().map(|line| &line["attempt"]).collect::<Vec<_>>(), [1, 2]);
    counted(&client, "guarantor_jobs_requeued_total{cause=\"lease\"}", 1.0);
    client.post(&format!("/v1/jobs/{job}/cancel"), &json!({})).expect(200);
    assert_eq!(client.finish(&job)["status"], "cancelled");
    assert_eq!(ended(file.path(), &job)["attempt"], 2);
}
