//! A fast reader for NDJSON rows in their usual form. For anything unusual (escapes, null, unknown or
//! duplicate fields, anything wrong) it returns `None` and leaves the row to serde, so that the meaning of a
//! row and the messages of errors are decided in one place. Numbers are the same to the last bit.

use std::collections::BTreeMap;

use crate::decimal;
use crate::row::RawRow;
use crate::time::{self, Micros};

/// The row of a line, if the line has the usual form.
pub fn parse(line: &[u8]) -> Option<RawRow<'static>> {
    let mut json = Cursor { rest: line };
    let mut row = RawRow::default();
    json.token(b'{')?;
    loop {
        let name = json.text()?;
        json.token(b':')?;
        match name {
            "x" => once(&mut row.x, json.numbers()?.into())?,
            "action" => once(&mut row.action, json.integer()?.parse().ok()?)?,
            "propensity" => once(&mut row.propensity, json.number()?)?,
            "propensities" => once(&mut row.propensities, json.numbers()?.into())?,
            "cost" => once(&mut row.cost, json.number()?)?,
            "reward" => once(&mut row.reward, json.number()?)?,
            "outcomes" => once(&mut row.outcomes, json.members(Cursor::number)?)?,
            "context_id" => once(&mut row.context_id, json.id()?)?,
            "event_id" => once(&mut row.event_id, json.id()?)?,
            "candidates" => once(&mut row.candidates, json.members(Cursor::number)?)?,
            "candidate_propensities" => {
                once(&mut row.candidate_propensities, json.members(|json| json.numbers().map(Into::into))?)?;
            }
            "timestamp" => once(&mut row.timestamp, json.time()?)?,
            "policy_version" => once(&mut row.policy_version, json.id()?)?,
            _ => return None,
        }
        if !json.goes_on(b'}')? {
            break;
        }
    }
    json.space();
    matches!(json.rest, [] | [b'\n']).then_some(row)
}

fn once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

/// Numbers of this many digits always fit into an i64.
const SAFE_DIGITS: usize = 18;

/// Reads JSON from the beginning of what is left of a text. Line breaks are not taken for space, because a row has one
/// line.
pub struct Cursor<'a> {
    pub rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn space(&mut self) {
        while let [b' ' | b'\t' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    pub fn token(&mut self, token: u8) -> Option<()> {
        self.space();
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        (first == token).then_some(())
    }

    /// After a value: whether another one follows, or `end`.
    pub fn goes_on(&mut self, end: u8) -> Option<bool> {
        self.space();
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        match first {
            b',' => Some(true),
            first => (first == end).then_some(false),
        }
    }

    /// A string without escapes.
    pub fn text(&mut self) -> Option<&'a str> {
        self.token(b'"')?;
        let end = self.rest.iter().position(|&byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix(b"\"")?;
        std::str::from_utf8(text).ok()
    }

    /// The digits of an integer, unchanged.
    pub fn integer(&mut self) -> Option<&'a str> {
        self.space();
        let from = usize::from(self.rest.first() == Some(&b'-'));
        let digits = self.rest[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (text, rest) = self.rest.split_at(from + digits);
        self.rest = rest;
        let usual = match (text[from..].first()?, digits) {
            (b'0', _) => text.len() == 1,
            (_, digits) => digits <= SAFE_DIGITS,
        };
        std::str::from_utf8(text).ok().filter(|_| usual)
    }

    pub fn id(&mut self) -> Option<String> {
        self.space();
        let id = if self.rest.first() == Some(&b'"') { self.text()? } else { self.integer()? };
        Some(id.into())
    }

    pub fn time(&mut self) -> Option<Micros> {
        self.space();
        match self.rest.first() {
            Some(b'"') => time::of_text(self.text()?).ok(),
            _ => time::of_number(self.number()?).ok(),
        }
    }

    fn numbers(&mut self) -> Option<Vec<f64>> {
        let mut numbers = Vec::new();
        self.each_number(|number| numbers.push(number))?;
        Some(numbers)
    }

    /// Passes the numbers of a list on, and returns how many there are.
    #[inline(always)]
    pub fn each_number(&mut self, mut take: impl FnMut(f64)) -> Option<usize> {
        self.token(b'[')?;
        self.space();
        if let [b']', rest @ ..] = self.rest {
            self.rest = rest;
            return Some(0);
        }
        let mut count = 0;
        loop {
            take(self.number()?);
            count += 1;
            if !self.goes_on(b']')? {
                return Some(count);
            }
        }
    }

    /// An object whose members have values of one kind.
    fn members<T>(&mut self, value: impl Fn(&mut Self) -> Option<T>) -> Option<BTreeMap<String, T>> {
        let mut members = BTreeMap::new();
        self.token(b'{')?;
        loop {
            let name = self.text()?;
            self.token(b':')?;
            // A duplicate name: serde reports it.
            if members.insert(name.into(), value(self)?).is_some() {
                return None;
            }
            if !self.goes_on(b'}')? {
                return Some(members);
            }
        }
    }

    #[inline(always)]
    pub fn number(&mut self) -> Option<f64> {
        self.space();
        let (value, length) = decimal::number(self.rest)?;
        self.rest = &self.rest[length..];
        Some(value)
    }
}
