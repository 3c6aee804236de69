//! Decodes the batches of a Parquet part into rows, and rows into the engine's columns.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, UInt32Type};
use arrow_array::{Array, RecordBatch};

use super::encode::CANDIDATE_PREFIX;
use crate::store::records::Dataset;
use guarantor_engine::log::Columns;
use guarantor_ingest::{LogLayout, LogRows};

/// The rows of a batch, or `None` if its columns are not those that `encode` writes.
pub fn rows_of(batch: &RecordBatch) -> Option<(LogLayout, LogRows)> {
    let floats =
        |name: &str| Some(batch.column_by_name(name)?.as_primitive_opt::<Float64Type>()?.values().to_vec());
    let texts = |name: &str| Some(texts_of(batch, name)?.map(String::from).collect());
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

/// The values of a text column, or `None` if there is no such column.
pub fn texts_of<'a>(batch: &'a RecordBatch, name: &str) -> Option<impl Iterator<Item = &'a str>> {
    let column = batch.column_by_name(name)?.as_string_opt::<i32>()?;
    Some((0..column.len()).map(|i| column.value(i)))
}

/// A batch as the engine's columns, without its context ids.
pub fn columns_of(dataset: &Dataset, layout: &LogLayout, rows: LogRows) -> Columns {
    Columns {
        n_actions: dataset.content.n_actions,
        dim: layout.dim,
        x: rows.x,
        actions: rows.actions,
        costs: rows.costs,
        propensities: rows.propensities,
        full: layout.full.map(|_| rows.full),
        contexts: None,
        candidates: layout.candidates.iter().cloned().zip(rows.candidates).collect(),
        outcome: dataset.content.outcome,
    }
}
