//! Estimates of a policy's risk without a guarantee (docs/math.md#estimators): cIPS and, with a control
//! variate, cvcIPS. If a context has several interactions, they are averaged first.

use super::bound::{Played, Seen};
use super::control::Control;
use super::error::Result;
use super::log::{LogSource, LoggedRows};
use super::measure::{Statistics, Subject, measure};

struct Weighted {
    tau: f64,
    xi: f64,
}

impl Statistics for Weighted {
    fn count(&self) -> usize {
        1
    }

    fn add(&self, seen: &Seen, played: &[Played], _: &mut Vec<f64>, out: &mut [Vec<f64>]) -> Result<()> {
        let context = &seen.context;
        for (played, out) in played.iter().zip(out) {
            for j in 0..context.actions.len() {
                let weight = played.of(j, context.actions[j]) / context.propensities[j].max(self.tau);
                out[0] += context.weights[j] * weight * (context.costs[j] - self.xi);
            }
        }
        Ok(())
    }

    fn add_logged(&self, rows: &LoggedRows, _: usize, out: &mut Vec<f64>) -> bool {
        let weights = rows.played.iter().zip(rows.propensities).map(|(pi, p)| pi / p.max(self.tau));
        out.extend(weights.zip(rows.costs).map(|(weight, cost)| weight * (cost - self.xi)));
        true
    }
}

/// The cIPS estimate R̂^τ(π) of a policy's risk; τ = 0 is importance weighting without clipping.
pub fn cips(log: &dyn LogSource, subject: Subject, tau: f64, control: &Control) -> Result<f64> {
    cvcips(log, subject, tau, 0.0, control)
}

/// The cvcIPS estimate R̂^{τ,ξ}(π) of a policy's risk.
pub fn cvcips(log: &dyn LogSource, subject: Subject, tau: f64, xi: f64, control: &Control) -> Result<f64> {
    let measured = measure(log, subject, None, &Weighted { tau, xi }, control)?;
    Ok(xi + measured.statistics[0])
}

/// An estimate of the improvement R(π0) − R(π), with the standard error of that estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
}

struct Differences;

impl Statistics for Differences {
    fn count(&self) -> usize {
        2
    }

    fn add(&self, seen: &Seen, played: &[Played], _: &mut Vec<f64>, out: &mut [Vec<f64>]) -> Result<()> {
        let context = &seen.context;
        for (played, out) in played.iter().zip(out) {
            let mut gain = 0.0;
            for j in 0..context.actions.len() {
                let weight = played.of(j, context.actions[j]) / context.propensities[j];
                gain += context.weights[j] * (1.0 - weight) * context.costs[j];
            }
            out[0] += gain;
            out[1] += gain * gain;
        }
        Ok(())
    }

    fn add_logged(&self, rows: &LoggedRows, _: usize, out: &mut Vec<f64>) -> bool {
        let weights = rows.played.iter().zip(rows.propensities).map(|(pi, p)| pi / p);
        out.extend(weights.zip(rows.costs).flat_map(|(weight, cost)| {
            let gain = (1.0 - weight) * cost;
            [gain, gain * gain]
        }));
        true
    }
}

/// The importance-weighted estimate of the improvement, without clipping and without a guarantee.
pub fn improvement(log: &dyn LogSource, subject: Subject, control: &Control) -> Result<Estimate> {
    let measured = measure(log, subject, None, &Differences, control)?;
    let (mean, square) = (measured.statistics[0], measured.statistics[1]);
    let n = log.shape().contexts.max(1) as f64;
    Ok(Estimate { value: mean, standard_error: ((square - mean * mean).max(0.0) / n).sqrt() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certify::findings_of;
    use crate::control::unattended;
    use crate::log::MemoryLog;
    use crate::partial::tests::logged_columns;

    /// Statistics that are only added row by row.
    struct RowByRow<'a>(&'a dyn Statistics);

    impl Statistics for RowByRow<'_> {
        fn count(&self) -> usize {
            self.0.count()
        }

        fn add(&self, seen: &Seen, played: &[Played], h: &mut Vec<f64>, out: &mut [Vec<f64>]) -> Result<()> {
            self.0.add(seen, played, h, out)
        }
    }

    #[test]
    fn columns_have_the_bits_of_rows() {
        for rows in [1, 255, 257, 20_000] {
            let log = MemoryLog::new(logged_columns(rows, 3, false)).unwrap();
            let subject = Subject::Logged(0);
            let findings = findings_of(&log, subject);
            let all: [&dyn Statistics; 4] =
                [&*findings, &Differences, &Weighted { tau: 0.0, xi: 0.0 }, &Weighted { tau: 0.2, xi: -0.3 }];
            for statistics in all {
                let [fast, slow] = [statistics, &RowByRow(statistics)].map(|statistics: &dyn Statistics| {
                    let measured = measure(&log, subject, None, statistics, &unattended()).unwrap();
                    measured
                        .statistics
                        .into_iter()
                        .chain(measured.errors)
                        .map(f64::to_bits)
                        .collect::<Vec<_>>()
                });
                assert_eq!(fast, slow, "{rows} rows");
                assert!(fast.iter().any(|bits| *bits != 0));
            }
        }
    }
}
