//! A log is the same in every format, with every compression and however its bytes arrive.

use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float64Builder, ListBuilder};
use arrow_array::{
    ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray, StructArray, UInt8Array,
};
use guarantor_engine::log::{Columns, Outcome, OutcomeKind};
use guarantor_ingest::write::{LogWriter, LoggedRow, WriteLayout};
use guarantor_ingest::{Encoding, FileFormat, Format, IngestError, LogSummary};
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::logs::{self, NDJSON, TYPES, encoded, written};
use crate::support::{Reading, full_rows, generated, lines, rejected};

/// A log as a Parquet file whose columns have types that this crate would not write.
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

#[test]
fn a_log_is_the_same_in_every_format_and_chunking() {
    let rows = full_rows(101);
    let (ndjson, parquet) = (lines(&rows), as_parquet(&rows));
    let mut digests = Vec::new();
    for (format, bytes, size) in [
        (Format::Ndjson, &ndjson, 1),
        (Format::Ndjson, &ndjson, 100_000),
        (Format::Parquet, &parquet, 13),
        (Format::Parquet, &parquet, 100_000),
    ] {
        let (summary, _) = Reading::from(format).chunks(bytes, size).unwrap();
        assert_eq!((summary.rows, summary.contexts, summary.n_actions, summary.dim), (101, 51, 3, 2));
        let capabilities = &summary.capabilities;
        assert!(capabilities.features && capabilities.full_propensities);
        assert!(capabilities.multiple_interactions);
        assert_eq!(capabilities.candidates, ["a", "new"]);
        digests.push(summary.digest);
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "{digests:?}");
    let mut other = rows.clone();
    other[100]["cost"] = json!(-1.0);
    let (changed, _) = Reading::from(Format::Ndjson).rows(&other).unwrap();
    assert_ne!(changed.digest, digests[0]);
}

#[test]
fn parquet_that_is_not_a_log_is_rejected() {
    let reject = |bytes: &[u8], words: &str| {
        let read = Reading::from(Format::Parquet).chunks(bytes, 64);
        let Err(IngestError::Unreadable(message)) = read else { panic!("{words}: {read:?}") };
        assert!(message.contains(words), "{message}");
    };
    reject(b"", "not a Parquet file");
    reject(b"PAR1 but not really PAR1", "its index is longer than the file");
    let ints = |n: i64| Arc::new(Int64Array::from_iter_values(0..n)) as ArrayRef;
    let unknown = RecordBatch::try_from_iter([("action", ints(3)), ("ip", ints(3))]).unwrap();
    reject(&parquet_of(&unknown), "the column cost or reward is missing");
    let typed = RecordBatch::try_from_iter([("action", ints(3)), ("cost", ints(3)), ("x", ints(3))]).unwrap();
    reject(&parquet_of(&typed), "the column x has the type Int64");
    let empty = RecordBatch::try_from_iter([("action", ints(0)), ("cost", ints(0))]).unwrap();
    reject(&parquet_of(&empty), "no rows");
    let nulls = Arc::new(Float64Array::from(vec![Some(0.5), None])) as ArrayRef;
    let cost = Arc::new(Float64Array::from(vec![0.0, 0.0])) as ArrayRef;
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("action", ints(2), false),
        ("propensity", nulls, true),
        ("cost", cost, false),
    ])
    .unwrap();
    let errors = rejected(Reading::from(Format::Parquet).chunks(&parquet_of(&batch), 64));
    assert_eq!((errors.first[0].row, errors.first[0].field.as_str()), (2, "propensity"));
}

/// `bytes` cut at these places, given as shares of its length.
fn cut(bytes: &[u8], cuts: &[f64]) -> Vec<Vec<u8>> {
    let mut at: Vec<usize> = cuts.iter().map(|share| (share * bytes.len() as f64) as usize).collect();
    at.sort();
    at.push(bytes.len());
    let mut from = 0;
    at.into_iter().map(|to| bytes[std::mem::replace(&mut from, to)..to].to_vec()).collect()
}

/// Reads a file of this content type, or of the format with this name, and with this compression.
fn read(
    kind: &str,
    coding: &str,
    pieces: Vec<Vec<u8>>,
    n_actions: Option<usize>,
) -> Result<(LogSummary, Columns), IngestError> {
    let format = Format::of_content_type(kind).unwrap_or_else(|| kind.parse().unwrap());
    let encoding = Encoding::named(coding).unwrap();
    let format = FileFormat { encoding, hash_dims: format.hashes_features().then_some(4), ..format.into() };
    Reading { format, n_actions, ..Format::Ndjson.into() }.pieces(pieces)
}

prop_compose! {
    fn row(dim: usize)(
        x in prop::collection::vec(-1e6f32..1e6, dim),
        action in 0u32..4,
        weights in prop::array::uniform4(0.01f64..1.0),
        cost in prop_oneof![Just(0.0), Just(-1.0), -1.0f64..0.0],
        context in "[ -~é\n]{1,8}",
        candidate in 0.0f64..=1.0,
    ) -> Value {
        let sum: f64 = weights.iter().sum();
        let p = weights.map(|w| w / sum);
        json!({"x": x, "action": action, "propensities": p, "cost": cost, "context_id": context,
            "candidates": {"b": candidate}})
    }
}

/// Valid rows with a common layout. Every row is its own context, because its x is unique.
fn log() -> impl Strategy<Value = Vec<Value>> {
    let rows = (1usize..4).prop_flat_map(|dim| prop::collection::vec(row(dim), 1..12));
    (rows, any::<[bool; 4]>()).prop_map(|(mut rows, keep)| {
        for (i, row) in rows.iter_mut().enumerate() {
            let fields = row.as_object_mut().unwrap();
            let action = fields["action"].as_u64().unwrap() as usize;
            if !keep[0] {
                let p = fields.remove("propensities").unwrap();
                fields.insert("propensity".into(), p[action].clone());
            }
            let context = fields["context_id"].as_str().unwrap().to_owned();
            fields.insert("context_id".into(), json!(format!("{i}{context}")));
            for (keep, field) in keep[1..].iter().zip(["x", "context_id", "candidates"]) {
                if !keep {
                    fields.remove(field);
                }
            }
        }
        rows
    })
}

#[test]
fn a_valid_log_survives_any_chunking() {
    let cuts = prop::collection::vec(0.0f64..1.0, 0..40);
    proptest!(generated(24), |(rows in log(), cuts in cuts, coding in 0usize..3)| {
        let coding = ["identity", "gzip", "zstd"][coding];
        let (whole, _) = read(NDJSON, "identity", vec![written(NDJSON, &rows)], Some(4)).unwrap();
        prop_assert_eq!(whole.rows, rows.len() as u64);
        for kind in TYPES {
            let bytes = encoded(coding, &written(kind, &rows));
            let summary = read(kind, coding, cut(&bytes, &cuts), Some(4));
            let (summary, _) = summary.map_err(|error| TestCaseError::fail(format!("{kind} {coding}: {error}")))?;
            prop_assert_eq!(&summary.digest, &whole.digest, "{} {}", kind, coding);
            prop_assert_eq!(&summary.health, &whole.health);
        }
    });
}

/// A log of this length crosses the ends of blocks of lines and of batches of rows.
#[test]
fn a_long_log_survives_chunking_in_every_format() {
    let rows = logs::rows(20_000, true);
    let mut bodies: Vec<(&str, Vec<u8>, &str)> =
        TYPES.iter().map(|kind| (*kind, written(kind, &rows), "rows")).collect();
    bodies.push(("dsjson", logs::dsjson(20_000), "dsjson"));
    bodies.push(("obd", logs::obd(20_000), "obd"));
    let mut digests = std::collections::BTreeMap::new();
    for (kind, bytes, content) in bodies {
        for (coding, size) in [("identity", usize::MAX), ("identity", 1000), ("gzip", 4099), ("zstd", 777)] {
            let coded = encoded(coding, &bytes);
            let pieces = coded.chunks(size.min(coded.len())).map(<[u8]>::to_vec).collect();
            let (summary, _) = read(kind, coding, pieces, None).unwrap();
            assert_eq!(summary.rows, 20_000);
            let digest = digests.entry(content).or_insert_with(|| summary.digest.clone());
            assert_eq!(*digest, summary.digest, "{kind} {coding} {size}");
        }
    }
    assert_eq!(digests.len(), 3);
}

/// What a format writes reads back as the same rows, in every format that can hold them.
#[test]
fn what_is_written_reads_back() {
    let outcome = Outcome::new(OutcomeKind::Reward, 0.0, 1.0).unwrap();
    let plain = WriteLayout { dim: 3, ..WriteLayout::default() };
    for layout in [
        WriteLayout { context_ids: true, ..plain.clone() },
        plain.clone(),
        WriteLayout { dim: 0, ..plain.clone() },
        WriteLayout { timestamps: true, ..plain.clone() },
        WriteLayout { dim: 0, timestamps: true, versions: true, context_ids: true, ..plain.clone() },
    ] {
        let dim = layout.dim;
        let mut digests = Vec::new();
        for format in Format::ALL {
            if format.can_write(&layout).is_err() {
                assert!(!format.is_implied(), "{} holds every log", format.name());
                continue;
            }
            let mut writer = LogWriter::new(format, &layout, Vec::new()).unwrap();
            for i in 0..10_000u32 {
                let x = [i as f32 / 7.0, -1.5, 1e-3 * i as f32];
                let hash = i.wrapping_mul(0x9e37_79b9) ^ i.wrapping_mul(i);
                let propensities = [[0.25, 0.75], [0.1, 0.9]][hash as usize / 4096 % 2];
                let (action, outcome) = (hash / 64 % 2, f64::from(hash % 3 / 2));
                let row = LoggedRow {
                    x: &x[..dim],
                    action,
                    propensities: &propensities,
                    outcome,
                    context: i.into(),
                    // A late row now and then.
                    timestamp: 1_700_000_000_123_456 + 1000 * i64::from(i ^ u32::from(i % 100 == 7)),
                    version: ["v1", "v-2.0_b"][i as usize / 5000],
                    ..LoggedRow::default()
                };
                writer.write(&row).unwrap();
            }
            let bytes = writer.finish().unwrap();
            let format = FileFormat::from(format).for_dim(dim);
            let (summary, _) =
                Reading { format, outcome, ..Format::Ndjson.into() }.chunks(&bytes, 1 << 16).unwrap();
            assert_eq!((summary.rows, summary.n_actions), (10_000, 2));
            if format.format != Format::Obd {
                digests.push(summary.digest);
            }
        }
        assert!(digests.len() >= 4);
        digests.dedup();
        assert_eq!(digests.len(), 1, "{layout:?}");
    }
}
