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
use arrow_schema::{DataType, Schema};

use crate::arrow_times::Times;
use crate::row::{
    CANDIDATE_FULL_PREFIX, CANDIDATE_PREFIX, FIELDS, FormatError, NumberList, RawRow, RowFault, Visit,
};
use crate::rules::{MAX_ID_BYTES, wrong_id};

/// The number of rows that are converted at once.
const SLICE_ROWS: usize = 256;

/// The result of `work`, or a rejection if it panics.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, FormatError> {
    std::panic::catch_unwind(AssertUnwindSafe(work))
        .map_err(|_| FormatError::Unreadable("the file is damaged: its columns contradict each other".into()))
}

/// Checks that these are the columns of a log. The error names the column and says what it must be.
pub fn check_schema(schema: &Schema, candidates_only: bool) -> Result<(), String> {
    let mut names = HashSet::new();
    for field in schema.fields() {
        if !names.insert(field.name().as_str()) {
            return Err(format!("duplicate column {:?}", field.name()));
        }
    }
    if !candidates_only && !names.contains("action") {
        return Err(format!("the column action is missing; the columns are {FIELDS} and candidate.NAME"));
    }
    // An empty batch passes through the type checks and nothing else.
    columns_of(&RecordBatch::new_empty(schema.clone().into())).map(drop)
}

/// Visits the rows of a batch. `number` is the number of the previous row.
pub fn each_row(batch: &RecordBatch, number: &mut u64, visit: &mut Visit) -> Result<(), FormatError> {
    for from in (0..batch.num_rows()).step_by(SLICE_ROWS) {
        let n = SLICE_ROWS.min(batch.num_rows() - from);
        let columns = guarded(|| columns_of(&batch.slice(from, n)))?.map_err(FormatError::Unreadable)?;
        for i in 0..n {
            *number += 1;
            visit(*number, columns.row(i)).map_err(FormatError::Stopped)?;
        }
    }
    Ok(())
}

/// The columns of a batch.
#[derive(Default)]
struct BatchColumns {
    x: Option<Lists>,
    action: Option<Integers>,
    propensity: Option<Numbers>,
    propensities: Option<Lists>,
    cost: Option<Numbers>,
    reward: Option<Numbers>,
    context_id: Option<Texts>,
    event_id: Option<Texts>,
    candidates: Vec<(String, Numbers)>,
    candidate_propensities: Vec<(String, Lists)>,
    timestamp: Option<Times>,
    policy_version: Option<Texts>,
}

impl BatchColumns {
    fn row(&self, i: usize) -> Result<RawRow<'_>, RowFault> {
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
            action: self.action.as_ref().and_then(|c| c.integer(i)),
            propensity: number(&self.propensity),
            propensities: list(&self.propensities, "propensities", i)?,
            cost: number(&self.cost),
            reward: number(&self.reward),
            context_id: text(&self.context_id, "context_id")?,
            event_id: text(&self.event_id, "event_id")?,
            candidates,
            candidate_propensities,
            timestamp: self.timestamp.as_ref().map_or(Ok(None), |column| column.time(i))?,
            policy_version: text(&self.policy_version, "policy_version")?,
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
            "x" => columns.x = Some(Lists::of(name, array)?),
            "action" => columns.action = Some(Integers::of(name, array)?),
            "propensity" => columns.propensity = Some(Numbers::of(name, array)?),
            "propensities" => columns.propensities = Some(Lists::of(name, array)?),
            "cost" => columns.cost = Some(Numbers::of(name, array)?),
            "reward" => columns.reward = Some(Numbers::of(name, array)?),
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
                    return Err(format!(
                        "the column {name} is unknown; the columns are {FIELDS}, candidate.NAME and \
                         candidate_propensities.NAME"
                    ));
                }
            },
        }
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
    values: Vec<f64>,
    nulls: Option<NullBuffer>,
}

impl Numbers {
    pub fn of(name: &str, array: &ArrayRef) -> Result<Self, String> {
        let values = numbers(array).ok_or_else(|| wrong(name, array, "a float or an integer"))?;
        Ok(Numbers { values, nulls: array.nulls().cloned() })
    }

    pub fn number(&self, i: usize) -> Option<f64> {
        self.values.get(i).copied().filter(|_| is_there(&self.nulls, i))
    }
}

pub struct Integers {
    values: Vec<i64>,
    nulls: Option<NullBuffer>,
}

impl Integers {
    fn of(name: &str, array: &ArrayRef) -> Result<Self, String> {
        let values = integers(array).ok_or_else(|| wrong(name, array, "an integer"))?;
        Ok(Integers { values, nulls: array.nulls().cloned() })
    }

    fn integer(&self, i: usize) -> Option<i64> {
        self.values.get(i).copied().filter(|_| is_there(&self.nulls, i))
    }
}

fn is_there(nulls: &Option<NullBuffer>, i: usize) -> bool {
    nulls.as_ref().is_none_or(|nulls| i < nulls.len() && nulls.is_valid(i))
}

/// Ids: strings, or integers in decimal. They keep their type and become text when a row is read.
pub enum Texts {
    Plain(ArrayRef),
    /// `Integers` would make ids beyond i64 equal.
    Unsigned(ArrayRef),
    Integers(Integers),
    Dictionary(Integers, Box<Texts>),
    /// The entries of a dictionary, which may be long: each is converted when a row refers to it.
    Entries(ArrayRef),
}

/// A text that is too long for an id. It is not copied, because every row may refer to it in a dictionary.
pub struct TooLong;

impl Texts {
    pub fn of(name: &str, array: &ArrayRef) -> Result<Self, String> {
        Ok(match array.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Texts::Plain(array.clone()),
            DataType::UInt64 => Texts::Unsigned(array.clone()),
            DataType::Dictionary(_, value) if !matches!(**value, DataType::Dictionary(..)) => {
                let (keys, values) = match array.as_any_dictionary_opt() {
                    Some(dictionary) => (dictionary.keys(), dictionary.values()),
                    None => return Err(wrong(name, array, "a string or an integer")),
                };
                let nulls = keys.nulls().cloned();
                let keys = keys.slice(0, keys.len());
                let values_of =
                    integers(&keys).ok_or_else(|| wrong(name, array, "a string or an integer"))?;
                let values = match Texts::of(name, &values.slice(0, 0))? {
                    Texts::Integers(_) => Texts::Entries(values.clone()),
                    _ => Texts::of(name, values)?,
                };
                Texts::Dictionary(Integers { values: values_of, nulls }, Box::new(values))
            }
            _ => match integers(array) {
                Some(values) => Texts::Integers(Integers { values, nulls: array.nulls().cloned() }),
                None => return Err(wrong(name, array, "a string or an integer")),
            },
        })
    }

    pub fn text(&self, i: usize) -> Result<Option<String>, TooLong> {
        Ok(match self {
            Texts::Plain(array) | Texts::Unsigned(array) | Texts::Entries(array)
                if i >= array.len() || array.is_null(i) =>
            {
                None
            }
            Texts::Plain(array) => {
                let text = match array.data_type() {
                    DataType::Utf8 => array.as_string::<i32>().value(i),
                    DataType::LargeUtf8 => array.as_string::<i64>().value(i),
                    _ => array.as_string_view().value(i),
                };
                if text.len() > MAX_ID_BYTES {
                    return Err(TooLong);
                }
                Some(text.to_owned())
            }
            Texts::Unsigned(array) => Some(array.as_primitive::<UInt64Type>().value(i).to_string()),
            Texts::Integers(integers) => integers.integer(i).map(|id| id.to_string()),
            Texts::Entries(array) => {
                integers(&array.slice(i, 1)).and_then(|id| id.first().map(i64::to_string))
            }
            Texts::Dictionary(keys, values) => match keys.integer(i).map(usize::try_from) {
                Some(Ok(key)) => values.text(key)?,
                _ => None,
            },
        })
    }
}

/// Lists of numbers: where each begins and ends among the numbers of all lists.
struct Lists {
    offsets: Vec<usize>,
    nulls: Option<NullBuffer>,
    values: Values,
}

/// The usual types are narrowed or widened only when a row is read.
enum Values {
    Single(Float32Array),
    Double(Float64Array),
    Other(Numbers),
}

impl Lists {
    fn of(name: &str, array: &ArrayRef) -> Result<Self, String> {
        let wrong = || wrong(name, array, "a list or fixed-size list of floats");
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
                let size = usize::try_from(*size).map_err(|_| wrong())?;
                ((0..=list.len()).map(|i| i * size).collect(), list.values().clone())
            }
            _ => return Err(wrong()),
        };
        // Only the values that the rows of a slice refer to.
        let first = offsets.first().copied().unwrap_or(0);
        let last = offsets.last().copied().unwrap_or(0);
        let values = values.slice(first, last - first);
        let values = match values.data_type() {
            DataType::Float32 => Values::Single(values.as_primitive().clone()),
            DataType::Float64 => Values::Double(values.as_primitive().clone()),
            _ => {
                let nulls = values.nulls().cloned();
                Values::Other(Numbers { values: numbers(&values).ok_or_else(wrong)?, nulls })
            }
        };
        let offsets = offsets.into_iter().map(|offset| offset - first).collect();
        Ok(Lists { offsets, nulls: array.nulls().cloned(), values })
    }

    fn list(&self, field: &str, i: usize) -> Result<Option<NumberList<'_>>, RowFault> {
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

fn integers(array: &dyn Array) -> Option<Vec<i64>> {
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

fn numbers(array: &dyn Array) -> Option<Vec<f64>> {
    Some(match array.data_type() {
        DataType::Float16 => primitive::<Float16Type, _>(array, |v| v.to_f64()),
        DataType::Float32 => primitive::<Float32Type, _>(array, f64::from),
        DataType::Float64 => primitive::<Float64Type, _>(array, |v| v),
        // Integers would saturate beyond i64.
        DataType::UInt64 => primitive::<UInt64Type, _>(array, |v| v as f64),
        _ => integers(array)?.into_iter().map(|v| v as f64).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{DictionaryArray, StringArray};
    use std::sync::Arc;

    /// The event ids of a batch's rows.
    fn event_ids(ids: ArrayRef) -> Vec<Result<Option<String>, RowFault>> {
        let batch = RecordBatch::try_from_iter([("event_id", ids)]).unwrap();
        let mut found = Vec::new();
        let mut visit = |_, row: Result<RawRow, RowFault>| {
            found.push(row.map(|row| row.event_id));
            Ok(())
        };
        assert!(each_row(&batch, &mut 0, &mut visit).is_ok());
        found
    }

    #[test]
    fn an_id_that_is_too_long_is_rejected() {
        let long = "i".repeat(MAX_ID_BYTES + 1);
        let texts = StringArray::from(vec![Some("a"), Some(&long), None]);
        let keys = arrow_array::Int32Array::from(vec![0, 1, 2]);
        let coded = DictionaryArray::new(keys, Arc::new(texts.clone()));
        let large = arrow_array::LargeStringArray::from(vec![Some("a"), Some(&long), None]);
        let views = arrow_array::StringViewArray::from(vec![Some("a"), Some(&long), None]);
        let all: [ArrayRef; 4] = [Arc::new(texts), Arc::new(coded), Arc::new(large), Arc::new(views)];
        for ids in all {
            let expected = vec![Ok(Some("a".into())), Err(wrong_id("event_id")), Ok(None)];
            assert_eq!(event_ids(ids), expected);
        }
    }

    #[test]
    fn the_integers_of_a_dictionary_are_converted_one_by_one() {
        let entries = arrow_array::Int64Array::from(vec![Some(-7), Some(i64::MAX), None]);
        let keys = arrow_array::Int8Array::from(vec![Some(1), Some(0), None, Some(2), Some(1)]);
        let coded: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(entries)));
        let Ok(Texts::Dictionary(_, values)) = Texts::of("event_id", &coded) else { panic!("a dictionary") };
        assert!(matches!(*values, Texts::Entries(_)), "the dictionary is not converted as a whole");
        let max = Some(i64::MAX.to_string());
        let expected = [max.clone(), Some("-7".into()), None, None, max];
        assert_eq!(event_ids(coded), expected.map(Ok));
    }
}
