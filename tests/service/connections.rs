//! Connections: TLS, and clients that are slow, silent or too many.

use crate::common;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{BINARY, Server, two_rows};
use serde_json::json;

/// A test that waits this long has failed, even on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.base.split_once("://").unwrap().1).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// What the server sends until it closes or resets the connection.
fn until_closed(mut stream: TcpStream) -> String {
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

/// Sends a request on a connection that stays open.
fn ask(stream: &mut TcpStream, path: &str) {
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
}

/// A certificate for 127.0.0.1 and its key, as files.
fn certificate(directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    let (cert, key) = (directory.join(format!("{name}.pem")), directory.join(format!("{name}.key")));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (cert, key)
}

fn curl(args: &[&str]) -> (bool, String) {
    let output = Command::new("curl").args(["-sS", "--max-time", "60"]).args(args).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn https_is_served_and_http_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let (cert, key) = certificate(directory.path(), "server");
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let mut server = Server::start_with(&[
        ("GUARANTOR_TLS_CERT", cert),
        ("GUARANTOR_TLS_KEY", key),
        ("GUARANTOR_WORKERS", "1"),
    ]);
    assert!(server.base.starts_with("https://"), "{}", server.base);
    let url = |path: &str| format!("{}{path}", server.base);

    let (well, text) = curl(&["--cacert", cert, &url("/readyz")]);
    assert!(well && text.contains("\"ok\""), "{text}");
    let body = format!("@{}", directory.path().join("rows").display());
    std::fs::write(&body[1..], common::log(100_000)).unwrap();
    let kind = "content-type: application/x-ndjson";
    let (well, text) =
        curl(&["--cacert", cert, "-H", kind, "--data-binary", &body, &url("/v1/datasets?outcome=reward")]);
    assert!(well && text.contains("\"rows\":100000"), "{text}");

    // A client that does not trust the certificate stops there, and plain HTTP gets no response.
    assert!(!curl(&[&url("/readyz")]).0);
    let plain = server.base.replace("https", "http");
    let (well, text) = curl(&[&format!("{plain}/readyz")]);
    assert!(!well && text.is_empty(), "{text}");
    assert!(server.terminate());
}

#[test]
fn unusable_tls_files_are_named_and_prevent_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let (cert, key) = certificate(directory.path(), "a");
    let (_, other) = certificate(directory.path(), "b");
    let missing = directory.path().join("missing.pem");
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "nothing\n").unwrap();
    let cases: [(&Path, &Path, &[&str]); 6] = [
        (&missing, &key, &["tls_cert", "missing.pem", "No such file"]),
        (&cert, &missing, &["tls_key", "missing.pem", "No such file"]),
        (&empty, &key, &["tls_cert", "empty.pem", "no certificate"]),
        (&cert, &empty, &["tls_key", "empty.pem", "no private key"]),
        (&cert, &other, &["a.pem", "b.key", "together"]),
        (&cert, Path::new(""), &["tls_key is not set"]),
    ];
    for (cert, key, words) in cases {
        let data = directory.path().join("data");
        let output = Command::new(BINARY)
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&data)
            .arg("--tls-cert")
            .arg(cert)
            .arg("--tls-key")
            .arg(key)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
        assert!(!data.exists(), "a failed start leaves no data directory");
    }
}

#[test]
fn slow_heads_and_idle_connections_are_closed() {
    let server = Server::start_with(&[("GUARANTOR_HEADER_SECONDS", "1")]);
    let silent = connect(&server);
    let mut half = connect(&server);
    write!(half, "GET /v1/jobs HTTP/1.1\r\nhost: localhost\r\nx-slow:").unwrap();
    let mut idle = connect(&server);
    ask(&mut idle, "/livez");
    assert_eq!(until_closed(silent), "");
    assert_eq!(until_closed(half), "");
    // The rest of its response, and then the end.
    until_closed(idle);
    assert_eq!(server.client().get("/livez").status, 200);
}

#[test]
fn too_large_and_too_many_headers_are_rejected() {
    let server = Server::start();
    let large = format!("x-large: {}\r\n", "a".repeat(70_000));
    let many: String = (0..150).map(|i| format!("x-{i}: 1\r\n")).collect();
    for (headers, all_read) in [(large, false), (many, true)] {
        let mut stream = connect(&server);
        let _ = write!(stream, "GET /livez HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        let answer = until_closed(stream);
        // If not everything was read, closing the connection may lose the response.
        assert!(answer.starts_with("HTTP/1.1 431 ") || (answer.is_empty() && !all_read), "{answer}");
    }
}

#[test]
fn a_connection_over_the_limit_displaces_the_one_that_was_idle_longest() {
    let server =
        Server::start_with(&[("GUARANTOR_MAX_CONNECTIONS", "2"), ("GUARANTOR_HEADER_SECONDS", "600")]);
    let (mut first, mut second) = (connect(&server), connect(&server));
    ask(&mut first, "/v1/jobs");
    ask(&mut second, "/v1/jobs");
    let mut third = connect(&server);
    ask(&mut third, "/v1/jobs");
    until_closed(first);
    write!(second, "GET /v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let rest = until_closed(second);
    assert_eq!(rest.matches("HTTP/1.1 200").count(), 1, "it is still served: {rest}");
}

/// A POST whose body is announced and not sent.
fn begin(server: &Server, path: &str, kind: &str, length: usize, more: &str) -> TcpStream {
    let mut stream = connect(server);
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n{more}\r\n"
    )
    .unwrap();
    stream
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return vec![] };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn bodies_that_stop_arriving_are_rejected_and_leave_nothing() {
    let server = Server::start_with(&[("GUARANTOR_UPLOAD_STALL_SECONDS", "1")]);
    let cases = [("/v1/datasets", "application/x-ndjson", two_rows()), ("/v1/jobs", "application/json", "{")];
    for (path, kind, part) in cases {
        let mut stream = begin(&server, path, kind, 10_000, "");
        stream.write_all(part.as_bytes()).unwrap();
        let answer = until_closed(stream);
        assert!(answer.starts_with("HTTP/1.1 408 "), "{path}: {answer}");
        assert!(
            answer.contains("\"code\":\"request_timeout\"") && answer.contains("for 1 seconds"),
            "{answer}"
        );
    }
    let client = server.client();
    assert_eq!(client.get("/v1/datasets").expect(200)["data"], json!([]));
    assert_eq!(client.get("/v1/jobs").expect(200)["data"], json!([]));
    assert_eq!(files(&server.data.path().join("blobs")), Vec::<PathBuf>::new());
}

#[test]
fn uploads_over_the_limit_are_rejected_before_their_body_is_read() {
    let server = Server::start_with(&[("GUARANTOR_MAX_CONCURRENT_UPLOADS", "1")]);
    let rows = two_rows();
    let expect = "expect: 100-continue\r\nconnection: close\r\n";
    let mut first = begin(&server, "/v1/datasets", "application/x-ndjson", rows.len(), expect);
    // The server asks for the body once the upload is in progress.
    let mut line = [0; 25];
    first.read_exact(&mut line).unwrap();
    assert!(line.starts_with(b"HTTP/1.1 100"));
    let client = server.client();
    let rejected = client.upload("", rows);
    rejected.problem(429, "too_many_uploads");
    assert_eq!(rejected.header("retry-after"), Some("2"));
    let unread = begin(&server, "/v1/datasets", "application/x-ndjson", 1 << 30, expect);
    assert!(until_closed(unread).starts_with("HTTP/1.1 429 "), "no 100 Continue");
    assert_eq!(client.get("/v1/datasets").status, 200, "other requests are not delayed");
    first.write_all(rows.as_bytes()).unwrap();
    assert!(until_closed(first).contains("201 Created"));
    client.upload("", rows).expect(201);
}
