//! Outcomes that are cut, and rows with several outcomes, through the service and the command line.

use std::process::Command;

use serde_json::{Value, json};

use crate::common::{Answer, BINARY, Client, Server, id_of};

const DECLARED: &str = r#"{"revenue": {"kind": "reward", "max": 100, "cap": 60}, "complaint": {"kind": "cost"}, "return": {"kind": "cost"}}"#;

/// A query with this option.
fn query(name: &str, value: &str) -> String {
    form_urlencoded::Serializer::for_suffix(String::from("?"), 1).append_pair(name, value).finish()
}

/// The log of the simulated shop.
fn shop(rows: usize, seed: u64) -> String {
    let (rows, seed) = (rows.to_string(), seed.to_string());
    let args = [
        "simulate",
        "--dataset",
        "shop",
        "--rows",
        &rows,
        "--seed",
        &seed,
        "--format",
        "ndjson",
        "--out",
        "-",
    ];
    let output = Command::new(BINARY).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn append(client: &Client, dataset: &str, kind: &str, rows: &str) -> Answer {
    client.send(
        "POST",
        &format!("/v1/datasets/{dataset}/rows"),
        &[("content-type", kind)],
        Some(rows.as_bytes()),
    )
}

#[test]
fn a_log_with_several_outcomes_is_stored_appended_and_certified() {
    let server = Server::start();
    let client = server.client();
    let (first, second) = (shop(1500, 1), shop(500, 2));
    let created = client.upload(&query("outcomes", DECLARED), &first).expect(201);
    let dataset = id_of(&created);
    let names: Vec<&Value> = created["outcomes"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["revenue", "complaint", "return"]);
    assert_eq!(created["outcomes"][0]["cap"], json!(60.0));
    assert_eq!(created["outcome"], json!({"kind": "reward", "min": 0.0, "max": 60.0, "cap": 60.0}));
    let health = created["health"]["outcomes"].as_array().unwrap();
    assert_eq!(health.len(), 3);
    let cut = health[0]["cut_rows"].as_u64().unwrap();
    assert!(cut > 0 && health[0]["max"] == 60.0 && health[1]["cut_rows"] == 0, "{health:?}");

    // As a form, with the same declaration as an object: the same rows, so the same digest and ledger.
    let manifest = format!(r#"{{"outcomes": {DECLARED}}}"#);
    let form = format!(
        "--frontier\r\ncontent-disposition: form-data; name=\"manifest\"\r\n\r\n{manifest}\r\n--frontier\r\n\
         content-disposition: form-data; name=\"data\"; filename=\"log\"\r\ncontent-type: application/x-ndjson\r\n\r\n\
         {first}\r\n--frontier--\r\n"
    );
    let headers = [("content-type", "multipart/form-data; boundary=frontier")];
    let again = client.send("POST", "/v1/datasets", &headers, Some(form.as_bytes())).expect(201);
    assert_eq!(again["digest"], created["digest"]);
    assert_eq!(again["ledger"]["shared_with"], json!([dataset]));
    // The same decisions with one of the outcomes, under another name.
    let fewer: String = (first.lines())
        .map(|line| {
            let mut row: Value = serde_json::from_str(line).unwrap();
            row["outcomes"] = json!({ "upset": row["outcomes"]["complaint"] });
            format!("{row}\n")
        })
        .collect();
    let fewer = client.upload(&query("outcomes", r#"{"upset": {"kind": "cost"}}"#), &fewer).expect(201);
    assert_eq!(fewer["ledger"]["shared_with"].as_array().unwrap().len(), 2);

    let more = append(&client, &dataset, "application/x-ndjson", &second).expect(201);
    assert_eq!((&more["rows"], &more["outcomes"]), (&json!(2000), &created["outcomes"]));
    assert!(more["health"]["outcomes"][0]["cut_rows"].as_u64().unwrap() > cut);
    let plain = "{\"x\":[1,0,0,0,0,0],\"action\":0,\"propensities\":[0.25,0.25,0.25,0.25],\"reward\":1}\n";
    let refused = append(&client, &dataset, "application/x-ndjson", plain);
    refused.problem(422, "invalid_rows");
    assert_eq!(refused.json["errors"][0]["field"], "reward");

    let uniform = json!({"kind": "uniform", "n_actions": 4, "dim": 6});
    let policy = id_of(&client.post("/v1/policies", &uniform).expect(201));
    let job = client.submit(json!({"dataset_id": dataset, "independent_of_log": true,
        "candidates": [{"kind": "policy", "policy_id": policy}]}));
    let done = client.finish(&job);
    assert_eq!(done["status"], "succeeded", "{done}");
    let certificate = client.get(done["result"]["certificate_url"].as_str().unwrap()).expect(200);
    assert_eq!(certificate["dataset"]["outcomes"], created["outcomes"]);
    assert_eq!(certificate["user_units"]["outcome"], created["outcome"]);
    let statement = certificate["statement"].as_str().unwrap();
    assert!(statement.contains("a value above 60 counts as 60"), "{statement}");
}

#[test]
fn declarations_that_do_not_fit_are_refused() {
    let server = Server::start();
    let client = server.client();
    let log = shop(50, 3);
    for (text, words) in [
        ("{", "EOF"),
        ("{}", "declares no outcome"),
        (r#"{"revenue": {"kind": "gain"}}"#, "gain"),
        (r#"{"revenue": {"kind": "reward"}, "revenue": {"kind": "reward"}}"#, "declared twice"),
    ] {
        let answer = client.upload(&query("outcomes", text), &log);
        answer.problem(400, "invalid_query");
        assert!(answer.text.contains(words), "{text}: {}", answer.text);
    }
    let answer = client.upload(&query("outcomes", r#"{"revenue": {"kind": "reward", "min": 7}}"#), &log);
    answer.problem(422, "invalid_value");
    assert_eq!(answer.json["errors"][0]["field"], "outcomes");
    let both = format!("{}&outcome=reward", query("outcomes", DECLARED));
    client.upload(&both, &log).problem(422, "invalid_value");
    let undeclared = client.upload("", &log);
    undeclared.problem(422, "invalid_value");
    assert!(undeclared.text.contains("complaint, return, revenue"), "{}", undeclared.text);
    let dsjson = format!("{}&format=dsjson", query("outcomes", DECLARED));
    client.upload(&dsjson, &log).problem(422, "invalid_value");
    for bad in
        ["outcome_cap=nan", "outcome_cap=-3", "outcome_max=1&outcome_cap=2", "outcome_min=0&outcome_floor=-1"]
    {
        client.upload(&format!("?outcome=reward&{bad}"), &log).problem(422, "invalid_value");
    }
    assert_eq!(client.get("/v1/datasets").expect(200)["data"], json!([]));
}

#[test]
fn an_outcome_is_cut_only_if_the_upload_says_so() {
    let server = Server::start();
    let client = server.client();
    let row = |i: usize| {
        let reward = if i.is_multiple_of(50) { 500.0 } else { (i % 7) as f64 };
        json!({"x": [i % 13], "action": i * 7 % 5 % 2, "propensity": 0.5, "reward": reward}).to_string()
            + "\n"
    };
    let rows: String = (0..200).map(row).collect();
    let refused = client.upload("?outcome=reward&outcome_max=80", &rows);
    refused.problem(422, "invalid_rows");
    assert!(refused.text.contains("outcome_cap"), "{}", refused.text);
    let created = client.upload("?outcome=reward&outcome_cap=80", &rows).expect(201);
    assert_eq!(created["outcome"], json!({"kind": "reward", "min": 0.0, "max": 80.0, "cap": 80.0}));
    assert_eq!(created["health"]["outcomes"][0]["cut_rows"], 4);
    assert!(created.get("outcomes").is_none());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("log.ndjson"), &rows).unwrap();
    let inspect = |args: &[&str]| {
        let mut command = Command::new(BINARY);
        command.current_dir(folder.path()).args(["inspect", "log.ndjson"]).args(args);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let report = inspect(&["--outcome", "reward", "--outcome-cap", "80"]);
    assert!(report.contains("a value above 80 counts as 80 (2"), "{report}");
    assert!(report.contains(created["digest"].as_str().unwrap()), "{report}");
}
