//! The fields that say how a log came about, and what is found out about it: times, versions, candidates'
//! distributions, precision, checks, repeated rows and sketches.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Int64Array, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
};
use guarantor_engine::checks::CheckName;
use guarantor_engine::log::{LastVersion, Logging, Precision, Repetitions};
use guarantor_ingest::{
    Checker, Format, IngestError, IngestLimits, LogOptions, LogSummary, MemorySink, Rules, WarningCode, read,
};
use serde_json::{Value, json};

use crate::logs::{self, TYPES, of_columns, scattered, written};
use crate::support::{Reading, lines, rejected};

/// Rows with every new field. The candidate `b` is only in `candidate_propensities`.
fn new_rows(n: usize) -> Vec<Value> {
    let row = |i: usize| {
        let p = [[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]][i % 2];
        let action = drawn(&p, i);
        json!({
            "action": action,
            "propensities": p,
            "cost": -f64::from(u8::from(scattered(i + 7).is_multiple_of(3))),
            "timestamp": 1_700_000_000.25 + (i ^ (3 * usize::from(i % 10 == 4))) as f64,
            "policy_version": if i < n / 2 { "old" } else { "new" },
            "candidates": { "a": 0.25 },
            "candidate_propensities": { "b": [0.2, 0.5, 0.3] },
        })
    };
    (0..n).map(row).collect()
}

/// An action drawn with these propensities.
fn drawn(p: &[f64], i: usize) -> usize {
    let u = scattered(i) as f64 / f64::from(1u32 << 31);
    let mut sum = 0.0;
    p.iter()
        .position(|p| {
            sum += p;
            u < sum
        })
        .unwrap_or(p.len() - 1)
}

fn options(repetitions: Repetitions) -> LogOptions {
    LogOptions { repetitions, ..LogOptions::default() }
}

fn of(kind: &str, rows: &[Value]) -> Result<LogSummary, IngestError> {
    let format = Format::of_content_type(kind).unwrap();
    Reading { options: LogOptions::default(), ..Reading::from(format) }
        .chunks(&written(kind, rows), 1 << 12)
        .map(|(summary, _)| summary)
}

fn read_rows(rows: &[Value]) -> Result<LogSummary, IngestError> {
    of(logs::NDJSON, rows)
}

#[test]
fn new_fields_are_the_same_in_every_format() {
    let rows = new_rows(400);
    let first = read_rows(&rows).unwrap();
    for kind in TYPES {
        assert_eq!(of(kind, &rows).unwrap(), first, "{kind}");
    }
    let capabilities = &first.capabilities;
    assert_eq!(
        (capabilities.candidates.as_slice(), capabilities.candidate_propensities.as_slice()),
        (&["a".to_owned(), "b".into()][..], &["b".to_owned()][..])
    );
    assert!(capabilities.timestamps && capabilities.actions_declared);
    assert_eq!(first.last_timestamp, Some(1_700_000_399_250_000));
    let last = LastVersion { name: "new".into(), first_row: 200, rows: 200, versions: 2 };
    assert_eq!(capabilities.last_version, Some(last));
    assert!(first.health.warnings.iter().any(|w| w.code == WarningCode::RowsOutOfOrder));
    // Each of them is part of the digest.
    for (field, value) in [
        ("timestamp", json!("2023-11-14T22:13:20Z")),
        ("policy_version", json!("older")),
        ("candidate_propensities", json!({ "b": [0.2, 0.4, 0.4] })),
    ] {
        let mut other = rows.clone();
        other[0][field] = value;
        assert_ne!(read_rows(&other).unwrap().digest, first.digest, "{field}");
    }
}

#[test]
fn a_log_without_new_fields_keeps_its_digest() {
    let rows = crate::support::full_rows(20);
    let (summary, _) = Reading::from(Format::Ndjson).rows(&rows).unwrap();
    assert_eq!(summary.digest, DIGEST_OF_0_2);
}

/// What release 0.2 computed for these rows.
const DIGEST_OF_0_2: &str = "sha256:06f01cde55ede1c908c6dd21045ed234f0a8de7a3121cd212c059d6a67d43782";

#[test]
fn the_engine_gets_the_candidates_and_the_order() {
    let rows = new_rows(100);
    let reading = Reading { options: options(Repetitions::Decisions), ..Reading::from(Format::Ndjson) };
    let (_, columns) = reading.chunks(&lines(&rows), 100).unwrap();
    assert_eq!(columns.version_names, ["old", "new"]);
    assert_eq!(columns.versions.as_ref().unwrap()[49..51], [0, 1]);
    assert_eq!(columns.timestamps.as_ref().unwrap()[4..6], [1_700_000_007_250_000, 1_700_000_005_250_000]);
    assert_eq!(columns.candidate_full[0], None);
    assert_eq!(columns.candidate_full[1].as_ref().unwrap().len(), 300);
    for (row, played) in rows.iter().zip(&columns.candidates[1].1) {
        assert_eq!(*played, [0.2, 0.5, 0.3][row["action"].as_u64().unwrap() as usize]);
    }
    assert!(columns.check().is_ok());
}

/// Timestamps of every unit are the same times.
#[test]
fn units_of_timestamps() {
    let seconds = [1_700_000_000i64, 1_700_000_001, 1_700_000_002];
    let times: [ArrayRef; 6] = [
        Arc::new(TimestampSecondArray::from(seconds.to_vec()).with_timezone("+02:00")),
        Arc::new(TimestampMillisecondArray::from(seconds.map(|s| s * 1000).to_vec())),
        Arc::new(
            TimestampNanosecondArray::from(seconds.map(|s| s * 1_000_000_000).to_vec()).with_timezone("UTC"),
        ),
        Arc::new(Int64Array::from(seconds.to_vec())),
        Arc::new(Int64Array::from(seconds.map(|s| s * 1_000_000).to_vec())),
        Arc::new(arrow_array::StringArray::from(vec![
            "2023-11-14T22:13:20Z",
            "2023-11-14T23:13:21+01:00",
            "2023-11-14 22:13:22.000Z",
        ])),
    ];
    let mut digests = Vec::new();
    for column in times {
        let batch = of_columns(vec![
            ("action", Arc::new(Int64Array::from(vec![0, 1, 0]))),
            ("propensity", Arc::new(arrow_array::Float64Array::from(vec![0.5; 3]))),
            ("cost", Arc::new(arrow_array::Float64Array::from(vec![0.0; 3]))),
            ("timestamp", column),
        ]);
        for (format, bytes) in
            [(Format::Parquet, logs::parquet(&batch)), (Format::ArrowStream, logs::arrow_stream(&[batch]))]
        {
            digests.push(Reading::from(format).chunks(&bytes, 1000).unwrap().0.digest);
        }
    }
    digests.dedup();
    assert_eq!(digests.len(), 1);
}

#[test]
fn dsjson_and_obd_have_times() {
    let line = |second: usize| {
        format!(
            "{{\"_label_cost\":0,\"Timestamp\":\"2024-01-01T00:00:{second:02}.1234567Z\",\"a\":[1,2],\"p\":[0.5,0.5],\"c\":{{}}}}\n"
        )
    };
    let dsjson: String = (10..13).map(line).collect();
    let (summary, columns) = Reading::from(Format::Dsjson).chunks(dsjson.as_bytes(), 9).unwrap();
    assert_eq!(columns.timestamps.unwrap()[0], 1_704_067_210_123_456);
    assert!(summary.capabilities.timestamps && summary.capabilities.last_version.is_none());
    let mixed = dsjson.clone() + &line(20).replace("Timestamp", "time");
    let errors = rejected(Reading::from(Format::Dsjson).chunks(mixed.as_bytes(), 9));
    assert_eq!((errors.first[0].row, errors.first[0].field.as_str()), (4, "Timestamp"));
    let obd =
        "timestamp,item_id,position,click,propensity_score\n2019-11-24 00:00:24.055928+00:00,1,1,0,0.5\n";
    let (_, columns) = Reading::from(Format::Obd).chunks(obd.as_bytes(), 9).unwrap();
    assert_eq!(columns.timestamps, Some(vec![1_574_553_624_055_928]));
    let errors = rejected(Reading::from(Format::Obd).chunks(obd.replace("+00:00", "").as_bytes(), 9));
    assert_eq!(errors.first[0].field, "timestamp");
}

#[test]
fn malformed_fields_are_named_in_every_format() {
    let cases = [
        ("timestamp", json!("2024-01-01"), "timestamp"),
        ("timestamp", json!("2024-02-30T00:00:00Z"), "timestamp"),
        ("timestamp", Value::Null, "timestamp"),
        ("policy_version", json!(""), "policy_version"),
        ("policy_version", json!("v".repeat(257)), "policy_version"),
        ("candidate_propensities", json!({ "b": [0.5, 0.5, 0.5] }), "candidate_propensities.b"),
        ("candidate_propensities", json!({ "b": [0.5, 1.5, -1] }), "candidate_propensities.b[1]"),
    ];
    for (field, value, named) in cases {
        let mut rows = new_rows(6);
        // One type per column: times as text.
        rows.iter_mut().for_each(|row| row["timestamp"] = json!("2024-01-01T00:00:00Z"));
        rows[4][field] = value.clone();
        for kind in TYPES {
            let errors = rejected(of(kind, &rows));
            let row = if kind == logs::CSV { 6 } else { 5 };
            let found = (errors.first[0].row, errors.first[0].field.as_str());
            // An empty cell is a missing field.
            assert_eq!(found, (row, named), "{kind} {field} {value}: {errors:?}");
        }
    }
    let mut short = new_rows(6);
    short[4]["candidate_propensities"] = json!({ "b": [0.5, 0.5] });
    assert_eq!(rejected(read_rows(&short)).first[0].field, "candidate_propensities.b");
    let mut other = new_rows(6);
    other[4]["candidate_propensities"] = json!({ "c": [0.5, 0.5, 0] });
    assert_eq!(rejected(read_rows(&other)).first[0].field, "candidates");
    let mut both = new_rows(6);
    both[4]["candidates"] = json!({ "a": 0.5, "b": 0.9 });
    assert_eq!(rejected(read_rows(&both)).first[0].field, "candidates.b");
    for number in [json!(1e18), json!(true), json!([1])] {
        let mut rows = new_rows(6);
        rows[4]["timestamp"] = number;
        assert_eq!(rejected(read_rows(&rows)).first[0].field, "timestamp");
    }
}

#[test]
fn one_policy_has_one_version() {
    let fixed = LogOptions { logging: Logging::Fixed, ..LogOptions::default() };
    let read = |rows: &[Value]| Reading { options: fixed, ..Reading::from(Format::Ndjson) }.rows(rows);
    assert!(matches!(read(&new_rows(10)), Err(IngestError::Option { field: "logging", .. })));
    let mut one = new_rows(10);
    one.iter_mut().for_each(|row| row["policy_version"] = json!("v1"));
    assert_eq!(read(&one).unwrap().0.options.logging, Logging::Fixed);
}

#[test]
fn rows_that_reach_back_are_refused() {
    let rules = Rules::new(None, Default::default(), None, IngestLimits::default()).unwrap();
    let mut checker = Checker::new(rules);
    checker.not_before(1_700_000_002_250_000);
    let read = read(
        Format::Ndjson.into(),
        std::io::Cursor::new(lines(&new_rows(5))),
        checker,
        &mut MemorySink::default(),
    );
    let errors = rejected(read);
    assert_eq!((errors.total, errors.first[1].row, errors.first[1].field.as_str()), (2, 2, "timestamp"));
    assert!(errors.first[0].message.contains("already certified"), "{}", errors.first[0].message);
}

#[test]
fn contexts_that_are_decisions_need_not_agree() {
    let rows: Vec<Value> = (0..40)
        .map(|i| json!({ "x": [i], "action": scattered(i) % 2, "propensity": 0.5, "cost": 0, "context_id": i / 4 }))
        .collect();
    let reading = |repetitions| Reading { options: options(repetitions), ..Reading::from(Format::Ndjson) };
    let (summary, _) = reading(Repetitions::Decisions).rows(&rows).unwrap();
    assert_eq!((summary.contexts, summary.capabilities.repeated_contexts), (10, true));
    assert!(!summary.capabilities.multiple_interactions);
    assert_eq!(rejected(reading(Repetitions::Designed).rows(&rows)).first[0].field, "x");
}

/// A log of a world with three actions, whose propensities are written with so many decimals.
fn rounded(n: usize, decimals: i32) -> Vec<Value> {
    let scale = 10f64.powi(decimals);
    let row = |i: usize| {
        let weights = [0, 1, 2].map(|a| 0.2 + (scattered(3 * i + a) % 1000) as f64 / 1000.0);
        let total: f64 = weights.iter().sum();
        let p = weights.map(|w| w / total);
        let action = drawn(&p, i + 1_000_000);
        json!({ "action": action, "propensity": (p[action] * scale).round() / scale, "cost": 0 })
    };
    (0..n).map(row).collect()
}

#[test]
fn precision_is_found_and_warned_of() {
    let read = |decimals, exact_propensities| {
        let options = LogOptions { exact_propensities, ..LogOptions::default() };
        let reading = Reading { options, n_actions: Some(3), ..Reading::from(Format::Ndjson) };
        reading.chunks(&lines(&rounded(20_000, decimals)), 1 << 16).unwrap().0
    };
    for decimals in [2, 3, 4, 15] {
        let summary = read(decimals, false);
        let expected = (decimals < 9).then_some(decimals as u8);
        let precision = Precision { decimals: expected, significant: expected, single: false };
        assert_eq!(summary.capabilities.precision, precision);
        let warned = summary.health.warnings.iter().any(|w| w.code == WarningCode::PropensitiesLookRounded);
        assert_eq!(warned, decimals < 9);
        // Rounding is not a lie.
        assert!(!summary.health.checks.iter().any(|check| check.failed()), "{:?}", summary.health.checks);
        assert!(!summary.capabilities.uniform);
    }
    assert_eq!(read(3, true).capabilities.precision, Precision::default());
}

#[test]
fn uniform_logs_are_recognized() {
    // Rounded numbers do not show it.
    let single = f64::from(1.0_f32 / 3.0);
    for (p, uniform) in
        [(1.0 / 3.0, true), (single, true), (0.333, false), (0.3334, false), (0.3, false), (0.25, false)]
    {
        let rows: Vec<Value> =
            (0..60).map(|i| json!({ "action": scattered(i) % 3, "propensity": p, "cost": 0 })).collect();
        let summary = read_rows(&rows).unwrap();
        assert_eq!((summary.capabilities.uniform, summary.n_actions), (uniform, 3), "{p}");
        assert!(!summary.capabilities.actions_declared);
    }
    // Unless the caller says that they are not rounded.
    let read = |p: f64, exact_propensities: bool| {
        let options = LogOptions { exact_propensities, ..LogOptions::default() };
        let rows: Vec<Value> =
            (0..60).map(|i| json!({ "action": scattered(i) % 4, "propensity": p, "cost": 0 })).collect();
        let reading = Reading { options, n_actions: Some(4), ..Reading::from(Format::Ndjson) };
        reading.rows(&rows).unwrap().0.capabilities.uniform
    };
    assert_eq!([read(0.25, true), read(0.25, false), read(0.2501, true)], [true, false, false]);
}

#[test]
fn false_candidates_and_propensities_fail_their_checks() {
    let mut rows = rounded(5000, 15);
    // The candidate's confidence in its own choice.
    rows.iter_mut().for_each(|row| row["candidates"] = json!({ "confident": 0.9, "fine": 0.3 }));
    let reading = || Reading { n_actions: Some(3), ..Reading::from(Format::Ndjson) };
    let (summary, _) = reading().chunks(&lines(&rows), 1 << 16).unwrap();
    let failed: Vec<_> = summary.health.checks.iter().filter(|check| check.failed()).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(
        (failed[0].name, failed[0].subject.as_deref()),
        (CheckName::CandidateWeights, Some("logged:confident"))
    );
    assert_eq!(summary.health.warnings[0].code, WarningCode::CandidateWeightsDoNotFit);
    let mut halved = rounded(5000, 15);
    halved.iter_mut().for_each(|row| row["propensity"] = json!(row["propensity"].as_f64().unwrap() / 3.0));
    let (summary, _) = reading().chunks(&lines(&halved), 1 << 16).unwrap();
    assert_eq!(summary.health.warnings[0].code, WarningCode::PropensitiesDoNotFit);
    assert_eq!(summary.health.inverse_propensity_mean.ok, Some(false));
}

#[test]
fn rows_that_are_sent_twice_are_refused() {
    let rows = rounded(300, 15);
    let twice = [rows.clone(), rows.clone()].concat();
    let Err(error) = read_rows(&twice) else { panic!("the rows were accepted") };
    assert!(matches!(error, IngestError::RepeatedRows { row: 301, run: 288.., first: 1 }), "{error:?}");
    assert!(error.to_string().contains("log event_id") && error.is_of_the_body());
    // Other times, versions and candidates do not hide them.
    let mut other = twice.clone();
    for (i, row) in other.iter_mut().enumerate() {
        row["timestamp"] = json!(1_700_000_000 + i);
        row["policy_version"] = json!("v1");
        row["candidates"] = json!({ "a": 0.5 - i as f64 / 2000.0 });
    }
    assert!(matches!(read_rows(&other), Err(IngestError::RepeatedRows { row: 301, .. })));
    // Decisions with ids of their own are decisions of their own.
    let mut named = twice;
    named.iter_mut().enumerate().for_each(|(i, row)| row["event_id"] = json!(i));
    assert!(read_rows(&named).is_ok());
}

#[test]
fn a_log_is_recognized_in_other_orders_formats_and_parts() {
    let rows = rounded(4000, 15);
    let first = read_rows(&rows).unwrap().sketch;
    let mut shuffled = rows.clone();
    shuffled.sort_by_key(|row| row["propensity"].to_string());
    let more = [&rows[400..], &rounded(4400, 15)[4000..]].concat();
    let mut columns = rows.clone();
    columns.iter_mut().enumerate().for_each(|(i, row)| row["event_id"] = json!(i.to_string()));
    for (name, other) in
        [("shuffled", &shuffled[..]), ("half", &rows[2000..]), ("more", &more), ("columns", &columns)]
    {
        for kind in TYPES {
            assert!(first.same_rows(&of(kind, other).unwrap().sketch), "{name} {kind}");
        }
    }
    assert!(
        !first.same_rows(&read_rows(&rounded(8000, 15)[4000..]).unwrap().sketch),
        "other rows of the same world"
    );
    let coarse = |from: usize| read_rows(&rounded(8000, 1)[from..from + 4000]).unwrap().sketch;
    assert!(coarse(0).same_rows(&coarse(0)) && !coarse(0).same_rows(&coarse(4000)), "few distinct rows");
}
