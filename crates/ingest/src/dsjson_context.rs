//! The context `c` of a DSJSON line as features. Names are paths joined by dots; the type of the value
//! determines the feature:
//!
//! | value | feature |
//! |---|---|
//! | number | `path` with that value |
//! | string | `path=string` with value 1 |
//! | true | `path` with value 1; false and null are not features |
//! | object | its members, one step further down the path |
//! | array | numbers as `path.0`, `path.1`, …; strings as `path=string`; objects as if they were not in an array |
//! | `_text` | a string whose words are features `path=word` with value 1 |
//!
//! Other names that begin with an underscore are not features, at any depth.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::hashing::Hashing;

/// What is read from `c`.
pub struct EventContext {
    /// `hashing.dims` numbers.
    pub x: Vec<f64>,
    /// How many actions `_multi` describes, if it is present.
    pub actions: Option<usize>,
    /// Whether any of them has features.
    pub action_features: bool,
    /// Whether the event contains several decisions.
    pub slots: bool,
}

/// Reads `c`.
pub struct ContextSeed {
    pub hashing: Hashing,
}

impl<'de> DeserializeSeed<'de> for ContextSeed {
    type Value = EventContext;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<EventContext, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ContextSeed {
    type Value = EventContext;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object of features")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EventContext, A::Error> {
        let x = vec![0.0; self.hashing.dims];
        let mut context = EventContext { x, actions: None, action_features: false, slots: false };
        let mut path = String::new();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "_multi" if context.actions.is_some() => {
                    return Err(A::Error::custom("_multi occurs twice"));
                }
                "_multi" => {
                    let (actions, features) = map.next_value_seed(Actions)?;
                    (context.actions, context.action_features) = (Some(actions), features);
                }
                "_slots" => {
                    context.slots = true;
                    map.next_value::<IgnoredAny>()?;
                }
                _ => member(&key, &mut map, self.hashing, &mut context.x, &mut path)?,
            }
        }
        Ok(context)
    }
}

fn member<'de, A: MapAccess<'de>>(
    key: &str,
    map: &mut A,
    hashing: Hashing,
    x: &mut [f64],
    path: &mut String,
) -> Result<(), A::Error> {
    if key == "_text" {
        for word in map.next_value::<Cow<'de, str>>()?.split_whitespace() {
            hashing.add(x, &format!("{path}={word}"), 1.0);
        }
        return Ok(());
    }
    if key.starts_with('_') {
        return map.next_value::<IgnoredAny>().map(drop);
    }
    let before = path.len();
    step(path, key);
    map.next_value_seed(Value { hashing, x, path, index: None })?;
    path.truncate(before);
    Ok(())
}

fn step(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

/// A value at `path`, or the item of an array there.
struct Value<'a> {
    hashing: Hashing,
    x: &'a mut [f64],
    path: &'a mut String,
    index: Option<usize>,
}

impl Value<'_> {
    fn number(self, value: f64) {
        let before = self.path.len();
        if let Some(index) = self.index {
            step(self.path, &index.to_string());
        }
        self.hashing.add(self.x, self.path, value);
        self.path.truncate(before);
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a feature")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        if value {
            self.number(1.0);
        }
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.number(value as f64);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.number(value as f64);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.number(value);
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.hashing.add(self.x, &format!("{}={text}", self.path), 1.0);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            member(&key, &mut map, self.hashing, self.x, self.path)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let before = self.path.len();
        if let Some(index) = self.index {
            step(self.path, &index.to_string());
        }
        let mut index = 0;
        let (hashing, x, path) = (self.hashing, self.x, self.path);
        while items.next_element_seed(Value { hashing, x, path, index: Some(index) })?.is_some() {
            index += 1;
        }
        path.truncate(before);
        Ok(())
    }
}

/// How many objects there are, and whether any has a feature.
struct Actions;

impl<'de> DeserializeSeed<'de> for Actions {
    type Value = (usize, bool);

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Actions {
    type Value = (usize, bool);

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("_multi as an array of objects, one per action")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let (mut actions, mut features) = (0, false);
        while let Some(Action(any)) = items.next_element::<Action>()? {
            actions += 1;
            features |= any;
        }
        Ok((actions, features))
    }
}

/// Whether an action has a feature.
struct Action(bool);

impl<'de> serde::Deserialize<'de> for Action {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Action;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object with the features of an action")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Action, A::Error> {
                let mut any = false;
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    any |= !key.starts_with('_') || key == "_text";
                    map.next_value::<IgnoredAny>()?;
                }
                Ok(Action(any))
            }
        }
        json.deserialize_map(Members)
    }
}
