//! Which rows a look may certify when other datasets have them, and rows that are sent twice, through the real server.

use crate::common;
use crate::honest::{
    add_candidates, append, certify, changed, column, evaluation, good_policy, shuffled, with,
};

use common::{Client, Server, files, id_of, log_of};
use serde_json::{Value, json};

fn upload(client: &Client, rows: &str) -> String {
    id_of(&client.upload("?outcome=reward", rows).expect(201))
}

fn anytime(spec: Value) -> Value {
    with(spec, json!({"looks": "anytime"}))
}

/// Whoever uploads the rows of a look again, with more of them, has chosen their number by their outcomes.
#[test]
fn rows_that_were_seen_in_another_dataset_are_not_fresh() {
    let server = Server::start();
    let client = server.client();
    let policy = good_policy(&client);
    let (old, more) = (log_of(101, 400), log_of(102, 300));
    let first = upload(&client, &old);
    certify(&client, evaluation(&first, &policy));
    let longer = upload(&client, &format!("{old}{more}"));
    for spec in [evaluation(&longer, &policy), json!({"dataset_id": longer})] {
        let refused = client.post("/v1/jobs", &spec);
        refused.problem(422, "no_fresh_rows");
        let detail = refused.json["detail"].as_str().unwrap();
        assert!(
            detail.contains(&first) && detail.contains("append") && detail.contains("anytime"),
            "{detail}"
        );
    }
    let (_, pooled) = certify(&client, anytime(evaluation(&longer, &policy)));
    assert_eq!((&pooled["certified"]["rows"], &pooled["spec"]["seen_rows"]), (&json!(700), &Value::Null));
    // Rows after those are fresh.
    append(&client, &longer, &log_of(103, 200)).expect(201);
    let (_, next) = certify(&client, evaluation(&longer, &policy));
    assert_eq!((&next["spec"]["seen_rows"], &next["certified"]["rows"]), (&json!(700), &json!(200)));
    // So are those that are appended to the dataset that was looked at.
    append(&client, &first, &log_of(104, 250)).expect(201);
    let (_, appended) = certify(&client, evaluation(&first, &policy));
    assert_eq!((&appended["spec"]["seen_rows"], &appended["certified"]["rows"]), (&json!(400), &json!(250)));
}

#[test]
fn it_does_not_matter_which_came_first() {
    let server = Server::start();
    let client = server.client();
    let policy = good_policy(&client);
    // Both datasets exist before the first look.
    let (old, more) = (log_of(105, 300), log_of(106, 300));
    let (short, long) = (upload(&client, &old), upload(&client, &format!("{old}{more}")));
    certify(&client, evaluation(&short, &policy));
    client.post("/v1/jobs", &evaluation(&long, &policy)).problem(422, "no_fresh_rows");
    // The longer one is looked at first.
    let (old, more) = (log_of(107, 300), log_of(108, 300));
    let (short, long) = (upload(&client, &old), upload(&client, &format!("{old}{more}")));
    certify(&client, evaluation(&long, &policy));
    client.post("/v1/jobs", &evaluation(&short, &policy)).problem(422, "no_fresh_rows");
    // The dataset that was looked at is deleted, and its rows come back with others.
    let (old, more) = (log_of(109, 300), log_of(110, 300));
    let deleted = upload(&client, &old);
    certify(&client, evaluation(&deleted, &policy));
    assert_eq!(client.delete(&format!("/v1/datasets/{deleted}")).status, 204);
    let long = upload(&client, &shuffled(&format!("{old}{more}")));
    client.post("/v1/jobs", &evaluation(&long, &policy)).problem(422, "no_fresh_rows");
    // Exactly the same rows are a second look at them.
    let again = upload(&client, &shuffled(&old));
    let (_, second) = certify(&client, evaluation(&again, &policy));
    assert_eq!((&second["spec"]["seen_rows"], &second["ledger"]["look"]), (&Value::Null, &json!(2)));
}

#[test]
fn an_unfinished_job_on_another_dataset_has_seen_the_rows() {
    let server = Server::start();
    let client = server.client();
    let policy = good_policy(&client);
    let (old, more) = (log_of(111, 300), log_of(112, 300));
    let short = id_of(&client.upload("?outcome=reward&logging=fixed", &old).expect(201));
    let long = upload(&client, &format!("{old}{more}"));
    let running = client.submit_endless(&short);
    client.post("/v1/jobs", &evaluation(&long, &policy)).problem(422, "no_fresh_rows");
    client.send("POST", &format!("/v1/jobs/{running}/cancel"), &[], None).expect(200);
}

/// The same as for the dataset's own looks: what was seen must stay its first rows.
#[test]
fn late_rows_do_not_move_rows_that_were_seen_elsewhere() {
    let server = Server::start();
    let client = server.client();
    let policy = good_policy(&client);
    let at = |seed: u64, rows: usize, day: usize| {
        changed(&log_of(seed, rows), |i, row| {
            row["timestamp"] = json!(format!("2026-03-{day:02}T{:02}:{:02}:00Z", i / 60, i % 60));
        })
    };
    let old = at(113, 300, 10);
    let (first, second) = (upload(&client, &old), upload(&client, &format!("{old}{}", at(114, 100, 11))));
    // Nobody has looked yet, so late rows can take their place. They may be anywhere among the rows.
    append(&client, &second, &at(115, 100, 9)).expect(201);
    certify(&client, evaluation(&first, &policy));
    client.post("/v1/jobs", &evaluation(&second, &policy)).problem(422, "no_fresh_rows");
    let refused = append(&client, &second, &at(116, 100, 9));
    refused.problem(422, "invalid_rows");
    assert_eq!(refused.json["errors"][0]["field"], "timestamp", "{}", refused.text);
    append(&client, &second, &at(117, 100, 12)).expect(201);
    let (_, fresh) = certify(&client, evaluation(&second, &policy));
    assert_eq!((&fresh["spec"]["seen_rows"], &fresh["certified"]["rows"]), (&json!(500), &json!(100)));
}

#[test]
fn rows_of_the_same_time_keep_their_order() {
    let server = Server::start();
    let client = server.client();
    let policy = good_policy(&client);
    // Ten rows a minute.
    let at = |seed: u64, rows: usize, hour: usize| {
        changed(&log_of(seed, rows), |i, row| {
            row["timestamp"] = json!(format!("2026-03-10T{hour:02}:{:02}:00Z", i / 10));
        })
    };
    let (one, two) = (at(118, 300, 1), at(119, 300, 2));
    let dataset = upload(&client, &one);
    let (_, first) = certify(&client, evaluation(&dataset, &policy));
    // A row at exactly the last time arrived after those that were certified; an earlier one did not.
    let last = json!("2026-03-10T01:29:00Z");
    let tied = changed(&log_of(120, 200), |_, row| row["timestamp"] = last.clone());
    let stored = append(&client, &dataset, &tied).expect(201);
    assert_eq!(stored["rows"], 500);
    let before = changed(&log_of(121, 20), |_, row| row["timestamp"] = json!("2026-03-10T01:28:59.999Z"));
    append(&client, &dataset, &before).problem(422, "invalid_rows");
    let (_, second) = certify(&client, evaluation(&dataset, &policy));
    assert_eq!(
        (
            &second["spec"]["seen_rows"],
            &second["certified"]["rows"],
            &second["certified"]["span"]["first_certified_row"]
        ),
        (&json!(300), &json!(200), &json!(300))
    );
    // The first rows are still those of the first certificate: a log with the parts in this order has the same
    // numbers as one whose rows came in another order but have the same times, ties aside.
    assert_eq!(client.post("/v1/certificates/verify", &first).expect(200)["valid"], true);
    let ordered = upload(&client, &format!("{one}{two}"));
    let server = Server::start();
    let other = server.client();
    let policy_there = good_policy(&other);
    let swapped = upload(&other, &format!("{two}{one}"));
    let at_once = |client: &Client, dataset: &str, policy: &Value| {
        let (_, certificate) = certify(client, anytime(evaluation(dataset, policy)));
        certificate["bounds"][0]["value"].clone()
    };
    assert_eq!(at_once(&client, &ordered, &policy), at_once(&other, &swapped, &policy_there));
}

#[test]
fn repeated_rows_are_found_in_any_order() {
    let server = Server::start();
    let client = server.client();
    let rows = log_of(122, 300);
    let dataset = upload(&client, &rows);
    append(&client, &dataset, &log_of(123, 900)).expect(201);
    let stored = files(&server.data.path().join("blobs"));
    let half: String = shuffled(&rows).lines().step_by(2).map(|line| format!("{line}\n")).collect();
    for again in [shuffled(&rows), half, shuffled(&format!("{rows}{}", log_of(124, 100)))] {
        let refused = append(&client, &dataset, &again);
        refused.problem(422, "repeated_rows");
        assert!(refused.json["detail"].as_str().unwrap().contains("event_id"), "{}", refused.text);
    }
    let view = client.get(&format!("/v1/datasets/{dataset}")).expect(200);
    assert_eq!((&view["version"], &view["rows"]), (&json!(2), &json!(1200)));
    assert_eq!(files(&server.data.path().join("blobs")), stored, "nothing is left behind");
    append(&client, &dataset, &log_of(125, 300)).expect(201);

    // Each row twice in place.
    let doubled: String = rows.lines().map(|line| format!("{line}\n{line}\n")).collect();
    client.upload("?outcome=reward", &doubled).problem(422, "repeated_rows");
    // With ids, equal rows are decisions of their own.
    let ids =
        |from: usize, rows: &str| changed(rows, |i, row| row["event_id"] = json!(format!("e{}", from + i)));
    let named = upload(&client, &ids(0, &doubled));
    append(&client, &named, &ids(600, &shuffled(&rows))).expect(201);
    // A log without features repeats itself honestly.
    let bare = |seed: u64| {
        changed(&log_of(seed, 300), |_, row| {
            row.as_object_mut().unwrap().remove("x");
        })
    };
    let plain = upload(&client, &bare(126));
    for seed in 127..131 {
        append(&client, &plain, &bare(seed)).expect(201);
    }
}

/// Small appends are remembered together.
#[test]
fn many_appends_are_recognized() {
    let server = Server::start();
    let client = server.client();
    let dataset = upload(&client, &log_of(200, 60));
    for seed in 201..240 {
        append(&client, &dataset, &log_of(seed, 60)).expect(201);
    }
    for seed in [200, 215, 239] {
        append(&client, &dataset, &shuffled(&log_of(seed, 60))).problem(422, "repeated_rows");
        let part = client.upload("?outcome=reward", &shuffled(&log_of(seed, 60))).expect(201);
        let shared = part["ledger"]["shared_with"].as_array().unwrap();
        assert!(shared.contains(&json!(dataset)), "{seed}: {part}");
    }
    let policy = good_policy(&client);
    certify(&client, evaluation(&dataset, &policy));
    let part = upload(&client, &shuffled(&format!("{}{}", log_of(200, 60), log_of(202, 60))));
    client.post("/v1/jobs", &evaluation(&part, &policy)).problem(422, "no_fresh_rows");
}

#[test]
fn candidates_are_added_a_limited_number_of_times() {
    let server = Server::start();
    let client = server.client();
    let rows = log_of(132, 20);
    let dataset = upload(&client, &rows);
    for i in 0..20 {
        add_candidates(&client, &dataset, &column(&rows, &format!("c{i}"))).expect(201);
    }
    let stored = files(&server.data.path().join("blobs"));
    let refused = add_candidates(&client, &dataset, &column(&rows, "more"));
    refused.problem(422, "too_large");
    assert!(refused.json["detail"].as_str().unwrap().contains("20 times"), "{}", refused.text);
    assert_eq!(files(&server.data.path().join("blobs")), stored);
    let both = changed(&log_of(133, 20), |_, row| {
        row["candidates"] =
            (0..20).map(|i| (format!("c{i}"), json!(0.5))).collect::<serde_json::Map<_, _>>().into();
    });
    assert_eq!(append(&client, &dataset, &both).expect(201)["rows"], 40);
}

/// Rows that come again in parts which are too small to tell are recognized together.
#[test]
fn rows_that_are_repeated_in_small_appends_are_refused() {
    let server = Server::start();
    let client = server.client();
    let rows = log_of(61, 300);
    let dataset = id_of(&client.upload("?outcome=reward", &rows).expect(201));
    let lines: Vec<&str> = rows.lines().collect();
    let appended = lines.chunks(20).map(|part| append(&client, &dataset, &(part.join("\n") + "\n")));
    let refused = appended.take(15).position(|answer| answer.status == 422);
    assert!(refused.is_some_and(|at| at <= 8), "{refused:?}");
    // New rows in such parts are accepted.
    let other = id_of(&client.upload("?outcome=reward", &log_of(62, 300)).expect(201));
    for seed in 63..75 {
        append(&client, &other, &log_of(seed, 20)).expect(201);
    }
}

/// A learned policy with another scale, or as another kind of policy, knows the same.
#[test]
fn a_policy_keeps_its_descent_in_another_form() {
    let server = Server::start();
    let client = server.client();
    let dataset = id_of(&client.upload("?outcome=reward", &log_of(71, 800)).expect(201));
    let (job, _) = certify(&client, json!({"dataset_id": dataset, "explore": 0}));
    let policy = id_of(&client.get(&format!("/v1/jobs/{job}/policy")).expect(200));
    let mut params = client.get(&format!("/v1/policies/{policy}/parameters")).expect(200);
    params["scale"] = json!(2.0 * params["scale"].as_f64().unwrap());
    let wider = client.post("/v1/policies", &params).expect(201)["id"].clone();
    params["kind"] = json!("mixed_logit");
    let other = client.post("/v1/policies", &params).expect(201)["id"].clone();
    for policy in [wider, other] {
        client.post("/v1/jobs", &evaluation(&dataset, &policy)).problem(422, "policy_learned_here");
    }
}
