//! The Parquet columns of action sets. A row has lists of its own length, so it takes space for its non-zeros. The
//! feature spaces cannot be seen in the rows, so they are in the file as metadata of a column.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, Float32Array, Float64Array, ListArray, RecordBatch, StringArray, UInt32Array,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use parquet::errors::ParquetError;

use guarantor_engine::log::{ActionSets, Sets, Sparse};
use guarantor_ingest::{LogLayout, LogRows};

/// The number of non-zeros of each available action.
pub const ACTION_NON_ZEROS: &str = "action_non_zeros";
/// The dimensions of the non-zeros of a row's actions, one action after the other.
pub const ACTION_INDICES: &str = "action_indices";
/// Their values.
pub const ACTION_VALUES: &str = "action_values";
/// The dimensions of the non-zeros of a row's request.
pub const X_INDICES: &str = "x_indices";
/// Their values.
pub const X_VALUES: &str = "x_values";
/// The id of each available action.
const ACTION_IDS: &str = "action_ids";
/// The key of the metadata with the feature spaces.
const SPACES: &str = "guarantor.action_sets";

/// A column with lists of different lengths.
pub fn lists(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, false)))
}

/// The columns of the sets of a log, if it has any.
pub fn fields(layout: &LogLayout) -> Result<Vec<Field>, ParquetError> {
    let Some(spaces) = layout.sets else { return Ok(Vec::new()) };
    let spaces = serde_json::to_string(&spaces).map_err(|error| ParquetError::General(error.to_string()))?;
    let numbers = Field::new(ACTION_NON_ZEROS, lists(DataType::UInt32), false);
    let mut fields = vec![
        numbers.with_metadata(HashMap::from([(SPACES.to_owned(), spaces)])),
        Field::new(ACTION_INDICES, lists(DataType::UInt32), false),
        Field::new(ACTION_VALUES, lists(DataType::Float32), false),
        Field::new(X_INDICES, lists(DataType::UInt32), false),
        Field::new(X_VALUES, lists(DataType::Float32), false),
    ];
    if layout.action_ids {
        fields.push(Field::new(ACTION_IDS, lists(DataType::Utf8), false));
    }
    Ok(fields)
}

/// The arrays of these columns.
pub fn arrays(layout: &LogLayout, rows: &LogRows) -> Result<Vec<ArrayRef>, ParquetError> {
    if layout.sets.is_none() {
        return Ok(Vec::new());
    }
    let Sets { x, actions, .. } = &rows.sets;
    let non_zeros = actions.offsets().windows(2).map(|w| (w[1] - w[0]) as u32).collect::<Vec<_>>();
    let of_rows = offsets(rows.sets.offsets().iter().map(|&action| actions.offsets()[action as usize]))?;
    let of_x = offsets(x.offsets().iter().copied())?;
    let sizes = offsets(rows.sets.offsets().iter().copied())?;
    let mut arrays = vec![
        list(DataType::UInt32, sizes.clone(), Arc::new(UInt32Array::from(non_zeros)))?,
        list(DataType::UInt32, of_rows.clone(), Arc::new(UInt32Array::from(actions.indices().to_vec())))?,
        list(DataType::Float32, of_rows, Arc::new(Float32Array::from(actions.values().to_vec())))?,
        list(DataType::UInt32, of_x.clone(), Arc::new(UInt32Array::from(x.indices().to_vec())))?,
        list(DataType::Float32, of_x, Arc::new(Float32Array::from(x.values().to_vec())))?,
    ];
    if layout.action_ids {
        arrays.push(list(DataType::Utf8, sizes, Arc::new(StringArray::from_iter_values(&rows.action_ids)))?);
    }
    Ok(arrays)
}

/// A column with one number per action of each row's own set.
pub fn numbers_of_sets(sets: &Sets, values: Vec<f64>) -> Result<ArrayRef, ParquetError> {
    let sizes = offsets(sets.offsets().iter().copied())?;
    list(DataType::Float64, sizes, Arc::new(Float64Array::from(values)))
}

fn offsets(starts: impl Iterator<Item = u64>) -> Result<OffsetBuffer<i32>, ParquetError> {
    let starts: Result<Vec<i32>, _> = starts.map(i32::try_from).collect();
    let starts = starts.map_err(|_| ParquetError::General("a batch has too many non-zeros".into()))?;
    Ok(OffsetBuffer::new(ScalarBuffer::from(starts)))
}

fn list(item: DataType, offsets: OffsetBuffer<i32>, values: ArrayRef) -> Result<ArrayRef, ParquetError> {
    let field = Arc::new(Field::new("item", item, false));
    Ok(Arc::new(ListArray::try_new(field, offsets, values, None)?))
}

/// The lists of a column, one after the other.
struct Lists {
    /// Where each row's list starts, and the end of the last.
    offsets: Vec<u64>,
    values: ArrayRef,
}

fn lists_of(batch: &RecordBatch, name: &str) -> Option<Lists> {
    let list = batch.column_by_name(name)?.as_list_opt::<i32>()?;
    let starts = list.value_offsets();
    let (first, last) = (*starts.first()?, *starts.last()?);
    let values = list.values().slice(usize::try_from(first).ok()?, usize::try_from(last - first).ok()?);
    let offsets = starts.iter().map(|start| (start - first) as u64).collect();
    (list.null_count() == 0 && values.null_count() == 0).then_some(Lists { offsets, values })
}

impl Lists {
    fn integers(&self) -> Option<&[u32]> {
        Some(self.values.as_primitive_opt::<UInt32Type>()?.values())
    }

    fn floats(&self) -> Option<Vec<f32>> {
        Some(self.values.as_primitive_opt::<Float32Type>()?.values().to_vec())
    }
}

/// Whether the rows of a batch have sets.
pub fn has_sets(batch: &RecordBatch) -> bool {
    batch.column_by_name(ACTION_NON_ZEROS).is_some()
}

/// The feature spaces, the sets and the ids of a batch, or `None` if its columns do not fit together.
pub fn sets_of(batch: &RecordBatch) -> Option<(ActionSets, Sets, Option<Vec<String>>)> {
    let schema = batch.schema_ref();
    let spaces = schema.field_with_name(ACTION_NON_ZEROS).ok()?.metadata().get(SPACES)?;
    let spaces: ActionSets = serde_json::from_str(spaces).ok()?;
    let sizes = lists_of(batch, ACTION_NON_ZEROS)?;
    let [indices, values] = [lists_of(batch, ACTION_INDICES)?, lists_of(batch, ACTION_VALUES)?];
    let mut starts = Vec::with_capacity(sizes.values.len() + 1);
    starts.push(0u64);
    for &count in sizes.integers()? {
        starts.push(starts.last()? + u64::from(count));
    }
    let of_rows = sizes.offsets.iter().map(|&action| starts.get(action as usize).copied());
    if !of_rows.eq(indices.offsets.iter().map(|&start| Some(start))) || indices.offsets != values.offsets {
        return None;
    }
    let actions = Sparse::from_parts(starts, indices.integers()?.to_vec(), values.floats()?)?;
    let [indices, values] = [lists_of(batch, X_INDICES)?, lists_of(batch, X_VALUES)?];
    if indices.offsets != values.offsets {
        return None;
    }
    let x = Sparse::from_parts(indices.offsets.clone(), indices.integers()?.to_vec(), values.floats()?)?;
    let ids = match batch.column_by_name(ACTION_IDS) {
        Some(_) => {
            let ids = lists_of(batch, ACTION_IDS).filter(|ids| ids.offsets == sizes.offsets)?;
            let texts = ids.values.as_string_opt::<i32>()?;
            Some((0..texts.len()).map(|i| texts.value(i).to_owned()).collect())
        }
        None => None,
    };
    Some((spaces, Sets::from_parts(sizes.offsets, x, actions)?, ids))
}

/// A column with one number per action of each row's own set, or `None` if it does not fit the sets.
pub fn numbers(batch: &RecordBatch, name: &str, sets: &Sets) -> Option<Vec<f64>> {
    let lists = lists_of(batch, name).filter(|lists| lists.offsets == sets.offsets())?;
    Some(lists.values.as_primitive_opt::<Float64Type>()?.values().to_vec())
}

/// How large the set of a row is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetSize {
    /// The number of actions.
    pub actions: usize,
    /// The number of non-zeros of the request and of all actions.
    pub non_zeros: usize,
}

/// The sizes of the sets of a batch, which needs no other columns than the two that are read here.
pub fn sizes_of(batch: &RecordBatch) -> Option<Vec<SetSize>> {
    let (actions, x) = (lists_of(batch, ACTION_NON_ZEROS)?, lists_of(batch, X_INDICES)?);
    let counts = actions.integers()?;
    let size = |(actions, x): (&[u64], &[u64])| {
        let counts = counts.get(actions[0] as usize..actions[1] as usize)?;
        let of_actions: usize = counts.iter().map(|&count| count as usize).sum();
        Some(SetSize { actions: counts.len(), non_zeros: of_actions + (x[1] - x[0]) as usize })
    };
    actions.offsets.windows(2).zip(x.offsets.windows(2)).map(size).collect()
}
