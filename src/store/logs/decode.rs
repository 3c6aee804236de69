//! Decodes the batches of a Parquet part into rows.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt32Type};
use arrow_array::{Array, RecordBatch};

use super::encode::{CANDIDATE_FULL_PREFIX, CANDIDATE_PREFIX, OUTCOME_PREFIX};
use super::set_columns::{has_sets, numbers, sets_of};
use guarantor_engine::log::Sets;
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
    if has_sets(batch) {
        let (spaces, sets, ids) = sets_of(batch)?;
        (layout.sets, layout.action_ids) = (Some(spaces), ids.is_some());
        (rows.sets, rows.action_ids) = (sets, ids.unwrap_or_default());
    }
    let sets = layout.sets.map(|_| &rows.sets);
    if batch.column_by_name("propensities").is_some() {
        let (k, full) = per_action(batch, "propensities", sets)?;
        (layout.full, rows.full) = (Some(k), full);
    }
    if batch.column_by_name("context_id").is_some() {
        (layout.context_ids, rows.context_ids) = (true, texts("context_id")?);
    }
    if batch.column_by_name("event_id").is_some() {
        (layout.event_ids, rows.event_ids) = (true, texts("event_id")?);
    }
    if let Some(times) = times_of(batch) {
        (layout.timestamps, rows.timestamps) = (true, times.to_vec());
    }
    if batch.column_by_name("policy_version").is_some() {
        (layout.versions, rows.versions) = (true, texts("policy_version")?);
    }
    for field in batch.schema_ref().fields() {
        if let Some(name) = field.name().strip_prefix(CANDIDATE_PREFIX) {
            layout.candidates.push(name.into());
            rows.candidates.push(floats(field.name())?);
        } else if let Some(name) = field.name().strip_prefix(CANDIDATE_FULL_PREFIX) {
            let (k, full) = per_action(batch, field.name(), layout.sets.map(|_| &rows.sets))?;
            layout.candidate_full = Some(k);
            layout.candidate_propensities.push(name.into());
            rows.candidate_full.push(full);
        } else if let Some(name) = field.name().strip_prefix(OUTCOME_PREFIX) {
            layout.outcomes.push(name.into());
            rows.outcomes.push(floats(field.name())?);
        }
    }
    let n = rows.actions.len();
    let places = |k: Option<usize>| rows.places(&layout, k).first(n);
    let whole = rows.x.len() == n * layout.dim
        && (layout.sets.is_none() || rows.sets.rows() == n)
        && rows.full.len() == layout.full.map_or(0, |_| places(layout.full))
        && rows.candidate_full.iter().all(|column| column.len() == places(layout.candidate_full));
    whole.then_some((layout, rows))
}

/// K and the numbers of a column that has one per action. K is 0 if every row has its own actions.
fn per_action(batch: &RecordBatch, name: &str, sets: Option<&Sets>) -> Option<(usize, Vec<f64>)> {
    if let Some(sets) = sets {
        return Some((0, numbers(batch, name, sets)?));
    }
    let list = batch.column_by_name(name)?.as_fixed_size_list_opt()?;
    let values = list.values().as_primitive_opt::<Float64Type>()?.values();
    Some((list.value_length() as usize, values.to_vec()))
}

/// The values of a text column, or `None` if there is no such column.
pub fn texts_of<'a>(batch: &'a RecordBatch, name: &str) -> Option<impl Iterator<Item = &'a str>> {
    let column = batch.column_by_name(name)?.as_string_opt::<i32>()?;
    Some((0..column.len()).map(|i| column.value(i)))
}

/// The times of a batch, or `None` if rows have none.
pub fn times_of(batch: &RecordBatch) -> Option<&[i64]> {
    let column = batch.column_by_name("timestamp")?.as_primitive_opt::<Int64Type>()?;
    Some(column.values())
}
