//! DSJSON in the shapes that Vowpal Wabbit documents, tests and writes.

use serde_json::{Value, json};

use super::hashing::features;
use super::{dsjson, ndjson, nothing_is_stored, rejected_row, upload, warning_codes};
use crate::common::{Server, id_of};

/// A line of VW's own examples: four coffees.
const COFFEE: &str = r#"{"_label_cost":-0.0,"_label_probability":0.05000000074505806,"_label_Action":4,"_labelIndex":3,"o":[{"v":0.0,"EventId":"13118d9b4c114f8485d9dec417e3aefe","ActionTaken":false}],"Timestamp":"2021-02-04T16:31:29.2460000Z","Version":"1","EventId":"13118d9b4c114f8485d9dec417e3aefe","a":[4,2,1,3],"c":{"bool_true":true,"bool_false":false,"numbers":[4,5.6],"FromUrl":[{"timeofday":"Afternoon","weather":"Sunny","name":"Cathy"}],"_multi":[{"_tag":"Cappucino","i":{"constant":1,"id":"Cappucino"},"j":[{"type":"hot","origin":"kenya","organic":"yes","roast":"dark"}]},{"_tag":"Cold brew","i":{"constant":1,"id":"Cold brew"}},{"_tag":"Iced mocha","i":{"constant":1,"id":"Iced mocha"}},{"_tag":"Latte","i":{"constant":1,"id":"Latte"}}]},"p":[0.05,0.05,0.05,0.85],"VWState":{"m":"ff0744c1aa494e1ab39ba0c78d048146/550c12cbd3aa47f09fbed3387fb9c6ec"},"_original_label_cost":-0.0}"#;

/// Rewards of decisions that are not in the file, as the joiner writes them.
const DANGLING: [&str; 2] = [
    r#"{"Timestamp":"2017-11-27T01:19:13.4610000Z","RewardValue":1.0,"EnqueuedTimeUtc":"2017-08-23T03:31:06.85Z","EventId":"d8a0391be9244d6cb124115ba33251f6"}"#,
    r#"{"RewardValue":1.0,"EnqueuedTimeUtc":"2018-01-03T20:12:20.028Z","EventId":"tr-tr_8580.Hero.HyxjxHF8/0WMGsuP","Observations":[{"v":1.0,"EventId":"tr-tr_8580.Hero.HyxjxHF8/0WMGsuP","ActionId":null}]}"#,
];

fn named(features: &[(&str, f64)]) -> Vec<(String, f64)> {
    features.iter().map(|(name, value)| (name.to_string(), *value)).collect()
}

/// COFFEE as a row of NDJSON.
fn coffee_row() -> Value {
    let x = json!({"bool_true": 1, "numbers.0": 4, "numbers.1": 5.6, "FromUrl.timeofday=Afternoon": 1,
        "FromUrl.weather=Sunny": 1, "FromUrl.name=Cathy": 1});
    let coffee = |name: &str| json!({"i": {"constant": 1, "id": name}});
    let mut actions = ["Cappucino", "Cold brew", "Iced mocha", "Latte"].map(coffee);
    actions[0]["j"] = json!({"type": "hot", "origin": "kenya", "organic": "yes", "roast": "dark"});
    json!({"x": x, "actions": actions, "action": 3, "propensity": 0.05000000074505806,
        "propensities": [0.05, 0.05, 0.85, 0.05], "cost": 0, "event_id": "13118d9b4c114f8485d9dec417e3aefe",
        "timestamp": "2021-02-04T16:31:29.246Z"})
}

#[test]
fn documented_lines_become_the_right_rows() {
    let server = Server::start();
    let client = server.client();
    // What is skipped needs no valid time.
    let untimed = DANGLING[0].replace("2017-11-27T01:19:13.4610000Z", "unknown");
    let body = format!("{untimed}\n{COFFEE}\r\n\n{}\n", DANGLING[1]);
    let dataset = dsjson(&client, "", &body).expect(201);
    assert_eq!(dataset["digest"], ndjson(&client, "", &[coffee_row()]).expect(201)["digest"]);
    assert_eq!((&dataset["rows"], &dataset["n_actions"], &dataset["dim"]), (&json!(1), &json!(4), &json!(0)));
    assert_eq!(dataset["capabilities"]["action_sets"]["actions"], json!({"form": "named", "dim": 1 << 24}));
    assert_eq!(dataset["capabilities"]["full_propensities"], true);
    let codes = warning_codes(&dataset);
    assert!(codes.contains(&"dangling_rewards") && !codes.contains(&"action_features_not_used"), "{codes:?}");
    let warnings = dataset["health"]["warnings"].as_array().unwrap();
    assert!(
        warnings.iter().any(|w| w["message"].as_str().unwrap().starts_with("2 lines are rewards")),
        "{warnings:?}"
    );

    // Other ways to write a context or an event, and the row that each must become.
    let cases = [
        // Nested namespaces, strings, null, integers, and names that an underscore hides.
        (
            r#""c":{"Geo":{"country":"United States","_countrycf":"8","at":{"lat":-1.5}},"_synthetic":false,"age":null,"n":7,"_text":"big  red","User":{"_text":"tall"},"_multi":[{},{"_tag":"b"}]}"#,
            vec![
                ("Geo.country=United States", 1.0),
                ("Geo.at.lat", -1.5),
                ("n", 7.0),
                ("=big", 1.0),
                ("=red", 1.0),
                ("User=tall", 1.0),
            ],
        ),
        // Arrays: strings by value, numbers by position, objects as if they were alone, arrays in arrays.
        (
            r#""c":{"tags":["a","b",true,2,null,[0.5],{"k":"v"}]}"#,
            vec![
                ("tags=a", 1.0),
                ("tags=b", 1.0),
                ("tags.2", 1.0),
                ("tags.3", 2.0),
                ("tags.5.0", 0.5),
                ("tags.k=v", 1.0),
            ],
        ),
        // Names that are numbers are their own dimensions. A feature that occurs twice counts twice.
        (
            r#""c":{"0":0.25,"259":-1,"3":1,"s_":"1","s_":"1"}"#,
            vec![("0", 0.25), ("3", -1.0), ("3", 1.0), ("s_=1", 2.0)],
        ),
        (r#""c":{}"#, vec![]),
    ];
    for (context, expected) in cases {
        let line = format!(r#"{{"_label_cost":-1,"_label_Action":2,"a":[2,1],{context},"p":[0.25,0.75]}}"#);
        let row = json!({"x": features(256, &named(&expected)), "action": 1, "propensities": [0.75, 0.25], "cost": -1});
        let (read, written) =
            (dsjson(&client, "", &line).expect(201), ndjson(&client, "", &[row]).expect(201));
        assert_eq!(read["digest"], written["digest"], "{context}");
        assert!(!warning_codes(&read).contains(&"action_features_not_used"), "{context}");
    }
}

#[test]
fn events_may_be_written_in_several_ways() {
    let server = Server::start();
    let client = server.client();
    let rows = |propensity: Option<f64>| {
        let mut row = json!({"x": [0.5, 0.0, 0.0], "action": 0, "propensities": [0.4, 0.6], "cost": -0.5});
        if let Some(propensity) = propensity {
            row["propensity"] = json!(propensity);
        }
        ndjson(&client, "", &[row]).expect(201)["digest"].clone()
    };
    let context = r#""c":{"0":0.5}"#;
    let same = |query: &str, line: &str, propensity: Option<f64>| {
        let dataset =
            dsjson(&client, &format!("hash_dims=3&{query}"), &format!("{{{line},{context}}}")).expect(201);
        assert_eq!(dataset["digest"], rows(propensity), "{line}");
        dataset
    };
    same("", r#""_label_cost":-0.5,"a":[1,2],"p":[0.4,0.6]"#, None);
    same("", r#""_label_cost":-0.5,"_a":[1,2],"_p":[0.4,0.6],"Version":"1","ModelId":"x","o":[]"#, None);
    // Single-precision noise in the label is not a disagreement, and the label is kept as it was logged.
    same(
        "",
        r#""_label_cost":-0.5,"_label_probability":0.4000000059604645,"a":[1,2],"p":[0.4,0.6]"#,
        Some(0.4000000059604645),
    );
    same("", r#""_label_cost":-0.5,"_skipLearn":false,"pdrop":0,"a":[1,2],"p":[0.4,0.6]"#, None);
    // One drop rate for all is a smaller log; the joiner's label carries it, the policy's p does not.
    let dropped =
        same("", r#""_label_cost":-0.5,"_label_probability":0.36,"pdrop":0.1,"a":[1,2],"p":[0.4,0.6]"#, None);
    assert!(warning_codes(&dropped).contains(&"rows_dropped_upstream"), "{dropped}");
    // A deferred event that was activated.
    same(
        "",
        r#""_label_cost":-0.5,"DeferredAction":true,"o":[{"EventId":"e","ActionTaken":true},{"v":0.5}],"a":[1,2],"p":[0.4,0.6]"#,
        None,
    );
    let reward = dsjson(
        &client,
        "hash_dims=3&outcome=reward&outcome_max=2",
        &format!(r#"{{"_label_cost":-1.5,"a":[1,2],"p":[0.4,0.6],{context}}}"#),
    );
    let reward = reward.expect(201);
    let row = json!({"x": [0.5, 0.0, 0.0], "action": 0, "propensities": [0.4, 0.6], "reward": 1.5});
    assert_eq!(
        reward["digest"],
        ndjson(&client, "outcome=reward&outcome_max=2", &[row]).expect(201)["digest"]
    );
    let bare =
        dsjson(&client, "hash_dims=0", &format!(r#"{{"_label_cost":-1,"a":[1,2],"p":[0.4,0.6],{context}}}"#))
            .expect(201);
    assert_eq!((&bare["dim"], &bare["capabilities"]["features"]), (&json!(0), &json!(false)));
}

/// Lines that must be rejected, each with the field that is named and a part of the message.
fn rejections() -> Vec<(String, &'static str, &'static str)> {
    let event = |fields: &str| format!(r#"{{{fields},"c":{{"f":1}}}}"#);
    let labelled = |fields: &str| event(&format!(r#""_label_cost":-1,{fields}"#));
    let (a, p) = (r#""a":[2,1]"#, r#""p":[0.25,0.75]"#);
    vec![
        // Other kinds of events, as VW's documentation and tests write them.
        (
            r#"{"Timestamp":"timestamp_utc","Version":"1","EventId":"test_id","c":{"_multi":[{"b_":"1"},{"b_":"2"}],"_slots":[{"_id":"00eef1eb-2205-4f47","_inc":[1,2],"test":4},{"_id":"set_id","other":6}]},"_outcomes":[{"_label_cost":2,"_o":[],"_a":1,"_p":0.25},{"_label_cost":4,"_o":[],"_a":[2,1],"_p":[0.75,0.25]}],"VWState":{"m":"N/A"}}"#.into(),
            "_outcomes",
            "one line per slot",
        ),
        (labelled(&format!("{a},{p}")).replace(r#""c":{"f":1}"#, r#""c":{"_slots":[{"_id":"1"}]}"#), "c._slots", "slate"),
        (
            r#"{"_label_ca":{"cost":0.657567,"pdf_value":6.20426e-05,"action":185.121},"Version":"1","EventId":"event_id","c":{"18-25":1,"4":1,"C":1},"VWState":{"m":"N/A"}}"#.into(),
            "_label_ca",
            "bins",
        ),
        (event(r#""EventId":"e","pdf":[{"chosen_action":185}]"#), "pdf", "continuous"),
        (labelled(&format!(r#""_label_Weight":2,{a},{p}"#)), "_label_Weight", "is not a label"),
        (labelled(&format!(r#""_skipLearn":true,{a},{p}"#)), "_skipLearn", "never activated"),
        (labelled(&format!(r#""DeferredAction":true,"o":[{{"ActionTaken":false}}],{a},{p}"#)), "DeferredAction", "never activated"),
        (labelled(&format!(r#""DeferredAction":true,{a},{p}"#)), "DeferredAction", "remove such lines"),
        // The number of actions.
        (labelled(r#""a":[2,1,3],"p":[0.5,0.25,0.25]"#), "a", "has 3 actions, but there are 2, and nothing tells them apart but their positions"),
        (labelled(r#""a":[1],"p":[1]"#), "a", "has 1 actions, but there are 2"),
        (labelled(r#""a":[],"p":[]"#), "a", "has 0 actions"),
        (labelled(&format!(r#"{a},"p":[0.25,0.5,0.25]"#)), "p", "has 3 numbers, but a has 2"),
        (labelled(&format!("{a},{p}")).replace(r#""f":1"#, r#""_multi":[{},{},{}]"#), "c._multi", "has 3 actions, but a has 2"),
        // Which action, and how likely.
        (labelled(&format!(r#""_label_Action":1,{a},{p}"#)), "_label_Action", "is 1, but the chosen action, the first of a, is 2"),
        (labelled(&format!(r#""_labelIndex":2,{a},{p}"#)), "_labelIndex", "index 1"),
        (labelled(&format!(r#""a":[2,2],{p}"#)), "a[1]", "duplicate action 2"),
        (labelled(&format!(r#""a":[0,1],{p}"#)), "a[0]", "are numbered from 1"),
        (labelled(&format!(r#""a":[2,3],{p}"#)), "a[1]", "3 is not in [1, 2]"),
        (labelled(&format!(r#"{a},"p":[0.25,-0.75]"#)), "p[1]", "-0.75 is not a probability"),
        (labelled(&format!(r#"{a},"p":[0,1]"#)), "p[0]", "is 0 for the chosen action"),
        (labelled(&format!(r#"{a},"p":[0.8166667,0.183333333]"#)).replace("0.183333333", "0.3666667"), "p", "sum to 1.18"),
        (labelled(&format!(r#""_label_probability":0.5,{a},{p}"#)), "_label_probability", "is 0.5, but p[0] is 0.25"),
        (labelled(&format!(r#""_label_probability":0.225,"pdrop":0,{a},{p}"#)), "_label_probability", "is 0.225, but"),
        // Rows that were dropped.
        (labelled(&format!(r#""pdrop":0.5,{a},{p}"#)), "pdrop", "is 0.5, but 0 in earlier rows; thin the log"),
        (labelled(&format!(r#""pdrop":1,{a},{p}"#)), "pdrop", "1 is not in [0, 1)"),
        // The outcome.
        (event(&format!("{a},{p}")), "_label_cost", "is missing"),
        (event(&format!(r#""_label_cost":null,{a},{p}"#)), "_label_cost", "is missing"),
        (event(&format!(r#""_label_cost":1,{a},{p}"#)), "_label_cost", "1 is not in [-1, 0]; if the range is different"),
        (event(&format!(r#""_label_cost":"-1",{a},{p}"#)), "_label_cost", "string"),
        (event(&format!(r#""_label_cost":-1,"_label_cost":-1,{a},{p}"#)), "_label_cost", "occurs twice"),
        (
            labelled(&format!(r#""_original_label_cost":0,{a},{p}"#)),
            "_original_label_cost",
            "is 0, but _label_cost is -1: the outcome was replaced",
        ),
        // The time.
        (labelled(&format!(r#""Timestamp":"timestamp_utc",{a},{p}"#)), "Timestamp", "is not a time such as"),
        (labelled(&format!(r#""Timestamp":1e18,{a},{p}"#)), "Timestamp", "is not a time"),
        (labelled(&format!(r#""Timestamp":[],{a},{p}"#)), "Timestamp", "a time as RFC 3339 text or as a number"),
        // Required members, and JSON.
        (labelled(p), "a", "is missing"),
        (labelled(a), "p", "is missing"),
        (format!(r#"{{"_label_cost":-1,{a},{p}}}"#), "c", "is missing"),
        (labelled(&format!("{a},{p}")).replace(r#"{"f":1}"#, "[1]"), "c", "an object of features"),
        (labelled(&format!("{a},{p}")).replace(r#"{"f":1}"#, r#"{"f":1e39}"#), "c", "finite"),
        (labelled(&format!("{a},{p}")).replace(r#""f":1"#, r#""_multi":3"#), "c", "array of objects"),
        (labelled(&format!("{a},{p},{a}")), "a", "occurs twice"),
        (labelled(&format!("{a},{p}")) + "{}", "row", "trailing"),
        ("[]".into(), "row", "a DSJSON object"),
        (r#"{"_label_cost":-1,"a":[2,1"#.into(), "a", "EOF"),
        (format!(r#"{{"c":{{"f":{}1{}}}}}"#, "[".repeat(200), "]".repeat(200)), "c", "recursion"),
    ]
}

#[test]
fn what_is_not_a_row_is_rejected_by_name() {
    let server = Server::start();
    let client = server.client();
    let good = r#"{"_label_cost":-1,"_label_Action":1,"a":[1,2],"p":[0.5,0.5],"c":{"f":1}}"#;
    for (line, field, words) in rejections() {
        let answer = dsjson(&client, "", &format!("{good}\n\n{line}\n{good}"));
        rejected_row(&answer, 3, field, words);
    }
    let twice = COFFEE.to_owned() + "\n" + COFFEE;
    rejected_row(&dsjson(&client, "", &twice), 2, "EventId", "(first seen in row 1)");
    rejected_row(&dsjson(&client, "n_actions=3", COFFEE), 1, "a", "has 4 actions, but there are 3");
    let empty = dsjson(&client, "", DANGLING[0]);
    empty.problem(422, "invalid_file");
    nothing_is_stored(&client);
}

#[test]
fn the_option_names_the_format() {
    let server = Server::start();
    let client = server.client();
    for kind in [
        "application/json",
        "application/x-ndjson",
        "text/plain; charset=utf-8",
        "application/octet-stream",
        "",
    ] {
        assert_eq!(upload(&client, "format=dsjson", kind, COFFEE).status, 201, "{kind}");
    }
    upload(&client, "format=dsjson", "text/csv", COFFEE).problem(415, "unsupported_media_type");
    upload(&client, "format=dsjson", "application/vnd.apache.parquet", COFFEE)
        .problem(415, "unsupported_media_type");
    upload(&client, "", "application/json", COFFEE).problem(415, "unsupported_media_type");
    upload(&client, "format=vw", "application/json", COFFEE).problem(400, "invalid_query");
    let answer = upload(&client, "hash_dims=4", "text/csv", "action,propensity,cost\n0,0.5,0\n");
    answer.problem(422, "invalid_value");
    assert_eq!(answer.json["errors"][0]["field"], "hash_dims");
    // Without features of actions, every row has all dimensions.
    let plain = r#"{"_label_cost":0,"a":[1,2],"p":[0.5,0.5],"c":{"f":1}}"#;
    for (dims, line) in [("1000000", plain), ("16777217", COFFEE), ("18446744073709551615", COFFEE)] {
        let answer = dsjson(&client, &format!("hash_dims={dims}"), line);
        answer.problem(422, "invalid_value");
        assert_eq!(answer.json["errors"][0]["field"], "hash_dims");
    }
    // A form names it in its manifest.
    let form = format!(
        "--b\r\ncontent-disposition: form-data; name=\"manifest\"\r\n\r\n{{\"format\":\"dsjson\",\"hash_dims\":8}}\r\n--b\r\n\
         content-disposition: form-data; name=\"data\"\r\n\r\n{COFFEE}\r\n--b--\r\n"
    );
    let kind = [("content-type", "multipart/form-data; boundary=b")];
    let dataset = client.send("POST", "/v1/datasets", &kind, Some(form.as_bytes())).expect(201);
    let eight = json!({"form": "named", "dim": 8});
    assert_eq!(dataset["capabilities"]["action_sets"], json!({"x": eight, "actions": eight}));
    // An append is hashed like the dataset.
    let path = format!("/v1/datasets/{}/rows?format=dsjson", id_of(&dataset));
    let more = COFFEE.replace("13118d9b", "23118d9b");
    let send = |body: &str| {
        client.send("POST", &path, &[("content-type", "application/json")], Some(body.as_bytes()))
    };
    let longer = send(&more).expect(201);
    assert_eq!((&longer["version"], &longer["rows"]), (&json!(2), &json!(2)));
    rejected_row(&send(COFFEE), 1, "EventId", "earlier version");
    let whole = dsjson(&client, "hash_dims=8", &format!("{COFFEE}\n{more}")).expect(201);
    assert_eq!(whole["digest"], longer["digest"]);
}

/// A version keeps what only the files of earlier versions contained.
#[test]
fn an_append_has_the_pdrop_of_earlier_rows_and_keeps_their_warnings() {
    let server = Server::start();
    let client = server.client();
    let line = |pdrop: &str, id: &str| {
        format!(r#"{{"_label_cost":-1,"EventId":"{id}",{pdrop}"a":[1,2],"p":[0.5,0.5],"c":{{"f":1}}}}"#)
    };
    let dataset =
        dsjson(&client, "hash_dims=4", &format!("{}\n{}", line(r#""pdrop":0.25,"#, "a"), DANGLING[0]));
    let dataset = dataset.expect(201);
    assert_eq!(dataset["health"]["pdrop"], 0.25);
    let path = format!("/v1/datasets/{}/rows?format=dsjson", id_of(&dataset));
    let send = |body: &str| {
        client.send("POST", &path, &[("content-type", "application/json")], Some(body.as_bytes()))
    };
    rejected_row(&send(&line("", "b")), 1, "pdrop", "is 0, but 0.25 in earlier rows");
    rejected_row(&send(&line(r#""pdrop":0.5,"#, "b")), 1, "pdrop", "is 0.5, but 0.25 in earlier rows");
    let longer = send(&line(r#""pdrop":0.25,"#, "b")).expect(201);
    let warnings =
        |dataset: &Value, code: &str| warning_codes(dataset).iter().filter(|c| **c == code).count();
    for code in ["rows_dropped_upstream", "dangling_rewards"] {
        assert_eq!(warnings(&longer, code), 1, "{longer}");
    }
    // Rows of another format do not contain it, and change nothing.
    let plain =
        json!({"x": [1, 0, 0, 0], "action": 0, "propensities": [0.5, 0.5], "cost": 0, "event_id": "c"});
    let path = format!("/v1/datasets/{}/rows", id_of(&dataset));
    let kind = [("content-type", "application/x-ndjson")];
    let longest = client.send("POST", &path, &kind, Some(plain.to_string().as_bytes())).expect(201);
    assert_eq!((&longest["version"], &longest["health"]["pdrop"]), (&json!(3), &json!(0.25)));
    assert_eq!(warnings(&longest, "rows_dropped_upstream"), 1, "{longest}");
    rejected_row(&send(&line("", "d")), 1, "pdrop", "but 0.25 in earlier rows");
}
