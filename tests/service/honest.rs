//! What happens to logs that do not meet the assumptions of the guarantee: each line is something that teams have
//! done, through the real server. None of them may end in `deploy`.

use crate::common;

use common::{Client, Server, id_of, log_of};
use serde_json::{Value, json};

const NDJSON: [(&str, &str); 1] = [("content-type", "application/x-ndjson")];
/// The propensities of a policy that chooses uniformly among three actions, with all of their digits.
const THIRD: f64 = 1.0 / 3.0;

/// The rows of a log, each changed by `change`.
pub fn changed(rows: &str, change: impl Fn(usize, &mut Value)) -> String {
    let row = |(i, line): (usize, &str)| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        change(i, &mut row);
        format!("{row}\n")
    };
    rows.lines().enumerate().map(row).collect()
}

/// Only the propensity of the logged action, written as this number.
fn written(row: &mut Value, propensity: f64) {
    row.as_object_mut().unwrap().remove("propensities");
    row["propensity"] = json!(propensity);
}

pub fn shuffled(rows: &str) -> String {
    let mut lines: Vec<&str> = rows.lines().collect();
    lines.sort_by_key(|line| line.bytes().rev().collect::<Vec<u8>>());
    lines.join("\n") + "\n"
}

pub fn certify(client: &Client, spec: Value) -> (String, Value) {
    let job = client.submit(spec);
    let done = client.finish(&job);
    assert_eq!(done["status"], "succeeded", "{done}");
    let certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    let checked = client.post("/v1/certificates/verify", &certificate).expect(200);
    assert_eq!(checked["valid"], true, "{checked}");
    (job, certificate)
}

fn codes(certificate: &Value) -> Vec<&str> {
    let reasons = certificate["reasons"].as_array().unwrap();
    reasons.iter().map(|reason| reason["code"].as_str().unwrap()).collect()
}

/// The job keeps because of a failed check, and the gate shows it.
#[track_caller]
fn assert_kept_by(client: &Client, spec: Value, check: &str) -> Value {
    let (job, certificate) = certify(client, spec);
    assert_eq!(certificate["decision"], "keep", "{certificate}");
    let code = format!("log_check_failed:{check}");
    assert!(codes(&certificate).contains(&code.as_str()), "{:?}", codes(&certificate));
    let gate = client.get(&format!("/v1/jobs/{job}/gate"));
    gate.problem(403, "decision_keep");
    let failed = |check_: &&Value| check_["ok"] == false && check_["name"] == check;
    let checks = gate.json["checks"].as_array().unwrap();
    assert!(checks.iter().any(|check| failed(&check)), "{}", gate.text);
    assert_eq!(gate.json["checks"], certificate["checks"]);
    certificate
}

pub fn logged(dataset: &str, name: &str) -> Value {
    json!({"dataset_id": dataset, "candidates": [{"kind": "logged", "name": name}], "independent_of_log": true})
}

pub fn with(mut spec: Value, more: Value) -> Value {
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

pub fn append(client: &Client, dataset: &str, rows: &str) -> common::Answer {
    client.send("POST", &format!("/v1/datasets/{dataset}/rows"), &NDJSON, Some(rows.as_bytes()))
}

/// A policy that plays the best action of `log_of` nearly always.
pub fn good_policy(client: &Client) -> Value {
    let mean = json!([[0.0, 40.0, -40.0], [0.0, 0.0, 0.0]]);
    client.post("/v1/policies", &json!({"kind": "softmax", "mean": mean})).expect(201)["id"].clone()
}

pub fn evaluation(dataset: &str, policy: &Value) -> Value {
    json!({"dataset_id": dataset, "candidates": [{"kind": "policy", "policy_id": policy}],
        "independent_of_log": true})
}

#[test]
fn a_candidate_column_with_the_candidates_own_confidence_keeps() {
    let server = Server::start();
    let client = server.client();
    // The probability of the action that the candidate would have played, not of the one that was logged.
    let rows = changed(&log_of(1, 1500), |i, row| {
        row["candidates"] = json!({"new": 0.75 + 0.2 * ((i * 7) % 11) as f64 / 11.0});
    });
    let dataset = id_of(&client.upload("?outcome=reward", &rows).expect(201));
    let certificate = assert_kept_by(&client, logged(&dataset, "new"), "candidate_weights");
    assert_eq!(certificate["candidates"][0]["decision"], "keep");
}

#[test]
fn a_certificate_names_the_candidate_that_passed_its_checks() {
    let server = Server::start();
    let client = server.client();
    // `confident` has the larger bound, but its weights are wrong. `good` plays the best action nearly always.
    let rows = changed(&log_of(9, 1500), |_, row| {
        let best = if row["x"][0].as_f64().unwrap() > 0.0 { 1 } else { 2 };
        let good = if row["action"] == best { 0.9012345678 } else { 0.0493827161 };
        row["candidates"] = json!({"confident": 0.98, "good": good});
    });
    let dataset = id_of(&client.upload("?outcome=reward", &rows).expect(201));
    let candidates = json!([{"kind": "logged", "name": "confident"}, {"kind": "logged", "name": "good"}]);
    let (job, certificate) =
        certify(&client, with(logged(&dataset, "good"), json!({"candidates": candidates})));
    let improvement = |i: usize| certificate["candidates"][i]["guaranteed_improvement"].as_f64().unwrap();
    assert!(improvement(0) > improvement(1), "{certificate}");
    assert_eq!(
        (&certificate["candidates"][0]["decision"], &certificate["decision"]),
        (&json!("keep"), &json!("deploy"))
    );
    assert_eq!(certificate["candidate"], "logged:good");
    let statement = certificate["statement"].as_str().unwrap();
    assert!(statement.contains("logged:good improves") && !statement.contains("confident"), "{statement}");
    let job = client.get(&format!("/v1/jobs/{job}")).expect(200);
    assert_eq!(job["result"]["candidate"], "logged:good");
}

#[test]
fn propensities_that_do_not_fit_keep() {
    let server = Server::start();
    let client = server.client();
    // The mean of 1/propensity is 8.33 where 3 is expected.
    let rows = changed(&log_of(2, 1500), |_, row| written(row, 0.12));
    let dataset = id_of(&client.upload("?outcome=reward&n_actions=3", &rows).expect(201));
    assert_kept_by(&client, json!({"dataset_id": dataset}), "propensities");
}

#[test]
fn rounded_propensities_do_not_make_a_policy_better_than_itself() {
    let server = Server::start();
    let client = server.client();
    let rows = changed(&log_of(3, 5000), |_, row| {
        written(row, 0.333);
        row["reward"] = json!(1);
        row["candidates"] = json!({"itself": 0.333});
    });
    let dataset = id_of(&client.upload("?outcome=reward&n_actions=3", &rows).expect(201));
    for bound in ["auto", "betting", "log_smoothing", "ix"] {
        let (job, certificate) = certify(&client, with(logged(&dataset, "itself"), json!({"bound": bound})));
        assert_eq!(certificate["decision"], "keep", "{bound}: {certificate}");
        let improvement = certificate["guaranteed_improvement"].as_f64().unwrap();
        assert!(improvement <= 0.0, "{bound}: {improvement}");
        client.get(&format!("/v1/jobs/{job}/gate")).problem(403, "decision_keep");
    }
}

#[test]
fn the_same_rows_cannot_be_appended_again() {
    let server = Server::start();
    let client = server.client();
    let rows = log_of(4, 300);
    let dataset = id_of(&client.upload("?outcome=reward", &rows).expect(201));
    for _ in 0..2 {
        let refused = append(&client, &dataset, &rows);
        refused.problem(422, "repeated_rows");
        assert!(refused.json["detail"].as_str().unwrap().contains("event_id"), "{}", refused.text);
    }
    let stored = client.get(&format!("/v1/datasets/{dataset}")).expect(200);
    assert_eq!((&stored["version"], &stored["rows"]), (&json!(1), &json!(300)));
    append(&client, &dataset, &log_of(5, 300)).expect(201);
}

#[test]
fn a_stated_baseline_that_the_log_contradicts_keeps() {
    let server = Server::start();
    let client = server.client();
    let rows = changed(&log_of(6, 1000), |i, row| row["reward"] = json!(i % 2));
    let dataset = id_of(&client.upload("?outcome=reward", &rows).expect(201));
    let known = json!({"baseline": {"kind": "known", "risk": 0.0}});
    assert_kept_by(
        &client,
        with(evaluation(&dataset, &good_policy(&client)), known.clone()),
        "known_baseline",
    );
    assert_kept_by(&client, with(json!({"dataset_id": dataset}), known), "known_baseline");
}

/// The body that stores a learned policy again.
fn downloaded(client: &Client, job: &str) -> Value {
    let policy = id_of(&client.get(&format!("/v1/jobs/{job}/policy")).expect(200));
    client.get(&format!("/v1/policies/{policy}/parameters")).expect(200)
}

#[test]
fn the_same_rows_have_one_ledger_and_a_policy_keeps_its_descent() {
    let server = Server::start();
    let client = server.client();
    let rows = log_of(7, 800);
    let first = id_of(&client.upload("?outcome=reward", &rows).expect(201));
    let alone = client.get(&format!("/v1/datasets/{first}"));
    assert_eq!(alone.json["ledger"], json!({"shared_with": []}));
    let (job, certificate) = certify(&client, json!({"dataset_id": first}));
    assert_eq!(certificate["ledger"]["look"], 1);
    let params = downloaded(&client, &job);
    let again = client.post("/v1/policies", &params).expect(201);
    assert_eq!(again["digest"], certificate["policy"]["digest"]);

    // In another order, as a new dataset.
    let second = client.upload("?outcome=reward", &shuffled(&rows)).expect(201);
    assert_eq!(second["ledger"]["shared_with"], json!([first]), "{second}");
    assert!(second["ledger"]["note"].as_str().unwrap().contains("same rows"), "{second}");
    let second = id_of(&second);
    let tag = alone.header("etag").unwrap();
    let seen = client.send("GET", &format!("/v1/datasets/{first}"), &[("if-none-match", tag)], None);
    assert_eq!(seen.expect(200)["ledger"]["shared_with"], json!([second]));
    for policy in [&certificate["issued"]["policy_id"], &again["id"]] {
        client.post("/v1/jobs", &evaluation(&second, policy)).problem(422, "policy_learned_here");
    }
    let (_, next) = certify(&client, with(json!({"dataset_id": second}), json!({"delta": 0.02})));
    assert_eq!((&next["ledger"]["look"], &next["ledger"]["spent"]), (&json!(2), &json!(0.05 + 0.02)));
    for dataset in [&first, &second] {
        let ledger = client.get(&format!("/v1/datasets/{dataset}/ledger")).expect(200);
        assert_eq!((&ledger["looks"], &ledger["spent"]), (&json!(2), &json!(0.05 + 0.02)), "{ledger}");
        let of = |i: usize| ledger["data"][i]["dataset_id"].clone();
        assert_eq!((of(0), of(1)), (json!(second), json!(first)));
    }

    // With outcomes of another range.
    let wider = client.upload("?outcome=reward&outcome_max=2", &rows).expect(201);
    assert!(wider["ledger"]["shared_with"].as_array().unwrap().contains(&json!(first)), "{wider}");
    client.post("/v1/jobs", &evaluation(&id_of(&wider), &again["id"])).problem(422, "policy_learned_here");
    assert_eq!(client.delete(&format!("/v1/datasets/{}", id_of(&wider))).status, 204);

    // Everything is deleted; the rows and the parameters are still known.
    for policy in client.get("/v1/policies?limit=100").expect(200)["data"].as_array().unwrap() {
        client.delete(&format!("/v1/policies/{}", id_of(policy))).expect(204);
    }
    for dataset in [&first, &second] {
        assert_eq!(client.delete(&format!("/v1/datasets/{dataset}")).status, 204);
    }
    let third = client.upload("?outcome=reward", &rows).expect(201);
    let shared = third["ledger"]["shared_with"].as_array().unwrap();
    assert!(shared.contains(&json!(first)) && shared.contains(&json!(second)), "{third}");
    let third = id_of(&third);
    // Exploring more does not change what the policy was learned from.
    let mut bolder = params.clone();
    bolder["share"] = json!(0.1);
    for params in [&params, &params["base"], &bolder] {
        let stored = client.post("/v1/policies", params).expect(201);
        client.post("/v1/jobs", &evaluation(&third, &stored["id"])).problem(422, "policy_learned_here");
    }
    let (_, last) = certify(&client, json!({"dataset_id": third}));
    assert_eq!(last["ledger"]["look"], 3, "{last}");
    // Other rows are other rows.
    let other = client.upload("?outcome=reward", &log_of(8, 800)).expect(201);
    assert_eq!(other["ledger"], json!({"shared_with": []}));
    let stored = client.post("/v1/policies", &params).expect(201);
    let (_, fresh) = certify(&client, evaluation(&id_of(&other), &stored["id"]));
    assert_eq!(fresh["ledger"]["look"], 1);
}

/// Two datasets with looks of their own turn out to have some of the same rows.
#[test]
fn an_append_can_join_two_ledgers() {
    let server = Server::start();
    let client = server.client();
    let (one, two) = (log_of(9, 400), log_of(10, 400));
    let first = id_of(&client.upload("?outcome=reward", &one).expect(201));
    let second = id_of(&client.upload("?outcome=reward", &two).expect(201));
    let policy = good_policy(&client);
    for dataset in [&first, &second] {
        let (_, certificate) = certify(&client, evaluation(dataset, &policy));
        assert_eq!(certificate["ledger"]["look"], 1);
    }
    let joined = append(&client, &second, &shuffled(&one)).expect(201);
    assert_eq!(joined["ledger"]["shared_with"], json!([first]), "{joined}");
    // The look at the first dataset has seen them. The look at the second had not seen rows of the first.
    client.post("/v1/jobs", &evaluation(&second, &policy)).problem(422, "no_fresh_rows");
    let (_, third) = certify(&client, with(evaluation(&first, &policy), json!({"tau": 0.2})));
    assert_eq!(
        (&third["ledger"]["look"], &third["ledger"]["spent_before"], &third["spec"]["seen_rows"]),
        (&json!(3), &json!(0.05 + 0.05), &Value::Null)
    );
    let ledger = client.get(&format!("/v1/datasets/{second}/ledger?limit=2")).expect(200);
    assert_eq!((&ledger["looks"], &ledger["data"].as_array().unwrap().len()), (&json!(3), &2));
    let after = ledger["next"].as_str().unwrap();
    let rest = client.get(&format!("/v1/datasets/{second}/ledger?limit=2&after={after}")).expect(200);
    assert_eq!((&rest["data"][0]["dataset_id"], &rest["next"]), (&json!(first), &Value::Null));
}

#[test]
fn a_guaranteed_risk_is_a_possible_risk() {
    let server = Server::start();
    let client = server.client();
    let rows = changed(&log_of(11, 600), |_, row| {
        row.as_object_mut().unwrap().remove("reward");
        row["cost"] = json!(-1);
    });
    let dataset = id_of(&client.upload("?logging=fixed", &rows).expect(201));
    let policy = good_policy(&client);
    let mut specs = vec![json!({"dataset_id": dataset})];
    for bound in ["auto", "betting", "log_smoothing", "ix", "catoni", "london_sandler", "cbb"] {
        specs.push(with(evaluation(&dataset, &policy), json!({"bound": bound, "delta": 0.5})));
    }
    for spec in specs {
        let (_, certificate) = certify(&client, spec.clone());
        let risk = certificate["guaranteed_risk"].as_f64().unwrap();
        assert!((-1.0..=0.0).contains(&risk), "{spec}: {risk}");
        for candidate in certificate["candidates"].as_array().unwrap() {
            let risk = candidate["guaranteed_risk"].as_f64().unwrap();
            assert!((-1.0..=0.0).contains(&risk), "{spec}: {risk}");
        }
    }
}

#[test]
fn bounds_that_need_a_fixed_policy_are_refused_unless_it_is_attested() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.upload("?outcome=reward", &log_of(12, 300)).expect(201);
    assert_eq!((&dataset["logging"], &dataset["repetitions"]), (&json!("adaptive"), &json!("decisions")));
    let fixed = client.upload("?outcome=reward&logging=fixed", &log_of(13, 300)).expect(201);
    assert_eq!((&fixed["logging"], &fixed["exact_propensities"]), (&json!("fixed"), &json!(false)));
    let policy = good_policy(&client);
    for bound in ["london_sandler", "catoni", "cbb"] {
        for spec in [json!({"dataset_id": id_of(&dataset)}), evaluation(&id_of(&dataset), &policy)] {
            let refused = client.post("/v1/jobs", &with(spec, json!({"bound": bound})));
            refused.problem(422, "bound_needs_fixed_logging");
            assert!(refused.json["detail"].as_str().unwrap().contains("betting"), "{}", refused.text);
        }
        let (_, certificate) =
            certify(&client, with(evaluation(&id_of(&fixed), &policy), json!({"bound": bound})));
        assert_eq!(certificate["dataset"]["logging"], "fixed");
    }
    let pooled = with(json!({"dataset_id": id_of(&dataset)}), json!({"looks": "anytime"}));
    client.post("/v1/jobs", &pooled).problem(422, "looks_need_anytime_bound");
    // Without n_actions or propensities, K is read off the rows.
    let bare = changed(&log_of(14, 300), |_, row| written(row, THIRD));
    let bare = id_of(&client.upload("?outcome=reward", &bare).expect(201));
    let zero = json!({"dataset_id": bare, "bound": "betting", "prior": {"kind": "zero"}});
    client.post("/v1/jobs", &zero).problem(422, "actions_not_stated");
}

#[test]
fn the_options_of_a_log_are_options_of_its_manifest_too() {
    let server = Server::start();
    let client = server.client();
    let manifest = json!({"outcome": "reward", "logging": "fixed", "repetitions": "designed",
        "exact_propensities": true});
    let form = format!(
        "--b\r\nContent-Disposition: form-data; name=\"manifest\"\r\n\r\n{manifest}\r\n--b\r\n\
         Content-Disposition: form-data; name=\"data\"\r\nContent-Type: application/x-ndjson\r\n\r\n{}\r\n--b--\r\n",
        log_of(15, 50)
    );
    let kind = [("content-type", "multipart/form-data; boundary=b")];
    let dataset = client.send("POST", "/v1/datasets", &kind, Some(form.as_bytes())).expect(201);
    for (name, value) in
        [("logging", json!("fixed")), ("repetitions", json!("designed")), ("exact_propensities", json!(true))]
    {
        assert_eq!(dataset[name], value, "{dataset}");
    }
    // Appends inherit them.
    let appended = append(&client, &id_of(&dataset), &log_of(16, 50)).expect(201);
    assert_eq!((&appended["logging"], &appended["repetitions"]), (&json!("fixed"), &json!("designed")));
    for query in ["?logging=sometimes", "?repetitions=3", "?exact_propensities=perhaps"] {
        client.upload(query, &log_of(15, 50)).problem(400, "invalid_query");
    }
}

#[test]
fn an_accepted_check_is_named_on_the_certificate_with_the_key() {
    let mut server = Server::start();
    let key = server.create_key("team");
    server.kill();
    server.restart();
    let client = server.client().with_key(&key);
    let rows = changed(&log_of(17, 1500), |_, row| written(row, 0.12));
    let dataset = id_of(&client.upload("?outcome=reward&n_actions=3", &rows).expect(201));
    let refused = assert_kept_by(&client, json!({"dataset_id": dataset}), "propensities");
    let failed: Vec<Value> = refused["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["ok"] == false)
        .map(|check| check["name"].clone())
        .collect();
    let mut names: Vec<&str> = failed.iter().map(|name| name.as_str().unwrap()).collect();
    names.sort();
    names.dedup();
    let (job, certificate) = certify(&client, json!({"dataset_id": dataset, "accept": names}));
    let accepted = codes(&certificate);
    assert!(accepted.contains(&"check_accepted"), "{accepted:?}");
    assert!(!accepted.iter().any(|code| code.starts_with("log_check_failed")), "{accepted:?}");
    let by = certificate["spec"]["accepted_by"].as_str().unwrap();
    let id = server.keys(&["list"]).lines().last().unwrap().split_whitespace().next().unwrap().to_owned();
    assert!(by.contains("test") && by.contains(&id), "{by}");
    assert!(certificate["attestations"].to_string().contains(by), "{certificate}");
    assert!(!certificate.to_string().contains(&key), "the key itself is on the certificate");
    assert_eq!(client.get(&format!("/v1/jobs/{job}")).expect(200)["spec"]["accepted_by"], by);
    for accept in [json!(["nothing"]), json!(["propensities", "propensities"])] {
        client
            .post("/v1/jobs", &json!({"dataset_id": dataset, "accept": accept}))
            .problem(422, "invalid_value");
    }
}

/// Deciding to look again because of a result chooses the number of rows by their outcomes.
#[test]
fn a_later_look_certifies_only_fresh_rows() {
    let server = Server::start();
    let client = server.client();
    let dataset = id_of(&client.upload("?outcome=reward", &log_of(18, 500)).expect(201));
    let policy = good_policy(&client);
    let seen = |certificate: &Value| certificate["spec"]["seen_rows"].clone();
    let first_row =
        |certificate: &Value| certificate["certified"]["span"]["first_certified_row"].as_u64().unwrap();
    let (_, first) = certify(&client, evaluation(&dataset, &policy));
    assert_eq!((seen(&first), first_row(&first), &first["certified"]["rows"]), (Value::Null, 0, &json!(500)));
    // The same rows again: nothing was added because of the first look.
    let (_, same) = certify(&client, json!({"dataset_id": dataset}));
    assert_eq!(seen(&same), Value::Null);

    append(&client, &dataset, &log_of(19, 400)).expect(201);
    let (_, second) = certify(&client, evaluation(&dataset, &policy));
    assert_eq!(
        (seen(&second), first_row(&second), &second["certified"]["rows"]),
        (json!(500), 500, &json!(400))
    );
    assert_eq!(second["ledger"]["cost"], json!(0.05));
    let (_, learned) = certify(&client, json!({"dataset_id": dataset}));
    assert!(seen(&learned) == json!(500) && first_row(&learned) >= 500, "{learned}");
    let (_, pooled) = certify(&client, with(evaluation(&dataset, &policy), json!({"looks": "anytime"})));
    assert_eq!(
        (seen(&pooled), first_row(&pooled), &pooled["certified"]["rows"]),
        (Value::Null, 0, &json!(900))
    );

    let ledger = client.get(&format!("/v1/datasets/{dataset}/ledger")).expect(200);
    let rows: Vec<u64> =
        ledger["data"].as_array().unwrap().iter().map(|look| look["rows"].as_u64().unwrap()).collect();
    assert_eq!(rows, [900, 900, 900, 500, 500]);
}

/// It may end before the next one starts, and the caller may have looked at it.
#[test]
fn an_unfinished_job_has_seen_its_rows() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset_of(20, 300);
    let running = client.submit_endless(&dataset);
    append(&client, &dataset, &log_of(21, 300)).expect(201);
    let queued = client.post("/v1/jobs", &evaluation(&dataset, &good_policy(&client))).expect(202);
    assert_eq!(queued["spec"]["seen_rows"], 300, "{queued}");
    for job in [id_of(&queued), running] {
        client.send("POST", &format!("/v1/jobs/{job}/cancel"), &[], None).expect(200);
    }
}

#[test]
fn an_append_cannot_reach_back_before_certified_rows() {
    let server = Server::start();
    let client = server.client();
    let at = |seed: u64, rows: usize, day: usize| {
        changed(&log_of(seed, rows), |i, row| {
            row["timestamp"] = json!(format!("2026-03-{day:02}T{:02}:{:02}:00Z", i / 60, i % 60));
        })
    };
    let dataset = id_of(&client.upload("?outcome=reward", &at(22, 300, 10)).expect(201));
    // Nobody has looked yet, so late rows can take their place.
    append(&client, &dataset, &at(23, 100, 9)).expect(201);
    certify(&client, evaluation(&dataset, &good_policy(&client)));
    let refused = append(&client, &dataset, &at(24, 100, 8));
    refused.problem(422, "invalid_rows");
    assert_eq!(refused.json["errors"][0]["field"], "timestamp", "{}", refused.text);
    let stored = append(&client, &dataset, &at(25, 100, 11)).expect(201);
    assert_eq!((&stored["version"], &stored["rows"]), (&json!(3), &json!(500)));
    let (_, certificate) = certify(&client, evaluation(&dataset, &good_policy(&client)));
    assert_eq!(certificate["spec"]["seen_rows"], 400);
}

pub fn add_candidates(client: &Client, dataset: &str, rows: &str) -> common::Answer {
    client.send("POST", &format!("/v1/datasets/{dataset}/candidates"), &NDJSON, Some(rows.as_bytes()))
}

/// The candidate that plays the best action of `log_of` with probability 0.9, as a column.
pub fn column(rows: &str, name: &str) -> String {
    changed(rows, |_, row| {
        let best = if row["x"][0].as_f64().unwrap() > 0.0 { 1 } else { 2 };
        let played = if row["action"] == best { 0.9 } else { 0.05 };
        let mut added = json!({"candidates": {name: played}});
        if let Some(id) = row.get("event_id") {
            added["event_id"] = id.clone();
        }
        *row = added;
    })
}

#[test]
fn candidates_are_added_without_a_new_upload_and_without_a_new_ledger() {
    let server = Server::start();
    let client = server.client();
    let rows = log_of(26, 800);
    let dataset = id_of(&client.upload("?outcome=reward", &rows).expect(201));
    let (_, before) = certify(&client, evaluation(&dataset, &good_policy(&client)));
    client.post("/v1/jobs", &logged(&dataset, "new")).problem(422, "unknown_candidate");

    let added = add_candidates(&client, &dataset, &column(&rows, "new")).expect(201);
    assert_eq!((&added["version"], &added["rows"]), (&json!(2), &json!(800)), "{added}");
    assert_eq!(added["capabilities"]["candidates"], json!(["new"]));
    let (_, certificate) = certify(&client, logged(&dataset, "new"));
    assert_eq!(certificate["decision"], "deploy", "{certificate}");
    // The rows are the same, so none of them became a seen one.
    assert_eq!(
        (&certificate["spec"]["seen_rows"], &certificate["ledger"]["look"]),
        (&Value::Null, &json!(2))
    );
    assert_eq!(client.post("/v1/certificates/verify", &before).expect(200)["valid"], true);

    // Another one beside it, and rows after it, which must have both.
    let both = add_candidates(&client, &dataset, &column(&rows, "other")).expect(201);
    assert_eq!(both["capabilities"]["candidates"], json!(["new", "other"]));
    append(&client, &dataset, &log_of(27, 10)).problem(422, "invalid_rows");
    let more = changed(&log_of(27, 10), |_, row| row["candidates"] = json!({"new": 0.5, "other": 0.5}));
    assert_eq!(append(&client, &dataset, &more).expect(201)["rows"], 810);
    assert_eq!(certify(&client, logged(&dataset, "other")).1["ledger"]["look"], 3);
}

#[test]
fn candidates_are_matched_by_event_id_or_by_order() {
    let server = Server::start();
    let client = server.client();
    let rows = changed(&log_of(28, 60), |i, row| row["event_id"] = json!(format!("e{i}")));
    let dataset = id_of(&client.upload("?outcome=reward", &rows).expect(201));
    let reversed: String = column(&rows, "new").lines().rev().map(|line| format!("{line}\n")).collect();
    let by_id = add_candidates(&client, &dataset, &reversed).expect(201);
    let whole = changed(&rows, |_, row| {
        let best = if row["x"][0].as_f64().unwrap() > 0.0 { 1 } else { 2 };
        row["candidates"] = json!({"new": if row["action"] == best { 0.9 } else { 0.05 }});
    });
    let at_once = client.upload("?outcome=reward", &whole).expect(201);
    assert_eq!(by_id["digest"], at_once["digest"], "the same log, whenever its candidates arrived");
    assert_eq!(at_once["ledger"]["shared_with"], json!([dataset]));

    for (what, body) in [
        ("a row is missing", reversed.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>()),
        (
            "a row is not in the dataset",
            format!("{reversed}{{\"event_id\":\"e60\",\"candidates\":{{\"new\":1}}}}\n"),
        ),
        ("the candidate is there already", reversed.clone()),
        ("not a probability", column(&rows, "bad").replace("0.9", "9")),
        ("no candidate", "{\"event_id\":\"e0\"}\n".into()),
    ] {
        let refused = add_candidates(&client, &dataset, &body);
        assert_eq!(refused.status, 422, "{what}: {}", refused.text);
    }
    let ordered = log_of(29, 60);
    let plain = id_of(&client.upload("?outcome=reward", &ordered).expect(201));
    let short = column(&log_of(29, 59), "new");
    assert_eq!(add_candidates(&client, &plain, &short).status, 422);
    add_candidates(&client, &plain, &column(&ordered, "new")).expect(201);
    assert_eq!(client.get(&format!("/v1/datasets/{plain}")).expect(200)["version"], 2);
}

#[test]
fn added_candidates_survive_a_crash_and_repeated_requests() {
    let mut server = Server::start();
    let rows = log_of(30, 200);
    let dataset = id_of(&server.client().upload("?outcome=reward", &rows).expect(201));
    let path = format!("/v1/datasets/{dataset}/candidates");
    let headers = [NDJSON[0], ("idempotency-key", "k")];
    let body = column(&rows, "new");
    let first = server.client().send("POST", &path, &headers, Some(body.as_bytes())).expect(201);
    server.kill();
    server.restart();
    let client = server.client();
    let again = client.send("POST", &path, &headers, Some(body.as_bytes()));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json, first);
    let other = column(&rows, "other");
    client.send("POST", &path, &headers, Some(other.as_bytes())).problem(422, "idempotency_mismatch");
    assert_eq!(client.get(&format!("/v1/datasets/{dataset}")).expect(200)["version"], 2);
    let (_, certificate) = certify(&client, logged(&dataset, "new"));
    assert_eq!(certificate["dataset"]["version"], 2);
}
