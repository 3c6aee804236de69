//! The age of certificates, as gates limit it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The greatest age of a certificate, as a number and a unit: `90s`, `30m`, `12h` or `7d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Age {
    number: u64,
    unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Second,
    Minute,
    Hour,
    Day,
}

impl Unit {
    const ALL: [Unit; 4] = [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day];

    fn letter(self) -> char {
        match self {
            Unit::Second => 's',
            Unit::Minute => 'm',
            Unit::Hour => 'h',
            Unit::Day => 'd',
        }
    }

    fn seconds(self) -> u64 {
        match self {
            Unit::Second => 1,
            Unit::Minute => 60,
            Unit::Hour => 3600,
            Unit::Day => 86_400,
        }
    }
}

/// A century, so that no sum of times overflows.
const LONGEST_AGE: u64 = 36_525 * 86_400;

impl Age {
    /// The age in seconds.
    pub fn seconds(self) -> u64 {
        self.number.saturating_mul(self.unit.seconds())
    }
}

impl TryFrom<String> for Age {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bad = "must be a whole number of s, m, h or d, such as 12h or 7d, and at most a century";
        let unit = Unit::ALL.into_iter().find(|unit| text.ends_with(unit.letter())).ok_or(bad)?;
        let digits = &text[..text.len() - 1];
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad);
        }
        let age = Age { number: digits.parse().map_err(|_| bad)?, unit };
        if (1..=LONGEST_AGE).contains(&age.seconds()) { Ok(age) } else { Err(bad) }
    }
}

impl From<Age> for String {
    fn from(age: Age) -> String {
        age.to_string()
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}{}", self.number, self.unit.letter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_a_number_and_a_unit() {
        let age = |text: &str| Age::try_from(text.to_owned());
        for (text, seconds) in
            [("90s", 90), ("30m", 1800), ("12h", 43_200), ("7d", 604_800), ("007d", 604_800)]
        {
            assert_eq!(age(text).unwrap().seconds(), seconds, "{text}");
        }
        assert_eq!(age("7d").unwrap().to_string(), "7d");
        let huge = format!("{}d", u64::MAX);
        for bad in [
            "",
            "d",
            "7",
            "7w",
            "-1d",
            "+1d",
            "1.5h",
            " 1h",
            "0s",
            "1é",
            "36526d",
            "99999999999999999999s",
            &huge,
        ] {
            assert!(age(bad).is_err(), "{bad}");
        }
    }
}
