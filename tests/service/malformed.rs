//! Every malformed request gets its status and code, and leaves the store unchanged.

use crate::common;

use common::{Client, Server, id_of, two_rows};
use serde_json::{Value, json};

const NOBODY: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// A request that must be rejected.
struct Case {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Option<Vec<u8>>,
    status: u16,
    code: &'static str,
}

fn case(method: &'static str, path: impl Into<String>, status: u16, code: &'static str) -> Case {
    Case { method, path: path.into(), headers: vec![], body: None, status, code }
}

impl Case {
    fn header(mut self, name: &'static str, value: impl Into<String>) -> Case {
        self.headers.push((name, value.into()));
        self
    }

    fn body(mut self, kind: &str, body: impl Into<Vec<u8>>) -> Case {
        self.body = Some(body.into());
        self.header("content-type", kind)
    }
}

fn json_case(path: impl Into<String>, body: impl Into<Vec<u8>>, status: u16, code: &'static str) -> Case {
    case("POST", path, status, code).body("application/json", body)
}

fn job(dataset: &str, fields: Value, code: &'static str) -> Case {
    let mut spec = json!({"dataset_id": dataset});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json_case("/v1/jobs", spec.to_string(), 422, code)
}

fn rows(query: &str, rows: &str, status: u16, code: &'static str) -> Case {
    case("POST", format!("/v1/datasets{query}"), status, code).body("application/x-ndjson", rows)
}

struct Fixture {
    /// Two features, two actions, no full propensities, no candidates.
    dataset: String,
    /// Full propensities, no features, one candidate, repeated contexts.
    bare: String,
    policy: String,
    uniform: String,
    /// Uniform over 10 000 actions, with one feature.
    wide: String,
    done: String,
}

fn fixture(client: &Client) -> Fixture {
    let dataset = id_of(&client.upload("", two_rows()).expect(201));
    let bare = "{\"action\":1,\"context_id\":\"a\",\"propensities\":[0.5,0.5],\"cost\":-1,\"candidates\":{\"new\":0.9}}\n\
                {\"action\":0,\"context_id\":\"a\",\"propensities\":[0.5,0.5],\"cost\":0,\"candidates\":{\"new\":0.1}}\n";
    let bare = id_of(&client.upload("?logging=fixed&repetitions=designed", bare).expect(201));
    let policy = json!({"kind": "softmax", "mean": [[0.1, 0.2, 0.0], [0.0, 0.0, 0.1], [0.3, 0.0, 0.1]]});
    let policy = id_of(&client.post("/v1/policies", &policy).expect(201));
    let uniform = json!({"kind": "uniform", "n_actions": 2, "dim": 2});
    let uniform = id_of(&client.post("/v1/policies", &uniform).expect(201));
    let wide = json!({"kind": "uniform", "n_actions": 10_000, "dim": 1});
    let wide = id_of(&client.post("/v1/policies", &wide).expect(201));
    let spec = json!({"dataset_id": bare, "candidates": [{"kind": "logged", "name": "new"}],
        "independent_of_log": true});
    let done = client.submit(spec);
    assert_eq!(client.finish(&done)["status"], "succeeded");
    Fixture { dataset, bare, policy, uniform, wide, done }
}

fn specs(f: &Fixture) -> Vec<Case> {
    let d = f.dataset.as_str();
    let evaluate = |candidates: Value| json!({"candidates": candidates, "independent_of_log": true});
    let logged = json!([{"kind": "logged", "name": "new"}]);
    let twice = |members: &str| {
        let spec = format!(r#"{{"dataset_id":"{d}",{members}}}"#);
        json_case("/v1/jobs", spec, 422, "invalid_value")
    };
    vec![
        json_case("/v1/jobs", "", 400, "malformed_json"),
        json_case("/v1/jobs", "{", 400, "malformed_json"),
        json_case("/v1/jobs", r#"{"dataset_id": "x"} {}"#, 400, "malformed_json"),
        json_case("/v1/jobs", "[]", 422, "invalid_value"),
        json_case("/v1/jobs", "null", 422, "invalid_value"),
        json_case("/v1/jobs", "{}", 422, "invalid_value"),
        json_case("/v1/jobs", b"{\"dataset_id\":\"\xff\"}".to_vec(), 400, "malformed_json"),
        json_case("/v1/jobs", r#"{"dataset_id": 7}"#, 422, "invalid_value"),
        json_case("/v1/jobs", r#"{"dataset_id": "x"}"#, 422, "unknown_dataset"),
        json_case("/v1/jobs", json!({"dataset_id": NOBODY}).to_string(), 422, "unknown_dataset"),
        job(d, json!({"dleta": 0.1}), "unknown_field"),
        job(d, json!({"prior": {"kinds": "zero"}}), "unknown_field"),
        job(d, json!({"optimizer": {"epoch": 3}}), "unknown_field"),
        job(d, json!({"kind": "train"}), "invalid_value"),
        job(d, json!({"bound": "hoeffding"}), "invalid_value"),
        job(d, json!({"delta": 0}), "invalid_value"),
        job(d, json!({"delta": 1}), "invalid_value"),
        job(d, json!({"delta": -0.05}), "invalid_value"),
        job(d, json!({"delta": "0.05"}), "invalid_value"),
        job(d, json!({"tau": 0}), "invalid_value"),
        job(d, json!({"tau": 1.5}), "invalid_value"),
        job(d, json!({"xi": 0.5, "bound": "betting"}), "invalid_value"),
        job(d, json!({"bound": "catoni"}), "bound_needs_fixed_logging"),
        job(d, json!({"bound": "betting", "prior": {"kind": "zero"}}), "actions_not_stated"),
        job(
            d,
            json!({"looks": "anytime", "bound": "betting", "prior": {"kind": "split"}}),
            "looks_need_anytime_bound",
        ),
        job(d, json!({"looks": "twice"}), "invalid_value"),
        job(d, json!({"explore": 0.9}), "invalid_value"),
        job(d, json!({"explore": {"share": 0.1, "with": "luck"}}), "invalid_value"),
        job(d, json!({"explore": {"with": "logging_policy"}}), "prior_needs_logging_policy"),
        job(d, json!({"accept": ["luck"]}), "invalid_value"),
        job(d, json!({"accept": ["drift", "drift"]}), "invalid_value"),
        job(d, json!({"xi": -0.5, "bound": "auto"}), "not_for_this_kind"),
        job(d, json!({"xi": -0.5, "bound": "betting"}), "bound_needs_full_propensities"),
        job(d, json!({"bound": "cbb"}), "bound_needs_full_propensities"),
        job(d, json!({"min_improvement": -0.1}), "invalid_value"),
        job(d, json!({"min_improvement": 2}), "invalid_value"),
        job(d, json!({"min_improvement": "0.1"}), "invalid_value"),
        job(d, json!({"min_improvement": {"value": 0.1}}), "invalid_value"),
        job(d, json!({"min_improvement": {"value": 0.1, "unit": "dollars"}}), "invalid_value"),
        job(d, json!({"min_improvement": {"value": 1.5, "unit": "outcome"}}), "invalid_value"),
        job(d, json!({"min_improvement": {"value": 0.1, "unit": "paper", "per": "day"}}), "unknown_field"),
        job(d, json!({"objective": "revenue"}), "outcomes_not_named"),
        job(d, json!({"objective": 7}), "invalid_value"),
        job(d, json!({"guardrails": [{"outcome": "revenue", "max_loss": 0}]}), "outcomes_not_named"),
        job(d, json!({"guardrails": [{"outcome": "revenue"}]}), "invalid_value"),
        job(d, json!({"guardrails": [{"outcome": "a", "max_loss": 0, "limit": 1}]}), "unknown_field"),
        job(d, json!({"guardrails": {"revenue": 0}}), "invalid_value"),
        job(d, json!({"guardrails": vec![json!({"outcome": "a", "max_loss": 0}); 9]}), "too_many_guardrails"),
        job(d, json!({"rows_per_day": 0}), "invalid_value"),
        job(d, json!({"rows_per_day": "many"}), "invalid_value"),
        job(d, json!({"seed": -1}), "invalid_value"),
        job(d, json!({"seed": 1.5}), "invalid_value"),
        job(d, json!({"metadata": 5}), "invalid_value"),
        job(d, json!({"metadata": {"notes": "n".repeat(17_000)}}), "invalid_value"),
        twice(r#""min_improvement":0.2,"min_improvement":0"#),
        twice(r#""optimizer":{"epochs":3,"epochs":300}"#),
        twice(&format!(r#""dataset_id":"{d}""#)),
        job(d, json!({"optimizer": {"epochs": -1}}), "invalid_value"),
        job(d, json!({"optimizer": {"learning_rate": 0}}), "invalid_value"),
        job(d, json!({"optimizer": {"max_seconds": -1}}), "invalid_value"),
        job(d, json!({"baseline": {"kind": "known"}}), "invalid_value"),
        job(d, json!({"baseline": {"kind": "known", "risk": 0.5}}), "invalid_value"),
        job(d, json!({"baseline": {"kind": "certified", "risk": -0.5}}), "invalid_value"),
        job(d, json!({"baseline": {}}), "invalid_value"),
        job(d, json!({"prior": {"scale": 0}}), "invalid_value"),
        job(d, json!({"prior": {"fraction": 1.5}}), "invalid_value"),
        job(d, json!({"prior": {"kind": "logging_policy"}}), "prior_needs_logging_policy"),
        job(d, json!({"prior": {"kind": "policy"}}), "policy_required"),
        job(d, json!({"prior": {"kind": "policy", "policy_id": NOBODY}}), "unknown_policy"),
        job(d, json!({"prior": {"kind": "policy", "policy_id": "../../etc"}}), "unknown_policy"),
        job(d, json!({"prior": {"kind": "policy", "policy_id": f.policy}}), "policy_shape_mismatch"),
        job(d, json!({"prior": {"kind": "policy", "policy_id": f.uniform}}), "policy_shape_mismatch"),
        job(d, json!({"policy_class": "mixed_logit"}), "not_for_this_kind"),
        job(d, json!({"kind": "learn", "candidates": logged}), "not_for_this_kind"),
        job(d, json!({"independent_of_log": true}), "not_for_this_kind"),
        job(d, json!({"kind": "evaluate"}), "candidates_required"),
        job(d, evaluate(json!([])), "candidates_required"),
        job(d, evaluate(logged.clone()), "unknown_candidate"),
        job(d, evaluate(json!([{"kind": "policy", "policy_id": NOBODY}])), "unknown_policy"),
        job(d, evaluate(json!([{"kind": "policy", "policy_id": f.policy}])), "policy_shape_mismatch"),
        job(d, evaluate(json!([{"kind": "policy"}])), "invalid_value"),
        job(d, evaluate(json!([{"kind": "logged", "name": "new", "weight": 1}])), "unknown_field"),
        job(d, json!({"candidates": [{"kind": "policy", "policy_id": f.uniform}]}), "attestation_required"),
        job(&f.bare, json!({}), "learning_needs_features"),
        job(
            &f.bare,
            json!({"bound": "catoni", "candidates": logged, "independent_of_log": true}),
            "bound_needs_single_interactions",
        ),
    ]
}

fn policies(f: &Fixture) -> Vec<Case> {
    let bad = |body: Value, code| json_case("/v1/policies", body.to_string(), 422, code);
    let contexts = |what: &str, body: Value, code| {
        json_case(format!("/v1/policies/{}/{what}", f.uniform), body.to_string(), 422, code)
    };
    // A few kilobytes that ask for 2.1 million propensities.
    let many = |what: &str| {
        let body = json!({"contexts": vec![[0.5]; 210]}).to_string();
        json_case(format!("/v1/policies/{}/{what}", f.wide), body, 422, "too_large")
    };
    vec![
        bad(json!({}), "invalid_value"),
        bad(json!({"kind": "forest"}), "invalid_value"),
        bad(json!({"kind": "softmax"}), "invalid_value"),
        bad(json!({"kind": "softmax", "mean": []}), "invalid_policy"),
        bad(json!({"kind": "softmax", "mean": [[1.0]]}), "invalid_policy"),
        bad(json!({"kind": "softmax", "mean": [[1.0, 2.0], [1.0]]}), "invalid_policy"),
        bad(json!({"kind": "softmax", "mean": [[1e31, 2.0]]}), "invalid_policy"),
        bad(json!({"kind": "softmax", "mean": [["1", 2.0]]}), "invalid_value"),
        bad(json!({"kind": "lig", "mean": [[1.0, 2.0]], "scale": 0}), "invalid_policy"),
        bad(json!({"kind": "lig", "mean": [[1.0, 2.0]], "inverse_temperature": 1}), "unknown_field"),
        bad(json!({"kind": "uniform", "n_actions": 1, "dim": 2}), "invalid_policy"),
        bad(json!({"kind": "uniform", "n_actions": -2, "dim": 2}), "invalid_value"),
        bad(json!({"kind": "uniform", "n_actions": 1_000_000, "dim": 2}), "too_large"),
        bad(json!({"kind": "uniform", "n_actions": 2, "dim": 1_000_000}), "too_large"),
        many("propensities"),
        many("actions"),
        contexts("propensities", json!({}), "invalid_value"),
        contexts("propensities", json!({"contexts": [[1.0]]}), "invalid_contexts"),
        contexts("propensities", json!({"contexts": [[1.0, 1e300]]}), "invalid_contexts"),
        contexts("propensities", json!({"contexts": [], "seed": 1}), "unknown_field"),
        contexts("actions", json!({"contexts": [[1.0, 2.0, 3.0]]}), "invalid_contexts"),
        contexts("actions", json!({"contexts": [[1.0, 2.0]], "seed": -1}), "invalid_value"),
    ]
}

fn uploads(f: &Fixture) -> Vec<Case> {
    let good = two_rows();
    let row = |fields: &str| format!("{{\"x\":[1],\"action\":0,{fields}}}\n{good}");
    let form = |body: &str| {
        case("POST", "/v1/datasets", 400, "malformed_body").body("multipart/form-data; boundary=b", body)
    };
    vec![
        rows("", "", 422, "invalid_file"),
        rows("", "{\n", 422, "invalid_rows"),
        rows("", "[1]\n", 422, "invalid_rows"),
        rows("", &row("\"propensity\":0,\"cost\":-1"), 422, "invalid_rows"),
        rows("", &row("\"propensity\":1.5,\"cost\":-1"), 422, "invalid_rows"),
        rows("", &row("\"propensity\":0.5,\"cost\":1"), 422, "invalid_rows"),
        rows("", &row("\"propensity\":0.5,\"cost\":-1,\"colour\":1"), 422, "invalid_rows"),
        rows("", &row("\"cost\":-1"), 422, "invalid_rows"),
        rows("?outcome=reward", good, 422, "invalid_rows"),
        rows("?n_actions=1", good, 422, "invalid_value"),
        rows("?n_actions=x", good, 400, "invalid_query"),
        rows("?colour=red", good, 400, "invalid_query"),
        rows("?outcome=profit", good, 400, "invalid_query"),
        rows("?logging=sometimes", good, 400, "invalid_query"),
        rows("?repetitions=often", good, 400, "invalid_query"),
        rows("?exact_propensities=nearly", good, 400, "invalid_query"),
        rows("?outcome_min=1&outcome_max=0", good, 422, "invalid_value"),
        rows("?outcome_min=nan", good, 422, "invalid_value"),
        rows(&format!("?name={}", "n".repeat(201)), good, 422, "invalid_value"),
        rows(&format!("?logging_policy_id={NOBODY}"), good, 422, "unknown_policy"),
        rows("?logging_policy_id=x", good, 422, "unknown_policy"),
        rows("", good, 415, "unsupported_encoding").header("content-encoding", "br"),
        case("POST", "/v1/datasets", 415, "unsupported_media_type").body("text/plain", good),
        case("POST", "/v1/datasets", 422, "invalid_file").body("application/vnd.apache.parquet", good),
        form("--b--\r\n"),
        form("nonsense"),
        form("--b\r\nContent-Disposition: form-data; name=\"data\"\r\n\r\nx\r\n--b--\r\n"),
        case("POST", "/v1/datasets", 400, "malformed_body").body("multipart/form-data", "x"),
        case("POST", format!("/v1/datasets/{NOBODY}/rows"), 404, "not_found")
            .body("application/x-ndjson", good),
        case("POST", format!("/v1/datasets/{NOBODY}/candidates"), 404, "not_found")
            .body("application/x-ndjson", "{\"candidates\":{\"b\":0.5}}\n"),
        case("POST", format!("/v1/datasets/{}/candidates", f.dataset), 422, "invalid_rows")
            .body("application/x-ndjson", "{\"candidates\":{\"b\":1.5}}\n{\"candidates\":{\"b\":0.5}}\n"),
        case("POST", format!("/v1/datasets/{}/candidates?logging=fixed", f.dataset), 400, "invalid_query")
            .body("application/x-ndjson", "{\"candidates\":{\"b\":0.5}}\n"),
        case("POST", format!("/v1/datasets/{}/rows", f.dataset), 422, "invalid_rows")
            .body("application/x-ndjson", "{\"x\":[1],\"action\":0,\"propensity\":0.5,\"cost\":0}\n"),
    ]
}

fn paths_and_headers(f: &Fixture) -> Vec<Case> {
    let spec = json!({"dataset_id": f.dataset}).to_string();
    let long = "k".repeat(256);
    vec![
        case("GET", "/ui", 404, "no_such_route"),
        case("GET", "/ui/x/app.js", 404, "no_such_route"),
        case("POST", "/", 405, "method_not_allowed"),
        case("GET", "/index.html", 404, "no_such_route"),
        case("GET", "/v1", 404, "no_such_route"),
        case("GET", "/v1/nothing", 404, "no_such_route"),
        case("GET", "/v1/jobs/", 404, "no_such_route"),
        case("GET", "/v2/jobs", 404, "no_such_route"),
        case("GET", "/v1/jobs/x", 404, "not_found"),
        case("GET", format!("/v1/jobs/{NOBODY}"), 404, "not_found"),
        case("GET", format!("/v1/jobs/{}", f.dataset), 404, "not_found"),
        case("GET", "/v1/jobs/%2e%2e", 404, "not_found"),
        case("GET", "/v1/jobs/%ff", 404, "not_found"),
        case("GET", format!("/v1/jobs/{NOBODY}/gate"), 404, "not_found"),
        case("GET", format!("/v1/jobs/{NOBODY}/events"), 404, "not_found"),
        case("GET", format!("/v1/jobs/{NOBODY}/certificate"), 404, "not_found"),
        case("GET", format!("/v1/jobs/{NOBODY}/policy"), 404, "not_found"),
        case("GET", format!("/v1/jobs/{}/policy", f.done), 404, "not_found"),
        case("POST", format!("/v1/jobs/{NOBODY}/cancel"), 404, "not_found"),
        case("POST", format!("/v1/jobs/{}/cancel", f.done), 409, "job_finished"),
        case("GET", format!("/v1/datasets/{NOBODY}"), 404, "not_found"),
        case("DELETE", format!("/v1/datasets/{NOBODY}"), 404, "not_found"),
        case("GET", format!("/v1/policies/{NOBODY}"), 404, "not_found"),
        case("DELETE", format!("/v1/policies/{NOBODY}"), 404, "not_found"),
        case("GET", format!("/v1/policies/{}?include=scale", f.policy), 400, "invalid_query"),
        case("PUT", "/v1/jobs", 405, "method_not_allowed"),
        case("DELETE", "/v1/jobs", 405, "method_not_allowed"),
        case("GET", format!("/v1/jobs/{}/cancel", f.done), 405, "method_not_allowed"),
        case("POST", format!("/v1/jobs/{}/gate", f.done), 405, "method_not_allowed"),
        case("GET", "/v1/jobs?limit=0", 400, "invalid_query"),
        case("GET", "/v1/jobs?limit=101", 400, "invalid_query"),
        case("GET", "/v1/jobs?limit=many", 400, "invalid_query"),
        case("GET", "/v1/jobs?status=done", 400, "invalid_query"),
        case("GET", "/v1/jobs?dataset_id=x", 400, "invalid_query"),
        case("GET", "/v1/jobs?decision=maybe", 400, "invalid_query"),
        case("GET", "/v1/jobs?order=random", 400, "invalid_query"),
        case("GET", "/v1/jobs?after=x", 400, "invalid_cursor"),
        case("GET", "/v1/jobs?after=1.2", 400, "invalid_cursor"),
        case("GET", "/v1/datasets?page=2", 400, "invalid_query"),
        case("GET", "/v1/policies?limit=-1", 400, "invalid_query"),
        case("GET", format!("/v1/jobs/{}?wait=61", f.done), 400, "invalid_query"),
        case("GET", format!("/v1/jobs/{}?wait=-1", f.done), 400, "invalid_query"),
        case("GET", format!("/v1/jobs/{}?wiat=1", f.done), 400, "invalid_query"),
        case("GET", format!("/v1/jobs/{}/gate?force=true", f.done), 400, "invalid_query"),
        case("GET", format!("/v1/jobs/{}/gate?max_age=soon", f.done), 400, "invalid_query"),
        case("GET", "/v1/gates?after=x", 400, "invalid_cursor"),
        case("GET", "/v1/gates/nobody", 404, "not_found"),
        case("GET", "/v1/gates/%ff", 404, "not_found"),
        case("GET", "/v1/gates/nobody/definition", 404, "not_found"),
        case("GET", "/v1/gates/nobody/tokens", 404, "not_found"),
        case("POST", "/v1/gates/nobody/tokens", 404, "not_found"),
        case("DELETE", format!("/v1/gates/nobody/tokens/{NOBODY}"), 404, "not_found"),
        case("DELETE", "/v1/gates/%ff/tokens/%ff", 404, "not_found"),
        case("PUT", "/v1/gates", 405, "method_not_allowed"),
        case("POST", "/v1/gates/nobody", 405, "method_not_allowed"),
        json_case("/v1/gates", "{", 400, "malformed_json"),
        json_case("/v1/gates", "[]", 422, "invalid_value"),
        json_case("/v1/gates?force=1", r#"{"name": "g", "selector": {"a": 1}}"#, 400, "invalid_query"),
        json_case("/v1/gates", r#"{"name": "g", "selector": {"a": 1, "a": 2}}"#, 422, "invalid_value"),
        json_case("/v1/gates", r#"{"name": "g", "name": "h", "selector": {"a": 1}}"#, 422, "invalid_value"),
        case("GET", "/v1/gate/gt_nobody", 404, "not_found"),
        case("GET", "/v1/gate/%ff", 404, "not_found"),
        case("PUT", "/v1/gate/gt_nobody", 405, "method_not_allowed"),
        case("GET", "/v1/gate", 404, "no_such_route"),
        case("GET", format!("/v1/jobs/{}/events?after=x", f.done), 400, "invalid_cursor"),
        case("GET", format!("/v1/jobs/{}/events", f.done), 400, "invalid_header")
            .header("last-event-id", "x"),
        json_case("/v1/jobs", spec.clone(), 400, "invalid_header").header("idempotency-key", ""),
        json_case("/v1/jobs", spec.clone(), 400, "invalid_header").header("idempotency-key", "a b"),
        json_case("/v1/jobs", spec.clone(), 400, "invalid_header").header("idempotency-key", long),
        json_case("/v1/jobs", spec.clone(), 415, "unsupported_encoding").header("content-encoding", "gzip"),
        json_case("/v1/jobs?dry_run=1", spec.clone(), 400, "invalid_query"),
        case("POST", "/v1/jobs", 415, "unsupported_media_type").body("text/plain", spec.clone()),
        case("POST", "/v1/policies", 415, "unsupported_media_type").body("application/x-ndjson", spec),
        json_case("/v1/partials", "{}", 422, "invalid_value"),
        json_case("/v1/partials", "[]", 422, "invalid_value"),
        json_case("/v1/partials", r#"{"recipe": {}, "partials": []}"#, 422, "partials_rejected"),
        json_case("/v1/partials", r#"{"recipe": [], "partials": [{}]}"#, 422, "partials_rejected"),
        json_case("/v1/plans", "{}", 422, "invalid_value"),
        json_case("/v1/plans", "[]", 422, "invalid_value"),
        json_case("/v1/plans", "x", 400, "malformed_json"),
        json_case("/v1/plans", r#"{"improvement": 0.1}"#, 422, "invalid_value"),
        json_case(
            "/v1/plans",
            r#"{"improvement": 0.1, "improvement": 0.2, "n_actions": 3}"#,
            422,
            "invalid_value",
        ),
        json_case("/v1/plans", r#"{"improvement": "0.1", "n_actions": 3}"#, 422, "invalid_value"),
        json_case("/v1/plans", r#"{"improvement": -0.1, "n_actions": 3}"#, 422, "invalid_value"),
        json_case("/v1/plans", r#"{"improvement": 1e400, "n_actions": 3}"#, 400, "malformed_json"),
        json_case("/v1/plans", r#"{"improvement": 0.1, "n_actions": 1}"#, 422, "invalid_value"),
        json_case("/v1/plans", r#"{"improvement": 0.1, "n_actions": 3, "delta": 0}"#, 422, "invalid_value"),
        json_case("/v1/plans", r#"{"improvement": 0.1, "n_actions": 3, "power": 1}"#, 422, "invalid_value"),
        json_case(
            "/v1/plans",
            r#"{"improvement": 0.1, "n_actions": 3, "exploration": 0}"#,
            422,
            "invalid_value",
        ),
        json_case(
            "/v1/plans",
            r#"{"improvement": 0.1, "n_actions": 3, "rows_per_day": 0}"#,
            422,
            "invalid_value",
        ),
        json_case(
            "/v1/plans",
            r#"{"improvement": 0.1, "n_actions": 3, "unit": "dollar"}"#,
            422,
            "invalid_value",
        ),
        json_case(
            "/v1/plans",
            r#"{"improvement": 0.1, "n_actions": 3, "outcome_mean": 2}"#,
            422,
            "invalid_value",
        ),
        json_case(
            "/v1/plans",
            r#"{"improvement": 0.1, "n_actions": 3, "outcome_spread": 0.1}"#,
            422,
            "invalid_value",
        ),
        json_case(
            "/v1/plans",
            r#"{"improvement": 0.1, "n_actions": 3, "outcome_mean": 0.5, "outcome_spread": 0.7}"#,
            422,
            "invalid_value",
        ),
        json_case(
            "/v1/plans",
            r#"{"improvement": 0.7, "n_actions": 3, "outcome_mean": 0.5}"#,
            422,
            "invalid_value",
        ),
        json_case("/v1/plans", r#"{"improvement": 0.1, "propensities": [0.5, 0.6]}"#, 422, "invalid_value"),
        json_case("/v1/plans", r#"{"improvement": 0.1, "propensities": [1, 0]}"#, 422, "invalid_value"),
        json_case("/v1/plans", r#"{"improvement": 0.1, "propensities": [1]}"#, 422, "invalid_value"),
        json_case(
            "/v1/plans",
            r#"{"improvement": 0.1, "propensities": [0.5, 0.5], "exploration": 0.1}"#,
            422,
            "invalid_value",
        ),
        json_case("/v1/plans", r#"{"improvement": 0.1, "n_actions": 3, "rows": 7}"#, 422, "unknown_field"),
        json_case(
            "/v1/plans",
            r#"{"improvement": 0.1, "n_actions": 3, "fraction": 0.5}"#,
            422,
            "not_for_this_kind",
        ),
        json_case(
            "/v1/plans",
            r#"{"improvement": 0.1, "n_actions": 3, "kind": "learn", "candidates": 2}"#,
            422,
            "not_for_this_kind",
        ),
        json_case(
            "/v1/plans",
            r#"{"improvement": 0.1, "n_actions": 3, "outcome": {"kind": "reward", "min": 1, "max": 1}}"#,
            422,
            "invalid_value",
        ),
        case("POST", "/v1/plans", 415, "unsupported_media_type").body("text/plain", "{}"),
        json_case("/v1/plans?x=1", r#"{"improvement": 0.1, "n_actions": 3}"#, 400, "invalid_query"),
        json_case("/v1/certificates/verify", "{}", 422, "invalid_value"),
        json_case("/v1/certificates/verify", "[]", 422, "invalid_value"),
        json_case("/v1/certificates/verify", r#"{"issued": {"job": 1}}"#, 422, "unknown_field"),
        json_case("/v1/certificates/verify", "x", 400, "malformed_json"),
    ]
}

/// Everything in the store, as clients see it.
fn contents(client: &Client) -> Vec<Value> {
    let lists = ["/v1/datasets?limit=100", "/v1/policies?limit=100", "/v1/jobs?limit=100", "/v1/gates"];
    lists.iter().map(|path| client.get(path).expect(200)).collect()
}

#[test]
fn every_malformed_request_has_its_status_and_code_and_changes_nothing() {
    let server = Server::start();
    let client = server.client();
    let fixture = fixture(&client);
    let before = contents(&client);
    let cases: Vec<Case> =
        [specs(&fixture), policies(&fixture), uploads(&fixture), paths_and_headers(&fixture)]
            .into_iter()
            .flatten()
            .collect();
    assert!(cases.len() >= 60);
    let mut wrong = Vec::new();
    for case in &cases {
        let headers: Vec<(&str, &str)> = case.headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let answer = client.send(case.method, &case.path, &headers, case.body.as_deref());
        let got = (answer.status, answer.json["code"].as_str().unwrap_or(""));
        if got != (case.status, case.code) {
            let body = String::from_utf8_lossy(case.body.as_deref().unwrap_or(b"")).into_owned();
            wrong.push(format!(
                "{} {} {body}\n  wanted {} {}\n  got {}",
                case.method, case.path, case.status, case.code, answer.text
            ));
        } else {
            answer.problem(case.status, case.code);
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert_eq!(contents(&client), before);
}

#[test]
fn a_rejected_upload_names_its_rows() {
    let server = Server::start();
    let bad = "{\"x\":[0,1],\"action\":0,\"propensity\":2,\"cost\":0}\n".repeat(30);
    let answer = server.client().upload("", &format!("{}{bad}", two_rows()));
    answer.problem(422, "invalid_rows");
    let errors = answer.json["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 20);
    assert_eq!((&errors[0]["row"], &errors[0]["field"]), (&json!(3), &json!("propensity")));
    assert!(answer.json["detail"].as_str().unwrap().contains("30"), "{}", answer.text);
    assert!(contents(&server.client()).iter().all(|list| list["data"] == json!([])));
}

#[test]
fn errors_name_their_field() {
    let server = Server::start();
    let client = server.client();
    let dataset = id_of(&client.upload("", two_rows()).expect(201));
    let notes = json!({"dataset_id": dataset, "metadata": {"notes": "n".repeat(17_000)}});
    assert_eq!(client.post("/v1/jobs", &notes).json["errors"][0]["field"], "metadata");
    let twice = format!(r#"{{"dataset_id":"{dataset}","min_improvement":0.2,"min_improvement":0}}"#);
    let answer =
        client.send("POST", "/v1/jobs", &[("content-type", "application/json")], Some(twice.as_bytes()));
    assert_eq!(answer.json["errors"][0]["field"], "min_improvement", "{}", answer.text);
    let wide = json!({"kind": "uniform", "n_actions": 10_000, "dim": 1});
    let path =
        format!("/v1/policies/{}/propensities", id_of(&client.post("/v1/policies", &wide).expect(201)));
    let answer = client.post(&path, &json!({"contexts": vec![[0.5]; 210]}));
    assert_eq!(answer.json["errors"][0]["field"], "contexts", "{}", answer.text);
    assert_eq!(client.post(&path, &json!({"contexts": vec![[0.5]; 20]})).status, 200);
}
