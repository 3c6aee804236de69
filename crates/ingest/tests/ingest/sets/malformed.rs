//! Every way in which a row with actions can be wrong, with the field and the message.

use guarantor_engine::log::Repetitions;
use guarantor_ingest::{Format, IngestError, IngestLimits, LogOptions};
use serde_json::{Value, json};

use super::{read_json, reading};
use crate::support::rejected;

/// A row with these actions as JSON, the first of which was taken.
fn row(actions: &str) -> String {
    format!(r#"{{"x": {{"u": 1}}, "actions": {actions}, "action": 0, "propensity": 0.5, "cost": 0}}"#)
}

const FIRST: &str = r#"[{"f": 1}, {"f": 2}]"#;

/// The field and the message of the second of two rows, or of the only one.
fn fault(lines: &[String]) -> (String, String) {
    let errors = rejected(reading(Format::Ndjson).chunks(lines.join("\n").as_bytes(), 31));
    assert_eq!((errors.total, errors.first[0].row), (1, lines.len() as u64), "{lines:?}");
    let message = errors.first[0].message.clone();
    // Errors of the parser also have the column.
    let message = message.split(" (column ").next().unwrap_or_default().to_owned();
    (errors.first[0].field.clone(), message)
}

#[test]
fn an_action_that_cannot_be_read_is_named() {
    let cases = [
        ("7", "actions", "invalid type: integer `7`, expected a list with one entry per action"),
        ("{}", "actions", "invalid type: map, expected a list with one entry per action"),
        (
            r#"[{"f": 1}, 7]"#,
            "actions[1]",
            "invalid type: integer `7`, expected an action as a list of numbers or as an object with its features",
        ),
        (
            r#"[{"f": 1}, null]"#,
            "actions[1]",
            "invalid type: null, expected an action as a list of numbers or as an object with its features",
        ),
        (r#"[[1], [1, "a"]]"#, "actions[1][1]", "invalid type: string \"a\", expected f64"),
        (r#"[{"x": [1]}, {"x": [null]}]"#, "actions[1].x[0]", "invalid type: null, expected f64"),
        (r#"[{"f": 1}, {"f": 1e39}]"#, "actions[1].f", "1e39 is not a finite single-precision number"),
        (r#"[[1, 2], [1, -1e39]]"#, "actions[1][1]", "-1e39 is not a finite single-precision number"),
        (
            r#"[{"x": [1, 2]}, {"x": [1, 1e39]}]"#,
            "actions[1].x[1]",
            "1e39 is not a finite single-precision number",
        ),
        (
            r#"[{"x": {"a": {"b": 1e39}}}, {}]"#,
            "actions[0].x.a.b",
            "1e39 is not a finite single-precision number",
        ),
        (
            r#"[{"f": 3e38, "f": 3e38}, {"f": 1}]"#,
            "actions[0]",
            "has features of one dimension whose sum is not a finite single-precision number",
        ),
        (r#"[[1, 2], [1]]"#, "actions[1]", "has 1 numbers, but actions[0] has 2"),
        (r#"[{"x": [1, 2]}, {"x": [1]}]"#, "actions[1].x", "has 1 numbers, but actions[0] has 2"),
        (
            r#"[[1, 2], {"f": 1}]"#,
            "actions[1]",
            "has named features, but actions[0] is a list of 2 numbers; write all actions alike",
        ),
        (r#"[[1, 2], {}]"#, "actions[1]", "has no features, but actions[0] is a list of 2 numbers"),
        (
            r#"[{"f": 1}, {"x": [1]}]"#,
            "actions[1].x",
            "is a list of numbers, but actions[0] is not; write all actions alike",
        ),
        (
            r#"[{"f": 1, "x": [1]}, {}]"#,
            "actions[0]",
            "has x and \"f\"; an action with x has only id and x, so write all features into x, or none",
        ),
        (r#"[{"x": {}, "x": {}}, {}]"#, "actions[0].x", "occurs twice"),
        (r#"[{"id": 1, "id": 2}, {}]"#, "actions[0].id", "occurs twice"),
        (
            r#"[{"id": 1.5}, {}]"#,
            "actions[0].id",
            "invalid type: floating point `1.5`, expected a string or an integer",
        ),
        (r#"[{"id": ""}, {"id": "b"}]"#, "actions[0].id", "must have 1 to 1024 bytes"),
        (
            r#"[{"id": "a"}, {"f": 1}]"#,
            "actions[1].id",
            "is missing, but actions[0] has an id; give all actions one",
        ),
        (
            r#"[{"f": 1}, {"id": "a"}]"#,
            "actions[1].id",
            "is present, but actions[0] has no id; give all actions one",
        ),
        (
            r#"[{"id": "a"}, {"id": 7}, {"id": "7"}]"#,
            "actions[2].id",
            "duplicate id \"7\" (first in actions[1])",
        ),
        ("[]", "actions", "has 0 actions; a row has 2 to 1024, so leave out rows without a choice"),
        ("[{}]", "actions", "has 1 actions; a row has 2 to 1024, so leave out rows without a choice"),
    ];
    for (actions, field, message) in cases {
        assert_eq!(fault(&[row(actions)]), (field.into(), message.into()), "{actions}");
    }
    let many = format!("[{}]", vec!["{}"; 1025].join(","));
    let (field, message) = fault(&[row(&many)]);
    assert_eq!(field, "actions");
    assert!(
        message.starts_with("has 1025 actions; a row has 2 to 1024, because jobs take memory"),
        "{message}"
    );
}

#[test]
fn a_row_that_does_not_fit_its_actions_or_the_earlier_rows_is_named() {
    let whole = |fields: Value| {
        let mut row: Value = serde_json::from_str(&row(FIRST)).unwrap();
        fields.as_object().unwrap().iter().for_each(|(name, value)| row[name] = value.clone());
        row.to_string()
    };
    let cases = [
        (row(FIRST), whole(json!({"action": 2})), "action", "2 is not in [0, 2)"),
        (row(FIRST), whole(json!({"actions": null})), "actions", "is missing, but earlier rows have it"),
        (
            row(FIRST),
            whole(json!({"actions": null, "x": [1]})),
            "actions",
            "is missing, but earlier rows have it",
        ),
        (row(FIRST), whole(json!({"x": null})), "x", "is missing, but earlier rows have it"),
        (
            row(FIRST),
            whole(json!({"x": [1]})),
            "x",
            "is a list of numbers, but earlier rows have named features",
        ),
        (whole(json!({"x": null})), row(FIRST), "x", "is present, but earlier rows do not have it"),
        (
            whole(json!({"x": [1]})),
            row(FIRST),
            "x",
            "has named features, but earlier rows have a list of 1 numbers",
        ),
        (
            whole(json!({"x": [1]})),
            whole(json!({"x": [1, 2]})),
            "x",
            "has 2 numbers, but earlier rows have 1",
        ),
        (
            whole(json!({"x": [1]})),
            whole(json!({"x": [1e39]})),
            "x[0]",
            "is not a finite single-precision number",
        ),
        (
            row(FIRST),
            row("[[1], [2]]"),
            "actions[0]",
            "is a list of numbers, but the actions of earlier rows have named",
        ),
        (
            row("[[1], [2]]"),
            row(FIRST),
            "actions[0]",
            "has named features, but the actions of earlier rows have lists of 1",
        ),
        (
            row("[[1], [2]]"),
            row("[[1, 2], [2, 3]]"),
            "actions[0]",
            "has 2 numbers, but the actions of earlier rows have 1",
        ),
        (
            row("[[1], [2]]"),
            row("[{}, {}]"),
            "actions[0]",
            "has no features, but the actions of earlier rows have a list",
        ),
        (
            row("[{}, {}]"),
            row(FIRST),
            "actions[0]",
            "has features, but the actions of earlier rows have none",
        ),
        (
            row(FIRST),
            row(r#"[{"id": 1}, {"id": 2}]"#),
            "actions[0].id",
            "is present, but the actions of earlier rows have no id",
        ),
        (
            row(r#"[{"id": 1}, {"id": 2}]"#),
            row(FIRST),
            "actions[0].id",
            "is missing, but the actions of earlier rows have an id",
        ),
        (
            whole(json!({"propensities": [0.5, 0.5]})),
            whole(json!({"propensities": [0.5, 0.25, 0.25]})),
            "propensities",
            "has 3 numbers, but the row has 2 actions",
        ),
        (
            whole(json!({"candidate_propensities": {"a": [0.5, 0.5]}})),
            whole(json!({"candidate_propensities": {"a": [1]}})),
            "candidate_propensities.a",
            "has 1 numbers, but the row has 2 actions",
        ),
        (
            r#"{"x": [1], "action": 0, "propensity": 0.5, "cost": 0}"#.into(),
            row(FIRST),
            "actions",
            "is present, but earlier rows do not have it",
        ),
    ];
    for (first, second, field, message) in cases {
        let (found, text) = fault(&[first.clone(), second.clone()]);
        assert_eq!(found, field, "{first} {second}: {text}");
        assert!(text.contains(message), "{first} {second}: {text}");
    }
    let (field, message) = fault(&[r#"{"x": {"a": 1}, "action": 0, "propensity": 0.5, "cost": 0}"#.into()]);
    assert_eq!(field, "x");
    assert!(message.contains(r#"for example [{"id": "0"}, {"id": "1"}]"#), "{message}");
}

#[test]
fn features_are_limited_in_each_row_and_in_all() {
    let wide = |n: usize| {
        let features: serde_json::Map<String, Value> = (0..n).map(|i| (format!("f{i}"), json!(1))).collect();
        json!({"actions": [features, {"g": 1}], "action": 0, "propensity": 0.5, "cost": 0})
    };
    let limited = |limits: IngestLimits, rows: &[Value]| {
        let mut reading = reading(Format::Ndjson);
        reading.limits = limits;
        reading.rows(rows)
    };
    let per_row = || IngestLimits { row_non_zeros: 10, ..IngestLimits::default() };
    assert!(limited(per_row(), &[wide(9)]).is_ok());
    let errors = rejected(limited(per_row(), &[wide(10)]));
    assert_eq!(errors.first[0].field, "actions[1].g");
    assert_eq!(errors.first[0].message, "is one feature too many: a row has at most 10 that are not 0");
    let list = json!({"actions": [[1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5]], "action": 0, "propensity": 0.5, "cost": 0});
    let errors = rejected(limited(per_row(), &[list]));
    assert_eq!(errors.first[0].message, "has one feature too many: a row has at most 10 that are not 0");
    let mut both = wide(9);
    both["x"] = json!({"a": 1});
    let errors = rejected(limited(per_row(), &[both]));
    assert_eq!(errors.first[0].message, "has 11 features that are not 0, with those of x; the maximum is 10");

    let in_all = || IngestLimits { dataset_non_zeros: 30, ..IngestLimits::default() };
    assert!(limited(in_all(), &[wide(9), wide(9), wide(9)]).is_ok());
    match limited(in_all(), &[wide(9), wide(9), wide(10)]) {
        Err(IngestError::TooLarge(message)) => {
            assert_eq!(message, "a dataset has at most 30 features that are not 0; upload fewer rows");
        }
        other => panic!("{other:?}"),
    }
    let few = IngestLimits { actions: 3, ..IngestLimits::default() };
    let errors = rejected(limited(
        few,
        &[json!({"actions": [{}, {}, {}, {}], "action": 0, "propensity": 0.5, "cost": 0})],
    ));
    assert!(errors.first[0].message.starts_with("has 4 actions; a row has 2 to 3"), "{errors:?}");
    let narrow = IngestLimits { dim: 2, ..IngestLimits::default() };
    let errors = rejected(limited(
        narrow,
        &[json!({"actions": [[1, 2, 3], [1, 2, 3]], "action": 0, "propensity": 0.5, "cost": 0})],
    ));
    assert_eq!(errors.first[0].message, "has 3 numbers; the maximum is 2");
}

#[test]
fn options_that_do_not_fit_sets_are_refused() {
    let lines: Vec<Value> = vec![serde_json::from_str(&row(FIRST)).unwrap()];
    let option = |change: &dyn Fn(&mut crate::support::Reading)| {
        let mut reading = reading(Format::Ndjson);
        change(&mut reading);
        match reading.rows(&lines) {
            Err(IngestError::Option { field, message }) => (field, message),
            other => panic!("{other:?}"),
        }
    };
    let (field, message) = option(&|reading| reading.n_actions = Some(2));
    assert_eq!(field, "n_actions");
    assert_eq!(
        message,
        "cannot be set for this log: every row has its own actions and says how many there are"
    );
    let (field, message) = option(&|reading| {
        reading.options = LogOptions { repetitions: Repetitions::Designed, ..LogOptions::default() }
    });
    assert_eq!(field, "repetitions");
    assert!(message.contains("upload with repetitions=decisions"), "{message}");
    let (field, message) =
        option(&|reading| reading.format = reading.format.with_hash_dims((1 << 24) + 1).unwrap());
    assert_eq!((field, message.as_str()), ("hash_dims", "makes 16777217 features; the maximum is 16777216"));
    assert!(read_json(&lines).is_ok());
    let mut reading = reading(Format::Ndjson);
    reading.format = reading.format.with_hash_dims(8).unwrap();
    let plain = json!({"x": [1], "action": 0, "propensities": [0.5, 0.5], "cost": 0});
    match reading.rows(&[plain]) {
        Err(IngestError::Option { field: "hash_dims", message }) => {
            assert_eq!(message, "is set, but the rows have no named features; leave it out");
        }
        other => panic!("{other:?}"),
    }
}
