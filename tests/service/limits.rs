//! What would take too much memory or time, or could not be computed or signed, is rejected before it begins.

use std::process::Command;

use serde_json::{Value, json};

use crate::common::{Answer, BINARY, Client, Server, id_of, log};

#[track_caller]
fn names_the_field(answer: &Answer, field: &str) {
    assert_eq!(answer.json["errors"][0]["field"], field, "{}", answer.text);
}

/// p = 1, K = 2 and this many hidden units. It is text, because the tree of its values would take a gigabyte.
fn wide_policy(units: usize) -> String {
    let list = |item: &str, count: usize| vec![item; count].join(",");
    format!(
        r#"{{"kind":"softmax","mean":[{}],"features":{{"kind":"hidden","center":[0],"inverse_scale":[1],
            "weights":[[{}]],"bias":[{}]}}}}"#,
        list("[0,0]", units + 1),
        list("1", units),
        list("0", units),
    )
}

fn send_json(client: &Client, path: &str, body: &str) -> Answer {
    client.send("POST", path, &[("content-type", "application/json")], Some(body.as_bytes()))
}

#[test]
fn a_wide_policy_is_rejected_at_upload() {
    let server = Server::start();
    let client = server.client();
    let refused = send_json(&client, "/v1/policies", &wide_policy(1_000_000));
    refused.problem(422, "too_large");
    assert!(refused.text.contains("1000000 hidden units"), "{}", refused.text);
    // The parts of a policy that explores are policies too.
    let uniform = r#"{"kind":"uniform","n_actions":2,"dim":1}"#;
    let explores =
        format!(r#"{{"kind":"exploring","share":0.1,"base":{},"with":{uniform}}}"#, wide_policy(200_000));
    send_json(&client, "/v1/policies", &explores).problem(422, "too_large");
    assert_eq!(client.get("/v1/policies").expect(200)["data"], json!([]));
}

/// Four terabytes, and as many multiplications, in a request of four megabytes.
#[test]
fn a_million_contexts_for_a_million_hidden_units_are_rejected_before_they_are_computed() {
    let server = Server::start_with(&[("GUARANTOR_MAX_FEATURES", "1000000")]);
    let client = server.client();
    let policy = id_of(&send_json(&client, "/v1/policies", &wide_policy(1_000_000)).expect(201));
    let contexts = format!(r#"{{"contexts":[{}]}}"#, vec!["[0]"; 1_000_000].join(","));
    for what in ["propensities", "actions"] {
        let path = format!("/v1/policies/{policy}/{what}");
        let refused = send_json(&client, &path, &contexts);
        refused.problem(422, "too_large");
        names_the_field(&refused, "contexts");
        // More contexts than one block of φ has.
        let few = client.post(&path, &json!({"contexts": vec![[0.5]; 9]})).expect(200);
        assert_eq!(few[what].as_array().unwrap().len(), 9);
    }
    let mixed = json!({"kind": "mixed_logit", "mean": [vec![0.0; 9000]]});
    let mixed = id_of(&client.post("/v1/policies", &mixed).expect(201));
    let one = json!({"contexts": [[0.5]]});
    client.post(&format!("/v1/policies/{mixed}/propensities"), &one).problem(422, "too_large");
}

/// 20 rows with 20 000 features and one of 5000 actions.
fn large_log() -> String {
    let x = vec!["0.5"; 20_000].join(",");
    let row =
        |i: usize| format!("{{\"x\":[{x},{i}],\"action\":{},\"propensity\":0.5,\"cost\":-1}}\n", i % 5000);
    (0..20).map(row).collect()
}

#[test]
fn a_job_that_does_not_fit_into_memory_is_rejected_at_submission() {
    let four_gigabytes = (4u64 << 30).to_string();
    let server = Server::start_with(&[("GUARANTOR_MAX_JOB_MEMORY_BYTES", &four_gigabytes)]);
    let client = server.client();
    let large = id_of(&client.upload("?n_actions=5000", &large_log()).expect(201));
    let key = [("content-type", "application/json"), ("idempotency-key", "k")];
    let body = json!({ "dataset_id": large }).to_string();
    for _ in 0..2 {
        let refused = client.send("POST", "/v1/jobs", &key, Some(body.as_bytes()));
        refused.problem(422, "job_too_large");
        names_the_field(&refused, "dataset_id");
        let estimate = refused.json["estimated_memory_bytes"].as_u64().unwrap();
        assert!(estimate > 16 << 30, "{estimate}");
        assert_eq!(refused.json["max_job_memory_bytes"], 4u64 << 30);
    }
    let zero = json!({"dataset_id": large, "bound": "betting", "prior": {"kind": "zero"}});
    client.post("/v1/jobs", &zero).problem(422, "job_too_large");
    assert_eq!(client.get("/v1/jobs").expect(200)["data"], json!([]));
    // What fits still runs.
    let small = client.dataset(200);
    let done = client.finish(&client.submit(json!({ "dataset_id": small })));
    assert_eq!(done["status"], "succeeded", "{done}");
    // The uniform policy has no parameters, so the large log can be used to evaluate it.
    let uniform = json!({"kind": "uniform", "n_actions": 5000, "dim": 20_001});
    let uniform = id_of(&client.post("/v1/policies", &uniform).expect(201));
    let evaluate = json!({"dataset_id": large, "independent_of_log": true,
        "candidates": [{"kind": "policy", "policy_id": uniform}]});
    let done = client.finish(&client.submit(evaluate));
    assert_eq!(done["status"], "succeeded", "{done}");
}

/// Jobs that were accepted by another limit, or by a release that had none, do not end the process either.
#[test]
fn a_queued_job_that_does_not_fit_anymore_fails_without_being_run() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start_on(data.path(), &[]);
    let client = server.client();
    let dataset = client.dataset(2000);
    let running = client.submit_endless(&dataset);
    let queued = client.submit(json!({ "dataset_id": dataset }));
    server.kill();
    let server = Server::start_on(data.path(), &[("GUARANTOR_MAX_JOB_MEMORY_BYTES", "1000")]);
    let client = server.client();
    for job in [running, queued] {
        let done = client.finish(&job);
        assert_eq!(
            (&done["status"], &done["error"]["code"]),
            (&json!("failed"), &json!("job_too_large")),
            "{done}"
        );
    }
    client.post("/v1/jobs", &json!({ "dataset_id": dataset })).problem(422, "job_too_large");
}

#[test]
fn the_default_limit_is_logged_at_the_start() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let environment = [("GUARANTOR_LOG_FILTER", "info"), ("GUARANTOR_LOG_FORMAT", "json")];
    let _server = Server::start_logging(&environment, log.path());
    let text = std::fs::read_to_string(log.path()).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let limits: Vec<u64> = lines.filter_map(|line| line["max_job_memory_bytes"].as_u64()).collect();
    assert!(limits.len() == 1 && limits[0] > 64 << 20, "{text}");
}

#[test]
fn the_command_line_checks_memory_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log.ndjson");
    std::fs::write(&file, log(200)).unwrap();
    let certify = |more: &[&str]| {
        let mut command = Command::new(BINARY);
        command.arg("certify").arg(&file).args(["--outcome", "reward"]).args(more).output().unwrap()
    };
    let refused = certify(&["--max-memory", "1000"]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("of memory") && error.contains("--max-memory"), "{error}");
    let enough = error.trim().rsplit(' ').next().unwrap().to_owned();
    let done = certify(&["--max-memory", &enough]);
    assert!(matches!(done.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Every number of a spec beyond both ends of its range, and what else would overflow, be lost in rounding, or could
/// not be written to a certificate.
#[test]
fn every_number_of_a_spec_has_a_range() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset(200);
    let tiny = f64::from_bits(1);
    let huge = f64::MAX;
    let most = u64::MAX;
    let rejected: Vec<(&str, Value)> = vec![
        ("delta", json!({"delta": tiny})),
        ("delta", json!({"delta": 9e-13})),
        ("delta", json!({"delta": 0.9991})),
        ("delta", json!({"delta": huge})),
        ("delta", json!({"delta": -0.0})),
        ("family.delta", json!({"family": {"delta": tiny, "looks": 1}})),
        ("family.delta", json!({"family": {"delta": 1e-10, "looks": 1000}})),
        ("family.delta", json!({"family": {"delta": 1.0, "looks": 2}})),
        ("family.looks", json!({"family": {"delta": 0.1, "looks": 0}})),
        ("family.looks", json!({"family": {"delta": 0.1, "looks": 10_001}})),
        ("family.looks", json!({"family": {"delta": 0.1, "looks": most}})),
        ("tau", json!({"tau": tiny})),
        ("tau", json!({"tau": 9e-10})),
        ("tau", json!({"tau": 1.0000001})),
        ("tau", json!({"tau": huge})),
        ("xi", json!({"bound": "cbb", "xi": -1.0000001})),
        ("xi", json!({"bound": "cbb", "xi": tiny})),
        ("xi", json!({"bound": "betting", "xi": -huge})),
        ("xi", json!({"bound": "betting", "xi": -tiny})),
        ("xi", json!({"bound": "cbb", "xi": -9e-7})),
        ("min_improvement", json!({"min_improvement": -tiny})),
        ("min_improvement", json!({"min_improvement": 1.0000001})),
        ("baseline.risk", json!({"baseline": {"kind": "known", "risk": tiny}})),
        ("baseline.risk", json!({"baseline": {"kind": "known", "risk": -huge}})),
        ("explore", json!({"explore": -tiny})),
        ("explore", json!({"explore": 0.5000001})),
        ("explore", json!({"explore": {"share": huge}})),
        ("prior.scale", json!({"prior": {"scale": tiny}})),
        ("prior.scale", json!({"prior": {"scale": 1.0000001e6}})),
        ("prior.fraction", json!({"prior": {"fraction": tiny}})),
        ("prior.fraction", json!({"prior": {"fraction": 0.9900001}})),
        ("optimizer.epochs", json!({"optimizer": {"epochs": 0}})),
        ("optimizer.epochs", json!({"optimizer": {"epochs": 100_001}})),
        ("optimizer.epochs", json!({"optimizer": {"epochs": most}})),
        ("optimizer.learning_rate", json!({"optimizer": {"learning_rate": tiny}})),
        ("optimizer.learning_rate", json!({"optimizer": {"learning_rate": 10.000001}})),
        ("optimizer.batch_size", json!({"optimizer": {"batch_size": 0}})),
        ("optimizer.batch_size", json!({"optimizer": {"batch_size": 1_000_000_001}})),
        ("optimizer.batch_size", json!({"optimizer": {"batch_size": most}})),
        ("optimizer.max_seconds", json!({"optimizer": {"max_seconds": -tiny}})),
        ("optimizer.max_seconds", json!({"optimizer": {"max_seconds": 86_401}})),
        ("optimizer.max_seconds", json!({"optimizer": {"max_seconds": huge}})),
        ("seed", json!({"seed": 1u64 << 53})),
        ("seed", json!({"seed": most})),
    ];
    for (field, mut spec) in rejected {
        spec["dataset_id"] = json!(dataset);
        let answer = client.post("/v1/jobs", &spec);
        assert_eq!(answer.json["code"], "invalid_value", "{spec}: {}", answer.text);
        answer.problem(422, "invalid_value");
        names_the_field(&answer, field);
    }
    assert_eq!(client.get("/v1/jobs").expect(200)["data"], json!([]), "a rejected job was stored");
}

/// The ends of the ranges themselves: each gives a signed certificate at the first attempt.
#[test]
fn jobs_at_the_ends_of_the_ranges_succeed() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset(200);
    let tiny = f64::from_bits(1);
    let specs = [
        json!({"delta": 1e-12, "seed": (1u64 << 53) - 1}),
        json!({"delta": 0.999, "bound": "cbb"}),
        json!({"family": {"delta": 1e-8, "looks": 10_000}}),
        json!({"tau": 1e-9, "bound": "cbb"}),
        json!({"tau": 1e-9}),
        json!({"tau": 1e-9, "bound": "catoni"}),
        json!({"tau": 1.0, "bound": "london_sandler"}),
        json!({"bound": "betting", "xi": -1, "tau": 1e-9}),
        json!({"bound": "betting", "xi": -1e-6}),
        json!({"bound": "cbb", "xi": -1e-6, "tau": 1}),
        json!({"min_improvement": tiny, "explore": tiny}),
        json!({"min_improvement": 1, "explore": 0.5}),
        json!({"baseline": {"kind": "known", "risk": -1}}),
        json!({"baseline": {"kind": "known", "risk": -0.0}}),
        json!({"prior": {"kind": "split", "scale": 1e-6, "fraction": 0.01}}),
        json!({"prior": {"kind": "zero", "scale": 1e6}, "bound": "betting"}),
        json!({"prior": {"kind": "zero", "scale": 1e-6}, "bound": "cbb"}),
        json!({"prior": {"fraction": 0.99}}),
        json!({"bound": "cbb", "optimizer": {"preset": "paper", "epochs": 1, "batch_size": 1_000_000_000,
            "learning_rate": 10}}),
        json!({"bound": "cbb", "optimizer": {"preset": "paper", "epochs": 2, "batch_size": 1, "learning_rate": 1e-9}}),
        json!({"bound": "cbb", "optimizer": {"epochs": 1, "learning_rate": 10, "max_seconds": tiny}}),
        json!({"optimizer": {"epochs": 100_000, "learning_rate": 1e-9, "max_seconds": 86_400}}),
    ];
    for mut spec in specs {
        spec["dataset_id"] = json!(dataset);
        let done = client.finish(&client.submit(spec.clone()));
        assert_eq!((&done["status"], &done["attempt"]), (&json!("succeeded"), &json!(1)), "{spec}: {done}");
        let certificate = client.get(done["result"]["certificate_url"].as_str().unwrap()).expect(200);
        assert!(certificate["signature"].is_object(), "{spec}");
    }
}
