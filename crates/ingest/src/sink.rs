//! The destination of checked rows. The store writes them to a blob; [`crate::MemorySink`] keeps them in
//! memory.

use crate::batch::{LogLayout, LogRows};
use crate::digest::LogDigest;

/// A sink could not keep the rows. Ask the sink for the cause after [`crate::read`] returned
/// [`crate::IngestError::Sink`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkFailed;

/// Keeps the rows of one log, batch by batch.
///
/// A sink also computes the digest of the rows, because the store does both on its own thread, in parallel
/// with the checks.
pub trait Sink {
    /// Takes the next batch. `before` is the digest of the rows that precede the first batch.
    ///
    /// # Errors
    /// The rows could not be kept. Reading stops.
    fn write(&mut self, layout: &LogLayout, before: &LogDigest, rows: LogRows) -> Result<(), SinkFailed>;

    /// Whether anybody still waits for the log. Reading stops soon after this returns false, also where rows are only
    /// checked.
    fn is_awaited(&self) -> bool {
        true
    }

    /// Drops everything written so far: a row was rejected and the log will not be kept.
    fn discard(&mut self);

    /// Completes the log and returns the digest of its rows, or `None` if no rows were written.
    /// Nothing can be rejected after this call.
    ///
    /// # Errors
    /// The log could not be completed.
    fn finish(&mut self) -> Result<Option<LogDigest>, SinkFailed>;
}
