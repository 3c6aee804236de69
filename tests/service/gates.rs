//! Gates: what they name and require, standing gates, tokens, and what must never open one.

mod forged;
mod gone;
mod guardrails;
mod jobs;
mod standing;
mod tokens;

use crate::common;

use common::{Answer, Client, Server, eventually, id_of, log_of};
use serde_json::{Value, json};

const NDJSON: [(&str, &str); 1] = [("content-type", "application/x-ndjson")];
const NOBODY: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const ROWS: usize = 400;

/// Rows that carry four candidates: one plays the best action, one plays it often, one is the logging policy, and
/// the probabilities of the last one do not sum to 1.
fn rows(seed: u64) -> String {
    let row = |line: &str| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        let best = row["reward"] == 1;
        let often = if best { 0.75 } else { 0.125 };
        let wrong = if best { 1.0 } else { 0.75 };
        let third = 1.0 / 3.0;
        row["candidates"] = json!({"best": u8::from(best), "often": often, "same": third, "wrong": wrong});
        format!("{row}\n")
    };
    log_of(seed, ROWS).lines().map(row).collect()
}

fn upload(client: &Client, seed: u64, query: &str) -> String {
    id_of(&client.upload(&format!("?outcome=reward{query}"), &rows(seed)).expect(201))
}

fn put(client: &Client, path: &str, body: &Value) -> Answer {
    client.send("PUT", path, &[("content-type", "application/json")], Some(body.to_string().as_bytes()))
}

/// The spec of an evaluation of logged candidates, with further fields.
fn spec(dataset: &str, candidates: &[&str], more: Value) -> Value {
    let candidates: Vec<Value> =
        candidates.iter().map(|name| json!({"kind": "logged", "name": name})).collect();
    let mut spec = json!({"dataset_id": dataset, "candidates": candidates, "independent_of_log": true});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

/// A job that has succeeded.
fn certify(client: &Client, spec: Value) -> String {
    let job = client.submit(spec);
    let done = client.finish(&job);
    assert_eq!(done["status"], "succeeded", "{done}");
    job
}

/// Waits until the server has noticed its first key.
fn closed(server: &Server) {
    eventually(|| server.client().get("/v1/gates").status, &401);
}

fn gate_of(client: &Client, job: &str, query: &str) -> Answer {
    client.get(&format!("/v1/jobs/{job}/gate{query}"))
}

/// Asserts that one requirement closed the gate, and returns what was required and found.
#[track_caller]
fn unmet(answer: &Answer, requirement: &str) -> (Value, Value) {
    answer.problem(403, "requirement_failed");
    assert_eq!((&answer.json["ok"], &answer.json["requirement"]), (&json!(false), &json!(requirement)));
    (answer.json["required"].clone(), answer.json["actual"].clone())
}
