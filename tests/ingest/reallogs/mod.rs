//! The logs that teams already have, DSJSON and the Open Bandit Dataset, through the real server and the real
//! command line. The expected rows are computed independently.

use crate::common;

mod certificates;
mod command_line;
mod dsjson;
mod hashing;
mod obd;
mod sample;
mod sets;

use common::{Answer, Client};
use serde_json::Value;

/// A log with its options in the query.
fn upload(client: &Client, query: &str, content_type: &str, body: &str) -> Answer {
    let path = format!("/v1/datasets?{query}");
    client.send("POST", &path, &[("content-type", content_type)], Some(body.as_bytes()))
}

fn dsjson(client: &Client, query: &str, body: &str) -> Answer {
    upload(client, &format!("format=dsjson&{query}"), "application/json", body)
}

fn obd(client: &Client, query: &str, body: &str) -> Answer {
    upload(client, &format!("format=obd&{query}"), "text/csv", body)
}

fn ndjson(client: &Client, query: &str, rows: &[Value]) -> Answer {
    let body: String = rows.iter().map(|row| format!("{row}\n")).collect();
    upload(client, query, "application/x-ndjson", &body)
}

/// Asserts that exactly one row was rejected: its number, its field and a part of the message.
#[track_caller]
fn rejected_row(answer: &Answer, row: u64, field: &str, words: &str) {
    answer.problem(422, "invalid_rows");
    let errors = answer.json["errors"].as_array().unwrap();
    assert_eq!(answer.json["invalid_rows"], 1, "{}", answer.text);
    assert_eq!(
        (errors[0]["row"].as_u64(), errors[0]["field"].as_str()),
        (Some(row), Some(field)),
        "{}",
        answer.text
    );
    assert!(errors[0]["message"].as_str().unwrap().contains(words), "{words:?}: {}", answer.text);
}

#[track_caller]
fn warning_codes(dataset: &Value) -> Vec<&str> {
    let warnings = dataset["health"]["warnings"].as_array().unwrap();
    warnings.iter().map(|warning| warning["code"].as_str().unwrap()).collect()
}

fn nothing_is_stored(client: &Client) {
    let list = client.get("/v1/datasets").expect(200);
    assert_eq!(list["data"].as_array().unwrap().len(), 0, "{list}");
}
