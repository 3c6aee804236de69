//! Actions in Arrow columns.

use arrow_array::{Array, ArrayRef};

use crate::arrow::{Integers, Numbers, integers, numbers, wrong};
use crate::row::RowFault;

/// A column of actions: integers, or floats without a fraction, as which tools write integers that may be missing.
pub enum Actions {
    Integers(Integers),
    Floats(Numbers),
}

impl Actions {
    /// The actions of a column, unless it has another type.
    pub fn of(name: &str, array: &ArrayRef) -> Result<Self, String> {
        let nulls = array.nulls().cloned();
        match integers(array) {
            Some(values) => Ok(Actions::Integers(Integers { values, nulls })),
            None => {
                let wrong = || wrong(name, array, "an integer, or a float without a fraction");
                Ok(Actions::Floats(Numbers { values: numbers(array).ok_or_else(wrong)?, nulls }))
            }
        }
    }

    /// The action of a row.
    pub fn action(&self, i: usize) -> Result<Option<i64>, RowFault> {
        match self {
            Actions::Integers(integers) => Ok(integers.integer(i)),
            // No action is near the end of i64, so it does not matter that the conversion saturates.
            Actions::Floats(numbers) => match numbers.number(i) {
                Some(value) if value.fract() != 0.0 || !value.is_finite() => {
                    Err(RowFault::new("action", format!("{value} is not a whole number")))
                }
                value => Ok(value.map(|value| value as i64)),
            },
        }
    }
}
