//! Standing gates: the job that each asks about, and what it is closed to.

use serde_json::{Value, json};

use super::{NDJSON, NOBODY, certify, closed, gate_of, put, rows, spec, unmet, upload};
use crate::common::Server;

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
    // Another name of the same candidate.
    assert_eq!(client.get("/v1/gates/g?candidate=logged:often").expect(200), open);
    for other in ["best", "logged:best", "policy:often", "learned", NOBODY] {
        let (required, actual) = unmet(&client.get(&format!("/v1/gates/g?candidate={other}")), "candidate");
        assert_eq!((required, actual), (json!(other), json!(["logged:often"])));
    }
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
        (with(json!({"requirements": {"objective": ""}})), "invalid_value", "requirements.objective"),
        (
            with(json!({"requirements": {"guardrails": "complaint"}})),
            "invalid_value",
            "requirements.guardrails",
        ),
        (with(json!({"requirements": {"guardrails": "a=2"}})), "invalid_value", "requirements.guardrails"),
        (
            with(json!({"requirements": {"guardrails": "a=0,a=1"}})),
            "invalid_value",
            "requirements.guardrails",
        ),
        (
            with(json!({"requirements": {"guardrails": [{"outcome": "a"}]}})),
            "invalid_value",
            "requirements.guardrails[0].max_loss",
        ),
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
