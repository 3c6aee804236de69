//! Gates: what they name and require, standing gates, tokens, and what must never open one.

use crate::common;

use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use common::{Answer, Client, Server, eventually, id_of, log_of};
use guarantor_engine::certificate::{Certificate, Decision, signed_bytes};
use serde_json::{Value, json};

const NDJSON: [(&str, &str); 1] = [("content-type", "application/x-ndjson")];
const NOBODY: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const ROWS: usize = 400;

/// Rows that carry three candidates: one plays the best action, one plays it often, one is the logging policy, and
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

#[test]
fn the_gate_of_a_job_names_what_it_approves() {
    let server = Server::start();
    let client = server.client();
    let dataset = upload(&client, 1, "");
    let job = client.submit(json!({"dataset_id": dataset}));
    assert_eq!(client.finish(&job)["result"]["decision"], "deploy");
    let certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    let gate = gate_of(&client, &job, "");
    assert_eq!(gate.header("cache-control"), Some("no-store"));
    let gate = gate.expect(200);
    let names = [
        ("job_id", "/issued/job_id"),
        ("dataset_id", "/issued/dataset_id"),
        ("dataset_version", "/dataset/version"),
        ("dataset_digest", "/dataset/digest"),
        ("logging", "/dataset/logging"),
        ("policy_id", "/issued/policy_id"),
        ("policy_digest", "/policy/digest"),
        ("decision", "/decision"),
        ("guaranteed_improvement", "/guaranteed_improvement"),
        ("guaranteed_risk", "/guaranteed_risk"),
        ("min_improvement", "/min_improvement"),
        ("confidence", "/confidence"),
        ("baseline", "/baseline_risk/kind"),
        ("reasons", "/reasons"),
        ("checks", "/checks"),
        ("look", "/ledger/look"),
        ("family_wise_confidence", "/ledger/family_wise_confidence"),
        ("issued_at", "/issued/finished_at"),
        ("certificate_digest", "/digest"),
        ("signing_key_id", "/signature/key_id"),
    ];
    for (member, pointer) in names {
        assert_eq!(gate.get(member), certificate.pointer(pointer), "{member}: {gate}");
        assert!(!gate[member].is_null(), "{member}: {gate}");
    }
    assert_eq!((&gate["ok"], &gate["candidate"]), (&json!(true), &json!("learned")));
    assert_eq!(gate["accepted_checks"], json!([]));
    let id = gate["policy_id"].as_str().unwrap();
    for name in ["learned", id, &format!("policy:{id}")] {
        assert_eq!(gate_of(&client, &job, &format!("?candidate={name}")).expect(200), gate);
    }
}

#[test]
fn each_requirement_closes_the_gate_of_a_job_and_is_named() {
    let server = Server::start();
    let client = server.client();
    let dataset = upload(&client, 2, "");
    let mean = json!([[0.0, 40.0, -40.0], [0.0, 0.0, 0.0]]);
    let policy = client.post("/v1/policies", &json!({"kind": "softmax", "mean": mean})).expect(201);
    let (policy, digest) = (id_of(&policy), policy["digest"].as_str().unwrap().to_owned());
    let evaluation = |more: Value| {
        let mut spec = spec(&dataset, &[], more);
        spec["candidates"] = json!([{"kind": "policy", "policy_id": policy}]);
        spec
    };
    let job = certify(&client, evaluation(json!({"delta": 0.07})));
    let open = gate_of(&client, &job, "").expect(200);
    assert_eq!(open["candidate"], format!("policy:{policy}"));
    assert_eq!((&open["policy_id"], &open["policy_digest"]), (&json!(policy), &json!(digest)));
    let improvement = open["guaranteed_improvement"].as_f64().unwrap();

    // 1 − 0.07 is a little less than 0.93 in binary.
    let met = format!(
        "?candidate={policy}&policy_digest={digest}&min_improvement={}&min_confidence=0.93&baseline=certified\
         &max_age=7d&min_family_confidence=0.93&version=newest",
        improvement - 0.001
    );
    assert_eq!(gate_of(&client, &job, &met).expect(200), open);

    let zero = format!("sha256:{}", "0".repeat(64));
    let policies = json!([format!("policy:{policy}")]);
    for (query, requirement, required, actual) in [
        ("candidate=logged:best".into(), "candidate", json!("logged:best"), policies),
        (format!("policy_digest={zero}"), "policy_digest", json!(zero), json!(digest)),
        (format!("min_improvement={improvement}"), "min_improvement", json!(improvement), json!(improvement)),
        ("min_improvement=1".into(), "min_improvement", json!(1.0), json!(improvement)),
        ("min_confidence=0.95".into(), "min_confidence", json!(0.95), open["confidence"].clone()),
        ("min_family_confidence=0.94".into(), "min_family_confidence", json!(0.94), json!(0.93)),
    ] {
        let answer = gate_of(&client, &job, &format!("?{query}"));
        assert_eq!(unmet(&answer, requirement), (required, actual), "{query}");
    }
    // The certificate ages while this waits.
    let aged = || gate_of(&client, &job, "?max_age=1s").status;
    eventually(aged, &403);
    let (required, actual) = unmet(&gate_of(&client, &job, "?max_age=1s"), "max_age");
    assert_eq!(required, "1s");
    assert!(actual.as_str().unwrap().ends_with('s'), "{actual}");
    assert_eq!(gate_of(&client, &job, "?max_age=1h").status, 200);

    for (kind, more) in [("point_estimate", json!({})), ("known", json!({"risk": -0.34}))] {
        let mut baseline = json!({"kind": kind});
        baseline.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let job = certify(&client, evaluation(json!({"baseline": baseline})));
        assert_eq!(gate_of(&client, &job, "").expect(200)["baseline"], kind);
        let answer = gate_of(&client, &job, "?baseline=certified");
        assert_eq!(unmet(&answer, "baseline"), (json!("certified"), json!(kind)));
    }
    let path = format!("/v1/datasets/{dataset}/rows");
    client.send("POST", &path, &NDJSON, Some(rows(3).as_bytes())).expect(201);
    assert_eq!(gate_of(&client, &job, "").status, 200);
    assert_eq!(unmet(&gate_of(&client, &job, "?version=newest"), "version"), (json!("newest"), json!(1)));

    for bad in [
        "min_improvement=nan",
        "min_improvement=inf",
        "min_improvement=-0.1",
        "min_improvement=x",
        "min_confidence=95",
        "min_family_confidence=2",
        "baseline=known",
        "max_age=7",
        "max_age=0d",
        "max_age=1w",
        "version=2",
        "candidate=",
        "policy_digest=abc",
        "force=true",
        "min_confidence=0.9&min_confidence=0.1",
    ] {
        let answer = gate_of(&client, &job, &format!("?{bad}"));
        answer.problem(400, "invalid_query");
        let field = bad.split('=').next().unwrap();
        assert_eq!(answer.json["errors"][0]["field"], field, "{}", answer.text);
    }
}

#[test]
fn each_candidate_of_a_job_has_a_gate() {
    let server = Server::start();
    let client = server.client();
    let dataset = upload(&client, 4, "");
    let job = certify(&client, spec(&dataset, &["same", "often", "best"], json!({})));
    let certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    let own = gate_of(&client, &job, "").expect(200);
    assert_eq!(own["candidate"], "logged:best");
    assert_eq!(own["guaranteed_improvement"], certificate["guaranteed_improvement"]);
    assert_eq!((&own["policy_id"], &own["policy_digest"]), (&Value::Null, &Value::Null));
    for (place, name) in ["same", "often", "best"].into_iter().enumerate() {
        let result = &certificate["candidates"][place];
        for name in [name.to_owned(), format!("logged:{name}")] {
            let gate = gate_of(&client, &job, &format!("?candidate={name}"));
            assert_eq!(gate.status, if place == 0 { 403 } else { 200 }, "{}", gate.text);
            for member in ["candidate", "decision", "guaranteed_improvement", "guaranteed_risk"] {
                assert_eq!(gate.json[member], result[member], "{name}: {}", gate.text);
            }
        }
    }
    let kept = gate_of(&client, &job, "?candidate=same");
    kept.problem(403, "decision_keep");
    assert_eq!(kept.json["reasons"][0]["code"], "improvement_not_guaranteed");
    let open = gate_of(&client, &job, "?candidate=often").expect(200);
    assert_eq!(open["reasons"][0]["code"], "improvement_guaranteed");
    let needed = open["guaranteed_improvement"].as_f64().unwrap() + 0.01;
    let answer = gate_of(&client, &job, &format!("?candidate=often&min_improvement={needed}"));
    unmet(&answer, "min_improvement");
    // Bounds that need a bound on the baseline name their candidate too.
    for bound in ["log_smoothing", "betting"] {
        let job = certify(&client, spec(&dataset, &["same", "best"], json!({"bound": bound})));
        assert_eq!(gate_of(&client, &job, "").expect(200)["candidate"], "logged:best");
    }
    let (_, known) = unmet(&gate_of(&client, &job, "?candidate=other"), "candidate");
    assert_eq!(known, json!(["logged:same", "logged:often", "logged:best"]));
}

/// The gates, the jobs that each asks about, and its defaults.
#[test]
fn a_standing_gate_asks_about_the_newest_job_alone() {
    let server = Server::start();
    let client = server.client();
    let (a, b) = (upload(&client, 5, ""), upload(&client, 6, ""));
    let created = client.post("/v1/gates", &json!({"name": "app", "selector": {"app": "x", "stage": 2}}));
    assert_eq!(created.header("location"), Some("/v1/gates/app"));
    let created = created.expect(201);
    assert_eq!((&created["delta"], &created["dataset_id"]), (&json!(0.05), &Value::Null));
    assert_eq!(created["requirements"], json!({"min_family_confidence": 0.95}));
    assert_eq!((&created["allow"], &created["created_by"]), (&json!([]), &json!("anonymous")));
    client.post("/v1/gates", &json!({"name": "data", "dataset_id": a})).expect(201);
    let empty = client.get("/v1/gates/app");
    empty.problem(409, "no_matching_job");
    assert_eq!((&empty.json["ok"], &empty.json["gate"]), (&json!(false), &json!("app")));

    let label = json!({"metadata": {"app": "x", "stage": 2, "commit": "c0ffee"}});
    let first = certify(&client, spec(&a, &["best"], label.clone()));
    for gate in ["app", "data"] {
        let open = client.get(&format!("/v1/gates/{gate}")).expect(200);
        assert_eq!(
            (&open["job_id"], &open["gate"], &open["ok"]),
            (&json!(first), &json!(gate), &json!(true))
        );
    }
    // Jobs that it does not select change nothing.
    certify(&client, spec(&b, &["same"], json!({"metadata": {"app": "x", "stage": "2"}})));
    client.get("/v1/gates/app").expect(200);
    // The newest one is a keep, and the deploy before it does not count.
    let kept = certify(&client, spec(&b, &["same"], label.clone()));
    let closed = client.get("/v1/gates/app");
    closed.problem(403, "decision_keep");
    assert_eq!((&closed.json["job_id"], &closed.json["gate"]), (&json!(kept), &json!("app")));
    client.get("/v1/gates/data").expect(200);
    // A newer job without a certificate closes it too, because the newest question has no answer.
    let cancelled = client.submit(spec(&a, &["best"], label));
    client.send("POST", &format!("/v1/jobs/{cancelled}/cancel"), &[], None).expect(200);
    assert_eq!(client.finish(&cancelled)["status"], "cancelled");
    let closed = client.get("/v1/gates/data");
    closed.problem(424, "job_cancelled");
    assert_eq!((&closed.json["job_id"], &closed.json["ok"]), (&json!(cancelled), &json!(false)));

    let changed = put(&client, "/v1/gates/app", &json!({"dataset_id": b, "delta": 0.01})).expect(200);
    assert_eq!((&changed["selector"], &changed["dataset_id"]), (&json!({}), &json!(b)));
    assert_eq!(changed["requirements"], json!({"min_family_confidence": 0.99}));
    assert_eq!(client.get("/v1/gates/app/definition").expect(200), changed);
    let listed = client.get("/v1/gates").expect(200);
    assert_eq!((&listed["data"][0]["name"], &listed["data"][1]), (&json!("data"), &changed));
    assert_eq!(client.delete("/v1/gates/app").status, 204);
    client.get("/v1/gates/app").problem(404, "not_found");
    client.delete("/v1/gates/app").problem(404, "not_found");
}

/// One case per thing that a standing gate is closed to: the job, the requirement that closes the gate, and the
/// change of the definition that opens it.
#[test]
fn a_standing_gate_is_closed_by_default_to_what_lowers_the_bar() {
    let server = Server::start();
    let client = server.client();
    let cases = [
        (
            "accepted_checks",
            "",
            "wrong",
            json!({"accept": ["candidate_weights"]}),
            json!([]),
            json!(["candidate_weights"]),
        ),
        (
            "known_baseline",
            "",
            "best",
            json!({"baseline": {"kind": "known", "risk": -0.34}}),
            json!("certified"),
            json!("known"),
        ),
        (
            "point_estimate_baseline",
            "",
            "best",
            json!({"baseline": {"kind": "point_estimate"}}),
            json!("certified"),
            json!("point_estimate"),
        ),
        ("fixed_logging", "&logging=fixed", "best", json!({}), json!("adaptive"), json!("fixed")),
    ];
    for (seed, (name, query, candidate, more, required, actual)) in (10..).zip(cases) {
        let dataset = upload(&client, seed, query);
        let job = certify(&client, spec(&dataset, &[candidate], more));
        assert_eq!(gate_of(&client, &job, "").status, 200, "{name}");
        let path = format!("/v1/gates/{name}");
        let definition = json!({"name": name, "dataset_id": dataset});
        client.post("/v1/gates", &definition).expect(201);
        let closed = client.get(&path);
        assert_eq!(unmet(&closed, name), (required, actual));
        assert!(closed.json["detail"].as_str().unwrap().contains(&format!("\"{name}\"")), "{}", closed.text);
        // Allowing the others does not open it.
        let others: Vec<&str> = [
            "accepted_checks",
            "known_baseline",
            "point_estimate_baseline",
            "fixed_logging",
            "merged_certificates",
        ]
        .into_iter()
        .filter(|other| *other != name)
        .collect();
        put(&client, &path, &json!({"dataset_id": dataset, "allow": others})).expect(200);
        unmet(&client.get(&path), name);
        put(&client, &path, &json!({"dataset_id": dataset, "allow": [name]})).expect(200);
        assert_eq!(client.get(&path).expect(200)["job_id"], job);
    }
}

#[test]
fn a_standing_gate_limits_delta_and_the_number_of_looks() {
    let server = Server::start();
    let client = server.client();
    let dataset = upload(&client, 20, "");
    client.post("/v1/gates", &json!({"name": "g", "dataset_id": dataset})).expect(201);
    certify(&client, spec(&dataset, &["best"], json!({"delta": 0.05})));
    client.get("/v1/gates/g").expect(200);
    // The second look at the same rows.
    certify(&client, spec(&dataset, &["best", "often"], json!({"delta": 0.05})));
    let closed = client.get("/v1/gates/g");
    assert_eq!(unmet(&closed, "min_family_confidence"), (json!(0.95), json!(0.9)));
    let loose = json!({"dataset_id": dataset, "requirements": {"min_family_confidence": 0.9}});
    put(&client, "/v1/gates/g", &loose).expect(200);
    client.get("/v1/gates/g").expect(200);

    let dataset = upload(&client, 21, "");
    certify(&client, spec(&dataset, &["best"], json!({"delta": 0.99})));
    client.post("/v1/gates", &json!({"name": "h", "dataset_id": dataset})).expect(201);
    assert_eq!(unmet(&client.get("/v1/gates/h"), "delta"), (json!(0.05), json!(0.99)));
    put(&client, "/v1/gates/h", &json!({"dataset_id": dataset, "delta": 0.99})).expect(200);
    client.get("/v1/gates/h").expect(200);
}

#[test]
fn a_request_can_add_requirements_to_a_standing_gate_and_remove_none() {
    let server = Server::start();
    let client = server.client();
    let dataset = upload(&client, 22, "");
    certify(&client, spec(&dataset, &["best", "often"], json!({})));
    let requirements =
        json!({"candidate": "often", "min_improvement": 0.05, "max_age": "7d", "version": "newest"});
    let definition = json!({"name": "g", "dataset_id": dataset, "requirements": requirements});
    client.post("/v1/gates", &definition).expect(201);
    let open = client.get("/v1/gates/g").expect(200);
    assert_eq!(open["candidate"], "logged:often");
    assert_eq!(client.get("/v1/gates/g?candidate=often&min_confidence=0.9").expect(200), open);
    unmet(&client.get("/v1/gates/g?candidate=best"), "candidate");
    unmet(&client.get("/v1/gates/g?min_confidence=0.99"), "min_confidence");
    client.get("/v1/gates/g?min_confidence=nan").problem(400, "invalid_query");
    let strict = json!({"dataset_id": dataset, "requirements": {"min_improvement": 0.9}});
    put(&client, "/v1/gates/g", &strict).expect(200);
    assert_eq!(unmet(&client.get("/v1/gates/g?min_improvement=0"), "min_improvement").0, 0.9);
    // Rows that were appended close a gate that asks for the newest version.
    let newest = json!({"dataset_id": dataset, "requirements": {"version": "newest"}});
    put(&client, "/v1/gates/g", &newest).expect(200);
    client.get("/v1/gates/g").expect(200);
    let path = format!("/v1/datasets/{dataset}/rows");
    client.send("POST", &path, &NDJSON, Some(rows(23).as_bytes())).expect(201);
    unmet(&client.get("/v1/gates/g"), "version");
}

#[test]
fn a_gate_that_cannot_be_defined_is_rejected_and_leaves_nothing() {
    let server = Server::start();
    let client = server.client();
    let dataset = upload(&client, 24, "");
    let with = |more: Value| {
        let mut body = json!({"name": "g", "selector": {"app": "x"}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let many: serde_json::Map<String, Value> = (0..17).map(|i| (format!("k{i}"), json!(i))).collect();
    for (body, code, field) in [
        (json!({"selector": {"app": "x"}}), "invalid_value", "name"),
        (with(json!({"name": "Not a name"})), "invalid_value", "name"),
        (with(json!({"name": ""})), "invalid_value", "name"),
        (json!({"name": "g"}), "invalid_value", "selector"),
        (json!({"name": "g", "selector": {}}), "invalid_value", "selector"),
        (with(json!({"selector": ["app"]})), "invalid_value", "selector"),
        (with(json!({"selector": many})), "invalid_value", "selector"),
        (with(json!({"selector": {"app": "x".repeat(5000)}})), "invalid_value", "selector"),
        (with(json!({"dataset_id": NOBODY})), "unknown_dataset", "dataset_id"),
        (with(json!({"dataset_id": "x"})), "unknown_dataset", "dataset_id"),
        (with(json!({"delta": 0})), "invalid_value", "delta"),
        (with(json!({"delta": 1})), "invalid_value", "delta"),
        (with(json!({"colour": "red"})), "unknown_field", "colour"),
        (with(json!({"allow": ["everything"]})), "invalid_value", "allow[0]"),
        (with(json!({"requirements": {"min_gain": 1}})), "unknown_field", "requirements.min_gain"),
        (with(json!({"requirements": {"max_age": "soon"}})), "invalid_value", "requirements.max_age"),
        (
            with(json!({"requirements": {"min_confidence": 2}})),
            "invalid_value",
            "requirements.min_confidence",
        ),
        (with(json!({"requirements": {"baseline": "known"}})), "invalid_value", "requirements.baseline"),
    ] {
        let answer = client.post("/v1/gates", &body);
        answer.problem(422, code);
        assert_eq!(answer.json["errors"][0]["field"], field, "{}", answer.text);
    }
    assert_eq!(client.get("/v1/gates").expect(200)["data"], json!([]));
    client.get("/v1/gates/Nobody%20here").problem(404, "not_found");
    put(&client, "/v1/gates/g", &with(json!({}))).problem(404, "not_found");
    client.post("/v1/gates", &with(json!({"dataset_id": dataset}))).expect(201);
    client.post("/v1/gates", &with(json!({}))).problem(409, "name_taken");
    put(&client, "/v1/gates/g", &with(json!({"name": "other"}))).problem(422, "invalid_value");
    put(&client, "/v1/gates/g", &with(json!({"delta": 7}))).problem(422, "invalid_value");
    assert_eq!(client.get("/v1/gates/g/definition").expect(200)["delta"], 0.05);
}

#[test]
fn a_repeated_creation_gets_the_first_response() {
    let server = Server::start();
    let client = server.client();
    let body = json!({"name": "g", "selector": {"app": "x"}}).to_string();
    let headers = [("content-type", "application/json"), ("idempotency-key", "once")];
    let first = client.send("POST", "/v1/gates", &headers, Some(body.as_bytes())).expect(201);
    let again = client.send("POST", "/v1/gates", &headers, Some(body.as_bytes()));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.expect(201), first);
}

#[test]
fn gates_belong_to_their_workspace_and_record_who_changed_them() {
    let server = Server::start();
    let (one, two) = (server.create_key("one"), server.create_key("two"));
    closed(&server);
    let (one, two) = (server.client().with_key(&one), server.client().with_key(&two));
    let definition = json!({"name": "g", "selector": {"app": "x"}});
    let created = one.post("/v1/gates", &definition).expect(201);
    assert!(created["created_by"].as_str().unwrap().starts_with("test (key "), "{created}");
    two.get("/v1/gates/g").problem(404, "not_found");
    two.get("/v1/gates/g/definition").problem(404, "not_found");
    put(&two, "/v1/gates/g", &definition).problem(404, "not_found");
    two.delete("/v1/gates/g").problem(404, "not_found");
    two.post("/v1/gates/g/tokens", &json!({})).problem(404, "not_found");
    assert_eq!(two.get("/v1/gates").expect(200)["data"], json!([]));
    assert_ne!(two.post("/v1/gates", &definition).expect(201)["created_by"], created["created_by"]);
    let another = server.client().with_key(&server.create_key("one"));
    let changed = put(&another, "/v1/gates/g", &definition).expect(200);
    assert_eq!(changed["created_by"], created["created_by"]);
    assert_ne!(changed["changed_by"], created["created_by"]);
    server.client().get("/v1/gates/g").problem(401, "unauthorized");
}

#[test]
fn a_token_asks_one_gate_without_a_header_until_it_is_revoked() {
    let server = Server::start();
    let keyless = server.client();
    let client = keyless.with_key(&server.create_key("one"));
    closed(&server);
    let dataset = upload(&client, 30, "");
    let job = certify(&client, spec(&dataset, &["best"], json!({})));
    client.post("/v1/gates", &json!({"name": "g", "dataset_id": dataset})).expect(201);
    client.post("/v1/gates", &json!({"name": "other", "selector": {"app": "none"}})).expect(201);
    keyless.get(&format!("/v1/jobs/{job}/gate")).problem(401, "unauthorized");
    keyless.post("/v1/gates/g/tokens", &json!({})).problem(401, "unauthorized");

    let created = client.post("/v1/gates/g/tokens", &json!({"name": "flagger"}));
    assert_eq!(created.header("cache-control"), Some("no-store"));
    let location = created.header("location").unwrap().to_owned();
    let created = created.expect(201);
    let (token, url) = (created["token"].as_str().unwrap(), created["url"].as_str().unwrap());
    assert!(token.starts_with("gt_") && token.len() == 67 && url == format!("/v1/gate/{token}"), "{created}");
    assert_eq!(location, format!("/v1/gates/g/tokens/{}", id_of(&created)));
    // The body is optional.
    let second = client.send("POST", "/v1/gates/other/tokens", &[], None).expect(201);

    let opened = client.get("/v1/gates/g").expect(200);
    assert_eq!(keyless.get(url).expect(200), opened);
    let payload = json!({"name": "recommender", "namespace": "prod", "phase": "Progressing", "metadata": {}});
    assert_eq!(keyless.post(url, &payload).expect(200), opened);
    assert_eq!(keyless.send("POST", url, &[], Some(b"anything")).expect(200), opened);
    assert_eq!(keyless.send("POST", url, &[], None).expect(200), opened);
    unmet(&keyless.get(&format!("{url}?min_confidence=0.99")), "min_confidence");
    keyless.send("POST", url, &[], Some(&vec![b'x'; 70_000])).problem(413, "body_too_large");
    keyless.get(second["url"].as_str().unwrap()).problem(409, "no_matching_job");
    // It opens nothing else.
    keyless.get("/v1/gates/g").problem(401, "unauthorized");
    keyless.with_key(token).get("/v1/gates/g").problem(401, "unauthorized");

    let listed = client.get("/v1/gates/g/tokens").expect(200);
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    assert_eq!((&listed["data"][0]["id"], &listed["data"][0]["name"]), (&created["id"], &json!("flagger")));
    assert!(!listed.to_string().contains(token), "{listed}");
    for unknown in ["gt_", "x", "%ff", &token[..66], &format!("gt_{}", "0".repeat(64))] {
        keyless.get(&format!("/v1/gate/{unknown}")).problem(404, "not_found");
    }
    client.delete(&format!("/v1/gates/g/tokens/{NOBODY}")).problem(404, "not_found");
    client.delete("/v1/gates/g/tokens/x").problem(404, "not_found");
    client.delete(&format!("/v1/gates/other/tokens/{}", id_of(&created))).problem(404, "not_found");
    client.post("/v1/gates/g/tokens", &json!({"name": "n".repeat(201)})).problem(422, "invalid_value");
    client.post("/v1/gates/g/tokens", &json!({"token": "mine"})).problem(422, "unknown_field");
    assert_eq!(client.delete(&location).status, 204);
    for method in ["GET", "POST"] {
        keyless.send(method, url, &[], None).problem(404, "not_found");
    }
    assert_eq!(client.delete("/v1/gates/other").status, 204);
    keyless.get(second["url"].as_str().unwrap()).problem(404, "not_found");
    keyless.delete(url).problem(405, "method_not_allowed");
}

#[test]
fn tokens_are_in_no_log_metric_or_problem() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let settings = [("GUARANTOR_LOG_FORMAT", "json"), ("GUARANTOR_LOG_FILTER", "debug")];
    let server = Server::start_logging(&settings, file.path());
    let client = server.client();
    client.post("/v1/gates", &json!({"name": "g", "selector": {"app": "x"}})).expect(201);
    let created = client.post("/v1/gates/g/tokens", &json!({"name": "ci"})).expect(201);
    let token = created["token"].as_str().unwrap();
    let digits = &token[3..];
    let mut bodies = Vec::new();
    for path in [
        format!("/v1/gate/{token}"),
        format!("/v1/gate/{token}?min_confidence=nan"),
        format!("/v1/gate/{token}?colour={token}"),
        format!("/v1/gate/{token}/"),
        format!("/v1/gate/{token}/tokens"),
        format!("/v1/gate/%67{}", &token[1..]),
        format!("//v1/gate/{token}"),
        format!("/gate/{token}"),
        format!("/v1/gates/{token}"),
        format!("/v1/gates/g/tokens/{token}"),
        format!("/v1/jobs/{token}/gate"),
    ] {
        for method in ["GET", "POST", "DELETE", "PUT"] {
            let answer = client.send(method, &path, &[("content-type", "application/json")], Some(b"{}"));
            assert!(answer.status >= 400, "{method} {path}: {}", answer.text);
            bodies.push(answer.text);
        }
    }
    assert_eq!(client.delete(&format!("/v1/gates/g/tokens/{}", id_of(&created))).status, 204);
    let metrics = client.get("/metrics").text;
    assert!(metrics.contains("route=\"/v1/gate/{token}\""), "{metrics}");
    let log = fs::read_to_string(file.path()).unwrap();
    for line in ["gate created", "gate token created", "gate stayed closed", "gate token revoked", "answered"]
    {
        assert!(log.contains(line), "{line} is not in the log:\n{log}");
    }
    assert!(log.contains("\"path\":\"/v1/gate/{token}\""), "{log}");
    for (what, text) in [("the log", &log), ("the metrics", &metrics), ("a problem", &bodies.join("\n"))] {
        assert!(!text.contains(digits) && !text.contains(&digits[..16]), "the token is in {what}:\n{text}");
    }
}

/// The certificate file of a job.
fn certificate_file(server: &Server, job: &str) -> PathBuf {
    let attempts = fs::read_dir(server.data.path().join("blobs/jobs").join(job)).unwrap();
    attempts.into_iter().next().unwrap().unwrap().path().join("certificate.json")
}

async fn sql(server: &Server, statement: &'static str, values: &[&str]) {
    let url = format!("sqlite://{}", server.data.path().join("guarantor.sqlite").display());
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    let mut query = sqlx::query(statement);
    for value in values {
        query = query.bind(value.to_string());
    }
    assert!(query.execute(&pool).await.unwrap().rows_affected() > 0, "{statement}");
    pool.close().await;
}

/// Changes the certificate of a job consistently in its file, the job's row and the ledger, and signs it with the
/// server's key if `sign` is true. Returns the new digest.
async fn forge(server: &Server, job: &str, sign: bool, change: impl FnOnce(&mut Certificate)) -> String {
    let mut document = server.client().get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    let file = certificate_file(server, job);
    let mut certificate: Certificate = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut certificate);
    certificate.digest = certificate.content_digest().unwrap();
    let bytes = serde_json::to_vec(&certificate).unwrap();
    fs::write(&file, &bytes).unwrap();
    let (decision, length) = (certificate.decision.name(), bytes.len().to_string());
    let row = "UPDATE jobs SET result = json_set(result, '$.decision', $2), \
               certificate = json_set(certificate, '$.bytes', CAST($3 AS INTEGER)) WHERE id = $1";
    sql(server, row, &[job, decision, &length]).await;
    let look = "UPDATE ledger SET digest = $2, decision = $3 WHERE job_id = $1";
    sql(server, look, &[job, &certificate.digest, decision]).await;
    if sign {
        let changed = serde_json::to_value(&certificate).unwrap();
        document.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        let file = fs::read(server.data.path().join("signing-key.json")).unwrap();
        let file: Value = serde_json::from_slice(&file).unwrap();
        let seed: [u8; 32] = BASE64.decode(file["secret_key"].as_str().unwrap()).unwrap().try_into().unwrap();
        let key = ed25519_dalek::SigningKey::from_bytes(&seed);
        let signature = ed25519_dalek::Signer::sign(&key, &signed_bytes(&document).unwrap());
        document["signature"]["value"] = json!(BASE64.encode(signature.to_bytes()));
        let signature = document["signature"].to_string();
        sql(server, "UPDATE ledger SET signature = $2 WHERE job_id = $1", &[job, &signature]).await;
    }
    certificate.digest
}

/// A candidate may deploy although the certificate keeps, if the bound of a better one is impossible. Then the log
/// is wrong, and no gate opens.
#[tokio::test(flavor = "multi_thread")]
async fn an_impossible_bound_of_one_candidate_closes_the_gates_of_all() {
    let mut server = Server::start();
    let client = server.client();
    let dataset = upload(&client, 45, "");
    let job = certify(&client, spec(&dataset, &["best", "often"], json!({})));
    let digest = forge(&server, &job, true, |certificate| certificate.statement += " As before.").await;
    let open = || gate_of(&client, &job, "?candidate=often").json["certificate_digest"].clone();
    eventually(open, &json!(digest));
    forge(&server, &job, true, |certificate| {
        certificate.decision = Decision::Keep;
        certificate.guaranteed_improvement = 1.5;
        certificate.candidates[0].decision = Decision::Keep;
        certificate.candidates[0].guaranteed_improvement = 1.5;
    })
    .await;
    let code = |query| gate_of(&client, &job, query).json["code"].clone();
    for query in ["", "?candidate=best", "?candidate=often"] {
        eventually(|| code(query), &json!("decision_keep"));
    }
    assert_eq!(gate_of(&client, &job, "?candidate=often").json["decision"], "keep");

    // A certificate of a key that was replaced opens its gate as before.
    let job = certify(&client, spec(&upload(&client, 46, ""), &["best"], json!({})));
    let before = gate_of(&client, &job, "").expect(200);
    server.kill();
    fs::remove_file(server.data.path().join("signing-key.json")).unwrap();
    server.restart();
    assert_eq!(gate_of(&server.client(), &job, "").expect(200), before);
}

/// Whoever can write to the database and to the files still needs the signing key.
#[tokio::test(flavor = "multi_thread")]
async fn a_keep_that_was_edited_everywhere_opens_no_gate() {
    let server = Server::start();
    let client = server.client();
    let dataset = upload(&client, 40, "");
    let job = certify(&client, spec(&dataset, &["best"], json!({"min_improvement": 0.99})));
    client.post("/v1/gates", &json!({"name": "g", "dataset_id": dataset})).expect(201);
    gate_of(&client, &job, "").problem(403, "decision_keep");

    let digest = forge(&server, &job, false, |certificate| {
        certificate.decision = Decision::Deploy;
        certificate.candidates[0].decision = Decision::Deploy;
    })
    .await;
    // Nothing but the signature is wrong with the document.
    eventually(|| gate_of(&client, &job, "").json["code"].clone(), &json!("signature_invalid"));
    let document = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    assert_eq!((&document["decision"], &document["digest"]), (&json!("deploy"), &json!(digest)));
    for path in [format!("/v1/jobs/{job}/gate"), "/v1/gates/g".into()] {
        let closed = client.get(&path);
        closed.problem(403, "signature_invalid");
        assert_eq!(closed.json["ok"], false);
    }
}

/// The signature covers the job and the ledger entry as well.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_that_was_edited_or_unsigned_opens_no_gate() {
    let server = Server::start();
    let client = server.client();
    let dataset = upload(&client, 41, "");
    let job = certify(&client, spec(&dataset, &["best"], json!({})));
    let code = || gate_of(&client, &job, "").json["code"].clone();
    let open = gate_of(&client, &job, "").expect(200);
    for (edit, back) in [
        // Younger than it is, to pass `max_age`.
        (
            "UPDATE jobs SET finished_at = finished_at + 1000000 WHERE id = $1",
            "UPDATE jobs SET finished_at = finished_at - 1000000 WHERE id = $1",
        ),
        (
            "UPDATE ledger SET place = json_set(place, '$.family_wise_confidence', 0.99) WHERE job_id = $1",
            "UPDATE ledger SET place = json_set(place, '$.family_wise_confidence', 0.95) WHERE job_id = $1",
        ),
    ] {
        sql(&server, edit, &[&job]).await;
        eventually(code, &json!("signature_invalid"));
        sql(&server, back, &[&job]).await;
        eventually(code, &Value::Null);
    }
    assert_eq!(gate_of(&client, &job, "").expect(200), open);
    sql(&server, "UPDATE ledger SET signature = NULL WHERE job_id = $1", &[&job]).await;
    gate_of(&client, &job, "").problem(403, "signature_invalid");
}

#[test]
fn a_gate_closes_when_its_dataset_policy_or_job_is_gone() {
    let server = Server::start();
    let client = server.client();
    let dataset = upload(&client, 42, "");
    let learned = client.submit(json!({"dataset_id": dataset}));
    let policy = client.finish(&learned)["result"]["policy_id"].as_str().unwrap().to_owned();
    let logged = certify(&client, spec(&dataset, &["best"], json!({})));
    let mean = json!([[0.0, 40.0, -40.0], [0.0, 0.0, 0.0]]);
    let given = client.post("/v1/policies", &json!({"kind": "softmax", "mean": mean})).expect(201);
    let mut evaluation = spec(&dataset, &["best"], json!({}));
    evaluation["candidates"]
        .as_array_mut()
        .unwrap()
        .push(json!({"kind": "policy", "policy_id": given["id"]}));
    let evaluated = certify(&client, evaluation);
    client
        .post(
            "/v1/gates",
            &json!({"name": "g", "dataset_id": dataset,
        "requirements": {"min_family_confidence": 0.5}}),
        )
        .expect(201);
    let given = id_of(&given);
    for (job, query) in [
        (&learned, ""),
        (&logged, ""),
        (&evaluated, "?candidate=best"),
        (&evaluated, &format!("?candidate={given}")),
    ] {
        assert_eq!(gate_of(&client, job, query).status, 200, "{query}");
    }
    assert_eq!(client.delete(&format!("/v1/policies/{policy}")).status, 204);
    gate_of(&client, &learned, "").problem(403, "policy_gone");
    assert_eq!(client.delete(&format!("/v1/policies/{given}")).status, 204);
    gate_of(&client, &evaluated, &format!("?candidate={given}")).problem(403, "policy_gone");
    assert_eq!(gate_of(&client, &evaluated, "?candidate=best").status, 200);
    assert_eq!(client.get("/v1/gates/g?candidate=best").status, 200);

    assert_eq!(client.delete(&format!("/v1/datasets/{dataset}")).status, 204);
    for job in [&learned, &logged, &evaluated] {
        let closed = gate_of(&client, job, "?candidate=best");
        assert_eq!((closed.status, &closed.json["ok"]), (403, &json!(false)), "{}", closed.text);
        closed.problem(403, "dataset_gone");
    }
    client.get("/v1/gates/g").problem(403, "dataset_gone");
    fs::remove_file(certificate_file(&server, &logged)).unwrap();
    gate_of(&client, &logged, "").problem(500, "damaged");
    gate_of(&client, NOBODY, "").problem(404, "not_found");
}

/// Cancellations that meet jobs at every stage: whoever was told that a job is canceled never sees its gate open.
#[test]
fn an_acknowledged_cancellation_never_opens_a_gate() {
    let server = Server::start_with(&[("GUARANTOR_WORKERS", "2")]);
    let client = server.client();
    let dataset = upload(&client, 43, "");
    let (mut canceled, mut late) = (0, 0);
    for round in 0..40 {
        let job = client.submit(spec(&dataset, &["best"], json!({"seed": round})));
        // Some are canceled while they are queued, the others as soon as they run or a little later.
        if round % 4 > 0 {
            client.follow(&job, &[], |event| event.kind == "started");
        }
        for _ in 0..round % 4 {
            client.get(&format!("/v1/jobs/{job}"));
        }
        let answer = client.send("POST", &format!("/v1/jobs/{job}/cancel"), &[], None);
        let done = client.finish(&job);
        if answer.status == 200 {
            canceled += 1;
            assert_eq!((&done["status"], &done["result"]), (&json!("cancelled"), &Value::Null), "{done}");
            gate_of(&client, &job, "").problem(424, "job_cancelled");
        } else {
            late += 1;
            answer.problem(409, "job_finished");
            assert_eq!(gate_of(&client, &job, "").status, 200);
        }
    }
    println!("{canceled} canceled, {late} finished first");
    assert!(canceled >= 10, "{canceled}");
}

/// An earlier release let a job succeed after its cancellation was acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_an_earlier_release_that_succeeded_after_its_cancellation_opens_no_gate() {
    let server = Server::start();
    let client = server.client();
    let job = certify(&client, spec(&upload(&client, 44, ""), &["best"], json!({})));
    assert_eq!(gate_of(&client, &job, "").status, 200);
    sql(&server, "UPDATE jobs SET cancel_requested = 1 WHERE id = $1", &[&job]).await;
    eventually(|| gate_of(&client, &job, "").status, &424);
    gate_of(&client, &job, "").problem(424, "job_cancelled");
}
