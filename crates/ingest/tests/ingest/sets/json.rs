//! Action sets in NDJSON and DSJSON.

use guarantor_engine::log::{FeatureSpace, LogSource, MemoryLog};
use guarantor_ingest::Format;
use serde_json::json;

use super::{DIMS, NAMED, action_of, articles, hashed, read_json, reading, spaces, x_of};
use crate::support::lines;

#[test]
fn a_log_with_sets_becomes_the_columns_of_the_engine() {
    let rows = articles(50);
    let (summary, columns) = read_json(&rows).unwrap();
    assert_eq!((summary.rows, summary.n_actions, summary.dim), (50, 5, 0));
    assert_eq!(summary.capabilities.action_sets, Some(spaces(NAMED, NAMED)));
    assert!(summary.capabilities.features && summary.capabilities.knows_actions());
    let sets = columns.sets.as_ref().unwrap();
    for (i, row) in rows.iter().enumerate() {
        let actions = row["actions"].as_array().unwrap();
        assert_eq!(sets.size(i), actions.len());
        let country = format!("country={}", row["x"]["country"].as_str().unwrap());
        let age = row["x"]["age"].as_f64().unwrap() as f32;
        assert_eq!(x_of(sets, i), hashed(DIMS, &[(&country, 1.0), ("age", age)]));
        for (a, action) in actions.iter().enumerate() {
            let topic = format!("topic={}", action["topic"].as_str().unwrap());
            let fresh = action["fresh"].as_f64().unwrap() as f32;
            let id = format!("id={}", action["id"].as_str().unwrap());
            let features = [(topic.as_str(), 1.0), ("fresh", fresh), (&id, 1.0)];
            assert_eq!(action_of(sets, i, a), hashed(DIMS, &features));
        }
    }
    let sizes = summary.health.action_sets.clone().unwrap();
    assert_eq!((sizes.least_actions, sizes.most_actions), (2, 5));
    assert!((sizes.mean_actions - 3.46).abs() < 1e-12, "{sizes:?}");
    assert!(summary.health.warnings.iter().all(|w| w.code.to_string() != "actions_never_logged"));
    let log = MemoryLog::new(columns).unwrap();
    assert_eq!(log.shape().capabilities, summary.capabilities);
    for index in 0..log.chunks() {
        log.chunk(index).unwrap().check(log.shape()).unwrap();
    }
}

#[test]
fn all_ways_to_write_features_mean_the_same() {
    let row = |x: serde_json::Value, actions: serde_json::Value| {
        read_json(&[json!({"x": x, "actions": actions, "action": 1, "propensity": 0.5, "cost": -1})]).unwrap()
    };
    let nested = row(
        json!({"geo": {"country": "DE", "_hidden": 3}, "tags": ["a", "b"], "no": false, "none": null, "yes": true}),
        json!([{"n": [1, 0.5]}, {"Article": {"_text": "big red"}, "7": 2}]),
    );
    let flat = row(
        json!({"geo.country=DE": 1, "tags=a": 1, "tags=b": 1, "yes": 1}),
        json!([{"x": {"n.0": 1, "n.1": 0.5}}, {"Article=big": 1, "Article=red": 1, "7": 2}]),
    );
    assert_eq!(nested.0.digest, flat.0.digest);
    let sets = flat.1.sets.as_ref().unwrap();
    assert_eq!(action_of(sets, 0, 0), hashed(DIMS, &[("n.0", 1.0), ("n.1", 0.5)]));
    assert_eq!(
        action_of(sets, 0, 1),
        hashed(DIMS, &[("Article=big", 1.0), ("Article=red", 1.0), ("7", 2.0)])
    );

    let (lists, columns) =
        read_json(&[json!({"x": [1, 0], "actions": [[0, 2, -1], {"x": [3, 0, 0]}], "action": 0, "propensity": 0.5, "cost": 0})])
            .unwrap();
    let list = |dim| FeatureSpace::List { dim };
    assert_eq!(lists.capabilities.action_sets, Some(spaces(list(2), list(3))));
    let sets = columns.sets.as_ref().unwrap();
    assert_eq!((x_of(sets, 0), action_of(sets, 0, 0)), (vec![(0, 1.0)], vec![(1, 2.0), (2, -1.0)]));
    assert_eq!(action_of(sets, 0, 1), [(0, 3.0)]);

    // A member x that is a value is a feature of that name.
    let (_, columns) = read_json(&[
        json!({"actions": [{"x": 2, "y": 1}, {"x": "a"}], "action": 0, "propensity": 0.5, "cost": 0}),
    ])
    .unwrap();
    let sets = columns.sets.as_ref().unwrap();
    assert_eq!(action_of(sets, 0, 0), hashed(DIMS, &[("x", 2.0), ("y", 1.0)]));
    assert_eq!(action_of(sets, 0, 1), hashed(DIMS, &[("x=a", 1.0)]));
}

#[test]
fn actions_without_features_have_their_ids_or_nothing() {
    let row =
        |actions: serde_json::Value| json!({"actions": actions, "action": 0, "propensity": 0.5, "cost": 0});
    let (summary, columns) =
        read_json(&[row(json!([{"id": "a"}, {"id": 7, "x": {}}, {"id": "c", "f": 1}]))]).unwrap();
    assert_eq!(summary.capabilities.action_sets, Some(spaces(FeatureSpace::None, NAMED)));
    let sets = columns.sets.as_ref().unwrap();
    let expected: [&[(&str, f32)]; 3] = [&[("id=a", 1.0)], &[("id=7", 1.0)], &[("f", 1.0), ("id=c", 1.0)]];
    expected.iter().enumerate().for_each(|(a, f)| assert_eq!(action_of(sets, 0, a), hashed(DIMS, f)));

    let (bare, _) = read_json(&[row(json!([{}, {}])), row(json!([[], [], {}]))]).unwrap();
    assert_eq!(bare.capabilities.action_sets, Some(spaces(FeatureSpace::None, FeatureSpace::None)));
    assert!(!bare.capabilities.features);
    let codes: Vec<String> = bare.health.warnings.iter().map(|w| w.code.to_string()).collect();
    assert!(codes.contains(&"actions_without_features".into()), "{codes:?}");
}

/// Several namespaces, sets of several sizes, and actions in played order.
const DSJSON: &str = concat!(
    r#"{"_label_cost":-1,"_label_probability":0.5,"_label_Action":3,"_labelIndex":2,"EventId":"e0","a":[3,1,2],"p":[0.5,0.2,0.3],"c":{"User":{"age":0.5,"segment":"s1"},"Geo":{"country":"DE"},"_multi":[{"Article":{"topic":"sport"},"Author":{"id":"x"}},{"Article":{"topic":"food"}},{"_tag":"t","Article":{"topic":"sport","fresh":0.25}}]}}"#,
    "\n",
    r#"{"_label_cost":0,"EventId":"e1","a":[1,2],"p":[0.75,0.25],"c":{"User":{"age":0.25},"_multi":[{"Article":{"fresh":0}},{}]}}"#,
    "\n",
);

#[test]
fn dsjson_with_action_features_is_a_log_of_sets() {
    let (summary, columns) = reading(Format::Dsjson).chunks(DSJSON.as_bytes(), 11).unwrap();
    let rows = [
        json!({"x": {"User.age": 0.5, "User.segment=s1": 1, "Geo.country=DE": 1},
            "actions": [{"Article": {"topic": "sport"}, "Author.id=x": 1}, {"Article.topic=food": 1}, {"Article": {"topic": "sport", "fresh": 0.25}}],
            "action": 2, "propensity": 0.5, "propensities": [0.2, 0.3, 0.5], "cost": -1, "event_id": "e0"}),
        json!({"x": {"User.age": 0.25}, "actions": [{"Article.fresh": 0}, {}],
            "action": 0, "propensities": [0.75, 0.25], "cost": 0, "event_id": "e1"}),
    ];
    let (expected, _) = read_json(&rows).unwrap();
    assert_eq!(summary.digest, expected.digest);
    assert_eq!((summary.n_actions, columns.n_actions), (3, 3));
    assert_eq!(columns.full.as_ref().unwrap(), &[0.2, 0.3, 0.5, 0.75, 0.25]);
    assert!(summary.health.warnings.iter().all(|w| w.code.to_string() != "action_features_not_used"));

    // Fewer dimensions are another log; none leaves the features out.
    let with_dims = |dims| {
        let mut reading = reading(Format::Dsjson);
        reading.format = reading.format.with_hash_dims(dims).unwrap();
        reading.chunks(DSJSON.as_bytes(), 100).unwrap()
    };
    let (small, columns) = with_dims(8);
    let eight = FeatureSpace::Named { dim: 8 };
    assert_eq!(small.capabilities.action_sets, Some(spaces(eight, eight)));
    assert_eq!(x_of(columns.sets.as_ref().unwrap(), 1), hashed(8, &[("User.age", 0.25)]));
    let (none, columns) = with_dims(0);
    assert_eq!(none.capabilities.action_sets, Some(spaces(FeatureSpace::None, FeatureSpace::None)));
    assert_eq!(columns.sets.as_ref().unwrap().actions.non_zeros(), 0);
    assert!(none.health.warnings.iter().any(|w| w.code.to_string() == "action_features_not_used"));
}

#[test]
fn without_action_features_a_dsjson_log_has_one_set_of_actions() {
    let line = |k: usize| {
        let (a, p): (Vec<_>, Vec<_>) = ((1..=k).collect(), vec![1.0 / k as f64; k]);
        json!({"_label_cost": 0, "a": a, "p": p, "c": {"u": 1, "_multi": vec![json!({"_tag": "t"}); k]}})
    };
    let (summary, _) = reading(Format::Dsjson).chunks(&lines(&[line(3), line(3)]), 50).unwrap();
    assert_eq!((summary.capabilities.action_sets, summary.dim), (None, 256));
    let errors = crate::support::rejected(reading(Format::Dsjson).chunks(&lines(&[line(3), line(2)]), 50));
    assert_eq!(errors.first[0].field, "a");
    assert!(
        errors.first[0].message.contains("describe the actions of every event in c._multi"),
        "{errors:?}"
    );
}
