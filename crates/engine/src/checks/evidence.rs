//! E-values on the log scale, and results from them.

use super::{CheckName, CheckResult, CheckScope};
use crate::numerics::elementary;

/// Evidence above this is reported as this.
pub(super) const MAX_EVIDENCE: f64 = 1e300;

// The only transcendental functions of the checks. No row calls them.

pub(super) fn ln(x: f64) -> f64 {
    elementary::ln(x)
}

fn exp(x: f64) -> f64 {
    elementary::exp(x)
}

/// ln Σ weight·e^value, or NaN if a value is NaN.
pub(super) fn log_mix(parts: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let mut top = f64::NEG_INFINITY;
    for (_, value) in parts.clone() {
        if value.is_nan() {
            return f64::NAN;
        }
        top = top.max(value);
    }
    if !top.is_finite() {
        return top;
    }
    top + ln(parts.map(|(weight, value)| weight * exp(value - top)).sum())
}

/// ln of the mean of e^value. A mean of e-values is an e-value, and it loses less than Bonferroni's bound.
pub(super) fn log_mean(values: &[f64]) -> f64 {
    let weight = 1.0 / values.len().max(1) as f64;
    log_mix(values.iter().map(|&value| (weight, value)))
}

/// The evidence of an e-value given by its logarithm. NaN is the strongest evidence: it must not pass.
fn from_log(log: f64) -> f64 {
    if log < ln(MAX_EVIDENCE) { exp(log) } else { MAX_EVIDENCE }
}

/// A number that JSON can hold.
fn finite(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(-MAX_EVIDENCE, MAX_EVIDENCE) }
}

/// What a check found, before it is judged.
pub(super) struct Finding {
    pub name: CheckName,
    pub subject: Option<String>,
    pub observed: f64,
    pub expected: f64,
    /// The logarithm of the evidence.
    pub log_evidence: f64,
    pub rows: u64,
    /// What was found.
    pub message: String,
    /// What to do if the check failed.
    pub remedy: &'static str,
    /// Whether nothing was tested; the message says why.
    pub skipped: bool,
}

impl Finding {
    /// The finding of a check that was not made.
    pub fn skipped(name: CheckName, reason: impl Into<String>) -> Finding {
        Finding {
            name,
            subject: None,
            observed: 0.0,
            expected: 0.0,
            log_evidence: 0.0,
            rows: 0,
            message: reason.into(),
            remedy: "",
            skipped: true,
        }
    }

    /// The result at a level. `invalid` rows could not be read, so nothing can be said for the log.
    pub fn judge(self, scope: CheckScope, level: f64, invalid: u64) -> CheckResult {
        let evidence = from_log(self.log_evidence);
        let sound = self.observed.is_finite() && self.expected.is_finite() && invalid == 0;
        let ok = match self.skipped && invalid == 0 {
            true => None,
            false => Some(sound && evidence < 1.0 / level),
        };
        let message = match (invalid, ok) {
            (0, Some(false)) => format!("{}: {}", self.message, self.remedy),
            (0, _) => self.message,
            _ => format!(
                "numbers are out of their range in {invalid} of the rows: check values before logging them"
            ),
        };
        CheckResult {
            name: self.name,
            subject: self.subject,
            scope,
            ok,
            observed: finite(self.observed),
            expected: finite(self.expected),
            evidence,
            level,
            rows: self.rows,
            message,
        }
    }
}

/// A number for people: four decimals, or powers of ten if it is very large or very small.
pub(super) fn readable(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-3..1e9).contains(&size) { format!("{value:.4}") } else { format!("{value:.3e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_e_values_neither_overflow_nor_hide_nan() {
        assert!((log_mean(&[0.0, 0.0]) - 0.0).abs() < 1e-15);
        assert!((log_mean(&[1e6, 0.0]) - (1e6 - 2f64.ln())).abs() < 1e-6);
        assert_eq!(log_mean(&[f64::NEG_INFINITY]), f64::NEG_INFINITY);
        assert!(log_mean(&[0.0, f64::NAN]).is_nan());
        assert_eq!(from_log(f64::NAN), MAX_EVIDENCE);
        assert_eq!(from_log(f64::INFINITY), MAX_EVIDENCE);
        assert_eq!(from_log(f64::NEG_INFINITY), 0.0);
    }
}
