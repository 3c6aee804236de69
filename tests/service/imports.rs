//! Logs by reference: files of the server's machine, which it reads where they lie.

use serde_json::{Value, json};

use crate::common::{Client, Server, eventually, files, id_of, log_of};

/// A folder with two files of a log and one that is none, and a server that may read it.
struct Site {
    folder: tempfile::TempDir,
    server: Server,
}

impl Site {
    fn new() -> Site {
        Site::with(&[])
    }

    fn with(more: &[(&str, &str)]) -> Site {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("day-1.ndjson"), log_of(1, 1000)).unwrap();
        std::fs::write(folder.path().join("day-2.ndjson"), log_of(2, 1000)).unwrap();
        std::fs::write(folder.path().join("notes.txt"), "not a log").unwrap();
        let place = format!("file://{}", folder.path().display());
        let mut settings = vec![("GUARANTOR_SOURCES_ALLOW", place.as_str())];
        settings.extend(more);
        let server = Server::start_with(&settings);
        Site { folder, server }
    }

    fn uri(&self, name: &str) -> String {
        format!("file://{}/{name}", self.folder.path().display())
    }

    fn body(&self, name: &str) -> Value {
        json!({"source": {"uris": [self.uri(name)]}, "outcome": "reward", "name": "by reference"})
    }

    fn pinned(&self, name: &str) -> Value {
        json!({"source": {"uris": [self.uri(name)], "materialize": false}, "outcome": "reward"})
    }
}

/// Waits for the end of an import.
fn end_of(client: &Client, import: &Value) -> Value {
    let path = format!("/v1/imports/{}", id_of(import));
    loop {
        let import = client.get(&format!("{path}?wait=10")).expect(200);
        if !matches!(import["status"].as_str(), Some("queued" | "running")) {
            return import;
        }
    }
}

fn import(client: &Client, body: &Value) -> Value {
    end_of(client, &client.post("/v1/datasets", body).expect(202))
}

/// The digest of the certificate of a job with default settings.
fn certified(client: &Client, dataset: &str) -> Value {
    let job = client.submit(json!({"dataset_id": dataset, "seed": 7}));
    let ended = client.finish(&job);
    assert_eq!(ended["status"], "succeeded", "{ended}");
    client.get(&format!("/v1/jobs/{job}/certificate")).expect(200)["dataset"]["digest"].clone()
}

#[test]
fn a_log_by_reference_is_the_log_that_would_have_been_uploaded() {
    let site = Site::new();
    let client = site.server.client();
    let answer = client.post("/v1/datasets", &site.body("day-*.ndjson"));
    let location = answer.header("location").unwrap().to_owned();
    let queued = answer.expect(202);
    assert_eq!(location, format!("/v1/imports/{}", id_of(&queued)));
    let ended = end_of(&client, &queued);
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let sizes = ["day-1.ndjson", "day-2.ndjson"]
        .map(|name| std::fs::metadata(site.folder.path().join(name)).unwrap().len());
    let dataset = client.get(&format!("/v1/datasets/{}", id_of(&ended))).expect(200);
    let rows = log_of(1, 1000) + &log_of(2, 1000);
    // The ledger is that of the rows, whatever way they came.
    let uploaded = client.upload("?outcome=reward", &rows).expect(201);
    for member in ["digest", "rows", "contexts", "n_actions", "outcome", "capabilities", "health"] {
        assert_eq!(dataset[member], uploaded[member], "{member}");
    }
    assert_eq!(uploaded["ledger"]["shared_with"], json!([id_of(&dataset)]));
    assert_eq!((&dataset["pinned"], &dataset["name"]), (&json!(false), &json!("by reference")));
    let objects = client.get(&format!("{location}/objects")).expect(200)["data"].clone();
    let listed: Vec<(&str, u64)> = objects
        .as_array()
        .unwrap()
        .iter()
        .map(|o| (o["uri"].as_str().unwrap(), o["bytes"].as_u64().unwrap()))
        .collect();
    let (one, two) = (site.uri("day-1.ndjson"), site.uri("day-2.ndjson"));
    assert_eq!(listed, [(one.as_str(), sizes[0]), (two.as_str(), sizes[1])]);
    use sha2::Digest;
    assert_eq!(objects[0]["sha256"], hex::encode(sha2::Sha256::digest(log_of(1, 1000))));
    assert_eq!(certified(&client, &id_of(&dataset)), uploaded["digest"]);
    // Rows can be added to what was copied.
    let kind = [("content-type", "application/x-ndjson")];
    let path = format!("/v1/datasets/{}/rows", id_of(&dataset));
    client.send("POST", &path, &kind, Some(log_of(3, 10).as_bytes())).expect(201);
    // The import goes with its dataset.
    client.delete(&format!("/v1/datasets/{}", id_of(&dataset))).expect(204);
    client.get(&location).problem(404, "not_found");
}

#[test]
fn pinned_objects_are_read_by_every_job_and_must_not_change() {
    let site = Site::new();
    let client = site.server.client();
    let ended = import(&client, &site.pinned("day-*.ndjson"));
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let dataset = client.get(&format!("/v1/datasets/{}", id_of(&ended))).expect(200);
    assert_eq!(dataset["pinned"], true);
    let id = id_of(&dataset);
    // Only the list of the objects is stored.
    let stored: u64 = files(&site.server.data.path().join("blobs")).iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(dataset["bytes"], stored);
    assert!(stored < 3000, "{stored}");
    assert_eq!(certified(&client, &id), dataset["digest"]);
    let left = || files(&site.server.data.path().join("pinned"));
    eventually(left, &Vec::new());
    // A certificate can be recomputed from the objects.
    let job = client.submit(json!({"dataset_id": id, "seed": 8}));
    assert_eq!(client.finish(&job)["status"], "succeeded");
    let document = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    assert_eq!(client.post("/v1/certificates/verify", &document).expect(200)["valid"], true);
    // Nothing can be added.
    let kind = [("content-type", "application/x-ndjson")];
    for (what, rows) in [("rows", log_of(3, 10)), ("candidates", "{\"candidates\":{\"new\":0.5}}\n".into())] {
        let path = format!("/v1/datasets/{id}/{what}");
        client.send("POST", &path, &kind, Some(rows.as_bytes())).problem(422, "not_for_this_kind");
    }
    // The same length and another content.
    let day = site.folder.path().join("day-2.ndjson");
    let changed = log_of(2, 1000).replacen("\"reward\":1", "\"reward\":0", 1);
    std::fs::write(&day, changed).unwrap();
    let job = client.submit(json!({"dataset_id": id, "seed": 9}));
    let failed = client.finish(&job);
    assert_eq!(
        (&failed["status"], &failed["error"]["code"]),
        (&json!("failed"), &json!("source_changed")),
        "{failed}"
    );
    assert!(failed["error"]["message"].as_str().unwrap().contains("day-2.ndjson"), "{failed}");
    let verdict = client.post("/v1/certificates/verify", &document).expect(200);
    assert_eq!(verdict["valid"], false, "{verdict}");
    assert!(
        verdict["checks"][0]["detail"].as_str().unwrap().contains("day-2.ndjson was changed"),
        "{verdict}"
    );
    std::fs::remove_file(&day).unwrap();
    let failed = client.finish(&client.submit(json!({"dataset_id": id, "seed": 10})));
    assert_eq!(failed["error"]["code"], "source_changed", "{failed}");
    eventually(left, &Vec::new());
}

#[test]
fn only_places_that_the_operator_allows_are_read() {
    let site = Site::new();
    let client = site.server.client();
    let secret = site.server.data.path().join("signing-key.json");
    for (uri, code) in [
        (format!("file://{}", secret.display()), "address_not_allowed"),
        ("file:///etc/*".into(), "address_not_allowed"),
        (format!("file://{}-2/day-1.ndjson", site.folder.path().display()), "address_not_allowed"),
        ("s3://logs/day-1.ndjson".into(), "address_not_allowed"),
        (site.uri("../day-1.ndjson"), "invalid_value"),
        ("http://127.0.0.1/day-1.ndjson".into(), "invalid_value"),
        ("day-1.ndjson".into(), "invalid_value"),
    ] {
        let body = json!({"source": {"uris": [site.uri("day-1.ndjson"), uri]}, "format": "ndjson"});
        let answer = client.post("/v1/datasets", &body);
        answer.problem(422, code);
        assert_eq!(answer.json["errors"][0]["field"], "source.uris[1]", "{uri}: {}", answer.text);
    }
    assert_eq!(client.get("/v1/imports").expect(200)["data"], json!([]));
    let off = Server::start();
    off.client().post("/v1/datasets", &site.body("day-1.ndjson")).problem(403, "sources_off");
    // The data of the service itself cannot be allowed.
    let folder = tempfile::tempdir().unwrap();
    for place in
        [folder.path().to_owned(), folder.path().join("blobs"), folder.path().parent().unwrap().to_owned()]
    {
        let place = format!("file://{}", place.display());
        let refused = Server::refused_with(folder.path(), &[("GUARANTOR_SOURCES_ALLOW", &place)]);
        assert!(refused.contains("sources_allow") && refused.contains("data_dir"), "{refused}");
    }
}

#[test]
fn a_place_may_be_that_of_one_workspace() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("day-1.ndjson"), log_of(1, 10)).unwrap();
    let place = format!("a=file://{}", folder.path().display());
    let mut server = Server::start_with(&[("GUARANTOR_SOURCES_ALLOW", &place)]);
    let keys = ["a", "b"].map(|workspace| server.create_key(workspace));
    // A server that starts with keys needs them.
    server.kill();
    server.restart();
    let [a, b] = keys.map(|key| server.client().with_key(&key));
    let uri = format!("file://{}/day-1.ndjson", folder.path().display());
    let body = json!({"source": {"uris": [uri]}, "outcome": "reward"});
    b.post("/v1/datasets", &body).problem(422, "address_not_allowed");
    let ended = import(&a, &body);
    assert_eq!(ended["status"], "succeeded", "{ended}");
    b.get(&format!("/v1/imports/{}", id_of(&ended))).problem(404, "not_found");
}

#[test]
fn a_log_that_is_rejected_says_where_and_leaves_nothing_behind() {
    let site = Site::new();
    let client = site.server.client();
    let write = |name: &str, text: &str| std::fs::write(site.folder.path().join(name), text).unwrap();
    write(
        "bad-2.ndjson",
        "{\"action\":0,\"propensity\":0.5,\"reward\":1}\n{\"action\":0,\"propensity\":2,\"reward\":1}\n",
    );
    write("bad-1.ndjson", "{\"action\":1,\"propensity\":0.5,\"reward\":1}\n");
    write("empty.ndjson", "");
    write("text.parquet", "not a log");
    let ended = import(&client, &site.body("bad-*.ndjson"));
    assert_eq!(
        (&ended["status"], &ended["error"]["code"]),
        (&json!("failed"), &json!("invalid_rows")),
        "{ended}"
    );
    assert_eq!(ended["error"]["uri"], site.uri("bad-2.ndjson"));
    assert_eq!(ended["error"]["errors"][0]["row"], 2, "{ended}");
    assert_eq!(ended["error"]["errors"][0]["field"], "propensity", "{ended}");
    client.get(&format!("/v1/datasets/{}", id_of(&ended))).problem(404, "not_found");
    for (name, code) in [
        ("text.parquet", "invalid_file"),
        ("empty.ndjson", "invalid_file"),
        ("day-3.ndjson", "source_not_found"),
        ("hour-*.ndjson", "source_not_found"),
    ] {
        for body in [site.body(name), site.pinned(name)] {
            let ended = import(&client, &body);
            assert_eq!(ended["error"]["code"], code, "{name}: {ended}");
        }
    }
    let twice = json!({"source": {"uris": [site.uri("day-1.ndjson"), site.uri("day-*.ndjson")]}, "outcome": "reward"});
    let ended = import(&client, &twice);
    assert_eq!(ended["error"]["code"], "invalid_value", "{ended}");
    // The same rows under two names.
    write("again.ndjson", &log_of(1, 1000));
    let twice = json!({"source": {"uris": [site.uri("day-1.ndjson"), site.uri("again.ndjson")]}, "outcome": "reward"});
    let ended = import(&client, &twice);
    assert_eq!(ended["error"]["code"], "repeated_rows", "{ended}");
    let data = site.server.data.path();
    eventually(|| (files(&data.join("blobs")), files(&data.join("pinned"))), &(Vec::new(), Vec::new()));
}

#[test]
fn a_request_that_cannot_work_is_rejected_at_once() {
    let site = Site::with(&[("GUARANTOR_MAX_ACTIONS", "50")]);
    let client = site.server.client();
    let day = site.uri("day-1.ndjson");
    let with = |more: Value| {
        let mut body = json!({"source": {"uris": [day]}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (body, code, field) in [
        (with(json!({"n_actions": 51})), "invalid_value", "n_actions"),
        (with(json!({"outcome": "gain"})), "invalid_value", "outcome"),
        (with(json!({"outcome_min": 1, "outcome_max": 0})), "invalid_value", "outcome_min"),
        (with(json!({"logging_policy_id": "none"})), "unknown_policy", "logging_policy_id"),
        (with(json!({"surprise": 1})), "unknown_field", "surprise"),
        (json!({"source": {"uris": []}}), "invalid_value", "source.uris"),
        (json!({"source": {"uris": [site.uri("notes.txt")]}}), "invalid_value", "source.uris[0]"),
        (json!({"source": {"uris": [day, site.uri("x.parquet")]}}), "invalid_value", "source.uris[1]"),
    ] {
        let answer = client.post("/v1/datasets", &body);
        assert_eq!(
            (answer.status, answer.json["code"].as_str()),
            (422, Some(code)),
            "{body}: {}",
            answer.text
        );
        assert_eq!(answer.json["errors"][0]["field"], field, "{body}: {}", answer.text);
    }
    for source in [json!(1), json!({"uri": "x"}), json!({"uris": ["x"], "copy": true}), json!({"uris": [1]})]
    {
        let answer = client.post("/v1/datasets", &json!({"source": source}));
        assert_eq!(answer.status, 422, "{source}: {}", answer.text);
        let field = answer.json["errors"][0]["field"].as_str().unwrap();
        assert!(field.starts_with("source"), "{}", answer.text);
    }
    // Rows may be sent as JSON too, if their format is named.
    let kind = [("content-type", "application/json")];
    let row = "{\"action\":1,\"propensity\":0.5,\"cost\":0}";
    let rows = format!("{row}\n{row}\n");
    for body in [row, &rows] {
        let send = |path: &str| client.send("POST", path, &kind, Some(body.as_bytes()));
        assert!(send("/v1/datasets?format=ndjson").expect(201)["rows"].as_u64().unwrap() > 0);
        send("/v1/datasets").problem(415, "unsupported_media_type");
    }
    let broken = client.send("POST", "/v1/datasets", &kind, Some(b"{\"source\": {"));
    broken.problem(400, "malformed_json");
    let encoded = [kind[0], ("content-digest", "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:")];
    let body = site.body("day-1.ndjson").to_string();
    client.send("POST", "/v1/datasets", &encoded, Some(body.as_bytes())).problem(400, "digest_mismatch");
    assert_eq!(client.get("/v1/imports").expect(200)["data"], json!([]));
}

#[test]
fn the_first_of_several_outcomes_is_the_primary_one() {
    let site = Site::new();
    let client = site.server.client();
    let row = "{\"action\":1,\"propensity\":0.5,\"outcomes\":{\"revenue\":0.5,\"complaint\":0}}\n";
    std::fs::write(site.folder.path().join("shop.ndjson"), row).unwrap();
    // As text, because a map of this test would sort the names.
    let body = format!(
        "{{\"outcomes\": {{\"revenue\": {{\"kind\": \"reward\"}}, \"complaint\": {{\"kind\": \"cost\"}}}}, \
         \"source\": {{\"uris\": [\"{}\"]}}}}",
        site.uri("shop.ndjson")
    );
    let kind = [("content-type", "application/json")];
    let queued = client.send("POST", "/v1/datasets", &kind, Some(body.as_bytes())).expect(202);
    let ended = end_of(&client, &queued);
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let dataset = client.get(&format!("/v1/datasets/{}", id_of(&ended))).expect(200);
    assert_eq!(dataset["outcomes"][0]["name"], "revenue", "{dataset}");
    assert_eq!(dataset["outcome"]["kind"], "reward", "{dataset}");
}

#[test]
fn only_regular_files_below_allowed_folders_are_read() {
    use std::os::unix::fs::symlink;
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("secret.ndjson"), log_of(9, 10)).unwrap();
    let site = Site::new();
    let (client, folder) = (site.server.client(), site.folder.path());
    symlink(elsewhere.path(), folder.join("link")).unwrap();
    symlink(elsewhere.path().join("secret.ndjson"), folder.join("direct.ndjson")).unwrap();
    symlink(folder.join("day-1.ndjson"), folder.join("inside.ndjson")).unwrap();
    symlink(site.server.data.path(), folder.join("data")).unwrap();
    symlink(".", folder.join("loop")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(folder.join("pipe.ndjson")).status().unwrap().success());
    std::fs::create_dir(folder.join("folder.ndjson")).unwrap();
    symlink(folder.join("nothing"), folder.join("lost.ndjson")).unwrap();
    for name in ["direct.ndjson", "direc?.ndjson", "lost.ndjson", "pipe.ndjson", "folder.ndjson"] {
        let mut body = site.body(name);
        body["format"] = json!("ndjson");
        let ended = import(&client, &body);
        assert_eq!(ended["error"]["code"], "invalid_value", "{name}: {ended}");
        assert!(ended["error"]["message"].as_str().unwrap().starts_with("\"file://"), "{ended}");
    }
    // What is outside is not shown, whether it exists or not.
    for name in
        ["link/secret.ndjson", "link/none.ndjson", "link/*.ndjson", "link/s*", "data/signing-key.json"]
    {
        let mut body = site.body(name);
        body["format"] = json!("ndjson");
        let ended = import(&client, &body);
        assert_eq!(ended["error"]["code"], "source_not_found", "{name}: {ended}");
        let message = ended["error"]["message"].as_str().unwrap();
        assert_eq!(message, format!("{} does not exist, or nothing matches it", site.uri(name)), "{ended}");
    }
    // A link within the folder is a file of the folder, and a wildcard leaves out what is no file.
    assert_eq!(import(&client, &site.body("inside.ndjson"))["status"], "succeeded");
    let ended = import(&client, &site.body("?i?e.ndjson"));
    assert_eq!(ended["error"]["code"], "source_not_found", "{ended}");
}

/// A log without some of its files is another log.
#[test]
fn a_pattern_leaves_out_no_file_in_silence() {
    use std::os::unix::ffi::OsStrExt;
    let site = Site::new();
    let (client, folder) = (site.server.client(), site.folder.path());
    assert_eq!(import(&client, &site.body("day-*.ndjson"))["progress"]["objects"], 2);
    let lost = folder.join("day-3.ndjson");
    std::os::unix::fs::symlink(folder.join("unmounted/day-3.ndjson"), &lost).unwrap();
    let ended = import(&client, &site.body("day-*.ndjson"));
    assert_eq!(ended["status"], "failed", "{ended}");
    assert!(ended["error"]["message"].as_str().unwrap().contains("day-3.ndjson"), "{ended}");
    std::fs::remove_file(&lost).unwrap();
    let odd = folder.join(std::ffi::OsStr::from_bytes(b"day-\xff.ndjson"));
    std::fs::write(&odd, log_of(3, 10)).unwrap();
    let ended = import(&client, &site.body("day-*.ndjson"));
    assert!(ended["error"]["message"].as_str().unwrap().contains("not UTF-8"), "{ended}");
    std::fs::remove_file(&odd).unwrap();
    // Its address could not be written down to read it again.
    let odd = folder.join("day-\n.ndjson");
    std::fs::write(&odd, log_of(3, 10)).unwrap();
    let ended = import(&client, &site.pinned("day-*.ndjson"));
    assert!(ended["error"]["message"].as_str().unwrap().contains("control character"), "{ended}");
    std::fs::remove_file(&odd).unwrap();
    assert_eq!(import(&client, &site.body("day-*.ndjson"))["status"], "succeeded");
}

#[test]
fn keys_of_the_service_cannot_be_listed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("boot.key");
    std::fs::write(&file, "").unwrap();
    let allow = format!("file://{}", folder.path().display());
    let settings = [
        ("GUARANTOR_SOURCES_ALLOW", allow.as_str()),
        ("GUARANTOR_BOOTSTRAP_KEY_FILE", file.to_str().unwrap()),
    ];
    let refused = Server::refused_with(tempfile::tempdir().unwrap().path(), &settings);
    assert!(refused.contains("which contains bootstrap_key_file"), "{refused}");
}

#[test]
fn an_empty_object_is_pinned_as_an_empty_one() {
    let site = Site::new();
    let client = site.server.client();
    let empty = site.folder.path().join("day-3.ndjson");
    std::fs::write(&empty, "").unwrap();
    let ended = import(&client, &site.pinned("day-*.ndjson"));
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_eq!(ended["progress"]["objects"], 3, "{ended}");
    assert_eq!(ended["progress"]["bytes"], ended["progress"]["bytes_read"], "{ended}");
    let job = |seed: u64| client.finish(&client.submit(json!({"dataset_id": id_of(&ended), "seed": seed})));
    assert_eq!(job(1)["status"], "succeeded");
    // The same bytes written again are the same log.
    std::fs::write(site.folder.path().join("day-1.ndjson"), log_of(1, 1000)).unwrap();
    assert_eq!(job(2)["status"], "succeeded");
    std::fs::write(&empty, log_of(3, 1)).unwrap();
    assert_eq!(job(3)["error"]["code"], "source_changed");
}

#[test]
fn a_repeated_request_gets_the_same_import() {
    let site = Site::new();
    let client = site.server.client();
    let headers = [("content-type", "application/json"), ("idempotency-key", "one")];
    let body = site.body("day-1.ndjson").to_string();
    let send = |body: &str| client.send("POST", "/v1/datasets", &headers, Some(body.as_bytes()));
    let first = send(&body).expect(202);
    let again = send(&body);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(id_of(&again.expect(202)), id_of(&first));
    send(&site.body("day-2.ndjson").to_string()).problem(422, "idempotency_mismatch");
    end_of(&client, &first);
    assert_eq!(client.get("/v1/imports").expect(200)["data"].as_array().unwrap().len(), 1);
}

#[test]
fn an_import_continues_after_a_crash() {
    let mut site = Site::new();
    std::fs::write(site.folder.path().join("long.ndjson"), log_of(5, 100_000)).unwrap();
    let queued = site.server.client().post("/v1/datasets", &site.body("long.ndjson")).expect(202);
    site.server.kill();
    site.server.restart();
    let client = site.server.client();
    let ended = end_of(&client, &queued);
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let dataset = client.get(&format!("/v1/datasets/{}", id_of(&ended))).expect(200);
    assert_eq!(dataset["rows"], 100_000);
    // What the first process wrote is gone.
    let stored: u64 = files(&site.server.data.path().join("blobs")).iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(dataset["bytes"], stored);
}
