//! Arrow's record batches, which the Parquet writer uses too, and streams of them.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Float32Array, Float64Array, ListArray, RecordBatch, StringArray,
    StructArray, TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use arrow_buffer::OffsetBuffer;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use crate::row::OUTCOME_PREFIX;

use super::{FeatureValue, LoggedRow, Namespace, RowEncoder, WriteLayout};

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
    /// The numbers of all outcomes, row by row.
    outcomes: Vec<f64>,
    contexts: Vec<u64>,
    timestamps: Vec<i64>,
    versions: Vec<String>,
    requests: Features,
    set_actions: Features,
    /// The number of actions of each row.
    set_sizes: Vec<usize>,
}

/// The columns of a namespace's features.
type Features = Vec<Vec<FeatureValue>>;

impl BatchBuilder {
    /// A builder for rows of this layout.
    pub fn new(layout: WriteLayout) -> Self {
        let row_bytes = 4 * layout.dim + 8 * (layout.n_actions + layout.outcomes.len()) + 20;
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
            requests: Vec::new(),
            set_actions: Vec::new(),
            set_sizes: Vec::new(),
        }
    }

    /// Adds a row, and returns the batch if it is full.
    pub fn push(&mut self, row: &LoggedRow) -> Result<Option<RecordBatch>, ArrowError> {
        self.x.extend_from_slice(row.x);
        self.actions.push(row.action);
        self.propensities.extend_from_slice(row.propensities);
        self.outcomes.extend_from_slice(row.outcomes(&self.layout));
        self.contexts.push(row.context);
        if self.layout.timestamps {
            self.timestamps.push(row.timestamp);
        }
        if self.layout.versions {
            self.versions.push(row.version.into());
        }
        if let Some(set) = &row.set {
            self.requests.push(set.request.to_vec());
            self.set_actions.extend_from_slice(set.actions);
            self.set_sizes.push(set.actions.len());
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
        let sizes = std::mem::take(&mut self.set_sizes);
        if let Some(layout) = &self.layout.sets {
            columns.push(namespace(&layout.request, &std::mem::take(&mut self.requests)));
            let actions = namespace(&layout.action, &std::mem::take(&mut self.set_actions));
            columns.push(varying(&sizes, actions)?);
        }
        columns.push(Arc::new(UInt32Array::from(std::mem::take(&mut self.actions))));
        let propensities = Arc::new(Float64Array::from(take(&mut self.propensities)));
        columns.push(match self.layout.sets {
            Some(_) => varying(&sizes, propensities)?,
            None => fixed(DataType::Float64, self.layout.n_actions, propensities)?,
        });
        let (outcomes, each) = (take(&mut self.outcomes), self.layout.outcomes.len().max(1));
        for i in 0..each {
            let column = outcomes.iter().skip(i).step_by(each).copied();
            columns.push(Arc::new(Float64Array::from_iter_values(column)));
        }
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
    if let Some(sets) = &layout.sets {
        fields.push(Field::new("x", struct_of(&sets.request), false));
        fields.push(Field::new("actions", varying_of(struct_of(&sets.action)), false));
    }
    fields.push(Field::new("action", DataType::UInt32, false));
    let propensities = match layout.sets {
        Some(_) => varying_of(DataType::Float64),
        None => list_of(DataType::Float64, layout.n_actions),
    };
    fields.push(Field::new("propensities", propensities, false));
    let number = |name: String| Field::new(name, DataType::Float64, false);
    match layout.outcomes.is_empty() {
        true => fields.push(number(layout.outcome_name().into())),
        false => fields
            .extend(layout.outcomes.iter().map(|named| number(format!("{OUTCOME_PREFIX}{}", named.name)))),
    }
    Schema::new(fields)
}

fn list_of(item: DataType, size: usize) -> DataType {
    DataType::FixedSizeList(Arc::new(Field::new("item", item, false)), size as i32)
}

fn fixed(item: DataType, size: usize, values: ArrayRef) -> Result<ArrayRef, ArrowError> {
    let field = Arc::new(Field::new("item", item, false));
    Ok(Arc::new(FixedSizeListArray::try_new(field, size as i32, values, None)?))
}

fn varying_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, false)))
}

fn varying(sizes: &[usize], values: ArrayRef) -> Result<ArrayRef, ArrowError> {
    let field = Arc::new(Field::new("item", values.data_type().clone(), false));
    let offsets = OffsetBuffer::from_lengths(sizes.iter().copied());
    Ok(Arc::new(ListArray::try_new(field, offsets, values, None)?))
}

fn fields_of(namespace: &Namespace) -> Fields {
    let field = |&(name, text): &(&str, bool)| {
        Field::new(name, if text { DataType::Utf8 } else { DataType::Float64 }, true)
    };
    namespace.features.iter().map(field).collect()
}

fn struct_of(namespace: &Namespace) -> DataType {
    let inner = DataType::Struct(fields_of(namespace));
    DataType::Struct(Fields::from(vec![Field::new(namespace.name, inner, false)]))
}

/// A struct with one field, the namespace, which is a struct of its features.
fn namespace(namespace: &Namespace, rows: &Features) -> ArrayRef {
    let column = |(i, &(_, text)): (usize, &(&str, bool))| -> ArrayRef {
        let values = rows.iter().map(|row| row.get(i));
        match text {
            true => Arc::new(StringArray::from_iter(values.map(|value| match value {
                Some(FeatureValue::Text(text)) => Some(text.as_ref()),
                _ => None,
            }))),
            false => Arc::new(Float64Array::from_iter(values.map(|value| match value {
                Some(FeatureValue::Number(number)) => Some(*number),
                _ => None,
            }))),
        }
    };
    let columns = namespace.features.iter().enumerate().map(column).collect();
    let inner: ArrayRef = Arc::new(StructArray::new(fields_of(namespace), columns, None));
    let outer = Fields::from(vec![Field::new(namespace.name, inner.data_type().clone(), false)]);
    Arc::new(StructArray::new(outer, vec![inner], None))
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
