//! Rows that are read in whole columns are those that are read one by one: the same batches, summaries and errors.

use std::io::Cursor;
use std::slice::from_ref;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use guarantor_engine::log::{Outcome, OutcomeKind};
use guarantor_ingest::{Checker, Format, IngestLimits, Rules, read};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};

use crate::logs::{arrow_stream, batch, parquet};
use crate::support::Stored;

/// What a log may have.
struct Shape {
    dim: usize,
    full: Option<usize>,
    propensity: bool,
    kind: OutcomeKind,
    ids: bool,
    times: bool,
    candidates: bool,
}

fn shape(rng: &mut ChaCha8Rng) -> Shape {
    let full = [None, Some(2), Some(5)][rng.random_range(0..3)];
    Shape {
        dim: [0, 1, 4][rng.random_range(0..3)],
        full,
        propensity: full.is_none() || rng.random(),
        kind: [OutcomeKind::Cost, OutcomeKind::Reward][rng.random_range(0..2)],
        ids: rng.random(),
        times: rng.random(),
        candidates: rng.random(),
    }
}

fn row(i: usize, shape: &Shape, rng: &mut ChaCha8Rng) -> Value {
    let mut row = Map::new();
    let k = shape.full.unwrap_or(3);
    let action = rng.random_range(0..k);
    row.insert("action".into(), action.into());
    let weights: Vec<f64> = (0..k).map(|_| 0.1 + rng.random::<f64>()).collect();
    let total: f64 = weights.iter().sum();
    let pi: Vec<f64> = weights.iter().map(|w| w / total).collect();
    if shape.full.is_some() {
        row.insert("propensities".into(), json!(pi));
    }
    if shape.propensity {
        row.insert("propensity".into(), json!(pi[action]));
    }
    let value = [0.0, 1.0, 0.25, 0.1][rng.random_range(0..4)];
    match shape.kind {
        OutcomeKind::Cost => row.insert("cost".into(), json!(-value)),
        OutcomeKind::Reward => row.insert("reward".into(), json!(value)),
    };
    if shape.dim > 0 {
        let x: Vec<f64> = (0..shape.dim).map(|_| rng.random::<f64>() * 2.0 - 1.0).collect();
        row.insert("x".into(), json!(x));
    }
    if shape.ids {
        row.insert("event_id".into(), format!("e{i}").into());
        row.insert("policy_version".into(), format!("v{}", i / 1000).into());
    }
    if shape.times {
        row.insert("timestamp".into(), json!(1.7e9 + i as f64));
    }
    if shape.candidates {
        row.insert("candidates".into(), json!({ "new": rng.random::<f64>(), "a": 0.5 }));
    }
    Value::Object(row)
}

/// Something about a row that must be rejected, or at least looked at.
fn spoil(rows: &mut [Value], rng: &mut ChaCha8Rng) {
    let i = rng.random_range(0..rows.len());
    let other = rows[rng.random_range(0..rows.len())].clone();
    let row = rows[i].as_object_mut().unwrap();
    let faults = [
        ("action", json!(99)),
        ("action", json!(-1)),
        ("propensity", json!(0.0)),
        ("propensity", json!(1.5)),
        ("propensities", json!([0.5, 0.1])),
        ("propensities", json!([0.5, 0.1, 0.1, 0.1, 0.1])),
        ("cost", json!(7.0)),
        ("reward", json!(-0.5)),
        ("reward", json!(1e300)),
        ("x", json!([1e300])),
        ("x", json!([0.5, 1e300, -1e300, 0.0])),
        ("event_id", other["event_id"].clone()),
        ("event_id", "".into()),
        ("policy_version", "v".repeat(300).into()),
        ("timestamp", json!(1e18)),
        ("candidates", json!({ "new": 1.5, "a": 0.5 })),
    ];
    let (field, value) = faults[rng.random_range(0..faults.len())].clone();
    if row.contains_key(field) {
        row.insert(field.into(), value);
    }
}

/// What reading a log gives, and the batches that it was divided into.
fn reading(format: Format, bytes: Vec<u8>, shape: &Shape, most: Option<u64>) -> String {
    let outcome = match shape.kind {
        OutcomeKind::Cost => Outcome::default(),
        OutcomeKind::Reward => {
            Outcome { cap: Some(0.5), ..Outcome::new(OutcomeKind::Reward, 0.0, 0.5).unwrap() }
        }
    };
    let limits = IngestLimits { rows: most.unwrap_or(1 << 30), ..IngestLimits::default() };
    let rules = Rules::new(None, outcome, None, limits).unwrap();
    let mut stored = Stored::default();
    let summary = read(format.into(), Cursor::new(bytes), Checker::new(rules), &mut stored);
    // Messages may say where in its line a field ends.
    let summary = format!("{summary:?}");
    let mut parts = summary.split(" (column ");
    let first = parts.next().unwrap().to_owned();
    let rest: String = parts.map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit())).collect();
    format!("{first}{rest} {:?}", stored.batches)
}

/// Lines whose fields are in another order in every other line are read one by one.
fn in_other_orders(rows: &[Value]) -> Vec<u8> {
    let line = |(i, row): (usize, &Value)| {
        let mut fields: Vec<String> =
            row.as_object().unwrap().iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        if i % 2 == 1 {
            fields.reverse();
        }
        format!("{{{}}}\n", fields.join(", "))
    };
    rows.iter().enumerate().map(line).collect::<String>().into_bytes()
}

/// A column without values changes nothing, but its rows are read one by one.
fn with_nulls(batch: &RecordBatch) -> RecordBatch {
    let nulls: ArrayRef = Arc::new(StringArray::new_null(batch.num_rows()));
    let schema = batch.schema();
    let columns =
        schema.fields().iter().map(|field| field.name().clone()).zip(batch.columns().iter().cloned());
    RecordBatch::try_from_iter(columns.chain([("context_id".to_owned(), nulls)])).unwrap()
}

#[test]
fn columns_are_the_rows_that_are_read_one_by_one() {
    for seed in 0..120 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let shape = shape(&mut rng);
        let n = [1, 7, 300, 3000, 9000][rng.random_range(0..5)];
        let mut rows: Vec<Value> = (0..n).map(|i| row(i, &shape, &mut rng)).collect();
        for _ in 0..[0, 0, 1, 3][rng.random_range(0..4)] {
            spoil(&mut rows, &mut rng);
        }
        let most = Some(n as u64 - 1).filter(|_| rng.random_range(0..10) == 0);
        let text = rows.iter().map(|row| format!("{row}\n")).collect::<String>();
        let one_by_one = reading(Format::Ndjson, in_other_orders(&rows), &shape, most);
        // Space and empty lines do not matter, except to row numbers.
        let by_columns = reading(Format::Ndjson, text.clone().into_bytes(), &shape, most);
        assert!(by_columns == one_by_one, "seed {seed}: {by_columns:.600}\n{one_by_one:.600}");
        let spaced = text.replace("\":", "\" : ").replace(",\"", " , \"").replace('\n', "\r\n");
        assert!(reading(Format::Ndjson, spaced.into_bytes(), &shape, most) == one_by_one, "seed {seed}");
        let (batch, nulls) = (batch(&rows), with_nulls(&batch(&rows)));
        for (format, plain, other) in [
            (Format::Parquet, parquet(&batch), parquet(&nulls)),
            (Format::ArrowStream, arrow_stream(from_ref(&batch)), arrow_stream(from_ref(&nulls))),
        ] {
            let (by_columns, one_by_one) =
                (reading(format, plain, &shape, most), reading(format, other, &shape, most));
            assert!(by_columns == one_by_one, "seed {seed}: {by_columns:.600}\n{one_by_one:.600}");
        }
    }
}

#[test]
fn empty_lines_count() {
    let shape = Shape {
        dim: 1,
        full: None,
        propensity: true,
        kind: OutcomeKind::Cost,
        ids: false,
        times: false,
        candidates: false,
    };
    let line = r#"{"action":1,"cost":-1,"propensity":0.5,"x":[0.5]}"#;
    let log = format!("\n{line}\n \t\r\n\n{line}\n{}\n", line.replace("0.5,", "2,"));
    let read = reading(Format::Ndjson, log.into_bytes(), &shape, None);
    assert!(read.contains("row: 6, field: \"propensity\""), "{read}");
}
