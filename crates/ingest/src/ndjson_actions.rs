//! `x` and `actions` of an NDJSON row whose actions are its own.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::action_set::SetBuilder;
use crate::features::{Features, Value};
use crate::json::{Name, Stop, duplicate};
use crate::ndjson::Id;
use crate::row::RowFault;

/// Reads `actions` into a builder; whether there are any, because null is the same as no `actions`.
pub struct ActionsSeed<'a> {
    pub builder: &'a mut SetBuilder,
    pub stop: &'a mut Option<Stop>,
}

impl<'de> DeserializeSeed<'de> for ActionsSeed<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ActionsSeed<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list with one entry per action")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        let ActionsSeed { builder, stop } = self;
        let (mut features, mut numbers) = (Features::new(builder.rules.non_zeros), Vec::new());
        loop {
            let entry = Entry {
                builder: &mut *builder,
                features: &mut features,
                numbers: &mut numbers,
                stop: &mut *stop,
            };
            match items.next_element_seed(entry) {
                Ok(Some(())) => {}
                Ok(None) => return Ok(true),
                Err(error) => {
                    stop.get_or_insert_with(|| Stop::at(builder.place("")));
                    return Err(error);
                }
            }
        }
    }
}

/// An entry of `actions`.
struct Entry<'a> {
    builder: &'a mut SetBuilder,
    features: &'a mut Features,
    numbers: &'a mut Vec<f64>,
    stop: &'a mut Option<Stop>,
}

impl Entry<'_> {
    /// The error of an entry that can be read but not used.
    fn fault<E: Error>(&mut self, fault: RowFault) -> E {
        *self.stop = Some(Stop { field: fault.field, message: Some(fault.message) });
        E::custom("the action cannot be used")
    }

    /// Reads a list of numbers, which is at `part` of the entry.
    fn read_list<'de, A: SeqAccess<'de>>(&mut self, part: &str, mut items: A) -> Result<(), A::Error> {
        self.numbers.clear();
        loop {
            match items.next_element::<f64>() {
                Ok(Some(number)) => self.numbers.push(number),
                Ok(None) => return Ok(()),
                Err(error) => {
                    let at = self.numbers.len();
                    self.stop.get_or_insert_with(|| Stop::at(self.builder.place(&format!("{part}[{at}]"))));
                    return Err(error);
                }
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for Entry<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        self.features.clear(self.builder.non_zeros());
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Entry<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an action as a list of numbers or as an object with its features")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, items: A) -> Result<(), A::Error> {
        self.read_list("", items)?;
        self.builder.list(self.numbers, None, "").map_err(|fault| self.fault(fault))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let (mut id, mut x, mut other) = (None, None, None::<String>);
        while let Some(Name(name)) = map.next_key::<Name>()? {
            match &*name {
                "id" if id.is_some() => {
                    self.stop.get_or_insert_with(|| Stop::at(self.builder.place(".id")));
                    return Err(duplicate());
                }
                "id" => {
                    let read = map.next_value::<Option<Id>>().inspect_err(|_| {
                        self.stop.get_or_insert_with(|| Stop::at(self.builder.place(".id")));
                    });
                    id = read?.map(|id| id.0);
                }
                "x" if x.is_some() => {
                    self.stop.get_or_insert_with(|| Stop::at(self.builder.place(".x")));
                    return Err(duplicate());
                }
                "x" => match map.next_value_seed(X(&mut self))? {
                    Written::Feature => _ = other.get_or_insert_with(|| "x".into()),
                    Written::Nothing => {}
                    written => x = Some(written),
                },
                name => {
                    other.get_or_insert_with(|| name.into());
                    self.features.member(name, &mut map)?;
                }
            }
        }
        let added = match (x, other) {
            (Some(_), Some(other)) => {
                let message = format!(
                    "has x and {other:?}; an action with x has only id and x, so write all features into x, or none"
                );
                Err(RowFault::new(self.builder.place(""), message))
            }
            (Some(Written::List), None) if !self.numbers.is_empty() => {
                self.builder.list(self.numbers, id, ".x")
            }
            (Some(_), None) => self.builder.named(self.features, id, ".x"),
            (None, _) => self.builder.named(self.features, id, ""),
        };
        added.map_err(|fault| self.fault(fault))
    }
}

/// How the member `x` of an entry is written.
enum Written {
    List,
    Map,
    /// It is not the features but one of them.
    Feature,
    Nothing,
}

struct X<'a, 'e>(&'a mut Entry<'e>);

impl X<'_, '_> {
    fn feature(self, add: impl FnOnce(&mut Features)) -> Written {
        let before = self.0.features.enter("x");
        add(self.0.features);
        self.0.features.leave(before);
        Written::Feature
    }
}

impl<'de> DeserializeSeed<'de> for X<'_, '_> {
    type Value = Written;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Written, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for X<'_, '_> {
    type Value = Written;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list of numbers or an object with named features")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Written, E> {
        Ok(self.feature(|to| to.truth(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Written, E> {
        Ok(self.feature(|to| to.number(value as f64)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Written, E> {
        Ok(self.feature(|to| to.number(value as f64)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Written, E> {
        Ok(self.feature(|to| to.number(value)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Written, E> {
        Ok(self.feature(|to| to.text(text)))
    }

    fn visit_unit<E>(self) -> Result<Written, E> {
        Ok(Written::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Written, A::Error> {
        self.0.read_list(".x", items).map(|()| Written::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Written, A::Error> {
        Value { to: self.0.features, index: None }.visit_map(map).map(|()| Written::Map)
    }
}

/// `x` of a row: a list of numbers, or named features, which are read into `features`.
pub struct RequestSeed<'a> {
    pub features: &'a mut Features,
}

/// How `x` of a row is written.
pub enum Request {
    List(Vec<f64>),
    Named,
    Nothing,
}

impl<'de> DeserializeSeed<'de> for RequestSeed<'_> {
    type Value = Request;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Request, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RequestSeed<'_> {
    type Value = Request;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a sequence of numbers or an object with named features")
    }

    fn visit_unit<E>(self) -> Result<Request, E> {
        Ok(Request::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Request, A::Error> {
        let items = serde::de::value::SeqAccessDeserializer::new(items);
        Vec::<f64>::deserialize(items).map(Request::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Request, A::Error> {
        Value { to: self.features, index: None }.visit_map(map).map(|()| Request::Named)
    }
}
