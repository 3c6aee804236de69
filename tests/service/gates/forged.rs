//! Stored data that was changed: the signature is checked at every request.

use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use guarantor_engine::certificate::{Certificate, Decision, signed_bytes};
use serde_json::{Value, json};

use super::{certify, gate_of, spec, upload};
use crate::common::{Server, eventually};

/// The certificate file of a job.
pub fn certificate_file(server: &Server, job: &str) -> PathBuf {
    let attempts = fs::read_dir(server.data.path().join("blobs/jobs").join(job)).unwrap();
    attempts.into_iter().next().unwrap().unwrap().path().join("certificate.json")
}

pub async fn sql(server: &Server, statement: &'static str, values: &[&str]) {
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
pub async fn forge(server: &Server, job: &str, sign: bool, change: impl FnOnce(&mut Certificate)) -> String {
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

/// The signature does not cover the decision in the job's row, but the certificate has it too.
#[tokio::test(flavor = "multi_thread")]
async fn a_keep_that_was_edited_in_its_row_only_is_damaged() {
    let server = Server::start();
    let client = server.client();
    let job = certify(&client, spec(&upload(&client, 51, ""), &["best"], json!({"min_improvement": 0.99})));
    gate_of(&client, &job, "").problem(403, "decision_keep");
    let edit = "UPDATE jobs SET result = json_set(result, '$.decision', 'deploy') WHERE id = $1";
    sql(&server, edit, &[&job]).await;
    eventually(|| gate_of(&client, &job, "").json["code"].clone(), &json!("damaged"));
    let closed = gate_of(&client, &job, "");
    closed.problem(500, "damaged");
    assert_eq!(closed.json["ok"], false);
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
