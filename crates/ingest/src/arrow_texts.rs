//! Ids in Arrow columns.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use crate::arrow::{Integers, integers, wrong};
use crate::rules::MAX_ID_BYTES;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IngestLimits;
    use crate::action_set::SetRules;
    use crate::arrow::each_row;
    use crate::row::{RawRow, RowFault};
    use crate::rules::wrong_id;
    use arrow_array::{DictionaryArray, RecordBatch, StringArray};
    use std::sync::Arc;

    /// The event ids of a batch's rows.
    fn event_ids(ids: ArrayRef) -> Vec<Result<Option<String>, RowFault>> {
        let batch = RecordBatch::try_from_iter([("event_id", ids)]).unwrap();
        let mut found = Vec::new();
        let mut visit = |_, row: Result<RawRow, RowFault>| {
            found.push(row.map(|row| row.event_id));
            Ok(())
        };
        assert!(each_row(&batch, SetRules::new(&IngestLimits::default(), None), &mut 0, &mut visit).is_ok());
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
