//! Signatures of certificates and the signing key, through the real program.

use crate::common;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use common::{BINARY, Client, Server, log, log_of};
use guarantor_engine::certificate::{PublicKey, SignatureState, SigningKey, check_signature, signed_bytes};
use serde_json::{Value, json};

/// The certificate of a candidate, which is quick to compute.
fn certificate(client: &Client, dataset: &str, delta: f64) -> Value {
    let mean = json!([[0.0, 40.0, -40.0], [0.0, 0.0, 0.0]]);
    let policy = client.post("/v1/policies", &json!({"kind": "softmax", "mean": mean})).expect(201);
    let spec = json!({"dataset_id": dataset, "candidates": [{"kind": "policy", "policy_id": policy["id"]}],
        "independent_of_log": true, "delta": delta});
    let done = client.finish(&client.submit(spec));
    assert_eq!(done["status"], "succeeded", "{done}");
    client.get(done["result"]["certificate_url"].as_str().unwrap()).expect(200)
}

fn public_key(client: &Client) -> PublicKey {
    let answer = client.get("/v1/certificates/key").expect(200);
    assert_eq!(answer["algorithm"], "ed25519");
    let key = PublicKey::from_text(answer["public_key"].as_str().unwrap()).unwrap();
    assert_eq!(PublicKey::from_text(answer["pem"].as_str().unwrap()), Some(key));
    assert_eq!(answer["key_id"], key.key_id());
    key
}

fn is_valid(document: &Value, key: PublicKey) -> bool {
    matches!(check_signature(document, &[key]), SignatureState::Valid { .. })
}

/// JSON pointers to every value in a document, the document itself first.
fn pointers(value: &Value, at: String, out: &mut Vec<String>) {
    out.push(at.clone());
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, v)| pointers(v, format!("{at}/{name}"), out)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, v)| pointers(v, format!("{at}/{i}"), out));
        }
        _ => {}
    }
}

/// Values that differ as little as possible from `value`.
fn changed(value: &Value) -> Vec<Value> {
    match value {
        Value::Null => vec![json!(0), json!(false), json!("")],
        Value::Bool(b) => vec![json!(!b), Value::Null],
        Value::String(text) => vec![json!(format!("{text}x")), json!(text.get(1..)), Value::Null],
        Value::Number(number) if number.is_f64() => {
            let x = number.as_f64().unwrap();
            vec![json!(x.next_up()), json!(x.next_down()), json!(x + 7.0)]
        }
        Value::Number(number) => vec![json!(number.as_i64().unwrap() + 1), json!(number.to_string())],
        Value::Array(items) => {
            let mut longer = items.clone();
            longer.push(items.first().cloned().unwrap_or_default());
            vec![json!(longer), json!(items.get(1..))]
        }
        Value::Object(fields) => {
            let without = fields.keys().map(|name| {
                let mut fewer = fields.clone();
                fewer.remove(name);
                Value::Object(fewer)
            });
            let mut more = fields.clone();
            more.insert("unknown_member".into(), Value::Null);
            without.chain([Value::Object(more)]).collect()
        }
    }
}

#[test]
fn any_change_anywhere_in_the_document_breaks_the_signature() {
    let server = Server::start();
    let client = server.client();
    let document = certificate(&client, &client.dataset(400), 0.05);
    let key = public_key(&client);
    assert!(is_valid(&document, key), "{document}");
    let mut all = Vec::new();
    pointers(&document, String::new(), &mut all);
    let mut tried = 0;
    for pointer in &all {
        for other in changed(document.pointer(pointer).unwrap()) {
            let mut forged = document.clone();
            *forged.pointer_mut(pointer).unwrap() = other;
            assert!(!is_valid(&forged, key), "a change at {pointer:?} went unnoticed: {forged}");
            tried += 1;
        }
    }
    assert!(tried > 300, "only {tried} changes of {} values", all.len());
    let raw = BASE64.decode(document["signature"]["value"].as_str().unwrap()).unwrap();
    for byte in 0..raw.len() {
        let mut raw = raw.clone();
        raw[byte] ^= 1;
        let mut forged = document.clone();
        forged["signature"]["value"] = json!(BASE64.encode(raw));
        assert!(!is_valid(&forged, key), "byte {byte} of the signature");
    }
}

#[test]
fn swapped_removed_and_foreign_signatures_are_invalid() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset(400);
    let (first, second) = (certificate(&client, &dataset, 0.05), certificate(&client, &dataset, 0.04));
    let verify = |document: &Value| client.post("/v1/certificates/verify", document).expect(200);
    let honest = verify(&first);
    assert_eq!((&honest["valid"], &honest["signature"]), (&json!(true), &json!("valid")), "{honest}");

    let mut swapped = first.clone();
    swapped["signature"] = second["signature"].clone();
    let mut removed = first.clone();
    removed.as_object_mut().unwrap().remove("signature");
    // Signed by someone who has the document but not the key, under the id of the key.
    let stranger = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
    let mut foreign = first.clone();
    let signature = ed25519_dalek::Signer::sign(&stranger, &signed_bytes(&foreign).unwrap());
    foreign["signature"]["value"] = json!(BASE64.encode(signature.to_bytes()));
    let mut moved = first.clone();
    moved["ledger"]["family_wise_confidence"] = json!(0.999);
    for (what, forged) in [("swapped", swapped), ("removed", removed), ("foreign", foreign), ("moved", moved)]
    {
        let answer = verify(&forged);
        assert_eq!((&answer["valid"], &answer["signature"]), (&json!(false), &json!("invalid")), "{what}");
        let checks = answer["checks"].as_array().unwrap();
        let of = |name: &str| checks.iter().find(|check| check["name"] == name).unwrap()["ok"].clone();
        assert_eq!((of("signature"), of("digest")), (json!(false), json!(true)), "{what}: {answer}");
    }
    let mut unknown = first.clone();
    unknown["signature"]["key_id"] = json!(SigningKey::from_seed(&[7; 32]).public().key_id());
    assert_eq!(verify(&unknown)["signature"], "invalid");
}

#[test]
fn a_document_with_a_duplicate_member_is_rejected() {
    let server = Server::start();
    let client = server.client();
    let document = certificate(&client, &client.dataset(400), 0.05);
    let twice = document.to_string().replacen('{', "{\"decision\":\"deploy\",", 1);
    let headers = [("content-type", "application/json")];
    let answer = client.send("POST", "/v1/certificates/verify", &headers, Some(twice.as_bytes()));
    answer.problem(422, "invalid_value");
    assert_eq!(answer.json["errors"][0]["field"], "decision", "{}", answer.text);
}

fn start_output(server: &Server) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("serve").env("GUARANTOR_LISTEN", "127.0.0.1:0").env("GUARANTOR_DATA_DIR", server.data.path());
    command.stdin(Stdio::null()).output().unwrap()
}

fn key_file(server: &Server) -> PathBuf {
    server.data.path().join("signing-key.json")
}

#[test]
fn the_key_survives_restarts_and_only_its_owner_can_read_it() {
    let mut server = Server::start();
    let key = public_key(&server.client());
    let path = key_file(&server);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    server.kill();
    server.restart();
    assert_eq!(public_key(&server.client()), key);
    server.kill();

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let output = start_output(&server);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("signing-key.json is accessible to every user"), "{said}");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();

    // One damaged byte, anywhere in the file.
    let whole = std::fs::read(&path).unwrap();
    let secret = serde_json::from_slice::<Value>(&whole).unwrap()["secret_key"].as_str().unwrap().to_owned();
    for place in [0, whole.len() / 2, whole.len() - 6] {
        let mut damaged = whole.clone();
        damaged[place] = if damaged[place] == b'A' { b'B' } else { b'A' };
        std::fs::write(&path, &damaged).unwrap();
        let output = start_output(&server);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("signing-key.json is damaged"), "{said}");
        assert!(!said.contains(&secret) && !said.contains(&secret[4..20]), "the key was printed");
    }
    std::fs::write(&path, &whole).unwrap();
    server.restart();
    assert_eq!(public_key(&server.client()), key);
}

#[test]
fn certificates_of_a_replaced_key_stay_valid() {
    let mut server = Server::start();
    let (old_key, dataset) = (public_key(&server.client()), server.client().dataset(400));
    let document = certificate(&server.client(), &dataset, 0.05);
    server.kill();
    std::fs::remove_file(key_file(&server)).unwrap();
    server.restart();
    let client = server.client();
    assert_ne!(public_key(&client), old_key);
    let answer = client.get("/v1/certificates/key").expect(200);
    assert_eq!(answer["earlier"][0]["key_id"], old_key.key_id());
    let checked = client.post("/v1/certificates/verify", &document).expect(200);
    assert_eq!((&checked["valid"], &checked["signature"]), (&json!(true), &json!("valid")), "{checked}");
    let next = certificate(&client, &dataset, 0.04);
    assert_eq!(next["signature"]["key_id"], answer["key_id"]);
}

/// The state in which the migration leaves certificates from before there were signatures.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_from_before_signatures_are_reported_as_unsigned() {
    let mut server = Server::start();
    let mut document = certificate(&server.client(), &server.client().dataset(400), 0.05);
    server.kill();
    let url = format!("sqlite://{}", server.data.path().join("guarantor.sqlite").display());
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    sqlx::query("UPDATE ledger SET digest = NULL, event = NULL, signature = NULL")
        .execute(&pool)
        .await
        .unwrap();
    pool.close().await;
    server.restart();
    let client = server.client();
    let job = document["issued"]["job_id"].as_str().unwrap().to_owned();
    let again = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    let fields = document.as_object_mut().unwrap();
    fields.retain(|name, _| name != "signature" && name != "ledger");
    assert_eq!(again, document);
    let checked = client.post("/v1/certificates/verify", &document).expect(200);
    assert_eq!((&checked["valid"], &checked["signature"]), (&json!(true), &json!("unsigned")), "{checked}");
    assert!(checked["checks"].as_array().unwrap().iter().all(|check| check["name"] != "signature"));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("certificate.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let key = public_key(&client).base64();
    let (code, said) = verify(&[file.to_str().unwrap(), "--public-key", &key]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("unsigned") && said.contains("NOT VALID"), "{said}");
}

/// Another release may word a ledger entry differently; the signed wording is the one that is shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_entry_is_shown_as_it_was_signed() {
    let mut server = Server::start();
    let mut document = certificate(&server.client(), &server.client().dataset(400), 0.05);
    server.kill();
    document["ledger"]["statement"] = json!("In the words of another release.");
    let file: Value = serde_json::from_slice(&std::fs::read(key_file(&server)).unwrap()).unwrap();
    let seed: [u8; 32] = BASE64.decode(file["secret_key"].as_str().unwrap()).unwrap().try_into().unwrap();
    let key = ed25519_dalek::SigningKey::from_bytes(&seed);
    let signature = ed25519_dalek::Signer::sign(&key, &signed_bytes(&document).unwrap());
    document["signature"]["value"] = json!(BASE64.encode(signature.to_bytes()));
    let url = format!("sqlite://{}", server.data.path().join("guarantor.sqlite").display());
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    sqlx::query("UPDATE ledger SET place = $1, signature = $2")
        .bind(document["ledger"].to_string())
        .bind(document["signature"].to_string())
        .execute(&pool)
        .await
        .unwrap();
    pool.close().await;
    server.restart();
    let client = server.client();
    let job = document["issued"]["job_id"].as_str().unwrap();
    assert_eq!(client.get(&format!("/v1/jobs/{job}/certificate")).expect(200), document);
    let checked = client.post("/v1/certificates/verify", &document).expect(200);
    assert_eq!((&checked["valid"], &checked["signature"]), (&json!(true), &json!("valid")), "{checked}");
}

fn verify(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(BINARY).arg("verify").args(args).output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.code(), said)
}

#[test]
fn the_command_line_verifies_without_a_server() {
    let mut server = Server::start();
    let client = server.client();
    let dataset = client.upload("?outcome=reward", &log(500)).expect(201);
    let append = [("content-type", "application/x-ndjson")];
    let path = format!("/v1/datasets/{}/rows", dataset["id"].as_str().unwrap());
    client.send("POST", &path, &append, Some(log_of(2, 100).as_bytes())).expect(201);
    let job = client.submit(json!({"dataset_id": dataset["id"]}));
    client.finish(&job);
    let document = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    assert_eq!(document["dataset"]["version"], 2);
    let keys = client.get("/v1/certificates/key").expect(200);
    server.kill();

    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let file = write("certificate.json", &document.to_string());
    for key in [
        keys["public_key"].as_str().unwrap().to_owned(),
        write("key.json", &keys.to_string()),
        write("key.pem", keys["pem"].as_str().unwrap()),
        write("key.txt", keys["public_key"].as_str().unwrap()),
    ] {
        let (code, said) = verify(&[&file, "--public-key", &key]);
        assert_eq!(code, Some(0), "{key}: {said}");
    }
    let other = SigningKey::from_seed(&[9; 32]).public().base64();
    let (code, said) = verify(&[&file, "--public-key", &other]);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(verify(&[&file, "--public-key", "nonsense"]).0, Some(2));

    // Recomputed from the rows of both versions.
    let rows = write("log.ndjson", &format!("{}{}", log(500), log_of(2, 100)));
    let key = keys["public_key"].as_str().unwrap();
    let (code, said) = verify(&[&file, "--public-key", key, "--log", &rows]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("guaranteed_improvement"), "{said}");
    let fewer = write("fewer.ndjson", &log(500));
    let (code, said) = verify(&[&file, "--log", &fewer]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("FAIL  dataset"), "{said}");

    // No check would cover an additional member.
    let mut added = document.clone();
    added["approved_by"] = json!("the board");
    let added = write("added.json", &added.to_string());
    let (code, said) = verify(&[&added, "--log", &rows]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("unknown member approved_by"), "{said}");

    let mut forged = document.clone();
    forged["decision"] = json!("deploy");
    forged["guaranteed_improvement"] = json!(0.9);
    let forged = write("forged.json", &forged.to_string());
    let (code, said) = verify(&[&forged, "--public-key", key]);
    assert_eq!(code, Some(1), "{said}");
    let (code, said) = verify(&[&forged, "--log", &rows]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("FAIL  guaranteed_improvement"), "{said}");
}

#[test]
fn the_command_line_signs_what_it_certifies() {
    let directory = tempfile::tempdir().unwrap();
    let rows = directory.path().join("log.ndjson");
    let key = directory.path().join("key.json");
    std::fs::write(&rows, log(300)).unwrap();
    let certify = |signed: bool| -> Value {
        let mut command = Command::new(BINARY);
        command.arg("certify").arg(&rows).args(["--outcome", "reward", "--json"]);
        if signed {
            command.arg("--signing-key").arg(&key);
        }
        serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
    };
    let (unsigned, first, second) = (certify(false), certify(true), certify(true));
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(first, second, "signatures are deterministic");
    let public = serde_json::from_slice::<Value>(&std::fs::read(&key).unwrap()).unwrap();
    let public = PublicKey::from_text(public["public_key"].as_str().unwrap()).unwrap();
    assert!(is_valid(&first, public));
    assert_eq!(check_signature(&unsigned, &[public]), SignatureState::Unsigned);
    assert_eq!(unsigned["digest"], first["digest"]);
}
