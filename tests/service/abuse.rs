//! Clients that hold what others need, and web pages that reach a server without keys.

use crate::common;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use common::{Client, Server, eventually, id_of, log_of, two_rows};
use serde_json::json;

/// A test that waits this long has failed, even on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn connect(base: &str) -> TcpStream {
    let stream = TcpStream::connect(base.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends the head of a request, with these headers.
fn send(base: &str, line: &str, headers: &[(&str, &str)]) -> TcpStream {
    let mut stream = connect(base);
    let mut head = format!("{line} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        head += "host: localhost\r\n";
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    stream
}

/// The status of the response, of which nothing else is read.
fn status(stream: &mut TcpStream) -> u16 {
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    std::str::from_utf8(&head[9..]).unwrap().parse().unwrap()
}

/// Everything that the server sends until it closes the connection.
fn answer(mut stream: TcpStream) -> String {
    let (mut all, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(n) => all.extend_from_slice(&part[..n]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("the connection was not closed: {error}"),
        }
    }
    String::from_utf8(all).unwrap()
}

fn half_open(base: &str) -> TcpStream {
    let mut stream = connect(base);
    stream.write_all(b"GET /v1/jobs HTTP/1.1\r\nhost: localhost\r\nx-slow:").unwrap();
    stream
}

fn bearer(key: &str) -> String {
    format!("Bearer {key}")
}

/// An open event stream, or the status of the response that is not one.
fn stream(base: &str, key: &str, job: &str) -> Result<TcpStream, u16> {
    let (line, key) = (format!("GET /v1/jobs/{job}/events"), bearer(key));
    let mut stream = send(base, &line, &[("accept", "text/event-stream"), ("authorization", &key)]);
    match status(&mut stream) {
        200 => Ok(stream),
        other => Err(other),
    }
}

/// An upload that has begun, or the status of the response that ended it. Its body never arrives.
fn trickle(base: &str, key: &str) -> Result<TcpStream, u16> {
    let mut stream = send(
        base,
        "POST /v1/datasets",
        &[
            ("content-type", "application/x-ndjson"),
            ("content-length", "100000"),
            ("authorization", &bearer(key)),
            ("expect", "100-continue"),
        ],
    );
    match status(&mut stream) {
        // The server asks for the body once the upload is in progress.
        100 => {
            stream.write_all(two_rows().as_bytes()).unwrap();
            Ok(stream)
        }
        other => Err(other),
    }
}

/// Keys of these workspaces, and a server that requires them.
fn server_with_keys<const N: usize>(
    workspaces: [&str; N],
    environment: &[(&str, &str)],
) -> (Server, [String; N]) {
    let mut server = Server::start_with(environment);
    let keys = workspaces.map(|workspace| server.create_key(workspace));
    server.kill();
    server.restart();
    (server, keys)
}

/// A job that does not end: it runs, or is queued behind one that does.
fn endless(client: &Client, seed: u64) -> String {
    let dataset = client.dataset_of(seed, 100);
    client.submit(json!({"dataset_id": dataset, "bound": "cbb", "optimizer":
        {"preset": "paper", "epochs": 100_000, "max_seconds": 3600.0}}))
}

fn gauge(client: &Client, name: &str) -> f64 {
    let text = client.get("/metrics").text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}: {text}")).parse().unwrap()
}

fn assert_healthy(base: &str) {
    let client = Client::new(base, None);
    for path in ["/livez", "/readyz", "/healthz", "/metrics"] {
        assert_eq!(client.get(path).status, 200, "{path}");
    }
}

#[test]
fn streams_of_one_key_are_limited_and_nobody_else_notices() {
    let (server, [key, colleague, other]) = server_with_keys(["a", "a", "b"], &[]);
    let client = server.client().with_key(&key);
    let job = endless(&client, 1);
    let mut held = Vec::new();
    let mut rejected = 0;
    for _ in 0..512 {
        match stream(&server.base, &key, &job) {
            Ok(stream) => held.push(stream),
            Err(status) => {
                assert_eq!(status, 429);
                rejected += 1;
            }
        }
    }
    assert_eq!((held.len(), rejected), (224, 512 - 224));
    assert_eq!(gauge(&client, "guarantor_streams_open"), 224.0);
    let accept = [("accept", "text/event-stream")];
    let refused = client.send("GET", &format!("/v1/jobs/{job}/events"), &accept, None);
    refused.problem(429, "too_many_streams");
    assert_eq!(refused.header("retry-after"), Some("5"));
    // The list of events is no stream.
    assert_eq!(client.get(&format!("/v1/jobs/{job}/events")).status, 200);
    assert_healthy(&server.base);
    assert!(stream(&server.base, &colleague, &job).is_ok(), "another key of the workspace");
    assert_eq!(server.client().with_key(&other).get("/v1/jobs").status, 200);
    // A stream that its client closed no longer counts.
    held.pop();
    eventually(|| stream(&server.base, &key, &job).is_ok(), &true);
}

#[test]
fn health_checks_are_answered_whatever_is_held() {
    let settings = [
        ("GUARANTOR_MAX_CONNECTIONS", "8"),
        ("GUARANTOR_HEADER_SECONDS", "600"),
        ("GUARANTOR_HEALTH_LISTEN", "127.0.0.1:0"),
    ];
    let (server, keys) = server_with_keys(["a", "b", "c", "d", "e"], &settings);
    let jobs: Vec<String> =
        keys.iter().zip(1..).map(|(key, seed)| endless(&server.client().with_key(key), seed)).collect();
    let mut held = Vec::new();
    for (key, job) in keys.iter().zip(&jobs) {
        // Each workspace gets half of what is left, and one trickles an upload.
        while let Ok(stream) = stream(&server.base, key, job) {
            held.push(stream);
            if held.len() == 1 {
                held.extend(trickle(&server.base, key));
            }
        }
    }
    assert_eq!(held.len(), 8, "every connection has a request in progress");
    let slow: Vec<TcpStream> = (0..300).map(|_| half_open(&server.base)).collect();
    assert_healthy(&server.base);
    assert_healthy(server.health.as_deref().unwrap());
    let full = server.client().get("/v1/certificates/key");
    full.problem(503, "unavailable");
    assert_eq!(full.header("retry-after"), Some("1"));
    // One of the requests ends, and there is room for others.
    held.pop();
    eventually(|| server.client().with_key(&keys[4]).get("/v1/certificates/key").status, &200);
    assert_healthy(&server.base);
    drop(slow);
}

#[test]
fn the_listener_for_health_has_nothing_else() {
    let settings = [("GUARANTOR_HEALTH_LISTEN", "127.0.0.1:0"), ("GUARANTOR_METRICS_NEED_KEY", "true")];
    let (server, [key]) = server_with_keys(["a"], &settings);
    let health = Client::new(server.health.as_deref().unwrap(), None);
    for path in ["/livez", "/readyz", "/healthz"] {
        let probe =
            send(&health.base, &format!("GET {path}"), &[("host", "pod.example"), ("connection", "close")]);
        assert!(answer(probe).starts_with("HTTP/1.1 200"), "{path}");
    }
    health.get("/metrics").problem(401, "unauthorized");
    assert_eq!(health.with_key(&key).get("/metrics").status, 200);
    for path in ["/v1/jobs", "/docs/", "/openapi.json", "/v1/gates/x"] {
        health.with_key(&key).get(path).problem(404, "no_such_route");
    }
    health.post("/livez", &json!({})).problem(405, "method_not_allowed");
}

#[test]
fn half_open_heads_keep_nobody_out() {
    let settings = [("GUARANTOR_MAX_CONNECTIONS", "16"), ("GUARANTOR_HEADER_SECONDS", "600")];
    let (server, [key]) = server_with_keys(["a"], &settings);
    let mut slow: Vec<TcpStream> = (0..200).map(|_| half_open(&server.base)).collect();
    for _ in 0..20 {
        // A new connection each time.
        assert_eq!(server.client().with_key(&key).get("/v1/jobs").status, 200);
        slow.push(half_open(&server.base));
    }
    assert_healthy(&server.base);
    // The oldest gave way.
    assert_eq!(answer(slow.remove(0)), "");
}

#[test]
fn trickled_uploads_of_a_workspace_leave_room_for_others() {
    let settings = [("GUARANTOR_MAX_CONCURRENT_UPLOADS", "8"), ("GUARANTOR_MAX_UPLOADS_PER_KEY", "3")];
    let (server, [first, second, other]) = server_with_keys(["a", "a", "b"], &settings);
    let hold = |key: &str| -> Vec<TcpStream> {
        std::iter::from_fn(|| trickle(&server.base, key).inspect_err(|code| assert_eq!(*code, 429)).ok())
            .collect()
    };
    let of_first = hold(&first);
    assert_eq!(of_first.len(), 3, "the limit of a key");
    let client = server.client().with_key(&first);
    let refused = client.upload("", two_rows());
    refused.problem(429, "too_many_uploads");
    assert_eq!(refused.header("retry-after"), Some("2"));
    assert!(refused.json["detail"].as_str().unwrap().contains("This key"), "{}", refused.text);
    // Another key of the workspace gets what is left of the workspace's half.
    let of_second = hold(&second);
    assert_eq!(of_second.len(), 1, "the share of the workspace");
    let refused = server.client().with_key(&second).upload("", two_rows());
    refused.problem(429, "too_many_uploads");
    assert!(refused.json["detail"].as_str().unwrap().contains("This workspace"), "{}", refused.text);
    let other = server.client().with_key(&other);
    other.upload("", two_rows()).expect(201);
    assert_eq!(other.get("/v1/datasets").expect(200)["data"].as_array().unwrap().len(), 1);
    drop((of_first, of_second));
    eventually(|| gauge(&client, "guarantor_uploads_running"), &0.0);
    client.upload("", two_rows()).expect(201);
}

#[test]
fn requests_that_wait_leave_connections_for_other_workspaces() {
    let (server, [key, other]) = server_with_keys(["a", "b"], &[("GUARANTOR_MAX_CONNECTIONS", "8")]);
    let (client, other) = (server.client().with_key(&key), server.client().with_key(&other));
    let job = endless(&client, 1);
    let authorization = bearer(&key);
    let headers = [("authorization", authorization.as_str())];
    let waiting: Vec<TcpStream> =
        (0..4).map(|_| send(&server.base, &format!("GET /v1/jobs/{job}?wait=60"), &headers)).collect();
    eventually(|| gauge(&other, "guarantor_requests_in_progress"), &4.0);
    let refused = client.get(&format!("/v1/jobs/{job}"));
    refused.problem(429, "too_many_requests");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(other.get("/v1/jobs").status, 200);
    drop(waiting);
    eventually(|| client.get(&format!("/v1/jobs/{job}")).status, &200);
}

/// A form as a web page sends it without asking anybody.
fn form() -> (String, String) {
    let body = format!(
        "--b\r\ncontent-disposition: form-data; name=\"manifest\"\r\ncontent-type: application/json\r\n\r\n\
         {{\"outcome\":\"reward\"}}\r\n--b\r\ncontent-disposition: form-data; name=\"data\"; filename=\"a\"\r\n\
         content-type: application/x-ndjson\r\n\r\n{}\r\n--b--\r\n",
        log_of(1, 20)
    );
    ("multipart/form-data; boundary=b".into(), body)
}

#[test]
fn pages_of_other_sites_cannot_use_a_server_without_keys() {
    let server = Server::start();
    let client = server.client();
    let host = server.base.strip_prefix("http://").unwrap().to_owned();
    let port = host.split_once(':').unwrap().1.to_owned();
    let (kind, body) = form();
    let upload = |headers: &[(&str, &str)]| {
        let headers = [&[("content-type", kind.as_str())][..], headers].concat();
        client.send("POST", "/v1/datasets", &headers, Some(body.as_bytes()))
    };
    let other_port = format!("http://127.0.0.1:{}", port.parse::<u16>().unwrap() ^ 1);
    for hostile in [
        &[("origin", "http://evil.example")][..],
        &[("origin", "null")],
        &[("origin", &other_port)],
        &[("origin", "https://127.0.0.1")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "navigate")],
        &[("origin", &server.base), ("sec-fetch-site", "cross-site")],
        // A key does not help: there are none.
        &[("origin", "http://evil.example"), ("authorization", "Bearer gk_1")],
    ] {
        upload(hostile).problem(403, "cross_origin");
        let read = client.send("GET", "/v1/datasets", hostile, None);
        read.problem(403, "cross_origin");
    }
    assert_eq!(client.get("/v1/datasets").expect(200)["data"], json!([]), "nothing was planted");
    // Neither can a page under a name of its own that leads here.
    for name in ["evil.example", "evil.example:80", &format!("127.0.0.1.evil.example:{port}"), "10.0.0.1"] {
        let origin = format!("http://{name}");
        let rebound =
            [("host", name), ("origin", &origin), ("sec-fetch-site", "same-origin"), ("connection", "close")];
        for line in ["GET /v1/datasets", "GET /metrics", "GET /openapi.json", "DELETE /v1/datasets/x"] {
            let text = answer(send(&server.base, line, &rebound));
            assert!(text.starts_with("HTTP/1.1 421 ") && text.contains("\"wrong_host\""), "{line}: {text}");
        }
        let probe = answer(send(&server.base, "GET /livez", &rebound));
        assert!(probe.starts_with("HTTP/1.1 200 "), "{probe}");
    }
    // The server's own pages, links to them, and clients that are no browsers work.
    upload(&[("origin", &server.base), ("sec-fetch-site", "same-origin")]).expect(201);
    let link =
        [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    assert_eq!(client.send("GET", "/docs/", &link, None).status, 200);
    client.send("GET", "/v1/datasets", &link, None).problem(403, "cross_origin");
    assert_eq!(client.send("GET", "/v1/datasets", &[("sec-fetch-site", "none")], None).status, 200);
    for name in ["localhost", "127.0.0.1:1", "[::1]", "guarantor.localhost"] {
        let text = answer(send(&server.base, "GET /v1/datasets", &[("host", name), ("connection", "close")]));
        assert!(text.starts_with("HTTP/1.1 200 "), "{name}: {text}");
    }
}

#[test]
fn names_can_be_allowed_and_keys_replace_the_checks() {
    let server = Server::start_with(&[("GUARANTOR_ALLOWED_HOSTS", "box.example")]);
    let ask = |headers: &[(&str, &str)]| {
        let headers = [headers, &[("connection", "close")][..]].concat();
        answer(send(&server.base, "GET /v1/datasets", &headers))[9..12].to_owned()
    };
    assert_eq!(ask(&[("host", "box.example:8080")]), "200");
    assert_eq!(ask(&[("host", "box.example"), ("origin", "http://box.example")]), "200");
    assert_eq!(ask(&[("host", "box.example"), ("origin", "http://evil.example")]), "403");
    assert_eq!(ask(&[("host", "evil.example")]), "421");
    // From the first key on, what counts is the key. The server notices it while it runs.
    let key = bearer(&server.create_key("default"));
    let page = [("host", "proxy.example"), ("origin", "https://dashboard.example")];
    eventually(|| ask(&page), &"401".to_owned());
    assert_eq!(ask(&[page[0], page[1], ("authorization", &key)]), "200");
    id_of(&server.client().with_key(&key[7..]).upload("", two_rows()).expect(201));
}
