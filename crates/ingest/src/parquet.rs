//! Parquet. The file's index is at its end, so the upload is put down in a temporary file first, and
//! its claims of sizes are checked (`parquet_sizes.rs`) before anything is decoded.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use ::parquet::errors::ParquetError;
use arrow_schema::{DataType, Schema};

use super::IngestLimits;
use super::arrow::{check_schema, each_row, guarded};
use super::errors::IngestError;
use super::parquet_sizes::{check_footer, check_pages};
use super::row::{FormatError, Visit};

const BATCH_ROWS: usize = 1024;

pub fn read(source: impl Read, limits: &IngestLimits, visit: &mut Visit) -> Result<(), FormatError> {
    let file = spool(source, limits)?;
    check_footer(&file)?;
    let mut reader = guarded(|| open(file, limits))??;
    let mut number = 0;
    while let Some(batch) = guarded(|| reader.next())? {
        let batch = batch.map_err(|e| FormatError::Unreadable(format!("damaged Parquet file: {e}")))?;
        each_row(&batch, &mut number, visit)?;
    }
    Ok(())
}

fn open(file: File, limits: &IngestLimits) -> Result<ParquetRecordBatchReader, FormatError> {
    let unreadable = |error: ParquetError| FormatError::Unreadable(format!("not a Parquet file: {error}"));
    // The types that the columns are stored in say enough; those that the writer had in memory are
    // another thing to be lied about.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(&file, options).map_err(unreadable)?;
    check_schema(metadata.schema()).map_err(FormatError::Unreadable)?;
    check_pages(&file, metadata.metadata(), limits)?;
    let options = ArrowReaderOptions::new().with_schema(Arc::new(with_views(metadata.schema())));
    let metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options).map_err(unreadable)?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
    builder.with_batch_size(BATCH_ROWS).build().map_err(unreadable)
}

/// Texts are read where they lie: one of a dictionary that all rows name is not copied for each.
fn with_views(schema: &Schema) -> Schema {
    let view = |field: &Arc<arrow_schema::Field>| match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => field.as_ref().clone().with_data_type(DataType::Utf8View),
        _ => field.as_ref().clone(),
    };
    Schema::new(schema.fields().iter().map(view).collect::<Vec<_>>())
}

/// A file without a name, so that nothing is left of it whatever happens.
pub fn spool(mut source: impl Read, limits: &IngestLimits) -> Result<File, FormatError> {
    let ours = |error: io::Error| FormatError::Stopped(IngestError::Io(error));
    let file = match &limits.spool {
        Some(directory) => tempfile::tempfile_in(directory),
        None => tempfile::tempfile(),
    };
    let (mut file, mut buffer) = (file.map_err(ours)?, vec![0; 1 << 16]);
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(file),
            Ok(n) => file.write_all(&buffer[..n]).map_err(ours)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(FormatError::Unreadable(error.to_string())),
        }
    }
}
