//! Arrow batches as whole columns, if nothing about them is unusual: plain numbers, texts and times without gaps.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use guarantor_engine::log::OutcomeKind;

use crate::arrow::{Numbers, integers, items, numbers};
use crate::arrow_features::is_named;
use crate::arrow_texts::Texts;
use crate::arrow_times::Times;
use crate::extra::is_known;
use crate::plain_columns::PlainColumns;
use crate::row::CANDIDATE_PREFIX;

/// Longer lists are not copied: a row that may have them is unusual.
const MAX_WIDTH: usize = 1 << 17;

/// The rows of a batch, of which `before` is the number of the row before the first one.
pub fn columns(batch: &RecordBatch, before: u64) -> Option<PlainColumns> {
    let mut columns = PlainColumns::default();
    let PlainColumns { layout, rows, outcome, has_propensity, .. } = &mut columns;
    let mut candidates = Vec::new();
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let name = field.name().as_str();
        match name {
            _ if !is_known(name) => continue,
            _ if array.null_count() > 0 => return None,
            "x" if !is_named(array.data_type()) => {
                let (width, values) = matrix(array)?;
                layout.dim = width;
                rows.x = features(&values)?;
            }
            "propensities" => {
                let (width, values) = matrix(array)?;
                layout.full = Some(width);
                rows.full = numbers(&values)?;
            }
            "action" => rows.actions = actions(array)?,
            "propensity" => {
                *has_propensity = true;
                rows.propensities = numbers(array)?;
            }
            "cost" | "reward" if outcome.is_none() => {
                *outcome = Some(if name == "cost" { OutcomeKind::Cost } else { OutcomeKind::Reward });
                rows.costs = Numbers::or_booleans(name, array).ok()?.values;
            }
            "event_id" => (layout.event_ids, rows.event_ids) = (true, texts(name, array)?),
            "policy_version" => (layout.versions, rows.versions) = (true, texts(name, array)?),
            "timestamp" => (layout.timestamps, rows.timestamps) = (true, times(name, array)?),
            _ => candidates.push((name.strip_prefix(CANDIDATE_PREFIX)?.to_owned(), numbers(array)?)),
        }
    }
    let n = batch.num_rows();
    if rows.actions.len() != n || outcome.is_none() {
        return None;
    }
    candidates.sort_by(|(one, _): &(String, Vec<f64>), (other, _)| one.cmp(other));
    (layout.candidates, rows.candidates) = candidates.into_iter().unzip();
    columns.numbers = (before + 1..).take(n).collect();
    Some(columns)
}

/// The length of the lists, if it is one, and all of their items.
fn matrix(array: &ArrayRef) -> Option<(usize, ArrayRef)> {
    let (offsets, values) = items(array)?;
    let width = offsets.get(1)? - offsets.first()?;
    let even = width <= MAX_WIDTH && offsets.windows(2).all(|pair| pair[1] - pair[0] == width);
    (even && values.null_count() == 0).then_some((width, values))
}

/// `+ 0.0` turns −0 into 0: they are the same number and must have the same representation.
fn features(values: &ArrayRef) -> Option<Vec<f32>> {
    Some(match values.data_type() {
        DataType::Float32 => values.as_primitive::<Float32Type>().values().iter().map(|x| x + 0.0).collect(),
        DataType::Float64 => {
            values.as_primitive::<Float64Type>().values().iter().map(|&x| x as f32 + 0.0).collect()
        }
        _ => return None,
    })
}

fn actions(array: &ArrayRef) -> Option<Vec<u32>> {
    integers(array)?.into_iter().map(|action| u32::try_from(action).ok()).collect()
}

fn texts(name: &str, array: &ArrayRef) -> Option<Vec<String>> {
    let texts = Texts::of(name, array).ok()?;
    (0..array.len()).map(|i| texts.text(i).ok().flatten()).collect()
}

fn times(name: &str, array: &ArrayRef) -> Option<Vec<i64>> {
    let times = Times::of(name, array).ok()?;
    (0..array.len()).map(|i| times.time(i).ok().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{FixedSizeListArray, Float32Array, Float64Array, Int64Array};
    use arrow_schema::Field;
    use std::sync::Arc;

    fn batch(actions: Vec<Option<i64>>) -> RecordBatch {
        let n = actions.len();
        let x: ArrayRef = Arc::new(Float32Array::from_iter_values((0..2 * n).map(|i| i as f32)));
        let field = Arc::new(Field::new("item", DataType::Float32, false));
        let costs: ArrayRef = Arc::new(Float64Array::from(vec![-0.5; n]));
        RecordBatch::try_from_iter([
            ("x", Arc::new(FixedSizeListArray::new(field, 2, x, None)) as ArrayRef),
            ("action", Arc::new(Int64Array::from(actions))),
            ("cost", costs.clone()),
            ("propensity", costs),
            ("other", Arc::new(Float64Array::new_null(n))),
        ])
        .unwrap()
    }

    #[test]
    fn a_slice_of_a_plain_batch_becomes_columns() {
        let found = columns(&batch(vec![Some(0), Some(3), Some(1)]).slice(1, 2), 7).unwrap();
        assert_eq!((found.numbers, found.rows.actions), (vec![8, 9], vec![3, 1]));
        assert_eq!((found.layout.dim, found.rows.x), (2, vec![2.0, 3.0, 4.0, 5.0]));
        assert_eq!((found.rows.costs, found.outcome), (vec![-0.5; 2], Some(OutcomeKind::Cost)));
    }

    #[test]
    fn gaps_and_actions_out_of_range_are_left_to_the_reader_of_rows() {
        for action in [None, Some(-1), Some(1 << 32)] {
            assert!(columns(&batch(vec![Some(0), action]), 0).is_none(), "{action:?}");
        }
        assert!(columns(&batch(vec![Some(0)]).project(&[0, 1, 3]).unwrap(), 0).is_none());
    }
}
