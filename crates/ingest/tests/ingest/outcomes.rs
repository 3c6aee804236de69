//! Outcomes that are cut, and rows with several outcomes.

use std::sync::Arc;

use arrow_array::builder::{Float64Builder, MapBuilder, StringBuilder};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StructArray};
use guarantor_engine::log::{MemoryLog, NamedOutcome, Outcome, OutcomeKind, OutcomeLog};
use guarantor_ingest::write::{LogWriter, LoggedRow, WriteLayout};
use guarantor_ingest::{
    AddedCandidates, Checker, DeclaredOutcomes, Format, IngestError, IngestLimits, LogSummary, MemorySink,
    Rules, WarningCode, read, shop,
};
use serde_json::{Value, json};

use crate::logs::{
    ARROW, CSV, NDJSON, PARQUET, TYPES, arrow_stream, dsjson, obd, of_columns, parquet, scattered, written,
};
use crate::support::{Reading, Stored, lines, rejected};

const DECLARED: &str = r#"{"revenue": {"kind": "reward", "max": 100, "cap": 80},
    "complaint": {"kind": "cost"}, "a \"b\", c": {"kind": "cost", "min": -1, "max": 2}}"#;

fn declared(text: &str) -> Vec<NamedOutcome> {
    text.parse::<DeclaredOutcomes>().unwrap().outcomes().unwrap()
}

fn reading(kind: &str, outcomes: Vec<NamedOutcome>) -> Reading {
    Reading { outcomes, ..Format::of_content_type(kind).unwrap().into() }
}

fn rows(n: usize) -> Vec<Value> {
    let row = |i: usize| {
        json!({
            "x": [(scattered(i) % 1000) as f64 / 8.0],
            "action": scattered(i) % 3,
            "propensities": [0.25, 0.25, 0.5],
            "outcomes": {
                "revenue": (scattered(i + n) % 101) as f64,
                "complaint": usize::from(scattered(i + 2 * n).is_multiple_of(7)),
                "a \"b\", c": (scattered(i + 3 * n) % 4) as f64 - 1.0,
            },
        })
    };
    (0..n).map(row).collect()
}

#[test]
fn a_log_with_several_outcomes_is_the_same_in_every_format() {
    let rows = rows(300);
    let mut digests = Vec::new();
    for kind in TYPES {
        for size in [1, 100_000] {
            let (summary, columns) =
                reading(kind, declared(DECLARED)).chunks(&written(kind, &rows), size).unwrap();
            assert_eq!(summary.capabilities.outcomes, declared(DECLARED));
            assert_eq!(summary.outcome, declared(DECLARED)[0].outcome);
            assert_eq!(summary.outcome.max, 80.0);
            for (i, row) in rows.iter().enumerate() {
                let costs = [columns.costs[i], columns.other_costs[0][i], columns.other_costs[1][i]];
                for (named, cost) in declared(DECLARED).iter().zip(costs) {
                    let value = row["outcomes"][&named.name].as_f64().unwrap();
                    assert_eq!(cost, named.outcome.to_cost(value.min(named.outcome.max)), "{kind} {i}");
                }
            }
            let log = MemoryLog::new(columns).unwrap();
            assert!(OutcomeLog::new(&log, "complaint").is_ok());
            digests.push(summary.digest);
        }
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "{digests:?}");
    // The digest depends on every outcome, its name, its range and the order.
    let read = |outcomes: &str, rows: &[Value]| {
        let summary = reading(NDJSON, declared(outcomes)).rows(rows).unwrap().0;
        summary.digest
    };
    let mut changed = rows.clone();
    changed[7]["outcomes"]["complaint"] = json!(0.5);
    let renamed: Vec<Value> = rows
        .iter()
        .map(|row| serde_json::from_str(&row.to_string().replace("complaint", "complaints")).unwrap())
        .collect();
    for (outcomes, rows) in [
        (DECLARED.to_owned(), &changed),
        (DECLARED.replace("complaint", "complaints"), &renamed),
        (DECLARED.replace("\"max\": 2", "\"max\": 3"), &rows),
        (DECLARED.replace("\"max\": 2", "\"cap\": 2"), &rows),
        (
            DECLARED.replace("\"complaint\": {\"kind\": \"cost\"}", "\"complaint\": {\"kind\": \"reward\"}"),
            &rows,
        ),
    ] {
        assert_ne!(read(&outcomes, rows), digests[0], "{outcomes}");
    }
}

/// A struct and a map, integers and booleans.
#[test]
fn columns_of_structs_and_maps_are_outcomes() {
    let rows = rows(40);
    let expected = reading(NDJSON, declared(DECLARED)).rows(&rows).unwrap().0.digest;
    let value = |row: &Value, name: &str| row["outcomes"][name].as_f64().unwrap();
    let names = ["revenue", "complaint", "a \"b\", c"];
    let column = |name: &str| -> ArrayRef {
        let values = rows.iter().map(|row| value(row, name));
        match name {
            "complaint" => Arc::new(BooleanArray::from_iter(values.map(|value| Some(value > 0.0)))),
            "revenue" => Arc::new(Int64Array::from_iter_values(values.map(|value| value as i64))),
            _ => Arc::new(Float64Array::from_iter_values(values)),
        }
    };
    let members = names.map(|name| (name, column(name)));
    let whole: ArrayRef = Arc::new(StructArray::try_from(members.to_vec()).unwrap());
    let part: ArrayRef = Arc::new(StructArray::try_from(members[..2].to_vec()).unwrap());
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Float64Builder::new());
    for row in &rows {
        for name in names {
            maps.keys().append_value(name);
            maps.values().append_value(value(row, name));
        }
        maps.append(true).unwrap();
    }
    let maps: ArrayRef = Arc::new(maps.finish());
    for (what, outcomes) in [
        ("struct", vec![("outcomes", whole)]),
        ("both", vec![("outcomes", part), ("outcome.a \"b\", c", column("a \"b\", c"))]),
        ("map", vec![("outcomes", maps)]),
    ] {
        let batch = with_columns(&rows, outcomes);
        for (kind, bytes) in [(PARQUET, parquet(&batch)), (ARROW, arrow_stream(std::slice::from_ref(&batch)))]
        {
            let (summary, _) = reading(kind, declared(DECLARED)).pieces(vec![bytes]).unwrap();
            assert_eq!(summary.digest, expected, "{what} {kind}");
        }
    }
}

/// The rows of a log without their outcomes, and with these columns.
fn with_columns(rows: &[Value], more: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let mut bare = rows.to_vec();
    bare.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("outcomes")));
    let batch = crate::logs::batch(&bare);
    let schema = batch.schema();
    let names = schema.fields().iter().map(|field| field.name().as_str());
    of_columns(names.zip(batch.columns().iter().cloned()).chain(more).collect())
}

#[test]
fn bad_outcomes_are_rejected_in_every_format() {
    let good = rows(4);
    let with = |outcomes: Value| {
        let mut rows = good.clone();
        rows[2]["outcomes"] = outcomes;
        rows
    };
    let field = |name: &str| format!("outcomes.{name}");
    for (what, outcomes, expected) in [
        ("missing", json!({"revenue": 1, "complaint": null, "a \"b\", c": 0}), field("complaint")),
        ("out of range", json!({"revenue": 1, "complaint": 2, "a \"b\", c": 0}), field("complaint")),
        (
            "below a range with a cap",
            json!({"revenue": -1, "complaint": 1, "a \"b\", c": 0}),
            field("revenue"),
        ),
    ] {
        for kind in TYPES {
            // A CSV file has an empty cell where a value is missing; NDJSON has no null here.
            let mut rows = with(outcomes.clone());
            let mut bytes = written(kind, &rows);
            if kind == CSV {
                bytes = String::from_utf8(bytes).unwrap().replace("null", "").into_bytes();
            } else if kind == NDJSON {
                rows[2]["outcomes"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
                bytes = lines(&rows);
            }
            let errors =
                rejected(reading(kind, declared(DECLARED)).pieces(vec![bytes]).map(|(summary, _)| summary));
            let row = if kind == CSV { 4 } else { 3 };
            assert_eq!((errors.total, errors.first[0].row), (1, row), "{kind} {what}: {errors:?}");
            assert_eq!(errors.first[0].field, expected, "{kind} {what}");
        }
    }
    // Every row has a name that is not declared.
    let fewer = r#"{"revenue": {"kind": "reward", "cap": 80}, "complaint": {"kind": "cost"}}"#;
    for kind in TYPES {
        let read = reading(kind, declared(fewer)).pieces(vec![written(kind, &good)]);
        let errors = rejected(read.map(|(summary, _)| summary));
        assert_eq!((errors.total, errors.first[0].field.as_str()), (4, "outcomes.a \"b\", c"), "{kind}");
        assert!(
            errors.first[0].message.contains("the declared outcomes are revenue, complaint"),
            "{errors:?}"
        );
        // Nothing is declared.
        let read = reading(kind, Vec::new()).pieces(vec![written(kind, &good)]);
        let Err(IngestError::Option { field: "outcomes", message }) = read else {
            panic!("{kind}: {read:?}")
        };
        assert!(
            message.contains("a \"b\", c, complaint, revenue") && message.contains("outcomes={"),
            "{message}"
        );
    }
    // The wrong type, a duplicate, both kinds of outcomes, and a row with the only outcome that others have.
    let line = |outcomes: &str| {
        let row = format!(r#"{{"x":[1],"action":0,"propensities":[0.25,0.25,0.5],{outcomes}}}"#);
        [&lines(&good[..1])[..], row.as_bytes(), b"\n"].concat()
    };
    for (outcomes, field) in [
        (r#""outcomes":{"revenue":"1"}"#, "outcomes"),
        (r#""outcomes":{"revenue":true}"#, "outcomes"),
        (r#""outcomes":{"revenue":NaN}"#, "outcomes"),
        (r#""outcomes":{"revenue":1e999}"#, "outcomes"),
        (r#""outcomes":[1,2,3]"#, "outcomes"),
        (r#""outcomes":{"revenue":1,"revenue":1}"#, "outcomes"),
        (r#""outcomes":{"revenue":1},"outcomes":{"complaint":1}"#, "outcomes"),
        (r#""outcomes":{}"#, "outcomes.revenue"),
        (r#""cost":0"#, "cost"),
        (r#""reward":0,"outcomes":{"revenue":1,"complaint":0,"a \"b\", c":1}"#, "reward"),
    ] {
        let read = reading(NDJSON, declared(DECLARED)).pieces(vec![line(outcomes)]);
        let errors = rejected(read.map(|(summary, _)| summary));
        assert_eq!((errors.first[0].row, errors.first[0].field.as_str()), (2, field), "{outcomes}");
    }
    let mixed = [
        &lines(&[json!({"x": [1], "action": 1, "propensities": [0.25, 0.25, 0.5], "cost": 0})])[..],
        &lines(&good),
    ]
    .concat();
    let errors = rejected(reading(NDJSON, Vec::new()).pieces(vec![mixed]).map(|(summary, _)| summary));
    assert_eq!((errors.first[0].row, errors.first[0].field.as_str()), (2, "outcomes"));
}

#[test]
fn bad_columns_are_rejected() {
    let good = rows(4);
    let floats = |values: [f64; 4]| -> ArrayRef { Arc::new(Float64Array::from_iter_values(values)) };
    let complaint = || ("outcome.complaint", floats([0.0; 4]));
    let text: ArrayRef = Arc::new(arrow_array::StringArray::from(vec!["1"; 4]));
    let twice: ArrayRef = Arc::new(StructArray::try_from(vec![("complaint", floats([0.0; 4]))]).unwrap());
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Float64Builder::new());
    for _ in 0..4 {
        for _ in 0..2 {
            maps.keys().append_value("complaint");
            maps.values().append_value(0.0);
        }
        maps.append(true).unwrap();
    }
    let one = r#"{"complaint": {"kind": "cost", "cap": 1}}"#;
    for (what, columns, is_file) in [
        ("text", vec![("outcome.complaint", text.clone())], true),
        ("a list", vec![("outcomes", text)], true),
        ("two columns", vec![complaint(), ("outcomes", twice)], true),
        ("NaN", vec![("outcome.complaint", floats([0.0, f64::NAN, 0.0, 0.0]))], false),
        ("infinite", vec![("outcome.complaint", floats([0.0, f64::INFINITY, 0.0, 0.0]))], false),
        ("twice in a map", vec![("outcomes", Arc::new(maps.finish()) as ArrayRef)], false),
        ("undeclared", vec![complaint(), ("outcome.other", floats([0.0; 4]))], false),
        ("no name", vec![complaint(), ("outcome.", floats([0.0; 4]))], false),
    ] {
        let batch = with_columns(&good, columns);
        for (kind, bytes) in [(PARQUET, parquet(&batch)), (ARROW, arrow_stream(std::slice::from_ref(&batch)))]
        {
            let read = reading(kind, declared(one)).pieces(vec![bytes]).map(|(summary, _)| summary);
            match (&read, is_file) {
                (Err(IngestError::Unreadable(message)), true) => {
                    assert!(message.contains("complaint") || message.contains("outcomes"), "{message}")
                }
                (Err(IngestError::Rows(errors)), false) => {
                    assert!(errors.first[0].field.starts_with("outcomes"), "{what} {kind}: {errors:?}");
                }
                _ => panic!("{what} {kind}: {read:?}"),
            }
        }
    }
    // Formats whose rows have one outcome.
    for (format, bytes) in [(Format::Dsjson, dsjson(20)), (Format::Obd, obd(20))] {
        let read = Reading { outcomes: declared(one), ..format.into() }.pieces(vec![bytes]);
        let Err(IngestError::Option { field: "outcomes", message }) = read else { panic!("{read:?}") };
        assert!(message.contains(format.name()), "{message}");
    }
}

/// One outcome that is cut: the same numbers as a log that was cut before.
#[test]
fn an_outcome_is_the_value_cut_at_the_cap_and_the_floor() {
    let row = |i: usize, value: f64| json!({"x": [i], "action": scattered(i) % 2, "propensity": 0.5, "reward": value});
    let value = |i: usize| (scattered(i) % 200) as f64 - 50.0;
    let raw: Vec<Value> = (0..400).map(|i| row(i, value(i))).collect();
    let cut: Vec<Value> = (0..400).map(|i| row(i, value(i).clamp(0.0, 80.0))).collect();
    let outcome =
        Outcome { kind: OutcomeKind::Reward, min: 0.0, max: 80.0, cap: Some(80.0), floor: Some(0.0) };
    let plain = Outcome { cap: None, floor: None, ..outcome };
    let read = |outcome: Outcome, rows: &[Value]| {
        Reading { outcome, n_actions: Some(2), ..Format::Ndjson.into() }.rows(rows)
    };
    let (summary, columns) = read(outcome, &raw).unwrap();
    let (before, same) = read(plain, &cut).unwrap();
    assert_eq!(columns.costs, same.costs);
    let beyond = (0..400).filter(|&i| !(0.0..=80.0).contains(&value(i))).count();
    let (health, whole) = (&summary.health.outcomes[0], &before.health.outcomes[0]);
    assert_eq!((health.cut_rows, health.cut_share), (beyond as u64, beyond as f64 / 400.0));
    assert_eq!((whole.cut_rows, whole.mean, whole.min, whole.max), (0, health.mean, health.min, health.max));
    assert_eq!((health.min, health.max), (0.0, 80.0));
    let warned =
        |summary: &LogSummary| summary.health.warnings.iter().any(|w| w.code == WarningCode::OutcomesCut);
    assert!(warned(&summary) && !warned(&before));
    // Another definition of the outcome is another log.
    assert_ne!(read(outcome, &cut).unwrap().0.digest, before.digest);
    assert_eq!(read(outcome, &cut).unwrap().0.digest, summary.digest);
    // Without them, it is an error that says what to do.
    let errors = rejected(read(plain, &raw).map(|(summary, _)| summary));
    assert_eq!(errors.total, beyond as u64);
    assert!(errors.first[0].message.contains("outcome_cap"), "{errors:?}");
    let capped = Outcome { floor: None, ..outcome };
    assert!(
        rejected(read(capped, &raw).map(|(summary, _)| summary))
            .first
            .iter()
            .all(|e| e.message.starts_with('-'))
    );
}

fn rules(outcomes: &str) -> Rules {
    Rules::new(None, Outcome::default(), None, IngestLimits::default())
        .unwrap()
        .with_outcomes(declared(outcomes))
}

/// Rows that are appended, and candidates that are added.
#[test]
fn later_versions_have_the_same_outcomes() {
    let all = rows(600);
    let (first, second) = all.split_at(250);
    let read_all = |rows: &[Value], checker: Checker, sink: &mut Stored| {
        read(Format::Ndjson.into(), std::io::Cursor::new(lines(rows)), checker, sink)
    };
    let mut whole = Stored::default();
    let expected = read_all(&all, Checker::new(rules(DECLARED)), &mut whole).unwrap();
    let mut stored = Stored::default();
    let before = read_all(first, Checker::new(rules(DECLARED)), &mut stored).unwrap();
    let after = |outcomes: &str, rows: &[Value]| {
        let mut checker = Checker::new(rules_of(outcomes));
        stored.batches.iter().for_each(|(layout, rows)| checker.remember(layout, rows.clone()).unwrap());
        checker.end_part();
        checker.follow(stored.digest.clone().unwrap(), Some(before.health.clone()));
        read_all(rows, checker, &mut Stored::default())
    };
    fn rules_of(outcomes: &str) -> Rules {
        rules(outcomes)
    }
    let appended = after(DECLARED, second).unwrap();
    assert_eq!((&appended.digest, appended.rows), (&expected.digest, 600));
    assert_eq!(appended.health.outcomes, expected.health.outcomes);
    assert!(appended.health.outcomes[0].cut_rows > before.health.outcomes[0].cut_rows);
    let one: Vec<Value> = (0..30)
        .map(|i| json!({"x": [i], "action": 1, "propensities": [0.25, 0.25, 0.5], "cost": 0}))
        .collect();
    assert_eq!(rejected(after(DECLARED, &one)).first[0].field, "cost");
    let format = Checker::new(rules(DECLARED));
    let refused =
        read(Format::Dsjson.into(), std::io::Cursor::new(dsjson(9)), format, &mut Stored::default());
    assert!(matches!(refused, Err(IngestError::Option { field: "outcomes", .. })));
    // Candidates that are added leave the outcomes as they are.
    let more: Vec<Value> = all.iter().map(|_| json!({"candidates": {"new": 0.25}})).collect();
    let bytes = std::io::Cursor::new(lines(&more));
    let mut added =
        AddedCandidates::read(Format::Ndjson.into(), bytes, Some(3), IngestLimits::default()).unwrap();
    let (mut checker, mut sink) = (Checker::new(rules(DECLARED)), MemorySink::default());
    for (layout, rows) in &whole.batches {
        let (layout, rows) = added.apply(layout, rows.clone()).unwrap();
        checker.rewrite(&layout, rows, &mut sink).unwrap();
    }
    added.finish().unwrap();
    let rewritten = checker.finish_rewrite(Some(expected.health.clone()), &mut sink).unwrap();
    assert_eq!(rewritten.health.outcomes, expected.health.outcomes);
    assert_eq!(rewritten.capabilities.outcomes, expected.capabilities.outcomes);
    let columns = sink.into_columns(&rewritten);
    assert_eq!((columns.candidates.len(), columns.other_costs.len()), (1, 2));
    let bad: Vec<Value> =
        more.iter().map(|_| json!({"candidates": {"new": 0.25}, "outcomes": {"a": 1}})).collect();
    let refused = AddedCandidates::read(
        Format::Ndjson.into(),
        std::io::Cursor::new(lines(&bad)),
        Some(3),
        IngestLimits::default(),
    );
    assert_eq!(rejected(refused.map(|_| ())).first[0].field, "outcomes");
}

/// A log that comes back with fewer outcomes, or under other names, is recognized, also without features.
#[test]
fn the_same_decisions_with_other_outcomes_are_the_same_rows() {
    for features in [true, false] {
        let mut all = rows(2000);
        if !features {
            all.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("x")));
        }
        let read =
            |outcomes: &str, rows: &[Value]| reading(NDJSON, declared(outcomes)).rows(rows).unwrap().0.sketch;
        let known = read(DECLARED, &all);
        let complaint = |name: &str| -> Vec<Value> {
            let mut rows = all.clone();
            rows.iter_mut().for_each(|row| row["outcomes"] = json!({name: row["outcomes"]["complaint"]}));
            rows
        };
        for name in ["complaint", "other"] {
            let only = format!(r#"{{"{name}": {{"kind": "cost"}}}}"#);
            assert!(known.same_rows(&read(&only, &complaint(name))), "{features} {name}");
        }
        let mut alone = complaint("cost");
        alone.iter_mut().for_each(|row| {
            row["cost"] = row["outcomes"]["cost"].clone();
            row.as_object_mut().unwrap().remove("outcomes");
        });
        let outcome = Outcome { kind: OutcomeKind::Cost, min: 0.0, max: 1.0, cap: None, floor: None };
        let single = Reading { outcome, ..Format::Ndjson.into() }.rows(&alone).unwrap().0.sketch;
        assert!(known.same_rows(&single), "{features}");
        let mut others = rows(4000).split_off(2000);
        if !features {
            others.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("x")));
        }
        assert!(!known.same_rows(&read(DECLARED, &others)), "{features}");
    }
}

/// What the writers write is what the readers read.
#[test]
fn the_shop_reads_back_in_every_format() {
    let mut outcomes = shop::outcomes();
    outcomes[2].name = "a \"b\", c".into();
    let layout = WriteLayout {
        dim: shop::FEATURES,
        n_actions: shop::ACTIONS,
        outcomes: outcomes.clone(),
        ..WriteLayout::default()
    };
    let mut digests = Vec::new();
    for format in [Format::Ndjson, Format::Csv, Format::Parquet, Format::ArrowStream] {
        let (mut world, mut writer) =
            (shop::Shop::new(0, 5, 0.5), LogWriter::new(format, &layout, Vec::new()).unwrap());
        for _ in 0..500 {
            let visit = world.visit();
            let row = LoggedRow {
                x: &visit.x,
                action: visit.action,
                propensities: &visit.propensities,
                outcomes: &visit.outcomes,
                ..LoggedRow::default()
            };
            writer.write(&row).unwrap();
        }
        let reading = Reading { outcomes: outcomes.clone(), ..format.into() };
        let (summary, _) = reading.pieces(vec![writer.finish().unwrap()]).unwrap();
        assert_eq!((summary.rows, summary.dim, summary.n_actions), (500, shop::FEATURES, shop::ACTIONS));
        let health = &summary.health.outcomes;
        assert!(health[0].cut_rows > 0 && health[0].max == shop::CAP && health[1].cut_rows == 0);
        digests.push(summary.digest);
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "{digests:?}");
    for format in [Format::Dsjson, Format::Obd] {
        assert!(format.can_write(&layout).unwrap_err().contains("no named outcomes"));
    }
}

/// Digests are in certificates, so they must never change. The first is that of release 0.5.
#[test]
fn digests_stay_what_they_are() {
    let plain = "x0,action,propensity,cost,timestamp\n0.5,1,0.3,-1,1700000000\n0.25,0,0.7,0,1700000001\n";
    let named = "x0,action,propensity,outcome.a,outcome.b,timestamp\n0.5,1,0.3,-1,1,1700000000\n\
                 0.25,0,0.7,0,0.5,1700000001\n";
    let outcomes = r#"{"a": {"kind": "cost", "min": -1, "max": 0}, "b": {"kind": "reward", "floor": 0}}"#;
    let capped = Outcome { cap: Some(0.0), ..Outcome::default() };
    for (text, outcome, outcomes, digest) in [
        (
            plain,
            Outcome::default(),
            Vec::new(),
            "98ea930942e0a12b14e000b82ab23f11152c15f09642519440265284249cb210",
        ),
        (plain, capped, Vec::new(), "649f3d3db7ec49b8bdcef630c6881eb6b9dbc0b7f3d61229cf71045842f64f5e"),
        (
            named,
            Outcome::default(),
            declared(outcomes),
            "44035f56f72a3c727576ef6d835481863853efee349e9a2aa01b3dcf3d01cb1e",
        ),
    ] {
        let reading = Reading { outcome, outcomes, ..Format::Csv.into() };
        let (summary, _) = reading.pieces(vec![text.as_bytes().to_vec()]).unwrap();
        assert_eq!(summary.digest, format!("sha256:{digest}"), "{text}");
    }
}
