//! JSON without ambiguity. If an object has two members of the same name, some readers use the first and
//! some the last, so the document means different things to different readers. Here it is rejected.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A JSON value in which no object has two members of the same name.
#[derive(Debug, Clone, PartialEq)]
pub struct StrictJson(pub Value);

impl<'de> Deserialize<'de> for StrictJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(StrictJson)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(StrictJson(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if all.contains_key(&name) {
                return Err(A::Error::custom(format!("duplicate field `{name}`")));
            }
            let StrictJson(value) = fields.next_value()?;
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
}

/// The path of a field of `sent` that `kept` does not have. Nothing vouches for such a field.
pub fn extra_field(sent: &Value, kept: &Value) -> Option<String> {
    extra(sent, kept, String::new())
}

fn extra(sent: &Value, kept: &Value, path: String) -> Option<String> {
    match (sent, kept) {
        (Value::Object(sent), Value::Object(kept)) => sent.iter().find_map(|(name, value)| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match kept.get(name) {
                Some(kept) => extra(value, kept, path),
                // An absent value may be written as null.
                None => (!value.is_null()).then_some(path),
            }
        }),
        (Value::Array(sent), Value::Array(kept)) => {
            let mut pairs = sent.iter().zip(kept).enumerate();
            pairs.find_map(|(i, (sent, kept))| extra(sent, kept, format!("{path}[{i}]")))
        }
        _ => None,
    }
}
