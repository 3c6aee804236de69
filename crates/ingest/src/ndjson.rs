//! NDJSON: a JSON object a line.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, de};

use super::lines::each_row;
use super::row::{FIELDS, Fault, FormatError, List, RawRow, Visit};
use super::{IngestLimits, plain};

pub fn read(source: impl Read, limits: &IngestLimits, visit: &mut Visit) -> Result<(), FormatError> {
    each_row(source, limits, &parse, visit)
}

fn parse(line: &[u8]) -> Result<RawRow<'static>, Fault> {
    match plain::parse(line) {
        Some(row) => Ok(row),
        None => parse_any(line),
    }
}

fn parse_any(line: &[u8]) -> Result<RawRow<'static>, Fault> {
    let mut field = String::from("row");
    let mut json = serde_json::Deserializer::from_slice(line);
    let row = RowSeed { field: &mut field }.deserialize(&mut json);
    let row = row.and_then(|row| json.end().map(|()| row).map_err(|error| de::Error::custom(words(&error))));
    row.map_err(|error| Fault::new(field, words(&error)))
}

/// The error without its line, which is always 1 here; the column helps.
pub fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line 1 column ") {
        Some((what, column)) => format!("{what} (column {column})"),
        None => text,
    }
}

/// Deserializes a row and leaves behind the name of the field that it was at.
struct RowSeed<'a> {
    field: &'a mut String,
}

impl<'de> DeserializeSeed<'de> for RowSeed<'_> {
    type Value = RawRow<'static>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RowSeed<'_> {
    type Value = RawRow<'static>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object with the fields of a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut row = RawRow::default();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            self.field.clear();
            self.field.push_str(&key);
            match &*key {
                "x" => row.x = list(&row.x, &mut map)?,
                "action" => set(&mut row.action, &mut map)?,
                "propensity" => set(&mut row.propensity, &mut map)?,
                "propensities" => row.propensities = list(&row.propensities, &mut map)?,
                "cost" => set(&mut row.cost, &mut map)?,
                "reward" => set(&mut row.reward, &mut map)?,
                "context_id" => row.context_id = id(&row.context_id, &mut map)?,
                "event_id" => row.event_id = id(&row.event_id, &mut map)?,
                "candidates" => {
                    let mut members = row.candidates.take().map(Members);
                    set(&mut members, &mut map)?;
                    row.candidates = members.map(|members| members.0);
                }
                _ => return Err(A::Error::custom(format!("is not a field of a row; those are {FIELDS}"))),
            }
        }
        self.field.clear();
        self.field.push_str("row");
        Ok(row)
    }
}

/// A field's value, which must be its only one.
pub fn set<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    slot: &mut Option<T>,
    map: &mut A,
) -> Result<(), A::Error> {
    if slot.is_some() {
        return Err(A::Error::custom("is there twice"));
    }
    *slot = map.next_value::<Option<T>>()?;
    Ok(())
}

fn list<'de, A: MapAccess<'de>>(
    before: &Option<List>,
    map: &mut A,
) -> Result<Option<List<'static>>, A::Error> {
    let mut numbers = before.as_ref().map(|_| Vec::<f64>::new());
    set(&mut numbers, map)?;
    Ok(numbers.map(List::Made))
}

fn id<'de, A: MapAccess<'de>>(before: &Option<String>, map: &mut A) -> Result<Option<String>, A::Error> {
    if before.is_some() {
        return Err(A::Error::custom("is there twice"));
    }
    Ok(map.next_value::<Option<Id>>()?.map(|id| id.0))
}

/// Ids are texts or integers; 7 and "7" are one id.
struct Id(String);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct IdVisitor;
        impl Visitor<'_> for IdVisitor {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a text or an integer")
            }

            fn visit_str<E>(self, text: &str) -> Result<Id, E> {
                Ok(Id(text.into()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Id, E> {
                Ok(Id(number.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Id, E> {
                Ok(Id(number.to_string()))
            }
        }
        json.deserialize_any(IdVisitor)
    }
}

/// The candidates by name, each named once: of two propensities neither is to be preferred.
struct Members(BTreeMap<String, f64>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, f64>()? {
                    if members.contains_key(&name) {
                        return Err(A::Error::custom(format!("the candidate {name} is there twice")));
                    }
                    members.insert(name, value);
                }
                Ok(Members(members))
            }
        }
        json.deserialize_map(MembersVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Both ways to read a line must agree to the last bit, the fast one where it can read it at all.
    fn agree(line: &str) -> bool {
        let fast = plain::parse(line.as_bytes());
        if let Some(fast) = &fast {
            let any = parse_any(line.as_bytes());
            assert_eq!(format!("{:?}", Ok::<_, Fault>(fast)), format!("{:?}", any.as_ref()), "{line}");
        }
        fast.is_some()
    }

    #[test]
    fn usual_rows_are_read_fast_and_the_same() {
        for line in [
            r#"{"x": [0.5, -1, 2e-3, 1E+5, -0.0, 0, 123456789012345678901234567890], "action": 3, "cost": -1}"#,
            r#" { "x" : [ ] , "action":0,"reward":0.30000000000000004,"propensity":1.7976931348623157e308 } "#,
            r#"{"propensities":[0.1,0.2,0.7],"event_id":"é","context_id":12,"candidates":{"b":0.5,"a":1}}"#,
            "{\"action\":-7,\"cost\":4.9406564584124654e-324,\"context_id\":-12}\r\n",
            r#"{"x":[9007199254740992,9007199254740993,0.1234567890123456789012,5e-324,2.2250738585072011e-308]}"#,
        ] {
            assert!(agree(line), "{line}");
        }
    }

    #[test]
    fn unusual_rows_are_left_to_serde() {
        for line in [
            "{}",
            "{\"x\":null}",
            r#"{"x":[1,]}"#,
            r#"{"x":[01]}"#,
            r#"{"x":[1.]}"#,
            r#"{"x":[.5]}"#,
            r#"{"x":[1e]}"#,
            r#"{"x":[1e999]}"#,
            r#"{"x":[+1]}"#,
            r#"{"x":[NaN]}"#,
            r#"{"x":[1]"#,
            r#"{"x":[1]} {}"#,
            r#"{"x":[1],"x":[1]}"#,
            r#"{"y":1}"#,
            r#"{"action":1.0}"#,
            r#"{"action":-0}"#,
            r#"{"action":1e2}"#,
            r#"{"action":12345678901234567890}"#,
            r#"{"event_id":"a\u0041"}"#,
            "{\"event_id\":\"\t\"}",
            r#"{"event_id":1.5}"#,
            r#"{"candidates":{}}"#,
            r#"{"candidates":{"b":0.5,"a":1,"b":0.5}}"#,
            r#"{"cost":1,}"#,
            r#"{,"cost":1}"#,
            r#"[1]"#,
            r#"{"cost":"1"}"#,
        ] {
            assert!(!agree(line), "{line}");
        }
    }

    #[test]
    fn a_candidate_that_is_named_twice_is_refused_by_both_readers() {
        for line in [
            r#"{"action":0,"candidates":{"b":0.5,"a":1,"b":0}}"#,
            r#"{"action":0,"candidates":{"b":0.5,"\u0062":0.5}}"#,
        ] {
            assert!(plain::parse(line.as_bytes()).is_none());
            let fault = parse(line.as_bytes()).unwrap_err();
            assert_eq!(fault.field, "candidates");
            assert!(fault.message.contains("b is there twice"), "{}", fault.message);
        }
    }

    proptest! {
        #[test]
        fn numbers_are_the_same_to_the_last_bit(bits in any::<u64>(), small in any::<i32>(), scale in 0..25i32) {
            let value = f64::from_bits(bits);
            let row = |number: String| format!("{{\"cost\":{number}}}");
            if value.is_finite() {
                let fast = [agree(&row(format!("{value:e}"))), agree(&row(value.to_string()))];
                prop_assert_eq!(fast, [true, true]);
            }
            let decimal = f64::from(small) / 10f64.powi(scale);
            let fast = [agree(&row(decimal.to_string())), agree(&row((decimal as f32).to_string()))];
            prop_assert_eq!(fast, [true, true]);
        }

        #[test]
        fn whatever_the_fast_reader_takes_serde_takes(line in r#"\{"(x|cost|action|event_id)" ?:[-+0-9.eE,\[\]"a{}: ]{0,12}\}"#) {
            agree(&line);
        }
    }
}
