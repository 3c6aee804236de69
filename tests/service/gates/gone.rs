//! What a certificate needs is gone, or its job was canceled.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::forged::{certificate_file, sql};
use super::{NDJSON, NOBODY, certify, gate_of, rows, spec, upload};
use crate::common::{Answer, Server, eventually, id_of};

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

/// Renames a file away, asks, and renames it back.
fn without<T>(file: &Path, ask: impl FnOnce() -> T) -> T {
    let away = file.with_extension("away");
    fs::rename(file, &away).unwrap();
    let answer = ask();
    fs::rename(&away, file).unwrap();
    answer
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[track_caller]
fn assert_closed(answer: &Answer, status: u16, code: &str) {
    answer.problem(status, code);
    assert_eq!(answer.json["ok"], json!(false), "{}", answer.text);
}

#[test]
fn a_gate_closes_when_the_file_of_its_policy_is_gone_or_changed() {
    let server = Server::start();
    let client = server.client();
    let dataset = upload(&client, 47, "");
    let learned = client.submit(json!({"dataset_id": dataset}));
    let policy = client.finish(&learned)["result"]["policy_id"].as_str().unwrap().to_owned();
    let mean = json!([[0.0, 40.0, -40.0], [0.0, 0.0, 0.0]]);
    let given = id_of(&client.post("/v1/policies", &json!({"kind": "softmax", "mean": mean})).expect(201));
    let mut evaluation = spec(&dataset, &["best"], json!({}));
    evaluation["candidates"].as_array_mut().unwrap().push(json!({"kind": "policy", "policy_id": given}));
    let evaluated = certify(&client, evaluation);
    let requirements = json!({"candidate": given, "min_family_confidence": 0.5});
    client
        .post("/v1/gates", &json!({"name": "g", "dataset_id": dataset, "requirements": requirements}))
        .expect(201);
    let of_job = format!("/v1/jobs/{evaluated}/gate?candidate={given}");
    for (policy, paths) in
        [(&policy, vec![format!("/v1/jobs/{learned}/gate")]), (&given, vec![of_job, "/v1/gates/g".into()])]
    {
        let file = server.data.path().join(format!("blobs/policies/{policy}.json"));
        let stored = fs::read_to_string(&file).unwrap();
        // Another number of as many digits, another length, and no JSON.
        let digit = stored.rfind(|c: char| ('1'..='8').contains(&c)).unwrap();
        let mut edited = stored.clone();
        edited.replace_range(digit..=digit, "9");
        assert!(edited != stored && serde_json::from_str::<Value>(&edited).is_ok());
        for path in paths {
            let before = client.get(&path).expect(200);
            without(&file, || assert_closed(&client.get(&path), 403, "policy_gone"));
            for changed in [&edited, &format!("{stored} "), &" ".repeat(stored.len())] {
                fs::write(&file, changed).unwrap();
                assert_closed(&client.get(&path), 500, "damaged");
            }
            fs::write(&file, &stored).unwrap();
            assert_eq!(client.get(&path).expect(200), before);
            // Other candidates do not need the file.
            without(&file, || assert_eq!(gate_of(&client, &evaluated, "?candidate=best").status, 200));
        }
    }
}

#[test]
fn a_gate_closes_when_a_file_of_its_dataset_is_gone_or_shorter() {
    let server = Server::start();
    let client = server.client();
    let dataset = upload(&client, 48, "");
    let folder = server.data.path().join("blobs/datasets").join(&dataset);
    let first = files(&folder);
    let append = |seed| {
        let path = format!("/v1/datasets/{dataset}/rows");
        client.send("POST", &path, &NDJSON, Some(rows(seed).as_bytes())).expect(201);
    };
    append(49);
    let certified = files(&folder);
    assert!(certified.len() > first.len(), "an append has a file of its own");
    let job = certify(&client, spec(&dataset, &["best"], json!({})));
    client.post("/v1/gates", &json!({"name": "g", "dataset_id": dataset})).expect(201);
    append(50);
    let later: Vec<PathBuf> = files(&folder).into_iter().filter(|file| !certified.contains(file)).collect();
    let paths = [format!("/v1/jobs/{job}/gate"), "/v1/gates/g".into()];
    for path in &paths {
        client.get(path).expect(200);
        for file in &certified {
            without(file, || assert_closed(&client.get(path), 403, "dataset_gone"));
            let stored = fs::read(file).unwrap();
            fs::write(file, &stored[1..]).unwrap();
            assert_closed(&client.get(path), 403, "dataset_gone");
            fs::write(file, stored).unwrap();
        }
        // Rows that were appended later are not what was certified.
        assert_eq!(later.len(), 1);
        without(&later[0], || assert_eq!(client.get(path).status, 200));
    }
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
