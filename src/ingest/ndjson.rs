//! NDJSON: a JSON object a line. Row numbers are line numbers; empty lines are passed over.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, de};

use super::IngestLimits;
use super::row::{FIELDS, Fault, FormatError, RawRow, Visit};

pub fn read(source: impl Read, limits: &IngestLimits, visit: &mut Visit) -> Result<(), FormatError> {
    let mut source = BufReader::with_capacity(1 << 16, source);
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        let most = limits.line_bytes as u64 + 1;
        let read = source.by_ref().take(most).read_until(b'\n', &mut line);
        let read = read.map_err(|error| FormatError::Unreadable(error.to_string()))?;
        if read == 0 {
            return Ok(());
        }
        number += 1;
        let row = if line.last() != Some(&b'\n') && read as u64 == most {
            skip_line(&mut source).map_err(|error| FormatError::Unreadable(error.to_string()))?;
            Err(Fault::new("row", format!("is longer than {} bytes", limits.line_bytes)))
        } else if line.trim_ascii().is_empty() {
            continue;
        } else {
            parse(&line)
        };
        visit(number, row).map_err(FormatError::Stopped)?;
    }
}

fn skip_line(source: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffer = source.fill_buf()?;
        let end = buffer.iter().position(|&b| b == b'\n');
        let n = end.map_or(buffer.len(), |at| at + 1);
        source.consume(n);
        if end.is_some() || n == 0 {
            return Ok(());
        }
    }
}

fn parse(line: &[u8]) -> Result<RawRow, Fault> {
    let mut field = String::from("row");
    let mut json = serde_json::Deserializer::from_slice(line);
    let row = RowSeed { field: &mut field }.deserialize(&mut json);
    let row = row.and_then(|row| json.end().map(|()| row).map_err(|error| de::Error::custom(words(&error))));
    row.map_err(|error| Fault::new(field, words(&error)))
}

/// The error without its line, which is always 1 here; the column helps.
fn words(error: &serde_json::Error) -> String {
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
    type Value = RawRow;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<RawRow, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RowSeed<'_> {
    type Value = RawRow;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object with the fields of a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawRow, A::Error> {
        let mut row = RawRow::default();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            self.field.clear();
            self.field.push_str(&key);
            match &*key {
                "x" => set(&mut row.x, &mut map)?,
                "action" => set(&mut row.action, &mut map)?,
                "propensity" => set(&mut row.propensity, &mut map)?,
                "propensities" => set(&mut row.propensities, &mut map)?,
                "cost" => set(&mut row.cost, &mut map)?,
                "reward" => set(&mut row.reward, &mut map)?,
                "context_id" => row.context_id = id(&row.context_id, &mut map)?,
                "event_id" => row.event_id = id(&row.event_id, &mut map)?,
                "candidates" => set::<BTreeMap<String, f64>, _>(&mut row.candidates, &mut map)?,
                _ => return Err(A::Error::custom(format!("is not a field of a row; those are {FIELDS}"))),
            }
        }
        self.field.clear();
        self.field.push_str("row");
        Ok(row)
    }
}

fn set<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    slot: &mut Option<T>,
    map: &mut A,
) -> Result<(), A::Error> {
    if slot.is_some() {
        return Err(A::Error::custom("is there twice"));
    }
    *slot = map.next_value::<Option<T>>()?;
    Ok(())
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
