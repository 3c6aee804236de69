//! The digest of a certificate depends on the log, the spec and the seed only: not on the ids that a service gives to
//! policies, nor on how the log arrived.

use crate::common;

use std::path::Path;
use std::process::Command;

use common::{BINARY, Client, Server, id_of, log, log_of};
use serde_json::{Value, json};

/// Two policies as files, and a spec that names them.
fn inputs(folder: &Path) -> (Value, Value) {
    let softmax = |scale: f64| json!({"kind": "softmax", "mean": [[0.0, scale, -scale], [0.0, 0.0, 0.0]]});
    for (name, policy) in [("steep", softmax(40.0)), ("flat", softmax(4.0)), ("other", softmax(3.0))] {
        std::fs::write(folder.join(format!("{name}.json")), policy.to_string()).unwrap();
    }
    std::fs::write(folder.join("log.ndjson"), log(600)).unwrap();
    (softmax(40.0), softmax(4.0))
}

fn spec(first: &Value, second: &Value) -> Value {
    let candidate = |id: &Value| json!({"kind": "policy", "policy_id": id});
    json!({"candidates": [candidate(first), candidate(second)], "independent_of_log": true, "seed": 3})
}

fn certify(folder: &Path, args: &[&str]) -> Value {
    let mut command = Command::new(BINARY);
    command.current_dir(folder).args(["certify", "log.ndjson", "--outcome", "reward", "--json"]).args(args);
    let output = command.output().unwrap();
    assert!(output.status.code() < Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The certificate of a job on a dataset.
fn issued(client: &Client, dataset: &str, (first, second): (&Value, &Value)) -> Value {
    let store = |policy: &Value| json!(id_of(&client.post("/v1/policies", policy).expect(201)));
    let mut spec = spec(&store(first), &store(second));
    spec["dataset_id"] = json!(dataset);
    let done = client.finish(&client.submit(spec));
    assert_eq!(done["status"], "succeeded", "{done}");
    client.get(done["result"]["certificate_url"].as_str().unwrap()).expect(200)
}

#[test]
fn the_same_inputs_have_one_digest_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (steep, flat) = inputs(folder);
    std::fs::write(folder.join("spec.json"), spec(&json!("a"), &json!("b")).to_string()).unwrap();
    let named = ["--spec", "spec.json", "--policy", "a=steep.json", "--policy", "b=flat.json"];
    let here = certify(folder, &named);
    assert_eq!(here, certify(folder, &named), "the whole document is the same again");
    // Other names for the same policies are the same certificate, too.
    std::fs::write(folder.join("spec.json"), spec(&json!("x"), &json!("y")).to_string()).unwrap();
    let named = ["--spec", "spec.json", "--policy", "x=steep.json", "--policy", "y=flat.json"];
    assert_eq!(here, certify(folder, &named));

    let server = Server::start();
    let client = server.client();
    let dataset = id_of(&client.upload("?outcome=reward", &log(600)).expect(201));
    let (first, second) =
        (issued(&client, &dataset, (&steep, &flat)), issued(&client, &dataset, (&steep, &flat)));
    assert_ne!(
        first["spec"]["candidates"], second["spec"]["candidates"],
        "policies are stored under new ids"
    );
    for document in [&first, &second] {
        assert_eq!(document["digest"], here["digest"]);
        let verified = client.post("/v1/certificates/verify", document).expect(200);
        assert_eq!(verified["valid"], true, "{verified}");
    }
    // The ledger recognizes the repetition.
    assert_eq!(second["ledger"]["shares"]["why"], "repeat", "{}", second["ledger"]);
    let swapped = issued(&client, &dataset, (&flat, &steep));
    assert_ne!(swapped["digest"], here["digest"]);

    // A document with the ids of other policies is not the one that the job issued, and its signature is broken.
    let ids = |document: &Value| document["spec"]["candidates"][0]["policy_id"].as_str().unwrap().to_owned();
    let forged = first.to_string().replace(&ids(&first), &ids(&second));
    let verified = client.send("POST", "/v1/certificates/verify", JSON, Some(forged.as_bytes())).expect(200);
    assert_eq!(
        (&verified["valid"], &verified["signature"]),
        (&json!(false), &json!("invalid")),
        "{verified}"
    );
    let failed: Vec<&Value> =
        verified["checks"].as_array().unwrap().iter().filter(|c| c["ok"] == false).collect();
    assert!(failed.iter().any(|check| check["name"] == "spec"), "{verified}");
}

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

#[test]
fn a_log_that_arrived_in_parts_has_the_same_digest() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (steep, flat) = inputs(folder);
    let (start, end) = (log(500), log_of(2, 100));
    let server = Server::start();
    let client = server.client();
    let whole = id_of(&client.upload("?outcome=reward", &format!("{start}{end}")).expect(201));
    let whole = issued(&client, &whole, (&steep, &flat));

    let other = Server::start();
    let client = other.client();
    let parts = id_of(&client.upload("?outcome=reward", &start).expect(201));
    let rows = [("content-type", "application/x-ndjson")];
    client.send("POST", &format!("/v1/datasets/{parts}/rows"), &rows, Some(end.as_bytes())).expect(201);
    let parts = issued(&client, &parts, (&steep, &flat));
    assert_eq!((&whole["dataset"]["version"], &parts["dataset"]["version"]), (&json!(1), &json!(2)));
    assert_eq!(whole["digest"], parts["digest"]);

    // Without a server: the parts as files, and the policies without their ids.
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("certificate.json", &parts.to_string());
    write("start.ndjson", &start);
    write("end.ndjson", &end);
    let verify = |policies: [&str; 2]| {
        let mut command = Command::new(BINARY);
        command.current_dir(folder).args([
            "verify",
            "certificate.json",
            "--log",
            "start.ndjson",
            "--log",
            "end.ndjson",
        ]);
        for policy in policies {
            command.args(["--policy", policy]);
        }
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.code(), said)
    };
    let (code, said) = verify(["steep.json", "flat.json"]);
    assert_eq!(code, Some(0), "{said}");
    let id = parts["spec"]["candidates"][1]["policy_id"].as_str().unwrap();
    let (code, said) = verify(["steep.json", &format!("{id}=flat.json")]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = verify(["steep.json", &format!("{id}=other.json")]);
    assert_eq!(code, Some(1), "{said}");
    let (code, said) = verify(["steep.json", "other.json"]);
    assert_eq!(
        (code, said.contains("no candidate of the certificate has its digest")),
        (Some(2), true),
        "{said}"
    );
}
