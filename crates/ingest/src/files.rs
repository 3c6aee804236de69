//! Several files that are one log: they are read one after the other, as if they were one file.

use std::io::Read;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};

use crate::arrow;
use crate::check::{Checker, LogSummary};
use crate::decompress::Decoded;
use crate::errors::{IngestError, shortened};
use crate::format::{FileFormat, Format};
use crate::plain_columns::PlainColumns;
use crate::row::{FormatError, Notes, RawRow, ReadContext, RowFault, Visit, Visitor};
use crate::sink::Sink;

/// The bits of a row's number that are its number in its file. Those above are the position of the file, so that
/// the numbers of the only file of a log are what they are in the file.
const ROW_BITS: u32 = 40;
const ROWS: u64 = (1 << ROW_BITS) - 1;

/// Why a log of several files was rejected.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct FileError {
    /// The position of the file that is at fault; `None` if it is the log as a whole.
    pub file: Option<usize>,
    /// What is wrong. Row numbers are those of the file.
    pub error: IngestError,
}

/// The number of a row of the file at this position.
pub fn number_in(file: usize, row: u64) -> u64 {
    (file as u64) << ROW_BITS | row.min(ROWS)
}

/// The position of the file and the row in it.
pub fn place_of(number: u64) -> (usize, u64) {
    ((number >> ROW_BITS) as usize, number & ROWS)
}

/// Reads all files to their ends, in this order, through `checker` into `sink`. The digest, the health and the
/// certificates are those of one file with the same rows.
///
/// # Errors
/// All errors of the rows of one file, or the first error of a file as a whole. After an error, the sink has kept
/// nothing or must be dropped.
pub fn read_files<R: Read + Send + 'static>(
    files: Vec<(FileFormat, R)>,
    mut checker: Checker,
    sink: &mut dyn Sink,
) -> Result<LogSummary, FileError> {
    let formats: Vec<FileFormat> = files.iter().map(|(format, _)| *format).collect();
    let mut notes = Notes::default();
    for (i, (format, reader)) in files.into_iter().enumerate() {
        let read = read_file(i, format, reader, &mut checker, &notes, sink);
        notes.add(read.map_err(|error| FileError { file: Some(i), error })?);
        if checker.has_errors() {
            break;
        }
    }
    checker.finish(sink, notes).map_err(|error| of_file(error, &formats))
}

/// Reads batches of a data frame through `checker` into `sink`, as if they were the only file of a log. `hash_dims` is the
/// number of dimensions for named features.
///
/// # Errors
/// All errors of the rows, or the first error of the batches as a whole. After an error, the sink has kept nothing or
/// must be dropped.
pub fn read_batches(
    schema: &Schema,
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
    hash_dims: Option<usize>,
    mut checker: Checker,
    sink: &mut dyn Sink,
) -> Result<LogSummary, IngestError> {
    let file = FileFormat { hash_dims, ..Format::ArrowStream.into() };
    let notes = read_rows(0, file, &mut checker, &Notes::default(), sink, |context, visit| {
        arrow::read_batches(schema, batches, context, visit)
    })?;
    checker.finish(sink, notes)
}

/// Reads the rows of one file. `earlier` is what the files before it said.
fn read_file(
    position: usize,
    file: FileFormat,
    reader: impl Read + Send + 'static,
    checker: &mut Checker,
    earlier: &Notes,
    sink: &mut dyn Sink,
) -> Result<Notes, IngestError> {
    let mut rejection = None;
    let read = read_rows(position, file, checker, earlier, sink, |context, visit| {
        let mut source = Decoded::new(file.encoding, reader, &context.limits)?;
        rejection = Some(source.rejection());
        let read = file.format.read(&mut source, context, visit);
        read.and_then(|notes| end_of(&mut source).map(|()| notes))
    });
    // What is wrong with the compression is the cause of whatever else went wrong.
    rejection.map_or(Ok(()), |rejection| rejection.check())?;
    read
}

/// Passes the rows that `read` visits to the checker.
fn read_rows(
    position: usize,
    file: FileFormat,
    checker: &mut Checker,
    earlier: &Notes,
    sink: &mut dyn Sink,
    read: impl FnOnce(&ReadContext, &mut Visit) -> Result<Notes, FormatError>,
) -> Result<Notes, IngestError> {
    let mut context = checker.context(file.hash_dims);
    context.actions = context.actions.or(earlier.actions);
    context.pdrop = context.pdrop.or(earlier.pdrop);
    file.check(&context.limits)?;
    checker.check_format(file.format)?;
    match read(&context, &mut Rows { position, checker, sink }) {
        Ok(_) if is_pointless(file, checker) => {
            let message = "is set, but the rows have no named features; leave it out".into();
            Err(IngestError::Option { field: "hash_dims", message })
        }
        Ok(notes) => Ok(notes),
        Err(FormatError::Unreadable(message)) => Err(IngestError::Unreadable(shortened(message))),
        Err(FormatError::Stopped(error)) => Err(error),
    }
}

/// After this many rows it is asked whether anybody still waits for them.
const ASK_AFTER: u64 = 1024;

/// The rows of the file at this position.
struct Rows<'a> {
    position: usize,
    checker: &'a mut Checker,
    sink: &'a mut dyn Sink,
}

impl Visitor for Rows<'_> {
    fn row(&mut self, number: u64, row: Result<RawRow<'_>, RowFault>) -> Result<(), IngestError> {
        if number.is_multiple_of(ASK_AFTER) && !self.sink.is_awaited() {
            return Err(IngestError::Sink);
        }
        self.checker.accept(number_in(self.position, number), row, self.sink)
    }

    fn columns(&mut self, mut columns: PlainColumns) -> Result<bool, IngestError> {
        if !self.sink.is_awaited() {
            return Err(IngestError::Sink);
        }
        columns.numbers.iter_mut().for_each(|number| *number = number_in(self.position, *number));
        self.checker.accept_columns(columns, self.sink)
    }
}

/// Whether the caller has set a number of hashed dimensions and nothing is hashed.
fn is_pointless(file: FileFormat, checker: &Checker) -> bool {
    let set = file.hash_dims.is_some_and(|dims| dims > 0) && !file.format.hashes_features();
    set && !checker.has_errors() && !checker.has_named_features()
}

/// Attributes an error to the file that its first row is in, with the row numbers and the field names of that file.
fn of_file(error: IngestError, formats: &[FileFormat]) -> FileError {
    let (file, error) = match error {
        IngestError::Rows(mut rows) => {
            let file = rows.first.first().map(|row| place_of(row.row).0);
            rows.first.retain(|row| Some(place_of(row.row).0) == file);
            rows.first.iter_mut().for_each(|row| row.row = place_of(row.row).1);
            (file, IngestError::Rows(rows))
        }
        IngestError::RepeatedRows { row, run, first } => {
            let (file, row) = place_of(row);
            (Some(file), IngestError::RepeatedRows { row, run, first })
        }
        other => (None, other),
    };
    let error = match file.and_then(|file| formats.get(file)) {
        Some(file) => file.format.name_fields(error),
        None => error,
    };
    FileError { file, error }
}

/// Checks that the reader has read everything: unread bytes are not part of a log.
pub fn end_of(source: &mut impl Read) -> Result<(), FormatError> {
    match source.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(FormatError::Unreadable("there are bytes after the end of the log".into())),
        Err(error) => Err(FormatError::Unreadable(error.to_string())),
    }
}
