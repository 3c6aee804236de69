//! Data directories of earlier releases. `tests/trust/v1` and `v2` were written by the releases with that
//! schema version and are never changed: the database as SQL, the files, and what the server returned about
//! them. The server of the second was killed while a job was running that had shown its bound. `v3` is the database
//! of the second after the step to schema 3, with two more jobs that were queued then. `v6` is a directory of release 0.3,
//! whose certificates are of method 3, and `release_0_5` one of release 0.5, of the same schema version, with certificates of method 4.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{Client, Server, log_of};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, Row, SqliteConnection};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trust");

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

async fn database(directory: &Path) -> SqliteConnection {
    let file = directory.join("guarantor.sqlite");
    // A dump refers to tables before it creates them.
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true).foreign_keys(false);
    SqliteConnection::connect_with(&options).await.unwrap()
}

/// Builds the data directory of schema `version` in `directory`. Returns what was known about it then.
fn old_directory(version: i64, directory: &Path) -> Value {
    let name = format!("v{version}");
    // The files of `v3` are those of `v2`.
    let files = if version == 3 { "v2" } else { &name };
    restored(version, (&name, files), directory)
}

/// Builds the data directory of schema `version` from the database of one fixture and the files of one.
fn restored(version: i64, (database_of, files_of): (&str, &str), directory: &Path) -> Value {
    let (own, fixture) = (Path::new(FIXTURES).join(database_of), Path::new(FIXTURES).join(files_of));
    copy(&fixture.join("blobs"), &directory.join("blobs"));
    let key = directory.join("signing-key.json");
    if std::fs::copy(fixture.join("signing-key.json"), &key).is_ok() {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let sql = std::fs::read_to_string(own.join("database.sql")).unwrap();
    run(async {
        let mut db = database(directory).await;
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
        let row = sqlx::query("SELECT MAX(version) FROM schema_version").fetch_one(&mut db).await.unwrap();
        assert_eq!(row.get::<i64, _>(0), version);
        db.close().await.unwrap();
    });
    serde_json::from_str(&std::fs::read_to_string(fixture.join("facts.json")).unwrap()).unwrap()
}

fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

/// The old certificate is intact, but its numbers were not recomputed, and the response names a release that can.
fn assert_only_the_method_is_unsupported(checked: &Value, release: &str) {
    assert_eq!(checked["valid"], false, "{checked}");
    let checks = checked["checks"].as_array().unwrap();
    let failed: Vec<&Value> = checks.iter().filter(|check| check["ok"] == false).collect();
    let [failed] = failed[..] else { panic!("{checked}") };
    assert_eq!(
        (&failed["name"], &failed["code"]),
        (&json!("recomputation"), &json!("method_not_supported")),
        "{checked}"
    );
    assert!(failed["detail"].as_str().unwrap().contains(release), "{checked}");
    for passed in ["digest", "issued", "stored", "ledger"] {
        assert!(checks.iter().any(|check| check["name"] == passed), "{passed}: {checked}");
    }
}

#[test]
fn a_directory_of_schema_version_1_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let facts = old_directory(1, directory.path());
    let text = |name: &str| facts[name].as_str().unwrap().to_owned();
    let server = Server::start_on(directory.path(), &[]);
    assert_eq!(server.client().get("/v1/datasets").status, 401, "the server must still require the old keys");
    let client = server.client().with_key(&text("key"));
    // A key that could do everything still can.
    let keys = server.keys(&["list"]);
    assert!(keys.lines().skip(1).all(|line| line.split_whitespace().nth(3) == Some("admin")), "{keys}");

    let dataset = client.get(&format!("/v1/datasets/{}", text("dataset"))).expect(200);
    assert_eq!((&dataset["rows"], &dataset["version"]), (&json!(400), &json!(2)));
    let policy = client.get(&format!("/v1/policies/{}?include=mean", text("policy"))).expect(200);
    assert_eq!(policy["mean"], json!([[0.4, -0.1, 0.0], [0.0, 0.3, -0.2]]));
    let deployed = client.get(&format!("/v1/jobs/{}", text("deployed"))).expect(200);
    assert_eq!(
        (&deployed["status"], &deployed["result"]["decision"]),
        (&json!("succeeded"), &json!("deploy"))
    );
    assert_eq!(deployed["result"]["guaranteed_improvement"], facts["improvement"]);
    // Nobody recorded who submitted it, and its certificate does not say.
    assert_eq!(deployed["submitted_by"], Value::Null);
    let certificate = client.get(&format!("/v1/jobs/{}/certificate", text("deployed"))).expect(200);
    assert!(certificate["issued"].get("submitted_by").is_none(), "{certificate}");
    assert_eq!(certificate["digest"], facts["digest"]);
    // The certificate is as it was, but it opens nothing: its log was not checked.
    for job in ["deployed", "kept"] {
        let gate = client.get(&format!("/v1/jobs/{}/gate", text(job)));
        gate.problem(403, "certificate_outdated");
        assert_eq!((&gate.json["ok"], &gate.json["method"]), (&json!(false), &json!(1)), "{}", gate.text);
        assert!(gate.json["detail"].as_str().unwrap().contains("POST /v1/jobs"), "{}", gate.text);
    }
    // Nobody said how the log was logged.
    assert_eq!((&dataset["logging"], &dataset["repetitions"]), (&json!("adaptive"), &json!("decisions")));
    assert_eq!(
        (&dataset["exact_propensities"], &dataset["ledger"]),
        (&json!(false), &json!({"shared_with": []}))
    );
    assert_eq!(client.get("/v1/jobs").expect(200)["data"].as_array().unwrap().len(), 2);
    assert_eq!(client.get("/v1/policies").expect(200)["data"].as_array().unwrap().len(), 2);

    // The data is also usable: rows can be appended, and a job reads them and checks their digest.
    let kind = [("content-type", "application/x-ndjson")];
    let path = format!("/v1/datasets/{}/rows", text("dataset"));
    let more = log_of(2, 100);
    assert_eq!(client.send("POST", &path, &kind, Some(more.as_bytes())).expect(201)["rows"], 500);
    // The two old certificates are two looks; the next look is the third, at its own cost.
    let ledger_path = format!("/v1/datasets/{}/ledger", text("dataset"));
    let before = client.get(&ledger_path).expect(200);
    assert_eq!((&before["looks"], &before["spent"]), (&json!(2), &json!(0.05 + 0.05)), "{before}");
    let done = client.finish(&client.submit(json!({"dataset_id": text("dataset")})));
    assert_eq!(done["status"], "succeeded", "{done}");
    let next = client.get(done["result"]["certificate_url"].as_str().unwrap()).expect(200);
    let id = keys.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(done["submitted_by"].as_str().unwrap().contains(id), "{done}");
    assert_eq!(next["issued"]["submitted_by"], done["submitted_by"]);
    // The old certificates have seen 400 rows, and the job checked all 500 itself.
    assert_eq!((&next["spec"]["seen_rows"], &next["spec"]["logging"]), (&json!(400), &json!("adaptive")));
    assert!(next["checks"].as_array().unwrap().iter().any(|check| check["scope"] == "log"), "{next}");
    let entry = &next["ledger"];
    assert_eq!((&entry["look"], &entry["spent_before"]), (&json!(3), &before["spent"]), "{entry}");
    let checked = client.post("/v1/certificates/verify", &certificate).expect(200);
    assert_eq!(checked["signature"], "unsigned", "{checked}");
    assert_only_the_method_is_unsupported(&checked, "release 0.1");
    // The policy that was learned then still cannot certify itself.
    let learned = deployed["result"]["policy_id"].clone();
    let itself = json!({"dataset_id": text("dataset"), "independent_of_log": true,
        "candidates": [{"kind": "policy", "policy_id": learned}]});
    client.post("/v1/jobs", &itself).problem(422, "policy_learned_here");
}

#[test]
fn a_directory_of_schema_version_2_keeps_its_ledger() {
    let directory = tempfile::tempdir().unwrap();
    let facts = old_directory(2, directory.path());
    let text = |name: &str| facts[name].as_str().unwrap().to_owned();
    let server = Server::start_on(directory.path(), &[]);
    let client = server.client();
    // The documents are what was signed, byte for byte.
    for (which, document) in facts["certificates"].as_object().unwrap() {
        let job = document["issued"]["job_id"].as_str().unwrap();
        assert_eq!(&client.get(&format!("/v1/jobs/{job}/certificate")).expect(200), document, "{which}");
        let checked = client.post("/v1/certificates/verify", document).expect(200);
        assert_eq!(checked["signature"], "valid", "{checked}");
        assert_only_the_method_is_unsupported(&checked, "release 0.1");
        let gate = client.get(&format!("/v1/jobs/{job}/gate"));
        gate.problem(403, "certificate_outdated");
        assert_eq!((&gate.json["ok"], &gate.json["method"]), (&json!(false), &json!(1)), "{}", gate.text);
    }
    let ledger_path = format!("/v1/datasets/{}/ledger", text("dataset"));
    // The job that was running when the process died had shown its bound. It is not continued, because nobody checked
    // how its dataset was logged, and its look is entered.
    let unfinished = text("unfinished");
    assert_outdated(&client, &unfinished);
    let after = client.get(&ledger_path).expect(200);
    let look = &after["data"][0];
    assert_eq!((&look["look"], &look["job_id"]), (&json!(4), &json!(unfinished)), "{after}");
    assert_eq!((&after["looks"], &after["spent"]), (&json!(4), &json!(0.02 + 0.05 + 0.05)), "{after}");
    assert_eq!((&look["decision"], &look["cost"]), (&Value::Null, &json!(0.05)), "{after}");
    // The looks that the old release counted in the family still count.
    let candidate = |policy: &str, more: Value| {
        let mut spec = json!({"dataset_id": text("dataset"), "independent_of_log": true,
            "candidates": [{"kind": "policy", "policy_id": policy}]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let family = json!({"family": {"delta": 0.06, "looks": 3}, "tau": 0.2});
    let done = client.finish(&client.submit(candidate(&text("policy"), family)));
    let entry = &client.get(done["result"]["certificate_url"].as_str().unwrap()).expect(200)["ledger"];
    assert_eq!((&entry["look"], &entry["family"]["taken"]), (&json!(5), &json!(2)), "{entry}");
    // The origins of policies are derived from the jobs that learned them.
    for policy in ["learned", "descendant"] {
        client.post("/v1/jobs", &candidate(&text(policy), json!({}))).problem(422, "policy_learned_here");
    }
}

/// The job was queued by an earlier release and fails with what to do.
fn assert_outdated(client: &Client, job: &str) {
    let done = client.finish(job);
    assert_eq!(
        (&done["status"], &done["error"]["code"]),
        (&json!("failed"), &json!("spec_outdated")),
        "{done}"
    );
    assert!(done["error"]["message"].as_str().unwrap().contains("submit it again"), "{done}");
    client.get(&format!("/v1/jobs/{job}/gate")).problem(424, "job_failed");
}

#[test]
fn jobs_that_a_directory_of_schema_version_3_had_queued_are_submitted_again() {
    let directory = tempfile::tempdir().unwrap();
    let facts = old_directory(3, directory.path());
    let text = |name: &str| facts[name].as_str().unwrap().to_owned();
    let server = Server::start_on(directory.path(), &[]);
    let client = server.client();
    for (which, document) in facts["certificates"].as_object().unwrap() {
        let job = document["issued"]["job_id"].as_str().unwrap();
        assert_eq!(&client.get(&format!("/v1/jobs/{job}/certificate")).expect(200), document, "{which}");
        client.get(&format!("/v1/jobs/{job}/gate")).problem(403, "certificate_outdated");
    }
    // `london_sandler` needs a fixed logging policy, which nobody attested, and `auto` would split by a hash.
    for number in 1..=2 {
        assert_outdated(&client, &format!("01a1e449-c000-7000-8000-{number:012}"));
    }
    let dataset = text("dataset");
    let bound = |bound: &str| {
        json!({"dataset_id": dataset, "independent_of_log": true, "bound": bound,
        "candidates": [{"kind": "policy", "policy_id": text("policy")}]})
    };
    client.post("/v1/jobs", &bound("london_sandler")).problem(422, "bound_needs_fixed_logging");
    let done = client.finish(&client.submit(bound("auto")));
    assert_eq!(done["status"], "succeeded", "{done}");
    // They showed nothing, so they were no looks; the job that was running had shown its bound.
    let ledger = client.get(&format!("/v1/datasets/{dataset}/ledger")).expect(200);
    assert_eq!(ledger["looks"], 5, "{ledger}");
}

#[test]
fn a_directory_of_a_newer_release_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    old_directory(1, directory.path());
    run(async {
        let mut db = database(directory.path()).await;
        sqlx::query("INSERT INTO schema_version (version) VALUES (99)").execute(&mut db).await.unwrap();
        db.close().await.unwrap();
    });
    let said = Server::refused_on(directory.path());
    assert!(said.contains("schema version 99") && said.contains("newer release"), "{said}");
}

/// Certificates of these methods were checked like new ones: they stay as they were signed and open their gates. Only
/// their numbers cannot be recomputed.
fn assert_gates_stay_open(fixture: &str, method: u32, release: &str) -> (tempfile::TempDir, Server, Value) {
    let directory = tempfile::tempdir().unwrap();
    let facts = restored(6, (fixture, fixture), directory.path());
    let job = facts["job"].as_str().unwrap();
    let server = Server::start_on(directory.path(), &[]);
    let client = server.client();
    let certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    assert_eq!(certificate, facts["certificate"]);
    assert_eq!(certificate["method"], method);
    let gate = client.get(&format!("/v1/jobs/{job}/gate")).expect(200);
    assert_eq!(gate["ok"], true, "{gate}");
    let checked = client.post("/v1/certificates/verify", &certificate).expect(200);
    assert_only_the_method_is_unsupported(&checked, release);
    let mut forged = certificate.clone();
    forged["guaranteed_improvement"] = json!(0.5);
    let checked = client.post("/v1/certificates/verify", &forged).expect(200);
    assert!(checked["checks"].as_array().unwrap().iter().any(|c| c["name"] == "digest" && c["ok"] == false));
    (directory, server, facts)
}

/// Another job on the same rows is another look, with the bounds of today.
fn assert_looked_at_again(client: &Client, dataset: &Value) {
    let done = client.finish(&client.submit(json!({"dataset_id": dataset})));
    assert_eq!(done["status"], "succeeded", "{done}");
    let ledger = client.get(&format!("/v1/datasets/{}/ledger", dataset.as_str().unwrap())).expect(200);
    assert_eq!(ledger["looks"], 2, "{ledger}");
}

#[test]
fn certificates_of_release_0_3_keep_their_gates() {
    let (_directory, server, facts) = assert_gates_stay_open("v6", 3, "release 0.3");
    assert_looked_at_again(&server.client(), &facts["dataset"]);
}

#[test]
fn certificates_of_release_0_5_keep_their_gates() {
    let (_directory, server, facts) = assert_gates_stay_open("release_0_5", 4, "release 0.4");
    let client = server.client();
    // A standing gate of a dataset without named outcomes asks for no objective.
    let standing = format!("/v1/gates/{}", facts["gate"].as_str().unwrap());
    assert_eq!(client.get(&standing).expect(200)["ok"], true);
    assert_looked_at_again(&client, &facts["dataset"]);
}
