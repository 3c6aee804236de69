//! Lines that are JSON objects: what NDJSON and DSJSON have in common.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use crate::row::RowFault;

/// Something that is read from a JSON object, member by member.
pub trait JsonObject {
    /// What the line should be, for error messages.
    const EXPECTED: &'static str;

    /// Reads the value of a member, which is the next value of `map`.
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error>;

    /// Where in the member reading stopped, if the object knows.
    fn stop(&mut self) -> Option<Stop> {
        None
    }
}

/// Where reading stopped.
#[derive(Debug)]
pub struct Stop {
    /// The field.
    pub field: String,
    /// What is wrong with it, unless the parser's error says it.
    pub message: Option<String>,
}

impl Stop {
    /// The parser says what is wrong with this field.
    pub fn at(field: String) -> Stop {
        Stop { field, message: None }
    }
}

/// The name of a member, which is copied only if it has escapes.
pub struct Name<'de>(pub Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.into())))
            }
        }
        json.deserialize_str(NameVisitor)
    }
}

/// Reads a line into `object`. A fault names the member at which reading stopped, or `row`.
pub fn parse<T: JsonObject>(line: &[u8], mut object: T) -> Result<T, RowFault> {
    let mut field = String::from("row");
    let mut json = serde_json::Deserializer::from_slice(line);
    let read = Seed { object: &mut object, field: &mut field }.deserialize(&mut json);
    match read.and_then(|()| json.end()) {
        Ok(()) => Ok(object),
        Err(error) => Err(match object.stop() {
            Some(Stop { field, message: Some(message) }) => RowFault::new(field, message),
            Some(Stop { field, message: None }) => RowFault::new(field, message(&error)),
            None => RowFault::new(field, message(&error)),
        }),
    }
}

/// The error without its line, which is always 1 here; the column helps.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line 1 column ") {
        Some((what, column)) => format!("{what} (column {column})"),
        None => text,
    }
}

struct Seed<'a, T> {
    object: &'a mut T,
    /// The member that is being read.
    field: &'a mut String,
}

impl<'de, T: JsonObject> DeserializeSeed<'de> for Seed<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de, T: JsonObject> Visitor<'de> for Seed<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = map.next_key::<Name>()? {
            self.field.clear();
            self.field.push_str(&name);
            self.object.member(&name, &mut map)?;
        }
        self.field.clear();
        self.field.push_str("row");
        Ok(())
    }
}

/// Reads a member's value into `slot`. `null` leaves the slot empty; a duplicate is an error.
pub fn set<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    slot: &mut Option<T>,
    map: &mut A,
) -> Result<(), A::Error> {
    set_as(slot, map, |value: T| value)
}

/// Reads a member's value of one type into a slot of another.
pub fn set_as<'de, T, U: Deserialize<'de>, A: MapAccess<'de>>(
    slot: &mut Option<T>,
    map: &mut A,
    convert: impl FnOnce(U) -> T,
) -> Result<(), A::Error> {
    if slot.is_some() {
        return Err(duplicate());
    }
    *slot = map.next_value::<Option<U>>()?.map(convert);
    Ok(())
}

/// The error of a member that occurs twice.
pub fn duplicate<E: Error>() -> E {
    E::custom("occurs twice")
}
