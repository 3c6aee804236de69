//! Which rows are rejected, with what message, and how accepted rows are stored.

use guarantor_engine::log::{LogSource, MemoryLog, Outcome, OutcomeKind};
use guarantor_ingest::{Format, IngestError, IngestLimits, LogOptions};
use serde_json::json;

use crate::support::{Reading, full_rows, lines, rejected};

#[test]
fn a_log_becomes_the_columns_of_the_engine() {
    let (summary, columns) = Reading::from(Format::Ndjson).rows(&full_rows(20)).unwrap();
    assert_eq!((columns.rows(), columns.n_actions, columns.dim), (20, 3, 2));
    assert_eq!(columns.x[..4], [0.0, -1.5, 0.0, -1.5]);
    assert_eq!(columns.costs[..3], [0.0, -0.25, -0.5]);
    assert_eq!(columns.full.as_ref().unwrap()[..3], [0.5, 0.25, 0.25]);
    assert_eq!(columns.contexts.as_ref().unwrap()[..4], [0, 0, 1, 1]);
    let names: Vec<&str> = columns.candidates.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a", "new"]);
    let log = MemoryLog::new(columns).unwrap();
    let shape = log.shape();
    assert_eq!((shape.rows, shape.contexts), (summary.rows, summary.contexts));
    assert_eq!(shape.capabilities, summary.capabilities);
}

/// Rows with one bad field each, and a part of the message.
fn malformed() -> Vec<(&'static str, &'static str, &'static str)> {
    vec![
        (r#"{"action": 0"#, "action", "EOF"),
        (r#"[1]"#, "row", "an object with the fields of a row"),
        (r#"7 8"#, "row", "an object"),
        (r#"{"x": [1, 2], "action": 0, "propensity": 0.5, "cost": 0} {}"#, "row", "trailing characters"),
        (
            r#"{"x": [1, 2], "action": 0, "propensity": 0.5, "cost": 0, "ip": 1}"#,
            "ip",
            "is not a field of a row",
        ),
        (
            r#"{"x": [1, 2], "action": 0, "action": 0, "propensity": 0.5, "cost": 0}"#,
            "action",
            "occurs twice",
        ),
        (r#"{"x": [1, 2], "propensity": 0.5, "cost": 0}"#, "action", "is missing"),
        (r#"{"x": [1, 2], "action": null, "propensity": 0.5, "cost": 0}"#, "action", "is missing"),
        (r#"{"x": [1, 2], "action": -1, "propensity": 0.5, "cost": 0}"#, "action", "-1 is not in [0, 3)"),
        (r#"{"x": [1, 2], "action": 3, "propensity": 0.5, "cost": 0}"#, "action", "3 is not in [0, 3)"),
        (
            r#"{"x": [1, 2], "action": 99999999999999, "propensity": 0.5, "cost": 0}"#,
            "action",
            "not in [0, 3)",
        ),
        (r#"{"x": [1, 2], "action": 1.5, "propensity": 0.5, "cost": 0}"#, "action", "floating point"),
        (r#"{"x": [1, 2], "action": "1", "propensity": 0.5, "cost": 0}"#, "action", "string"),
        (r#"{"x": [1, 2], "action": 0, "cost": 0}"#, "propensity", "is missing; log it"),
        (r#"{"x": [1, 2], "action": 0, "propensity": 0, "cost": 0}"#, "propensity", "0 is not in (0, 1]"),
        (
            r#"{"x": [1, 2], "action": 0, "propensity": 1.01, "cost": 0}"#,
            "propensity",
            "1.01 is not in (0, 1]",
        ),
        (r#"{"x": [1, 2], "action": 0, "propensity": NaN, "cost": 0}"#, "propensity", "expected"),
        (r#"{"x": [1, 2], "action": 0, "propensity": 0.5}"#, "cost", "is missing"),
        (r#"{"x": [1, 2], "action": 0, "propensity": 0.5, "cost": 0.1}"#, "cost", "0.1 is not in [-1, 0]"),
        (r#"{"x": [1, 2], "action": 0, "propensity": 0.5, "cost": -1.1}"#, "cost", "outcome_min"),
        (
            r#"{"x": [1, 2], "action": 0, "propensity": 0.5, "reward": 1}"#,
            "reward",
            "the upload says outcome=cost; remove it, or upload with outcome=reward",
        ),
        (r#"{"action": 0, "propensity": 0.5, "cost": 0}"#, "x", "has 0 numbers, but earlier rows have 2"),
        (r#"{"x": [1], "action": 0, "propensity": 0.5, "cost": 0}"#, "x", "has 1 numbers"),
        (r#"{"x": [1, null], "action": 0, "propensity": 0.5, "cost": 0}"#, "x", "null"),
        (r#"{"x": [1, 1e39], "action": 0, "propensity": 0.5, "cost": 0}"#, "x[1]", "finite"),
        (r#"{"x": "1,2", "action": 0, "propensity": 0.5, "cost": 0}"#, "x", "string"),
        (
            r#"{"x": [1, 2], "action": 0, "propensity": 0.5, "cost": 0, "context_id": "a"}"#,
            "context_id",
            "earlier rows do not have it",
        ),
        (
            r#"{"x": [1, 2], "action": 0, "propensity": 0.5, "cost": 0, "event_id": 1}"#,
            "event_id",
            "earlier rows do not have it",
        ),
        (
            r#"{"x": [1, 2], "action": 0, "propensity": 0.5, "cost": 0, "candidates": {"b": 0.5}}"#,
            "candidates",
            "has [b], but earlier rows have []",
        ),
        (
            r#"{"x": [1, 2], "action": 0, "propensities": [0.5, 0.25, 0.25], "cost": 0}"#,
            "propensities",
            "earlier rows do not have it",
        ),
    ]
}

#[test]
fn a_malformed_row_is_named() {
    let good = r#"{"x": [1, 2], "action": 1, "propensity": 0.5, "cost": -1}"#;
    for (bad, field, words) in malformed() {
        let text = format!("{good}\n\n{good}\n{bad}\n{good}");
        let reading = Reading { n_actions: Some(3), ..Format::Ndjson.into() };
        let errors = rejected(reading.chunks(text.as_bytes(), 11));
        assert_eq!(errors.total, 1, "{bad}: {errors:?}");
        let error = &errors.first[0];
        assert_eq!((error.row, error.field.as_str()), (4, field), "{bad}: {error}");
        assert!(error.message.contains(words), "{bad}: {error}");
    }
}

/// The same for rows with every field, which contradict themselves or earlier rows.
#[test]
fn a_row_that_disagrees_is_named() {
    let cases = [
        ("propensities", json!([0.5, 0.25, 0.24]), "propensities", "sum to 0.99"),
        ("propensities", json!([0.5, 0.75, -0.25]), "propensities[2]", "not a probability"),
        ("propensities", json!([0.5, 0.5]), "propensities", "has 2 numbers, but there are 3 actions"),
        ("propensities", json!([0.25, 0.5, 0.25]), "propensity", "is 0.5, but propensities[0] is 0.25"),
        ("propensity", json!(0.5001), "propensity", "is 0.5001, but"),
        ("x", json!([9.0, -1.5]), "x", "differs from row 1"),
        ("event_id", json!("e1"), "event_id", "duplicate event_id \"e1\" (first seen in row 2)"),
        ("event_id", json!(""), "event_id", "1 to 1024"),
        ("context_id", json!(null), "context_id", "is missing, but earlier rows have it"),
        ("candidates", json!({ "a": 0.5 }), "candidates", "has [a], but earlier rows have [a, new]"),
        ("candidates", json!({ "a": 0.5, "new": 1.5 }), "candidates.new", "not in [0, 1]"),
    ];
    for (key, value, field, words) in cases {
        let mut rows = full_rows(6);
        // A row of action 0 that repeats the first context.
        let mut row = rows[0].clone();
        row["event_id"] = json!("another");
        row[key] = value.clone();
        rows.push(row);
        let errors = rejected(Reading::from(Format::Ndjson).rows(&rows));
        let error = &errors.first[0];
        assert_eq!((errors.total, error.row, error.field.as_str()), (1, 7, field), "{value}: {error}");
        assert!(error.message.contains(words), "{value}: {error}");
    }
    let mut rows = full_rows(6);
    rows[5]["propensity"] = json!(0.25001);
    assert!(Reading::from(Format::Ndjson).rows(&rows).is_ok(), "rounding is not a disagreement");
}

#[test]
fn the_first_twenty_are_listed_and_all_are_counted() {
    let mut rows = full_rows(20_000);
    for row in rows.iter_mut().skip(9_000).step_by(2) {
        row["cost"] = json!(1);
    }
    let errors = rejected(Reading::from(Format::Ndjson).chunks(&lines(&rows), 1 << 16));
    assert_eq!(errors.total, 5_500);
    let listed: Vec<u64> = errors.first.iter().map(|error| error.row).collect();
    assert_eq!(listed, (0..20).map(|i| 9_001 + 2 * i).collect::<Vec<_>>());
}

#[test]
fn a_log_without_rows_is_rejected() {
    for text in ["", "\n\n"] {
        let read = Reading::from(Format::Ndjson).chunks(text.as_bytes(), 1);
        assert!(matches!(read, Err(IngestError::Unreadable(_))), "{read:?}");
    }
}

#[test]
fn limits_hold() {
    let limited = |limits: IngestLimits| Reading { limits, ..Format::Ndjson.into() };
    let few = IngestLimits { rows: 5, ..IngestLimits::default() };
    assert!(limited(few.clone()).rows(&full_rows(5)).is_ok());
    let read = limited(few).rows(&full_rows(6));
    assert!(matches!(read, Err(IngestError::TooLarge(_))), "{read:?}");
    for (limits, words) in [
        (IngestLimits { dim: 1, ..IngestLimits::default() }, "has 2 numbers; the maximum is 1"),
        (IngestLimits { actions: 2, ..IngestLimits::default() }, "has 3 numbers; it must have 2 to 2"),
        (IngestLimits { line_bytes: 100, ..IngestLimits::default() }, "is longer than 100 bytes"),
    ] {
        let errors = rejected(limited(limits).rows(&full_rows(4)));
        assert_eq!(errors.total, 4);
        assert!(errors.first[0].message.contains(words), "{}", errors.first[0]);
    }
}

#[test]
fn rejected_rows_count_toward_the_limit_and_memory_for_ids_is_bounded() {
    let limited = |limits: IngestLimits| Reading { limits, ..Format::Ndjson.into() };
    let mut rows = full_rows(2_000);
    rows.iter_mut().for_each(|row| row["action"] = json!(7));
    let read = limited(IngestLimits { rows: 1_000, ..IngestLimits::default() }).rows(&rows);
    assert!(matches!(read, Err(IngestError::TooLarge(_))), "{read:?}");
    // 1000 events of 32 bytes, and 500 contexts of 64 bytes and three propensities.
    let bytes = 1_000 * 32 + 500 * (64 + 3 * 8);
    let ids = |identity_bytes| limited(IngestLimits { identity_bytes, ..IngestLimits::default() });
    let read = ids(bytes - 1).rows(&full_rows(1_000));
    assert!(matches!(read, Err(IngestError::TooLarge(_))), "{read:?}");
    assert!(ids(bytes).rows(&full_rows(1_000)).is_ok());
}

#[test]
fn outcomes_are_mapped() {
    let outcome = Outcome::new(OutcomeKind::Reward, 0.0, 10.0).unwrap();
    let rows = [
        json!({ "action": 0, "propensity": 0.5, "reward": 10 }),
        json!({ "action": 1, "propensity": 0.5, "reward": 2.5 }),
    ];
    let options = LogOptions { exact_propensities: true, ..LogOptions::default() };
    let (summary, columns) = Reading { outcome, options, ..Format::Ndjson.into() }.rows(&rows).unwrap();
    assert_eq!((summary.outcome, summary.dim), (outcome, 0));
    assert!(!summary.capabilities.features && summary.capabilities.uniform);
    assert_eq!((columns.outcome, columns.costs), (outcome, vec![-1.0, -0.25]));
    let same = [json!({ "action": 0, "propensity": 0.5, "cost": 0 })];
    let read = Reading::from(Format::Ndjson).rows(&same);
    assert!(matches!(read, Err(IngestError::Option { field: "n_actions", .. })), "{read:?}");
}
