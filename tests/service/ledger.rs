//! Repeated looks: the ledger of a dataset, families of looks, and free looks, through the real server.

use crate::common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::{Client, Server, id_of, log, log_of};
use serde_json::{Value, json};

const DELTA: f64 = 0.05;

/// The certificate of a job that must succeed.
fn certify(client: &Client, spec: Value) -> Value {
    let done = client.finish(&client.submit(spec));
    assert_eq!(done["status"], "succeeded", "{done}");
    client.get(done["result"]["certificate_url"].as_str().unwrap()).expect(200)
}

fn append(client: &Client, dataset: &str, rows: &str) {
    let path = format!("/v1/datasets/{dataset}/rows");
    client
        .send("POST", &path, &[("content-type", "application/x-ndjson")], Some(rows.as_bytes()))
        .expect(201);
}

fn policy(client: &Client) -> Value {
    let mean = json!([[0.0, 40.0, -40.0], [0.0, 0.0, 0.0]]);
    client.post("/v1/policies", &json!({"kind": "softmax", "mean": mean})).expect(201)["id"].clone()
}

fn evaluation(dataset: &str, policy: &Value) -> Value {
    json!({"dataset_id": dataset, "candidates": [{"kind": "policy", "policy_id": policy}],
        "independent_of_log": true})
}

fn with(mut spec: Value, more: Value) -> Value {
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

#[test]
fn every_certificate_has_its_ledger_entry() {
    let server = Server::start();
    let client = server.client();
    let (dataset, policy) = (client.dataset(300), policy(&client));
    let empty = client.get(&format!("/v1/datasets/{dataset}/ledger")).expect(200);
    assert_eq!((&empty["looks"], &empty["family_wise_confidence"]), (&json!(0), &json!(1.0)));
    let mut spent = 0.0;
    let mut places = Vec::new();
    for (i, delta) in [0.05, 0.1, 0.02].into_iter().enumerate() {
        let spec = with(evaluation(&dataset, &policy), json!({"delta": delta, "bound": "catoni"}));
        let certificate = certify(&client, spec);
        let place = certificate["ledger"].clone();
        assert_eq!((&place["look"], &place["delta"]), (&json!(i + 1), &json!(delta)), "{place}");
        assert_eq!((&place["spent_before"], &place["cost"]), (&json!(spent), &json!(delta)));
        spent += delta;
        assert_eq!((&place["spent"], &place["family_wise_confidence"]), (&json!(spent), &json!(1.0 - spent)));
        assert!(place["statement"].as_str().unwrap().starts_with(&format!("Look {}", i + 1)));
        let checked = client.post("/v1/certificates/verify", &certificate).expect(200);
        assert_eq!(checked["valid"], true, "{checked}");
        places.push(place);
    }
    // A job that ends before it has shown anything is not a look.
    let endless = client.submit_endless(&dataset);
    let waiting = client.submit(with(evaluation(&dataset, &policy), json!({"bound": "catoni", "tau": 0.5})));
    cancel(&client, &waiting);
    client.delete(&format!("/v1/datasets/{dataset}")).problem(409, "in_use");

    let ledger = client.get(&format!("/v1/datasets/{dataset}/ledger?limit=2")).expect(200);
    assert_eq!((&ledger["looks"], &ledger["spent"]), (&json!(3), &json!(spent)));
    assert_eq!(ledger["has_more"], true);
    let after = ledger["next"].as_str().unwrap();
    let rest = client.get(&format!("/v1/datasets/{dataset}/ledger?limit=2&after={after}")).expect(200);
    let looks =
        [ledger["data"].as_array().unwrap().clone(), rest["data"].as_array().unwrap().clone()].concat();
    assert_eq!((looks.len(), &rest["next"]), (3, &Value::Null));
    for (look, place) in looks.iter().rev().zip(&places) {
        for (name, value) in place.as_object().unwrap() {
            assert_eq!(&look[name], value, "{look}");
        }
        assert_eq!((&look["bound"], &look["candidates"]), (&json!("catoni"), &json!(1)));
        assert_eq!((&look["kind"], &look["dataset_version"]), (&json!("evaluate"), &json!(1)));
    }
    cancel(&client, &endless);
    client.get(&format!("/v1/datasets/{dataset}/ledger?after=x")).problem(400, "invalid_cursor");
    client.get(&format!("/v1/datasets/{}/ledger", id_of(&json!({"id": policy})))).problem(404, "not_found");
}

/// The rows, each with its own context id.
fn named(rows: &str, prefix: &str) -> String {
    let row = |(i, line): (usize, &str)| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        row["context_id"] = json!(format!("{prefix}{i}"));
        format!("{row}\n")
    };
    rows.lines().enumerate().map(row).collect()
}

/// The row, logged once more with another outcome, so that it is not the same row.
fn again_with_another_reward(row: &str) -> String {
    let mut row: Value = serde_json::from_str(row).unwrap();
    row["reward"] = json!(1 - row["reward"].as_u64().unwrap());
    format!("{row}\n")
}

fn cancel(client: &Client, job: &str) {
    client.post(&format!("/v1/jobs/{job}/cancel"), &json!({})).expect(200);
    assert_eq!(client.finish(job)["status"], "cancelled");
}

/// Somebody tries one τ after another, reads the bound of each while it runs, and would let the best one
/// finish.
#[test]
fn a_bound_that_was_read_before_the_job_was_canceled_is_a_look() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset(300);
    let spec = |tau: f64| {
        json!({"dataset_id": dataset, "bound": "cbb", "prior": {"kind": "zero"}, "tau": tau,
            "family": {"delta": 0.06, "looks": 2},
            "optimizer": {"preset": "paper", "epochs": 100_000, "max_seconds": 3600.0}})
    };
    for (look, tau) in [(1, 0.2), (2, 0.3)] {
        let job = client.submit(spec(tau));
        client.follow(&job, &[], |event| event.data["data"]["bound"].is_number());
        let running = client.get(&format!("/v1/jobs/{job}")).expect(200);
        assert!(running["progress"]["bound"].is_number(), "{running}");
        cancel(&client, &job);
        let ledger = client.get(&format!("/v1/datasets/{dataset}/ledger")).expect(200);
        assert_eq!(ledger["looks"], look, "{ledger}");
        let entry = &ledger["data"][0];
        assert_eq!((&entry["decision"], &entry["certificate_digest"]), (&Value::Null, &Value::Null));
        assert_eq!((&entry["job_id"], &entry["cost"]), (&json!(job), &json!(0.03)));
    }
    client.post("/v1/jobs", &spec(0.4)).problem(422, "family_exhausted");
}

/// The ledger entry of the second of two looks with one spec, with rows appended in between. The rows are new each
/// time, because datasets with the same rows share their ledger.
fn second_look(client: &Client, spec: impl Fn(&str) -> Value) -> Value {
    static SEED: AtomicU64 = AtomicU64::new(1000);
    let seed = SEED.fetch_add(2, Ordering::Relaxed);
    let dataset = client.dataset_of(seed, 200);
    look_twice(client, &dataset, &log_of(seed + 1, 120), spec)
}

fn look_twice(client: &Client, dataset: &str, more_rows: &str, spec: impl Fn(&str) -> Value) -> Value {
    certify(client, spec(dataset));
    append(client, dataset, more_rows);
    let certificate = certify(client, spec(dataset));
    assert_eq!((&certificate["ledger"]["look"], &certificate["dataset"]["version"]), (&json!(2), &json!(2)));
    let checked = client.post("/v1/certificates/verify", &certificate).expect(200);
    assert_eq!(checked["valid"], true, "{checked}");
    certificate["ledger"].clone()
}

#[test]
fn looking_again_after_an_append_is_free_if_the_bound_allows_it() {
    let server = Server::start();
    let client = server.client();
    let policy = policy(&client);
    let learning = |more: Value| {
        move |dataset: &str| {
            let zero = json!({"dataset_id": dataset, "prior": {"kind": "zero"}, "optimizer": {"epochs": 3}});
            with(zero, more.clone())
        }
    };
    let evaluating = |more: Value| {
        let policy = policy.clone();
        move |dataset: &str| with(evaluation(dataset, &policy), more.clone())
    };
    let known = json!({"kind": "known", "risk": -0.3});
    let free: [(&str, Value); 4] = [
        ("candidates", second_look(&client, evaluating(json!({"looks": "anytime"})))),
        (
            "candidates by betting",
            second_look(&client, evaluating(json!({"bound": "betting", "looks": "anytime"}))),
        ),
        (
            "learning from a fixed prior",
            second_look(&client, learning(json!({"bound": "betting", "looks": "anytime"}))),
        ),
        (
            "log smoothing, the baseline known",
            second_look(
                &client,
                evaluating(json!({"bound": "log_smoothing", "baseline": known, "looks": "anytime"})),
            ),
        ),
    ];
    for (what, place) in free {
        assert_eq!(place["shares"], json!({"look": 1, "why": "anytime"}), "{what}: {place}");
        assert_eq!((&place["cost"], &place["spent"]), (&json!(0.0), &json!(DELTA)), "{what}");
        assert_eq!(place["family_wise_confidence"], json!(1.0 - DELTA), "{what}");
    }

    // The second batch logs a context of the first again, under the same id, and that was designed.
    let rows = log_of(3000, 200);
    let query = "?outcome=reward&repetitions=designed";
    let designed = id_of(&client.upload(query, &named(&rows, "a")).expect(201));
    let repeated = named(rows.lines().next().unwrap(), "a") + &named(&log_of(3001, 120), "b");
    let costly: [(&str, Value); 6] = [
        ("one look at each number of rows", second_look(&client, evaluating(json!({})))),
        ("auto", second_look(&client, |dataset| json!({"dataset_id": dataset}))),
        ("catoni", second_look(&client, evaluating(json!({"bound": "catoni"})))),
        (
            "log smoothing, the baseline certified",
            second_look(&client, evaluating(json!({"bound": "log_smoothing"}))),
        ),
        (
            "a split",
            second_look(&client, |dataset| {
                json!({"dataset_id": dataset, "bound": "betting", "prior": {"kind": "split"},
                    "optimizer": {"epochs": 3}})
            }),
        ),
        (
            "repeated contexts",
            look_twice(&client, &designed, &repeated, evaluating(json!({"looks": "anytime"}))),
        ),
    ];
    for (what, place) in costly {
        assert_eq!(place.get("shares"), None, "{what}: {place}");
        assert_eq!((&place["cost"], &place["spent"]), (&json!(DELTA), &json!(2.0 * DELTA)), "{what}");
    }
}

#[test]
fn another_event_is_another_look() {
    let server = Server::start();
    let client = server.client();
    let (first, second) = (policy(&client), policy(&client));
    let dataset = client.dataset(200);
    let evaluation = |policy: &Value| with(evaluation(&dataset, policy), json!({"looks": "anytime"}));
    certify(&client, evaluation(&first));
    // The required improvement is not part of the event.
    let place = |spec: Value| certify(&client, spec)["ledger"].clone();
    let lower = place(with(evaluation(&first), json!({"min_improvement": 0.1})));
    assert_eq!(lower["shares"]["why"], "anytime", "{lower}");
    let again = place(evaluation(&first));
    assert_eq!(again["shares"], json!({"look": 1, "why": "repeat"}));
    for more in [
        json!({"looks": "once"}),
        json!({"delta": 0.04}),
        json!({"tau": 0.2}),
        json!({"bound": "betting"}),
        json!({"xi": 0.0, "bound": "betting"}),
    ] {
        let place = place(with(evaluation(&first), more.clone()));
        assert_eq!(place.get("shares"), None, "{more}: {place}");
    }
    // The same policy under another id is the same policy.
    assert_eq!(place(evaluation(&second))["shares"], json!({"look": 1, "why": "repeat"}));
    let mean = json!([[0.0, 39.0, -40.0], [0.0, 0.0, 0.0]]);
    let other = client.post("/v1/policies", &json!({"kind": "softmax", "mean": mean})).expect(201);
    assert_eq!(place(evaluation(&other["id"])).get("shares"), None);
}

#[test]
fn a_family_shares_one_delta() {
    let server = Server::start();
    let client = server.client();
    let (dataset, policy) = (client.dataset(200), policy(&client));
    let spec = |seed: u64| {
        with(
            evaluation(&dataset, &policy),
            json!({"bound": "catoni", "seed": seed,
            "family": {"delta": 0.06, "looks": 3}}),
        )
    };
    for look in 1..=3u64 {
        let job = client.submit(spec(look));
        let done = client.finish(&job);
        assert_eq!(
            (&done["spec"]["delta"], &done["spec"]["family"]["looks"]),
            (&json!(0.06 / 3.0), &json!(3))
        );
        let certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
        assert_eq!(certificate["confidence"], json!(1.0 - 0.06 / 3.0));
        let family = &certificate["ledger"]["family"];
        assert_eq!(family, &json!({"delta": 0.06, "looks": 3, "taken": look}));
    }
    let ledger = client.get(&format!("/v1/datasets/{dataset}/ledger")).expect(200);
    let kept = ledger["family_wise_confidence"].as_f64().unwrap();
    assert!((kept - 0.94).abs() < 1e-12, "{kept}");
    let refused = client.post("/v1/jobs", &spec(4));
    refused.problem(422, "family_exhausted");
    assert_eq!(refused.json["errors"][0]["field"], "family");
    client.post("/v1/jobs", &with(spec(4), json!({"delta": 0.05}))).problem(422, "family_delta_conflict");
    for family in [json!({"delta": 0.05, "looks": 0}), json!({"delta": 1.5, "looks": 2})] {
        client.post("/v1/jobs", &with(spec(4), json!({"family": family}))).problem(422, "invalid_value");
    }
    let unknown = json!({"family": {"delta": 0.05, "looks": 2, "name": "x"}});
    client.post("/v1/jobs", &with(spec(4), unknown)).problem(422, "unknown_field");
    // All of that was on the same dataset: nothing that was rejected was counted.
    let ledger = client.get(&format!("/v1/datasets/{dataset}/ledger")).expect(200);
    assert_eq!(ledger["looks"], 3);
}

/// A free look takes no look of its family, so it is accepted even if none is left.
#[test]
fn a_free_look_needs_no_look_of_its_family() {
    let server = Server::start();
    let client = server.client();
    let policy = policy(&client);
    let query = "?outcome=reward&logging=fixed&repetitions=designed";
    let dataset = id_of(&client.upload(query, &named(&log(200), "a")).expect(201));
    let of_family = json!({"family": {"delta": 0.05, "looks": 1}, "looks": "anytime"});
    let spec = |more: Value| with(with(evaluation(&dataset, &policy), of_family.clone()), more);
    certify(&client, spec(json!({})));
    append(&client, &dataset, &named(&log_of(2, 100), "b"));
    let again = certify(&client, spec(json!({})));
    assert_eq!(again["ledger"]["shares"], json!({"look": 1, "why": "anytime"}));
    assert_eq!(again["ledger"]["family"]["taken"], 1);
    // Any other spec is rejected, and so is this one if its bound holds at one number of rows only.
    for more in [json!({"tau": 0.2}), json!({"bound": "catoni", "looks": "once"})] {
        client.post("/v1/jobs", &spec(more)).problem(422, "family_exhausted");
    }
    append(&client, &dataset, &again_with_another_reward(&named(log(1).trim(), "a")));
    client.post("/v1/jobs", &spec(json!({}))).problem(422, "family_exhausted");
}

/// However often the process dies, every certificate is entered exactly once.
#[test]
fn a_crash_neither_loses_nor_duplicates_a_look() {
    let mut server = Server::start_with(&[("GUARANTOR_WORKERS", "2")]);
    let (dataset, policy) = (server.client().dataset(200), policy(&server.client()));
    let submit = |client: &Client, seed: u64| {
        client.submit(with(evaluation(&dataset, &policy), json!({"bound": "catoni", "seed": seed})))
    };
    let mut jobs = Vec::new();
    for round in 0..6 {
        let client = server.client();
        jobs.extend((0..8).map(|i| submit(&client, 8 * round + i)));
        // By then some of them have ended and some are running.
        client.finish(&jobs[jobs.len() - 6]);
        server.kill();
        server.restart();
    }
    let client = server.client();
    for job in &jobs {
        let done = client.finish(job);
        assert_eq!(done["status"], "succeeded", "{done}");
    }
    let ledger = client.get(&format!("/v1/datasets/{dataset}/ledger?limit=100")).expect(200);
    let looks = ledger["data"].as_array().unwrap();
    let numbers: Vec<u64> = looks.iter().rev().map(|look| look["look"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=jobs.len() as u64).collect::<Vec<_>>());
    let mut entered: Vec<&str> = looks.iter().map(|look| look["job_id"].as_str().unwrap()).collect();
    let mut expected: Vec<&str> = jobs.iter().map(String::as_str).collect();
    entered.sort();
    expected.sort();
    assert_eq!(entered, expected);
    for job in [&jobs[0], &jobs[20], &jobs[47]] {
        let document = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
        let checked = client.post("/v1/certificates/verify", &document).expect(200);
        assert_eq!((&checked["valid"], &checked["signature"]), (&json!(true), &json!("valid")), "{checked}");
    }
}

/// The caller attests that no candidate was learned from these rows, but the service knows if one was.
#[test]
fn a_policy_does_not_certify_itself_on_the_rows_that_it_was_learned_from() {
    let server = Server::start();
    let client = server.client();
    let dataset = client.dataset(300);
    let learned =
        client.finish(&client.submit(json!({"dataset_id": dataset})))["result"]["policy_id"].clone();
    append(&client, &dataset, &log_of(2, 100));
    let refused = client.post("/v1/jobs", &evaluation(&dataset, &learned));
    refused.problem(422, "policy_learned_here");
    assert_eq!(refused.json["errors"][0]["field"], "candidates[0].policy_id");
    let prior =
        json!({"dataset_id": dataset, "bound": "betting", "prior": {"kind": "policy", "policy_id": learned}});
    let refused = client.post("/v1/jobs", &prior);
    refused.problem(422, "policy_learned_here");
    assert_eq!(refused.json["errors"][0]["field"], "prior.policy_id");
    // Nor does a policy that was learned from it on other rows.
    let other = client.dataset_of(3, 250);
    let heir = |prior: &Value, dataset: &str| {
        let done = client.finish(&client.submit(json!({"dataset_id": dataset, "bound": "betting",
            "optimizer": {"epochs": 2}, "prior": {"kind": "policy", "policy_id": prior}})));
        assert_eq!(done["status"], "succeeded", "{done}");
        done["result"]["policy_id"].clone()
    };
    let child = heir(&learned, &other);
    let grandchild = heir(&child, &client.dataset_of(4, 240));
    for policy in [&child, &grandchild] {
        client.post("/v1/jobs", &evaluation(&dataset, policy)).problem(422, "policy_learned_here");
    }
    client.post("/v1/jobs", &evaluation(&other, &grandchild)).problem(422, "policy_learned_here");
    let logged = client.upload(
        &format!("?outcome=reward&logging_policy_id={}", child.as_str().unwrap()),
        &unlogged(&log_of(5, 200)),
    );
    let logged = id_of(&logged.expect(201));
    let by_log = client.finish(&client.submit(json!({"dataset_id": logged, "bound": "betting",
        "prior": {"kind": "zero"}, "optimizer": {"epochs": 2}})))["result"]["policy_id"]
        .clone();
    for dataset in [&dataset, &other, &logged] {
        client.post("/v1/jobs", &evaluation(dataset, &by_log)).problem(422, "policy_learned_here");
    }
    // On other rows it may be certified.
    let fresh = certify(&client, evaluation(&client.dataset_of(6, 200), &learned));
    assert_eq!(fresh["ledger"]["look"], 1);
}

/// The rows without propensities, which then come from the logging policy.
fn unlogged(rows: &str) -> String {
    let row = |line: &str| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        row.as_object_mut().unwrap().remove("propensities");
        format!("{row}\n")
    };
    rows.lines().map(row).collect()
}
