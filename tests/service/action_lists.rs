//! Logs whose rows have their own actions, and policies that play over the actions that they are given, through the
//! real server.

use serde_json::{Value, json};

use crate::common::{BINARY, Client, Server, id_of};

const NDJSON: (&str, &str) = ("content-type", "application/x-ndjson");

/// Requests with two to five articles. Users of the second country like the second topic.
fn articles(seed: u64, n: usize) -> Vec<Value> {
    let mut state = seed;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    (0..n)
        .map(|i| {
            let (country, size) = (random() % 2, 2 + random() % 4);
            let topics: Vec<usize> = (0..size).map(|_| random() % 3).collect();
            let actions: Vec<Value> = topics
                .iter()
                .enumerate()
                .map(|(a, topic)| json!({"id": format!("a{a}"), "x": {"topic": format!("t{topic}"), "fresh": 0.5}}))
                .collect();
            let action = random() % size;
            let clicked = random() % 10 < if topics[action] == country { 8 } else { 2 };
            json!({
                "x": {"country": format!("c{country}")}, "actions": actions, "action": action,
                "propensities": vec![1.0 / size as f64; size], "reward": usize::from(clicked),
                "event_id": format!("{seed}-{i}"), "candidates": {"same": 1.0 / size as f64},
            })
        })
        .collect()
}

fn lines(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

fn spaces() -> Value {
    let named = json!({"form": "named", "dim": 1 << 24});
    json!({"x": named, "actions": named})
}

/// A scorer that likes the feature "5" of actions, and "7" if the request has "3". Names that are numbers are their own
/// dimensions.
fn scorer() -> Value {
    json!({
        "kind": "action_scorer", "features": spaces(), "inverse_temperature": 2.0,
        "x": [{"index": 3, "scale": 1.0}],
        "actions": [{"index": 5, "scale": 1.0, "weight": 0.5}, {"index": 7, "scale": 1.0}],
        "pairs": {"cells": [1], "weights": [0.25]},
    })
}

fn stored(client: &Client, policy: &Value) -> String {
    id_of(&client.post("/v1/policies", policy).expect(201))
}

#[test]
fn logs_are_stored_appended_and_read_again_after_a_restart() {
    let mut server = Server::start();
    let client = server.client();
    let first = client.upload("?outcome=reward", &lines(&articles(1, 400))).expect(201);
    let id = id_of(&first);
    assert_eq!((&first["rows"], &first["n_actions"], &first["dim"]), (&json!(400), &json!(5), &json!(0)));
    assert_eq!(first["capabilities"]["action_sets"], spaces());
    let path = format!("/v1/datasets/{id}");
    let append = |client: &Client, rows: &str| {
        client.send("POST", &format!("{path}/rows"), &[NDJSON], Some(rows.as_bytes()))
    };
    let more = append(&client, &lines(&articles(2, 100))).expect(201);
    assert_eq!((&more["rows"], &more["version"]), (&json!(500), &json!(2)));
    // Lists do not fit named features, and nothing is stored.
    let lists = json!({"x": [1.0], "actions": [[1.0], [2.0]], "action": 0, "propensities": [0.5, 0.5], "reward": 0,
        "event_id": "other", "candidates": {"same": 0.5}});
    append(&client, &format!("{lists}\n")).problem(422, "invalid_rows");
    server.kill();
    server.restart();
    let client = server.client();
    assert_eq!(client.get(&path).expect(200)["digest"], more["digest"]);
    // The rows of all parts are read and compared: a row that is there already is noticed.
    append(&client, &lines(&articles(2, 1))).problem(422, "invalid_rows");
    let sizes: Vec<usize> = (articles(1, 400).iter().chain(&articles(2, 100)))
        .map(|row| row["actions"].as_array().unwrap().len())
        .collect();
    let column = |extra: usize| -> String {
        let list = |size: usize| (0..size + extra).map(|a| f64::from(u8::from(a == 0))).collect::<Vec<f64>>();
        let row = |size: &usize| format!("{}\n", json!({"candidate_propensities": {"first": list(*size)}}));
        sizes.iter().map(row).collect()
    };
    let add =
        |rows: &str| client.send("POST", &format!("{path}/candidates"), &[NDJSON], Some(rows.as_bytes()));
    add(&column(1)).problem(422, "invalid_rows");
    let added = add(&column(0)).expect(201);
    assert_eq!(added["capabilities"]["candidates"], json!(["first", "same"]));
    assert_eq!((&added["rows"], &added["n_actions"]), (&json!(500), &json!(5)));
    let job = client.submit(json!({"dataset_id": id, "kind": "evaluate", "independent_of_log": true,
        "candidates": [{"kind": "logged", "name": "same"}, {"kind": "logged", "name": "first"}]}));
    let job = client.finish(&job);
    assert_eq!(job["status"], "succeeded", "{job}");
}

#[test]
fn a_log_in_a_file_gives_the_same_certificate() {
    let rows = lines(&articles(3, 3000));
    let certified = |environment: &[(&str, &str)]| {
        let server = Server::start_with(environment);
        let client = server.client();
        let dataset = id_of(&client.upload("?outcome=reward", &rows).expect(201));
        let job = client
            .submit(json!({"dataset_id": dataset, "kind": "evaluate", "independent_of_log": true,
            "candidates": [{"kind": "logged", "name": "same"}]}));
        assert_eq!(client.finish(&job)["status"], "succeeded");
        client.get(&format!("/v1/jobs/{job}/certificate")).expect(200)["digest"].clone()
    };
    assert_eq!(certified(&[]), certified(&[("GUARANTOR_MAX_LOG_MEMORY_BYTES", "0")]));
}

#[test]
fn policies_decide_over_the_actions_that_they_are_given() {
    let mut server = Server::start();
    let client = server.client();
    let id = stored(&client, &scorer());
    let ask = |client: &Client, id: &str, what: &str, body: &Value| {
        client.post(&format!("/v1/policies/{id}/{what}"), body)
    };
    let body = json!({"contexts": [
        {"x": {"3": 2.0}, "actions": [{"5": 1}, {"id": null, "x": {"7": 1}}]},
        {"x": {}, "actions": [{}, {"7": 4}, {"5": 2, "unknown": "u"}]},
        {"x": {"3": 1}, "actions": [{"5": 9}]},
    ]});
    let answer = ask(&client, &id, "propensities", &body).expect(200);
    let softmax = |scores: &[f64]| -> Vec<f64> {
        let total: f64 = scores.iter().map(|s| (2.0 * s).exp()).sum();
        scores.iter().map(|s| (2.0 * s).exp() / total).collect()
    };
    let expected = [softmax(&[0.5, 0.5]), softmax(&[0.0, 0.0, 1.0]), softmax(&[1.0])];
    for (found, expected) in answer["propensities"].as_array().unwrap().iter().zip(&expected) {
        let found: Vec<f64> = serde_json::from_value(found.clone()).unwrap();
        assert_eq!(found.len(), expected.len());
        found.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{a} {b}"));
    }
    let named = json!({"seed": 7, "contexts": [
        {"x": {"3": 1}, "actions": [{"id": "a1", "5": 1}, {"id": "a2", "5": 9}]},
        {"x": {"3": 1}, "actions": [{"5": 1}, {"5": 9}]},
    ]});
    let drawn = ask(&client, &id, "actions", &named).expect(200);
    let (first, second) = (&drawn["actions"][0], &drawn["actions"][1]);
    let expected = json!({"action": 1, "id": "a2", "propensity": first["propensity"]});
    assert_eq!((first, second.get("id")), (&expected, None));
    server.kill();
    server.restart();
    assert_eq!(ask(&server.client(), &id, "actions", &named).expect(200), drawn);

    // What explores, and the uniform policy, which reads no features and takes all of them.
    let client = server.client();
    let uniform = stored(&client, &json!({"kind": "uniform_over_sets"}));
    let lists =
        json!({"contexts": [{"x": [1, 2], "actions": [[1], [2], [3], [4]]}, {"actions": [{"t": "u"}, {}]}]});
    let quarters = ask(&client, &uniform, "propensities", &lists).expect(200);
    assert_eq!(quarters["propensities"], json!([[0.25, 0.25, 0.25, 0.25], [0.5, 0.5]]));
    let explores =
        json!({"kind": "exploring", "share": 0.5, "base": scorer(), "with": {"kind": "uniform_over_sets"}});
    let explores = stored(&client, &explores);
    let half =
        ask(&client, &explores, "propensities", &body).expect(200)["propensities"][1][2].as_f64().unwrap();
    assert!((half - (0.5 * softmax(&[0.0, 0.0, 1.0])[2] + 0.5 / 3.0)).abs() < 1e-12);

    let view = client.get(&format!("/v1/policies/{id}?include=mean")).expect(200);
    assert_eq!((&view["kind"], &view["n_actions"]), (&json!("action_scorer"), &json!(0)));
    assert_eq!(view["scorer"]["features"], spaces());
    let downloaded = client.get(&format!("/v1/policies/{id}/parameters")).expect(200);
    let again = client.post("/v1/policies", &downloaded).expect(201);
    assert_eq!(again["digest"], view["digest"]);
}

#[test]
fn contexts_that_do_not_fit_are_rejected_with_their_place() {
    let server = Server::start();
    let client = server.client();
    let id = stored(&client, &scorer());
    let list = json!({"form": "list", "dim": 2});
    let of_lists = stored(
        &client,
        &json!({"kind": "action_scorer", "features": {"x": {"form": "none"}, "actions": list},
        "inverse_temperature": 1.0, "actions": [{"index": 1, "scale": 1.0, "weight": 1.0}]}),
    );
    let fixed = stored(&client, &json!({"kind": "softmax", "mean": [[0.0, 1.0]]}));
    let two = json!([{"5": 1}, {"5": 2}]);
    let good = json!({"x": {"3": 1}, "actions": two});
    let many: Vec<Value> = (0..1025).map(|a| json!({"5": a})).collect();
    let wide = json!({"x": {"3": 1}, "actions": &many[..1024]});
    let cases = [
        (
            &id,
            json!([good, {"x": {}, "actions": [{"5": 1}, {"x": {"age": 1e60}}]}]),
            "contexts[1].actions[1].x.age",
        ),
        (&id, json!([{"x": {"age": 1e60}, "actions": two}]), "contexts[0].x.age"),
        (&id, json!([{"x": {}}]), "contexts[0].actions"),
        (&id, json!([{"x": {}, "actions": null}]), "contexts[0].actions"),
        (&id, json!([{"x": {}, "actions": []}]), "contexts[0].actions"),
        (&id, json!([{"x": {}, "actions": many}]), "contexts[0].actions"),
        (&id, json!([{"actions": two}]), "contexts[0].x"),
        (&id, json!([{"x": [1.0], "actions": two}]), "contexts[0].x"),
        (&id, json!([{"x": 7, "actions": two}]), "contexts[0].x"),
        (&id, json!([{"x": {}, "actions": [[1.0], [2.0]]}]), "contexts[0].actions[0]"),
        (&id, json!([{"x": {}, "actions": [{"5": 1}, 7]}]), "contexts[0].actions[1]"),
        (&id, json!([{"x": {}, "actions": [{"id": "a"}, {"id": "a"}]}]), "contexts[0].actions[1].id"),
        (
            &id,
            json!([{"x": {}, "actions": [{"id": "a", "x": {}, "y": 1}, {"id": "b"}]}]),
            "contexts[0].actions[0]",
        ),
        (&id, json!([{"x": {}, "actions": two, "action": 1}]), "contexts[0].action"),
        (&id, json!([good, [0.5, 1.0]]), "contexts[1]"),
        (&of_lists, json!([{"actions": [[1, 2], [1, 2, 3]]}]), "contexts[0].actions[1]"),
        (&of_lists, json!([{"actions": [[1, 2, 3], [1, 2, 3]]}]), "contexts[0].actions[0]"),
        (&of_lists, json!([{"x": [1], "actions": [[1, 2]]}]), "contexts[0].x"),
        (&of_lists, json!([{"actions": [{"5": 1}]}]), "contexts[0].actions[0]"),
        (&of_lists, json!([{"actions": [[1, 1e60]]}]), "contexts[0].actions[0][1]"),
        (&fixed, json!([good]), "contexts[0]"),
        (&fixed, json!([[1.0], good]), "contexts[1]"),
    ];
    for (policy, contexts, field) in cases {
        for what in ["propensities", "actions"] {
            let answer =
                client.post(&format!("/v1/policies/{policy}/{what}"), &json!({"contexts": contexts}));
            answer.problem(422, "invalid_contexts");
            assert_eq!(answer.json["errors"][0]["field"], field, "{}", answer.text);
        }
    }
    let path = format!("/v1/policies/{id}/propensities");
    let too_many =
        json!({"contexts": vec![&wide; 3].into_iter().chain(vec![&good; 2046]).collect::<Vec<_>>()});
    let answer = client.post(&path, &too_many);
    answer.problem(422, "too_large");
    assert_eq!(answer.json["errors"][0]["field"], "contexts[2048]");
    for (body, status, code) in [
        (r#"{"contexts": [{"actions": [{}, {}]"#, 400, "malformed_json"),
        (r#"{"contexts": 7}"#, 422, "invalid_value"),
        (r#"{"contexts": [7]}"#, 422, "invalid_value"),
        (r#"{"contexts": [], "sead": 7}"#, 422, "unknown_field"),
        (r#"{}"#, 422, "invalid_value"),
    ] {
        let answer =
            client.send("POST", &path, &[("content-type", "application/json")], Some(body.as_bytes()));
        answer.problem(status, code);
    }
    assert_eq!(client.post(&path, &json!({"contexts": []})).expect(200), json!({"propensities": []}));
}

#[test]
fn scorers_that_are_not_valid_are_rejected() {
    let server = Server::start();
    let client = server.client();
    let changed = |pointer: &str, value: Value| {
        let mut policy = scorer();
        *policy.pointer_mut(pointer).unwrap() = value;
        policy
    };
    let cases = [
        (changed("/inverse_temperature", json!("hot")), "invalid_value"),
        (changed("/features/x", json!({"form": "circle"})), "invalid_value"),
        (changed("/actions/0/index", json!(7)), "invalid_policy"),
        (changed("/actions/0/index", json!(1 << 25)), "invalid_policy"),
        (changed("/actions/0/scale", json!(0)), "invalid_policy"),
        (changed("/pairs/cells", json!([2])), "invalid_policy"),
        (changed("/pairs/cells", json!([])), "invalid_policy"),
        (
            json!({"kind": "exploring", "share": 0.5, "base": scorer(), "with": {"kind": "uniform", "n_actions": 3, "dim": 2}}),
            "invalid_policy",
        ),
    ];
    for (policy, code) in cases {
        client.post("/v1/policies", &policy).problem(422, code);
    }
    let all = client.get("/v1/policies").expect(200);
    assert_eq!(all["data"].as_array().map(Vec::len), Some(0), "{all}");
}

#[test]
fn damaged_lists_are_found_and_a_backup_restores_them() {
    let server = Server::start();
    let client = server.client();
    let dataset = id_of(&client.upload("?outcome=reward", &lines(&articles(5, 600))).expect(201));
    let spec = json!({"dataset_id": dataset, "kind": "evaluate", "independent_of_log": true,
        "candidates": [{"kind": "logged", "name": "same"}]});
    let evaluate = |client: &Client| client.finish(&client.submit(spec.clone()));
    let place = tempfile::tempdir().unwrap();
    let copy = place.path().join("copy");
    let mut backup = std::process::Command::new(BINARY);
    let backup = backup.arg("backup").arg(&copy).arg("--data-dir").arg(server.data.path()).output().unwrap();
    assert!(backup.status.success(), "{}", String::from_utf8_lossy(&backup.stderr));
    let folder = server.data.path().join("blobs/datasets").join(&dataset);
    let file = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let sound = std::fs::read(&file).unwrap();
    for part in 1..9 {
        let mut bytes = sound.clone();
        bytes[sound.len() * part / 10] ^= 0x10;
        std::fs::write(&file, bytes).unwrap();
        let job = evaluate(&client);
        assert_eq!(
            (&job["status"], &job["error"]["code"]),
            (&json!("failed"), &json!("dataset_unreadable")),
            "{job}"
        );
        let rows = lines(&articles(6, 5));
        let path = format!("/v1/datasets/{dataset}/rows");
        client.send("POST", &path, &[NDJSON], Some(rows.as_bytes())).problem(500, "damaged");
    }
    std::fs::write(&file, &sound).unwrap();
    assert_eq!(evaluate(&client)["status"], "succeeded");
    let restored = Server::start_on(&copy, &[]);
    assert_eq!(evaluate(&restored.client())["status"], "succeeded");
}

/// A DSJSON log whose actions have an `id` beside other features: what is learned from the id must be served by the id.
#[test]
fn a_policy_of_a_dsjson_log_is_served_the_features_that_it_learned_from() {
    let server = Server::start();
    let client = server.client();
    let mut state = 5u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let names = ["a", "b", "c", "d"];
    let mut log = String::new();
    for row in 0..2000 {
        let size = 2 + random(3) as usize;
        let first = random(4) as usize;
        let set: Vec<&str> = (0..size).map(|a| names[(first + a) % 4]).collect();
        let chosen = random(size as u64) as usize;
        let cost = -i32::from(random(10) < if set[chosen] == "a" { 8 } else { 2 });
        let order: Vec<usize> = [chosen].into_iter().chain((0..size).filter(|&a| a != chosen)).collect();
        let multi: Vec<Value> =
            set.iter().map(|id| json!({"id": id, "z": random(100) as f64 / 100.0})).collect();
        let line = json!({"_label_cost": cost, "a": order.iter().map(|a| a + 1).collect::<Vec<_>>(),
            "p": vec![1.0 / size as f64; size], "c": {"User": {"n": row % 7}, "_multi": multi}});
        log += &format!("{line}\n");
    }
    let kind = [("content-type", "application/json")];
    let uploaded = client.send("POST", "/v1/datasets?format=dsjson", &kind, Some(log.as_bytes())).expect(201);
    let job = client.submit(json!({"dataset_id": id_of(&uploaded), "explore": 0}));
    let policy = client.finish(&job)["result"]["policy_id"].as_str().unwrap().to_owned();
    let asked = json!({"contexts": [{"x": {"User": {"n": 3}}, "actions": [{"id": "b", "z": 0.5}, {"id": "a", "z": 0.5}]}]});
    let served = client.post(&format!("/v1/policies/{policy}/propensities"), &asked).expect(200);
    assert!(served["propensities"][0][1].as_f64().unwrap() > 0.99, "{served}");
}

#[test]
fn a_certificate_over_sets_is_verified_with_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let run = |args: &[&str]| std::process::Command::new(BINARY).args(args).output().unwrap();
    for (format, more) in [("dsjson", &[][..]), ("parquet", &[][..]), ("ndjson", &["--hash-dims", "512"][..])]
    {
        let log = path(&format!("log.{format}"));
        let log = log.to_str().unwrap();
        let made = run(&["simulate", "--dataset", "news", "--rows", "600", "--out", log]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let certified = run(&[&["certify", log, "--json", "--outcome", "reward"], more].concat());
        let certificate = path("certificate.json");
        std::fs::write(&certificate, &certified.stdout).unwrap();
        let certificate = certificate.to_str().unwrap();
        let verified = run(&["verify", certificate, "--log", log]);
        let said = String::from_utf8_lossy(&verified.stdout).into_owned();
        assert!(verified.status.success() && said.ends_with("valid\n"), "{format}: {said}{verified:?}");
    }
}
