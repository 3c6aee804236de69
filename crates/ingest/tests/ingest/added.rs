//! Candidates that are added to rows that are stored already.

use guarantor_engine::log::Outcome;
use guarantor_ingest::{
    AddedCandidates, Checker, Format, IngestError, IngestLimits, LogSummary, MemorySink, Rules, read,
};
use serde_json::{Value, json};

use crate::logs::{NDJSON, TYPES, scattered, written};
use crate::support::{Stored, lines};

fn rules() -> Rules {
    Rules::new(Some(3), Outcome::default(), None, IngestLimits::default()).unwrap()
}

fn rows(ids: bool) -> Vec<Value> {
    let row = |i: usize| {
        let mut row = json!({ "action": scattered(i) % 3, "propensities": [0.25, 0.25, 0.5], "cost": -1, "candidates": { "m": 0.5 } });
        if ids {
            row["event_id"] = json!(format!("e{i}"));
        }
        row
    };
    (0..9000).map(row).collect()
}

fn stored(rows: &[Value]) -> (Stored, LogSummary) {
    let mut stored = Stored::default();
    let bytes = std::io::Cursor::new(lines(rows));
    let summary = read(Format::Ndjson.into(), bytes, Checker::new(rules()), &mut stored).unwrap();
    (stored, summary)
}

fn candidates(rows: &[Value]) -> Vec<Value> {
    let row = |row: &Value| {
        let action = row["action"].as_u64().unwrap() as usize;
        let mut more = json!({
            "candidates": { "a": ([0.1, 0.2, 0.7][action]) },
            "candidate_propensities": { "z": [0.5, 0.5, 0.0] },
        });
        if row["event_id"].is_string() {
            more["event_id"] = row["event_id"].clone();
        }
        more
    };
    rows.iter().map(row).collect()
}

fn add(kind: &str, stored: &Stored, more: &[Value]) -> Result<LogSummary, IngestError> {
    let format = Format::of_content_type(kind).unwrap();
    let bytes = std::io::Cursor::new(written(kind, more));
    let mut added = AddedCandidates::read(format.into(), bytes, Some(3), IngestLimits::default())?;
    let (mut checker, mut sink) = (Checker::new(rules()), MemorySink::default());
    for (layout, rows) in &stored.batches {
        let (layout, rows) = added.apply(layout, rows.clone())?;
        checker.rewrite(&layout, rows, &mut sink)?;
    }
    added.finish()?;
    checker.finish_rewrite(None, &mut sink)
}

/// The result is the log that has the candidates from the beginning.
#[test]
fn added_candidates_are_those_of_a_new_upload() {
    for ids in [true, false] {
        let rows = rows(ids);
        let (before, old) = stored(&rows);
        let mut more = candidates(&rows);
        let mut whole = rows.clone();
        for (row, more) in whole.iter_mut().zip(&more) {
            row["candidates"]["a"] = more["candidates"]["a"].clone();
            row["candidate_propensities"] = more["candidate_propensities"].clone();
        }
        let (_, expected) = stored(&whole);
        if ids {
            more.reverse();
        }
        for kind in TYPES {
            let summary = add(kind, &before, &more).unwrap();
            assert_eq!(summary.digest, expected.digest, "{kind}");
            assert_eq!(summary.capabilities, expected.capabilities, "{kind}");
            assert_eq!((&summary.sketch, &summary.health), (&expected.sketch, &expected.health), "{kind}");
            assert_eq!(summary.sketch, old.sketch);
        }
        assert_eq!(expected.capabilities.candidates, ["a", "m", "z"]);
    }
}

#[test]
fn rows_without_a_counterpart_and_wrong_candidates_are_named() {
    let all = rows(true);
    let (before, _) = stored(&all);
    let more = candidates(&all);
    let named = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut more = more.clone();
        change(&mut more);
        match add(NDJSON, &before, &more) {
            Err(IngestError::Rows(errors)) => (errors.first[0].row, errors.first[0].field.clone()),
            Err(error) => (0, error.to_string()),
            Ok(_) => panic!("accepted"),
        }
    };
    let at = |row: u64, field: &str| (row, field.to_owned());
    assert_eq!(named(&|rows| rows[6]["event_id"] = json!("other")), at(7, "event_id"));
    assert_eq!(named(&|rows| rows[6]["event_id"] = json!("e1")), at(7, "event_id"));
    assert_eq!(named(&|rows| rows[6]["action"] = json!(1)), at(7, "action"));
    assert_eq!(named(&|rows| rows[6]["candidates"]["a"] = json!(1.5)), at(7, "candidates.a"));
    assert_eq!(named(&|rows| rows[6]["candidates"]["b"] = json!(0.5)), at(7, "candidates"));
    assert_eq!(
        named(&|rows| rows[6]["candidate_propensities"]["z"] = json!([1, 0])),
        at(7, "candidate_propensities.z")
    );
    let wrong = json!([1, 0.5, 0.5]);
    assert_eq!(
        named(&|rows| rows[6]["candidate_propensities"]["z"] = wrong.clone()),
        at(7, "candidate_propensities.z")
    );
    let rename =
        |rows: &mut Vec<Value>| rows.iter_mut().for_each(|row| row["candidates"] = json!({ "m": 0.5 }));
    assert_eq!(named(&rename), at(1, "candidates.m"));
    let contradict = |rows: &mut Vec<Value>| {
        rows.iter_mut().for_each(|row| row["candidates"]["z"] = json!(0.25));
    };
    assert_eq!(named(&contradict), at(1, "candidates.z"));
    let (row, message) = named(&|rows| drop(rows.pop()));
    assert!(row == 0 && message.contains("\"e8999\""), "{message}");
    // By order: the counts must agree.
    let unnamed = rows(false);
    let (before, _) = stored(&unnamed);
    for more in [&candidates(&unnamed)[1..], &[candidates(&unnamed), candidates(&unnamed[..1])].concat()] {
        let Err(IngestError::Unreadable(message)) = add(NDJSON, &before, more) else { panic!("accepted") };
        assert!(message.contains("but the dataset has 9000"), "{message}");
    }
    let Err(IngestError::Rows(errors)) = add(NDJSON, &before, &more) else { panic!("accepted") };
    assert_eq!(errors.first[0].field, "event_id");
    let dsjson =
        AddedCandidates::read(Format::Dsjson.into(), std::io::empty(), Some(3), IngestLimits::default());
    assert!(matches!(dsjson, Err(IngestError::Option { field: "format", .. })));
}

/// Names and numbers of candidates have the limits of an upload, together with those of the dataset.
#[test]
fn added_candidates_have_the_limits_of_an_upload() {
    let all: Vec<Value> = rows(false).into_iter().take(2).collect();
    let (before, _) = stored(&all);
    let named = |names: &[String]| {
        let candidates: serde_json::Map<String, Value> =
            names.iter().map(|name| (name.clone(), json!(0.5))).collect();
        let more = vec![json!({ "candidates": candidates }); 2];
        match add(NDJSON, &before, &more) {
            Err(IngestError::Rows(errors)) => Some(errors.first[0].to_string()),
            Err(error) => panic!("{error}"),
            Ok(_) => None,
        }
    };
    let many = |n: usize| (0..n).map(|i| format!("c{i}")).collect::<Vec<_>>();
    assert_eq!(named(&["x".repeat(1024)]), None);
    assert_eq!(named(&many(999)), None);
    for (names, message) in [
        (vec![String::new()], "names have 1 to 1024 bytes"),
        (vec!["x".repeat(1025)], "candidates"),
        (many(1001), "the maximum is 1000"),
        (many(1000), "and the dataset has 1; the maximum is 1000 together"),
    ] {
        let error = named(&names).expect(message);
        assert!(error.contains(message), "{error}");
    }
}
