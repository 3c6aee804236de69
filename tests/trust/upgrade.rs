//! Data directories of earlier releases. `tests/trust/v1` was written by the release whose schema had
//! version 1, and is never changed: its database as SQL, its files, and what was answered about them.

use std::path::Path;

use crate::common::Server;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, Row, SqliteConnection};

const V1: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trust/v1");

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
    // A dump names tables before it makes them.
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true).foreign_keys(false);
    SqliteConnection::connect_with(&options).await.unwrap()
}

/// The old data directory, put together in `directory`; returns what was answered about it.
fn old_directory(directory: &Path) -> Value {
    copy(&Path::new(V1).join("blobs"), &directory.join("blobs"));
    let sql = std::fs::read_to_string(Path::new(V1).join("database.sql")).unwrap();
    run(async {
        let mut db = database(directory).await;
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
        let row = sqlx::query("SELECT MAX(version) FROM schema_version").fetch_one(&mut db).await.unwrap();
        assert_eq!(row.get::<i64, _>(0), 1);
        db.close().await.unwrap();
    });
    serde_json::from_str(&std::fs::read_to_string(Path::new(V1).join("facts.json")).unwrap()).unwrap()
}

fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

#[test]
fn a_directory_of_schema_version_1_is_found_whole() {
    let directory = tempfile::tempdir().unwrap();
    let facts = old_directory(directory.path());
    let text = |name: &str| facts[name].as_str().unwrap().to_owned();
    let server = Server::start_on(directory.path(), &[]);
    assert_eq!(server.client().get("/v1/datasets").status, 401, "the old keys still close the server");
    let client = server.client().with_key(&text("key"));

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
    let certificate = client.get(&format!("/v1/jobs/{}/certificate", text("deployed"))).expect(200);
    assert_eq!(certificate["digest"], facts["digest"]);
    assert_eq!(client.get(&format!("/v1/jobs/{}/gate", text("deployed"))).status, 200);
    client.get(&format!("/v1/jobs/{}/gate", text("kept"))).problem(403, "decision_keep");
    assert_eq!(client.get("/v1/jobs").expect(200)["data"].as_array().unwrap().len(), 2);
    assert_eq!(client.get("/v1/policies").expect(200)["data"].as_array().unwrap().len(), 2);

    // And it is not only there but good: rows can be added, and a job reads them with their digest.
    let row = b"{\"x\":[0.1,0.7],\"action\":1,\"propensities\":[0.25,0.5,0.25],\"reward\":1}\n";
    let kind = [("content-type", "application/x-ndjson")];
    let path = format!("/v1/datasets/{}/rows", text("dataset"));
    assert_eq!(client.send("POST", &path, &kind, Some(row)).expect(201)["rows"], 401);
    let done = client.finish(&client.submit(json!({"dataset_id": text("dataset")})));
    assert_eq!(done["status"], "succeeded", "{done}");
}

#[test]
fn a_directory_of_a_newer_release_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    old_directory(directory.path());
    run(async {
        let mut db = database(directory.path()).await;
        sqlx::query("INSERT INTO schema_version (version) VALUES (99)").execute(&mut db).await.unwrap();
        db.close().await.unwrap();
    });
    let said = Server::refused_on(directory.path());
    assert!(said.contains("schema version 99") && said.contains("newer release"), "{said}");
}
