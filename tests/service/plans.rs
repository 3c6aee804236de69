//! Plans through the real server and the command line: before any log, on a keep, and in a pipeline.

use std::process::Command;

use crate::common::{BINARY, Server, log};
use serde_json::{Value, json};

/// Runs the program: its exit code, and what it wrote to standard output.
fn guarantor(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(BINARY).args(args).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_server_and_the_command_line_plan_alike() {
    let server = Server::start();
    let body = json!({"improvement": 0.02, "outcome_mean": 0.1, "n_actions": 4, "exploration": 0.1,
        "logging": "fixed", "rows_per_day": 20000});
    let plan = server.client().post("/v1/plans", &body).expect(200);
    assert_eq!((&plan["possible"], &plan["power"]), (&json!(true), &json!(0.8)));
    assert!(plan["fresh"]["rows"].as_u64() < plan["pooled"]["rows"].as_u64(), "{plan}");
    assert_eq!(plan["sooner"], "fresh");
    assert!(!plan["exploration"].as_array().unwrap().is_empty(), "{plan}");
    let args = "plan --improvement 0.02 --outcome-mean 0.1 --n-actions 4 --exploration 0.1 --logging fixed \
                --rows-per-day 20000 --json";
    let (code, text) = guarantor(&args.split_whitespace().collect::<Vec<_>>());
    assert_eq!((code, serde_json::from_str::<Value>(&text).unwrap()), (Some(0), plan.clone()));
    let (code, text) = guarantor(&args.trim_end_matches(" --json").split_whitespace().collect::<Vec<_>>());
    assert!(code == Some(0) && text.contains("fresh rows"), "{text}");
    // No rows can show that 0.01 is above 0.02.
    let hopeless = ["plan", "--improvement", "0.01", "--min-improvement", "0.02", "--n-actions", "4"];
    assert_eq!(guarantor(&hopeless).0, Some(1));
    assert_eq!(guarantor(&["plan", "--improvement", "7", "--n-actions", "4"]).0, Some(2));
}

#[test]
fn a_keep_says_why_and_how_much_longer() {
    let server = Server::start();
    let client = server.client();
    let rows = log(60);
    let dataset = client.upload("?outcome=reward&logging=fixed", &rows).expect(201);
    let spec = json!({"dataset_id": dataset["id"], "min_improvement": 0.9, "rows_per_day": 100});
    let job = client.submit(spec);
    client.finish(&job);
    let certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    assert_eq!(certificate["decision"], "keep");
    let codes: Vec<&str> =
        certificate["reasons"].as_array().unwrap().iter().map(|r| r["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"policy_no_better"), "{codes:?}");
    let plan = &certificate["plan"];
    assert_eq!((&plan["possible"], &plan["rows"]), (&json!(false), &Value::Null));
    assert_eq!((&plan["min_improvement"], &plan["rows_per_day"]), (&json!(0.9), &json!(100.0)));
    let breakdown = &certificate["breakdown"];
    let changes: f64 =
        breakdown["steps"].as_array().unwrap().iter().map(|s| s["change"].as_f64().unwrap()).sum();
    let sum = breakdown["estimate"].as_f64().unwrap() + changes;
    assert!((sum - certificate["guaranteed_improvement"].as_f64().unwrap()).abs() < 1e-12, "{breakdown}");
    // The server recomputes all of it, and a changed promise is found.
    assert_eq!(client.post("/v1/certificates/verify", &certificate).expect(200)["valid"], true);
    let mut forged = certificate.clone();
    forged["plan"]["possible"] = true.into();
    assert_eq!(client.post("/v1/certificates/verify", &forged).expect(200)["valid"], false);
}

#[test]
fn verify_can_require_deploy() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.upload("?outcome=reward&logging=fixed", &log(400)).expect(201);
    let folder = tempfile::tempdir().unwrap();
    let key = client.get("/v1/certificates/key").expect(200)["public_key"].as_str().unwrap().to_owned();
    for (min, code) in [(0.0, Some(0)), (0.9, Some(1))] {
        let job = client.submit(json!({"dataset_id": dataset["id"], "min_improvement": min}));
        client.finish(&job);
        let certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
        assert_eq!(certificate["decision"] == "deploy", code == Some(0), "{}", certificate["statement"]);
        let path = folder.path().join("certificate");
        std::fs::write(&path, certificate.to_string()).unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(guarantor(&["verify", path, "--public-key", &key]).0, Some(0));
        let (found, said) = guarantor(&["verify", path, "--public-key", &key, "--require", "deploy"]);
        assert_eq!(found, code, "{said}");
        assert_eq!(said.contains("says keep"), code == Some(1), "{said}");
    }
}
