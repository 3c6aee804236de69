//! What happens to logs with action sets after they were read: appends, added candidates, a stored logging policy,
//! checks, repeated rows, and arbitrary input.

use guarantor_engine::checks::CheckName;
use guarantor_engine::log::Outcome;
use guarantor_engine::policy::{ActionScorer, KnownFeature, PolicyParams};
use guarantor_ingest::{
    AddedCandidates, Checker, FileFormat, Format, IngestError, IngestLimits, LogSummary, MemorySink, Rules,
    read, read_files,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::{NAMED, articles, read_json, reading, spaces};
use crate::support::{Stored, generated, lines, rejected};

fn rules() -> Rules {
    Rules::new(None, Outcome::default(), None, IngestLimits::default()).unwrap()
}

fn stored(rows: &[Value]) -> (Stored, LogSummary) {
    let mut stored = Stored::default();
    let bytes = std::io::Cursor::new(lines(rows));
    let summary = read(Format::Ndjson.into(), bytes, Checker::new(rules()), &mut stored).unwrap();
    (stored, summary)
}

/// Appends rows of a format to stored ones, as the store does.
fn append(
    stored: &Stored,
    before: &LogSummary,
    format: FileFormat,
    bytes: Vec<u8>,
) -> Result<LogSummary, IngestError> {
    let rules = Rules::new(Some(before.n_actions), Outcome::default(), None, IngestLimits::default())?
        .with_actions_declared(before.capabilities.actions_declared);
    let mut checker = Checker::new(rules);
    for (layout, rows) in &stored.batches {
        checker.remember(layout, rows.clone())?;
    }
    checker.end_part();
    checker.follow(stored.digest.clone().unwrap(), Some(before.health.clone()));
    read(format, std::io::Cursor::new(bytes), checker, &mut MemorySink::default())
}

#[test]
fn appended_rows_make_the_log_that_one_upload_makes() {
    let rows = articles(400);
    let whole = read_json(&rows).unwrap().0;
    let (part, before) = stored(&rows[..150]);
    let after = append(&part, &before, Format::Ndjson.into(), lines(&rows[150..])).unwrap();
    assert_eq!((after.digest, after.rows, after.n_actions), (whole.digest.clone(), 400, 5));
    assert_eq!((after.health, after.capabilities), (whole.health.clone(), whole.capabilities.clone()));
    let files = |at: &[usize]| {
        let mut files = Vec::new();
        for pair in at.windows(2) {
            files.push((Format::Ndjson.into(), std::io::Cursor::new(lines(&rows[pair[0]..pair[1]]))));
        }
        read_files(files, Checker::new(rules()), &mut MemorySink::default()).unwrap()
    };
    assert_eq!(files(&[0, 1, 70, 400]).digest, whole.digest);

    // Rows of another form are rejected, whatever the format.
    let fixed = json!({"x": [1.0], "action": 0, "propensity": 0.5, "cost": 0, "event_id": "n", "timestamp": 1_800_000_000});
    let errors = rejected(append(&part, &before, Format::Ndjson.into(), lines(&[fixed])));
    assert_eq!(
        (errors.first[0].field.as_str(), errors.first[0].message.as_str()),
        ("actions", "is missing, but earlier rows have it")
    );
    let line = br#"{"_label_cost":0,"a":[1,2],"p":[0.5,0.5],"c":{"_multi":[{"f":1},{"f":2}]},"Timestamp":"2026-01-01T00:00:00Z","EventId":"n"}"#;
    let errors = rejected(append(&part, &before, Format::Dsjson.into(), line.to_vec()));
    assert_eq!(errors.first[0].field, "c._multi", "{errors:?}");
}

#[test]
fn dsjson_is_appended_in_the_dimensions_of_the_log() {
    let line = |i: usize| {
        json!({"_label_cost": 0, "EventId": format!("e{i}"), "a": ([1, 2, 3][..2 + i % 2]), "p": if i.is_multiple_of(2) { vec![0.5, 0.5] } else { vec![0.5, 0.25, 0.25] },
            "c": {"User": {"u": i}, "_multi": (0..2 + i % 2).map(|a| json!({"A": {"t": format!("t{a}"), "i": i}})).collect::<Vec<_>>()}})
    };
    let all: Vec<Value> = (0..20).map(line).collect();
    let small = FileFormat::from(Format::Dsjson).with_hash_dims(16).unwrap();
    let mut sink = Stored::default();
    let before =
        read(small, std::io::Cursor::new(lines(&all[..9])), Checker::new(rules()), &mut sink).unwrap();
    let mut whole = reading(Format::Dsjson);
    whole.format = small;
    let (whole, _) = whole.chunks(&lines(&all), 100).unwrap();
    // The dimensions are those of the stored rows, although the caller does not state them.
    let after = append(&sink, &before, Format::Dsjson.into(), lines(&all[9..])).unwrap();
    assert_eq!(after.digest, whole.digest);
}

#[test]
fn candidates_are_added_with_one_number_per_action_of_each_row() {
    let rows = articles(100);
    let without: Vec<Value> = rows
        .iter()
        .map(|row| {
            let mut row = row.clone();
            row.as_object_mut().unwrap().remove("candidates");
            row.as_object_mut().unwrap().remove("candidate_propensities");
            row
        })
        .collect();
    let (part, _) = stored(&without);
    let more: Vec<Value> = rows
        .iter()
        .rev()
        .map(|row| json!({"event_id": row["event_id"], "candidates": row["candidates"], "candidate_propensities": row["candidate_propensities"]}))
        .collect();
    let add = |more: &[Value]| {
        let bytes = std::io::Cursor::new(lines(more));
        let mut added = AddedCandidates::read(Format::Ndjson.into(), bytes, None, IngestLimits::default())?;
        let (mut checker, mut sink) = (Checker::new(rules()), MemorySink::default());
        for (layout, rows) in &part.batches {
            let (layout, rows) = added.apply(layout, rows.clone())?;
            checker.rewrite(&layout, rows, &mut sink)?;
        }
        added.finish()?;
        checker.finish_rewrite(None, &mut sink)
    };
    assert_eq!(add(&more).unwrap().digest, read_json(&rows).unwrap().0.digest);
    let mut short = more.clone();
    short[97]["candidate_propensities"]["new"] = json!([0.5, 0.5]);
    short[97]["candidates"]["new"] = json!(0.5);
    let errors = rejected(add(&short));
    assert_eq!((errors.first[0].row, errors.first[0].field.as_str()), (98, "candidate_propensities.new"));
    assert_eq!(errors.first[0].message, "has 2 numbers, but the row has 4 actions");
    let errors = rejected(add(&[json!({"actions": [[1]], "candidates": {"a": 1}})]));
    assert!(errors.first[0].message.contains("is stored already"), "{errors:?}");
}

/// A policy that prefers fresh articles, and rows that it has logged.
fn fresh(weight: f64) -> PolicyParams {
    let index = super::hashed(super::DIMS, &[("fresh", 1.0)])[0].0;
    PolicyParams::ActionScorer(Box::new(ActionScorer {
        features: spaces(NAMED, NAMED),
        inverse_temperature: 1.0,
        constant: 0.0,
        x: Vec::new(),
        actions: vec![KnownFeature { index, center: 0.0, scale: 1.0, weight }],
        pairs: None,
        hidden: None,
    }))
}

#[test]
fn a_stored_policy_supplies_and_checks_propensities() {
    let mut rows = articles(60);
    let (_, columns) = read_json(&rows).unwrap();
    let sets = columns.sets.unwrap();
    let pi = fresh(0.25).propensities(sets.view()).unwrap();
    for (i, row) in rows.iter_mut().enumerate() {
        let fields = row.as_object_mut().unwrap();
        ["propensities", "propensity", "candidates", "candidate_propensities"]
            .iter()
            .for_each(|f| drop(fields.remove(*f)));
        assert_eq!(fields["actions"].as_array().unwrap().len(), sets.size(i));
    }
    let with = |policy: PolicyParams, rows: &[Value]| {
        let mut reading = reading(Format::Ndjson);
        reading.policy = Some(policy);
        reading.rows(rows)
    };
    let (summary, columns) = with(fresh(0.25), &rows).unwrap();
    assert!(summary.capabilities.full_propensities && !summary.capabilities.propensities_logged);
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(columns.propensities[i], pi[(i, row["action"].as_u64().unwrap() as usize)]);
    }
    assert!(with(PolicyParams::UniformOverSets {}, &rows).is_ok());
    rows[7]["propensity"] = json!(0.9);
    rows.iter_mut().enumerate().for_each(|(i, row)| {
        if i != 7 {
            row["propensity"] = json!(pi[(i, row["action"].as_u64().unwrap() as usize)]);
        }
    });
    let errors = rejected(with(fresh(0.25), &rows));
    assert_eq!((errors.total, errors.first[0].row, errors.first[0].field.as_str()), (1, 8, "propensity"));

    let option = |policy: PolicyParams, rows: &[Value]| match with(policy, rows) {
        Err(IngestError::Option { field: "logging_policy_id", message }) => message,
        other => panic!("{other:?}"),
    };
    let fixed = PolicyParams::Uniform { n_actions: 3, dim: 0 };
    assert!(option(fixed, &rows).starts_with("the policy has one set of actions, but every row has its own"));
    let lists = json!({"actions": [[1], [2]], "action": 0, "cost": 0});
    assert_eq!(
        option(fresh(1.0), &[lists]),
        "the policy reads requests with named features in 16777216 dimensions and actions with named features in \
         16777216 dimensions, but the rows have requests with no features and actions with lists of 1 numbers; \
         hash_dims must be that of the policy"
    );
    let plain = json!({"x": [1], "action": 0, "cost": 0});
    assert!(option(fresh(1.0), &[plain]).starts_with("the policy plays over the actions of each row"));
}

/// Rows whose actions are drawn with probabilities `p(k)` of k actions, and logged with `written(p)`.
fn drawn(n: usize, full: bool, p: impl Fn(usize) -> Vec<f64>, written: impl Fn(f64) -> f64) -> Vec<Value> {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut row = |i: usize| {
        let k = rng.random_range(2..12usize);
        let p = p(k);
        let (mut u, mut action) = (rng.random::<f64>(), 0);
        while action + 1 < k && u >= p[action] {
            u -= p[action];
            action += 1;
        }
        let mut row = json!({"x": {"i": i}, "actions": (0..k).map(|a| json!({"a": a})).collect::<Vec<_>>(), "action": action,
            "propensity": written(p[action]), "cost": -0.5});
        if full {
            row["propensities"] = json!(p);
        }
        row
    };
    (0..n).map(&mut row).collect()
}

fn check(summary: &LogSummary, name: CheckName) -> (Option<bool>, f64, f64) {
    let check = summary.health.checks.iter().find(|check| check.name == name).unwrap();
    (check.ok, check.observed, check.expected)
}

#[test]
fn the_mean_of_inverse_propensities_is_compared_with_the_sizes_of_the_sets() {
    let skewed = |k: usize| -> Vec<f64> {
        let total = (k * (k + 1) / 2) as f64;
        (1..=k).map(|a| a as f64 / total).collect()
    };
    for full in [true, false] {
        let (summary, _) = read_json(&drawn(5000, full, skewed, |p| p)).unwrap();
        for name in [CheckName::Propensities, CheckName::ActionCounts] {
            assert_eq!(check(&summary, name).0, Some(true), "{full} {name:?} {:?}", summary.health.checks);
        }
        let (_, observed, expected) = check(&summary, CheckName::Propensities);
        let sizes = summary.health.action_sets.clone().unwrap();
        assert!((expected - sizes.mean_actions).abs() < 1e-9, "{expected} {sizes:?}");
        assert!((observed / expected - 1.0).abs() < 0.1, "{observed} {expected}");
        let mean = &summary.health.inverse_propensity_mean;
        assert!((mean.expected - sizes.mean_actions).abs() < 1e-9 && mean.z.unwrap().abs() < 4.0, "{mean:?}");
    }
    // Half the truth: the largest set does not hide it.
    let (wrong, _) = read_json(&drawn(5000, false, skewed, |p| p / 2.0)).unwrap();
    assert_eq!(check(&wrong, CheckName::Propensities).0, Some(false));
}

#[test]
fn uniform_propensities_are_one_over_the_size_of_each_set() {
    let uniform = |k: usize| vec![1.0 / k as f64; k];
    let (summary, _) = read_json(&drawn(500, false, uniform, |p| p)).unwrap();
    assert!(summary.capabilities.uniform && summary.capabilities.full_propensities);
    let (rounded, _) = read_json(&drawn(500, false, uniform, |p| (p * 1000.0).round() / 1000.0)).unwrap();
    assert!(!rounded.capabilities.uniform && !rounded.capabilities.full_propensities);
    // One over the largest set is not uniform.
    let (other, _) = read_json(&drawn(500, false, uniform, |_| 1.0 / 11.0)).unwrap();
    assert!(!other.capabilities.uniform);
}

#[test]
fn rows_that_were_sent_twice_are_recognized_by_their_features() {
    let uniform = |k: usize| vec![1.0 / k as f64; k];
    let mut rows = drawn(200, false, uniform, |p| p);
    rows.extend_from_within(..);
    assert!(matches!(read_json(&rows), Err(IngestError::RepeatedRows { row: 201, first: 1, .. })));
    // The same decisions about other articles are other rows.
    rows[200..].iter_mut().for_each(|row| row["actions"][0]["a"] = json!(0.5));
    assert!(read_json(&rows).is_ok());
}

/// Any JSON, nested a little.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|v| serde_json::Number::from_f64(v).map_or(Value::Null, Value::Number)),
        (-9i8..9).prop_map(Value::from),
        "[a-z=.é_]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let name = prop_oneof![
            Just("id".to_owned()),
            Just("x".to_owned()),
            Just("_text".to_owned()),
            "[a-c_.]{0,3}"
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(generated(400))]

    /// Whatever `x` and `actions` are, the row is read or rejected with a field of its own.
    #[test]
    fn arbitrary_actions_are_read_or_rejected(x in any_json(), actions in prop::collection::vec(any_json(), 0..5), dims in 0usize..40) {
        let row = json!({"x": x, "actions": actions, "action": 0, "propensity": 0.5, "cost": 0});
        let mut reading = reading(Format::Ndjson);
        reading.format = reading.format.with_hash_dims(dims).unwrap();
        match reading.rows(&[row]) {
            Ok((summary, columns)) => {
                let sets = columns.sets.unwrap();
                prop_assert_eq!(sets.size(0), actions.len());
                let spaces = summary.capabilities.action_sets.unwrap();
                prop_assert!(sets.actions.indices().iter().all(|&i| (i as usize) < spaces.actions.dim()));
                prop_assert!(sets.x.indices().iter().all(|&i| (i as usize) < spaces.x.dim()));
                prop_assert!(sets.actions.values().iter().all(|v| v.is_finite() && *v != 0.0));
            }
            Err(IngestError::Rows(errors)) => {
                let field = &errors.first[0].field;
                prop_assert!(field.starts_with('x') || field.starts_with("actions"), "{}", field);
            }
            // Lists are not hashed.
            Err(IngestError::Option { field: "hash_dims", .. }) => {}
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    /// The same for `_multi`.
    #[test]
    fn arbitrary_contexts_are_read_or_rejected(context in any_json(), actions in prop::collection::vec(any_json(), 2..4)) {
        let k = actions.len();
        let mut c = json!({ "_multi": actions });
        c["u"] = context;
        let line = json!({"_label_cost": 0, "a": (1..=k).collect::<Vec<_>>(), "p": vec![1.0 / k as f64; k], "c": c});
        match reading(Format::Dsjson).chunks(&lines(&[line]), 13) {
            Ok(_) => {}
            Err(IngestError::Rows(errors)) => prop_assert!(errors.first[0].field.starts_with('c'), "{:?}", errors),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

/// A log that was sent twice is refused in whatever order its rows and their actions are.
#[test]
fn a_log_that_was_sent_twice_is_refused_in_any_order() {
    let rows: Vec<serde_json::Value> = articles(120)
        .into_iter()
        .map(|mut row| {
            for field in ["event_id", "candidates", "candidate_propensities"] {
                row.as_object_mut().unwrap().remove(field);
            }
            row
        })
        .collect();
    assert!(read_json(&rows).is_ok());
    let mut twice = rows.clone();
    for i in 0..rows.len() {
        let mut again = rows[(i * 77 + 5) % rows.len()].clone();
        // The actions in reverse order, with everything that has one number per action.
        let k = again["actions"].as_array().unwrap().len();
        again["actions"].as_array_mut().unwrap().reverse();
        if let Some(full) = again.get_mut("propensities") {
            full.as_array_mut().unwrap().reverse();
        }
        again["action"] = json!(k - 1 - again["action"].as_u64().unwrap() as usize);
        twice.push(again);
    }
    let error = read_json(&twice).unwrap_err();
    assert!(matches!(error, IngestError::MultipliedRows { times: 2 }), "{error:?}");
}
