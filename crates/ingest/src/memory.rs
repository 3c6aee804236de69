//! A sink for logs that fit into memory.

use guarantor_engine::log::Columns;

use crate::LogSummary;
use crate::batch::{LogLayout, LogRows};
use crate::columns::ColumnsBuilder;
use crate::digest::LogDigest;
use crate::sink::{Sink, SinkFailed};

/// Collects the rows of a log into the engine's columns.
///
/// Pass it to [`crate::read`], then call [`MemorySink::into_columns`] with the summary that `read` has
/// returned. `event_id`s are checked but not kept.
#[derive(Default)]
pub struct MemorySink {
    columns: ColumnsBuilder,
    /// The digest of the rows so far, from the first batch on.
    digest: Option<LogDigest>,
}

impl MemorySink {
    /// The rows, once they were read without an error. `summary` is what [`crate::read`] returned.
    pub fn into_columns(self, summary: &LogSummary) -> Columns {
        self.columns.finish(&summary.facts())
    }
}

impl Sink for MemorySink {
    fn write(&mut self, layout: &LogLayout, before: &LogDigest, rows: LogRows) -> Result<(), SinkFailed> {
        self.digest.get_or_insert_with(|| before.clone()).update(layout, &rows);
        self.columns.append(layout, rows);
        Ok(())
    }

    fn discard(&mut self) {
        *self = MemorySink::default();
    }

    fn finish(&mut self) -> Result<Option<LogDigest>, SinkFailed> {
        Ok(self.digest.take())
    }
}
