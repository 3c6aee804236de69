//! Access control and leaks: workspaces, ids, keys, logs, pages. The tests go through
//! the operations of the served OpenAPI document, so that a new route is tested or fails the test.

use crate::common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use common::receiver::Receiver;
use common::{BINARY, Client, Server, id_of, log_of, two_rows};
use serde_json::{Value, json};

/// The method and path of every operation, and the content types that it accepts.
fn operations(client: &Client) -> Vec<(String, String, Vec<String>)> {
    let document = client.get("/openapi.json").expect(200);
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let content = operation["requestBody"]["content"].as_object();
            let kinds = content.map_or(vec![], |kinds| kinds.keys().cloned().collect());
            all.push((method.to_uppercase(), path.clone(), kinds));
        }
    }
    assert!(all.len() >= 24, "{all:?}");
    all
}

/// A server that may deliver to this receiver, and read logs in this folder.
fn server_for(receiver: &Receiver, logs: &std::path::Path) -> Server {
    Server::start_with(&[
        ("GUARANTOR_WEBHOOK_ALLOW", &format!("http://{}/", receiver.address)),
        ("GUARANTOR_SOURCES_ALLOW", &format!("file://{}", logs.display())),
    ])
}

/// A dataset, an import, a policy, a finished job, a gate with a token, and a webhook with a delivery of one workspace.
struct Owned {
    dataset: String,
    import: String,
    policy: String,
    job: String,
    token_id: String,
    webhook: String,
    delivery: String,
}

impl Owned {
    fn create(client: &Client, receiver: &Receiver, logs: &std::path::Path) -> Owned {
        let dataset = client.dataset(500);
        std::fs::write(logs.join("log.ndjson"), two_rows()).unwrap();
        let source = json!({"uris": [format!("file://{}/log.ndjson", logs.display())]});
        let import = id_of(&client.post("/v1/datasets", &json!({"source": source})).expect(202));
        let ended = client.get(&format!("/v1/imports/{import}?wait=60")).expect(200);
        assert_eq!(ended["status"], "succeeded", "{ended}");
        let policy =
            client.post("/v1/policies", &json!({"kind": "uniform", "n_actions": 3, "dim": 2})).expect(201);
        let job = client.submit(json!({"dataset_id": dataset}));
        assert_eq!(client.finish(&job)["status"], "succeeded");
        client.post("/v1/gates", &json!({"name": "gate", "dataset_id": dataset})).expect(201);
        let token_id = id_of(&client.post("/v1/gates/gate/tokens", &json!({})).expect(201));
        let webhook = id_of(&client.post("/v1/webhooks", &json!({"url": receiver.url()})).expect(201));
        let sent = client.send("POST", &format!("/v1/webhooks/{webhook}/test"), &[], None).expect(202);
        Owned { dataset, import, policy: id_of(&policy), job, token_id, webhook, delivery: id_of(&sent) }
    }

    /// The path with the id of its resource.
    fn fill(&self, path: &str) -> String {
        let id = match path.split('/').nth(2).unwrap() {
            "datasets" => &self.dataset,
            "imports" => &self.import,
            "policies" => &self.policy,
            "jobs" => &self.job,
            "gates" => &self.token_id,
            "webhooks" => &self.webhook,
            other => panic!("{path}: add {other} to this test"),
        };
        let path = path.replacen("{id}", id, 1).replacen("{name}", "gate", 1);
        let path = path.replacen("{delivery_id}", &self.delivery, 1);
        assert!(!path.contains('{'), "{path}: this test fills in one id and one name only");
        path
    }
}

/// Sends a body that the operation accepts.
fn send(client: &Client, method: &str, path: &str, kinds: &[String], json_body: &Value) -> common::Answer {
    let reads = |kind: &str| kinds.iter().any(|k| k == kind);
    let text = json_body.to_string();
    match () {
        () if reads("application/json") => {
            client.send(method, path, &[("content-type", "application/json")], Some(text.as_bytes()))
        }
        () if reads("application/x-ndjson") => {
            let rows = log_of(7, 3);
            client.send(method, path, &[("content-type", "application/x-ndjson")], Some(rows.as_bytes()))
        }
        () => client.send(method, path, &[], (method == "POST").then_some(&[][..])),
    }
}

#[test]
fn no_route_shows_another_workspace() {
    let receiver = Receiver::start();
    let logs = tempfile::tempdir().unwrap();
    let mut server = server_for(&receiver, logs.path());
    let (a, b) = (server.create_key("team-a"), server.create_key("team-b"));
    server.kill();
    server.restart();
    let (a, b) = (server.client().with_key(&a), server.client().with_key(&b));
    let owned = Owned::create(&a, &receiver, logs.path());
    let certificate = a.get(&format!("/v1/jobs/{}/certificate", owned.job)).expect(200);
    let contexts = json!({"contexts": [[0.0, 1.0]]});
    let mut deletes = Vec::new();
    for (method, path, kinds) in operations(&a) {
        let line = format!("{method} {path}");
        if path.contains("{id}") || path.contains("{name}") {
            let filled = owned.fill(&path);
            let contexts = match line.as_str() {
                "PUT /v1/gates/{name}" => &json!({"selector": {"app": "x"}}),
                "POST /v1/gates/{name}/tokens" | "POST /v1/webhooks/{id}/secret" => &json!({}),
                "PUT /v1/webhooks/{id}" => &json!({"url": receiver.url()}),
                _ => &contexts,
            };
            let foreign = send(&b, &method, &filled, &kinds, contexts);
            assert_eq!((foreign.status, foreign.json["code"].as_str()), (404, Some("not_found")), "{line}");
            // The same request works for the owner, otherwise this would prove nothing.
            match method.as_str() {
                "DELETE" => deletes.push(filled),
                _ => assert_ne!(send(&a, &method, &filled, &kinds, contexts).status, 404, "{line}"),
            }
            continue;
        }
        let (status, code) = match line.as_str() {
            "GET /v1/datasets" | "GET /v1/imports" | "GET /v1/jobs" | "GET /v1/policies"
            | "GET /v1/gates" | "GET /v1/webhooks" => {
                assert_eq!(b.get(&path).expect(200)["data"], json!([]), "{line}");
                assert_ne!(a.get(&path).expect(200)["data"], json!([]), "{line}");
                let filter = format!("{path}?dataset_id={}", owned.dataset);
                if path == "/v1/jobs" {
                    assert_eq!(b.get(&filter).expect(200)["data"], json!([]), "{line}");
                }
                continue;
            }
            "POST /v1/jobs" | "POST /v1/gates" | "POST /v1/webhooks" => (422, "unknown_dataset"),
            "POST /v1/datasets" => (422, "unknown_policy"),
            "POST /v1/certificates/verify" => (422, "unknown_job"),
            // These name no resource.
            "POST /v1/policies" | "POST /v1/partials" | "POST /v1/plans" | "GET /v1/certificates/key" => {
                continue;
            }
            // A token names its gate, and no workspace is asked; tests/service/gates tests it.
            "GET /v1/gate/{token}" | "POST /v1/gate/{token}" => continue,
            _ if !path.starts_with("/v1/") => continue,
            _ => panic!("{line} is new: add here what another workspace must get"),
        };
        let answer = match line.as_str() {
            "POST /v1/jobs" => b.post(&path, &json!({"dataset_id": owned.dataset})),
            "POST /v1/gates" => b.post(&path, &json!({"name": "gate", "dataset_id": owned.dataset})),
            "POST /v1/webhooks" => {
                b.post(&path, &json!({"url": receiver.url(), "dataset_id": owned.dataset}))
            }
            "POST /v1/datasets" => b.upload(&format!("?logging_policy_id={}", owned.policy), two_rows()),
            _ => b.post(&path, &certificate),
        };
        assert_eq!(
            (answer.status, answer.json["code"].as_str()),
            (status, Some(code)),
            "{line}: {}",
            answer.text
        );
    }
    // A job on the caller's own dataset cannot use the policy either.
    let own = b.dataset(50);
    let spec = json!({"dataset_id": own, "kind": "evaluate", "independent_of_log": true,
        "candidates": [{"kind": "policy", "policy_id": owned.policy}]});
    b.post("/v1/jobs", &spec).problem(422, "unknown_policy");
    // A token is deleted before its gate.
    for path in deletes.into_iter().rev() {
        assert_eq!(
            a.delete(&path).status,
            204,
            "{path}: the requests of the other workspace changed nothing"
        );
    }
}

#[test]
fn ids_cannot_traverse_paths() {
    let server = Server::start();
    let client = server.client();
    let wrong = [
        "..%2f..%2fguarantor.sqlite",
        "%2e%2e%2f%2e%2e%2flock",
        "..%5c..%5clock",
        "%2fetc%2fpasswd",
        "....%2f%2flock",
        "%00",
        "01890a5d-ac96-774b-bcce-b302099a8057%00",
        "01890a5d-ac96-774b-bcce-b302099a8057%2f..",
        "%c0%ae%c0%ae%2flock",
        "%ff",
        "'%20OR%201=1--",
    ];
    for (method, path, kinds) in operations(&client) {
        for id in wrong.iter().filter(|_| path.contains('{')) {
            let asked = path.replace("{id}", id).replace("{name}", id).replace("{token}", id);
            let asked = asked.replace("{delivery_id}", id);
            let answer = send(&client, &method, &asked, &kinds, &json!({"contexts": [[0.0]]}));
            assert_eq!(answer.status, 404, "{method} {asked}: {}", answer.text);
        }
    }
    // As sent by a client that does not normalize paths.
    for path in
        ["/docs/../../lock", "/docs/..%2f..%2flock", "/../../etc/passwd", "//etc/passwd", "/docs/%2e%2e/lock"]
    {
        let mut stream = TcpStream::connect(server.base.strip_prefix("http://").unwrap()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
    }
}

#[test]
fn deeply_nested_json_is_rejected_everywhere() {
    let receiver = Receiver::start();
    let logs = tempfile::tempdir().unwrap();
    let server = server_for(&receiver, logs.path());
    let client = server.client();
    let owned = Owned::create(&client, &receiver, logs.path());
    let (lists, objects) = ("[".repeat(100_000), "{\"metadata\":".repeat(100_000));
    let mut asked = 0;
    for (method, path, kinds) in operations(&client) {
        if !kinds.iter().any(|kind| kind == "application/json") {
            continue;
        }
        let path = if path.contains('{') { owned.fill(&path) } else { path };
        for body in [&lists, &objects, &format!("{{\"contexts\":{lists}"), &format!("{{\"mean\":{lists}")] {
            let kind = [("content-type", "application/json")];
            let answer = client.send(&method, &path, &kind, Some(body.as_bytes()));
            assert!(matches!(answer.status, 400 | 422), "{path}: {} {}", answer.status, answer.text);
            asked += 1;
        }
        // Metadata can be anything, so only the depth can be wrong.
        let body = format!("{{\"metadata\":{}{}}}", "[".repeat(200), "]".repeat(200));
        if path == "/v1/jobs" {
            let kind = [("content-type", "application/json")];
            client.send(&method, &path, &kind, Some(body.as_bytes())).problem(400, "malformed_json");
        }
    }
    assert!(asked >= 20, "{asked}");
    let row = format!("{{\"x\":{lists}\n");
    client.upload("", &row).problem(422, "invalid_rows");
    assert_eq!(client.get("/livez").status, 200);
}

#[test]
fn responses_are_not_sniffed_and_pages_are_not_framed() {
    let server = Server::start();
    let client = server.client();
    for path in ["/livez", "/v1/jobs", "/nothing", "/openapi.json", "/docs/", "/metrics", "/v1/jobs?limit=x"]
    {
        assert_eq!(client.get(path).header("x-content-type-options"), Some("nosniff"), "{path}");
    }
    for path in ["/docs/", "/docs/swagger-ui-bundle.js"] {
        let page = client.get(path);
        assert_eq!(page.status, 200);
        let policy = page.header("content-security-policy").unwrap();
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe-eval") && !policy.contains("http"), "{policy}");
        assert_eq!(page.header("x-frame-options"), Some("DENY"));
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    }
}

#[test]
fn invented_methods_do_not_fill_the_metrics() {
    let server = Server::start();
    let client = server.client();
    for i in 0..20 {
        client.send(&format!("MADEUP{i}"), "/v1/jobs", &[], None).problem(405, "method_not_allowed");
    }
    let metrics = client.get("/metrics").text;
    assert!(metrics.contains("method=\"other\"") && !metrics.contains("MADEUP"), "{metrics}");
}

/// A server that writes its log, all of it, to a file.
fn logged(directory: &std::path::Path, format: &str, ask: impl FnOnce(&str)) -> String {
    let file = directory.join(format!("{format}.log"));
    let mut child = Command::new(BINARY)
        .args(["serve", "--listen", "127.0.0.1:0", "--log-filter", "trace", "--log-format", format])
        .arg("--data-dir")
        .arg(directory.join("data"))
        .env("NO_COLOR", "1")
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&file).unwrap())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    ask(line.trim().strip_prefix("Guarantor listens on ").expect("the server did not start"));
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::read_to_string(file).unwrap()
}

/// Requests in which every part tries to inject log lines.
fn inject(base: &str, key: &str) {
    let client = Client::new(base, Some(key));
    let evil = "%0A%0D%1B%5B31m2026-01-01T00:00:00Z%20%20INFO%20forged";
    let ids = [("x-request-id", "a b\tforged")];
    client.send("GET", &format!("/v1/jobs/{evil}"), &ids, None).problem(404, "not_found");
    client.get(&format!("/{evil}?{evil}={evil}")).problem(404, "no_such_route");
    client.get(&format!("/v1/jobs?{evil}={evil}")).problem(400, "invalid_query");
    let dataset = client.upload(&format!("?name={evil}"), two_rows());
    assert!(matches!(dataset.status, 201 | 422), "{}", dataset.text);
    client.upload("", "{\"forged\\n\\u001b\": 1}\nforged\r\n").problem(422, "invalid_rows");
    client.post("/v1/policies", &json!({"kind\nforged": "\u{1b}[31m\nforged"})).problem(422, "invalid_value");
    client.send("GET", "/v1/jobs", &[("authorization", "Bearer gk_for\tged")], None);
    for raw in [
        "GET /\x1b[31mforged HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: localhost\r\nx-a: \x01\nforged\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(base.strip_prefix("http://").unwrap()).unwrap();
        stream.write_all(raw.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(
            answer.starts_with(b"HTTP/1.1 400 ") || answer.is_empty(),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    assert_eq!(client.get("/v1/jobs").status, 200);
}

#[test]
fn logs_contain_no_keys_and_no_forged_lines() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let made = Command::new(BINARY)
        .args(["keys", "create", "--workspace", "team", "--name", "test", "--data-dir"])
        .arg(&data)
        .output()
        .unwrap();
    let key = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    assert!(key.starts_with("gk_"), "{key}");
    for format in ["json", "pretty"] {
        let text = logged(directory.path(), format, |base| inject(base, &key));
        assert!(text.contains("answered") && text.contains("authenticated"), "everything is logged: {text}");
        assert!(!text.contains(&key) && !text.contains(&key[3..]), "the key is in the log");
        assert!(!text.contains("gk_"), "a key that was tried is in the log");
        for line in text.lines() {
            let begins_well = match format {
                "json" => serde_json::from_str::<Value>(line).is_ok(),
                _ => line.starts_with("20") && line.contains('Z') && !line.starts_with("2026-01-01"),
            };
            assert!(begins_well, "{format}: {line:?}");
            assert!(!line.chars().any(|c| c.is_control()), "{format}: {line:?}");
        }
    }
    // The database does not contain the key either, only its hash.
    for file in std::fs::read_dir(&data).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            assert!(!bytes.windows(key.len()).any(|part| part == key.as_bytes()), "{}", path.display());
        }
    }
}

/// Names are returned only in bodies, in which JSON escapes them.
#[test]
fn names_cannot_add_headers() {
    let server = Server::start();
    let client = server.client();
    for name in ["a%0D%0AX-Evil:%20yes", "a%0AX-Evil:%20yes%0A%0Abody", "%C2%85X-Evil:%20yes"] {
        let sent = client.upload(&format!("?name={name}"), common::two_rows());
        let shown = match sent.status {
            201 => client.get(&format!("/v1/datasets/{}", sent.json["id"].as_str().unwrap())),
            _ => client.get(&format!("/v1/datasets?name={name}")),
        };
        for answer in [sent, shown] {
            assert!(answer.status < 500, "{}", answer.text);
            assert!(answer.headers.get("x-evil").is_none(), "{name}: {:?}", answer.headers);
            let spoken =
                answer.headers.values().any(|value| value.as_bytes().windows(4).any(|w| w == b"Evil"));
            assert!(!spoken, "{name}: {:?}", answer.headers);
        }
    }
}
