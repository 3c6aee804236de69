//! Logs whose rows have their own actions, through the real program.

use std::process::Command;

use serde_json::{Value, json};

use super::{dsjson, ndjson, rejected_row, upload, warning_codes};
use crate::common::{BINARY, Server, id_of};

/// A line with 2 to 4 articles, the chosen one first in `a`.
fn line(i: usize) -> Value {
    let k = 2 + i % 3;
    let chosen = i % k;
    let order: Vec<usize> = [chosen].into_iter().chain((0..k).filter(|&a| a != chosen)).collect();
    let p: Vec<f64> =
        order.iter().map(|&a| if a == 0 { 1.0 - (k - 1) as f64 / 7.0 } else { 1.0 / 7.0 }).collect();
    let article =
        |a: usize| json!({"Article": {"topic": (["sport", "food"][(i + a) % 2]), "fresh": a as f64 / 4.0}});
    json!({"_label_cost": -((i % 2) as i32), "EventId": format!("e{i}"), "Timestamp": format!("2026-01-01T00:{:02}:{:02}Z", i / 60, i % 60),
        "a": order.iter().map(|a| a + 1).collect::<Vec<_>>(), "p": p,
        "c": {"User": {"age": i as f64 / 8.0}, "_multi": (0..k).map(article).collect::<Vec<_>>()}})
}

/// The same as a row of NDJSON.
fn row(i: usize) -> Value {
    let line = line(i);
    let k = line["a"].as_array().unwrap().len();
    let p: Vec<f64> = (0..k).map(|a| if a == 0 { 1.0 - (k - 1) as f64 / 7.0 } else { 1.0 / 7.0 }).collect();
    json!({"x": {"User": line["c"]["User"]}, "actions": line["c"]["_multi"], "action": i % k, "propensities": p,
        "cost": line["_label_cost"], "event_id": line["EventId"], "timestamp": line["Timestamp"]})
}

fn lines(range: std::ops::Range<usize>) -> String {
    range.map(|i| format!("{}\n", line(i))).collect()
}

#[test]
fn sets_are_stored_appended_and_reported() {
    let server = Server::start();
    let client = server.client();
    let rows: Vec<Value> = (0..300).map(row).collect();
    let whole = ndjson(&client, "", &rows).expect(201);
    assert_eq!((&whole["rows"], &whole["n_actions"], &whole["dim"]), (&json!(300), &json!(4), &json!(0)));
    let named = json!({"form": "named", "dim": 1 << 24});
    assert_eq!(whole["capabilities"]["action_sets"], json!({"x": named, "actions": named}));
    let sizes = &whole["health"]["action_sets"];
    assert_eq!(
        (&sizes["least_actions"], &sizes["mean_actions"], &sizes["most_actions"]),
        (&json!(2), &json!(3.0), &json!(4))
    );
    assert!(!warning_codes(&whole).contains(&"actions_never_logged"), "{whole}");

    let read = dsjson(&client, "", &lines(0..300)).expect(201);
    assert_eq!(read["digest"], whole["digest"]);
    let first = dsjson(&client, "", &lines(0..100)).expect(201);
    let path = format!("/v1/datasets/{}/rows?format=dsjson", id_of(&first));
    let kind = [("content-type", "application/json")];
    let longer = client.send("POST", &path, &kind, Some(lines(100..300).as_bytes())).expect(201);
    assert_eq!((&longer["digest"], &longer["version"]), (&whole["digest"], &json!(2)));
    let fixed = json!({"x": [1], "action": 0, "propensities": [0.5, 0.5], "cost": 0, "event_id": "n", "timestamp": "2027-01-01T00:00:00Z"});
    let path = format!("/v1/datasets/{}/rows", id_of(&first));
    let kind = [("content-type", "application/x-ndjson")];
    let answer = client.send("POST", &path, &kind, Some(fixed.to_string().as_bytes()));
    rejected_row(&answer, 1, "actions", "is missing, but earlier rows have it");
}

#[test]
fn options_and_rows_that_do_not_fit_are_refused() {
    let server = Server::start();
    let client = server.client();
    for (query, field) in [
        ("n_actions=4", "n_actions"),
        ("repetitions=designed", "repetitions"),
        ("hash_dims=16777217", "hash_dims"),
    ] {
        let answer = ndjson(&client, query, &[row(0), row(1)]);
        answer.problem(422, "invalid_value");
        assert_eq!(answer.json["errors"][0]["field"], field, "{}", answer.text);
    }
    let mut wrong = row(1);
    wrong["actions"][1] = json!([1, 2]);
    rejected_row(
        &ndjson(&client, "", &[row(0), wrong]),
        2,
        "actions[1]",
        "is a list of numbers, but actions[0] is not",
    );
    let answer = upload(
        &client,
        "",
        "application/x-ndjson",
        r#"{"x": {"a": 1}, "action": 0, "propensity": 0.5, "cost": 0}"#,
    );
    rejected_row(&answer, 1, "x", "has named features, which need actions");
}

#[test]
fn inspect_reports_on_sets() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("log.dsjson");
    std::fs::write(&file, lines(0..300)).unwrap();
    let output = Command::new(BINARY).arg("inspect").arg(&file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "2 to 4, on average 3.0, in each row",
        "request features",
        "named, on average 1.7 not 0",
        "How often each position was taken",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}
