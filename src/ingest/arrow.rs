//! Arrow columns as rows' fields: what Parquet files, and Arrow streams, have in common.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

use super::row::{FIELDS, Fault};

const CANDIDATE_PREFIX: &str = "candidate.";

/// The fields of rows that a batch has.
#[derive(Default)]
pub struct Columns {
    pub x: Option<Lists>,
    pub action: Option<Integers>,
    pub propensity: Option<Numbers>,
    pub propensities: Option<Lists>,
    pub cost: Option<Numbers>,
    pub reward: Option<Numbers>,
    pub context_id: Option<Texts>,
    pub event_id: Option<Texts>,
    pub candidates: Vec<(String, Numbers)>,
}

/// The error names the column and says which types it may have.
pub fn columns_of(batch: &RecordBatch) -> Result<Columns, String> {
    let mut columns = Columns::default();
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
            _ => match name.strip_prefix(CANDIDATE_PREFIX) {
                Some(candidate) => {
                    columns.candidates.push((candidate.into(), Numbers::of(name, array)?));
                }
                None => {
                    return Err(format!(
                        "the column {name} is not a field of a row; those are {FIELDS} and candidate.NAME"
                    ));
                }
            },
        }
    }
    Ok(columns)
}

fn members(name: &str, array: &ArrayRef) -> Result<Vec<(String, Numbers)>, String> {
    let members = array.as_struct_opt().ok_or_else(|| wrong(name, array, "a struct of floats"))?;
    let named = members.fields().iter().zip(members.columns());
    named.map(|(field, values)| Ok((field.name().clone(), Numbers::of(field.name(), values)?))).collect()
}

fn wrong(name: &str, array: &ArrayRef, wanted: &str) -> String {
    format!("the column {name} has the type {}; it must be {wanted}", array.data_type())
}

/// Floats and integers alike.
pub struct Numbers(Vec<Option<f64>>);

impl Numbers {
    fn of(name: &str, array: &ArrayRef) -> Result<Self, String> {
        numbers(array).map(Numbers).ok_or_else(|| wrong(name, array, "a float or an integer"))
    }

    pub fn number(&self, i: usize) -> Option<f64> {
        self.0.get(i).copied().flatten()
    }
}

pub struct Integers(Vec<Option<i64>>);

impl Integers {
    fn of(name: &str, array: &ArrayRef) -> Result<Self, String> {
        integers(array).map(Integers).ok_or_else(|| wrong(name, array, "an integer"))
    }

    pub fn integer(&self, i: usize) -> Option<i64> {
        self.0.get(i).copied().flatten()
    }
}

pub struct Texts(Vec<Option<String>>);

impl Texts {
    fn of(name: &str, array: &ArrayRef) -> Result<Self, String> {
        let texts = match array.data_type() {
            DataType::Utf8 => Some(array.as_string::<i32>().iter().map(|t| t.map(String::from)).collect()),
            DataType::LargeUtf8 => {
                Some(array.as_string::<i64>().iter().map(|t| t.map(String::from)).collect())
            }
            DataType::Utf8View => Some(array.as_string_view().iter().map(|t| t.map(String::from)).collect()),
            // Beyond i64, where `integers` would make different ids one.
            DataType::UInt64 => Some(primitive::<UInt64Type, _>(array, |v| Some(v.to_string()))),
            _ => integers(array).map(|all| all.into_iter().map(|v| v.map(|v| v.to_string())).collect()),
        };
        texts.map(Texts).ok_or_else(|| wrong(name, array, "a text or an integer"))
    }

    pub fn text(&self, i: usize) -> Option<String> {
        self.0.get(i).cloned().flatten()
    }
}

/// Lists of numbers: where each begins and ends in the numbers of them all.
pub struct Lists {
    bounds: Vec<Option<(usize, usize)>>,
    values: Vec<Option<f64>>,
}

impl Lists {
    fn of(name: &str, array: &ArrayRef) -> Result<Self, String> {
        let wrong = || wrong(name, array, "a list or fixed-size list of floats");
        let (bounds, values): (Vec<(usize, usize)>, ArrayRef) = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (pairs(list.value_offsets().iter().map(|&o| o as usize)), list.values().clone())
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (pairs(list.value_offsets().iter().map(|&o| o as usize)), list.values().clone())
            }
            DataType::FixedSizeList(_, size) => {
                let list = array.as_fixed_size_list();
                let (size, n) = (*size as usize, list.len());
                (pairs((0..=n).map(|i| i * size)), list.values().clone())
            }
            _ => return Err(wrong()),
        };
        let bounds = bounds.into_iter().enumerate().map(|(i, b)| array.is_valid(i).then_some(b)).collect();
        Ok(Lists { bounds, values: numbers(&values).ok_or_else(wrong)? })
    }

    pub fn list(&self, field: &str, i: usize) -> Result<Option<Vec<f64>>, Fault> {
        let Some((from, to)) = self.bounds.get(i).copied().flatten() else { return Ok(None) };
        let values = self.values.get(from..to).unwrap_or_default().iter().enumerate();
        let values = values.map(|(j, v)| v.ok_or_else(|| Fault::new(format!("{field}[{j}]"), "is null")));
        values.collect::<Result<_, _>>().map(Some)
    }
}

fn pairs(offsets: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
    let offsets: Vec<usize> = offsets.collect();
    offsets.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

fn primitive<T: ArrowPrimitiveType, U>(
    array: &ArrayRef,
    convert: impl Fn(T::Native) -> Option<U>,
) -> Vec<Option<U>> {
    array.as_primitive::<T>().iter().map(|value| value.and_then(&convert)).collect()
}

fn integers(array: &ArrayRef) -> Option<Vec<Option<i64>>> {
    Some(match array.data_type() {
        DataType::Int8 => primitive::<Int8Type, _>(array, |v| Some(v.into())),
        DataType::Int16 => primitive::<Int16Type, _>(array, |v| Some(v.into())),
        DataType::Int32 => primitive::<Int32Type, _>(array, |v| Some(v.into())),
        DataType::Int64 => primitive::<Int64Type, _>(array, Some),
        DataType::UInt8 => primitive::<UInt8Type, _>(array, |v| Some(v.into())),
        DataType::UInt16 => primitive::<UInt16Type, _>(array, |v| Some(v.into())),
        DataType::UInt32 => primitive::<UInt32Type, _>(array, |v| Some(v.into())),
        // No action is beyond i64; saturated, it is refused as out of range.
        DataType::UInt64 => primitive::<UInt64Type, _>(array, |v| Some(i64::try_from(v).unwrap_or(i64::MAX))),
        _ => return None,
    })
}

fn numbers(array: &ArrayRef) -> Option<Vec<Option<f64>>> {
    match array.data_type() {
        DataType::Float32 => Some(primitive::<Float32Type, _>(array, |v| Some(v.into()))),
        DataType::Float64 => Some(primitive::<Float64Type, _>(array, Some)),
        _ => Some(integers(array)?.into_iter().map(|v| v.map(|v| v as f64)).collect()),
    }
}
