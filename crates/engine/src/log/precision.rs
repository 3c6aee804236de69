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
    /// Whether they are single-precision numbers.
    pub single: bool,
}

/// Numbers with this many decimals or more count as unrounded: the error is near that of their type.
const FINE: u8 = 9;
/// The same for single precision, which has about seven digits.
const FINE_SINGLE: u8 = 7;

impl Precision {
    /// Whether rounding must be accounted for row by row.
    pub fn is_coarse(self) -> bool {
        self.decimals.is_some()
    }

    /// Half the width of the interval that a written probability stands for.
    pub fn half_width(self, written: f64) -> f64 {
        let absolute = self.decimals.map_or(0.0, |d| 0.5 / scale(d));
        let relative = if self.single { f64::from(f32::EPSILON) / 2.0 } else { 0.0 };
        absolute + relative * written
    }

    /// The upper end of the interval.
    pub fn upper(self, written: f64) -> f64 {
        (written + self.half_width(written)).min(1.0)
    }

    /// The lower end of the interval.
    pub fn lower(self, written: f64) -> f64 {
        (written - self.half_width(written)).max(0.0)
    }
}

/// Finds the precision of probabilities as they are read, whatever format they were written in.
#[derive(Debug, Clone, Default)]
pub struct PrecisionFinder {
    decimals: [u8; 2],
    double: bool,
}

impl PrecisionFinder {
    /// Looks at a probability.
    pub fn see(&mut self, value: f64) {
        let single = value as f32;
        self.double |= f64::from(single) != value;
        // A log in single precision shows its decimals only in single precision.
        raise(&mut self.decimals[0], |scale| (value * scale).round() / scale == value);
        raise(&mut self.decimals[1], |scale| ((value * scale).round() / scale) as f32 == single);
    }

    /// The precision of what was seen.
    pub fn finish(&self) -> Precision {
        let (decimals, fine) = match self.double {
            true => (self.decimals[0], FINE),
            false => (self.decimals[1], FINE_SINGLE),
        };
        // Numbers without decimals are 0 and 1: those of a deterministic policy, not rounded ones.
        let rounded = (1..fine).contains(&decimals);
        Precision { decimals: rounded.then_some(decimals), single: !self.double && decimals > 0 }
    }
}

/// 10^decimals; at most 10^9, which is exact.
fn scale(decimals: u8) -> f64 {
    (0..decimals.min(FINE)).fold(1.0, |scale, _| 10.0 * scale)
}

/// Raises `decimals` until a number has that many.
fn raise(decimals: &mut u8, has: impl Fn(f64) -> bool) {
    while *decimals < FINE && !has(scale(*decimals)) {
        *decimals += 1;
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

    #[test]
    fn decimals_are_those_that_were_written() {
        assert_eq!(found(&[0.333, 0.25, 0.1]), Precision { decimals: Some(3), single: false });
        assert_eq!(found(&[0.0, 1.0]), Precision::default());
        assert_eq!(found(&[0.5, 0.25]), Precision { decimals: Some(2), single: true });
        assert_eq!(found(&[1.0 / 3.0, 0.5]), Precision { decimals: None, single: false });
        let single = |value: f64| f64::from(value as f32);
        assert_eq!(found(&[single(0.333), single(0.1)]), Precision { decimals: Some(3), single: true });
        assert_eq!(found(&[single(1.0 / 3.0)]), Precision { decimals: None, single: true });
    }

    #[test]
    fn the_interval_contains_the_number_that_was_rounded() {
        for i in 1..1000 {
            let value = f64::from(i) / 1001.0;
            for decimals in 1..9u8 {
                let scale = scale(decimals);
                let written = (value * scale).round() / scale;
                let precision = Precision { decimals: Some(decimals), single: false };
                assert!(precision.lower(written) <= value && value <= precision.upper(written));
            }
        }
    }
}
