//! `POST /v1/datasets/{id}/candidates`: formats, limits, and what is left after a rejection.

use std::io::Write;

use crate::common;

use common::{Client, Server, id_of, log_of};
use serde_json::{Value, json};

const NDJSON: (&str, &str) = ("content-type", "application/x-ndjson");

fn add(client: &Client, dataset: &str, headers: &[(&str, &str)], body: &[u8]) -> common::Answer {
    client.send("POST", &format!("/v1/datasets/{dataset}/candidates"), headers, Some(body))
}

/// One row per row of a log of `n` rows.
fn column(n: usize, candidates: &Value) -> String {
    format!("{}\n", json!({ "candidates": candidates })).repeat(n)
}

#[test]
fn candidates_arrive_in_every_format_and_compressed() {
    let server = Server::start();
    let client = server.client();
    let dataset = id_of(&client.upload("?outcome=reward", &log_of(40, 50)).expect(201));
    let csv = format!("candidate.b\n{}", "0.25\n".repeat(50));
    add(&client, &dataset, &[("content-type", "text/csv")], csv.as_bytes()).expect(201);
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zipped.write_all(column(50, &json!({"c": 0.5})).as_bytes()).unwrap();
    let zipped = zipped.finish().unwrap();
    let coded = [NDJSON, ("content-encoding", "gzip")];
    add(&client, &dataset, &coded, &zipped).expect(201);
    let half = &zipped[..zipped.len() / 2];
    add(&client, &dataset, &coded, half).problem(422, "invalid_file");
    let stored = client.get(&format!("/v1/datasets/{dataset}")).expect(200);
    assert_eq!(stored["capabilities"]["candidates"], json!(["b", "c"]));
    assert_eq!(stored["version"], 3);
}

/// A rejected file leaves no version and no file behind.
#[test]
fn limits_are_enforced_and_nothing_is_left_behind() {
    let server = Server::start();
    let client = server.client();
    let dataset = id_of(&client.upload("?outcome=reward", &log_of(41, 20)).expect(201));
    add(&client, &dataset, &[NDJSON], column(20, &json!({"old": 0.5})).as_bytes()).expect(201);
    let before = (
        common::files(&server.data.path().join("blobs")),
        client.get(&format!("/v1/datasets/{dataset}")).json,
    );
    let many = |n: usize| -> Value {
        (0..n).map(|i| (format!("c{i}"), json!(0.5))).collect::<serde_json::Map<_, _>>().into()
    };
    let long: Value = serde_json::Map::from_iter([("x".repeat(1025), json!(0.5))]).into();
    let last = format!("{}{{\"candidates\":{{\"c\":2}}}}\n", column(19, &json!({"c": 0.5})));
    for (what, body) in [
        ("no name", column(20, &json!({"": 0.5}))),
        ("a long name", column(20, &long)),
        ("too many", column(20, &many(1001))),
        ("too many with those of the dataset", column(20, &many(1000))),
        ("the last row", last),
        ("a taken name", column(20, &json!({"old": 0.5}))),
    ] {
        let answer = add(&client, &dataset, &[NDJSON], body.as_bytes());
        assert_eq!(answer.json["code"], "invalid_rows", "{what}: {}", answer.text);
        assert_eq!(answer.status, 422, "{what}");
    }
    for rows in [19, 21] {
        let body = column(rows, &json!({"c": 0.5}));
        add(&client, &dataset, &[NDJSON], body.as_bytes()).problem(422, "invalid_file");
    }
    let after = (
        common::files(&server.data.path().join("blobs")),
        client.get(&format!("/v1/datasets/{dataset}")).json,
    );
    assert_eq!(after, before);
    add(&client, &dataset, &[NDJSON], column(20, &many(999)).as_bytes()).expect(201);
}

/// Candidates and rows that arrive at the same time: one of them is stored, and the other is told so.
#[test]
fn candidates_and_rows_at_the_same_time() {
    let server = Server::start();
    let client = server.client();
    let dataset = id_of(&client.upload("?outcome=reward", &log_of(42, 300)).expect(201));
    let barrier = std::sync::Barrier::new(2);
    let (candidates, rows) = std::thread::scope(|scope| {
        let candidates = scope.spawn(|| {
            barrier.wait();
            add(&server.client(), &dataset, &[NDJSON], column(300, &json!({"c": 0.5})).as_bytes()).status
        });
        barrier.wait();
        let path = format!("/v1/datasets/{dataset}/rows");
        let rows = server.client().send("POST", &path, &[NDJSON], Some(log_of(43, 300).as_bytes())).status;
        (candidates.join().unwrap(), rows)
    });
    let stored = client.get(&format!("/v1/datasets/{dataset}")).expect(200);
    // Whichever came second does not fit the version that it finds, or lost the race.
    match (candidates, rows) {
        (201, 409 | 422) => assert_eq!(stored["rows"], 300),
        (409 | 422, 201) => assert_eq!(stored["rows"], 600),
        other => panic!("{other:?}"),
    }
    assert_eq!(stored["version"], 2);
    assert_eq!(
        stored["capabilities"]["candidates"],
        if candidates == 201 { json!(["c"]) } else { json!([]) }
    );
}
