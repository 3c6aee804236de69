//! Appends to one dataset wait for one another.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::common::{Answer, Client, Server, eventually, id_of, log_of};

fn append(client: &Client, dataset: &str, key: Option<&str>, rows: &str) -> Answer {
    let mut headers = vec![("content-type", "application/x-ndjson")];
    headers.extend(key.map(|key| ("idempotency-key", key)));
    client.send("POST", &format!("/v1/datasets/{dataset}/rows"), &headers, Some(rows.as_bytes()))
}

/// An append whose body is sent by hand.
struct ByHand {
    stream: TcpStream,
    rest: Vec<u8>,
}

impl ByHand {
    /// Sends the head and the first `sent` bytes of the body.
    fn begin(server: &Server, dataset: &str, rows: &str, sent: usize) -> ByHand {
        let mut stream = TcpStream::connect(server.base.strip_prefix("http://").unwrap()).unwrap();
        write!(
            stream,
            "POST /v1/datasets/{dataset}/rows HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            rows.len()
        )
        .unwrap();
        stream.write_all(&rows.as_bytes()[..sent]).unwrap();
        ByHand { stream, rest: rows.as_bytes()[sent..].to_vec() }
    }

    fn finish(mut self) -> String {
        self.stream.write_all(&self.rest).unwrap();
        let mut answer = String::new();
        self.stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

fn metric(client: &Client, name: &str) -> Option<f64> {
    let text = client.get("/metrics").text;
    let line = text.lines().find(|line| line.split(' ').next() == Some(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// An append that has its turn and keeps it until the rest of its body is sent: it is larger than what is read before.
fn holding(server: &Server, dataset: &str) -> ByHand {
    let rows = log_of(99, 20_000);
    assert!(rows.len() > 2 << 20);
    let half = rows.len() - 100;
    let holder = ByHand::begin(server, dataset, &rows, half);
    eventually(|| metric(&server.client(), "guarantor_appends_running"), &Some(1.0));
    holder
}

fn version_and_rows(client: &Client, dataset: &str) -> (Value, Value) {
    let found = client.get(&format!("/v1/datasets/{dataset}")).expect(200);
    (found["version"].clone(), found["rows"].clone())
}

#[test]
fn fifteen_parallel_appends_all_succeed() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset_of(1, 100);
    let start = std::sync::Barrier::new(15);
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let one = |seed: u64| {
            let (server, dataset, start) = (&server, &dataset, &start);
            scope.spawn(move || {
                let (client, rows) = (server.client(), log_of(seed, 20));
                start.wait();
                append(&client, dataset, None, &rows)
            })
        };
        let all: Vec<_> = (2..17).map(one).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let mut versions: Vec<u64> =
        answers.into_iter().map(|answer| answer.expect(201)["version"].as_u64().unwrap()).collect();
    versions.sort();
    assert_eq!(versions, (2..17).collect::<Vec<u64>>());
    assert_eq!(version_and_rows(&client, &dataset), (json!(16), json!(100 + 15 * 20)));
}

#[test]
fn a_client_that_disconnects_loses_its_place() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset_of(1, 100);
    let holder = holding(&server, &dataset);
    let rows = log_of(2, 20);
    let gone = ByHand::begin(&server, &dataset, &rows, rows.len());
    let waiting = || metric(&client, "guarantor_appends_waiting");
    eventually(waiting, &Some(1.0));
    drop(gone);
    eventually(waiting, &Some(0.0));
    assert!(holder.finish().contains("201 Created"));
    assert_eq!(version_and_rows(&client, &dataset), (json!(2), json!(20_100)));
}

#[test]
fn requests_with_one_key_append_once_and_get_one_answer() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset_of(1, 100);
    let holder = holding(&server, &dataset);
    let rows = log_of(2, 20);
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let again = |_| scope.spawn(|| append(&server.client(), &dataset, Some("k"), &rows));
        let all: Vec<_> = (0..3).map(again).collect();
        eventually(|| metric(&client, "guarantor_appends_waiting"), &Some(3.0));
        assert!(holder.finish().contains("201 Created"));
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for answer in &answers {
        assert_eq!((answer.status, &answer.text), (201, &answers[0].text));
    }
    assert_eq!(version_and_rows(&client, &dataset), (json!(3), json!(20_120)));
    append(&client, &dataset, Some("k"), &log_of(3, 20)).problem(422, "idempotency_mismatch");
}

/// The line has an end, and leaves room for uploads to other datasets.
#[test]
fn a_full_line_is_429_and_other_datasets_are_not_held_up() {
    let server = Server::start_with(&[("GUARANTOR_MAX_CONCURRENT_UPLOADS", "6")]);
    let client = server.client();
    let dataset = client.dataset_of(1, 100);
    let holder = holding(&server, &dataset);
    let rows = log_of(2, 20);
    let waiter = ByHand::begin(&server, &dataset, &rows, rows.len());
    eventually(|| metric(&client, "guarantor_appends_waiting"), &Some(1.0));
    let refused = append(&client, &dataset, None, &log_of(3, 20));
    refused.problem(429, "too_many_uploads");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(client.upload("?outcome=reward", &log_of(4, 20)).status, 201);
    assert!(holder.finish().contains("201 Created"));
    assert!(waiter.finish().contains("201 Created"));
    assert_eq!(version_and_rows(&client, &dataset), (json!(3), json!(20_120)));
}

/// Rows from before a look are refused, also if the look was taken while the append waited.
#[test]
fn an_append_that_reaches_back_is_refused_after_it_waited() {
    let server = Server::start();
    let client = server.client();
    let timed = |seed: u64, rows: usize, first: usize| -> String {
        let stamp = |(i, row): (usize, &str)| {
            let mut row: Value = serde_json::from_str(row).unwrap();
            row["timestamp"] = json!(first + i);
            format!("{row}\n")
        };
        log_of(seed, rows).lines().enumerate().map(stamp).collect()
    };
    let rows = timed(1, 200, 1_000_000_000);
    let dataset = id_of(&client.upload("?outcome=reward&logging=fixed", &rows).expect(201));
    let later = timed(99, 20_000, 1_100_000_000);
    let holder = ByHand::begin(&server, &dataset, &later, later.len() - 100);
    eventually(|| metric(&client, "guarantor_appends_running"), &Some(1.0));
    std::thread::scope(|scope| {
        let back = timed(2, 20, 1_000_000_050);
        let (server, dataset) = (&server, &dataset);
        let waiter = scope.spawn(move || append(&server.client(), dataset, None, &back));
        eventually(|| metric(&client, "guarantor_appends_waiting"), &Some(1.0));
        let job = client.submit(json!({"dataset_id": dataset}));
        assert_eq!(client.finish(&job)["status"], "succeeded");
        drop(holder);
        let refused = waiter.join().unwrap();
        assert_eq!(refused.status, 422, "{}", refused.text);
        assert!(refused.text.contains("timestamp"), "{}", refused.text);
    });
    assert_eq!(version_and_rows(&client, &dataset), (json!(1), json!(200)));
}
