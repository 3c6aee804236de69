//! How precisely probabilities were written (docs/math.md#rounding). A propensity of 1/3 that was written as
//! 0.333 is too small by 0.1%, so every weight is too large, and a policy would appear to improve on itself.
//! So a written number stands for an interval, and bounds use the end at which they are valid.

use serde::{Deserialize, Serialize};

/// How precisely the probabilities of a log were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Precision {
    /// The number of decimals to which they were rounded; null if they have as many digits as their type.
    pub decimals: Option<u8>,
    /// The number of significant digits to which they were rounded; null if they have as many as their type.
    #[serde(default)]
    pub significant: Option<u8>,
    /// Whether they are single-precision numbers.
    pub single: bool,
}

/// Numbers with this many significant digits or more count as unrounded: the error is near that of their type.
const FINE: u8 = 9;
/// The same for single precision, which has about seven digits.
const FINE_SINGLE: u8 = 7;
impl Precision {
    /// Whether rounding must be accounted for row by row.
    pub fn is_coarse(self) -> bool {
        self.decimals.is_some() || self.significant.is_some()
    }

    /// How far the truth can be from what was written.
    pub fn rounding(self) -> Rounding {
        let (decimals, significant) = (self.decimals.unwrap_or(0), self.significant.unwrap_or(0));
        Rounding {
            absolute: self.decimals.map_or(0.0, |d| 0.5 / ten_to(d)),
            // Below 1, as many significant digits as decimals are at least as precise as those decimals.
            digits: match self.significant {
                Some(s) if significant < decimals => 0.5 / ten_to(s.max(1) - 1),
                _ => 0.0,
            },
            relative: if self.single { f64::from(f32::EPSILON) / 2.0 } else { 0.0 },
        }
    }

    /// Half the width of the interval that a written probability stands for.
    pub fn half_width(self, written: f64) -> f64 {
        self.rounding().half_width(written)
    }

    /// The upper end of the interval.
    pub fn upper(self, written: f64) -> f64 {
        (written + self.half_width(written)).min(1.0)
    }

    /// The lower end of the interval.
    pub fn lower(self, written: f64) -> f64 {
        (written - self.half_width(written)).max(0.0)
    }

    /// A number that may have been written if this is the upper end of its interval.
    pub fn written_below(self, upper: f64) -> f64 {
        // A power of ten must not become the number below it by rounding, because its interval is wider.
        let rounding = self.rounding();
        let wide = (upper - rounding.unit(upper)) / (1.0 + rounding.relative) * (1.0 + 4.0 * f64::EPSILON);
        match self.is_coarse() && (self.upper(wide) - upper).abs() <= 1e-9 {
            true => wide.clamp(0.0, 1.0),
            false => self.solve(upper, |written| written - upper + self.half_width(written)),
        }
    }

    /// The largest number that may have been written if this is the lower end of its interval.
    pub fn written_above(self, lower: f64) -> f64 {
        // Behind a power of ten the interval is wider.
        let rounding = self.rounding();
        let end = lower + rounding.unit((10.0 * lower).min(1.0));
        let wide = end / (1.0 - rounding.relative) * (1.0 + 4.0 * f64::EPSILON);
        match self.is_coarse() && wide <= 1.0 && (self.lower(wide) - lower).abs() <= 1e-9 {
            true => wide,
            false => self.solve(lower, |written| written - lower - self.half_width(written)),
        }
    }

    /// Where an increasing function is 0, starting from a number that is at most a half width away. The half
    /// width hardly changes over its own length, so two steps are enough.
    fn solve(self, start: f64, excess: impl Fn(f64) -> f64) -> f64 {
        match self.is_coarse() {
            true => (0..2).fold(start, |at, _| at - excess(at)).clamp(0.0, 1.0),
            false => start,
        }
    }
}

/// How far the truth can be from a written probability. Numbers may have been rounded to a number of decimals or
/// of significant digits, so the larger of the two counts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rounding {
    /// Half a unit of the last decimal.
    pub absolute: f64,
    /// Half a unit of the last significant digit of a number from 1 to 10; 0 if decimals alone explain the log.
    pub digits: f64,
    /// Half a unit of the last bit relative to the number, for numbers in single precision.
    pub relative: f64,
}

impl Rounding {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        *self == Rounding::default()
    }

    /// Half the width of the interval of true values behind a written `p`.
    pub fn half_width(&self, p: f64) -> f64 {
        self.unit(p) + self.relative * p
    }

    /// Half a unit of the last digit of a written `p`.
    fn unit(&self, p: f64) -> f64 {
        let of_digits = if self.digits > 0.0 { self.digits * magnitude(p) } else { 0.0 };
        self.absolute.max(of_digits)
    }

    /// At least the sum of the half widths of `k` probabilities that sum to 1.
    pub fn total(&self, k: usize) -> f64 {
        k as f64 * self.absolute + self.digits + self.relative
    }
}

/// 10^n; exact up to 10^22.
fn ten_to(n: u8) -> f64 {
    (0..n).fold(1.0, |power, _| 10.0 * power)
}

/// The largest power of ten that is not above a probability. Powers are compared as they are written.
fn magnitude(p: f64) -> f64 {
    const POWERS: [f64; 12] = [1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11];
    POWERS.into_iter().find(|&power| p >= power).unwrap_or(1e-11)
}

/// Finds the precision of probabilities as they are read, whatever format they were written in.
#[derive(Debug, Clone)]
pub struct PrecisionFinder {
    /// Decimals and significant digits, if the numbers are in double precision and if they are in single precision.
    digits: [Digits; 2],
    double: bool,
    /// Numbers that were seen, each in the place that its bits say. Logs of rounded numbers have few.
    seen: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Digits {
    decimals: u8,
    significant: u8,
}

/// The digits of the probabilities that a [`PrecisionFinder`] has seen. Those of the parts of a log can be merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenDigits {
    as_double: Digits,
    as_single: Digits,
    double: bool,
}

impl SeenDigits {
    /// Adds the digits of other probabilities.
    pub fn merge(&mut self, other: &SeenDigits) {
        for (mine, theirs) in [(&mut self.as_double, other.as_double), (&mut self.as_single, other.as_single)]
        {
            mine.decimals = mine.decimals.max(theirs.decimals);
            mine.significant = mine.significant.max(theirs.significant);
        }
        self.double |= other.double;
    }

    /// The precision of what was seen.
    pub fn precision(&self) -> Precision {
        let (Digits { decimals, significant }, fine) = match self.double {
            true => (self.as_double, FINE),
            false => (self.as_single, FINE_SINGLE),
        };
        // Numbers without decimals are 0 and 1: those of a deterministic policy, not rounded ones.
        let rounded = decimals > 0 && significant < fine;
        Precision {
            decimals: rounded.then_some(decimals),
            significant: rounded.then_some(significant),
            single: !self.double && decimals > 0,
        }
    }
}

const SEEN: usize = 1024;

impl Default for PrecisionFinder {
    fn default() -> Self {
        // 0 has no digits, so it may count as seen.
        PrecisionFinder { digits: Default::default(), double: false, seen: vec![0; SEEN] }
    }
}

impl PrecisionFinder {
    /// Looks at a probability.
    pub fn see(&mut self, value: f64) {
        self.double |= f64::from(value as f32) != value;
        let [double, single] = &mut self.digits;
        if double.significant >= FINE && (self.double || single.significant >= FINE_SINGLE) {
            return;
        }
        let bits = value.to_bits();
        let slot = (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
        if self.seen[slot] != bits {
            self.seen[slot] = bits;
            double.raise(&format!("{value:e}"));
            // A log in single precision shows its digits only in single precision.
            single.raise(&format!("{:e}", value as f32));
        }
    }

    /// Looks at probabilities.
    pub fn see_all(&mut self, values: &[f64]) {
        for &value in values {
            if self.double && self.digits[0].significant >= FINE {
                return;
            }
            self.see(value);
        }
    }

    /// The digits of what was seen.
    pub fn seen(&self) -> SeenDigits {
        let [as_double, as_single] = self.digits;
        SeenDigits { as_double, as_single, double: self.double }
    }

    /// The precision of what was seen.
    pub fn finish(&self) -> Precision {
        self.seen().precision()
    }
}

impl Digits {
    /// Raises the digits to those of a number in the form 1.25e-3, the shortest that reads back as the number.
    fn raise(&mut self, written: &str) {
        let (mantissa, exponent) = written.split_once('e').unwrap_or((written, "0"));
        let significant = mantissa.bytes().filter(u8::is_ascii_digit).count() as i32;
        let decimals = significant - 1 - exponent.parse::<i32>().unwrap_or(0);
        self.significant = self.significant.max(significant.clamp(0, 99) as u8);
        self.decimals = self.decimals.max(decimals.clamp(0, 99) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(values: &[f64]) -> Precision {
        let mut finder = PrecisionFinder::default();
        values.iter().for_each(|&value| finder.see(value));
        finder.finish()
    }

    fn rounded(decimals: u8, significant: u8, single: bool) -> Precision {
        Precision { decimals: Some(decimals), significant: Some(significant), single }
    }

    #[test]
    fn digits_are_those_that_were_written() {
        assert_eq!(found(&[0.333, 0.25, 0.1]), rounded(3, 3, false));
        assert_eq!(found(&[0.0, 1.0]), Precision::default());
        assert_eq!(found(&[0.5, 0.25]), rounded(2, 2, true));
        assert_eq!(found(&[1.0 / 3.0, 0.5]), Precision::default());
        let single = |value: f64| f64::from(value as f32);
        assert_eq!(found(&[single(0.333), single(0.1)]), rounded(3, 3, true));
        assert_eq!(found(&[single(1.0 / 3.0)]), Precision { single: true, ..Precision::default() });
        // Three significant digits, of which the last are far behind the point.
        assert_eq!(found(&[0.333, 0.00123, 1.23e-9]), rounded(11, 3, false));
    }

    #[test]
    fn the_interval_contains_the_number_that_was_rounded() {
        for i in 1..1000 {
            let value = f64::from(i) / 1001.0;
            for digits in 1..9u8 {
                let scale = ten_to(digits);
                let written = (value * scale).round() / scale;
                // Rounded to decimals, and to significant digits in a log that has small numbers too.
                contains(rounded(digits, digits, false), written, value);
                let written: f64 = format!("{value:.*e}", usize::from(digits) - 1).parse().unwrap();
                contains(rounded(digits + 9, digits, false), written, value);
            }
        }
        assert_eq!(rounded(1, 1, false).upper(0.5), 0.55);
        assert_eq!(rounded(3, 3, false).half_width(0.333), 0.0005);
    }

    #[track_caller]
    fn contains(precision: Precision, written: f64, value: f64) {
        // The ends are computed in floating point, and 0.25 is exactly between 0.2 and 0.3.
        let near = 1e-15;
        let (lower, upper) = (precision.lower(written), precision.upper(written));
        assert!(lower <= value + near && value <= upper + near, "{value} is not in [{lower}, {upper}]");
    }

    #[test]
    fn the_ends_of_an_interval_tell_the_number() {
        for i in 1..100 {
            let written = f64::from(i) / 100.0;
            for precision in [rounded(2, 2, false), rounded(4, 2, true), Precision::default()] {
                let upper = precision.upper(written);
                if upper < 1.0 {
                    let found = precision.written_below(upper);
                    assert!((precision.upper(found) - upper).abs() <= 1e-9, "{written}: {found}");
                }
                let lower = precision.lower(written);
                let found = precision.written_above(lower);
                assert!((precision.lower(found) - lower).abs() <= 1e-9, "{written}: {found}");
                assert!(found >= written - 1e-9, "{written}: {found}");
            }
        }
    }
}
