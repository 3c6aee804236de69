//! The second round through the real program: a policy that was learned with exploration is deployed in the
//! simulated world, and its own log is certified again.

use std::process::Command;

use serde_json::{Value, json};

use crate::common::{BINARY, Client, Server, id_of};

/// The log of the toy world, logged by the policy in a file, or by the built-in one.
fn simulated(folder: &tempfile::TempDir, rows: &str, seed: &str, policy: Option<&str>) -> String {
    let out = folder.path().join("log.ndjson");
    let mut command = Command::new(BINARY);
    command.args(["simulate", "--rows", rows, "--seed", seed, "--out"]).arg(&out);
    if let Some(policy) = policy {
        command.arg("--policy").arg(folder.path().join(policy));
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(out).unwrap()
}

/// Uploads a log, learns from it, and returns the job and its policy's parameters.
fn learned(client: &Client, rows: &str, explore: Value) -> (Value, Value) {
    let dataset = id_of(&client.upload("?outcome=reward", rows).expect(201));
    let job = client.submit(json!({"dataset_id": dataset, "explore": explore}));
    let job = client.finish(&job);
    assert_eq!(job["status"], "succeeded", "{job}");
    let policy = job["result"]["policy_id"].as_str().unwrap();
    let parameters = client.get(&format!("/v1/policies/{policy}/parameters")).expect(200);
    (job, parameters)
}

fn smallest_propensity(rows: &str) -> f64 {
    let of_row = |line: &str| -> f64 {
        let row: Value = serde_json::from_str(line).unwrap();
        row["propensities"].as_array().unwrap().iter().map(|p| p.as_f64().unwrap()).fold(1.0, f64::min)
    };
    rows.lines().map(of_row).fold(1.0, f64::min)
}

#[test]
fn a_policy_that_explores_is_certified_again_on_its_own_log() {
    let server = Server::start();
    let client = server.client();
    let folder = tempfile::tempdir().unwrap();
    let (job, parameters) = learned(&client, &simulated(&folder, "8000", "1", None), json!(0.1));
    assert_eq!(job["result"]["decision"], "deploy", "{job}");
    let exploration = &job["result"]["exploration"];
    assert_eq!((&exploration["share"], &exploration["with"]), (&json!(0.1), &json!("uniform")));
    assert!(exploration["estimated_cost"].as_f64().unwrap() > 0.0, "{exploration}");

    std::fs::write(folder.path().join("policy.json"), parameters.to_string()).unwrap();
    let rows = simulated(&folder, "8000", "2", Some("policy.json"));
    // A tenth of the uniform policy over five actions.
    assert!(smallest_propensity(&rows) >= 0.1 / 5.0 - 1e-12);
    let (second, _) = learned(&client, &rows, json!(0.02));
    let codes = |job: &Value| job["result"]["reasons"][0]["code"].as_str().unwrap().to_owned();
    assert!(!codes(&second).starts_with("log_check_failed"), "{second}");
    // Less exploration alone is an improvement, and it can be certified.
    assert_eq!(second["result"]["decision"], "deploy", "{second}");

    // The stored parameters are the policy: stored again, they have its digest.
    let again = client.post("/v1/policies", &parameters).expect(201);
    let policy = client.get(&format!("/v1/policies/{}", job["result"]["policy_id"].as_str().unwrap()));
    assert_eq!(again["digest"], policy.json["digest"]);
}

#[test]
fn a_policy_that_does_not_explore_says_that_its_log_cannot_be_certified() {
    let server = Server::start();
    let client = server.client();
    let folder = tempfile::tempdir().unwrap();
    let (job, parameters) = learned(&client, &simulated(&folder, "2000", "3", None), json!(0));
    assert_eq!(parameters["kind"], "lig");
    let note = job["result"]["exploration"]["note"].as_str().unwrap();
    assert!(note.contains("cannot be certified again"), "{note}");
}

#[test]
fn a_policy_can_explore_with_the_logging_policy() {
    let server = Server::start();
    let client = server.client();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("policy.json");
    let mut command = Command::new(BINARY);
    command
        .args(["simulate", "--rows", "2000", "--seed", "4", "--out"])
        .arg(folder.path().join("log.ndjson"));
    assert!(command.arg("--policy-out").arg(&out).output().unwrap().status.success());
    let plain: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    // The logging policy explored itself, and its log has its propensities.
    let uniform = json!({"kind": "uniform", "n_actions": 5, "dim": 8});
    let logging = json!({"kind": "exploring", "share": 0.2, "base": plain, "with": uniform});
    std::fs::write(folder.path().join("logging.json"), logging.to_string()).unwrap();
    let rows = simulated(&folder, "2000", "5", Some("logging.json"));
    let policy = id_of(&client.post("/v1/policies", &logging).expect(201));
    let query = format!("?outcome=reward&logging_policy_id={policy}");
    let dataset = id_of(&client.upload(&query, &rows).expect(201));
    let explore = json!({"share": 0.3, "with": "logging_policy"});
    let job = client.finish(&client.submit(json!({"dataset_id": dataset, "explore": explore})));
    assert_eq!(job["status"], "succeeded", "{job}");
    let id = job["result"]["policy_id"].as_str().unwrap();
    let parameters = client.get(&format!("/v1/policies/{id}/parameters")).expect(200);
    assert_eq!((&parameters["kind"], &parameters["with"]), (&json!("exploring"), &logging));
    let certificate = client.get(&format!("/v1/jobs/{}/certificate", id_of(&job))).expect(200);
    let checked = client.post("/v1/certificates/verify", &certificate).expect(200);
    assert_eq!(checked["valid"], true, "{checked}");
}
