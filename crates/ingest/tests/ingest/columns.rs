//! Columns as other tools write them: more than a log has, booleans as outcomes, floats as actions.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, ListBuilder};
use arrow_array::{ArrayRef, BooleanArray, Float32Array, Float64Array, StringArray, StructArray};
use guarantor_engine::log::Outcome;
use guarantor_ingest::{Format, IngestError, LogSummary, WarningCode};
use parquet::arrow::ArrowWriter;
use parquet::basic::Encoding;
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};

use crate::logs::{self, CSV, NDJSON, arrow_stream, of_columns, written};
use crate::support::{Reading, rejected};

type Columns = Vec<(&'static str, ArrayRef)>;

fn read(kind: &str, bytes: Vec<u8>) -> Result<LogSummary, IngestError> {
    let format = Format::of_content_type(kind).unwrap();
    let reading = Reading { outcome: Outcome::reward(), ..Reading::from(format) };
    reading.chunks(&bytes, 1000).map(|(summary, _)| summary)
}

/// The batch as Parquet and as an Arrow stream, which must give the same.
#[track_caller]
fn read_both(columns: Columns) -> Result<LogSummary, IngestError> {
    let batch = of_columns(columns);
    let (one, other) = (
        read(logs::PARQUET, logs::parquet(&batch)),
        read(logs::ARROW, arrow_stream(std::slice::from_ref(&batch))),
    );
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
    one
}

fn rows(n: usize) -> Vec<Value> {
    let p = [0.1 + 0.2, 0.7 - 0.1, 0.1];
    let row = |i: usize| {
        let action = logs::scattered(i) % 3;
        json!({"x": [i % 2, (i / 2) % 2], "action": action, "propensity": p[action], "reward": i % 7 % 2})
    };
    (0..n).map(row).collect()
}

/// The rows as columns of the types that tools like to write.
fn columns(rows: &[Value]) -> Columns {
    let numbers = |field: &'static str| rows.iter().map(move |row| row[field].as_f64().unwrap());
    let mut x = ListBuilder::new(BooleanBuilder::new());
    for row in rows {
        row["x"].as_array().unwrap().iter().for_each(|v| x.values().append_value(v == 1));
        x.append(true);
    }
    vec![
        ("x", Arc::new(x.finish())),
        ("action", Arc::new(Float32Array::from_iter_values(numbers("action").map(|a| a as f32)))),
        ("propensity", Arc::new(Float64Array::from_iter_values(numbers("propensity")))),
        ("reward", Arc::new(BooleanArray::from_iter(numbers("reward").map(|r| Some(r == 1.0))))),
    ]
}

fn with(rows: &[Value], name: &'static str, column: ArrayRef) -> Columns {
    let mut columns = columns(rows);
    match columns.iter_mut().find(|(own, _)| *own == name) {
        Some(own) => own.1 = column,
        None => columns.push((name, column)),
    }
    columns
}

fn texts(n: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values((0..n).map(|i| format!("t{i}"))))
}

#[test]
fn booleans_and_whole_floats_are_the_same_log() {
    let rows = rows(200);
    let plain = read(NDJSON, written(NDJSON, &rows)).unwrap();
    let columnar = read_both(columns(&rows)).unwrap();
    assert_eq!(columnar.digest, plain.digest);
    assert_eq!(columnar.health, plain.health);
    assert_eq!(read(CSV, written(CSV, &rows)).unwrap().digest, plain.digest);
}

#[test]
fn an_action_that_is_not_whole_is_the_error_of_its_row() {
    let rows = rows(3);
    for (value, shown) in [(Some(1.5), "1.5"), (Some(f64::NAN), "NaN"), (Some(f64::INFINITY), "inf")] {
        let actions = Float64Array::from(vec![Some(0.0), value, Some(2.0)]);
        let errors = rejected(read_both(with(&rows, "action", Arc::new(actions))));
        let [error] = &errors.first[..] else { panic!("{errors:?}") };
        assert_eq!((error.row, error.field.as_str()), (2, "action"));
        assert_eq!(error.message, format!("{shown} is not a whole number"));
    }
    for (value, message) in [(Some(-1.0), "-1 is not in"), (Some(1e300), "is not in"), (None, "is missing")] {
        let actions = Float64Array::from(vec![Some(-0.0), value, Some(2.0)]);
        let errors = rejected(read_both(with(&rows, "action", Arc::new(actions))));
        assert_eq!((errors.total, errors.first[0].row), (1, 2));
        assert!(errors.first[0].message.contains(message), "{errors:?}");
    }
}

#[test]
fn booleans_are_outcomes_and_features_and_nothing_else() {
    let rows = rows(3);
    let booleans: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true]));
    for field in ["action", "propensity", "candidate.new", "timestamp", "event_id"] {
        match read_both(with(&rows, field, booleans.clone())) {
            Err(IngestError::Unreadable(message)) => assert!(message.contains(field), "{message}"),
            other => panic!("{field}: {other:?}"),
        }
    }
    let missing: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]));
    let errors = rejected(read_both(with(&rows, "reward", missing)));
    assert_eq!((errors.total, errors.first[0].row, errors.first[0].field.as_str()), (1, 2, "reward"));
}

#[test]
fn other_columns_are_ignored_and_named() {
    let rows = rows(50);
    let plain = read(NDJSON, written(NDJSON, &rows)).unwrap();
    let mut all = columns(&rows);
    let nested = StructArray::try_from(vec![("country", texts(50))]).unwrap();
    all.insert(0, ("request_ip", texts(50)));
    all.push(("user", Arc::new(nested)));
    all.push(("timestmap", texts(50)));
    let read = read_both(all).unwrap();
    assert_eq!(read.digest, plain.digest);
    let of_code = |summary: &LogSummary| {
        let found = summary.health.warnings.iter().filter(|w| w.code == WarningCode::ColumnsIgnored);
        found.map(|warning| warning.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        of_code(&read),
        [
            r#"they are not part of a log: the columns "request_ip", "user", "timestmap" (was timestamp meant?)"#
        ]
    );
    assert!(of_code(&plain).is_empty());
}

#[test]
fn a_column_that_can_only_be_a_misspelled_field_is_an_error() {
    let rows = rows(3);
    for (name, field) in [
        ("Timestamp", "timestamp"),
        ("event-id", "event_id"),
        ("X", "x"),
        ("x0", "x"),
        ("p1", "propensities"),
    ] {
        match read_both(with(&rows, name, texts(3))) {
            Err(IngestError::Unreadable(message)) => {
                assert!(message.contains(&format!("{name:?}")) && message.contains(field), "{message}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    for (field, name) in [("action", "acton"), ("reward", "rewards"), ("propensity", "propensty")] {
        let mut columns = columns(&rows);
        columns.iter_mut().find(|(own, _)| *own == field).unwrap().0 = name;
        match read_both(columns) {
            Err(IngestError::Unreadable(message)) => {
                assert!(
                    message.contains("is missing; rename the column") && message.contains(name),
                    "{message}"
                );
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// Nothing of an ignored column is decoded, so it may be in an encoding that is refused elsewhere.
#[test]
fn an_ignored_column_is_not_decoded() {
    let rows = rows(50);
    let written = |name: &'static str| {
        let properties = WriterProperties::builder()
            .set_column_dictionary_enabled(name.into(), false)
            .set_column_encoding(name.into(), Encoding::DELTA_BYTE_ARRAY);
        let batch = of_columns(with(&rows, name, texts(50)));
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        read(logs::PARQUET, writer.into_inner().unwrap())
    };
    assert_eq!(written("note").unwrap().digest, read_both(columns(&rows)).unwrap().digest);
    assert!(matches!(written("event_id"), Err(IngestError::Unreadable(_))));
}
