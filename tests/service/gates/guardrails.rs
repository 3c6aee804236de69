//! Jobs with an objective and guardrails, through the server: a guardrail that fails closes the gate, and a standing gate
//! is not opened by a job that answers another question.

use serde_json::{Value, json};

use super::forged::forge;
use super::{certify, gate_of, put, spec, unmet};
use crate::common::{Client, Server, eventually, id_of};

/// The outcomes as an upload declares them. Otherwise 0.5 would be read as rounded.
const OUTCOMES: &str = "?exact_propensities=true&outcomes=%7B%22revenue%22:%7B%22kind%22:%22reward%22,%22min%22:0,%22max%22:100%7D,\
                        %22complaint%22:%7B%22kind%22:%22cost%22,%22min%22:0,%22max%22:1%7D%7D";

/// A shop: `bold` sells most and `careful` least. Bold offers make `harm` more complaints.
fn rows(seed: u64, harm: f64) -> String {
    let mut state = seed;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut out = String::new();
    for _ in 0..4000 {
        let (x, action) = (random() * 2.0 - 1.0, u8::from(random() < 0.5));
        let luck = random();
        let revenue = if luck < [0.2, 0.7][action as usize] { 100 } else { 0 };
        let complaint = u8::from(random() < [0.3, 0.3 + harm][action as usize]);
        let bold = f64::from(action);
        let row = json!({"x": [x], "action": action, "propensities": [0.5, 0.5],
            "outcomes": {"revenue": revenue, "complaint": complaint},
            "candidates": {"bold": bold, "careful": 1.0 - bold}});
        out.push_str(&format!("{row}\n"));
    }
    out
}

fn shop(client: &Client, seed: u64, harm: f64) -> String {
    id_of(&client.upload(OUTCOMES, &rows(seed, harm)).expect(201))
}

fn guarded(max_loss: Value) -> Value {
    json!({"guardrails": [{"outcome": "complaint", "max_loss": max_loss}]})
}

/// The objective improves and a guardrail does not: keep, with the guardrail named.
#[test]
fn a_guardrail_closes_the_gate_and_is_named() {
    let server = Server::start();
    let client = server.client();
    let dataset = shop(&client, 1, 0.25);
    let job = certify(&client, spec(&dataset, &["bold"], guarded(json!(0.02))));
    let c = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    assert!(c["guaranteed_improvement"].as_f64().unwrap() > 0.1, "{c}");
    assert_eq!((&c["decision"], &c["objective"]), (&json!("keep"), &json!("revenue")));
    assert_eq!(c["reasons"][0]["code"], "guardrail_violated");
    assert_eq!(c["reasons"][0]["outcome"], "complaint");
    assert!(c["statement"].as_str().unwrap().contains("loss in complaint"), "{}", c["statement"]);
    let (improvement, units) = (&c["guaranteed_improvement"], &c["user_units"]["guaranteed_improvement"]);
    assert!((100.0 * improvement.as_f64().unwrap() - units.as_f64().unwrap()).abs() < 1e-9);
    let closed = gate_of(&client, &job, "");
    closed.problem(403, "decision_keep");
    assert!(closed.json["detail"].as_str().unwrap().contains("complaint"), "{}", closed.text);
    assert_eq!(closed.json["guardrails"][0]["ok"], false);
    let verified = client.post("/v1/certificates/verify", &c).expect(200);
    assert_eq!(verified["valid"], true, "{verified}");
    let mut edited = c;
    edited["guardrails"][0]["ok"] = json!(true);
    assert_eq!(client.post("/v1/certificates/verify", &edited).expect(200)["valid"], false);

    // Where it does no harm, the same job deploys.
    let harmless = shop(&client, 2, 0.0);
    let more = json!({"min_improvement": {"value": 5, "unit": "outcome"},
                      "guardrails": [{"outcome": "complaint", "max_loss": {"value": 0.1, "unit": "outcome"}}]});
    let job = certify(&client, spec(&harmless, &["bold", "careful"], more));
    let open = gate_of(&client, &job, "").expect(200);
    assert_eq!((&open["candidate"], &open["objective"]), (&json!("logged:bold"), &json!("revenue")));
    assert_eq!(open["user_units"]["min_improvement"], 5.0);
    assert_eq!(open["guardrails"][0]["user_units"]["max_loss"], 0.1);
    gate_of(&client, &job, "?objective=revenue&guardrails=complaint=0.1").expect(200);
    unmet(&gate_of(&client, &job, "?objective=complaint"), "objective");
    unmet(&gate_of(&client, &job, "?guardrails=complaint=0"), "guardrails");
    unmet(&gate_of(&client, &job, "?guardrails=churn=0.5"), "guardrails");
    gate_of(&client, &job, "?guardrails=complaint").problem(400, "invalid_query");
    gate_of(&client, &job, "?guardrails=complaint=2").problem(400, "invalid_query");
}

/// A job with another objective, or without a guardrail that the gate requires, does not open a standing gate.
#[test]
fn a_standing_gate_asks_one_question() {
    let server = Server::start();
    let client = server.client();
    let dataset = shop(&client, 3, 0.25);
    let gate = |requirements: Value| {
        put(&client, "/v1/gates/g", &json!({"dataset_id": dataset, "requirements": requirements}))
            .expect(200);
        client.get("/v1/gates/g")
    };
    client.post("/v1/gates", &json!({"name": "g", "dataset_id": dataset})).expect(201);
    // Fewer complaints, and much less revenue.
    let other = json!({"objective": "complaint", "looks": "anytime", "delta": 0.01});
    let job = certify(&client, spec(&dataset, &["careful"], other));
    gate_of(&client, &job, "").expect(200);
    let loose = json!({"min_family_confidence": 0.5});
    assert_eq!(unmet(&gate(loose.clone()), "objective"), (json!("revenue"), json!("complaint")));
    unmet(&client.get("/v1/gates/g?objective=complaint"), "objective");
    let named = json!({"min_family_confidence": 0.5, "objective": "complaint"});
    assert_eq!(gate(named.clone()).expect(200)["objective"], "complaint");
    let definition = client.get("/v1/gates/g/definition").expect(200);
    assert_eq!(definition["requirements"]["objective"], "complaint");

    // More revenue, with no word about complaints.
    let job = certify(&client, spec(&dataset, &["bold"], json!({"delta": 0.01})));
    gate_of(&client, &job, "").expect(200);
    assert_eq!(unmet(&gate(named), "objective"), (json!("complaint"), json!("revenue")));
    gate(loose).expect(200);
    let required = json!({"outcome": "complaint", "max_loss": 0.4});
    let strict = json!({"min_family_confidence": 0.5, "guardrails": [required]});
    assert_eq!(unmet(&gate(strict.clone()), "guardrails"), (required, Value::Null));
    // A loss of up to 0.4 is stated and guaranteed.
    let job = certify(
        &client,
        spec(
            &dataset,
            &["bold"],
            json!({"delta": 0.01, "guardrails": [
        {"outcome": "complaint", "max_loss": 0.5}]}),
        ),
    );
    let open = gate(strict).expect(200);
    assert_eq!(open["job_id"], json!(job));
    let (_, actual) = unmet(&client.get("/v1/gates/g?guardrails=complaint=0.01"), "guardrails");
    assert_eq!(actual["guaranteed_loss"], open["guardrails"][0]["guaranteed_loss"]);
}

/// A certificate that says deploy although a guardrail of its own spec does not hold opens nothing, signed or not.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_whose_guardrails_do_not_hold_opens_no_gate() {
    let server = Server::start();
    let client = server.client();
    let dataset = shop(&client, 4, 0.0);
    let job = certify(&client, spec(&dataset, &["bold"], guarded(json!(0.15))));
    gate_of(&client, &job, "").expect(200);
    let code = || gate_of(&client, &job, "").json["code"].clone();
    forge(&server, &job, true, |c| c.candidates[0].guardrails[0].guaranteed_loss = 0.3).await;
    eventually(code, &json!("decision_keep"));
    forge(&server, &job, true, |c| c.candidates[0].guardrails[0].guaranteed_loss = 0.05).await;
    eventually(code, &Value::Null);
    forge(&server, &job, true, |c| c.candidates[0].guardrails.clear()).await;
    eventually(code, &json!("decision_keep"));
}

#[test]
fn what_cannot_be_guarded_is_refused() {
    let server = Server::start();
    let client = server.client();
    let dataset = shop(&client, 5, 0.0);
    for (more, code, field) in [
        (json!({"objective": "churn"}), "unknown_outcome", "objective"),
        (
            json!({"guardrails": [{"outcome": "churn", "max_loss": 0}]}),
            "unknown_outcome",
            "guardrails[0].outcome",
        ),
        (
            json!({"guardrails": [{"outcome": "revenue", "max_loss": 0}]}),
            "guardrail_is_objective",
            "guardrails[0].outcome",
        ),
        (
            json!({"guardrails": [{"outcome": "complaint", "max_loss": 0}, {"outcome": "complaint", "max_loss": 1}]}),
            "guardrail_repeated",
            "guardrails[1].outcome",
        ),
        (guarded(json!(-0.1)), "invalid_value", "guardrails[0].max_loss"),
        (guarded(json!({"value": 2, "unit": "outcome"})), "invalid_value", "guardrails[0].max_loss.value"),
        (
            json!({"min_improvement": {"value": 101, "unit": "outcome"}}),
            "invalid_value",
            "min_improvement.value",
        ),
    ] {
        let answer = client.post("/v1/jobs", &spec(&dataset, &["bold"], more));
        answer.problem(422, code);
        assert_eq!(answer.json["errors"][0]["field"], field, "{}", answer.text);
    }
    assert_eq!(client.get("/v1/jobs").expect(200)["data"], json!([]));
}
