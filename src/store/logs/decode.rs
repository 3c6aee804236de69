//! Batches of a Parquet part → rows, and rows → the engine's columns.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, UInt32Type};
use arrow_array::{Array, RecordBatch};

use super::encode::CANDIDATE_PREFIX;
use super::marks::{Marks, mark};
use super::{LogLayout, LogRows};
use crate::engine::log::Columns;
use crate::store::records::Dataset;

/// None where the columns are not those that `encode` writes.
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

pub fn texts_of<'a>(batch: &'a RecordBatch, name: &str) -> Option<impl Iterator<Item = &'a str>> {
    let column = batch.column_by_name(name)?.as_string_opt::<i32>()?;
    Some((0..column.len()).map(|i| column.value(i)))
}

/// A batch as the engine's columns, without its contexts.
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

/// Collects batches into the engine's columns.
pub struct ColumnsBuilder {
    columns: Columns,
    contexts: Marks,
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
        ColumnsBuilder { columns, contexts: Marks::default() }
    }

    /// All batches have one layout.
    pub fn append(&mut self, layout: &LogLayout, rows: LogRows) {
        let columns = &mut self.columns;
        if columns.actions.is_empty() {
            columns.full = layout.full.map(|_| Vec::new());
            columns.contexts = layout.context_ids.then(Vec::new);
            columns.candidates = layout.candidates.iter().map(|name| (name.clone(), Vec::new())).collect();
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
            contexts.extend(rows.context_ids.iter().map(|id| self.contexts.place(mark(id)).0 as u64));
        }
    }

    pub fn finish(self) -> Columns {
        self.columns
    }
}
