//! Rows of partitions, column by column. A batch of plain numbers without gaps is checked and converted in whole columns,
//! many times faster than row by row; its rows are the same. Anything else (ids, texts, missing values, a number out of
//! its range) is left to the reader of rows, which knows what it means and names what is wrong.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use guarantor_engine::log::{Logging, OutcomeKind, check_distribution, disagrees};

use crate::arrow::{booleans, integers, items, numbers};
use crate::arrow_features::is_named;
use crate::arrow_times::Times;
use crate::batch::{LogLayout, LogRows};
use crate::extra::is_known;
use crate::row::CANDIDATE_PREFIX;
use crate::rules::Rules;
use crate::time;

/// A unit of time: how many of them a second has.
const MICROS: i64 = 1_000_000;

/// The rows of a batch, if all of its columns are plain.
pub fn plain_rows(batch: &RecordBatch, rules: &Rules) -> Option<(LogLayout, LogRows)> {
    let k = rules.known_actions(None)?;
    let (mut layout, mut rows) = (LogLayout::default(), LogRows::default());
    let (mut propensity, mut outcome, mut candidates) = (None, None, Vec::new());
    let wanted = match rules.outcome.kind {
        OutcomeKind::Cost => "cost",
        OutcomeKind::Reward => "reward",
    };
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let name = field.name().as_str();
        match name {
            // The order of versions matters to logs that one policy wrote, and to no sum.
            "policy_version" if rules.options.logging == Logging::Adaptive => continue,
            _ if !is_known(name) => continue,
            _ if array.null_count() > 0 => return None,
            "action" => rows.actions = actions(array, k)?,
            "propensity" => propensity = Some(doubles(array)?),
            "cost" | "reward" if name == wanted => {
                outcome = Some(booleans(array).or_else(|| doubles(array))?);
            }
            "timestamp" => {
                rows.timestamps = times(name, array)?;
                layout.timestamps = true;
            }
            "x" if !is_named(array.data_type()) => {
                let (width, values) = matrix(array)?;
                layout.dim = width;
                rows.x = features(&values)?;
            }
            "propensities" => {
                let (width, values) = matrix(array)?;
                layout.full = Some(width).filter(|width| *width == k)?.into();
                rows.full = doubles(&values)?;
            }
            _ => {
                let candidate = name.strip_prefix(CANDIDATE_PREFIX)?;
                let played = doubles(array)?;
                if candidate.is_empty() || !every(&played, |p| (0.0..=1.0).contains(p)) {
                    return None;
                }
                candidates.push((candidate.to_owned(), played));
            }
        }
    }
    if rows.actions.len() != batch.num_rows() || layout.dim > rules.limits.dim {
        return None;
    }
    rows.costs = costs(outcome?, rules)?;
    rows.propensities = propensities(propensity, &rows, layout.full)?;
    candidates.sort_by(|(one, _): &(String, Vec<f64>), (other, _)| one.cmp(other));
    (layout.candidates, rows.candidates) = candidates.into_iter().unzip();
    Some((layout, rows))
}

fn doubles(array: &ArrayRef) -> Option<Vec<f64>> {
    match array.data_type() {
        DataType::Float64 => Some(array.as_primitive::<Float64Type>().values().to_vec()),
        _ => numbers(array),
    }
}

fn actions(array: &ArrayRef, k: usize) -> Option<Vec<u32>> {
    let actions: Vec<u32> = match array.data_type() {
        // Negative numbers become numbers beyond all actions.
        DataType::Int32 => array.as_primitive::<Int32Type>().values().iter().map(|&a| a as u32).collect(),
        _ => integers(array)?.into_iter().map(|a| u32::try_from(a).unwrap_or(u32::MAX)).collect(),
    };
    let k = u32::try_from(k).unwrap_or(u32::MAX).min(i32::MAX as u32);
    every(&actions, |&action| action < k).then_some(actions)
}

fn times(name: &str, array: &ArrayRef) -> Option<Vec<i64>> {
    match Times::of(name, array).ok()? {
        Times::Units(array, MICROS) => {
            let times = array.as_primitive::<TimestampMicrosecondType>().values();
            every(times, |&time| time::of_units(time, MICROS).is_some()).then(|| times.to_vec())
        }
        times => (0..array.len()).map(|i| times.time(i).ok().flatten()).collect(),
    }
}

/// Whether all values are as they should be, without a branch for each.
fn every<T>(values: &[T], holds: impl Fn(&T) -> bool) -> bool {
    values.iter().fold(true, |so_far, value| so_far & holds(value))
}

/// The length of the lists, if it is one, and all of their items.
fn matrix(array: &ArrayRef) -> Option<(usize, ArrayRef)> {
    if let DataType::FixedSizeList(_, width) = array.data_type() {
        let (width, values) = (usize::try_from(*width).ok()?, array.as_fixed_size_list().values());
        let values = values.slice(0, width * array.len());
        return (width > 0 && values.null_count() == 0).then_some((width, values));
    }
    let (offsets, values) = items(array)?;
    let width = offsets.get(1)? - offsets.first()?;
    let even = offsets.windows(2).all(|pair| pair[1] - pair[0] == width);
    (even && width > 0 && values.null_count() == 0).then_some((width, values))
}

fn features(values: &ArrayRef) -> Option<Vec<f32>> {
    let narrow: Vec<f32> = match values.data_type() {
        DataType::Float32 => values.as_primitive::<Float32Type>().values().to_vec(),
        DataType::Float64 => {
            values.as_primitive::<Float64Type>().values().iter().map(|&x| x as f32).collect()
        }
        _ => return None,
    };
    every(&narrow, |x| x.is_finite()).then_some(narrow)
}

fn costs(mut values: Vec<f64>, rules: &Rules) -> Option<Vec<f64>> {
    let outcome = rules.outcome;
    if !every(&values, |value| value.is_finite()) {
        return None;
    }
    if outcome.cap.is_some() || outcome.floor.is_some() {
        values.iter_mut().for_each(|value| *value = outcome.cut(*value));
    }
    if !every(&values, |&value| outcome.contains(value)) {
        return None;
    }
    values.iter_mut().for_each(|value| *value = outcome.to_cost(*value));
    Some(values)
}

/// The propensity of each logged action: as it was logged, or from π0(·|x), with which it must agree.
fn propensities(logged: Option<Vec<f64>>, rows: &LogRows, full: Option<usize>) -> Option<Vec<f64>> {
    let Some(k) = full else {
        return logged.filter(|logged| every(logged, |&p| (p > 0.0) & (p <= 1.0)));
    };
    let mut all = Vec::with_capacity(rows.actions.len());
    for (i, (full, &action)) in rows.full.chunks_exact(k).zip(&rows.actions).enumerate() {
        check_distribution(full).ok()?;
        let given = *full.get(action as usize)?;
        let value = match &logged {
            Some(logged) if disagrees(logged[i], given) => return None,
            Some(logged) => logged[i],
            None => given.min(1.0),
        };
        all.push(Some(value).filter(|&p| p > 0.0 && p <= 1.0)?);
    }
    Some(all)
}
