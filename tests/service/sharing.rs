//! What all resources share: keys and workspaces, idempotency, lists, limits, policies, operations.

use crate::common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use common::{BINARY, Client, Server, id_of, two_rows};
use serde_json::{Value, json};

fn softmax() -> Value {
    json!({"kind": "softmax", "mean": [[0.5, -0.5], [0.1, 0.2]], "inverse_temperature": 2.0})
}

#[test]
fn keys_give_access_to_their_own_workspace_only() {
    let server = Server::start();
    let open = server.client();
    let before = id_of(&open.upload("", two_rows()).expect(201));
    let (a, b) = (server.create_key("team-a"), server.create_key("team-b"));
    let mut server = server;
    server.kill();
    server.restart();

    let nobody = server.client();
    let rejected = nobody.get("/v1/jobs");
    rejected.problem(401, "unauthorized");
    assert_eq!(rejected.header("www-authenticate"), Some("Bearer"));
    for wrong in ["Bearer gk_wrong", "Bearer", "Basic x", &a, &format!("Bearer {a}x")] {
        nobody.send("GET", "/v1/jobs", &[("authorization", wrong)], None).problem(401, "unauthorized");
    }
    nobody
        .send("POST", "/v1/datasets", &[("content-type", "application/x-ndjson")], Some(b"x"))
        .problem(401, "unauthorized");
    for path in ["/livez", "/readyz", "/healthz", "/metrics", "/openapi.json"] {
        assert_eq!(nobody.get(path).status, 200, "{path}");
    }

    let (a_client, b_client) = (nobody.with_key(&a), nobody.with_key(&b));
    let dataset = id_of(&a_client.upload("", two_rows()).expect(201));
    let policy = id_of(&a_client.post("/v1/policies", &softmax()).expect(201));
    a_client.get(&format!("/v1/datasets/{dataset}")).expect(200);
    for path in [
        format!("/v1/datasets/{dataset}"),
        format!("/v1/policies/{policy}"),
        format!("/v1/datasets/{before}"),
    ] {
        b_client.get(&path).problem(404, "not_found");
        b_client.delete(&path).problem(404, "not_found");
    }
    b_client.post("/v1/jobs", &json!({"dataset_id": dataset})).problem(422, "unknown_dataset");
    assert_eq!(b_client.get("/v1/datasets").expect(200)["data"], json!([]));
    assert_eq!(a_client.get("/v1/datasets").expect(200)["data"].as_array().unwrap().len(), 1);

    // Revoking takes effect at once, and revoking the last key does not disable authentication.
    for line in server.keys(&["list"]).lines().skip(1) {
        server.keys(&["revoke", line.split_whitespace().next().unwrap()]);
    }
    a_client.get("/v1/datasets").problem(401, "unauthorized");
    nobody.get("/v1/datasets").problem(401, "unauthorized");
}

#[test]
fn metrics_can_require_a_key() {
    let server = Server::start_with(&[("GUARANTOR_METRICS_NEED_KEY", "true")]);
    let key = server.create_key("default");
    let mut server = server;
    server.kill();
    server.restart();
    server.client().get("/metrics").problem(401, "unauthorized");
    assert_eq!(server.client().with_key(&key).get("/metrics").status, 200);
    assert_eq!(server.client().get("/readyz").status, 200);
}

fn keyed(client: &Client, path: &str, kind: &str, body: &str, key: &str) -> common::Answer {
    client.send("POST", path, &[("content-type", kind), ("idempotency-key", key)], Some(body.as_bytes()))
}

#[test]
fn a_repeated_key_gets_the_first_response_even_after_a_restart() {
    let mut server = Server::start();
    let client = server.client();
    let policy = softmax().to_string();
    let dataset = id_of(&client.upload("?n_actions=2", two_rows()).expect(201));
    let job = json!({"dataset_id": dataset}).to_string();
    let rows = format!("/v1/datasets/{dataset}/rows");
    let requests = [
        ("/v1/policies", "application/json", policy.as_str(), "k-policy"),
        ("/v1/jobs", "application/json", job.as_str(), "k-job"),
        ("/v1/datasets?name=n", "application/x-ndjson", two_rows(), "k-data"),
        (
            rows.as_str(),
            "application/x-ndjson",
            "{\"x\":[0.3,0.4],\"action\":0,\"propensity\":0.6,\"cost\":-0.5}\n",
            "k-rows",
        ),
    ];
    let firsts: Vec<_> =
        requests.iter().map(|(path, kind, body, key)| keyed(&client, path, kind, body, key)).collect();
    server.kill();
    server.restart();
    let client = server.client();
    for ((path, kind, body, key), first) in requests.iter().zip(firsts) {
        let again = keyed(&client, path, kind, body, key);
        assert_eq!((again.status, &again.text), (first.status, &first.text), "{path}");
        assert_eq!(again.header("location"), first.header("location"));
        assert_eq!(
            (first.header("idempotent-replayed"), again.header("idempotent-replayed")),
            (None, Some("true"))
        );
        let other = format!("{body} \n");
        keyed(&client, path, kind, &other, key).problem(422, "idempotency_mismatch");
    }
    keyed(&client, "/v1/policies", "application/json", &policy, "k-job").problem(422, "idempotency_mismatch");
    let policies = client.get("/v1/policies").expect(200)["data"].clone();
    // The job may have learned another one.
    assert_eq!(policies.as_array().unwrap().iter().filter(|p| p["source_job_id"].is_null()).count(), 1);
    assert_eq!(client.get("/v1/datasets").expect(200)["data"].as_array().unwrap().len(), 2);
}

#[test]
fn a_failed_request_frees_its_key() {
    let server = Server::start();
    let client = server.client();
    keyed(&client, "/v1/datasets", "application/x-ndjson", "bad\n", "k").problem(422, "invalid_rows");
    assert_eq!(keyed(&client, "/v1/datasets", "application/x-ndjson", two_rows(), "k").status, 201);
}

/// The body of the first request is incomplete, so its response cannot have been sent before the second.
#[test]
fn a_key_in_use_is_a_conflict() {
    let server = Server::start();
    let address = server.base.strip_prefix("http://").unwrap();
    let rows = two_rows();
    let mut first = TcpStream::connect(address).unwrap();
    write!(
        first,
        "POST /v1/datasets HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\nidempotency-key: k\r\n\
         content-length: {}\r\nconnection: close\r\nexpect: 100-continue\r\n\r\n",
        rows.len()
    )
    .unwrap();
    // The server asks for the body once the handler runs and has claimed the key.
    let mut line = [0u8; 25];
    first.read_exact(&mut line).unwrap();
    assert!(line.starts_with(b"HTTP/1.1 100"));
    let second = keyed(&server.client(), "/v1/datasets", "application/x-ndjson", rows, "k");
    second.problem(409, "idempotency_in_progress");
    assert!(second.header("retry-after").is_some());
    first.write_all(rows.as_bytes()).unwrap();
    let mut answer = String::new();
    first.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("201 Created"), "{answer}");
    assert_eq!(keyed(&server.client(), "/v1/datasets", "application/x-ndjson", rows, "k").status, 201);
}

#[test]
fn lists_are_newest_first_across_pages() {
    let server = Server::start();
    let client = server.client();
    let mut made: Vec<String> =
        (0..5).map(|_| id_of(&client.post("/v1/policies", &softmax()).expect(201))).collect();
    made.reverse();
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/policies?limit=2{after}")).expect(200);
        seen.extend(page["data"].as_array().unwrap().iter().map(id_of));
        assert_eq!(page["has_more"], json!(page["next"].is_string()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, made);
}

#[test]
fn jobs_can_be_filtered_by_status_decision_and_dataset() {
    let server = Server::start();
    let client = server.client();
    let (one, two) = (client.dataset(200), client.dataset_of(2, 200));
    let job = client.submit(json!({"dataset_id": one}));
    client.finish(&job);
    let count =
        |query: String| client.get(&format!("/v1/jobs{query}")).expect(200)["data"].as_array().unwrap().len();
    assert_eq!(count(format!("?dataset_id={one}")), 1);
    assert_eq!(count(format!("?dataset_id={two}")), 0);
    assert_eq!((count("?status=succeeded".into()), count("?status=queued".into())), (1, 0));
    let decision = client.get(&format!("/v1/jobs/{job}")).expect(200)["result"]["decision"].clone();
    let counts = ["deploy", "keep"].map(|name| count(format!("?decision={name}&order=oldest")));
    assert_eq!(counts, if decision == "deploy" { [1, 0] } else { [0, 1] });
}

#[test]
fn policies_are_created_read_used_and_deleted() {
    let server = Server::start();
    let client = server.client();
    let created = client.post("/v1/policies", &softmax());
    let policy = created.json.clone();
    let path = format!("/v1/policies/{}", id_of(&policy));
    assert_eq!((created.status, created.header("location")), (201, Some(path.as_str())));
    assert_eq!((&policy["n_actions"], &policy["dim"], &policy["mean"]), (&json!(2), &json!(2), &Value::Null));
    let shown = client.get(&format!("{path}?include=mean")).expect(200);
    assert_eq!((&shown["mean"], &shown["inverse_temperature"]), (&softmax()["mean"], &json!(2.0)));

    let contexts = json!({"contexts": [[1.0, 0.0], [0.0, 1.0]]});
    let pi = client.post(&format!("{path}/propensities"), &contexts).expect(200);
    // 2 (0.5 − (−0.5)) = 2 and 2 (0.1 − 0.2) = −0.2 through the logistic function.
    for (row, score) in [(0, 2.0f64), (1, -0.2)] {
        let expected = 1.0 / (1.0 + (-score).exp());
        assert!((pi["propensities"][row][0].as_f64().unwrap() - expected).abs() < 1e-9, "{pi}");
    }
    let seeded = json!({"contexts": [[1.0, 0.0], [0.0, 1.0]], "seed": 7});
    let drawn = client.post(&format!("{path}/actions"), &seeded).expect(200);
    assert_eq!(drawn, client.post(&format!("{path}/actions"), &seeded).expect(200));
    for (row, action) in drawn["actions"].as_array().unwrap().iter().enumerate() {
        let index = action["action"].as_u64().unwrap() as usize;
        assert_eq!(action["propensity"], pi["propensities"][row][index]);
    }
    assert_eq!(
        client.post(&format!("{path}/propensities"), &json!({"contexts": []})).expect(200)["propensities"],
        json!([])
    );

    let query = format!("?logging_policy_id={}", id_of(&policy));
    let rows = "{\"x\":[1,0],\"action\":0,\"cost\":-1}\n{\"x\":[0,1],\"action\":1,\"cost\":0}\n";
    let dataset = client.upload(&query, rows).expect(201);
    assert_eq!(dataset["capabilities"]["full_propensities"], true, "{dataset}");
    client.delete(&path).problem(409, "in_use");
    assert_eq!(client.delete(&format!("/v1/datasets/{}", id_of(&dataset))).status, 204);
    assert_eq!(client.delete(&path).status, 204);
    client.get(&path).problem(404, "not_found");
}

#[test]
fn a_form_is_equivalent_to_a_raw_body() {
    let server = Server::start();
    let client = server.client();
    let manifest = json!({"name": "form", "n_actions": 4});
    let form = format!(
        "--b\r\nContent-Disposition: form-data; name=\"manifest\"\r\nContent-Type: application/json\r\n\r\n{manifest}\r\n\
         --b\r\nContent-Disposition: form-data; name=\"data\"; filename=\"log\"\r\nContent-Type: application/x-ndjson\r\n\r\n\
         {}\r\n--b--\r\n",
        two_rows()
    );
    let kind = [("content-type", "multipart/form-data; boundary=b")];
    let dataset = client.send("POST", "/v1/datasets", &kind, Some(form.as_bytes())).expect(201);
    assert_eq!(
        (&dataset["name"], &dataset["n_actions"], &dataset["rows"]),
        (&json!("form"), &json!(4), &json!(2))
    );
    let raw = client.upload("?name=form&n_actions=4", two_rows()).expect(201);
    assert_eq!(raw["digest"], dataset["digest"]);
}

#[test]
fn limits_are_enforced() {
    let server = Server::start_with(&[
        ("GUARANTOR_MAX_JSON_BYTES", "1000"),
        ("GUARANTOR_MAX_UPLOAD_BYTES", "60000"),
        ("GUARANTOR_MAX_FEATURES", "2"),
        ("GUARANTOR_MAX_QUEUED_JOBS", "1"),
        ("GUARANTOR_MAX_QUEUED_JOBS_PER_WORKSPACE", "1"),
    ]);
    let client = server.client();
    let padded = format!("{{\"kind\": \"uniform\"{}}}", " ".repeat(1000));
    let json = [("content-type", "application/json")];
    client.send("POST", "/v1/policies", &json, Some(padded.as_bytes())).problem(413, "body_too_large");
    client.upload("", &two_rows().repeat(1000)).problem(413, "body_too_large");
    let wide = "{\"x\":[1,2,3],\"action\":0,\"propensity\":0.5,\"cost\":0}\n";
    client.upload("", wide).problem(422, "invalid_rows");
    assert_eq!(client.get("/v1/datasets").expect(200)["data"], json!([]));

    let dataset = client.dataset(200);
    let running = client.submit_endless(&dataset);
    let waiting = client.submit(json!({"dataset_id": dataset}));
    let full = client.post("/v1/jobs", &json!({"dataset_id": dataset}));
    full.problem(429, "queue_full");
    assert!(full.header("retry-after").is_some());
    assert_eq!(client.get("/v1/jobs").expect(200)["data"].as_array().unwrap().len(), 2);
    for job in [waiting, running] {
        client.send("POST", &format!("/v1/jobs/{job}/cancel"), &[], None).expect(200);
    }
}

#[test]
fn a_request_that_takes_too_long_gets_408_and_stores_nothing() {
    let server =
        Server::start_with(&[("GUARANTOR_REQUEST_SECONDS", "1"), ("GUARANTOR_MAX_WAIT_SECONDS", "0")]);
    let address = server.base.strip_prefix("http://").unwrap();
    let mut slow = TcpStream::connect(address).unwrap();
    // Ten bytes are announced and never sent.
    let head = "POST /v1/policies HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 10\r\nconnection: close\r\n\r\n";
    slow.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("request_timeout"), "{answer}");
    assert_eq!(server.client().get("/v1/policies").expect(200)["data"], json!([]));
}

#[test]
fn request_ids_are_returned_and_unsafe_ones_replaced() {
    let server = Server::start();
    let client = server.client();
    let mine = client.send("GET", "/livez", &[("x-request-id", "abc-1.2:3_4")], None);
    assert_eq!(mine.header("x-request-id"), Some("abc-1.2:3_4"));
    let bad = client.send("GET", "/nothing", &[("x-request-id", "a b\"c")], None);
    assert_eq!(bad.header("x-request-id").unwrap().len(), 36);
}

#[test]
fn metrics_count_requests_uploads_and_jobs() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset(300);
    let job = client.submit(json!({"dataset_id": dataset, "min_improvement": 0.99}));
    client.finish(&job);
    client.get(&format!("/v1/jobs/{job}/gate"));
    let (path, kind) = (format!("/v1/datasets/{dataset}/rows"), [("content-type", "application/x-ndjson")]);
    client.send("POST", &path, &kind, Some(common::log_of(2, 20).as_bytes())).expect(201);
    let text = client.get("/metrics").text;
    for line in [
        "guarantor_queue_depth 0",
        "guarantor_uploads_total 2",
        "guarantor_uploaded_rows_total 320",
        "guarantor_jobs_total{status=\"succeeded\"} 1",
        "guarantor_decisions_total{decision=\"keep\"} 1",
        "guarantor_job_wait_seconds_count 1",
        "guarantor_job_compute_seconds_count 1",
        "guarantor_requests_total{method=\"GET\",route=\"/v1/jobs/{id}/gate\",status=\"403\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn sigterm_stops_the_server_and_the_queue_survives() {
    let mut server = Server::start_with(&[("GUARANTOR_SHUTDOWN_SECONDS", "1")]);
    let client = server.client();
    let dataset = client.dataset(300);
    let running = client.submit_endless(&dataset);
    let queued = client.submit(json!({"dataset_id": dataset}));
    assert!(server.terminate());
    server.restart();
    let client = server.client();
    client.send("POST", &format!("/v1/jobs/{running}/cancel"), &[], None).expect(200);
    assert_eq!(client.finish(&running)["status"], "cancelled");
    assert_eq!(client.finish(&queued)["status"], "succeeded");
}

#[test]
fn invalid_settings_prevent_the_start_with_a_message() {
    let data = tempfile::tempdir().unwrap();
    let try_start = |environment: &[(&str, &str)]| {
        let mut command = Command::new(BINARY);
        command.arg("serve").env("GUARANTOR_DATA_DIR", data.path()).envs(environment.iter().copied());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let exposed = try_start(&[("GUARANTOR_LISTEN", "0.0.0.0:0")]);
    assert!(exposed.contains("--insecure-no-auth"), "{exposed}");
    let unknown = try_start(&[("GUARANTOR_COLOUR", "red")]);
    assert!(unknown.contains("colour"), "{unknown}");
    let server = Server::start();
    let taken = try_start(&[("GUARANTOR_LISTEN", server.base.strip_prefix("http://").unwrap())]);
    assert!(taken.contains("cannot listen on"), "{taken}");
    let owned = Command::new(BINARY)
        .arg("serve")
        .args(["--listen", "127.0.0.1:0", "--data-dir", server.data.path().to_str().unwrap()])
        .output()
        .unwrap();
    assert!(String::from_utf8(owned.stderr).unwrap().contains("another server"));
}
