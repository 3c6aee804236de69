//! Parquet. The index of a file is at its end, so the log is copied to a temporary file first. The sizes that
//! the file claims are checked (`parquet_sizes.rs`) before anything is decoded.

use std::collections::HashSet;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel};

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::ParquetMetaData;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};

use crate::IngestLimits;
use crate::arrow::{check_schema, each_part, guarded};
use crate::decompress::Decoded;
use crate::extra::warning_of;
use crate::parquet_sizes::{check_footer, check_pages};
use crate::plain_batch;
use crate::plain_columns::PlainColumns;
use crate::row::{FormatError, Notes, ReadContext, Visit};
use crate::spent_groups::SpentGroups;
use crate::spool::spool;

/// A batch has about so many bytes of numbers, and at most so many rows.
const BATCH_BYTES: u64 = 1 << 20;
const MAX_BATCH_ROWS: u64 = 8192;
/// How many batches are decoded ahead of the one that is visited. After one that takes more than so many bytes, because
/// its lists are long, decoding waits until it was visited.
const AHEAD: usize = 4;
const MAX_AHEAD_BYTES: usize = 32 << 20;

pub fn read(source: &mut Decoded, context: &ReadContext, visit: &mut Visit) -> Result<Notes, FormatError> {
    let limits = &context.limits;
    let file = spool(source, limits)?;
    check_footer(&file)?;
    let spent = file.try_clone().map_err(|error| FormatError::Stopped(error.into()))?;
    let Opened { reader, ignored, index } =
        guarded(|| open(file, limits, context.candidates_only, |_| true))??;
    each_decoded(reader, SpentGroups::new(spent, &index), context, visit)?;
    Ok(Notes { warnings: warning_of(&ignored).into_iter().collect(), ..Notes::default() })
}

/// A batch, and its rows as whole columns if nothing about them is unusual.
type DecodedBatch = (RecordBatch, Option<PlainColumns>);

/// Decodes batches on a thread of their own, and visits their rows on this one.
fn each_decoded(
    mut reader: ParquetRecordBatchReader,
    mut spent: SpentGroups,
    context: &ReadContext,
    visit: &mut Visit,
) -> Result<(), FormatError> {
    // A visitor that refuses some columns is likely to refuse all.
    let refused = AtomicBool::new(false);
    let (sender, decoded) = sync_channel::<Result<DecodedBatch, FormatError>>(AHEAD);
    let (visited, visits) = channel();
    let mut before = 0;
    let mut decode = || -> Result<Option<DecodedBatch>, FormatError> {
        let Some(batch) = guarded(|| reader.next())? else { return Ok(None) };
        let batch = batch.map_err(|e| FormatError::Unreadable(format!("damaged Parquet file: {e}")))?;
        let columns = match refused.load(Ordering::Relaxed) {
            true => None,
            false => guarded(|| plain_batch::columns(&batch, before))?,
        };
        before += batch.num_rows() as u64;
        spent.decoded(before);
        Ok(Some((batch, columns)))
    };
    std::thread::scope(|scope| {
        let work = move || {
            let mut sent = 0;
            while let Some(decoded) = decode().transpose() {
                let bytes = decoded.as_ref().map_or(0, |(batch, _)| batch.get_array_memory_size());
                let failed = decoded.is_err();
                if sender.send(decoded).is_err() || failed {
                    return;
                }
                sent += 1;
                while bytes > MAX_AHEAD_BYTES && sent > 0 && visits.recv().is_ok() {
                    sent -= 1;
                }
            }
        };
        std::thread::Builder::new().name("decode".into()).spawn_scoped(scope, work)?;
        let mut number = 0;
        for next in decoded {
            let (batch, columns) = next?;
            let plain = columns.is_some();
            if !each_part(&batch, columns, context.sets, &mut number, visit)? && plain {
                refused.store(true, Ordering::Relaxed);
            }
            drop(batch);
            // The decoder has ended if this fails.
            let _ = visited.send(());
        }
        Ok(())
    })
}

/// How many rows are decoded at once.
fn batch_rows(metadata: &ParquetMetaData) -> usize {
    let per_row = metadata.row_groups().iter().map(|group| {
        let values: u64 = group.columns().iter().map(|column| column.num_values().max(0) as u64).sum();
        8 * values / (group.num_rows().max(1) as u64)
    });
    (BATCH_BYTES / per_row.max().unwrap_or(0).max(1)).clamp(1, MAX_BATCH_ROWS) as usize
}

/// A reader of those columns of a log that `is_read`.
pub fn open_columns(
    file: &File,
    limits: &IngestLimits,
    is_read: impl Fn(&str) -> bool,
) -> Result<ParquetRecordBatchReader, FormatError> {
    check_footer(file)?;
    let file = file.try_clone().map_err(|error| FormatError::Stopped(error.into()))?;
    guarded(|| open(file, limits, false, is_read))?.map(|opened| opened.reader)
}

/// A file that is ready to be decoded.
struct Opened {
    reader: ParquetRecordBatchReader,
    /// The names of the columns that no log has, which are not decoded.
    ignored: Vec<String>,
    index: Arc<ParquetMetaData>,
}

/// Opens those columns of a log that `is_read`.
fn open(
    file: File,
    limits: &IngestLimits,
    candidates_only: bool,
    is_read: impl Fn(&str) -> bool,
) -> Result<Opened, FormatError> {
    let unreadable = |error: ParquetError| FormatError::Unreadable(format!("not a Parquet file: {error}"));
    // The stored types of the columns are enough. The types that the writer had in memory would only be one
    // more claim to check.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(&file, options).map_err(unreadable)?;
    let ignored = check_schema(metadata.schema(), candidates_only).map_err(FormatError::Unreadable)?;
    check_pages(&file, metadata.metadata(), &ignored, limits)?;
    let options = ArrowReaderOptions::new().with_schema(Arc::new(with_views(metadata.schema())));
    let metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options).map_err(unreadable)?;
    let (rows, index) = (batch_rows(metadata.metadata()), metadata.metadata().clone());
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
    let roots = builder.parquet_schema().root_schema().get_fields().iter().enumerate();
    let names: HashSet<&str> = ignored.iter().map(String::as_str).collect();
    let used = roots.filter(|(_, root)| !names.contains(root.name()) && is_read(root.name()));
    let used = ProjectionMask::roots(builder.parquet_schema(), used.map(|(i, _)| i).collect::<Vec<_>>());
    let reader = builder.with_projection(used).with_batch_size(rows).build().map_err(unreadable)?;
    Ok(Opened { reader, ignored, index })
}

/// Reads strings as views, so that an entry of a dictionary is not copied for every row that refers to it.
fn with_views(schema: &Schema) -> Schema {
    Schema::new(schema.fields().iter().map(|field| viewed(field)).collect::<Vec<_>>())
}

fn viewed(field: &Field) -> Field {
    let inner = |field: &Arc<Field>| Arc::new(viewed(field));
    let viewed = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(inner(item), *size),
        DataType::Struct(members) => DataType::Struct(members.iter().map(inner).collect()),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        other => other.clone(),
    };
    field.clone().with_data_type(viewed)
}
