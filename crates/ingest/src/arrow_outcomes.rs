//! Named outcomes in Arrow columns: a column for each, or one column of structs or maps.

use std::collections::{BTreeMap, HashSet};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use crate::arrow::{Numbers, is_there, wrong};
use crate::arrow_features::{TextColumn, range};
use crate::row::RowFault;

/// The columns with named outcomes of a batch.
#[derive(Default)]
pub struct OutcomeColumns {
    named: Vec<(String, Numbers)>,
    map: Option<OutcomeMap>,
}

/// A column of maps.
struct OutcomeMap {
    offsets: Vec<usize>,
    names: TextColumn,
    values: Numbers,
    nulls: Option<NullBuffer>,
}

const WANTED: &str = "a struct or a map of floats, integers or booleans";

impl OutcomeColumns {
    /// Adds the column of the outcome `name`, which the file calls `column`.
    pub fn add_column(&mut self, column: &str, name: &str, array: &ArrayRef) -> Result<(), String> {
        self.named.push((name.into(), Numbers::or_booleans(column, array)?));
        Ok(())
    }

    /// Adds the column `outcomes`.
    pub fn add_all(&mut self, column: &str, array: &ArrayRef) -> Result<(), String> {
        match array.data_type() {
            DataType::Struct(_) => {
                let members = array.as_struct();
                for (field, values) in members.fields().iter().zip(members.columns()) {
                    let mut numbers = Numbers::or_booleans(&format!("{column}.{}", field.name()), values)?;
                    // The members of a null struct are also null.
                    numbers.nulls = NullBuffer::union(numbers.nulls.as_ref(), members.nulls());
                    self.named.push((field.name().clone(), numbers));
                }
                Ok(())
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let offsets: Vec<usize> = map.value_offsets().iter().map(|&offset| offset as usize).collect();
                let first = offsets.first().copied().unwrap_or(0);
                let n = offsets.last().copied().unwrap_or(0) - first;
                let names = TextColumn::of(&map.keys().slice(first, n))
                    .ok_or_else(|| wrong(column, array, WANTED))?;
                let values = map.values().slice(first, n);
                let values =
                    Numbers::or_booleans(column, &values).map_err(|_| wrong(column, array, WANTED))?;
                let offsets = offsets.into_iter().map(|offset| offset - first).collect();
                self.map = Some(OutcomeMap { offsets, names, values, nulls: array.nulls().cloned() });
                Ok(())
            }
            _ => Err(wrong(column, array, WANTED)),
        }
    }

    /// The name of an outcome that has two columns.
    pub fn duplicate(&self) -> Option<&str> {
        let mut names = HashSet::new();
        self.named.iter().map(|(name, _)| name.as_str()).find(|name| !names.insert(*name))
    }

    /// The outcomes of a row, without those that are null.
    pub fn row(&self, i: usize) -> Result<Option<BTreeMap<String, f64>>, RowFault> {
        let mut outcomes: Option<BTreeMap<String, f64>> = None;
        for (name, column) in &self.named {
            if let Some(value) = column.number(i) {
                outcomes.get_or_insert_default().insert(name.clone(), value);
            }
        }
        let Some(map) = self.map.as_ref().filter(|map| is_there(&map.nulls, i)) else { return Ok(outcomes) };
        for at in range(&map.offsets, i) {
            if let (Some(name), Some(value)) = (map.names.text(at), map.values.number(at))
                && outcomes.get_or_insert_default().insert(name.into(), value).is_some()
            {
                return Err(RowFault::new("outcomes", format!("duplicate outcome {name:?}")));
            }
        }
        Ok(outcomes)
    }
}
