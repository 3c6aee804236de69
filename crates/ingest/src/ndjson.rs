//! NDJSON: one JSON object per line.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::action_set::{SetBuilder, SetRules};
use crate::decompress::Decoded;
use crate::features::Features;
use crate::json::{self, JsonObject, Stop, duplicate, set, set_as};
use crate::lines::each_row;
use crate::ndjson_actions::{ActionsSeed, Request, RequestSeed};
use crate::plain;
use crate::plain_lines;
use crate::row::{
    FIELDS, FormatError, NamedFeatures, Notes, NumberList, RawRow, ReadContext, RowFault, Visit,
};
use crate::time::{self, Micros};

pub fn read(source: &mut Decoded, context: &ReadContext, visit: &mut Visit) -> Result<Notes, FormatError> {
    each_row(source, &context.limits, &plain_lines::columns, &|line| parse(line, context.sets), visit)?;
    Ok(Notes::default())
}

fn parse(line: &[u8], sets: SetRules) -> Result<RawRow<'static>, RowFault> {
    match plain::parse(line) {
        Some(row) => Ok(row),
        None => parse_any(line, sets),
    }
}

fn parse_any(line: &[u8], sets: SetRules) -> Result<RawRow<'static>, RowFault> {
    json::parse(line, Line { row: RawRow::default(), sets, stop: None }).map(|line| line.row)
}

/// A line while it is read.
struct Line {
    row: RawRow<'static>,
    sets: SetRules,
    stop: Option<Stop>,
}

impl Line {
    fn fault<E: Error>(&mut self, fault: RowFault) -> E {
        self.stop = Some(Stop { field: fault.field, message: Some(fault.message) });
        E::custom("the field cannot be used")
    }

    fn request<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        if self.row.x.is_some() || self.row.named.is_some() {
            return Err(duplicate());
        }
        let mut features = Features::new(self.sets.non_zeros);
        match map.next_value_seed(RequestSeed { features: &mut features })? {
            Request::List(numbers) => self.row.x = Some(NumberList::Parsed(numbers)),
            Request::Named => {
                let named = NamedFeatures::of(&features, "x", self.sets.hashing);
                self.row.named = Some(named.map_err(|fault| self.fault(fault))?);
            }
            Request::Nothing => {}
        }
        Ok(())
    }

    fn actions<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        if self.row.set.is_some() {
            return Err(duplicate());
        }
        let mut builder = SetBuilder::new("actions", self.sets);
        if map.next_value_seed(ActionsSeed { builder: &mut builder, stop: &mut self.stop })? {
            let set = builder.finish().map_err(|fault| self.fault(fault))?;
            self.row.set = Some(Box::new(set));
        }
        Ok(())
    }
}

impl JsonObject for Line {
    const EXPECTED: &'static str = "an object with the fields of a row";

    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        let row = &mut self.row;
        match name {
            "x" => self.request(map),
            "actions" => self.actions(map),
            "action" => set(&mut row.action, map),
            "propensity" => set(&mut row.propensity, map),
            "propensities" => set_as(&mut row.propensities, map, NumberList::Parsed),
            "cost" => set(&mut row.cost, map),
            "reward" => set(&mut row.reward, map),
            "outcomes" => set_as(&mut row.outcomes, map, |members: Members<f64, true>| members.0),
            "context_id" => set_as(&mut row.context_id, map, |id: Id| id.0),
            "event_id" => set_as(&mut row.event_id, map, |id: Id| id.0),
            "candidates" => set_as(&mut row.candidates, map, |members: Members<f64>| members.0),
            "candidate_propensities" => {
                set_as(&mut row.candidate_propensities, map, |members: Members<Vec<f64>>| {
                    members.0.into_iter().map(|(name, full)| (name, NumberList::Parsed(full))).collect()
                })
            }
            "timestamp" => set_as(&mut row.timestamp, map, |time: Time| time.0),
            "policy_version" => set_as(&mut row.policy_version, map, |id: Id| id.0),
            _ => Err(A::Error::custom(format!("is not a field of a row; the fields are {FIELDS}"))),
        }
    }

    fn stop(&mut self) -> Option<Stop> {
        self.stop.take()
    }
}

/// An id: a string or an integer. 7 and "7" are the same id.
pub struct Id(pub String);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct IdVisitor;
        impl Visitor<'_> for IdVisitor {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a string or an integer")
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

/// A time: RFC 3339, or a number of seconds, milliseconds or microseconds.
struct Time(Micros);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        WrittenTime::deserialize(json)?.0.map(Time).map_err(D::Error::custom)
    }
}

/// A text or a number: a time, or what is wrong with it, if it is needed.
pub struct WrittenTime(pub Result<Micros, String>);

impl<'de> Deserialize<'de> for WrittenTime {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct TimeVisitor;
        impl Visitor<'_> for TimeVisitor {
            type Value = WrittenTime;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a time as RFC 3339 text or as a number")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<WrittenTime, E> {
                Ok(WrittenTime(time::of_text(text)))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<WrittenTime, E> {
                self.visit_f64(number as f64)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<WrittenTime, E> {
                self.visit_f64(number as f64)
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<WrittenTime, E> {
                Ok(WrittenTime(time::of_number(number)))
            }
        }
        json.deserialize_any(TimeVisitor)
    }
}

/// What candidates or outcomes have, by name. A duplicate name is an error, because it is unclear which of its values is
/// right.
struct Members<T, const OUTCOMES: bool = false>(BTreeMap<String, T>);

impl<'de, T: Deserialize<'de>, const OUTCOMES: bool> Deserialize<'de> for Members<T, OUTCOMES> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct MembersVisitor<T, const OUTCOMES: bool>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const OUTCOMES: bool> Visitor<'de> for MembersVisitor<T, OUTCOMES> {
            type Value = Members<T, OUTCOMES>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "an object with the names of {}s", what(OUTCOMES))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<T, OUTCOMES>, A::Error> {
                let mut members = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, T>()? {
                    if members.contains_key(&name) {
                        let what = what(OUTCOMES);
                        return Err(A::Error::custom(format!("duplicate {what} {name:?}")));
                    }
                    members.insert(name, value);
                }
                Ok(Members(members))
            }
        }
        json.deserialize_map(MembersVisitor::<T, OUTCOMES>(PhantomData))
    }
}

fn what(outcomes: bool) -> &'static str {
    if outcomes { "outcome" } else { "candidate" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IngestLimits;
    use proptest::prelude::*;

    fn rules() -> SetRules {
        SetRules::new(&IngestLimits::default(), None)
    }

    /// Compares the two readers, which must agree to the last bit; returns whether the fast one can read the
    /// line.
    fn agree(line: &str) -> bool {
        let fast = plain::parse(line.as_bytes());
        if let Some(fast) = &fast {
            let any = parse_any(line.as_bytes(), rules());
            assert_eq!(format!("{:?}", Ok::<_, RowFault>(fast)), format!("{:?}", any.as_ref()), "{line}");
        }
        fast.is_some()
    }

    #[test]
    fn usual_rows_are_read_fast_and_the_same() {
        for line in [
            r#"{"x": [0.5, -1, 2e-3, 1E+5, -0.0, 0, 123456789012345678901234567890], "action": 3, "cost": -1}"#,
            r#" { "x" : [ ] , "action":0,"reward":0.30000000000000004,"propensity":1.7976931348623157e308 } "#,
            r#"{"propensities":[0.1,0.2,0.7],"event_id":"é","context_id":12,"candidates":{"b":0.5,"a":1}}"#,
            r#"{"timestamp":"2024-05-01T12:30:00.25+02:00","policy_version":"v 2"}"#,
            r#"{"timestamp":1714566600.123456,"policy_version":7}"#,
            r#"{"outcomes":{"revenue":12.5,"complaint":0},"action":1}"#,
            r#"{"timestamp":1714566600123,"candidate_propensities":{"a":[0.5,0.5],"b":[1,0]}}"#,
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
            r#"{"timestamp":"2024-05-01"}"#,
            r#"{"timestamp":1e18}"#,
            r#"{"timestamp":true}"#,
            r#"{"policy_version":1.5}"#,
            r#"{"candidate_propensities":{"a":0.5}}"#,
            r#"{"candidate_propensities":{"a":[0.5],"a":[0.5]}}"#,
            r#"{"candidates":{"b":0.5,"a":1,"b":0.5}}"#,
            r#"{"outcomes":{}}"#,
            r#"{"outcomes":{"b":0.5,"a":1,"b":0.5}}"#,
            r#"{"cost":1,}"#,
            r#"{,"cost":1}"#,
            r#"[1]"#,
            r#"{"cost":"1"}"#,
        ] {
            assert!(!agree(line), "{line}");
        }
    }

    #[test]
    fn both_readers_reject_duplicate_candidates() {
        for line in [
            r#"{"action":0,"candidates":{"b":0.5,"a":1,"b":0}}"#,
            r#"{"action":0,"candidates":{"b":0.5,"\u0062":0.5}}"#,
        ] {
            assert!(plain::parse(line.as_bytes()).is_none());
            let fault = parse(line.as_bytes(), rules()).unwrap_err();
            assert_eq!(fault.field, "candidates");
            assert!(fault.message.contains("duplicate candidate \"b\""), "{}", fault.message);
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
        fn serde_reads_whatever_the_fast_reader_reads(line in r#"\{"(x|cost|action|event_id)" ?:[-+0-9.eE,\[\]"a{}: ]{0,12}\}"#) {
            agree(&line);
        }
    }
}
