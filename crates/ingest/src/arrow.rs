//! Arrow columns as fields of rows: what Parquet files and Arrow streams have in common.
//!
//! The bytes come from untrusted senders. A panic of the library during decoding is caught and becomes a
//! rejection, and a batch is converted a few rows at a time, whatever its size.

use std::collections::{BTreeMap, HashSet};
use std::panic::AssertUnwindSafe;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, RecordBatch, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Schema};

use crate::action_set::SetRules;
use crate::arrow_actions::Actions;
use crate::arrow_features::{Node, is_named};
use crate::arrow_outcomes::OutcomeColumns;
use crate::arrow_sets::{ActionSetColumn, request};
use crate::arrow_texts::{Texts, TooLong};
use crate::arrow_times::Times;
use crate::extra::{extra_columns, warning_of};
use crate::plain_batch;
use crate::plain_columns::PlainColumns;
use crate::row::{
    CANDIDATE_FULL_PREFIX, CANDIDATE_PREFIX, FormatError, Notes, NumberList, OUTCOME_PREFIX, RawRow,
    ReadContext, RowFault, Visit,
};
use crate::rules::wrong_id;

/// The number of rows that are converted at once.
const SLICE_ROWS: usize = 256;
/// The same for whole columns.
const COLUMN_ROWS: usize = 1024;

/// The result of `work`, or a rejection if it panics.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, FormatError> {
    std::panic::catch_unwind(AssertUnwindSafe(work))
        .map_err(|_| FormatError::Unreadable("the file is damaged: its columns contradict each other".into()))
}

/// Checks that these are the columns of a log, and returns the names of those that are ignored. The error names the
/// column and says what it must be.
pub fn check_schema(schema: &Schema, candidates_only: bool) -> Result<Vec<String>, String> {
    let mut names = HashSet::new();
    for field in schema.fields() {
        if !names.insert(field.name().as_str()) {
            return Err(format!("duplicate column {:?}", field.name()));
        }
    }
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let ignored = extra_columns(&names, candidates_only)?;
    // An empty batch passes through the type checks and nothing else.
    columns_of(&RecordBatch::new_empty(schema.clone().into()))?;
    Ok(ignored)
}

/// Visits the rows of batches that are in memory, with the checks of a stream.
pub fn read_batches(
    schema: &Schema,
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
    context: &ReadContext,
    visit: &mut Visit,
) -> Result<Notes, FormatError> {
    let ignored = guarded(|| check_schema(schema, context.candidates_only))?;
    let ignored = ignored.map_err(FormatError::Unreadable)?;
    let mut number = 0;
    for batch in batches {
        let batch = batch.map_err(|error| FormatError::Unreadable(error.to_string()))?;
        each_batch(&batch, context.sets, &mut number, visit)?;
    }
    Ok(Notes { warnings: warning_of(&ignored).into_iter().collect(), ..Notes::default() })
}

/// Visits the rows of a batch: in whole columns where that is possible and the visitor takes them. `number` is the number
/// of the previous row.
pub fn each_batch(
    batch: &RecordBatch,
    sets: SetRules,
    number: &mut u64,
    visit: &mut Visit,
) -> Result<(), FormatError> {
    for from in (0..batch.num_rows()).step_by(COLUMN_ROWS) {
        let part = batch.slice(from, COLUMN_ROWS.min(batch.num_rows() - from));
        let columns = guarded(|| plain_batch::columns(&part, *number))?;
        each_part(&part, columns, sets, number, visit)?;
    }
    Ok(())
}

/// Visits the rows of a batch, which are also in `columns` if that is possible. Returns whether the visitor has taken the
/// columns.
pub fn each_part(
    batch: &RecordBatch,
    columns: Option<PlainColumns>,
    sets: SetRules,
    number: &mut u64,
    visit: &mut Visit,
) -> Result<bool, FormatError> {
    if let Some(columns) = columns
        && visit.columns(columns).map_err(FormatError::Stopped)?
    {
        *number += batch.num_rows() as u64;
        return Ok(true);
    }
    each_row(batch, sets, number, visit).map(|()| false)
}

/// Visits the rows of a batch one by one.
pub fn each_row(
    batch: &RecordBatch,
    sets: SetRules,
    number: &mut u64,
    visit: &mut Visit,
) -> Result<(), FormatError> {
    for from in (0..batch.num_rows()).step_by(SLICE_ROWS) {
        let n = SLICE_ROWS.min(batch.num_rows() - from);
        let columns = guarded(|| columns_of(&batch.slice(from, n)))?.map_err(FormatError::Unreadable)?;
        for i in 0..n {
            *number += 1;
            visit.row(*number, columns.row(i, sets)).map_err(FormatError::Stopped)?;
        }
    }
    Ok(())
}

/// The columns of a batch.
#[derive(Default)]
struct BatchColumns {
    x: Option<Lists>,
    named: Option<Node>,
    actions: Option<ActionSetColumn>,
    action: Option<Actions>,
    propensity: Option<Numbers>,
    propensities: Option<Lists>,
    cost: Option<Numbers>,
    reward: Option<Numbers>,
    outcomes: OutcomeColumns,
    context_id: Option<Texts>,
    event_id: Option<Texts>,
    candidates: Vec<(String, Numbers)>,
    candidate_propensities: Vec<(String, Lists)>,
    timestamp: Option<Times>,
    policy_version: Option<Texts>,
}

impl BatchColumns {
    fn row(&self, i: usize, sets: SetRules) -> Result<RawRow<'_>, RowFault> {
        let mut candidates: Option<BTreeMap<String, f64>> = None;
        for (name, column) in &self.candidates {
            if let Some(value) = column.number(i) {
                candidates.get_or_insert_default().insert(name.clone(), value);
            }
        }
        let mut candidate_propensities: Option<BTreeMap<String, NumberList>> = None;
        for (name, column) in &self.candidate_propensities {
            if let Some(full) = column.list(&format!("candidate_propensities.{name}"), i)? {
                candidate_propensities.get_or_insert_default().insert(name.clone(), full);
            }
        }
        let number = |column: &Option<Numbers>| column.as_ref().and_then(|c| c.number(i));
        let text = |column: &Option<Texts>, field: &str| {
            column.as_ref().map_or(Ok(None), |c| c.text(i)).map_err(|TooLong| wrong_id(field))
        };
        Ok(RawRow {
            x: list(&self.x, "x", i)?,
            action: self.action.as_ref().map_or(Ok(None), |column| column.action(i))?,
            propensity: number(&self.propensity),
            propensities: list(&self.propensities, "propensities", i)?,
            cost: number(&self.cost),
            reward: number(&self.reward),
            outcomes: self.outcomes.row(i)?,
            context_id: text(&self.context_id, "context_id")?,
            event_id: text(&self.event_id, "event_id")?,
            candidates,
            candidate_propensities,
            timestamp: self.timestamp.as_ref().map_or(Ok(None), |column| column.time(i))?,
            policy_version: text(&self.policy_version, "policy_version")?,
            named: self.named.as_ref().map_or(Ok(None), |column| request(column, i, sets))?,
            set: self.actions.as_ref().map_or(Ok(None), |column| column.set(i, sets))?,
        })
    }
}

fn list<'a>(column: &'a Option<Lists>, field: &str, i: usize) -> Result<Option<NumberList<'a>>, RowFault> {
    column.as_ref().map_or(Ok(None), |column| column.list(field, i))
}

fn columns_of(batch: &RecordBatch) -> Result<BatchColumns, String> {
    let mut columns = BatchColumns::default();
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let name = field.name().as_str();
        match name {
            "x" if is_named(array.data_type()) => columns.named = Some(Node::of(name, array)?),
            "x" => columns.x = Some(Lists::of(name, array)?),
            "actions" => columns.actions = Some(ActionSetColumn::of(name, array)?),
            "action" => columns.action = Some(Actions::of(name, array)?),
            "propensity" => columns.propensity = Some(Numbers::of(name, array)?),
            "propensities" => columns.propensities = Some(Lists::of(name, array)?),
            "cost" => columns.cost = Some(Numbers::or_booleans(name, array)?),
            "reward" => columns.reward = Some(Numbers::or_booleans(name, array)?),
            "outcomes" => columns.outcomes.add_all(name, array)?,
            "context_id" => columns.context_id = Some(Texts::of(name, array)?),
            "event_id" => columns.event_id = Some(Texts::of(name, array)?),
            "candidates" => columns.candidates.extend(members(name, array)?),
            "candidate_propensities" => columns.candidate_propensities.extend(lists(name, array)?),
            "timestamp" => columns.timestamp = Some(Times::of(name, array)?),
            "policy_version" => columns.policy_version = Some(Texts::of(name, array)?),
            _ => match (name.strip_prefix(CANDIDATE_PREFIX), name.strip_prefix(CANDIDATE_FULL_PREFIX)) {
                (Some(candidate), _) => {
                    columns.candidates.push((candidate.into(), Numbers::of(name, array)?))
                }
                (_, Some(candidate)) => {
                    columns.candidate_propensities.push((candidate.into(), Lists::of(name, array)?));
                }
                (None, None) => {
                    // `check_schema` has reported other names.
                    if let Some(outcome) = name.strip_prefix(OUTCOME_PREFIX) {
                        columns.outcomes.add_column(name, outcome, array)?;
                    }
                }
            },
        }
    }
    if let Some(name) = columns.outcomes.duplicate() {
        return Err(format!("duplicate outcome {name:?}"));
    }
    let (mut names, mut full) = (HashSet::new(), HashSet::new());
    let twice = columns.candidates.iter().map(|(name, _)| name).find(|name| !names.insert(*name));
    let lists = columns.candidate_propensities.iter().map(|(name, _)| name);
    match twice.or(lists.into_iter().find(|name| !full.insert(*name))) {
        Some(name) => Err(format!("duplicate candidate {name:?}")),
        None => Ok(columns),
    }
}

/// The members of a struct of lists.
fn lists(name: &str, array: &ArrayRef) -> Result<Vec<(String, Lists)>, String> {
    let members: &StructArray =
        array.as_struct_opt().ok_or_else(|| wrong(name, array, "a struct of lists of floats"))?;
    let named = members.fields().iter().zip(members.columns());
    let member = |(field, values): (&arrow_schema::FieldRef, &ArrayRef)| {
        let mut lists = Lists::of(&format!("{name}.{}", field.name()), values)?;
        // The members of a null struct are also null.
        lists.nulls = NullBuffer::union(lists.nulls.as_ref(), members.nulls());
        Ok((field.name().clone(), lists))
    };
    named.map(member).collect()
}

fn members(name: &str, array: &ArrayRef) -> Result<Vec<(String, Numbers)>, String> {
    let members: &StructArray =
        array.as_struct_opt().ok_or_else(|| wrong(name, array, "a struct of floats"))?;
    let named = members.fields().iter().zip(members.columns());
    let member = |(field, values): (&arrow_schema::FieldRef, &ArrayRef)| {
        let mut numbers = Numbers::of(&format!("candidates.{}", field.name()), values)?;
        // The members of a null struct are also null.
        numbers.nulls = NullBuffer::union(numbers.nulls.as_ref(), members.nulls());
        Ok((field.name().clone(), numbers))
    };
    named.map(member).collect()
}

pub fn wrong(name: &str, array: &ArrayRef, wanted: &str) -> String {
    format!("the column {name} has the type {}; it must be {wanted}", array.data_type())
}

/// A column of floats or integers.
pub struct Numbers {
    pub values: Vec<f64>,
    pub nulls: Option<NullBuffer>,
}

impl Numbers {
    pub fn of(name: &str, array: &ArrayRef) -> Result<Self, String> {
        let values = numbers(array).ok_or_else(|| wrong(name, array, "a float or an integer"))?;
        Ok(Numbers { values, nulls: array.nulls().cloned() })
    }

    /// The same, or booleans: true is 1 and false is 0.
    pub fn or_booleans(name: &str, array: &ArrayRef) -> Result<Self, String> {
        match booleans(array) {
            Some(values) => Ok(Numbers { values, nulls: array.nulls().cloned() }),
            None => {
                let wrong = || wrong(name, array, "a float, an integer or a boolean");
                Ok(Numbers { values: numbers(array).ok_or_else(wrong)?, nulls: array.nulls().cloned() })
            }
        }
    }

    pub fn number(&self, i: usize) -> Option<f64> {
        self.values.get(i).copied().filter(|_| is_there(&self.nulls, i))
    }
}

pub struct Integers {
    pub values: Vec<i64>,
    pub nulls: Option<NullBuffer>,
}

impl Integers {
    pub fn integer(&self, i: usize) -> Option<i64> {
        self.values.get(i).copied().filter(|_| is_there(&self.nulls, i))
    }
}

pub fn is_there(nulls: &Option<NullBuffer>, i: usize) -> bool {
    nulls.as_ref().is_none_or(|nulls| i < nulls.len() && nulls.is_valid(i))
}

/// Lists of numbers: where each begins and ends among the numbers of all lists.
pub struct Lists {
    offsets: Vec<usize>,
    nulls: Option<NullBuffer>,
    values: Values,
}

/// Where the items of each list are among the items of all lists, and these items: only those that the rows of a
/// slice refer to. `None` if the column is not one of lists.
pub fn items(array: &ArrayRef) -> Option<(Vec<usize>, ArrayRef)> {
    let (offsets, values): (Vec<usize>, ArrayRef) = match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            (list.value_offsets().iter().map(|&o| o as usize).collect(), list.values().clone())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            (list.value_offsets().iter().map(|&o| o as usize).collect(), list.values().clone())
        }
        DataType::FixedSizeList(_, size) => {
            let list = array.as_fixed_size_list();
            let size = usize::try_from(*size).ok()?;
            ((0..=list.len()).map(|i| i * size).collect(), list.values().clone())
        }
        _ => return None,
    };
    let first = offsets.first().copied().unwrap_or(0);
    let last = offsets.last().copied().unwrap_or(0);
    let values = values.slice(first, last - first);
    Some((offsets.into_iter().map(|offset| offset - first).collect(), values))
}

/// The usual types are narrowed or widened only when a row is read.
enum Values {
    Single(Float32Array),
    Double(Float64Array),
    Other(Numbers),
}

impl Lists {
    pub fn of(name: &str, array: &ArrayRef) -> Result<Self, String> {
        let wrong = || wrong(name, array, "a list or fixed-size list of floats");
        let (offsets, values) = items(array).ok_or_else(wrong)?;
        let values = match values.data_type() {
            DataType::Float32 => Values::Single(values.as_primitive().clone()),
            DataType::Float64 => Values::Double(values.as_primitive().clone()),
            _ => {
                let nulls = values.nulls().cloned();
                // A feature can be a boolean. A probability cannot.
                let ones = if name == "x" || name.starts_with("actions") { booleans(&values) } else { None };
                Values::Other(Numbers { values: ones.or_else(|| numbers(&values)).ok_or_else(wrong)?, nulls })
            }
        };
        Ok(Lists { offsets, nulls: array.nulls().cloned(), values })
    }

    pub fn list(&self, field: &str, i: usize) -> Result<Option<NumberList<'_>>, RowFault> {
        let (Some(&from), Some(&to)) = (self.offsets.get(i), self.offsets.get(i + 1)) else {
            return Ok(None);
        };
        if !is_there(&self.nulls, i) {
            return Ok(None);
        }
        let nulls = match &self.values {
            Values::Single(array) => array.nulls(),
            Values::Double(array) => array.nulls(),
            Values::Other(numbers) => numbers.nulls.as_ref(),
        };
        if let Some(nulls) = nulls
            && let Some(at) = (from..to).find(|&at| nulls.is_null(at))
        {
            return Err(RowFault::new(format!("{field}[{}]", at - from), "is null"));
        }
        Ok(Some(match &self.values {
            Values::Single(array) => NumberList::Single(&array.values()[from..to]),
            Values::Double(array) => NumberList::Double(&array.values()[from..to]),
            Values::Other(numbers) => NumberList::Double(&numbers.values[from..to]),
        }))
    }
}

fn primitive<T: ArrowPrimitiveType, U>(array: &dyn Array, convert: impl Fn(T::Native) -> U) -> Vec<U> {
    array.as_primitive::<T>().values().iter().map(|&value| convert(value)).collect()
}

pub fn integers(array: &dyn Array) -> Option<Vec<i64>> {
    Some(match array.data_type() {
        DataType::Int8 => primitive::<Int8Type, _>(array, i64::from),
        DataType::Int16 => primitive::<Int16Type, _>(array, i64::from),
        DataType::Int32 => primitive::<Int32Type, _>(array, i64::from),
        DataType::Int64 => primitive::<Int64Type, _>(array, |v| v),
        DataType::UInt8 => primitive::<UInt8Type, _>(array, i64::from),
        DataType::UInt16 => primitive::<UInt16Type, _>(array, i64::from),
        DataType::UInt32 => primitive::<UInt32Type, _>(array, i64::from),
        // No valid action is beyond i64; a saturated one is rejected as out of range.
        DataType::UInt64 => primitive::<UInt64Type, _>(array, |v| i64::try_from(v).unwrap_or(i64::MAX)),
        _ => return None,
    })
}

pub fn booleans(array: &dyn Array) -> Option<Vec<f64>> {
    let values = array.as_boolean_opt()?.values();
    Some(values.iter().map(|value| f64::from(u8::from(value))).collect())
}

pub fn numbers(array: &dyn Array) -> Option<Vec<f64>> {
    Some(match array.data_type() {
        DataType::Float16 => primitive::<Float16Type, _>(array, |v| v.to_f64()),
        DataType::Float32 => primitive::<Float32Type, _>(array, f64::from),
        DataType::Float64 => primitive::<Float64Type, _>(array, |v| v),
        // Integers would saturate beyond i64.
        DataType::UInt64 => primitive::<UInt64Type, _>(array, |v| v as f64),
        _ => integers(array)?.into_iter().map(|v| v as f64).collect(),
    })
}
