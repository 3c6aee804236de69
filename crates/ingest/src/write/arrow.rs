//! Arrow's record batches, which the Parquet writer uses too, and streams of them.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::{
    ArrayRef, FixedSizeListArray, Float32Array, Float64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};

use super::{LoggedRow, RowEncoder, WriteLayout};

/// The approximate size of a batch.
const BATCH_BYTES: usize = 4 << 20;

/// Rows that will become the next batch.
pub struct BatchBuilder {
    layout: WriteLayout,
    pub schema: SchemaRef,
    most: usize,
    x: Vec<f32>,
    actions: Vec<u32>,
    propensities: Vec<f64>,
    outcomes: Vec<f64>,
    contexts: Vec<u64>,
    timestamps: Vec<i64>,
    versions: Vec<String>,
}

impl BatchBuilder {
    /// A builder for rows of this layout.
    pub fn new(layout: WriteLayout) -> Self {
        let row_bytes = 4 * layout.dim + 8 * layout.n_actions + 20;
        BatchBuilder {
            schema: Arc::new(schema(&layout)),
            layout,
            most: (BATCH_BYTES / row_bytes).clamp(64, 8192),
            x: Vec::new(),
            actions: Vec::new(),
            propensities: Vec::new(),
            outcomes: Vec::new(),
            contexts: Vec::new(),
            timestamps: Vec::new(),
            versions: Vec::new(),
        }
    }

    /// Adds a row, and returns the batch if it is full.
    pub fn push(&mut self, row: &LoggedRow) -> Result<Option<RecordBatch>, ArrowError> {
        self.x.extend_from_slice(row.x);
        self.actions.push(row.action);
        self.propensities.extend_from_slice(row.propensities);
        self.outcomes.push(row.outcome);
        self.contexts.push(row.context);
        if self.layout.timestamps {
            self.timestamps.push(row.timestamp);
        }
        if self.layout.versions {
            self.versions.push(row.version.into());
        }
        if self.actions.len() < self.most { Ok(None) } else { self.take() }
    }

    /// The rows so far as a batch, if there are any.
    pub fn take(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        if self.actions.is_empty() {
            return Ok(None);
        }
        let take = std::mem::take::<Vec<f64>>;
        let mut columns: Vec<ArrayRef> = Vec::new();
        let contexts = std::mem::take(&mut self.contexts);
        if self.layout.context_ids {
            columns.push(Arc::new(UInt64Array::from(contexts)));
        }
        if self.layout.timestamps {
            let times = TimestampMicrosecondArray::from(std::mem::take(&mut self.timestamps));
            columns.push(Arc::new(times.with_timezone("UTC")));
        }
        if self.layout.versions {
            columns.push(Arc::new(StringArray::from(std::mem::take(&mut self.versions))));
        }
        let x = Float32Array::from(std::mem::take(&mut self.x));
        if self.layout.dim > 0 {
            columns.push(fixed(DataType::Float32, self.layout.dim, Arc::new(x))?);
        }
        columns.push(Arc::new(UInt32Array::from(std::mem::take(&mut self.actions))));
        let propensities = Float64Array::from(take(&mut self.propensities));
        columns.push(fixed(DataType::Float64, self.layout.n_actions, Arc::new(propensities))?);
        columns.push(Arc::new(Float64Array::from(take(&mut self.outcomes))));
        RecordBatch::try_new(self.schema.clone(), columns).map(Some)
    }
}

fn schema(layout: &WriteLayout) -> Schema {
    let mut fields = Vec::new();
    fields.extend(layout.context_ids.then(|| Field::new("context_id", DataType::UInt64, false)));
    let times = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    fields.extend(layout.timestamps.then(|| Field::new("timestamp", times, false)));
    fields.extend(layout.versions.then(|| Field::new("policy_version", DataType::Utf8, false)));
    if layout.dim > 0 {
        fields.push(Field::new("x", list_of(DataType::Float32, layout.dim), false));
    }
    fields.push(Field::new("action", DataType::UInt32, false));
    fields.push(Field::new("propensities", list_of(DataType::Float64, layout.n_actions), false));
    fields.push(Field::new(layout.outcome_name(), DataType::Float64, false));
    Schema::new(fields)
}

fn list_of(item: DataType, size: usize) -> DataType {
    DataType::FixedSizeList(Arc::new(Field::new("item", item, false)), size as i32)
}

fn fixed(item: DataType, size: usize, values: ArrayRef) -> Result<ArrayRef, ArrowError> {
    let field = Arc::new(Field::new("item", item, false));
    Ok(Arc::new(FixedSizeListArray::try_new(field, size as i32, values, None)?))
}

struct ArrowStream {
    batch: BatchBuilder,
    /// Writes to memory, which is moved to the output after every batch.
    stream: StreamWriter<Vec<u8>>,
}

pub fn start(layout: &WriteLayout, _to: &mut dyn Write) -> io::Result<Box<dyn RowEncoder>> {
    let batch = BatchBuilder::new(layout.clone());
    let stream = StreamWriter::try_new(Vec::new(), &batch.schema).map_err(io::Error::other)?;
    Ok(Box::new(ArrowStream { batch, stream }))
}

impl RowEncoder for ArrowStream {
    fn write(&mut self, row: &LoggedRow, to: &mut dyn Write) -> io::Result<()> {
        if let Some(batch) = self.batch.push(row).map_err(io::Error::other)? {
            self.stream.write(&batch).map_err(io::Error::other)?;
            to.write_all(&std::mem::take(self.stream.get_mut()))?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, to: &mut dyn Write) -> io::Result<()> {
        if let Some(batch) = self.batch.take().map_err(io::Error::other)? {
            self.stream.write(&batch).map_err(io::Error::other)?;
        }
        to.write_all(&self.stream.into_inner().map_err(io::Error::other)?)
    }
}
