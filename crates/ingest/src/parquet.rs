//! Parquet. The index of a file is at its end, so the log is copied to a temporary file first. The sizes that
//! the file claims are checked (`parquet_sizes.rs`) before anything is decoded.

use std::collections::HashSet;
use std::fs::File;
use std::sync::Arc;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use ::parquet::errors::ParquetError;
use arrow_schema::{DataType, Field, Schema};

use crate::IngestLimits;
use crate::arrow::{check_schema, each_row, guarded};
use crate::decompress::Decoded;
use crate::extra::warning_of;
use crate::parquet_sizes::{check_footer, check_pages};
use crate::row::{FormatError, Notes, ReadContext, Visit};
use crate::spool::spool;

const BATCH_ROWS: usize = 1024;

pub fn read(source: &mut Decoded, context: &ReadContext, visit: &mut Visit) -> Result<Notes, FormatError> {
    let limits = &context.limits;
    let file = spool(source, limits)?;
    check_footer(&file)?;
    let (mut reader, ignored) = guarded(|| open(file, limits, context.candidates_only))??;
    let mut number = 0;
    while let Some(batch) = guarded(|| reader.next())? {
        let batch = batch.map_err(|e| FormatError::Unreadable(format!("damaged Parquet file: {e}")))?;
        each_row(&batch, context.sets, &mut number, visit)?;
    }
    Ok(Notes { warnings: warning_of(&ignored).into_iter().collect(), ..Notes::default() })
}

/// A reader of the columns of a log, and the names of the other columns, which it does not decode.
fn open(
    file: File,
    limits: &IngestLimits,
    candidates_only: bool,
) -> Result<(ParquetRecordBatchReader, Vec<String>), FormatError> {
    let unreadable = |error: ParquetError| FormatError::Unreadable(format!("not a Parquet file: {error}"));
    // The stored types of the columns are enough. The types that the writer had in memory would only be one
    // more claim to check.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(&file, options).map_err(unreadable)?;
    let ignored = check_schema(metadata.schema(), candidates_only).map_err(FormatError::Unreadable)?;
    check_pages(&file, metadata.metadata(), &ignored, limits)?;
    let options = ArrowReaderOptions::new().with_schema(Arc::new(with_views(metadata.schema())));
    let metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options).map_err(unreadable)?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
    let roots = builder.parquet_schema().root_schema().get_fields().iter().enumerate();
    let names: HashSet<&str> = ignored.iter().map(String::as_str).collect();
    let used = roots.filter(|(_, root)| !names.contains(root.name()));
    let used = ProjectionMask::roots(builder.parquet_schema(), used.map(|(i, _)| i).collect::<Vec<_>>());
    let reader = builder.with_projection(used).with_batch_size(BATCH_ROWS).build().map_err(unreadable)?;
    Ok((reader, ignored))
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
