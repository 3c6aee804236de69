//! Uploads: what is refused and where, and that a log is the same whatever way it came.

use crate::support;

use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float64Builder, ListBuilder};
use arrow_array::{
    ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray, StructArray, UInt8Array,
};
use bytes::Bytes;
use futures_util::stream;
use guarantor::store::{self, Append, BodyError, Upload, UploadError};
use guarantor::store::{Dataset, DatasetId, PageRequest, PolicyId, Store, Workspace};
use guarantor_engine::log::{LogSource, MemoryLog, Outcome, OutcomeKind};
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{Encoding, Format, IngestError, IngestLimits};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};
use support::{policy_params, store};

fn upload(format: Format) -> Upload {
    Upload {
        id: DatasetId::new(),
        workspace: Workspace::default(),
        name: Some("log".into()),
        format,
        encoding: Encoding::default(),
        n_actions: None,
        outcome: Outcome::default(),
        logging_policy: None,
        limits: IngestLimits::default(),
    }
}

/// The bytes, `size` at a time.
fn body(bytes: &[u8], size: usize) -> impl futures_util::Stream<Item = Result<Bytes, BodyError>> + Unpin {
    let chunks: Vec<_> = bytes.chunks(size).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    stream::iter(chunks)
}

fn lines(rows: &[Value]) -> Vec<u8> {
    rows.iter().map(|row| format!("{row}\n")).collect::<String>().into_bytes()
}

async fn send(store: &Store, upload: Upload, rows: &[Value]) -> Result<Dataset, UploadError> {
    store::upload(store, upload, body(&lines(rows), 7)).await
}

/// A log with every field.
fn full_rows(n: usize) -> Vec<Value> {
    let row = |i: usize| {
        let p = [0.5, 0.25, 0.25];
        json!({
            "x": [(i / 2) as f64 * 0.125, -1.5],
            "action": i % 3,
            "propensity": p[i % 3],
            "propensities": p,
            "cost": -((i % 5) as f64) / 4.0,
            "context_id": format!("c{}", i / 2),
            "event_id": format!("e{i}"),
            "candidates": { "new": 0.5, "a": 0.25 },
        })
    };
    (0..n).map(row).collect()
}

/// The same log as a Parquet file whose columns are as unlike ours as may be.
fn as_parquet(rows: &[Value]) -> Vec<u8> {
    let number = |field: &str| rows.iter().map(|r| r[field].as_f64().unwrap()).collect::<Vec<_>>();
    let text = |field: &str| rows.iter().map(|r| r[field].as_str().unwrap()).collect::<Vec<_>>();
    let mut x = ListBuilder::new(Float64Builder::new());
    let mut propensities = FixedSizeListBuilder::new(Float64Builder::new(), 3);
    for row in rows {
        row["x"].as_array().unwrap().iter().for_each(|v| x.values().append_value(v.as_f64().unwrap()));
        x.append(true);
        let values = row["propensities"].as_array().unwrap();
        values.iter().for_each(|v| propensities.values().append_value(v.as_f64().unwrap()));
        propensities.append(true);
    }
    let candidate = |name: &str| {
        let values = rows.iter().map(|r| r["candidates"][name].as_f64().unwrap() as f32);
        Arc::new(Float32Array::from_iter_values(values)) as ArrayRef
    };
    let actions = rows.iter().map(|r| r["action"].as_u64().unwrap() as u8);
    let candidates = StructArray::try_from(vec![("new", candidate("new"))]).unwrap();
    let batch = RecordBatch::try_from_iter([
        ("candidate.a", candidate("a")),
        ("candidates", Arc::new(candidates) as ArrayRef),
        ("event_id", Arc::new(StringArray::from(text("event_id"))) as ArrayRef),
        ("context_id", Arc::new(StringArray::from(text("context_id"))) as ArrayRef),
        ("cost", Arc::new(Float64Array::from(number("cost"))) as ArrayRef),
        ("propensities", Arc::new(propensities.finish()) as ArrayRef),
        ("propensity", Arc::new(Float64Array::from(number("propensity"))) as ArrayRef),
        ("action", Arc::new(UInt8Array::from_iter_values(actions)) as ArrayRef),
        ("x", Arc::new(x.finish()) as ArrayRef),
    ])
    .unwrap();
    parquet_of(&batch)
}

fn parquet_of(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

#[tokio::test]
async fn a_log_is_the_same_whatever_way_it_came() {
    let (_directory, store) = store().await;
    let rows = full_rows(101);
    let (ndjson, parquet) = (lines(&rows), as_parquet(&rows));
    let mut digests = Vec::new();
    for (format, bytes, size) in [
        (Format::Ndjson, &ndjson, 1),
        (Format::Ndjson, &ndjson, 100_000),
        (Format::Parquet, &parquet, 13),
        (Format::Parquet, &parquet, 100_000),
    ] {
        let dataset = store::upload(&store, upload(format), body(bytes, size)).await.unwrap();
        let content = &dataset.content;
        assert_eq!((content.rows, content.contexts, content.n_actions, content.dim), (101, 51, 3, 2));
        let capabilities = &content.capabilities;
        assert!(capabilities.features && capabilities.full_propensities);
        assert!(capabilities.multiple_interactions);
        assert_eq!(capabilities.candidates, ["a", "new"]);
        digests.push(content.digest.clone());
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "{digests:?}");
    let mut other = rows.clone();
    other[100]["cost"] = json!(-1.0);
    let changed = send(&store, upload(Format::Ndjson), &other).await.unwrap();
    assert_ne!(changed.content.digest, digests[0]);
}

#[tokio::test]
async fn a_stored_log_is_read_back_and_checked() {
    let (directory, store) = store().await;
    let dataset = send(&store, upload(Format::Ndjson), &full_rows(20)).await.unwrap();
    let columns = store.fetch_log(&dataset).await.unwrap().decode().unwrap();
    assert_eq!(columns.rows(), 20);
    assert_eq!(columns.x[..4], [0.0, -1.5, 0.0, -1.5]);
    assert_eq!(columns.costs[..3], [0.0, -0.25, -0.5]);
    assert_eq!(columns.contexts.as_ref().unwrap()[..4], [0, 0, 1, 1]);
    let log = MemoryLog::new(columns).unwrap();
    assert_eq!(*log.shape(), dataset.shape());
    // Another file in its place, of a log that differs in one number, is not the dataset.
    let mut other = full_rows(20);
    other[19]["cost"] = json!(-0.75);
    let other = send(&store, upload(Format::Ndjson), &other).await.unwrap();
    let file = |d: &Dataset| directory.path().join("blobs").join(&d.content.parts[0].key);
    std::fs::copy(file(&other), file(&dataset)).unwrap();
    let mut swapped = dataset.clone();
    swapped.content.parts[0].bytes = other.bytes();
    let damaged = store.fetch_log(&swapped).await.unwrap().decode().map(drop);
    assert!(damaged.is_err());
    assert!(store.fetch_log(&dataset).await.is_err() || other.bytes() == dataset.bytes());
}

/// One bad field each, and what is said of it.
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
        (r#"{"x": [1, 2], "action": 0, "action": 0, "propensity": 0.5, "cost": 0}"#, "action", "twice"),
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
        (r#"{"x": [1, 2], "action": 0, "propensity": 0.5, "reward": 1}"#, "reward", "outcome=cost"),
        (r#"{"action": 0, "propensity": 0.5, "cost": 0}"#, "x", "has 0 numbers, the rows before have 2"),
        (r#"{"x": [1], "action": 0, "propensity": 0.5, "cost": 0}"#, "x", "has 1 numbers"),
        (r#"{"x": [1, null], "action": 0, "propensity": 0.5, "cost": 0}"#, "x", "null"),
        (r#"{"x": [1, 1e39], "action": 0, "propensity": 0.5, "cost": 0}"#, "x[1]", "finite"),
        (r#"{"x": "1,2", "action": 0, "propensity": 0.5, "cost": 0}"#, "x", "string"),
        (
            r#"{"x": [1, 2], "action": 0, "propensity": 0.5, "cost": 0, "context_id": "a"}"#,
            "context_id",
            "not in the rows before",
        ),
        (
            r#"{"x": [1, 2], "action": 0, "propensity": 0.5, "cost": 0, "event_id": 1}"#,
            "event_id",
            "not in the rows before",
        ),
        (
            r#"{"x": [1, 2], "action": 0, "propensity": 0.5, "cost": 0, "candidates": {"b": 0.5}}"#,
            "candidates",
            "names [b]",
        ),
        (
            r#"{"x": [1, 2], "action": 0, "propensities": [0.5, 0.25, 0.25], "cost": 0}"#,
            "propensities",
            "not in the rows before",
        ),
    ]
}

#[tokio::test]
async fn a_malformed_row_is_named() {
    let (_directory, store) = store().await;
    let good = r#"{"x": [1, 2], "action": 1, "propensity": 0.5, "cost": -1}"#;
    for (bad, field, words) in malformed() {
        let text = format!("{good}\n\n{good}\n{bad}\n{good}");
        let upload = Upload { n_actions: Some(3), ..upload(Format::Ndjson) };
        let refused = store::upload(&store, upload, body(text.as_bytes(), 11)).await;
        let Err(UploadError::Log(IngestError::Rows(errors))) = refused else { panic!("{bad}: {refused:?}") };
        assert_eq!(errors.total, 1, "{bad}: {errors:?}");
        let error = &errors.first[0];
        assert_eq!((error.row, error.field.as_str()), (4, field), "{bad}: {error}");
        assert!(error.message.contains(words), "{bad}: {error}");
    }
    nothing_is_stored(&store).await;
}

/// The same for rows with every field.
#[tokio::test]
async fn a_row_that_disagrees_is_named() {
    let (_directory, store) = store().await;
    let cases = [
        ("propensities", json!([0.5, 0.25, 0.24]), "propensities", "sum to 0.99"),
        ("propensities", json!([0.5, 0.75, -0.25]), "propensities[2]", "not a probability"),
        ("propensities", json!([0.5, 0.5]), "propensities", "has 2 numbers where there are 3"),
        ("propensities", json!([0.25, 0.5, 0.25]), "propensity", "0.5 but propensities[0] is 0.25"),
        ("propensity", json!(0.5001), "propensity", "0.5001 but"),
        ("x", json!([9.0, -1.5]), "x", "differs from row 1"),
        ("event_id", json!("e1"), "event_id", "row 2"),
        ("event_id", json!(""), "event_id", "1 to 1024"),
        ("context_id", json!(null), "context_id", "is missing"),
        ("candidates", json!({ "a": 0.5 }), "candidates", "[a], the rows before [a, new]"),
        ("candidates", json!({ "a": 0.5, "new": 1.5 }), "candidates.new", "not in [0, 1]"),
    ];
    for (key, value, field, words) in cases {
        let mut rows = full_rows(6);
        // A row of action 0 that repeats the first context.
        let mut row = rows[0].clone();
        row["event_id"] = json!("another");
        row[key] = value.clone();
        rows.push(row);
        let refused = send(&store, upload(Format::Ndjson), &rows).await;
        let Err(UploadError::Log(IngestError::Rows(errors))) = refused else {
            panic!("{key} {value}: {refused:?}")
        };
        let error = &errors.first[0];
        assert_eq!((errors.total, error.row, error.field.as_str()), (1, 7, field), "{value}: {error}");
        assert!(error.message.contains(words), "{value}: {error}");
    }
    let mut rows = full_rows(6);
    rows[5]["propensity"] = json!(0.25001);
    assert!(send(&store, upload(Format::Ndjson), &rows).await.is_ok(), "rounding is no disagreement");
}

async fn nothing_is_stored(store: &Store) {
    let page = PageRequest::first(10);
    assert!(store.repository().datasets(&Workspace::default(), &page).await.unwrap().data.is_empty());
    assert!(store.blobs().keys().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_first_twenty_are_named_and_all_are_counted() {
    let (_directory, store) = store().await;
    let mut rows = full_rows(20_000);
    for row in rows.iter_mut().skip(9_000).step_by(2) {
        row["cost"] = json!(1);
    }
    let refused = send_large(&store, &rows).await;
    let Err(UploadError::Log(IngestError::Rows(errors))) = refused else { panic!("{refused:?}") };
    assert_eq!(errors.total, 5_500);
    let named: Vec<u64> = errors.first.iter().map(|error| error.row).collect();
    assert_eq!(named, (0..20).map(|i| 9_001 + 2 * i).collect::<Vec<_>>());
    nothing_is_stored(&store).await;
}

async fn send_large(store: &Store, rows: &[Value]) -> Result<Dataset, UploadError> {
    store::upload(store, upload(Format::Ndjson), body(&lines(rows), 1 << 16)).await
}

#[tokio::test]
async fn parquet_that_is_no_log_is_refused() {
    let (_directory, store) = store().await;
    let refuse = async |bytes: &[u8], words: &str| {
        let refused = store::upload(&store, upload(Format::Parquet), body(bytes, 64)).await;
        let Err(UploadError::Log(IngestError::Unreadable(message))) = refused else {
            panic!("{words}: {refused:?}")
        };
        assert!(message.contains(words), "{message}");
    };
    refuse(b"", "not a Parquet file").await;
    refuse(b"PAR1 but not really PAR1", "its index is longer than the file").await;
    let ints = |n: i64| Arc::new(Int64Array::from_iter_values(0..n)) as ArrayRef;
    let unknown = RecordBatch::try_from_iter([("action", ints(3)), ("ip", ints(3))]).unwrap();
    refuse(&parquet_of(&unknown), "the column ip").await;
    let typed = RecordBatch::try_from_iter([("action", ints(3)), ("x", ints(3))]).unwrap();
    refuse(&parquet_of(&typed), "the column x has the type Int64").await;
    let empty = RecordBatch::try_from_iter([("action", ints(0))]).unwrap();
    refuse(&parquet_of(&empty), "no rows").await;
    let nulls = Arc::new(Float64Array::from(vec![Some(0.5), None])) as ArrayRef;
    let cost = Arc::new(Float64Array::from(vec![0.0, 0.0])) as ArrayRef;
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("action", ints(2), false),
        ("propensity", nulls, true),
        ("cost", cost, false),
    ])
    .unwrap();
    let refused = store::upload(&store, upload(Format::Parquet), body(&parquet_of(&batch), 64)).await;
    let Err(UploadError::Log(IngestError::Rows(errors))) = refused else { panic!("{refused:?}") };
    assert_eq!((errors.first[0].row, errors.first[0].field.as_str()), (2, "propensity"));
    nothing_is_stored(&store).await;
}

#[tokio::test]
async fn a_body_that_breaks_off_stores_nothing() {
    let (_directory, store) = store().await;
    let text = lines(&full_rows(30));
    for error in [BodyError::TooLarge { limit: 10 }, BodyError::Broken("reset".into())] {
        let chunks = vec![Ok(Bytes::from(text.clone())), Err(error.clone())];
        let refused = store::upload(&store, upload(Format::Ndjson), stream::iter(chunks)).await;
        let Err(UploadError::Body(found)) = refused else { panic!("{refused:?}") };
        assert_eq!(found, error);
    }
    for text in ["", "\n\n"] {
        let refused = store::upload(&store, upload(Format::Ndjson), body(text.as_bytes(), 1)).await;
        assert!(matches!(refused, Err(UploadError::Log(IngestError::Unreadable(_)))), "{refused:?}");
    }
    nothing_is_stored(&store).await;
}

#[tokio::test]
async fn limits_hold() {
    let (_directory, store) = store().await;
    let limited = |limits: IngestLimits| Upload { limits, ..upload(Format::Ndjson) };
    let few = IngestLimits { rows: 5, ..IngestLimits::default() };
    assert!(send(&store, limited(few.clone()), &full_rows(5)).await.is_ok());
    let refused = send(&store, limited(few), &full_rows(6)).await;
    assert!(matches!(refused, Err(UploadError::Log(IngestError::TooLarge(_)))), "{refused:?}");
    for limits in [
        IngestLimits { dim: 1, ..IngestLimits::default() },
        IngestLimits { actions: 2, ..IngestLimits::default() },
        IngestLimits { line_bytes: 100, ..IngestLimits::default() },
    ] {
        let refused = send(&store, limited(limits), &full_rows(4)).await;
        let Err(UploadError::Log(IngestError::Rows(errors))) = refused else { panic!("{refused:?}") };
        assert_eq!(errors.total, 4);
    }
}

#[tokio::test]
async fn refused_rows_count_and_ids_have_their_memory() {
    let (_directory, store) = store().await;
    let limited = |limits: IngestLimits| Upload { limits, ..upload(Format::Ndjson) };
    let mut rows = full_rows(2_000);
    rows.iter_mut().for_each(|row| row["action"] = json!(7));
    let few = IngestLimits { rows: 1_000, ..IngestLimits::default() };
    let refused = send(&store, limited(few), &rows).await;
    assert!(matches!(refused, Err(UploadError::Log(IngestError::TooLarge(_)))), "{refused:?}");
    // 1000 events of 32 bytes and 500 contexts of 48 and three propensities.
    let bytes = 1_000 * 32 + 500 * (48 + 3 * 8);
    let ids = |identity_bytes| IngestLimits { identity_bytes, ..IngestLimits::default() };
    let refused = send(&store, limited(ids(bytes - 1)), &full_rows(1_000)).await;
    assert!(matches!(refused, Err(UploadError::Log(IngestError::TooLarge(_)))), "{refused:?}");
    nothing_is_stored(&store).await;
    let stored = send(&store, limited(ids(bytes)), &full_rows(1_000)).await.unwrap();
    let more = Append { limits: ids(bytes - 1), ..append(&stored) };
    let refused = store::append(&store, more, body(&lines(&full_rows(1_001)[1_000..]), 99)).await;
    assert!(matches!(refused, Err(UploadError::Log(IngestError::TooLarge(_)))), "{refused:?}");
}

#[tokio::test]
async fn outcomes_are_mapped() {
    let (_directory, store) = store().await;
    let outcome = Outcome::new(OutcomeKind::Reward, 0.0, 10.0).unwrap();
    let rows = [
        json!({ "action": 0, "propensity": 0.5, "reward": 10 }),
        json!({ "action": 1, "propensity": 0.5, "reward": 2.5 }),
    ];
    let dataset = send(&store, Upload { outcome, ..upload(Format::Ndjson) }, &rows).await.unwrap();
    assert_eq!((dataset.content.outcome, dataset.content.dim), (outcome, 0));
    assert!(!dataset.content.capabilities.features && !dataset.content.capabilities.full_propensities);
    let columns = store.fetch_log(&dataset).await.unwrap().decode().unwrap();
    assert_eq!(columns.costs, [-1.0, -0.25]);
    let same = [json!({ "action": 0, "propensity": 0.5, "cost": 0 })];
    let refused = send(&store, upload(Format::Ndjson), &same).await;
    assert!(
        matches!(refused, Err(UploadError::Log(IngestError::Option { field: "n_actions", .. }))),
        "{refused:?}"
    );
}

/// Rows drawn from `policy_params`, with its propensities.
fn logged_by_policy(n: usize) -> Vec<Value> {
    let x: Vec<f32> = (0..2 * n).map(|i| (i % 7) as f32 / 4.0 - 0.75).collect();
    let x = ndarray::Array2::from_shape_vec((n, 2), x).unwrap();
    let actions = policy_params().sample(x.view(), 1).unwrap();
    let row = |(i, (action, propensity)): (usize, (u32, f64))| json!({ "x": x.row(i).to_vec(), "action": action, "propensity": propensity, "cost": -0.5 });
    actions.into_iter().enumerate().map(row).collect()
}

async fn with_policy(store: &Store, params: PolicyParams) -> Upload {
    let id = PolicyId::new();
    store.create_policy(&Workspace::default(), id, &params).await.unwrap();
    Upload { logging_policy: Some((id, params)), ..upload(Format::Ndjson) }
}

#[tokio::test]
async fn the_logging_policy_fills_and_checks_propensities() {
    let (_directory, store) = store().await;
    let rows = logged_by_policy(500);
    let given = send(&store, with_policy(&store, policy_params()).await, &rows).await.unwrap();
    assert!(given.content.capabilities.full_propensities);
    assert_eq!(given.content.n_actions, 3);
    assert_eq!(given.content.health["warnings"], json!([]), "{}", given.content.health);
    let mut bare = rows.clone();
    bare.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("propensity")));
    let filled = send(&store, with_policy(&store, policy_params()).await, &bare).await.unwrap();
    assert_eq!(filled.content.digest, given.content.digest);
    let columns = store.fetch_log(&filled).await.unwrap().decode().unwrap();
    assert!(
        MemoryLog::new(columns).unwrap().with_full_propensities(|x| policy_params().propensities(x)).is_ok()
    );
    let mut wrong = rows.clone();
    wrong[7]["propensity"] = json!(wrong[7]["propensity"].as_f64().unwrap() * 1.01);
    let refused = send(&store, with_policy(&store, policy_params()).await, &wrong).await;
    let Err(UploadError::Log(IngestError::Rows(errors))) = refused else { panic!("{refused:?}") };
    assert_eq!((errors.total, errors.first[0].row), (1, 8));
    assert!(errors.first[0].message.contains("the logging policy says"), "{}", errors.first[0]);
    let other = PolicyParams::Uniform { n_actions: 3, dim: 5 };
    let refused = send(&store, with_policy(&store, other).await, &rows).await;
    assert!(
        matches!(refused, Err(UploadError::Log(IngestError::Option { field: "logging_policy_id", .. }))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_policy_over_many_actions_is_asked_for_all_rows() {
    let (_directory, store) = store().await;
    let policy = || PolicyParams::Uniform { n_actions: 5_000, dim: 1 };
    let row = |i: usize| json!({ "x": [0.5], "action": i, "cost": 0, "propensity": 1.0 / 5_000.0 });
    let mut rows: Vec<Value> = (0..300).map(row).collect();
    let stored = send(&store, with_policy(&store, policy()).await, &rows).await.unwrap();
    assert_eq!(stored.content.n_actions, 5_000);
    // Enough rows that it is asked several times.
    rows[290]["propensity"] = json!(0.5);
    let refused = send(&store, with_policy(&store, policy()).await, &rows).await;
    let Err(UploadError::Log(IngestError::Rows(errors))) = refused else { panic!("{refused:?}") };
    assert_eq!((errors.total, errors.first[0].row), (1, 291));
}

fn append(dataset: &Dataset) -> Append {
    Append {
        request: uuid::Uuid::now_v7(),
        dataset: dataset.clone(),
        format: Format::Ndjson,
        encoding: Encoding::default(),
        logging_policy: None,
        limits: IngestLimits::default(),
    }
}

/// After a crash a request that has stored its rows may come again, or another with its key.
#[tokio::test]
async fn a_request_that_comes_again_has_stored_its_own_rows_only() {
    let (_directory, store) = store().await;
    let rows = full_rows(40);
    let id = DatasetId::new();
    let again = || Upload { id, ..upload(Format::Ndjson) };
    let first = send(&store, again(), &rows[..20]).await.unwrap();
    let repeated = send(&store, again(), &rows[..20]).await.unwrap();
    assert_eq!((repeated.id, &repeated.content), (id, &first.content));
    let mut wrong = rows[..20].to_vec();
    wrong[3]["cost"] = json!(7);
    for other in [&rows[..21], &rows[20..], &wrong, &[]] {
        let refused = send(&store, again(), other).await;
        assert!(matches!(refused, Err(UploadError::AnotherBody)), "{refused:?}");
    }
    let request = append(&first).request;
    let again = |dataset: &Dataset| Append { request, ..append(dataset) };
    let second = store::append(&store, again(&first), body(&lines(&rows[20..30]), 9)).await.unwrap();
    assert_eq!(second.version, 2);
    let third = store::append(&store, append(&second), body(&lines(&rows[30..]), 9)).await.unwrap();
    // Whatever is the newest version when it comes again.
    for dataset in [&first, &second, &third] {
        let repeated = store::append(&store, again(dataset), body(&lines(&rows[20..30]), 9)).await.unwrap();
        assert_eq!((repeated.version, &repeated.content), (2, &second.content));
        for other in [&rows[20..29], &rows[30..], &wrong] {
            let refused = store::append(&store, again(dataset), body(&lines(other), 9)).await;
            assert!(matches!(refused, Err(UploadError::AnotherBody)), "{refused:?}");
        }
    }
    assert_eq!(store.repository().dataset(&Workspace::default(), id).await.unwrap().version, 3);
    assert_eq!(store.blobs().keys().await.unwrap().len(), 3);
}

#[tokio::test]
async fn rows_are_appended() {
    let (_directory, store) = store().await;
    let rows = full_rows(40);
    let whole = send(&store, upload(Format::Ndjson), &rows).await.unwrap();
    let first = send(&store, upload(Format::Ndjson), &rows[..25]).await.unwrap();
    let second = store::append(&store, append(&first), body(&lines(&rows[25..]), 9)).await.unwrap();
    assert_eq!((second.id, second.version, second.content.rows), (first.id, 2, 40));
    assert_eq!(second.content.contexts, 20);
    assert_eq!(second.content.digest, whole.content.digest);
    assert_eq!(second.content.health, whole.content.health);
    assert_eq!(store.fetch_log(&second).await.unwrap().decode().unwrap().rows(), 40);
    let repeated = store::append(&store, append(&second), body(&lines(&rows[3..4]), 9)).await;
    let Err(UploadError::Log(IngestError::Rows(errors))) = repeated else { panic!("{repeated:?}") };
    assert!(errors.first[0].message.contains("an earlier version"), "{}", errors.first[0]);
    let mut more = full_rows(42);
    more[40]["action"] = json!(3);
    let refused = store::append(&store, append(&second), body(&lines(&more[40..]), 9)).await;
    let Err(UploadError::Log(IngestError::Rows(errors))) = refused else { panic!("{refused:?}") };
    assert_eq!(errors.first[0].field, "action");
    let late = store::append(&store, append(&first), body(&lines(&full_rows(42)[40..]), 9)).await;
    assert!(matches!(late, Err(UploadError::Store(_))), "{late:?}");
    // Of the refused appends nothing is left.
    assert_eq!(store.blobs().keys().await.unwrap().len(), 3);
}

#[tokio::test]
async fn false_propensities_are_noticed() {
    let (_directory, store) = store().await;
    let mut rows = logged_by_policy(2_000);
    // They claim to prefer an action that they did not.
    rows.iter_mut().for_each(|row| row["propensities"] = json!([0.6, 0.2, 0.2]));
    rows.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("propensity")));
    let dataset = send(&store, upload(Format::Ndjson), &rows).await.unwrap();
    let health = &dataset.content.health;
    let codes: Vec<_> = health["warnings"].as_array().unwrap().iter().map(|w| &w["code"]).collect();
    assert!(codes.contains(&&json!("action_counts_do_not_fit")), "{health}");
    let counts = health["action_counts"].as_array().unwrap();
    assert_eq!(counts.iter().map(|c| c.as_u64().unwrap()).sum::<u64>(), 2_000);
    let rows: Vec<_> = (0..100).map(|i| json!({ "action": i % 2, "propensity": 0.9, "cost": 0 })).collect();
    let upload = Upload { n_actions: Some(4), ..upload(Format::Ndjson) };
    let dataset = send(&store, upload, &rows).await.unwrap();
    let health = &dataset.content.health;
    assert_eq!(health["actions_never_logged"], json!([2, 3]));
    assert_eq!(health["min_propensity"], json!(0.9));
    let codes: Vec<_> = health["warnings"].as_array().unwrap().iter().map(|w| &w["code"]).collect();
    assert!(codes.contains(&&json!("actions_never_logged")), "{health}");
}
