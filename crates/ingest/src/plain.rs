//! A fast reader for NDJSON rows in their usual form. For anything unusual (escapes, null, unknown or
//! duplicate fields, anything wrong) it returns `None` and leaves the row to serde, so that the meaning of a
//! row and the messages of errors are decided in one place. Numbers are the same to the last bit.

use std::collections::BTreeMap;

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
    json.rest.is_empty().then_some(row)
}

fn once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

/// Numbers of this many digits always fit into an i64.
const SAFE_DIGITS: usize = 18;
/// Integers up to this are exact as f64, and so are these powers of ten: their quotient is rounded only
/// once, and therefore correctly.
const EXACT: u64 = 1 << 53;
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];
/// Numbers of this many digits always fit into a u64.
const U64_DIGITS: usize = 19;

struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn space(&mut self) {
        while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    fn token(&mut self, token: u8) -> Option<()> {
        self.space();
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        (first == token).then_some(())
    }

    /// After a value: whether another one follows, or `end`.
    fn goes_on(&mut self, end: u8) -> Option<bool> {
        self.space();
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        match first {
            b',' => Some(true),
            first => (first == end).then_some(false),
        }
    }

    /// A string without escapes.
    fn text(&mut self) -> Option<&'a str> {
        self.token(b'"')?;
        let end = self.rest.iter().position(|&byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix(b"\"")?;
        std::str::from_utf8(text).ok()
    }

    /// The digits of an integer, unchanged.
    fn integer(&mut self) -> Option<&'a str> {
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

    fn id(&mut self) -> Option<String> {
        self.space();
        let id = if self.rest.first() == Some(&b'"') { self.text()? } else { self.integer()? };
        Some(id.into())
    }

    fn time(&mut self) -> Option<Micros> {
        self.space();
        match self.rest.first() {
            Some(b'"') => time::of_text(self.text()?).ok(),
            _ => time::of_number(self.number()?).ok(),
        }
    }

    fn numbers(&mut self) -> Option<Vec<f64>> {
        self.token(b'[')?;
        self.space();
        if let [b']', rest @ ..] = self.rest {
            self.rest = rest;
            return Some(Vec::new());
        }
        let commas = self.rest.iter().take_while(|&&byte| byte != b']').filter(|&&byte| byte == b',');
        let mut numbers = Vec::with_capacity(commas.count() + 1);
        loop {
            numbers.push(self.number()?);
            if !self.goes_on(b']')? {
                return Some(numbers);
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

    fn number(&mut self) -> Option<f64> {
        self.space();
        let negative = self.rest.first() == Some(&b'-');
        let from = usize::from(negative);
        let (mut mantissa, mut at) = (0u64, from);
        let whole = self.digits(&mut at, &mut mantissa);
        if whole == 0 || (whole > 1 && self.rest[from] == b'0') {
            return None;
        }
        let mut scale = 0;
        if self.rest.get(at) == Some(&b'.') {
            at += 1;
            scale = self.digits(&mut at, &mut mantissa);
            if scale == 0 {
                return None;
            }
        }
        let exponent = matches!(self.rest.get(at), Some(b'e' | b'E'));
        if exponent {
            at += 1;
            at += usize::from(matches!(self.rest.get(at), Some(b'+' | b'-')));
            if self.digits(&mut at, &mut 0) == 0 {
                return None;
            }
        }
        let (text, rest) = self.rest.split_at(at);
        self.rest = rest;
        let small = !exponent && whole + scale <= U64_DIGITS && mantissa <= EXACT && scale < POWERS.len();
        if small {
            let value = mantissa as f64 / POWERS[scale];
            return Some(if negative { -value } else { value });
        }
        // A number that is too large is an error, and serde reports those.
        std::str::from_utf8(text).ok()?.parse().ok().filter(|value: &f64| value.is_finite())
    }

    /// Reads digits from `at` on and returns how many there are.
    fn digits(&self, at: &mut usize, mantissa: &mut u64) -> usize {
        let from = *at;
        while let Some(digit @ 0..=9) = self.rest.get(*at).map(|byte| byte.wrapping_sub(b'0')) {
            *mantissa = mantissa.wrapping_mul(10).wrapping_add(digit.into());
            *at += 1;
        }
        *at - from
    }
}
