//! schemathesis, from PyPI, sends requests that it generates from the served OpenAPI document: there must
//! be no 5xx, no undocumented status and no body that differs from its schema.

use crate::common;

use std::path::{Path, PathBuf};
use std::process::Command;

use super::python::environment;
use common::{Server, id_of};
use serde_json::json;

/// A last resort: the tool limits itself to 60 seconds of generated requests.
const SECONDS: &str = "150";

/// An address for webhooks that nobody listens on.
const ALLOW: (&str, &str) = ("GUARANTOR_WEBHOOK_ALLOW", "http://127.0.0.1:9/");

/// The tool, installed on first use.
fn install() -> Option<PathBuf> {
    let python = environment("schemathesis", &["schemathesis>=4,<5"], "import schemathesis")?;
    Some(python.with_file_name("schemathesis"))
}

#[test]
fn generated_requests_find_nothing_undocumented() {
    let Some(tool) = install() else {
        eprintln!("\n*** SKIPPED: schemathesis cannot be installed from PyPI; the API was NOT fuzzed. ***\n");
        return;
    };
    let mut server = Server::start_with(&[
        ("GUARANTOR_MAX_WAIT_SECONDS", "1"),
        ("GUARANTOR_MAX_QUEUED_JOBS", "5000"),
        ALLOW,
    ]);
    let key = server.create_key("default");
    server.kill();
    server.restart();
    let client = server.client().with_key(&key);
    let dataset = client.dataset(300);
    let job = client.submit(json!({"dataset_id": dataset}));
    let policy = client.finish(&job)["result"]["policy_id"].clone();
    client
        .post("/v1/gates", &json!({"name": "g", "dataset_id": dataset, "allow": ["fixed_logging"]}))
        .expect(201);
    let token = client.post("/v1/gates/g/tokens", &json!({})).expect(201)["token"].clone();
    let webhook = id_of(&client.post("/v1/webhooks", &json!({"url": "http://127.0.0.1:9/"})).expect(201));
    let delivery = client.send("POST", &format!("/v1/webhooks/{webhook}/test"), &[], None).expect(202);
    let delivery = id_of(&delivery);
    let ids = json!({"/v1/datasets": dataset, "/v1/jobs": job, "/v1/policies": policy, "/v1/gates": "g",
        "/v1/gate/": token, "/v1/webhooks": webhook, "delivery_id": delivery});
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemathesis_hooks.py");
    let output = Command::new("timeout")
        .arg(SECONDS)
        .arg(tool)
        .args(["run", &format!("{}/openapi.json", server.base)])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance"])
        .args(["--max-examples", "25", "--max-time", "60", "--seed", "1", "--no-color", "--generation-database", "none"])
        .args(["--suppress-health-check", "all"])
        .args(["--header", &format!("Authorization: Bearer {key}")])
        .env("SCHEMATHESIS_HOOKS", hooks)
        .env("GUARANTOR_TEST_IDS", ids.to_string())
        .output()
        .unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_ne!(
        output.status.code(),
        Some(124),
        "schemathesis did not finish within {SECONDS} seconds:\n{text}"
    );
    assert!(output.status.success(), "{text}");
    assert_eq!(client.get("/readyz").status, 200);
}
