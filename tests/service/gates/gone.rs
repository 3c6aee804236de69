//! What a certificate needs is gone, or its job was canceled.

use std::fs;

use serde_json::{Value, json};

use super::forged::{certificate_file, sql};
use super::{NOBODY, certify, gate_of, spec, upload};
use crate::common::{Server, eventually, id_of};

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
