//! Encodes rows as Parquet, one row group at a time, so that one group is in memory.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, FixedSizeListArray, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    UInt32Array,
};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::column_hashes::{ColumnHasher, hash_of_index};
use super::set_columns::{self, ACTION_INDICES, ACTION_VALUES, X_INDICES, X_VALUES, lists, numbers_of_sets};
use guarantor_engine::footprint::SetSizes;
use guarantor_ingest::{LogLayout, LogRows};

/// How the columns of logged candidates are named.
pub const CANDIDATE_PREFIX: &str = "candidate.";
/// How the columns of the outcomes besides the primary one are named.
pub const OUTCOME_PREFIX: &str = "outcome.";
/// How the columns with all probabilities of logged candidates are named.
pub const CANDIDATE_FULL_PREFIX: &str = "candidate_propensities.";

/// The length of the end of a Parquet file: the length of its index, and four letters.
pub const TAIL: usize = 8;

/// About how many bytes a row group has before compression. A writer and a reader each have one group in
/// memory.
const GROUP_BYTES: usize = 8 << 20;

/// The zstd level.
const LEVEL: i32 = 1;
/// How many numbers are compressed on trial to see whether a list column is worth compressing.
const SAMPLE: usize = 1 << 14;
/// The share of its size that a column must shrink to for compression to be worth it.
const WORTH: f64 = 0.85;

/// Encodes the rows of one part.
pub struct LogEncoder {
    layout: LogLayout,
    /// `None` before the first rows, from which the compression is chosen.
    open: Option<ArrowWriter<Vec<u8>>>,
    /// About how many bytes the current group has, if rows have sets of their own.
    filled: usize,
    sizes: SetSizes,
    hashes: ColumnHasher,
}

/// The end of a part.
#[derive(Debug, Default)]
pub struct Encoded {
    /// The last bytes; empty if there were no rows.
    pub bytes: Vec<u8>,
    /// SHA-256 of the index.
    pub index: Option<String>,
}

impl LogEncoder {
    /// An encoder for rows of this layout.
    pub fn new(layout: LogLayout) -> Self {
        let (sizes, hashes) = (SetSizes::default(), ColumnHasher::default());
        LogEncoder { layout, open: None, filled: 0, sizes, hashes }
    }

    /// Encodes a batch.
    pub fn write(&mut self, rows: LogRows) -> Result<(), ParquetError> {
        let mut writer = match self.open.take() {
            Some(writer) => writer,
            None => writer(&self.layout, &rows)?,
        };
        let groups = self.groups(&rows);
        let batch = RecordBatch::try_new(Arc::new(schema(&self.layout)?), arrays(&self.layout, rows)?)?;
        let mut from = 0;
        for end in groups {
            writer.write(&batch.slice(from, end - from))?;
            writer.flush()?;
            from = end;
        }
        if from < batch.num_rows() {
            writer.write(&batch.slice(from, batch.num_rows() - from))?;
        }
        self.open = Some(writer);
        Ok(())
    }

    /// After which of these rows a group ends. Rows without sets have one length, so the writer counts them.
    fn groups(&mut self, rows: &LogRows) -> Vec<usize> {
        let mut ends = Vec::new();
        if self.layout.sets.is_none() {
            return ends;
        }
        let lists = usize::from(self.layout.full.is_some()) + rows.candidate_full.len();
        let (fixed, sets) = (self.layout.row_bytes(), &rows.sets);
        for i in 0..rows.len() {
            let actions = sets.actions_of(i);
            let starts = sets.actions.offsets();
            let request = sets.x.vector(i).indices.len() as u64;
            let non_zeros = starts[actions.end] - starts[actions.start] + request;
            let ids: usize =
                rows.action_ids.iter().take(actions.end).skip(actions.start).map(String::len).sum();
            self.sizes.actions += actions.len() as u64;
            self.sizes.non_zeros += non_zeros;
            self.sizes.of_requests += request;
            self.filled += fixed + actions.len() * (8 + 8 * lists) + 8 * non_zeros as usize + ids;
            if self.filled >= GROUP_BYTES {
                self.filled = 0;
                ends.push(i + 1);
            }
        }
        ends
    }

    /// How large the sets of all rows so far are; `None` if all rows have the same actions.
    pub fn set_sizes(&self) -> Option<SetSizes> {
        self.layout.sets.map(|_| self.sizes)
    }

    /// The bytes that are ready: a row group, or nothing yet.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        let Some(writer) = self.open.as_mut().filter(|writer| !writer.inner().is_empty()) else {
            return Vec::new();
        };
        self.hashes.see(writer.flushed_row_groups(), writer.inner());
        // The next group will be about as long.
        let next = Vec::with_capacity(writer.inner().len());
        std::mem::replace(writer.inner_mut(), next)
    }

    /// The last bytes, with the index.
    pub fn finish(mut self) -> Result<Encoded, ParquetError> {
        let Some(mut writer) = self.open.take() else { return Ok(Encoded::default()) };
        writer.flush()?;
        writer.sync()?;
        self.hashes.see(writer.flushed_row_groups(), writer.inner());
        writer.append_key_value_metadata(self.hashes.finish());
        let bytes = writer.into_inner()?;
        let index = index_of(&bytes).map(hash_of_index);
        Ok(Encoded { bytes, index })
    }
}

/// The index at the end of a file: the texts and numbers, their length, and four letters.
fn index_of(bytes: &[u8]) -> Option<&[u8]> {
    let length = bytes.last_chunk::<TAIL>()?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
    bytes.get(bytes.len().checked_sub(length as usize + TAIL)?..)
}

/// The columns with a probability of each row, and those of some rows.
fn probabilities<'a>(layout: &'a LogLayout, rows: &'a LogRows) -> impl Iterator<Item = (String, &'a [f64])> {
    let candidates = layout.candidates.iter().map(|name| format!("{CANDIDATE_PREFIX}{name}"));
    let columns = rows.candidates.iter().map(Vec::as_slice);
    std::iter::once(("propensity".to_owned(), rows.propensities.as_slice())).chain(candidates.zip(columns))
}

/// A Parquet writer; `first` are some of the rows that it will write.
fn writer(layout: &LogLayout, first: &LogRows) -> Result<ArrowWriter<Vec<u8>>, ParquetError> {
    let sets = &first.sets;
    // The groups of rows with sets end when they are long enough.
    let group_rows = match layout.sets {
        Some(_) => 1 << 20,
        None => (GROUP_BYTES / layout.row_bytes()).clamp(64, 1 << 20),
    };
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_column_compression(numbers_of("x"), worth(&sample(&first.x, f32::to_le_bytes))?)
        .set_column_compression(numbers_of("propensities"), worth(&sample(&first.full, f64::to_le_bytes))?)
        // Features rarely repeat, so a dictionary would waste time.
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_max_row_group_row_count(Some(group_rows))
        .set_column_compression(numbers_of(X_INDICES), worth(&sample(sets.x.indices(), u32::to_le_bytes))?)
        .set_column_compression(numbers_of(X_VALUES), worth(&sample(sets.x.values(), f32::to_le_bytes))?)
        .set_column_compression(
            numbers_of(ACTION_INDICES),
            worth(&sample(sets.actions.indices(), u32::to_le_bytes))?,
        )
        .set_column_compression(
            numbers_of(ACTION_VALUES),
            worth(&sample(sets.actions.values(), f32::to_le_bytes))?,
        );
    for (column, values) in probabilities(layout, first) {
        let compression = worth(&sample(values, f64::to_le_bytes))?;
        properties = properties.set_column_compression(ColumnPath::new(vec![column]), compression);
    }
    ArrowWriter::try_new(Vec::new(), Arc::new(schema(layout)?), Some(properties.build()))
}

/// The compression for a column with numbers like these. If the features of a log do not repeat, zstd takes
/// longer than the rest of the encoding and saves almost nothing.
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

/// The Parquet path of the numbers of a list column.
fn numbers_of(column: &str) -> ColumnPath {
    ColumnPath::new(vec![column.into(), "list".into(), "item".into()])
}

fn list_of(item: DataType, size: usize) -> DataType {
    DataType::FixedSizeList(Arc::new(Field::new("item", item, false)), size as i32)
}

/// The column type of lists with one number per action.
fn per_action(layout: &LogLayout, k: usize) -> DataType {
    match layout.sets {
        Some(_) => lists(DataType::Float64),
        None => list_of(DataType::Float64, k),
    }
}

fn schema(layout: &LogLayout) -> Result<Schema, ParquetError> {
    let mut fields = vec![
        Field::new("action", DataType::UInt32, false),
        Field::new("cost", DataType::Float64, false),
        Field::new("propensity", DataType::Float64, false),
    ];
    if layout.dim > 0 {
        fields.push(Field::new("x", list_of(DataType::Float32, layout.dim), false));
    }
    if let Some(k) = layout.full {
        fields.push(Field::new("propensities", per_action(layout, k), false));
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
    let k = layout.candidate_full.unwrap_or(0);
    for name in &layout.candidate_propensities {
        fields.push(Field::new(format!("{CANDIDATE_FULL_PREFIX}{name}"), per_action(layout, k), false));
    }
    if layout.timestamps {
        fields.push(Field::new("timestamp", DataType::Int64, false));
    }
    if layout.versions {
        fields.push(Field::new("policy_version", DataType::Utf8, false));
    }
    for name in &layout.outcomes {
        fields.push(Field::new(format!("{OUTCOME_PREFIX}{name}"), DataType::Float64, false));
    }
    fields.extend(set_columns::fields(layout)?);
    Ok(Schema::new(fields))
}

fn arrays(layout: &LogLayout, rows: LogRows) -> Result<Vec<ArrayRef>, ParquetError> {
    let sets = set_columns::arrays(layout, &rows)?;
    let numbers = |k: usize, values: Vec<f64>| match layout.sets {
        Some(_) => numbers_of_sets(&rows.sets, values),
        None => list(DataType::Float64, k, Arc::new(Float64Array::from(values))),
    };
    let mut arrays: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from(rows.actions)),
        Arc::new(Float64Array::from(rows.costs)),
        Arc::new(Float64Array::from(rows.propensities)),
    ];
    if layout.dim > 0 {
        arrays.push(list(DataType::Float32, layout.dim, Arc::new(Float32Array::from(rows.x)))?);
    }
    if let Some(k) = layout.full {
        arrays.push(numbers(k, rows.full)?);
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
    for column in rows.candidate_full {
        arrays.push(numbers(layout.candidate_full.unwrap_or(0), column)?);
    }
    if layout.timestamps {
        arrays.push(Arc::new(Int64Array::from(rows.timestamps)));
    }
    if layout.versions {
        arrays.push(Arc::new(StringArray::from(rows.versions)));
    }
    for column in rows.outcomes {
        arrays.push(Arc::new(Float64Array::from(column)));
    }
    arrays.extend(sets);
    Ok(arrays)
}

fn list(item: DataType, size: usize, values: ArrayRef) -> Result<ArrayRef, ParquetError> {
    let field = Arc::new(Field::new("item", item, false));
    Ok(Arc::new(FixedSizeListArray::try_new(field, size as i32, values, None)?))
}
