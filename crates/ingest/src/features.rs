//! Named features of a JSON value, for the requests and actions of all formats. Names are paths joined by dots; the
//! type of the value determines the feature:
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

use std::fmt::{self, Write};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::hashing::{Hashing, hash_of};

/// The longest path. It is hashed for every feature below it, so a long one would make a short line slow.
const MAX_PATH_BYTES: usize = 4096;

/// The features of a request or an action while they are read. Names are hashed at once and not kept.
#[derive(Debug, Clone, Default)]
pub struct Features {
    /// The hash of each name, and the value with the sign of the hash.
    pairs: Vec<(u64, f64)>,
    path: String,
    described: bool,
    /// The most features of a row, and how many its other parts have.
    most: usize,
    used: usize,
    /// The path of the first feature that cannot be used, and why it cannot.
    fault: Option<(String, String)>,
}

impl Features {
    /// No features yet, and at most this many.
    pub fn new(most: usize) -> Self {
        Features { most, ..Features::default() }
    }

    /// Whether there was a value, be it 0 or false.
    pub fn described(&self) -> bool {
        self.described
    }

    /// The path of the first feature that cannot be used, and why it cannot.
    pub fn fault(&self) -> Option<(&str, &str)> {
        self.fault.as_ref().map(|(path, why)| (path.as_str(), why.as_str()))
    }

    /// Forgets all features. The other parts of the row have `used`.
    pub fn clear(&mut self, used: usize) {
        self.used = used;
        self.pairs.clear();
        self.path.clear();
        (self.described, self.fault) = (false, None);
    }

    /// Adds the features to the dimensions of `x`.
    pub fn add_to(&self, x: &mut [f64]) {
        let dims = x.len() as u64;
        if dims > 0 {
            self.pairs.iter().for_each(|&(hash, value)| x[(hash % dims) as usize] += value);
        }
    }

    /// The features in the dimensions of `hashing`. A name may occur twice.
    pub fn hashed(&self, hashing: Hashing) -> impl Iterator<Item = (u32, f32)> + '_ {
        let dims = hashing.dims as u64;
        let pairs = if dims == 0 { &[][..] } else { &self.pairs };
        // There are at most 2²⁴ dimensions.
        pairs.iter().map(move |&(hash, value)| ((hash % dims) as u32, value as f32))
    }

    /// Goes one step down the path, and returns where it was.
    pub fn enter(&mut self, key: &str) -> usize {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        before
    }

    /// Goes back to where the path was.
    pub fn leave(&mut self, before: usize) {
        self.path.truncate(before);
    }

    /// Goes to an item of an array.
    pub fn enter_item(&mut self, index: usize) -> usize {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        // Writing to a string cannot fail.
        let _ = write!(self.path, "{index}");
        before
    }

    /// Adds the feature at the path.
    pub fn number(&mut self, value: f64) {
        self.described = true;
        if !(value as f32).is_finite() {
            return self.stop(format!("{value:e} is not a finite single-precision number"));
        }
        if value != 0.0 && self.has_room() {
            let (hash, sign) = hash_of(&self.path);
            self.pairs.push((hash, sign * value));
        }
    }

    /// Adds a feature that says that the value at the path is this text.
    pub fn text(&mut self, text: &str) {
        self.described = true;
        if self.has_room() {
            let before = self.path.len();
            self.path.push('=');
            self.path.push_str(text);
            let (hash, sign) = hash_of(&self.path);
            self.path.truncate(before);
            self.pairs.push((hash, sign));
        }
    }

    /// Adds the words of a text.
    pub fn words(&mut self, text: &str) {
        text.split_whitespace().for_each(|word| self.text(word));
    }

    /// Adds what true or false says.
    pub fn truth(&mut self, value: bool) {
        self.described = true;
        if value {
            self.number(1.0);
        }
    }

    fn has_room(&mut self) -> bool {
        if self.used + self.pairs.len() >= self.most {
            self.stop(format!("is one feature too many: a row has at most {} that are not 0", self.most));
        } else if self.path.len() > MAX_PATH_BYTES {
            self.stop(format!("has a name of more than {MAX_PATH_BYTES} bytes; use a shorter one"));
        }
        self.fault.is_none()
    }

    /// The feature at the path cannot be used.
    pub fn stop(&mut self, why: String) {
        if self.fault.is_none() {
            let end = self.path.floor_char_boundary(100);
            self.fault = Some((self.path[..end].to_owned(), why));
        }
    }

    /// Reads a member of an object that is at the path: its name was read, its value is next.
    pub fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        let before = self.path.len();
        match Step::of(name) {
            Step::Down => {
                self.enter(name);
            }
            Step::Text => return map.next_value_seed(Words(self)),
            Step::Hidden => return map.next_value::<IgnoredAny>().map(drop),
        }
        map.next_value_seed(Value { to: self, index: None })?;
        self.leave(before);
        Ok(())
    }
}

/// The member `id` of an action: a number is a name too.
pub struct IdValue<'a>(pub &'a mut Features);

impl<'de> DeserializeSeed<'de> for IdValue<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        let before = self.0.enter("id");
        let read = json.deserialize_any(IdValue(&mut *self.0));
        self.0.leave(before);
        read
    }
}

impl<'de> Visitor<'de> for IdValue<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an id or features")
    }

    fn visit_i64<E>(self, id: i64) -> Result<(), E> {
        self.0.text(&id.to_string());
        Ok(())
    }

    fn visit_u64<E>(self, id: u64) -> Result<(), E> {
        self.0.text(&id.to_string());
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.truth(value);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.0.number(value);
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.text(text);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        Value { to: self.0, index: None }.visit_map(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<(), A::Error> {
        Value { to: self.0, index: None }.visit_seq(items)
    }
}

/// What the name of a member says about its value.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// It is a feature, or has features.
    Down,
    /// It is a text whose words are features.
    Text,
    /// It is not a feature.
    Hidden,
}

impl Step {
    /// The step to the member with this name.
    pub fn of(name: &str) -> Step {
        match name {
            "_text" => Step::Text,
            _ if name.starts_with('_') => Step::Hidden,
            _ => Step::Down,
        }
    }
}

/// The name of a member, which is added to the path without a copy in between.
struct Name<'a>(&'a mut Features);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Step;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Step, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Step;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("the name of a feature")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Step, E> {
        let step = Step::of(name);
        if matches!(step, Step::Down) {
            self.0.enter(name);
        }
        Ok(step)
    }
}

/// A text whose words are features.
struct Words<'a>(&'a mut Features);

impl<'de> DeserializeSeed<'de> for Words<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Words<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.words(text);
        Ok(())
    }
}

/// A value at the path, or the item of an array there.
pub struct Value<'a> {
    /// The features so far.
    pub to: &'a mut Features,
    /// The position in the array.
    pub index: Option<usize>,
}

impl Value<'_> {
    fn at_item(self, add: impl FnOnce(&mut Features)) {
        match self.index {
            Some(index) => {
                let before = self.to.enter_item(index);
                add(self.to);
                self.to.leave(before);
            }
            None => add(self.to),
        }
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
        self.at_item(|to| to.truth(value));
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.at_item(|to| to.number(value as f64));
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.at_item(|to| to.number(value as f64));
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.at_item(|to| to.number(value));
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.to.text(text);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let before = self.to.path.len();
        while let Some(step) = map.next_key_seed(Name(self.to))? {
            match step {
                Step::Down => map.next_value_seed(Value { to: self.to, index: None })?,
                Step::Text => map.next_value_seed(Words(self.to))?,
                Step::Hidden => map.next_value::<IgnoredAny>().map(drop)?,
            }
            self.to.leave(before);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Value { to, index } = self;
        let before = to.path.len();
        if let Some(index) = index {
            to.enter_item(index);
        }
        let mut next = 0;
        while items.next_element_seed(Value { to, index: Some(next) })?.is_some() {
            next += 1;
        }
        to.leave(before);
        Ok(())
    }
}
