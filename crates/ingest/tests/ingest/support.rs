//! Reading logs into memory, and the log that most tests read.

use std::io::Read;

use guarantor_engine::log::{Columns, NamedOutcome, Outcome, Repetitions};
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{
    Checker, FileFormat, Format, IngestError, IngestLimits, LogDigest, LogLayout, LogOptions, LogRows,
    LogSummary, MemorySink, RowErrors, Rules, Sink, SinkFailed, read,
};
use proptest::test_runner::{Config, RngSeed};
use serde_json::{Value, json};

/// How a log is read.
pub struct Reading {
    pub format: FileFormat,
    pub n_actions: Option<usize>,
    pub outcome: Outcome,
    pub outcomes: Vec<NamedOutcome>,
    pub policy: Option<PolicyParams>,
    pub limits: IngestLimits,
    pub options: LogOptions,
}

impl From<Format> for Reading {
    fn from(format: Format) -> Self {
        Reading {
            format: format.into(),
            n_actions: None,
            outcome: Outcome::default(),
            outcomes: Vec::new(),
            policy: None,
            limits: IngestLimits::default(),
            options: LogOptions { repetitions: Repetitions::Designed, ..LogOptions::default() },
        }
    }
}

impl Reading {
    /// Reads bytes that arrive in these pieces.
    pub fn pieces(self, pieces: Vec<Vec<u8>>) -> Result<(LogSummary, Columns), IngestError> {
        let rules =
            Rules::new(self.n_actions, self.outcome, self.policy, self.limits)?.with_options(self.options);
        let rules = rules.with_outcomes(self.outcomes);
        let mut sink = MemorySink::default();
        let reader = Pieces { pieces: pieces.into_iter(), rest: Vec::new() };
        let summary = read(self.format, reader, Checker::new(rules), &mut sink)?;
        let columns = sink.into_columns(&summary);
        Ok((summary, columns))
    }

    /// Reads bytes that arrive `size` at a time.
    pub fn chunks(self, bytes: &[u8], size: usize) -> Result<(LogSummary, Columns), IngestError> {
        self.pieces(bytes.chunks(size).map(<[u8]>::to_vec).collect())
    }

    /// Reads NDJSON in small pieces.
    pub fn rows(self, rows: &[Value]) -> Result<(LogSummary, Columns), IngestError> {
        self.chunks(&lines(rows), 7)
    }
}

/// A reader that returns one piece per call, as a network does.
struct Pieces {
    pieces: std::vec::IntoIter<Vec<u8>>,
    rest: Vec<u8>,
}

impl Read for Pieces {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        while self.rest.is_empty() {
            match self.pieces.next() {
                Some(piece) => self.rest = piece,
                None => return Ok(0),
            }
        }
        let n = to.len().min(self.rest.len());
        to[..n].copy_from_slice(&self.rest[..n]);
        self.rest.drain(..n);
        Ok(n)
    }
}

/// Keeps batches as they are.
#[derive(Default)]
pub struct Stored {
    pub batches: Vec<(LogLayout, LogRows)>,
    pub digest: Option<LogDigest>,
}

impl Sink for Stored {
    fn write(&mut self, layout: &LogLayout, before: &LogDigest, rows: LogRows) -> Result<(), SinkFailed> {
        self.digest.get_or_insert_with(|| before.clone()).update(layout, &rows);
        self.batches.push((layout.clone(), rows));
        Ok(())
    }

    fn discard(&mut self) {}

    fn finish(&mut self) -> Result<Option<LogDigest>, SinkFailed> {
        Ok(self.digest.clone())
    }
}

pub fn lines(rows: &[Value]) -> Vec<u8> {
    rows.iter().map(|row| format!("{row}\n")).collect::<String>().into_bytes()
}

/// The rejected rows of a log that must be rejected.
#[track_caller]
pub fn rejected<T: std::fmt::Debug>(read: Result<T, IngestError>) -> RowErrors {
    match read {
        Err(IngestError::Rows(errors)) => errors,
        other => panic!("no row was rejected: {other:?}"),
    }
}

/// A log with every field.
pub fn full_rows(n: usize) -> Vec<Value> {
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

/// The same inputs every time. If PROPTEST_CASES is set, that many new ones.
pub fn generated(cases: u32) -> Config {
    let usual = Config { failure_persistence: None, max_shrink_iters: 500, ..Config::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => usual,
        None => Config { cases, rng_seed: RngSeed::Fixed(2023), ..usual },
    }
}
