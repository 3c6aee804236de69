//! A log has the same digest and the same certificate in every format, with every compression and however it
//! is sent.

use crate::common;
use crate::logs;

use std::io::Write;
use std::net::TcpStream;

use common::{Client, Server, id_of};
use logs::{CSV, NDJSON, PARQUET, TYPES, content_digest, data_headers, disposition, encoded, form, written};
use serde_json::{Value, json};

const CODINGS: [&str; 3] = ["identity", "gzip", "zstd"];

/// One policy drew every row, with exactly the numbers that were logged, and several times in each context.
const OPTIONS: &str = "name=same&logging=fixed&repetitions=designed&exact_propensities=true";
const MANIFEST: &[u8] =
    b"{\"name\": \"same\", \"logging\": \"fixed\", \"repetitions\": \"designed\", \"exact_propensities\": true}";

fn send(client: &Client, kind: &str, coding: &str, bytes: &[u8]) -> Value {
    let body = encoded(coding, bytes);
    let digest = content_digest(&body);
    let headers = [("content-type", kind), ("content-encoding", coding), ("content-digest", &digest)];
    client.send("POST", &format!("/v1/datasets?{OPTIONS}"), &headers, Some(&body)).expect(201)
}

fn send_form(client: &Client, kind: &str, coding: &str, bytes: &[u8]) -> Value {
    let body = encoded(coding, bytes);
    let (manifest, data) = (disposition("manifest"), data_headers(kind, coding));
    let (kind, body) = form(&[(&manifest, MANIFEST), (&data, &body)]);
    let digest = content_digest(&body);
    let headers = [("content-type", kind.as_str()), ("content-digest", &digest)];
    client.send("POST", "/v1/datasets", &headers, Some(&body)).expect(201)
}

/// The certificate of a job, without the members about when and for whom it was issued and which looks came before.
fn certificate(client: &Client, spec: Value) -> Value {
    let job = client.submit(spec);
    let ended = client.finish(&job);
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let mut certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    let members = certificate.as_object_mut().unwrap();
    for outside in ["issued", "ledger", "signature"] {
        members.remove(outside);
    }
    certificate
}

#[test]
fn a_log_has_one_digest_and_one_certificate_however_it_is_sent() {
    let server = Server::start();
    let client = server.client();
    let rows = logs::rows(300, true);
    let mut first: Option<(Value, Value)> = None;
    let mut sent: Vec<Value> = Vec::new();
    for kind in TYPES {
        let bytes = written(kind, &rows);
        for coding in CODINGS {
            for dataset in [send(&client, kind, coding, &bytes), send_form(&client, kind, coding, &bytes)] {
                let spec = json!({"dataset_id": dataset["id"], "independent_of_log": true,
                    "candidates": [{"kind": "logged", "name": "new"}]});
                let certificate = certificate(&client, spec);
                let mut dataset = dataset;
                let [id, ledger, _] = ["id", "ledger", "created_at"]
                    .map(|own| dataset.as_object_mut().unwrap().remove(own).unwrap());
                // The rows are recognized however they were sent.
                let mut shared = ledger["shared_with"].as_array().unwrap().clone();
                shared.sort_by_key(Value::to_string);
                assert_eq!(shared, sent, "{kind} {coding}");
                sent.push(id);
                sent.sort_by_key(Value::to_string);
                let (d, c) = first.get_or_insert_with(|| (dataset.clone(), certificate.clone()));
                assert_eq!((&*d, &*c), (&dataset, &certificate), "{kind} {coding}");
            }
        }
    }
    let (dataset, certificate) = first.unwrap();
    assert_eq!((&dataset["rows"], &dataset["contexts"]), (&json!(300), &json!(150)));
    let capabilities = &dataset["capabilities"];
    assert_eq!(capabilities["candidates"], json!(["a b", "new"]));
    assert_eq!(
        (&capabilities["multiple_interactions"], &capabilities["full_propensities"]),
        (&json!(true), &json!(true))
    );
    assert!(certificate["digest"].as_str().unwrap().starts_with("sha256:"), "{certificate}");
}

#[test]
fn learning_from_it_gives_one_policy() {
    let server = Server::start();
    let client = server.client();
    let mut rows = logs::rows(200, false);
    for row in &mut rows {
        row.as_object_mut().unwrap().remove("candidates");
    }
    let learned = TYPES.map(|kind| {
        let dataset = send(&client, kind, "identity", &written(kind, &rows));
        certificate(&client, json!({"dataset_id": dataset["id"], "bound": "cbb"}))
    });
    for other in &learned[1..] {
        assert_eq!(other, &learned[0]);
    }
}

#[test]
fn rows_are_appended_in_any_format() {
    let server = Server::start();
    let client = server.client();
    let rows = logs::rows(60, true);
    let whole = send(&client, NDJSON, "identity", &written(NDJSON, &rows));
    for (kind, coding) in TYPES.into_iter().zip(["zstd", "gzip", "identity", "gzip"]) {
        let first = send(&client, CSV, "identity", &written(CSV, &rows[..30]));
        let body = encoded(coding, &written(kind, &rows[30..]));
        let digest = content_digest(&body);
        let headers = [("content-type", kind), ("content-encoding", coding), ("content-digest", &digest)];
        let path = format!("/v1/datasets/{}/rows", id_of(&first));
        let second = client.send("POST", &path, &headers, Some(&body)).expect(201);
        assert_eq!((&second["version"], &second["digest"]), (&json!(2), &whole["digest"]), "{kind}");
    }
}

/// A repeated upload with an idempotency key gets the first response only for the same bytes with the same encoding.
#[test]
fn a_repeated_upload_must_have_the_same_encoding() {
    let server = Server::start();
    let client = server.client();
    let plain = written(CSV, &logs::rows(5, false));
    let send = |coding: &str, body: &[u8]| {
        let headers = [("content-type", CSV), ("content-encoding", coding), ("idempotency-key", "k")];
        client.send("POST", "/v1/datasets", &headers, Some(body))
    };
    let first = send("gzip", &logs::gzip(&plain));
    assert_eq!(first.status, 201, "{}", first.text);
    let again = send("gzip", &logs::gzip(&plain));
    assert_eq!((again.status, &again.json), (201, &first.json));
    send("identity", &plain).problem(422, "idempotency_mismatch");
}

/// Sends three quarters of a log and keeps the connection open.
fn begin_upload(server: &Server, kind: &str, bytes: &[u8], chunked: bool) -> TcpStream {
    let length = match chunked {
        true => "transfer-encoding: chunked".to_owned(),
        false => format!("content-length: {}", bytes.len()),
    };
    let mut socket = TcpStream::connect(server.base.strip_prefix("http://").unwrap()).unwrap();
    let head =
        format!("POST /v1/datasets HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n{length}\r\n\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    if chunked {
        socket.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).unwrap();
    }
    socket.write_all(&bytes[..bytes.len() * 3 / 4]).unwrap();
    socket
}

fn stored(server: &Server) -> Vec<(String, u64)> {
    common::files(&server.data.path().join("blobs"))
}

/// Clients that disconnect half-way leave neither a dataset nor a file behind.
#[test]
fn an_upload_that_is_cut_off_leaves_nothing() {
    let server = Server::start_with(&[("GUARANTOR_LOG_FILTER", "off")]);
    let client = server.client();
    let rows = logs::rows(40_000, true);
    for (kind, chunked) in [(NDJSON, false), (CSV, true), (PARQUET, false), (logs::ARROW, true)] {
        let socket = begin_upload(&server, kind, &written(kind, &rows), chunked);
        if matches!(kind, NDJSON | CSV) {
            // Rows are on disk already; the other formats are stored only when they are complete.
            common::eventually(|| stored(&server).is_empty(), &false);
        }
        drop(socket);
        common::eventually(|| stored(&server), &vec![]);
    }
    assert_eq!(client.get("/v1/datasets").expect(200)["data"], json!([]));
}

/// Neither does a server that dies half-way, once another one has started.
#[test]
fn an_upload_that_a_crash_cut_off_leaves_nothing() {
    let mut server = Server::start_with(&[("GUARANTOR_LOG_FILTER", "off")]);
    let socket = begin_upload(&server, CSV, &written(CSV, &logs::rows(40_000, true)), false);
    common::eventually(|| stored(&server).is_empty(), &false);
    server.kill();
    drop(socket);
    assert!(!stored(&server).is_empty());
    server.restart();
    assert_eq!(stored(&server), vec![]);
    assert_eq!(server.client().get("/v1/datasets").expect(200)["data"], json!([]));
}
