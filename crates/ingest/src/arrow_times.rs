//! Times in Arrow columns: timestamps of any unit, numbers, and texts.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};

use crate::arrow::{Numbers, wrong};
use crate::arrow_texts::{Texts, TooLong};
use crate::row::RowFault;
use crate::time::{self, Micros};

/// A column of times. A timestamp without a time zone is UTC.
pub enum Times {
    /// Timestamps, and how many units a second has.
    Units(ArrayRef, i64),
    Numbers(Numbers),
    Texts(Texts),
}

impl Times {
    /// The times of a column, unless it has another type.
    pub fn of(name: &str, array: &ArrayRef) -> Result<Self, String> {
        Ok(match array.data_type() {
            DataType::Timestamp(unit, _) => Times::Units(
                array.clone(),
                match unit {
                    TimeUnit::Second => 1,
                    TimeUnit::Millisecond => 1_000,
                    TimeUnit::Microsecond => 1_000_000,
                    TimeUnit::Nanosecond => 1_000_000_000,
                },
            ),
            kind if kind.is_numeric() => Times::Numbers(Numbers::of(name, array)?),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..) => {
                Times::Texts(Texts::of(name, array)?)
            }
            _ => return Err(wrong(name, array, "a timestamp, a string or a number")),
        })
    }

    /// The time of a row.
    pub fn time(&self, i: usize) -> Result<Option<Micros>, RowFault> {
        let fault = |message: String| RowFault::new("timestamp", message);
        match self {
            Times::Units(array, _) if i >= array.len() || array.is_null(i) => Ok(None),
            Times::Units(array, per_second) => {
                let value = match per_second {
                    1 => array.as_primitive::<TimestampSecondType>().value(i),
                    1_000 => array.as_primitive::<TimestampMillisecondType>().value(i),
                    1_000_000 => array.as_primitive::<TimestampMicrosecondType>().value(i),
                    _ => array.as_primitive::<TimestampNanosecondType>().value(i),
                };
                let time = time::of_units(value, *per_second);
                time.map(Some).ok_or_else(|| fault("is not in the years 1 to 9999".into()))
            }
            Times::Numbers(numbers) => numbers.number(i).map(time::of_number).transpose().map_err(fault),
            Times::Texts(texts) => match texts.text(i) {
                Ok(text) => text.map(|text| time::of_text(&text)).transpose().map_err(fault),
                Err(TooLong) => Err(fault("is not a time as RFC 3339 text".into())),
            },
        }
    }
}
