//! A log of several files is the same as one of one file.

use std::io::Cursor;

use guarantor_engine::log::{Outcome, Repetitions};
use guarantor_ingest::{
    Checker, FileError, FileFormat, Format, IngestError, IngestLimits, LogDigest, LogLayout, LogOptions,
    LogRows, LogSummary, MemorySink, Rules, Sink, SinkFailed, read_files,
};
use serde_json::Value;

use crate::logs::{self, TYPES, written};
use crate::support::full_rows;

fn files(parts: &[(&str, &[Value])]) -> Result<LogSummary, FileError> {
    let options = LogOptions { repetitions: Repetitions::Designed, ..LogOptions::default() };
    let rules = Rules::new(None, Outcome::default(), None, IngestLimits::default()).unwrap();
    let format = |kind: &str| FileFormat::from(Format::of_content_type(kind).unwrap());
    let files = parts.iter().map(|(kind, rows)| (format(kind), Cursor::new(written(kind, rows)))).collect();
    read_files(files, Checker::new(rules.with_options(options)), &mut MemorySink::default())
}

#[test]
fn the_parts_of_a_log_are_the_log() {
    // More rows than are held back until the precision of the propensities is known.
    let rows = full_rows(9000);
    let whole = files(&[(logs::NDJSON, &rows)]).unwrap();
    for cuts in [[1, 2], [4095, 4097], [3000, 8999]] {
        let (first, rest) = rows.split_at(cuts[0]);
        let (second, third) = rest.split_at(cuts[1] - cuts[0]);
        let [a, b, c] = [TYPES[cuts[0] % 4], TYPES[cuts[1] % 4], TYPES[0]];
        let split = files(&[(a, first), (b, second), (c, third)]).unwrap();
        assert_eq!(split, whole, "{cuts:?}");
    }
}

/// A sink whose owner has gone.
struct Abandoned;

impl Sink for Abandoned {
    fn write(&mut self, _: &LogLayout, _: &LogDigest, _: LogRows) -> Result<(), SinkFailed> {
        Ok(())
    }

    fn is_awaited(&self) -> bool {
        false
    }

    fn discard(&mut self) {}

    fn finish(&mut self) -> Result<Option<LogDigest>, SinkFailed> {
        Ok(None)
    }
}

/// Also where nothing is written because a row was rejected.
#[test]
fn reading_stops_when_nobody_waits_for_the_log() {
    let good = full_rows(3000);
    let mut bad = good.clone();
    bad[0]["cost"] = 7.into();
    for rows in [good, bad] {
        for kind in TYPES {
            let rules = Rules::new(None, Outcome::default(), None, IngestLimits::default()).unwrap();
            let format = FileFormat::from(Format::of_content_type(kind).unwrap());
            let file = vec![(format, Cursor::new(written(kind, &rows)))];
            let read = read_files(file, Checker::new(rules), &mut Abandoned);
            assert!(matches!(read, Err(FileError { error: IngestError::Sink, .. })), "{kind}: {read:?}");
        }
    }
}

#[test]
fn an_error_names_the_file_and_the_row_in_it() {
    let rows = full_rows(30);
    let mut bad = rows[10..20].to_vec();
    bad[3]["cost"] = 7.into();
    let parts = |second: &[Value]| {
        files(&[(logs::CSV, &rows[..10]), (logs::PARQUET, second), (logs::CSV, &rows[20..])])
    };
    let failed = parts(&bad).unwrap_err();
    let IngestError::Rows(errors) = &failed.error else { panic!("{failed:?}") };
    assert_eq!((failed.file, errors.total), (Some(1), 1));
    assert_eq!((errors.first[0].row, errors.first[0].field.as_str()), (4, "cost"));

    // A duplicate says where the first is.
    let mut again = rows[10..20].to_vec();
    again[5]["event_id"] = rows[2]["event_id"].clone();
    again[6]["event_id"] = again[4]["event_id"].clone();
    let failed = parts(&again).unwrap_err();
    let IngestError::Rows(errors) = &failed.error else { panic!("{failed:?}") };
    let messages: Vec<&str> = errors.first.iter().map(|error| error.message.as_str()).collect();
    // The header of a CSV file is its first line.
    assert!(messages[0].contains("first seen in row 4 of file 1"), "{messages:?}");
    assert!(messages[1].contains("first seen in row 5)"), "{messages:?}");

    let format = |format: Format| FileFormat::from(format);
    let damaged = vec![
        (format(Format::Csv), Cursor::new(written(logs::CSV, &rows))),
        (format(Format::Parquet), Cursor::new(b"PAR1".to_vec())),
    ];
    let rules = Rules::new(None, Outcome::default(), None, IngestLimits::default()).unwrap();
    let failed = read_files(damaged, Checker::new(rules), &mut MemorySink::default()).unwrap_err();
    assert_eq!(failed.file, Some(1));
    assert!(matches!(failed.error, IngestError::Unreadable(_)), "{failed:?}");
}
