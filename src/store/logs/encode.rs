//! Rows → Parquet, a row group at a time, so that memory holds one group.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, FixedSizeListArray, Float32Array, Float64Array, RecordBatch, StringArray, UInt32Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use super::{LogLayout, LogRows};

pub const CANDIDATE_PREFIX: &str = "candidate.";

/// Bytes of a row group before compression, about: what whoever writes or reads a part holds of it.
const GROUP_BYTES: usize = 8 << 20;

pub struct LogEncoder {
    layout: LogLayout,
    schema: SchemaRef,
    writer: ArrowWriter<Vec<u8>>,
}

impl LogEncoder {
    pub fn new(layout: LogLayout) -> Result<Self, ParquetError> {
        let schema = Arc::new(schema(&layout));
        let row_bytes = 4 * layout.dim + 8 * layout.full.unwrap_or(0) + 8 * layout.candidates.len() + 64;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            // Features hardly repeat; a dictionary of them is time spent for nothing.
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_max_row_group_row_count(Some((GROUP_BYTES / row_bytes).clamp(64, 1 << 20)))
            .build();
        let writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties))?;
        Ok(LogEncoder { layout, schema, writer })
    }

    pub fn write(&mut self, rows: LogRows) -> Result<(), ParquetError> {
        let batch = RecordBatch::try_new(self.schema.clone(), arrays(&self.layout, rows)?)?;
        self.writer.write(&batch)
    }

    /// What is ready to go out.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(self.writer.inner_mut())
    }

    /// The last bytes.
    pub fn finish(self) -> Result<Vec<u8>, ParquetError> {
        self.writer.into_inner()
    }
}

fn list_of(item: DataType, size: usize) -> DataType {
    DataType::FixedSizeList(Arc::new(Field::new("item", item, false)), size as i32)
}

fn schema(layout: &LogLayout) -> Schema {
    let mut fields = vec![
        Field::new("action", DataType::UInt32, false),
        Field::new("cost", DataType::Float64, false),
        Field::new("propensity", DataType::Float64, false),
    ];
    if layout.dim > 0 {
        fields.push(Field::new("x", list_of(DataType::Float32, layout.dim), false));
    }
    if let Some(k) = layout.full {
        fields.push(Field::new("propensities", list_of(DataType::Float64, k), false));
    }
    if layout.context_ids {
        fields.push(Field::new("context_id", DataType::Utf8, false));
    }
    if layout.event_ids {
        fields.push(Field::new("event_id", DataType::Utf8, false));
    }
    for name in &layout.candidates {
        fields.push(Field::new(format!("{CANDIDATE_PREFIX}{name}"), DataType::Float64, false));
    }
    Schema::new(fields)
}

fn arrays(layout: &LogLayout, rows: LogRows) -> Result<Vec<ArrayRef>, ParquetError> {
    let mut arrays: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from(rows.actions)),
        Arc::new(Float64Array::from(rows.costs)),
        Arc::new(Float64Array::from(rows.propensities)),
    ];
    if layout.dim > 0 {
        arrays.push(list(DataType::Float32, layout.dim, Arc::new(Float32Array::from(rows.x)))?);
    }
    if let Some(k) = layout.full {
        arrays.push(list(DataType::Float64, k, Arc::new(Float64Array::from(rows.full)))?);
    }
    if layout.context_ids {
        arrays.push(Arc::new(StringArray::from(rows.context_ids)));
    }
    if layout.event_ids {
        arrays.push(Arc::new(StringArray::from(rows.event_ids)));
    }
    for column in rows.candidates {
        arrays.push(Arc::new(Float64Array::from(column)));
    }
    Ok(arrays)
}

fn list(item: DataType, size: usize, values: ArrayRef) -> Result<ArrayRef, ParquetError> {
    let field = Arc::new(Field::new("item", item, false));
    Ok(Arc::new(FixedSizeListArray::try_new(field, size as i32, values, None)?))
}
