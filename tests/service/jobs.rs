//! Jobs from submission to gate, through the real server.

use crate::common;

use common::{Client, Server, log_of};
use guarantor_engine::certificate::Certificate;
use serde_json::{Value, json};

fn learned(client: &Client, rows: usize) -> (String, Value) {
    let dataset = client.dataset(rows);
    let job = client.submit(json!({"dataset_id": dataset, "metadata": {"release": "7"}}));
    let done = client.finish(&job);
    assert_eq!(done["status"], "succeeded", "{done}");
    (job, done)
}

#[test]
fn a_log_becomes_a_certificate_that_opens_the_gate_and_verifies() {
    let server = Server::start();
    let client = server.client();
    let (job, done) = learned(&client, 2000);
    assert_eq!((&done["attempt"], &done["error"], &done["kind"]), (&json!(1), &Value::Null, &json!("learn")));
    assert_eq!(done["spec"]["metadata"], json!({"release": "7"}));
    assert_eq!((&done["spec"]["delta"], &done["spec"]["bound"]), (&json!(0.05), &json!("auto")));
    assert_eq!(done["result"]["decision"], "deploy", "{done}");

    let answer = client.get(done["result"]["certificate_url"].as_str().unwrap());
    let certificate = answer.json.clone();
    assert_eq!(answer.status, 200);
    assert_eq!(certificate["issued"]["job_id"], json!(job));
    assert_eq!(certificate["issued"]["policy_id"], done["result"]["policy_id"]);
    assert_eq!(certificate["guaranteed_improvement"], done["result"]["guaranteed_improvement"]);
    let shares = certificate["delta_accounting"].as_array().unwrap();
    let total: f64 = shares.iter().map(|part| part["share"].as_f64().unwrap()).sum();
    assert!((total - 0.05).abs() < 1e-12, "{total}");

    let gate = client.get(&format!("/v1/jobs/{job}/gate")).expect(200);
    assert_eq!((&gate["ok"], &gate["decision"]), (&json!(true), &json!("deploy")));
    assert_eq!(gate["certificate_digest"], certificate["digest"]);

    let checked = client.post("/v1/certificates/verify", &certificate).expect(200);
    assert_eq!(checked["valid"], true, "{checked}");

    let policy = client.get(&format!("/v1/jobs/{job}/policy?include=mean")).expect(200);
    assert_eq!((&policy["id"], &policy["source_job_id"]), (&done["result"]["policy_id"], &json!(job)));
    // It explores a little, so that its own log can be certified again.
    assert_eq!((&policy["kind"], &policy["share"]), (&json!("exploring"), &json!(0.02)));
    assert!(policy["base"]["mean"].is_array() && policy["with"]["kind"] == "uniform", "{policy}");
}

/// The last report of the engine is older than the end of its job.
#[test]
fn progress_is_complete_once_a_job_has_succeeded() {
    let server = Server::start();
    let client = server.client();
    let (job, done) = learned(&client, 2000);
    let listed = client.get("/v1/jobs").expect(200)["data"][0].clone();
    for job in [done, client.get(&format!("/v1/jobs/{job}")).expect(200), listed] {
        let progress = &job["progress"];
        assert_eq!((&progress["fraction"], &progress["phase"]), (&json!(1.0), &json!("done")), "{job}");
        assert!(progress["elapsed_seconds"].as_f64().unwrap() > 0.0, "{job}");
    }
    // One that was canceled shows how far it came.
    let canceled = client.submit_endless(&client.dataset_of(77, 500));
    client.send("POST", &format!("/v1/jobs/{canceled}/cancel"), &[], None).expect(200);
    let ended = client.finish(&canceled);
    assert_eq!(ended["status"], "cancelled");
    assert!(ended["progress"]["fraction"].as_f64().unwrap() < 1.0, "{ended}");
}

/// The digest of a changed document can be recomputed, but the document still differs from what the job issued.
#[test]
fn a_consistent_document_that_the_job_did_not_issue_is_caught() {
    let server = Server::start();
    let client = server.client();
    let (job, _) = learned(&client, 500);
    let (mut certificate, beside) = parts(client.get(&format!("/v1/jobs/{job}/certificate")).expect(200));
    certificate.learning.as_mut().unwrap().choices.push("trust me".into());
    certificate.digest = certificate.content_digest().unwrap();
    let mut forged = serde_json::to_value(&certificate).unwrap();
    beside.into_iter().for_each(|(name, value)| forged[name] = value);
    let checked = client.post("/v1/certificates/verify", &forged).expect(200);
    assert_eq!(checked["valid"], false, "{checked}");
    assert_eq!(failed(&checked), ["learning", "recomputation", "stored", "signature"]);
}

/// Changing the spec and reading the result would be a look that no ledger counts.
#[test]
fn another_spec_is_not_recomputed() {
    let server = Server::start();
    let client = server.client();
    let (job, _) = learned(&client, 500);
    let whole = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    let mut answers = Vec::new();
    for (name, value) in [
        ("tau", json!(0.05)),
        ("tau", json!(0.3)),
        ("bound", json!("betting")),
        ("delta", json!(1e-300)),
        ("candidates", json!([{"kind": "logged", "name": "nobody"}])),
    ] {
        let mut forged = whole.clone();
        forged["spec"][name] = value;
        let (mut certificate, beside) = parts(forged);
        certificate.digest = certificate.content_digest().unwrap();
        let mut forged = serde_json::to_value(&certificate).unwrap();
        beside.into_iter().for_each(|(name, value)| forged[name] = value);
        let checked = client.post("/v1/certificates/verify", &forged).expect(200);
        assert_eq!(checked["valid"], false, "{name}: {checked}");
        assert!(failed(&checked).contains(&"spec"), "{name}: {checked}");
        answers.push(checked);
    }
    // The response does not depend on the change.
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
}

/// The engine's part of a document, and what the service added.
fn parts(mut document: Value) -> (Certificate, [(&'static str, Value); 3]) {
    let fields = document.as_object_mut().unwrap();
    let beside = ["issued", "ledger", "signature"].map(|name| (name, fields.remove(name).unwrap()));
    (serde_json::from_value(document).unwrap(), beside)
}

fn failed(checked: &Value) -> Vec<&str> {
    let checks = checked["checks"].as_array().unwrap().iter();
    checks.filter(|check| check["ok"] == false).map(|check| check["name"].as_str().unwrap()).collect()
}

#[test]
fn changed_numbers_and_names_are_caught() {
    let server = Server::start();
    let client = server.client();
    let (job, _) = learned(&client, 500);
    let whole = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    let changes: [(&str, Value); 5] = [
        ("/guaranteed_improvement", json!(whole["guaranteed_improvement"].as_f64().unwrap() + 1e-9)),
        ("/statement", json!("Deploy it.")),
        ("/dataset/rows", json!(501)),
        ("/seed", json!(1)),
        ("/issued/finished_at", json!("2020-01-01T00:00:00.000Z")),
    ];
    for (place, value) in changes {
        let mut forged = whole.clone();
        *forged.pointer_mut(place).unwrap() = value;
        let checked = client.post("/v1/certificates/verify", &forged).expect(200);
        assert_eq!(checked["valid"], false, "{place}: {checked}");
        assert!(!failed(&checked).is_empty(), "{place}: {checked}");
    }
    let mut longer = whole.clone();
    longer["approved_by"] = json!("nobody");
    client.post("/v1/certificates/verify", &longer).problem(422, "unknown_field");
    let mut other = whole;
    other["issued"]["job_id"] = json!("01890a5d-ac96-774b-bcce-b302099a8057");
    client.post("/v1/certificates/verify", &other).problem(422, "unknown_job");
}

#[test]
fn the_gate_answers_200_only_for_deploy() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset(500);

    let keep = client.submit(json!({"dataset_id": dataset, "min_improvement": 0.99}));
    assert_eq!(client.finish(&keep)["result"]["decision"], "keep");
    let gate = client.get(&format!("/v1/jobs/{keep}/gate"));
    gate.problem(403, "decision_keep");
    assert_eq!((&gate.json["ok"], &gate.json["decision"]), (&json!(false), &json!("keep")));
    assert!(gate.json["guaranteed_improvement"].is_number());

    let running = client.submit_endless(&dataset);
    let queued = client.submit(json!({"dataset_id": dataset}));
    for job in [&running, &queued] {
        for what in ["gate", "certificate", "policy"] {
            let answer = client.get(&format!("/v1/jobs/{job}/{what}"));
            answer.problem(409, "job_unfinished");
            assert!(answer.header("retry-after").is_some());
        }
        assert_eq!(client.get(&format!("/v1/jobs/{job}/gate")).json["ok"], false);
    }
    for job in [&queued, &running] {
        client.send("POST", &format!("/v1/jobs/{job}/cancel"), &[], None).expect(200);
        assert_eq!(client.finish(job)["status"], "cancelled");
        let gate = client.get(&format!("/v1/jobs/{job}/gate"));
        gate.problem(424, "job_cancelled");
        assert_eq!(gate.json["ok"], false);
    }
}

#[test]
fn a_running_job_can_be_canceled_and_its_dataset_cannot_be_deleted() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset(500);
    let job = client.submit_endless(&dataset);
    client.delete(&format!("/v1/datasets/{dataset}")).problem(409, "in_use");
    let asked = client.send("POST", &format!("/v1/jobs/{job}/cancel"), &[], None).expect(200);
    assert!(matches!(asked["status"].as_str(), Some("running" | "cancelled")));
    let done = client.finish(&job);
    assert_eq!((&done["status"], &done["result"]), (&json!("cancelled"), &Value::Null));
    // Canceling again changes nothing.
    client.send("POST", &format!("/v1/jobs/{job}/cancel"), &[], None).expect(200);
    assert_eq!(client.delete(&format!("/v1/datasets/{dataset}")).status, 204);
    client.get(&format!("/v1/datasets/{dataset}")).problem(404, "not_found");
}

#[test]
fn event_streams_end_with_the_job_and_resume() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset(1000);
    let job = client.submit(json!({"dataset_id": dataset}));
    let all = client.follow(&job, &[], |_| false);
    let ids: Vec<u64> = all.iter().map(|event| event.id).collect();
    assert_eq!(ids, (1..=all.len() as u64).collect::<Vec<_>>());
    assert_eq!((all[0].kind.as_str(), all[all.len() - 1].kind.as_str()), ("queued", "succeeded"));

    let resumed = client.follow(&job, &[("last-event-id", "1")], |_| false);
    assert_eq!(resumed, all[1..]);
    let last = all.len().to_string();
    assert_eq!(client.follow(&job, &[("last-event-id", &last)], |_| false), []);

    let list = client.get(&format!("/v1/jobs/{job}/events?limit=100")).expect(200);
    let listed: Vec<Value> = list["data"].as_array().unwrap().clone();
    assert_eq!(listed, all.iter().map(|event| event.data.clone()).collect::<Vec<_>>());
    let first = client.get(&format!("/v1/jobs/{job}/events?limit=1")).expect(200);
    assert_eq!((&first["has_more"], &first["next"]), (&json!(true), &json!("1")));
}

#[test]
fn a_stream_that_broke_during_a_job_resumes() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset(500);
    let job = client.submit_endless(&dataset);
    let seen = client.follow(&job, &[], |event| event.kind == "progress");
    let place = seen[seen.len() - 1].id.to_string();
    client.send("POST", &format!("/v1/jobs/{job}/cancel"), &[], None).expect(200);
    let rest = client.follow(&job, &[("last-event-id", &place)], |_| false);
    assert_eq!(rest[0].id, seen[seen.len() - 1].id + 1);
    assert_eq!(rest[rest.len() - 1].kind, "cancelled");
}

#[test]
fn polling_supports_etags_and_retry_after() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset(500);
    let running = client.submit_endless(&dataset);
    let path = format!("/v1/jobs/{running}");
    let unfinished = client.get(&path);
    assert_eq!(unfinished.header("retry-after"), Some("1"));
    client.send("POST", &format!("{path}/cancel"), &[], None).expect(200);
    client.finish(&running);

    let answer = client.get(&path);
    assert_eq!(answer.header("retry-after"), None);
    let tag = answer.header("etag").unwrap().to_owned();
    assert_ne!(unfinished.header("etag"), Some(tag.as_str()));
    let again = client.send("GET", &path, &[("if-none-match", &tag)], None);
    assert_eq!((again.status, again.text.as_str()), (304, ""));
    let other = client.send("GET", &path, &[("if-none-match", "\"other\"")], None);
    assert_eq!(other.status, 200);
    let path = format!("/v1/datasets/{dataset}");
    let tag = client.get(&path).header("etag").unwrap().to_owned();
    assert_eq!(client.send("GET", &path, &[("if-none-match", &tag)], None).status, 304);
}

#[test]
fn candidates_are_evaluated_from_the_log_and_from_stored_policies() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset(1000);
    let mean = json!([[0.0, 40.0, -40.0], [0.0, 0.0, 0.0]]);
    let policy = client.post("/v1/policies", &json!({"kind": "softmax", "mean": mean})).expect(201);
    let spec = json!({"dataset_id": dataset, "candidates": [{"kind": "policy", "policy_id": policy["id"]}],
        "independent_of_log": true});
    let done = client.finish(&client.submit(spec));
    assert_eq!((&done["status"], &done["kind"]), (&json!("succeeded"), &json!("evaluate")), "{done}");
    assert_eq!((&done["result"]["decision"], &done["result"]["policy_id"]), (&json!("deploy"), &Value::Null));
    let certificate = client.get(done["result"]["certificate_url"].as_str().unwrap()).expect(200);
    assert_eq!(certificate["candidates"][0]["policy_digest"], policy["digest"]);
    assert!(!certificate["attestations"].as_array().unwrap().is_empty());
    assert_eq!(client.post("/v1/certificates/verify", &certificate).expect(200)["valid"], true);
}

#[test]
fn the_same_inputs_give_the_same_certificate() {
    let server = Server::start();
    let client = server.client();
    let digests: Vec<Value> = (0..2)
        .map(|_| {
            let (job, _) = learned(&client, 600);
            client.get(&format!("/v1/jobs/{job}/certificate")).expect(200)["digest"].clone()
        })
        .collect();
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn an_append_creates_a_version_and_old_certificates_keep_theirs() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset(600);
    let job = client.submit(json!({"dataset_id": dataset}));
    client.finish(&job);
    let more = client.send(
        "POST",
        &format!("/v1/datasets/{dataset}/rows"),
        &[("content-type", "application/x-ndjson")],
        Some(log_of(2, 100).as_bytes()),
    );
    let more = more.expect(201);
    assert_eq!((&more["version"], &more["rows"]), (&json!(2), &json!(700)));
    let certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    assert_eq!(
        (&certificate["dataset"]["version"], &certificate["dataset"]["rows"]),
        (&json!(1), &json!(600))
    );
    assert_eq!(client.post("/v1/certificates/verify", &certificate).expect(200)["valid"], true);
    assert_eq!(client.submit(json!({"dataset_id": dataset})).len(), 36);
}
