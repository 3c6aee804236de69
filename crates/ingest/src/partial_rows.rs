//! Rows of partitions, column by column. A batch of plain numbers without gaps is checked and converted in whole columns,
//! many times faster than row by row; its rows are the same. Anything else (ids, texts, missing values, a number out of
//! its range) is left to the reader of rows, which knows what it means and names what is wrong.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use guarantor_engine::log::{Logging, OutcomeKind, check_distribution, disagrees};

use crate::arrow::{Numbers, integers, items, numbers};
use crate::arrow_features::is_named;
use crate::arrow_times::Times;
use crate::batch::{LogLayout, LogRows};
use crate::extra::is_known;
use crate::row::CANDIDATE_PREFIX;
use crate::rules::Rules;

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
            "propensity" => propensity = Some(numbers(array)?),
            "cost" | "reward" if name == wanted => {
                outcome = Some(Numbers::or_booleans(name, array).ok()?.values)
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
                rows.full = numbers(&values)?;
            }
            _ => {
                let candidate = name.strip_prefix(CANDIDATE_PREFIX)?;
                let played = numbers(array)?;
                if candidate.is_empty() || !played.iter().all(|p| (0.0..=1.0).contains(p)) {
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

fn actions(array: &ArrayRef, k: usize) -> Option<Vec<u32>> {
    let all = integers(array)?;
    let valid = all.iter().all(|&action| action >= 0 && (action as u64) < k as u64);
    valid.then(|| all.into_iter().map(|action| action as u32).collect())
}

fn times(name: &str, array: &ArrayRef) -> Option<Vec<i64>> {
    let times = Times::of(name, array).ok()?;
    (0..array.len()).map(|i| times.time(i).ok().flatten()).collect()
}

/// The length of the lists, if it is one, and all of their items.
fn matrix(array: &ArrayRef) -> Option<(usize, ArrayRef)> {
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
    narrow.iter().all(|x| x.is_finite()).then_some(narrow)
}

fn costs(outcome: Vec<f64>, rules: &Rules) -> Option<Vec<f64>> {
    let cost = |value: f64| {
        let counts = if value.is_finite() { rules.outcome.cut(value) } else { value };
        rules.outcome.contains(counts).then(|| rules.outcome.to_cost(counts))
    };
    outcome.into_iter().map(cost).collect()
}

/// The propensity of each logged action: as it was logged, or from π0(·|x), with which it must agree.
fn propensities(logged: Option<Vec<f64>>, rows: &LogRows, full: Option<usize>) -> Option<Vec<f64>> {
    let Some(k) = full else {
        return logged.filter(|logged| logged.iter().all(|&p| p > 0.0 && p <= 1.0));
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
