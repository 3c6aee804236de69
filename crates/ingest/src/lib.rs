//! Every log format in and out: bytes to rows (one file per format), rows to checked batches
//! (`check.rs`), batches to a [`Sink`].
//!
//! Everything here is synchronous and knows neither the store nor HTTP: the service, the command line
//! and other callers bring a reader and a sink. Every row is looked at even after one was rejected,
//! because people want to know everything that is wrong; but from the first rejection on nothing is
//! kept.

mod arrow;
mod arrow_stream;
mod batch;
mod check;
mod columns;
mod csv;
mod decompress;
mod digest;
mod dsjson;
mod dsjson_context;
mod errors;
mod hashing;
mod health;
mod identity;
mod line_by_line;
mod lines;
mod marks;
mod ndjson;
mod obd;
mod parquet;
mod parquet_sizes;
mod plain;
mod records;
mod row;
mod rules;
mod sink;
mod thrift;
pub mod toy;
pub mod write;

use std::io::Read;
use std::path::PathBuf;

use guarantor_engine::log::{Outcome, OutcomeKind};

pub use batch::{LogLayout, LogRows};
pub use check::{Checker, LogSummary};
pub use columns::ColumnsBuilder;
pub use decompress::Encoding;
pub use digest::LogDigest;
pub use errors::{IngestError, RowErrors};
pub use hashing::Hashing;
pub use health::{Fit, Health, Warning};
pub use marks::{Mark, Marks, mark};
pub use rules::Rules;
pub use sink::{Sink, SinkFailed};

use decompress::Decoded;
use errors::shortened;
use row::{FormatError, Notes, Visit};

/// The formats; each has a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Ndjson,
    Csv,
    Parquet,
    ArrowStream,
    /// Vowpal Wabbit's decision-service JSON.
    Dsjson(Hashing),
    /// The Open Bandit Dataset's CSV.
    Obd(Hashing),
}

impl Format {
    /// Where features are hashed: into as many dimensions as make rows with `dim` features.
    pub fn with_dim(self, dim: usize) -> Format {
        match self {
            Format::Dsjson(_) => Format::Dsjson(Hashing { dims: dim }),
            Format::Obd(_) => Format::Obd(Hashing { dims: dim.saturating_sub(Hashing::POSITIONS) }),
            other => other,
        }
    }

    /// None where nothing is hashed.
    pub fn with_hash_dims(self, dims: usize) -> Option<Format> {
        match self {
            Format::Dsjson(_) => Some(Format::Dsjson(Hashing { dims })),
            Format::Obd(_) => Some(Format::Obd(Hashing { dims })),
            _ => None,
        }
    }

    /// The outcome of its rows, of which not all may be said. Clicks are rewards. The error is a range
    /// that is none.
    pub fn outcome(
        self,
        kind: Option<OutcomeKind>,
        min: Option<f64>,
        max: Option<f64>,
    ) -> Result<Outcome, (f64, f64)> {
        let unsaid = if matches!(self, Format::Obd(_)) { OutcomeKind::Reward } else { OutcomeKind::Cost };
        let usual = match kind.unwrap_or(unsaid) {
            OutcomeKind::Cost => Outcome::default(),
            OutcomeKind::Reward => Outcome::reward(),
        };
        let (min, max) = (min.unwrap_or(usual.min), max.unwrap_or(usual.max));
        Outcome::new(usual.kind, min, max).ok_or((min, max))
    }

    /// Whether its options can be, whatever the rows.
    fn check(self, limits: &IngestLimits) -> Result<(), IngestError> {
        let dims = match self {
            Format::Dsjson(hashing) => hashing.dims,
            Format::Obd(hashing) => hashing.dims.saturating_add(Hashing::POSITIONS),
            _ => return Ok(()),
        };
        if dims <= limits.dim {
            return Ok(());
        }
        let message = format!("makes {dims} features; at most {} can be", limits.dim);
        Err(IngestError::Option { field: "hash_dims", message })
    }

    /// Errors of rows with the fields' names in the file.
    fn in_its_words(self, error: IngestError) -> IngestError {
        let name: fn(&str) -> &str = match self {
            Format::Dsjson(_) => dsjson::field_name,
            Format::Obd(_) => obd::field_name,
            _ => return error,
        };
        match error {
            IngestError::Rows(mut rows) => {
                rows.first.iter_mut().for_each(|row| row.field = name(&row.field).to_owned());
                IngestError::Rows(rows)
            }
            other => other,
        }
    }
}

/// What an upload may at most be.
#[derive(Debug, Clone)]
pub struct IngestLimits {
    pub rows: u64,
    /// K.
    pub actions: usize,
    /// p.
    pub dim: usize,
    pub line_bytes: usize,
    /// Of what is kept to compare ids with: see `identity.rs`.
    pub identity_bytes: u64,
    /// Of one message of an Arrow stream, which is held whole.
    pub message_bytes: usize,
    /// What may come out of a compressed body or file, in bytes and in multiples of what went in.
    pub decoded_bytes: u64,
    pub decoded_ratio: u64,
    /// Where formats that cannot be read forwards are put down while they are read; the system's
    /// temporary directory where it is not given.
    pub spool: Option<PathBuf>,
}

impl Default for IngestLimits {
    fn default() -> Self {
        IngestLimits {
            rows: 1 << 30,
            actions: 10_000,
            dim: 100_000,
            line_bytes: 4 << 20,
            identity_bytes: 2 << 30,
            message_bytes: 256 << 20,
            decoded_bytes: 64 << 30,
            decoded_ratio: 500,
            spool: None,
        }
    }
}

/// Reads `reader` to its end through `checker` into `sink`.
///
/// # Errors
/// Everything that is wrong with the rows, or the first thing that is wrong with the whole. The sink has
/// kept nothing then, or is to be dropped.
pub fn read(
    (format, encoding): (Format, Encoding),
    reader: impl Read + Send + 'static,
    mut checker: Checker,
    sink: &mut dyn Sink,
) -> Result<LogSummary, IngestError> {
    let limits = checker.limits().clone();
    format.check(&limits)?;
    let known = checker.known();
    let visit: &mut Visit = &mut |number, row| checker.accept(number, row, sink);
    let mut source = Decoded::new(encoding, reader, &limits)?;
    let refusal = source.refusal();
    let read = match format {
        Format::Ndjson => ndjson::read(&mut source, &limits, visit).map(|()| Notes::default()),
        Format::Csv => csv::read(&mut source, &limits, visit).map(|()| Notes::default()),
        Format::Parquet => parquet::read(&mut source, &limits, visit).map(|()| Notes::default()),
        Format::ArrowStream => arrow_stream::read(&mut source, &limits, visit).map(|()| Notes::default()),
        Format::Dsjson(hashing) => dsjson::read(&mut source, hashing, &known, &limits, visit),
        Format::Obd(hashing) => obd::read(&mut source, hashing, &known, &limits, visit),
    };
    let read = read.and_then(|notes| end_of(&mut source).map(|()| notes));
    refusal.check()?;
    let notes = match read {
        Ok(notes) => notes,
        Err(FormatError::Unreadable(message)) => return Err(IngestError::Unreadable(shortened(message))),
        Err(FormatError::Stopped(error)) => return Err(error),
    };
    checker.finish(sink, notes).map_err(|error| format.in_its_words(error))
}

/// Bytes that nobody has looked at are no part of a log, and must not be taken for one.
fn end_of(source: &mut impl Read) -> Result<(), FormatError> {
    match source.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(FormatError::Unreadable("there are bytes after the end of the log".into())),
        Err(error) => Err(FormatError::Unreadable(error.to_string())),
    }
}
