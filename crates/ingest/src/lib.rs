//! Reads and writes all log formats: bytes to rows (one file per format), rows to checked batches
//! (`check.rs`), batches to a [`Sink`].
//!
//! Everything here is synchronous and independent of the store and of HTTP: the service, the command line and
//! other callers provide a reader and a sink. Every row is checked even after one was rejected, so that the
//! caller gets all errors at once. After the first rejection, nothing is kept.
//!
//! Reading a log into memory:
//!
//! ```
//! use guarantor_engine::log::Outcome;
//! use guarantor_ingest::{Checker, Format, IngestLimits, MemorySink, Rules, read};
//!
//! let log = "action,propensity,cost\n1,0.3,-1\n0,0.7,0\n";
//! let rules = Rules::new(None, Outcome::default(), None, IngestLimits::default())?;
//! let mut sink = MemorySink::default();
//! let summary = read(Format::Csv.into(), log.as_bytes(), Checker::new(rules), &mut sink)?;
//! assert_eq!((summary.rows, summary.n_actions), (2, 2));
//! let columns = sink.into_columns(&summary);
//! assert_eq!(columns.costs, [-1.0, 0.0]);
//! # Ok::<(), guarantor_ingest::IngestError>(())
//! ```

mod action_set;
mod added;
mod arrival;
mod arrow;
mod arrow_actions;
mod arrow_features;
mod arrow_outcomes;
mod arrow_sets;
mod arrow_stream;
mod arrow_texts;
mod arrow_times;
mod batch;
mod check;
mod columns;
mod contexts;
mod csv;
mod decimal;
mod decompress;
mod digest;
mod distribution;
mod dsjson;
mod dsjson_context;
mod encoding;
mod errors;
mod extra;
mod features;
mod files;
mod fingerprint;
mod format;
mod hashing;
mod health;
mod identity;
mod json;
mod layout;
mod layout_sets;
mod lines;
mod local;
mod log_checks;
mod marks;
mod memory;
mod ndjson;
mod ndjson_actions;
pub mod news;
mod obd;
mod outcome_health;
mod outcome_options;
mod outcomes;
mod parquet;
mod parquet_sizes;
mod partial_plain;
mod partial_rows;
pub mod partials;
mod plain;
mod plain_batch;
mod plain_columns;
mod plain_lines;
mod precision;
mod records;
mod repeats;
mod row;
mod rules;
pub mod shop;
pub mod simulate;
mod sink;
mod sketch;
mod spent_groups;
mod spool;
mod tally;
mod thrift;
mod time;
pub mod toy;
mod warning;
pub mod write;

use std::io::Read;
use std::path::PathBuf;

pub use added::AddedCandidates;
pub use batch::{LogLayout, LogRows};
pub use check::{Checker, LogSummary};
pub use columns::{ColumnsBuilder, LogFacts};
pub use contexts::{AskedSets, ContextFault, ContextLimits, contexts_of};
pub use digest::LogDigest;
pub use distribution::{ExpectedCount, SmallPropensity, WeightClass};
pub use encoding::Encoding;
pub use errors::{IngestError, RowErrors};
pub use files::{FileError, read_batches, read_files};
pub use format::{FileFormat, Format};
pub use health::{ActionFit, Fit, Health, SetSizes};
pub use local::{LocalLog, Memory};
pub use marks::{Mark, Marks, mark};
pub use memory::MemorySink;
pub use outcome_health::OutcomeSummary;
pub use outcome_options::{
    DeclaredOutcomes, MAX_OUTCOMES, OutcomeDeclaration, OutcomeRange, RangeFault, declaration_of,
};
pub use rules::{LogOptions, Rules};
pub use sink::{Sink, SinkFailed};
pub use sketch::RowSketch;
pub use warning::{Warning, WarningCode};

/// The limits of an upload.
#[derive(Debug, Clone)]
pub struct IngestLimits {
    /// The maximum number of rows.
    pub rows: u64,
    /// The maximum number of actions, K.
    pub actions: usize,
    /// The maximum number of features, p.
    pub dim: usize,
    /// The maximum number of features of a row that are not 0, if every row has its own actions.
    pub row_non_zeros: usize,
    /// The same for all rows of a dataset together.
    pub dataset_non_zeros: u64,
    /// The maximum length of a line, or of a CSV record.
    pub line_bytes: usize,
    /// The maximum memory for comparing ids, in bytes; see `identity.rs`.
    pub identity_bytes: u64,
    /// The maximum size of one message of an Arrow stream, which is held in memory as a whole.
    pub message_bytes: usize,
    /// The maximum size of a compressed log after decompression, in bytes.
    pub decoded_bytes: u64,
    /// The maximum ratio of decompressed to compressed size.
    pub decoded_ratio: u64,
    /// The directory for temporary files, which are used for formats that cannot be read in one pass; if
    /// `None`, the system's temporary directory.
    pub spool: Option<PathBuf>,
}

impl Default for IngestLimits {
    fn default() -> Self {
        IngestLimits {
            rows: 1 << 30,
            actions: 10_000,
            dim: 100_000,
            row_non_zeros: 10_000,
            dataset_non_zeros: 1 << 32,
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
/// All errors of the rows, or the first error of the file as a whole. After an error, the sink has kept
/// nothing or must be dropped.
pub fn read(
    file: FileFormat,
    reader: impl Read + Send + 'static,
    checker: Checker,
    sink: &mut dyn Sink,
) -> Result<LogSummary, IngestError> {
    read_files(vec![(file, reader)], checker, sink).map_err(|error| error.error)
}
