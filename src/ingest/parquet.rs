//! Parquet. The file's index is at its end, so the upload is put down in a temporary file first.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use ::parquet::errors::ParquetError;

use super::IngestLimits;
use super::arrow::{Columns, columns_of};
use super::row::{FormatError, RawRow, Visit};

const BATCH_ROWS: usize = 1024;

pub fn read(source: impl Read, limits: &IngestLimits, visit: &mut Visit) -> Result<(), FormatError> {
    let file = spool(source, limits).map_err(|error| FormatError::Unreadable(error.to_string()))?;
    let unreadable = |error: ParquetError| FormatError::Unreadable(format!("not a Parquet file: {error}"));
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(unreadable)?;
    let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(unreadable)?;
    let mut number = 0;
    for batch in reader {
        let batch = batch.map_err(|e| FormatError::Unreadable(format!("damaged Parquet file: {e}")))?;
        let columns = columns_of(&batch).map_err(FormatError::Unreadable)?;
        for i in 0..batch.num_rows() {
            number += 1;
            visit(number, row(&columns, i)).map_err(FormatError::Stopped)?;
        }
    }
    Ok(())
}

fn spool(mut source: impl Read, limits: &IngestLimits) -> std::io::Result<File> {
    let mut file = match &limits.spool {
        Some(directory) => tempfile::tempfile_in(directory)?,
        None => tempfile::tempfile()?,
    };
    std::io::copy(&mut source, &mut file)?;
    Ok(file)
}

fn row(columns: &Columns, i: usize) -> Result<RawRow, super::row::Fault> {
    let mut candidates: Option<BTreeMap<String, f64>> = None;
    for (name, column) in &columns.candidates {
        if let Some(value) = column.number(i) {
            candidates.get_or_insert_default().insert(name.clone(), value);
        }
    }
    Ok(RawRow {
        x: columns.x.as_ref().map(|c| c.list("x", i)).transpose()?.flatten(),
        action: columns.action.as_ref().and_then(|c| c.integer(i)),
        propensity: columns.propensity.as_ref().and_then(|c| c.number(i)),
        propensities: columns.propensities.as_ref().map(|c| c.list("propensities", i)).transpose()?.flatten(),
        cost: columns.cost.as_ref().and_then(|c| c.number(i)),
        reward: columns.reward.as_ref().and_then(|c| c.number(i)),
        context_id: columns.context_id.as_ref().and_then(|c| c.text(i)),
        event_id: columns.event_id.as_ref().and_then(|c| c.text(i)),
        candidates,
    })
}
