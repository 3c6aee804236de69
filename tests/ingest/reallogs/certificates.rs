//! A log in DSJSON or OBD and the same log as NDJSON have the same digest and the same certificate.

use serde_json::{Value, json};

use super::hashing::features;
use super::{dsjson, ndjson, obd};
use crate::common::{Client, Server, id_of};

/// The policies of these tests draw with exactly the numbers that they log.
const EXACT: &str = "exact_propensities=true";

/// A time of day in the given seconds after midnight.
fn clock(seconds: usize) -> String {
    format!("{:02}:{:02}:{:02}.25", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Numbers that look random enough to be learned from.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

fn certificate(client: &Client, dataset: &Value) -> Value {
    let job = client.submit(json!({"dataset_id": id_of(dataset), "seed": 3}));
    assert_eq!(client.finish(&job)["status"], "succeeded");
    let mut certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    let fields = certificate.as_object_mut().unwrap();
    fields.retain(|name, _| !["issued", "ledger", "signature"].contains(&name.as_str()));
    certificate
}

#[track_caller]
fn same(client: &Client, one: &Value, other: &Value) {
    assert_eq!(one["digest"], other["digest"]);
    let (one, other) = (certificate(client, one), certificate(client, other));
    assert!(one["digest"].as_str().unwrap().starts_with("sha256:"), "{one}");
    assert_eq!(one, other);
}

#[test]
fn dsjson_and_ndjson_have_one_certificate() {
    let server = Server::start();
    let client = server.client();
    let (mut random, mut lines, mut rows) = (Random(1), String::new(), Vec::new());
    for i in 0..800 {
        let (major, age) =
            (["engineering", "history", "law"][random.below(3)], random.below(40) as f64 / 8.0);
        let action = random.below(2);
        let p = if major == "law" { [0.25, 0.75] } else { [0.5, 0.5] };
        let cost = if (major == "law") == (action == 0) { -1.0 } else { 0.0 };
        let (a, listed) = if action == 0 { ([1, 2], p) } else { ([2, 1], [p[1], p[0]]) };
        let line = json!({"_label_cost": cost, "_label_probability": p[action], "_label_Action": action + 1,
            "_labelIndex": action, "Timestamp": format!("2021-02-04T{}00000Z", clock(i * 37 % 800)), "EventId": format!("e{i}"), "a": a, "p": listed,
            "c": {"GUser": {"major": major, "age": age}, "_multi": [{}, {}]}, "VWState": {"m": "N/A"}});
        lines.push_str(&format!("{line}\n"));
        let x = features(32, &[("GUser.age".into(), age), (format!("GUser.major={major}"), 1.0)]);
        rows.push(json!({"x": x, "action": action, "propensity": p[action], "propensities": p, "cost": cost,
            "event_id": format!("e{i}"), "timestamp": format!("2021-02-04T{}Z", clock(i * 37 % 800))}));
    }
    let read = dsjson(&client, &format!("hash_dims=32&{EXACT}"), &lines).expect(201);
    let written = ndjson(&client, EXACT, &rows).expect(201);
    // Only DSJSON records how much was dropped upstream.
    let mut health = read["health"].clone();
    assert_eq!(health.as_object_mut().unwrap().remove("pdrop"), Some(json!(0.0)));
    assert_eq!(health, written["health"]);
    same(&client, &read, &written);
}

#[test]
fn obd_and_ndjson_have_one_certificate() {
    let server = Server::start();
    let client = server.client();
    let mut random = Random(2);
    let mut text = String::from(",timestamp,item_id,position,click,propensity_score,user_feature_0\n");
    let mut rows = Vec::new();
    for i in 0..800 {
        let (user, item, position) = (random.below(3), random.below(4), 1 + random.below(3));
        let click = u8::from(user == item);
        // Not in the order of the rows: times decide.
        let time = clock(i * 37 % 800);
        text.push_str(&format!("{i},2019-11-24 {time}+00:00,{item},{position},{click},0.25,u{user}\n"));
        let mut x = features(16, &[(format!("user_feature_0=u{user}"), 1.0)]);
        x.extend((1..=3).map(|p| f64::from(u8::from(p == position))));
        rows.push(
            json!({"x": x, "action": item, "propensity": 0.25, "propensities": vec![0.25; 4], "reward": click,
                "timestamp": format!("2019-11-24T{time}Z")}),
        );
    }
    let read = obd(&client, &format!("hash_dims=16&{EXACT}"), &text).expect(201);
    let written = ndjson(&client, &format!("outcome=reward&{EXACT}"), &rows).expect(201);
    assert_eq!((&read["capabilities"], &read["health"]), (&written["capabilities"], &written["health"]));
    same(&client, &read, &written);
}
