//! The gate of a job: what it names, its requirements, and its candidates.

use serde_json::{Value, json};

use super::{NDJSON, certify, gate_of, rows, spec, unmet, upload};
use crate::common::{Server, eventually, id_of};

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
