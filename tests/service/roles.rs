//! Roles of API keys, and who submitted a job.

use crate::common;

use std::process::Command;

use common::{Answer, BINARY, Client, Server, id_of, two_rows};
use serde_json::{Value, json};

const ROLES: [&str; 4] = ["gate", "read", "submit", "admin"];

/// The lowest role that may send a request, as docs/operations.md says.
fn needed(method: &str, path: &str) -> &'static str {
    let gate = ["/v1/jobs/{id}/gate", "/v1/gates/{name}"].contains(&path);
    match method {
        _ if path.starts_with("/v1/webhooks") => "admin",
        "GET" if gate => "gate",
        "GET" => "read",
        _ if ["/v1/certificates/verify", "/v1/plans"].contains(&path) => "read",
        _ if path.starts_with("/v1/gates") => "admin",
        _ => "submit",
    }
}

fn rank(role: &str) -> usize {
    ROLES.iter().position(|known| *known == role).unwrap()
}

/// A server that requires keys, and a client with a key of each role.
fn server_with_roles(environment: &[(&str, &str)]) -> (Server, [Client; 4]) {
    let mut server = Server::start_with(environment);
    let keys = ROLES.map(|role| server.create_key_with_role("team", role));
    server.kill();
    server.restart();
    let clients = keys.map(|key| server.client().with_key(&key));
    (server, clients)
}

#[track_caller]
fn assert_forbidden(answer: &Answer, role: &str, needed: &str) {
    answer.problem(403, "role_not_sufficient");
    let detail = answer.json["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("`{role}`")) && detail.contains(&format!("`{needed}`")), "{detail}");
    assert_eq!((&answer.json["role"], &answer.json["needed_role"]), (&json!(role), &json!(needed)));
}

#[test]
fn every_operation_needs_its_role_and_no_other() {
    let (_server, clients) = server_with_roles(&[]);
    let document = clients[0].get("/openapi.json").expect(200);
    let mut asked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        // A token in the path takes the place of a key.
        if !path.starts_with("/v1/") || path.starts_with("/v1/gate/") {
            continue;
        }
        let filled = path.replace("{id}", "01890a5d-ac96-774b-bcce-b302099a8057").replace("{name}", "nobody");
        let filled = filled.replace("{delivery_id}", "01890a5d-ac96-774b-bcce-b302099a8057");
        for method in item.as_object().unwrap().keys() {
            let (method, body) = (method.to_uppercase(), method != "get");
            let needed = needed(&method, path);
            for (role, client) in ROLES.iter().zip(&clients) {
                let kind = [("content-type", "application/json")];
                let answer = client.send(&method, &filled, &kind, body.then_some(b"{}"));
                if rank(role) < rank(needed) {
                    assert_forbidden(&answer, role, needed);
                } else {
                    let code = answer.json["code"].as_str().unwrap_or("");
                    let stopped = ["role_not_sufficient", "unauthorized"].contains(&code);
                    assert!(!stopped, "{role}: {method} {path}: {}", answer.text);
                }
                asked += 1;
            }
        }
    }
    assert!(asked >= 4 * 20, "{asked}");
    // HEAD reads, and a path without a route reveals nothing about roles.
    assert_eq!(clients[0].send("HEAD", "/v1/jobs", &[], None).status, 403);
    assert_eq!(clients[1].send("HEAD", "/v1/jobs", &[], None).status, 200);
    clients[0].get("/v1/nothing").problem(404, "no_such_route");
}

#[test]
fn each_role_does_its_work_and_leaves_nothing_where_it_may_not() {
    let (_server, [gate, read, submit, admin]) = server_with_roles(&[]);
    let kind = [("content-type", "application/x-ndjson")];
    for (role, client) in [("gate", &gate), ("read", &read)] {
        assert_forbidden(&client.upload("", two_rows()), role, "submit");
        let policy = json!({"kind": "uniform", "n_actions": 3, "dim": 2});
        assert_forbidden(&client.post("/v1/policies", &policy), role, "submit");
    }
    for path in ["/v1/datasets", "/v1/policies", "/v1/jobs"] {
        assert_eq!(admin.get(path).expect(200)["data"], json!([]), "{path}");
    }
    let dataset = submit.dataset(500);
    let job = submit.submit(json!({"dataset_id": dataset}));
    assert_eq!(submit.finish(&job)["status"], "succeeded");
    let (job_path, gate_path) = (format!("/v1/jobs/{job}"), format!("/v1/jobs/{job}/gate"));
    let asked = gate.get(&gate_path);
    assert_eq!(asked.status, submit.get(&gate_path).status);
    assert!(asked.json["decision"].is_string(), "{}", asked.text);
    assert_forbidden(&gate.get(&job_path), "gate", "read");
    assert_eq!(read.get(&job_path).expect(200)["status"], "succeeded");
    let certificate = read.get(&format!("{job_path}/certificate")).expect(200);
    assert_eq!(read.post("/v1/certificates/verify", &certificate).expect(200)["valid"], true);
    assert_forbidden(&read.delete(&format!("/v1/datasets/{dataset}")), "read", "submit");
    let rows = format!("/v1/datasets/{dataset}/rows");
    assert_forbidden(&read.send("POST", &rows, &kind, Some(two_rows().as_bytes())), "read", "submit");
    assert_eq!(read.get(&format!("/v1/datasets/{dataset}")).expect(200)["version"], 1);
    assert_eq!(submit.delete(&format!("/v1/datasets/{dataset}")).status, 204);
}

#[test]
fn metrics_that_need_a_key_need_one_that_reads() {
    let (server, [gate, read, ..]) = server_with_roles(&[("GUARANTOR_METRICS_NEED_KEY", "true")]);
    server.client().get("/metrics").problem(401, "unauthorized");
    assert_forbidden(&gate.get("/metrics"), "gate", "read");
    assert_eq!(read.get("/metrics").status, 200);
}

#[test]
fn keys_are_created_and_listed_with_their_role() {
    let directory = tempfile::tempdir().unwrap();
    let keys = |args: &[&str]| {
        let mut command = Command::new(BINARY);
        command.arg("keys").args(args).arg("--data-dir").arg(directory.path()).output().unwrap()
    };
    assert!(keys(&["create", "--name", "usual"]).status.success());
    for role in ROLES {
        let created = keys(&["create", "--role", role, "--name", role]);
        let said = String::from_utf8(created.stderr).unwrap();
        assert!(created.status.success() && said.contains(&format!("the role {role}")), "{said}");
    }
    let refused = keys(&["create", "--role", "root"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("gate, read, submit or admin"), "{said}");
    let secret = directory.path().join("api-key");
    std::fs::write(&secret, Command::new(BINARY).args(["keys", "new"]).output().unwrap().stdout).unwrap();
    set_private(&secret);
    let server =
        Server::start_on(directory.path(), &[("GUARANTOR_BOOTSTRAP_KEY_FILE", secret.to_str().unwrap())]);
    let listed = String::from_utf8(keys(&["list"]).stdout).unwrap();
    let role_of = |name: &str| {
        let line = listed.lines().find(|line| line.split_whitespace().last() == Some(name)).unwrap();
        line.split_whitespace().nth(3).unwrap().to_owned()
    };
    for role in ROLES {
        assert_eq!(role_of(role), role, "{listed}");
    }
    assert_eq!((role_of("usual").as_str(), role_of("bootstrap").as_str()), ("submit", "admin"), "{listed}");
    drop(server);
}

fn set_private(file: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// The log lines with this message, as JSON.
fn lines(log: &std::path::Path, message: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    let all = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|line| line["fields"]["message"] == message || line["message"] == message).collect()
}

#[test]
fn the_job_its_certificate_and_the_log_say_who_submitted() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let settings = [("GUARANTOR_LOG_FILTER", "info"), ("GUARANTOR_LOG_FORMAT", "json")];
    let mut server = Server::start_logging(&settings, log.path());
    let open = server.client();
    let anonymous = open.submit(json!({"dataset_id": open.dataset(200)}));
    let done = open.finish(&anonymous);
    assert_eq!(done["submitted_by"], "anonymous", "{done}");

    let key = server.create_key_with_role("team", "submit");
    let id = server.keys(&["list"]).lines().last().unwrap().split_whitespace().next().unwrap().to_owned();
    server.kill();
    server.restart();
    let client = server.client().with_key(&key);
    let dataset = client.dataset(200);
    let queued = client.post("/v1/jobs", &json!({"dataset_id": dataset})).expect(202);
    let by = json!(format!("test (key {id})"));
    assert_eq!(queued["submitted_by"], by);
    let job = id_of(&queued);
    assert_eq!(client.finish(&job)["submitted_by"], by);
    assert_eq!(client.get("/v1/jobs").expect(200)["data"][0]["submitted_by"], by);
    let certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    assert_eq!(certificate["issued"]["submitted_by"], by);
    for (job, by) in [(&job, &by), (&anonymous, &json!("anonymous"))] {
        for message in ["job queued", "job ended"] {
            let found = lines(log.path(), message);
            let line = found.iter().find(|line| line.to_string().contains(job.as_str()));
            let line = line.unwrap_or_else(|| panic!("no line {message} for {job}"));
            assert!(line.to_string().contains(by.as_str().unwrap()), "{line}");
        }
    }
    assert!(!std::fs::read_to_string(log.path()).unwrap().contains(&key));

    // It is signed, but it is no part of the digest.
    let verify = |document: &Value| client.post("/v1/certificates/verify", document).expect(200);
    let checked = verify(&certificate);
    assert_eq!((&checked["valid"], &checked["signature"]), (&json!(true), &json!("valid")), "{checked}");
    let mut forged = certificate.clone();
    forged["issued"]["submitted_by"] = json!("somebody else");
    let checked = verify(&forged);
    let failed: Vec<&str> = checked["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["ok"] == false)
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    assert!(failed.contains(&"signature") && failed.contains(&"issued"), "{checked}");
    assert!(!failed.contains(&"digest"), "{checked}");
}
