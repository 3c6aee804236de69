//! The columns `actions` and `x` of Parquet files and Arrow streams whose rows have their own actions.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use crate::action_set::{RawSet, SetBuilder, SetRules};
use crate::arrow::{Lists, is_there, items, wrong};
use crate::arrow_features::{Node, is_named, range};
use crate::arrow_texts::{Texts, TooLong};
use crate::features::Features;
use crate::row::{NamedFeatures, RowFault};
use crate::rules::wrong_id;

const WANTED: &str = "a list of structs, of lists of floats, or of maps from strings to floats";

/// The column `actions`.
pub struct ActionSetColumn {
    offsets: Vec<usize>,
    nulls: Option<NullBuffer>,
    entries: Entries,
}

/// The actions of all rows.
struct Entries {
    nulls: Option<NullBuffer>,
    ids: Option<Texts>,
    features: EntryFeatures,
}

enum EntryFeatures {
    /// The entry is a list, or its member `x` is one.
    Lists(Lists, &'static str),
    Named(Node, &'static str),
}

impl ActionSetColumn {
    /// The action sets of a column. The error names the column and says what it must be.
    pub fn of(name: &str, array: &ArrayRef) -> Result<Self, String> {
        let (offsets, values) = items(array).ok_or_else(|| wrong(name, array, WANTED))?;
        let entries = match values.data_type() {
            DataType::Struct(_) => Entries::of_structs(name, &values)?,
            DataType::Map(..) => Entries {
                nulls: values.nulls().cloned(),
                ids: None,
                features: EntryFeatures::Named(Node::of(name, &values)?, ""),
            },
            _ => {
                let lists = Lists::of(name, &values).map_err(|_| wrong(name, array, WANTED))?;
                Entries { nulls: None, ids: None, features: EntryFeatures::Lists(lists, "") }
            }
        };
        Ok(ActionSetColumn { offsets, nulls: array.nulls().cloned(), entries })
    }

    /// The actions of row `i`; `None` if it has none of its own.
    pub fn set(&self, i: usize, rules: SetRules) -> Result<Option<Box<RawSet>>, RowFault> {
        if !is_there(&self.nulls, i) {
            return Ok(None);
        }
        let mut builder = SetBuilder::new("actions", rules);
        let (mut features, mut numbers) = (Features::new(rules.non_zeros), Vec::new());
        for at in range(&self.offsets, i) {
            features.clear(builder.non_zeros());
            self.entries.add(at, &mut builder, &mut features, &mut numbers)?;
        }
        builder.finish().map(|set| Some(Box::new(set)))
    }
}

impl Entries {
    fn of_structs(name: &str, array: &ArrayRef) -> Result<Self, String> {
        let members = array.as_struct();
        let named = || members.fields().iter().zip(members.columns());
        let column =
            |wanted: &str| named().find(|(field, _)| field.name() == wanted).map(|(_, column)| column);
        let ids = column("id").map(|ids| Texts::of(&format!("{name}.id"), ids)).transpose()?;
        let x = column("x").filter(|x| is_named(x.data_type()) || items(x).is_some());
        let features = match x {
            Some(x) => {
                if let Some((other, _)) =
                    named().find(|(field, _)| !matches!(field.name().as_str(), "id" | "x"))
                {
                    return Err(format!(
                        "the column {name} has x and {:?}; an action with x has only id and x, so write all features \
                         into x, or none",
                        other.name()
                    ));
                }
                match is_named(x.data_type()) {
                    true => EntryFeatures::Named(Node::of(&format!("{name}.x"), x)?, ".x"),
                    false => EntryFeatures::Lists(Lists::of(&format!("{name}.x"), x)?, ".x"),
                }
            }
            None => {
                let Node::Struct { members, nulls } = Node::of(name, array)? else {
                    return Err(wrong(name, array, WANTED));
                };
                let members = members.into_iter().filter(|(member, ..)| member != "id").collect();
                EntryFeatures::Named(Node::Struct { members, nulls }, "")
            }
        };
        Ok(Entries { nulls: members.nulls().cloned(), ids, features })
    }

    fn add(
        &self,
        at: usize,
        builder: &mut SetBuilder,
        features: &mut Features,
        numbers: &mut Vec<f64>,
    ) -> Result<(), RowFault> {
        if !is_there(&self.nulls, at) {
            return Err(RowFault::new(builder.place(""), "is null"));
        }
        let id = self.ids.as_ref().map_or(Ok(None), |ids| ids.text(at));
        let id = id.map_err(|TooLong| wrong_id(&builder.place(".id")))?;
        match &self.features {
            EntryFeatures::Named(node, part) => {
                node.add(at, features, None);
                builder.named(features, id, part)
            }
            EntryFeatures::Lists(lists, part) => {
                numbers.clear();
                match lists.list(&builder.place(part), at)? {
                    Some(list) => list.widen_into(numbers),
                    None if part.is_empty() => return Err(RowFault::new(builder.place(""), "is null")),
                    None => {}
                }
                match numbers.is_empty() {
                    true => builder.named(features, id, part),
                    false => builder.list(numbers, id, part),
                }
            }
        }
    }
}

/// The named features of the request of row `i`, if it has any.
pub fn request(column: &Node, i: usize, rules: SetRules) -> Result<Option<NamedFeatures>, RowFault> {
    if column.is_null(i) {
        return Ok(None);
    }
    let mut features = Features::new(rules.non_zeros);
    column.add(i, &mut features, None);
    NamedFeatures::of(&features, "x", rules.hashing).map(Some)
}
