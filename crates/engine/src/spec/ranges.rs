//! The ranges of the numbers of a spec. Every number outside of its range is rejected when the job is submitted:
//! it would overflow in a bound, could not be written to a certificate, or asks for something pointless.

use std::fmt;

/// A closed interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    min: f64,
    max: f64,
    /// What the numbers are, if that is not obvious.
    unit: &'static str,
}

impl Range {
    /// The numbers from `min` to `max`.
    pub const fn new(min: f64, max: f64) -> Self {
        Range { min, max, unit: "" }
    }

    /// Whether the range has this number. It never has NaN.
    pub fn contains(&self, value: f64) -> bool {
        (self.min..=self.max).contains(&value)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "[{}, {}]{}", text(self.min), text(self.max), self.unit)
    }
}

/// A number for messages. Nobody reads a number with hundreds of digits.
pub fn text(value: f64) -> String {
    match value.abs() {
        size if size >= 1e15 || (size > 0.0 && size < 1e-4) => format!("{value:e}"),
        _ => value.to_string(),
    }
}

/// δ of one look. Below the minimum, rounding errors are no longer small compared with δ; with a δ close to 1,
/// a certificate states nothing.
pub const DELTA: Range = Range::new(1e-12, 0.999);
/// The number of looks of a family.
pub const FAMILY_LOOKS: Range = Range::new(1.0, 10_000.0);
/// The clipping level. The minimum is below 1/K for every K that a server accepts; 1/τ² must not overflow.
pub const TAU: Range = Range::new(1e-9, 1.0);
/// The control variate.
pub const XI: Range = Range::new(-1.0, 0.0);
/// The largest control variate below 0. The bets of a smaller one would be so large that they overflow.
pub const NEAREST_XI: f64 = -1e-6;
/// The required improvement, in the paper's units.
pub const MIN_IMPROVEMENT: Range = Range::new(0.0, 1.0);
/// The largest loss that a guardrail allows, in the paper's units.
pub const MAX_LOSS: Range = Range::new(0.0, 1.0);
/// The traffic.
pub const ROWS_PER_DAY: Range = Range::new(1e-6, 1e12);
/// A known risk.
pub const RISK: Range = Range { min: -1.0, max: 0.0, unit: ", the paper's units" };
/// The share of exploration.
pub const EXPLORE: Range = Range::new(0.0, 0.5);
/// The standard deviation of a prior.
pub const PRIOR_SCALE: Range = Range::new(1e-6, 1e6);
/// The share of the learn side.
pub const PRIOR_FRACTION: Range = Range::new(0.01, 0.99);
/// The passes of an optimizer over all rows.
pub const EPOCHS: Range = Range::new(1.0, 100_000.0);
/// The step size of an optimizer.
pub const LEARNING_RATE: Range = Range::new(1e-9, 10.0);
/// The contexts of a minibatch. The maximum can be written to a certificate exactly, and is more than a log has.
pub const BATCH_SIZE: Range = Range::new(1.0, 1e9);
/// The time limit of an optimizer: a day.
pub const MAX_SECONDS: Range = Range::new(0.0, 86_400.0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_closed_and_have_no_nan() {
        assert!(DELTA.contains(1e-12) && DELTA.contains(0.999));
        for outside in [0.0, 9e-13, 0.9991, 1.0, f64::NAN, f64::INFINITY, -1.0] {
            assert!(!DELTA.contains(outside), "{outside}");
        }
    }

    #[test]
    fn ranges_are_shown_as_intervals() {
        assert_eq!(DELTA.to_string(), "[1e-12, 0.999]");
        assert_eq!(BATCH_SIZE.to_string(), "[1, 1000000000]");
        assert_eq!(RISK.to_string(), "[-1, 0], the paper's units");
        assert_eq!([0.0, 20.0, 1e-320, -1e300, f64::NAN].map(text).join(" "), "0 20 1e-320 -1e300 NaN");
    }
}
