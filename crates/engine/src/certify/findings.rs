//! What the certified rows show about a policy besides its bounds: how much they overlap with it, how much they vary,
//! and what rounding costs. Causes and plans read it; no guarantee does.

use crate::bound::{Played, Seen};
use crate::control::Control;
use crate::error::{EngineError, Result};
use crate::log::{LogShape, LogSource, LoggedRows, Precision};
use crate::measure::{Statistics, Subject, measure};
use crate::numerics::dispatch_wide;
use crate::numerics::exact::ExactSum;
use crate::numerics::exact_terms::add_all_to;

/// A logged propensity of at least this counts as certain.
const CERTAIN: f64 = 1.0 - 1e-9;
/// An action with a smaller propensity than this, or than half of its even share, was hardly explored.
const HARDLY: f64 = 0.01;
/// Shares of exploration that plans compare with.
pub const SHARES: [f64; 4] = [0.05, 0.1, 0.2, 0.5];
/// Where the numbers of the shares of exploration begin.
const EXPLORED: usize = 11;

/// What the certified rows show about one policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// The number of rows.
    pub rows: f64,
    /// The number of contexts.
    pub contexts: f64,
    /// The importance-weighted estimate of the improvement, with rounded numbers at the ends of their intervals.
    pub improvement: f64,
    /// The standard deviation of that estimate's terms.
    pub spread: f64,
    /// The importance-weighted estimate of the risk, with rounded numbers at the ends of their intervals.
    pub risk: f64,
    /// What the rounding of probabilities takes off the estimates.
    pub rounding: f64,
    /// The mean weight, which is near 1 if the log explores everything that the policy plays.
    pub mean_weight: f64,
    /// How many rows of equal weight the rows are worth.
    pub effective_rows: f64,
    /// How many contexts of equal say about the improvement the contexts are worth.
    pub effective: f64,
    /// The share of the policy's decisions that the log hardly explored.
    pub unexplored: f64,
    /// The share of the rows whose action was certain.
    pub deterministic: f64,
    /// Whether the policy plays what the logging policy plays.
    pub same: bool,
    /// The standard deviation with the best constant control variate of looks at any time.
    pub controlled_spread: f64,
    /// Whether looks at any time can use that control variate.
    pub controlled: bool,
    /// Shares of exploration, each with the factor by which the variance would change.
    pub exploration: Vec<(f64, f64)>,
}

/// The number of terms.
pub const FINDINGS: usize = EXPLORED + SHARES.len();

/// The terms of the findings of a policy on a log, per context. The mean of the cost times the weight is the estimated
/// risk.
pub fn findings_of(log: &dyn LogSource, subject: Subject) -> Box<dyn Statistics> {
    Box::new(Terms::of(log, subject))
}

/// The terms of the findings, per context.
struct Terms {
    /// How propensities were written, if they were rounded.
    propensities: Option<Precision>,
    /// How the candidate's probabilities were written, if they were rounded.
    candidate: Option<Precision>,
}

impl Terms {
    fn of(log: &dyn LogSource, subject: Subject) -> Terms {
        let capabilities = &log.shape().capabilities;
        let coarse = |precision: Precision| Some(precision).filter(|precision| precision.is_coarse());
        Terms {
            propensities: coarse(capabilities.precision).filter(|_| !capabilities.uniform),
            candidate: match subject {
                Subject::Logged(place) => coarse(capabilities.precision_of(place)),
                Subject::Policy(_) => None,
            },
        }
    }

    /// The weight as it was written.
    fn written(&self, played: f64, propensity: f64) -> f64 {
        let played = self.candidate.map_or(played, |precision| precision.written_above(played));
        let propensity =
            self.propensities.map_or(propensity, |precision| precision.written_below(propensity));
        // A written 0 has no weight of its own.
        if propensity > 0.0 { played / propensity } else { 0.0 }
    }

    fn add_to(&self, seen: &Seen, played: &Played, out: &mut [f64]) {
        let context = &seen.context;
        let k = seen.n_actions as f64;
        let (mut gain, mut explored) = (0.0, [0.0; SHARES.len()]);
        for j in 0..context.actions.len() {
            let (share, cost, p) = (context.weights[j], context.costs[j], context.propensities[j]);
            let pi = played.of(j, context.actions[j]);
            let weight = pi / p;
            let off = weight - 1.0;
            gain += share * -off * cost;
            out[3] += share * weight;
            out[4] += share * weight * weight;
            out[5] += share * off * off * cost;
            out[6] += share * off * off;
            out[7] += share * self.written(pi, p) * cost;
            out[8] += share * weight * cost;
            out[9] += if p >= CERTAIN { share } else { 0.0 };
            for (square, rate) in explored.iter_mut().zip(SHARES) {
                let mixed = (1.0 - rate) * p + rate / k;
                let off = pi / mixed - 1.0;
                *square += share * (mixed / p) * off * off * cost * cost;
            }
        }
        out[0] += gain;
        out[1] += gain * gain;
        out[2] += gain.abs();
        if let (Played::All(pi), Some(full)) = (played, context.full) {
            let total: f64 = context.weights.iter().sum();
            let available = full.iter().filter(|p| **p > 0.0).count().max(1) as f64;
            let limit = HARDLY.min(0.5 / available);
            let hardly = pi.iter().zip(full).filter(|(_, p)| **p < limit);
            out[10] += total * hardly.map(|(pi, _)| pi).sum::<f64>();
        }
        out[EXPLORED..].iter_mut().zip(explored).for_each(|(out, square)| *out += square);
    }
}

/// How many rows are looked at at once, and how many sums of theirs are not 0 or a count.
const AT_ONCE: usize = 512;
const TERMS: usize = 12;

/// Where each of the terms belongs. Without rounding, the seventh and the eighth number are the same.
const PLACES: [usize; TERMS] = [0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14];

/// Adds the terms of [`findings_of`] of a logged candidate to their sums, with the same bits. K is the number of actions.
pub fn add_logged(rows: &LoggedRows, k: usize, sums: &mut [ExactSum]) {
    let mut terms = [[0.0; AT_ONCE]; TERMS];
    for rows in rows.blocks(AT_ONCE) {
        let n = rows.costs.len();
        terms_of(rows.played, rows.propensities, rows.costs, k as f64, &mut terms);
        for (terms, place) in terms.iter().zip(PLACES) {
            match &mut sums[place..] {
                [written, used, ..] if place == 7 => add_all_to([written, used], &terms[..n]),
                [sum, ..] => sum.add_all(&terms[..n]),
                [] => {}
            }
        }
        let certain = rows.propensities.iter().filter(|&&p| p >= CERTAIN).count();
        sums[9].add(certain as f64);
    }
}

dispatch_wide! {
    fn terms_of(played: &[f64], propensities: &[f64], costs: &[f64], k: f64, out: &mut [[f64; AT_ONCE]; TERMS]) = terms_of_body
}

/// As [`Terms::add_to`] for contexts with one interaction.
#[inline(always)]
fn terms_of_body(
    played: &[f64],
    propensities: &[f64],
    costs: &[f64],
    k: f64,
    out: &mut [[f64; AT_ONCE]; TERMS],
) {
    let n = costs.len().min(AT_ONCE);
    let (played, propensities, costs) = (&played[..n], &propensities[..n], &costs[..n]);
    for i in 0..n {
        let (pi, p, cost) = (played[i], propensities[i], costs[i]);
        let weight = pi / p;
        let off = weight - 1.0;
        let gain = -off * cost;
        out[0][i] = gain;
        out[1][i] = gain * gain;
        out[2][i] = gain.abs();
        out[3][i] = weight;
        out[4][i] = weight * weight;
        out[5][i] = off * off * cost;
        out[6][i] = off * off;
        out[7][i] = weight * cost;
    }
    for (out, rate) in out[8..].iter_mut().zip(SHARES) {
        for i in 0..n {
            let (pi, p, cost) = (played[i], propensities[i], costs[i]);
            let mixed = (1.0 - rate) * p + rate / k;
            let off = pi / mixed - 1.0;
            out[i] = (mixed / p) * off * off * cost * cost;
        }
    }
}

impl Terms {
    /// Adds the rows of a block as [`Statistics::add_logged`] has them.
    fn add_block(rows: &LoggedRows, k: f64, terms: &mut [[f64; AT_ONCE]; TERMS], out: &mut Vec<f64>) {
        terms_of(rows.played, rows.propensities, rows.costs, k, terms);
        let first = out.len();
        out.resize(first + FINDINGS * rows.costs.len(), 0.0);
        for (i, row) in out[first..].chunks_exact_mut(FINDINGS).enumerate() {
            for (terms, place) in terms.iter().zip(PLACES) {
                row[place] = terms[i];
            }
            row[8] = row[7];
            row[9] = if rows.propensities[i] >= CERTAIN { 1.0 } else { 0.0 };
        }
    }
}

impl Statistics for Terms {
    fn count(&self) -> usize {
        FINDINGS
    }

    fn add_logged(&self, rows: &LoggedRows, n_actions: usize, out: &mut Vec<f64>) -> bool {
        // Numbers as they were written are not those of the rows.
        if self.propensities.is_some() || self.candidate.is_some() {
            return false;
        }
        let mut terms = [[0.0; AT_ONCE]; TERMS];
        rows.blocks(AT_ONCE).for_each(|rows| Terms::add_block(&rows, n_actions as f64, &mut terms, out));
        true
    }

    fn add(&self, seen: &Seen, played: &[Played], _: &mut Vec<f64>, out: &mut [Vec<f64>]) -> Result<()> {
        played.iter().zip(out).for_each(|(played, out)| self.add_to(seen, played, out));
        Ok(())
    }
}

/// The factors of the control variate in looks at any time.
const FACTORS: [f64; 3] = [0.0, 0.25, 0.6];

impl Findings {
    /// Measures a policy on rows. None if a number is not finite, which no job may fail for.
    ///
    /// # Errors
    /// If the log cannot be read or the job is canceled.
    pub fn measure(log: &dyn LogSource, subject: Subject, control: &Control) -> Result<Option<Findings>> {
        match measure(log, subject, None, &Terms::of(log, subject), control) {
            Ok(measured) => Ok(Some(Findings::of(log.shape(), subject, &measured.statistics))),
            Err(EngineError::Numerical(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The findings from the means of their terms.
    pub fn of(shape: &LogShape, subject: Subject, s: &[f64]) -> Findings {
        let capabilities = &shape.capabilities;
        let (rows, contexts) = (shape.rows as f64, shape.contexts as f64);
        let ratio = |over: f64, under: f64| if under > 0.0 { over / under } else { 0.0 };
        let variance = (s[1] - s[0] * s[0]).max(0.0);
        // Weights have the mean 1 unless the policy plays what the log never does.
        let missing = 1.0 - s[3];
        let error = ((s[4] - s[3] * s[3]).max(0.0) / contexts).sqrt();
        let counted = match subject {
            Subject::Policy(_) => capabilities.full_propensities,
            Subject::Logged(place) => {
                let name = capabilities.candidates.get(place);
                capabilities.full_propensities
                    && name.is_some_and(|name| capabilities.candidate_propensities.contains(name))
                    && !capabilities.precision_of(place).is_coarse()
            }
        };
        // z = −gain + θ(weight − 1): the variance of looks at any time, at the best of its factors.
        let controlled = |factor: f64| {
            let mean = -s[0] + factor * (s[3] - 1.0);
            s[1] + 2.0 * factor * s[5] + factor * factor * s[6] - mean * mean
        };
        let least = FACTORS.into_iter().map(controlled).fold(f64::INFINITY, f64::min);
        let usable = counted && capabilities.control_variate() && !capabilities.multiple_interactions;
        let factor = |square: f64| ratio((square - s[0] * s[0]).max(0.0), variance);
        let explorable = capabilities.action_sets.is_none() && variance > 0.0;
        let exploration =
            (SHARES.into_iter().zip(&s[EXPLORED..])).map(|(share, square)| (share, factor(*square)));
        Findings {
            rows,
            contexts,
            improvement: s[0],
            spread: variance.sqrt(),
            risk: s[8],
            rounding: s[8] - s[7],
            mean_weight: s[3],
            effective_rows: rows * ratio(s[3] * s[3], s[4]),
            effective: contexts * ratio(s[2] * s[2], s[1]),
            unexplored: match counted {
                true => s[10].clamp(0.0, 1.0),
                false if missing > 3.0 * error => missing.clamp(0.0, 1.0),
                false => 0.0,
            },
            deterministic: s[9],
            same: s[6] <= 1e-18,
            controlled_spread: if usable { least.max(0.0).sqrt() } else { variance.sqrt() },
            controlled: usable,
            exploration: exploration.filter(|_| explorable).collect(),
        }
    }
}
