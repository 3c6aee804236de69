//! Parquet parts → the engine's columns.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, UInt32Type};
use arrow_array::{Array, RecordBatch};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::encode::CANDIDATE_PREFIX;
use super::{LogDigest, LogLayout, LogRows};
use crate::engine::log::Columns;
use crate::store::error::{Result, StoreError};
use crate::store::records::Dataset;

const BATCH_ROWS: usize = 8192;

pub enum PartError {
    Unreadable(String),
    Visitor(StoreError),
}

pub fn each_batch(
    bytes: Bytes,
    visit: &mut impl FnMut(&LogLayout, LogRows) -> Result<()>,
) -> Result<(), PartError> {
    let unreadable = |why: String| PartError::Unreadable(why);
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes).map_err(|e| unreadable(e.to_string()))?;
    let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(|e| unreadable(e.to_string()))?;
    for batch in reader {
        let batch = batch.map_err(|e| unreadable(e.to_string()))?;
        let (layout, rows) =
            rows_of(&batch).ok_or_else(|| unreadable("its columns are not a log's".into()))?;
        visit(&layout, rows).map_err(PartError::Visitor)?;
    }
    Ok(())
}

/// None where the columns are not those that `encode` writes.
fn rows_of(batch: &RecordBatch) -> Option<(LogLayout, LogRows)> {
    let floats =
        |name: &str| Some(batch.column_by_name(name)?.as_primitive_opt::<Float64Type>()?.values().to_vec());
    let texts = |name: &str| -> Option<Vec<String>> {
        let column = batch.column_by_name(name)?.as_string_opt::<i32>()?;
        Some((0..column.len()).map(|i| column.value(i).to_string()).collect())
    };
    let (mut layout, mut rows) = (LogLayout::default(), LogRows::default());
    rows.actions = batch.column_by_name("action")?.as_primitive_opt::<UInt32Type>()?.values().to_vec();
    rows.costs = floats("cost")?;
    rows.propensities = floats("propensity")?;
    if let Some(column) = batch.column_by_name("x") {
        let list = column.as_fixed_size_list_opt()?;
        layout.dim = list.value_length() as usize;
        rows.x = list.values().as_primitive_opt::<Float32Type>()?.values().to_vec();
    }
    if let Some(column) = batch.column_by_name("propensities") {
        let list = column.as_fixed_size_list_opt()?;
        layout.full = Some(list.value_length() as usize);
        rows.full = list.values().as_primitive_opt::<Float64Type>()?.values().to_vec();
    }
    if batch.column_by_name("context_id").is_some() {
        (layout.context_ids, rows.context_ids) = (true, texts("context_id")?);
    }
    if batch.column_by_name("event_id").is_some() {
        (layout.event_ids, rows.event_ids) = (true, texts("event_id")?);
    }
    for field in batch.schema_ref().fields() {
        if let Some(name) = field.name().strip_prefix(CANDIDATE_PREFIX) {
            layout.candidates.push(name.into());
            rows.candidates.push(floats(field.name())?);
        }
    }
    let n = rows.actions.len();
    let whole = rows.x.len() == n * layout.dim && rows.full.len() == n * layout.full.unwrap_or(0);
    whole.then_some((layout, rows))
}

/// Collects batches into the engine's columns and their digest.
pub struct ColumnsBuilder {
    columns: Columns,
    digest: LogDigest,
    layout: Option<LogLayout>,
    contexts: HashMap<String, u64>,
}

impl ColumnsBuilder {
    pub fn new(dataset: &Dataset) -> Self {
        let content = &dataset.content;
        let rows = usize::try_from(content.rows).unwrap_or(0);
        let columns = Columns {
            n_actions: content.n_actions,
            dim: content.dim,
            x: Vec::with_capacity(rows.saturating_mul(content.dim)),
            outcome: content.outcome,
            ..Columns::default()
        };
        ColumnsBuilder { columns, digest: LogDigest::default(), layout: None, contexts: HashMap::new() }
    }

    pub fn append(&mut self, layout: &LogLayout, rows: LogRows) -> Result<()> {
        self.digest.update(layout, &rows);
        let columns = &mut self.columns;
        if self.layout.is_none() {
            columns.full = layout.full.map(|_| Vec::new());
            columns.contexts = layout.context_ids.then(Vec::new);
            columns.candidates = layout.candidates.iter().map(|name| (name.clone(), Vec::new())).collect();
            self.layout = Some(layout.clone());
        } else if self.layout.as_ref() != Some(layout) {
            return Err(StoreError::Damaged("a log's parts have different columns".into()));
        }
        columns.x.extend(rows.x);
        columns.actions.extend(rows.actions);
        columns.costs.extend(rows.costs);
        columns.propensities.extend(rows.propensities);
        if let Some(full) = &mut columns.full {
            full.extend(rows.full);
        }
        for ((_, to), from) in columns.candidates.iter_mut().zip(rows.candidates) {
            to.extend(from);
        }
        if let Some(contexts) = &mut columns.contexts {
            for id in rows.context_ids {
                let next = self.contexts.len() as u64;
                contexts.push(*self.contexts.entry(id).or_insert(next));
            }
        }
        Ok(())
    }

    pub fn finish(self, dataset: &Dataset) -> Result<Columns> {
        let layout = self.layout.unwrap_or_default();
        let digest = self.digest.finish(&layout, dataset.content.n_actions, &dataset.content.outcome);
        if digest != dataset.content.digest {
            let message = format!("its rows have the digest {digest}, not {}", dataset.content.digest);
            return Err(StoreError::damaged(format!("the dataset {}", dataset.id), message));
        }
        Ok(self.columns)
    }
}
