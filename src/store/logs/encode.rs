//! Rows → Parquet, a row group at a time, so that memory holds one group.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, FixedSizeListArray, Float32Array, Float64Array, RecordBatch, StringArray, UInt32Array,
};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use guarantor_ingest::{LogLayout, LogRows};

pub const CANDIDATE_PREFIX: &str = "candidate.";

/// Bytes of a row group before compression, about: what whoever writes or reads a part holds of it.
const GROUP_BYTES: usize = 8 << 20;

const LEVEL: i32 = 1;
/// Numbers that are looked at to see whether a list column is worth compressing, and the share of its
/// size that it must come down to.
const SAMPLE: usize = 1 << 14;
const WORTH: f64 = 0.85;

pub struct LogEncoder {
    layout: LogLayout,
    /// None before the first rows, which say how to write them.
    open: Option<ArrowWriter<Vec<u8>>>,
}

impl LogEncoder {
    pub fn new(layout: LogLayout) -> Self {
        LogEncoder { layout, open: None }
    }

    pub fn write(&mut self, rows: LogRows) -> Result<(), ParquetError> {
        let mut writer = match self.open.take() {
            Some(writer) => writer,
            None => writer(&self.layout, &rows)?,
        };
        let batch = RecordBatch::try_new(Arc::new(schema(&self.layout)), arrays(&self.layout, rows)?)?;
        writer.write(&batch)?;
        self.open = Some(writer);
        Ok(())
    }

    /// What is ready to go out: a row group, or nothing yet.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        match self.open.as_mut().map(ArrowWriter::inner_mut) {
            // The next group is about as long.
            Some(bytes) if !bytes.is_empty() => {
                let next = Vec::with_capacity(bytes.len());
                std::mem::replace(bytes, next)
            }
            _ => Vec::new(),
        }
    }

    /// The last bytes; none at all where no rows came.
    pub fn finish(self) -> Result<Vec<u8>, ParquetError> {
        self.open.map_or(Ok(Vec::new()), ArrowWriter::into_inner)
    }
}

/// `first` are some of the rows that will be written.
fn writer(layout: &LogLayout, first: &LogRows) -> Result<ArrowWriter<Vec<u8>>, ParquetError> {
    let row_bytes = 4 * layout.dim + 8 * layout.full.unwrap_or(0) + 8 * layout.candidates.len() + 64;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_column_compression(numbers_of("x"), worth(&sample(&first.x, f32::to_le_bytes))?)
        .set_column_compression(numbers_of("propensities"), worth(&sample(&first.full, f64::to_le_bytes))?)
        // Features hardly repeat; a dictionary of them is time spent for nothing.
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_max_row_group_row_count(Some((GROUP_BYTES / row_bytes).clamp(64, 1 << 20)))
        .build();
    ArrowWriter::try_new(Vec::new(), Arc::new(schema(layout)), Some(properties))
}

/// Features of real logs repeat or do not, and where they do not zstd takes longer than all the rest of
/// the encoding for the few bytes that it saves.
fn worth(sample: &[u8]) -> Result<Compression, ParquetError> {
    let compressed = zstd::bulk::compress(sample, LEVEL)?;
    Ok(match compressed.len() as f64 <= WORTH * sample.len() as f64 {
        true => Compression::ZSTD(ZstdLevel::try_new(LEVEL)?),
        false => Compression::UNCOMPRESSED,
    })
}

fn sample<T: Copy, const N: usize>(numbers: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    numbers.iter().take(SAMPLE).flat_map(|&number| bytes(number)).collect()
}

/// How Parquet names the numbers of a list column.
fn numbers_of(column: &str) -> ColumnPath {
    ColumnPath::new(vec![column.into(), "list".into(), "item".into()])
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
