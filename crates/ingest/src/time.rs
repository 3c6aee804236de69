//! When a row was logged: RFC 3339 text, or a number of seconds, milliseconds or microseconds since 1970.
//!
//! The magnitude of a number tells its unit: below 10¹¹ it counts seconds, below 10¹⁴ milliseconds, below 10¹⁷
//! microseconds. Each range ends in the year 5138, and numbers that are not seconds are read as such only for
//! times before March 1973.

/// Microseconds since 1970, UTC.
pub type Micros = i64;

const SECONDS_BELOW: f64 = 1e11;
const MILLIS_BELOW: f64 = 1e14;
const MICROS_BELOW: f64 = 1e17;
/// The years 1 to 9999, which RFC 3339 can express.
const FIRST: Micros = -62_135_596_800_000_000;
const LAST: Micros = 253_402_300_799_999_999;

/// A time that was written as a number.
///
/// # Errors
/// What is wrong with the number.
pub fn of_number(value: f64) -> Result<Micros, String> {
    let size = value.abs();
    let micros = match size {
        _ if size < SECONDS_BELOW => value * 1e6,
        _ if size < MILLIS_BELOW => value * 1e3,
        _ if size < MICROS_BELOW => value,
        _ => {
            return Err(format!(
                "{value} is not a time; write seconds, milliseconds or microseconds since 1970, or RFC 3339"
            ));
        }
    };
    in_range(micros.round() as Micros).ok_or_else(|| format!("{value} is not a time before the year 10000"))
}

/// A time of a column with a unit, given as units per second.
pub fn of_units(value: i64, per_second: i64) -> Option<Micros> {
    let micros = match per_second {
        ..=1_000_000 => value.checked_mul(1_000_000 / per_second.max(1))?,
        _ => value.div_euclid(per_second / 1_000_000),
    };
    in_range(micros)
}

/// A time that was written as text.
///
/// # Errors
/// What is wrong with the text.
pub fn of_text(text: &str) -> Result<Micros, String> {
    parse(text.as_bytes()).ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        format!(
            "{shown:?} is not a time such as 2024-05-01T12:30:00Z or 2024-05-01T12:30:00.5+02:00 (RFC 3339)"
        )
    })
}

/// The time as RFC 3339 text, to the microsecond.
pub fn to_text(micros: Micros) -> String {
    let (seconds, fraction) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date_of(days);
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:06}") };
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}{fraction}Z")
}

fn in_range(micros: Micros) -> Option<Micros> {
    (FIRST..=LAST).contains(&micros).then_some(micros)
}

fn parse(text: &[u8]) -> Option<Micros> {
    let mut rest = text;
    let year = digits(&mut rest, 4)?;
    mark(&mut rest, b"-")?;
    let month = digits(&mut rest, 2)?;
    mark(&mut rest, b"-")?;
    let day = digits(&mut rest, 2)?;
    mark(&mut rest, b"Tt ")?;
    let hour = digits(&mut rest, 2)?;
    mark(&mut rest, b":")?;
    let minute = digits(&mut rest, 2)?;
    mark(&mut rest, b":")?;
    let second = digits(&mut rest, 2)?;
    let fraction = if mark(&mut rest, b".").is_some() { fraction(&mut rest)? } else { 0 };
    let offset = offset(&mut rest)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    // A leap second is the first of the next minute.
    let valid = (1..=length).contains(&day) && hour < 24 && minute < 60 && second <= 60 && rest.is_empty();
    let seconds = days_of(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    valid.then(|| in_range(seconds * 1_000_000 + fraction)).flatten()
}

/// A number of exactly `n` digits.
fn digits(rest: &mut &[u8], n: usize) -> Option<i64> {
    let (number, after) = rest.split_at_checked(n)?;
    *rest = after;
    number
        .iter()
        .try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
}

fn mark(rest: &mut &[u8], any_of: &[u8]) -> Option<()> {
    let (first, after) = rest.split_first()?;
    any_of.contains(first).then(|| *rest = after)
}

/// The microseconds of a fraction of a second; further digits are dropped.
fn fraction(rest: &mut &[u8]) -> Option<i64> {
    let n = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, after) = rest.split_at(n);
    *rest = after;
    let micros =
        (0..6).fold(0, |value, i| value * 10 + number.get(i).map_or(0, |byte| i64::from(byte - b'0')));
    (n > 0).then_some(micros)
}

/// The seconds by which a local time is ahead of UTC.
fn offset(rest: &mut &[u8]) -> Option<i64> {
    if mark(rest, b"Zz").is_some() {
        return Some(0);
    }
    let sign = if mark(rest, b"-").is_some() { -1 } else { mark(rest, b"+").map(|()| 1)? };
    let hours = digits(rest, 2)?;
    mark(rest, b":")?;
    let minutes = digits(rest, 2)?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// The days from 1970 to a date of the Gregorian calendar. Years begin in March, so that leap days are last.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a day since 1970.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_numbers_are_the_same_times() {
        let noon = 1_714_566_600_000_000;
        for text in [
            "2024-05-01T12:30:00Z",
            "2024-05-01t12:30:00z",
            "2024-05-01 12:30:00+00:00",
            "2024-05-01T14:30:00.000+02:00",
            "2024-05-01T07:00:00.0000000-05:30",
        ] {
            assert_eq!(of_text(text), Ok(noon), "{text}");
        }
        for number in [1_714_566_600.0, 1_714_566_600_000.0, 1_714_566_600_000_000.0] {
            assert_eq!(of_number(number), Ok(noon), "{number}");
        }
        assert_eq!(of_number(1_714_566_600.123456), Ok(noon + 123_456));
        assert_eq!(of_text("2024-05-01T12:30:00.1234569Z"), Ok(noon + 123_456));
        assert_eq!(of_units(noon * 1000 + 999, 1_000_000_000), Some(noon));
        assert_eq!(of_units(-1, 1_000_000_000), Some(-1));
        assert_eq!(of_units(noon / 1_000_000, 1), Some(noon));
        assert_eq!(of_text("1969-12-31T23:59:59Z"), Ok(-1_000_000));
    }

    #[test]
    fn what_is_not_a_time_is_refused() {
        for text in [
            "",
            "2024-05-01",
            "2024-05-01T12:30:00",
            "2024-05-01T12:30Z",
            "2024-02-30T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-05-01T24:00:00Z",
            "2024-05-01T12:60:00Z",
            "2024-05-01T12:30:61Z",
            "2024-05-01T12:30:00.Z",
            "2024-05-01T12:30:00+2:00",
            "2024-05-01T12:30:00+0200",
            "2024-05-01T12:30:00Z ",
            "0000-01-01T00:00:00Z",
            "+2024-05-01T12:30:00Z",
            "yesterday",
            "1714566600",
        ] {
            assert!(of_text(text).is_err(), "{text}");
        }
        for number in [f64::NAN, f64::INFINITY, 1e17, -1e17, 1.7e18, -1e11 + 1.0] {
            assert!(of_number(number).is_err(), "{number}");
        }
        assert_eq!(of_units(i64::MAX, 1), None);
        assert_eq!(of_units(i64::MAX, 1000), None);
    }

    #[test]
    fn every_day_is_written_and_read_back() {
        for day in (-719_162..2_932_896).step_by(7) {
            let micros = day * 86_400_000_000 + 86_399_999_999;
            assert_eq!(of_text(&to_text(micros)), Ok(micros), "{}", to_text(micros));
        }
        assert_eq!(to_text(0), "1970-01-01T00:00:00Z");
        assert_eq!(to_text(951_782_400_000_000), "2000-02-29T00:00:00Z");
    }
}
