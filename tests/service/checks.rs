//! Checks at upload through the real server: what was not tested says so, and times decide the order.

use crate::common;

use common::{Client, Server, id_of, log_of};
use serde_json::{Value, json};

fn changed(rows: &str, change: impl Fn(usize, &mut Value)) -> Vec<Value> {
    let rows = rows.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut rows: Vec<Value> = rows.collect();
    rows.iter_mut().enumerate().for_each(|(i, row)| change(i, row));
    rows
}

fn text(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

fn certificate(client: &Client, spec: Value) -> Value {
    let job = client.submit(spec);
    let done = client.finish(&job);
    assert_eq!(done["status"], "succeeded", "{done}");
    client.get(&format!("/v1/jobs/{job}/certificate")).expect(200)
}

fn named<'a>(checks: &'a Value, name: &str) -> Vec<&'a Value> {
    checks.as_array().unwrap().iter().filter(|check| check["name"] == name).collect()
}

/// The mean of 1/propensity is 8.33 where at most 3 is possible, also if the number of actions was not stated.
#[test]
fn false_propensities_keep_without_n_actions() {
    let server = Server::start();
    let client = server.client();
    let rows = changed(&log_of(50, 3000), |_, row| {
        row.as_object_mut().unwrap().remove("propensities");
        row["propensity"] = json!(0.12);
    });
    let dataset = client.upload("?outcome=reward", &text(&rows)).expect(201);
    let mean = &dataset["health"]["inverse_propensity_mean"];
    assert!(mean["observed"].as_f64().unwrap() > 8.3 && mean["expected"] == 3.0, "{mean}");
    assert_eq!(mean["ok"], false);
    let check = named(&dataset["health"]["checks"], "propensities")[0];
    assert_eq!(check["ok"], false);
    let certificate = certificate(&client, json!({"dataset_id": id_of(&dataset)}));
    assert_eq!(certificate["decision"], "keep");
    let reasons = certificate["reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|r| r["code"] == "log_check_failed:propensities"), "{reasons:?}");
    for check in named(&certificate["checks"], "propensities") {
        assert_eq!(check["ok"], false, "{check}");
    }
}

/// A fixed log whose file is sorted by its outcomes, with times: the log does not change over time.
#[test]
fn a_file_in_another_order_than_its_times_deploys() {
    let server = Server::start();
    let client = server.client();
    let mut rows = changed(&log_of(51, 4000), |i, row| row["timestamp"] = json!(1_700_000_000 + i));
    rows.sort_by_key(|row| row["reward"].as_u64());
    let dataset = client.upload("?outcome=reward&logging=fixed", &text(&rows)).expect(201);
    assert_eq!(named(&dataset["health"]["checks"], "drift")[0]["ok"], true);
    let certificate = certificate(&client, json!({"dataset_id": id_of(&dataset)}));
    assert_eq!(certificate["decision"], "deploy", "{}", certificate["reasons"]);
    // By its rows alone it changes in the middle.
    rows.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("timestamp")));
    let plain = client.upload("?outcome=reward&logging=fixed", &text(&rows)).expect(201);
    assert_eq!(named(&plain["health"]["checks"], "drift")[0]["ok"], false);
}
