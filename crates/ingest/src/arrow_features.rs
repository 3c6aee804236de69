//! Named features in Arrow columns: structs, maps, and whatever is in them, by the table of `features.rs`.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use crate::arrow::{Integers, Numbers, booleans, integers, is_there, items, numbers};
use crate::features::{Features, Step};

/// A column of features, or of what has features in it.
pub enum Node {
    /// A column that is always null.
    Nothing,
    Numbers(Numbers),
    /// 1 for true, 0 for false.
    Truths(Numbers),
    Texts(TextColumn),
    Struct {
        members: Vec<(String, Step, Node)>,
        nulls: Option<NullBuffer>,
    },
    Map {
        offsets: Vec<usize>,
        names: TextColumn,
        values: Box<Node>,
        nulls: Option<NullBuffer>,
    },
    List {
        offsets: Vec<usize>,
        items: Box<Node>,
        nulls: Option<NullBuffer>,
    },
}

/// Whether a column of this type has names in it.
pub fn is_named(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Struct(_) | DataType::Map(..))
}

const WANTED: &str = "a number, a boolean, a string, or a struct, list or map of them";

impl Node {
    /// The features of a column. The error names the column and says what it must be.
    pub fn of(name: &str, array: &ArrayRef) -> Result<Node, String> {
        let nulls = array.nulls().cloned();
        match array.data_type() {
            DataType::Null => return Ok(Node::Nothing),
            DataType::Struct(_) => {
                let array = array.as_struct();
                let named = array.fields().iter().zip(array.columns());
                let member = |(field, column): (&arrow_schema::FieldRef, &ArrayRef)| {
                    let step = Step::of(field.name());
                    let node = match step {
                        Step::Hidden => Node::Nothing,
                        _ => Node::of(&format!("{name}.{}", field.name()), column)?,
                    };
                    Ok((field.name().clone(), step, node))
                };
                let members = named.map(member).collect::<Result<_, String>>()?;
                return Ok(Node::Struct { members, nulls });
            }
            DataType::Map(..) => {
                let array = array.as_map();
                let offsets: Vec<usize> = array.value_offsets().iter().map(|&o| o as usize).collect();
                let first = offsets.first().copied().unwrap_or(0);
                let n = offsets.last().copied().unwrap_or(0) - first;
                let names = TextColumn::of(&array.keys().slice(first, n))
                    .ok_or_else(|| wrong(name, array.data_type(), "a map whose keys are strings"))?;
                let values = Box::new(Node::of(name, &array.values().slice(first, n))?);
                let offsets = offsets.into_iter().map(|offset| offset - first).collect();
                return Ok(Node::Map { offsets, names, values, nulls });
            }
            _ => {}
        }
        if let Some((offsets, values)) = items(array) {
            return Ok(Node::List { offsets, items: Box::new(Node::of(name, &values)?), nulls });
        }
        if let Some(values) = booleans(array) {
            return Ok(Node::Truths(Numbers { values, nulls }));
        }
        if let Some(values) = numbers(array) {
            return Ok(Node::Numbers(Numbers { values, nulls }));
        }
        let texts = TextColumn::of(array).ok_or_else(|| wrong(name, array.data_type(), WANTED))?;
        Ok(Node::Texts(texts))
    }

    /// Adds the features of row `i`, at the path of `to`; `index` is its position in a list.
    pub fn add(&self, i: usize, to: &mut Features, index: Option<usize>) {
        let at_item = |to: &mut Features, add: &dyn Fn(&mut Features)| match index {
            Some(index) => {
                let before = to.enter_item(index);
                add(to);
                to.leave(before);
            }
            None => add(to),
        };
        match self {
            Node::Nothing => {}
            Node::Numbers(numbers) => {
                if let Some(value) = numbers.number(i) {
                    at_item(to, &|to| to.number(value));
                }
            }
            Node::Truths(truths) => {
                if let Some(value) = truths.number(i) {
                    at_item(to, &|to| to.truth(value > 0.0));
                }
            }
            Node::Texts(texts) => {
                if let Some(text) = texts.text(i) {
                    to.text(text);
                }
            }
            Node::Struct { members, nulls } if is_there(nulls, i) => {
                members.iter().for_each(|(name, step, node)| node.add_member(i, name, *step, to));
            }
            Node::Map { offsets, names, values, nulls } if is_there(nulls, i) => {
                for at in range(offsets, i) {
                    if let Some(name) = names.text(at) {
                        values.add_member(at, name, Step::of(name), to);
                    }
                }
            }
            Node::List { offsets, items, nulls } if is_there(nulls, i) => at_item(to, &|to| {
                range(offsets, i).enumerate().for_each(|(j, at)| items.add(at, to, Some(j)));
            }),
            Node::Struct { .. } | Node::Map { .. } | Node::List { .. } => {}
        }
    }

    fn add_member(&self, i: usize, name: &str, step: Step, to: &mut Features) {
        match (step, self) {
            (Step::Hidden, _) => {}
            (Step::Text, Node::Texts(texts)) => texts.text(i).into_iter().for_each(|text| to.words(text)),
            _ => {
                let before = to.enter(name);
                self.add(i, to, None);
                to.leave(before);
            }
        }
    }

    /// Whether row `i` is null.
    pub fn is_null(&self, i: usize) -> bool {
        match self {
            Node::Struct { nulls, .. } | Node::Map { nulls, .. } | Node::List { nulls, .. } => {
                !is_there(nulls, i)
            }
            Node::Nothing => true,
            Node::Numbers(numbers) | Node::Truths(numbers) => numbers.number(i).is_none(),
            Node::Texts(texts) => texts.text(i).is_none(),
        }
    }
}

/// The items of list `i`.
pub fn range(offsets: &[usize], i: usize) -> std::ops::Range<usize> {
    match (offsets.get(i), offsets.get(i + 1)) {
        (Some(&from), Some(&to)) => from..to,
        _ => 0..0,
    }
}

fn wrong(name: &str, data_type: &DataType, wanted: &str) -> String {
    format!("the column {name} has the type {data_type}; it must be {wanted}")
}

/// A column of strings, which are not copied.
pub enum TextColumn {
    Plain(ArrayRef),
    Dictionary(Integers, ArrayRef),
}

impl TextColumn {
    /// The texts of a column, unless it has another type.
    pub fn of(array: &ArrayRef) -> Option<Self> {
        let is_text = |t: &DataType| matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        match array.data_type() {
            own if is_text(own) => Some(TextColumn::Plain(array.clone())),
            DataType::Dictionary(_, values) if is_text(values) => {
                let dictionary = array.as_any_dictionary_opt()?;
                let keys = Integers {
                    values: integers(dictionary.keys())?,
                    nulls: dictionary.keys().nulls().cloned(),
                };
                Some(TextColumn::Dictionary(keys, dictionary.values().clone()))
            }
            _ => None,
        }
    }

    /// The text of a row.
    pub fn text(&self, i: usize) -> Option<&str> {
        match self {
            TextColumn::Plain(array) => text_at(array, i),
            TextColumn::Dictionary(keys, entries) => {
                text_at(entries, usize::try_from(keys.integer(i)?).ok()?)
            }
        }
    }
}

fn text_at(array: &ArrayRef, i: usize) -> Option<&str> {
    if i >= array.len() || array.is_null(i) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(i),
        DataType::LargeUtf8 => array.as_string::<i64>().value(i),
        _ => array.as_string_view().value(i),
    })
}
