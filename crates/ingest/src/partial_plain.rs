//! Partitions whose rows are plain numbers, column by column, with the checks of an upload.

use std::fs::File;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};

use crate::arrow::{check_schema, guarded};
use crate::batch::{LogLayout, LogRows};
use crate::check::Checker;
use crate::digest::LogDigest;
use crate::errors::{IngestError, shortened};
use crate::files::{FileError, read_batches};
use crate::fingerprint::add_fingerprints;
use crate::format::FileFormat;
use crate::parquet::open_columns;
use crate::partial_rows::plain_rows;
use crate::partials::{PartialFault, PartialSink, reads_column, rules_of};
use crate::repeats::Repeats;
use crate::rules::Rules;
use crate::sink::{Sink, SinkFailed};

/// How many fingerprints are computed at once.
const MARKED: usize = 1024;

/// Reads rows of plain numbers.
pub struct PlainRows<'a> {
    pub sink: PartialSink<'a>,
    rules: Rules,
    repeats: Repeats,
    rows: u64,
    layout: Option<LogLayout>,
}

impl<'a> PlainRows<'a> {
    pub fn new(rules: Rules, sink: PartialSink<'a>) -> Self {
        PlainRows { sink, rules, repeats: Repeats::default(), rows: 0, layout: None }
    }

    /// Reads Parquet files. False if the reader of rows must read them instead: something is wrong with them, or unusual.
    pub fn read_files(&mut self, files: &[(FileFormat, File)]) -> Result<bool, PartialFault> {
        for (_, file) in files {
            let recipe = self.sink.recipe.clone();
            let Ok(reader) = open_columns(file, &self.rules.limits, |name| reads_column(&recipe, name))
            else {
                return Ok(false);
            };
            let mut batches = reader;
            loop {
                match guarded(|| batches.next()) {
                    Ok(None) => break,
                    Ok(Some(Ok(batch))) if self.add(&batch)? => {}
                    _ => return Ok(false),
                }
            }
        }
        Ok(self.layout.is_some() && self.repeated().is_none())
    }

    /// Reads batches, of which the first one is plain.
    pub fn read_batches(
        &mut self,
        schema: &Schema,
        batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
    ) -> Result<(), PartialFault> {
        let rejected = |error| PartialFault::File(FileError { file: None, error });
        check_schema(schema, false)
            .map_err(|message| rejected(IngestError::Unreadable(shortened(message))))?;
        for batch in batches {
            let batch = batch.map_err(|error| rejected(IngestError::Unreadable(error.to_string())))?;
            if !self.add(&batch)? {
                return Err(rejected(self.fault(schema, batch)));
            }
        }
        self.repeated().map_or(Ok(()), |error| Err(rejected(error)))
    }

    /// Adds a batch; false if it is not plain, or not like the first one.
    fn add(&mut self, batch: &RecordBatch) -> Result<bool, PartialFault> {
        if batch.num_rows() == 0 {
            return Ok(true);
        }
        let found = plain_rows(batch, &self.rules)
            .filter(|(layout, _)| self.layout.as_ref().is_none_or(|first| first == layout));
        let Some((layout, rows)) = found else { return Ok(false) };
        self.mark(&layout, &rows);
        self.sink.sum(&layout, rows)?;
        self.layout = Some(layout);
        Ok(true)
    }

    fn mark(&mut self, layout: &LogLayout, rows: &LogRows) {
        let mut marks = Vec::with_capacity(MARKED);
        for from in (0..rows.len()).step_by(MARKED) {
            let range = from..(from + MARKED).min(rows.len());
            marks.clear();
            add_fingerprints(layout, rows, range.clone(), &mut marks);
            self.repeats.add_all(&marks, &rows.propensities[range.clone()], self.rows + 1);
            self.sink.mark(rows, range, &marks);
            self.rows += marks.len() as u64;
        }
    }

    /// Rows that were sent twice.
    fn repeated(&mut self) -> Option<IngestError> {
        self.repeats.end_part();
        if let Some(run) = self.repeats.found() {
            return Some(IngestError::RepeatedRows { row: run.row, run: run.rows, first: run.first });
        }
        self.sink.sketch.multiplied().map(|times| IngestError::MultipliedRows { times })
    }

    /// What is wrong with a batch that is not like the first ones, by the reader of rows.
    fn fault(&self, schema: &Schema, batch: RecordBatch) -> IngestError {
        let unlike = || {
            let message = "a batch has other columns or types than the first one; write the partition again";
            IngestError::Unreadable(message.into())
        };
        let Ok(rules) = rules_of(&self.sink.recipe, self.rules.limits.clone()) else { return unlike() };
        let read = read_batches(schema, [Ok(batch)].into_iter(), None, Checker::new(rules), &mut Nowhere);
        match read {
            Err(IngestError::Rows(mut errors)) => {
                errors.first.iter_mut().for_each(|error| error.row += self.rows);
                IngestError::Rows(errors)
            }
            Err(error) => error,
            Ok(_) => unlike(),
        }
    }
}

/// A sink that keeps nothing.
struct Nowhere;

impl Sink for Nowhere {
    fn write(&mut self, _: &LogLayout, _: &LogDigest, _: LogRows) -> Result<(), SinkFailed> {
        Ok(())
    }

    fn discard(&mut self) {}

    fn finish(&mut self) -> Result<Option<LogDigest>, SinkFailed> {
        Ok(Some(LogDigest::default()))
    }
}

#[cfg(test)]
mod tests;
