//! The statistics of a certificate: one pass over the log in f64, at two resolutions of the policy's
//! integrals, summed with compensation in an order that depends only on the log (docs/math.md#slack).

mod collect;
mod walk;

use std::ops::Range;

use ndarray::Array2;
use rayon::prelude::*;

use super::bound::{Bound, Played, Seen};
use super::control::Control;
use super::cost_model::CostModel;
use super::error::{EngineError, Result};
use super::log::ranges::blocks;
use super::log::{Chunk, LogSource, LoggedRows};
use super::numerics::exact::ExactSum;
use super::numerics::sum::{Sum, Sums};
use super::policy::{Policy, PolicyParams};
use super::refit::{LinearModel, Refitted};
use walk::{Walk, logged_rows};

pub use collect::{Collected, collect, collect_each, collect_logged};

/// The policy whose statistics are measured.
#[derive(Clone, Copy)]
pub enum Subject<'a> {
    /// A policy with parameters.
    Policy(&'a PolicyParams),
    /// A candidate that the log carries, by its position in `Capabilities::candidates`.
    Logged(usize),
}

/// Statistics, each with a bound on its numerical error.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The statistics.
    pub statistics: Vec<f64>,
    /// A bound on the numerical error of each statistic.
    pub errors: Vec<f64>,
}

/// What is summed over contexts.
pub trait Statistics: Sync {
    /// The number of statistics.
    fn count(&self) -> usize;

    /// Adds a context's terms under each of `played` to the `count()` numbers of each of `out`.
    ///
    /// # Errors
    /// If the statistics need propensities that `played` does not have.
    fn add(&self, seen: &Seen, played: &[Played], scratch: &mut Vec<f64>, out: &mut [Vec<f64>])
    -> Result<()>;

    /// The terms of rows of which only the probabilities of the logged actions are used, each a context of its own with one
    /// of `n_actions` actions. `out` gets the `count()` numbers of each row, one row after the other, as `add` computes
    /// them. False if there is no faster way than `add`.
    fn add_logged(&self, rows: &LoggedRows, n_actions: usize, out: &mut Vec<f64>) -> bool {
        let _ = (rows, n_actions, out);
        false
    }
}

/// The most rows that are passed to [`Statistics::add_logged`].
pub const ROWS_AT_ONCE: usize = 256;

impl Statistics for &dyn Bound {
    fn count(&self) -> usize {
        self.statistics()
    }

    fn add(&self, seen: &Seen, played: &[Played], h: &mut Vec<f64>, out: &mut [Vec<f64>]) -> Result<()> {
        let k = seen.n_actions;
        h.clear();
        h.resize(k * self.statistics(), 0.0);
        self.coefficients(seen, h)?;
        for (played, out) in played.iter().zip(out) {
            for (h, out) in h.chunks_exact(k).zip(out) {
                *out += match played {
                    Played::All(pi) => pi.iter().zip(h).map(|(pi, h)| pi * h).sum(),
                    // With one interaction, h is 0 for all actions but the logged one.
                    Played::Logged(pi) if pi.len() == 1 => pi[0] * h[seen.context.actions[0] as usize],
                    Played::Logged(_) => {
                        let message = format!(
                            "{} cannot be computed for a logged candidate if contexts were logged more than once",
                            self.name()
                        );
                        return Err(EngineError::Log(message));
                    }
                };
            }
        }
        Ok(())
    }
}

struct Block {
    /// The statistics, and the absolute difference that the coarser integral makes, summed over contexts.
    sums: [Sums; 2],
    worst_total: f64,
    rows: u64,
}

/// Measures `statistics` of `subject` on `log`, each divided by the number of contexts.
///
/// # Errors
/// If the log cannot be read or has an unexpected number of rows, or a number is not finite.
pub fn measure(
    log: &dyn LogSource,
    subject: Subject,
    cost_model: Option<&CostModel>,
    statistics: &dyn Statistics,
    control: &Control,
) -> Result<Measured> {
    // The link is made once for all chunks: the points of a mixed logit cost more than a chunk.
    let link = link_of(subject);
    let modeled = cost_model.map(Modeled::Fixed);
    let pass = Pass { log, player: player(subject, link.as_deref()), modeled, control };
    // Without integrals both resolutions are the same numbers, and their difference is 0.
    let resolutions = if safety_of(subject) > 0.0 { 2 } else { 1 };
    let blocks: Vec<Block> = blocks(log.chunks())
        .into_par_iter()
        .map(|range| measure_block(&pass, statistics, resolutions, range))
        .collect::<Result<_>>()?;
    expect_rows(log, blocks.iter().map(|b| b.rows).sum())?;
    let mut totals = [vec![Sum::default(); statistics.count()], vec![Sum::default(); statistics.count()]];
    let mut worst_total = 0.0f64;
    for block in &blocks {
        for (totals, sums) in totals.iter_mut().zip(&block.sums) {
            totals.iter_mut().zip(sums.each()).for_each(|(total, sum)| total.merge(&sum));
        }
        worst_total = worst_total.max(block.worst_total);
    }
    finish(&totals, worst_total, subject, log.shape().contexts as f64)
}

/// Sums `statistics` of `subject` over the contexts of `log` exactly, so that the sums of the parts of a log add up to the
/// same bits in every order.
///
/// # Errors
/// If the log cannot be read or has an unexpected number of rows, or propensities do not sum to 1.
pub fn sum_exactly(
    log: &dyn LogSource,
    subject: Subject,
    statistics: &dyn Statistics,
    control: &Control,
) -> Result<Vec<ExactSum>> {
    let link = link_of(subject);
    let pass = Pass { log, player: player(subject, link.as_deref()), modeled: None, control };
    let count = statistics.count();
    let parts: Vec<(Vec<ExactSum>, u64)> = blocks(log.chunks())
        .into_par_iter()
        .map(|range| {
            let (mut sums, mut scratch) = (vec![ExactSum::default(); count], Vec::new());
            let mut out = [vec![0.0; count]];
            let rows = pass.each(range, |visited| {
                check_total(visited.off)?;
                out[0].fill(0.0);
                statistics.add(&visited.seen, &visited.played[..1], &mut scratch, &mut out)?;
                sums.iter_mut().zip(&out[0]).for_each(|(sum, &term)| sum.add(term));
                Ok(())
            })?;
            Ok((sums, rows))
        })
        .collect::<Result<_>>()?;
    expect_rows(log, parts.iter().map(|(_, rows)| rows).sum())?;
    let mut totals = vec![ExactSum::default(); count];
    for (sums, _) in &parts {
        totals.iter_mut().zip(sums).for_each(|(total, sum)| total.merge(sum));
    }
    Ok(totals)
}

/// Checks how far Σπ may be from 1.
fn check_total(off: f64) -> Result<()> {
    if off.is_nan() || off > 1e-6 {
        return Err(EngineError::Numerical(format!("propensities sum to 1 only up to {off}")));
    }
    Ok(())
}

/// Means over contexts, and the bound on their error: the difference of the two resolutions times the
/// policy's safety factor, the effect of Σπ ≠ 1 and of the rounding of the scores, and the error of the
/// summation.
fn finish(totals: &[Vec<Sum>; 2], worst_total: f64, subject: Subject, contexts: f64) -> Result<Measured> {
    check_total(worst_total)?;
    let (safety, rounding) = (safety_of(subject), rounding_of(subject));
    let mut measured = Measured { statistics: Vec::new(), errors: Vec::new() };
    for (fine, difference) in totals[0].iter().zip(&totals[1]) {
        let (value, magnitude) = (fine.value() / contexts, fine.magnitude() / contexts);
        let quadrature = safety * difference.value() / contexts;
        let relative = worst_total + rounding + 16.0 * f64::EPSILON;
        let error = quadrature + relative * magnitude;
        if !value.is_finite() || !error.is_finite() {
            return Err(EngineError::Numerical(format!("a statistic of the log is {value} ± {error}")));
        }
        measured.statistics.push(value);
        measured.errors.push(error);
    }
    Ok(measured)
}

/// The factor of the difference between the two resolutions; 0 if the subject has no integrals.
fn safety_of(subject: Subject) -> f64 {
    match subject {
        Subject::Policy(policy) => policy.quadrature_safety(),
        Subject::Logged(_) => 0.0,
    }
}

/// How far the rounding of scores can move a propensity, relative to it.
fn rounding_of(subject: Subject) -> f64 {
    match subject {
        Subject::Policy(policy) => policy.score_rounding(),
        Subject::Logged(_) => 0.0,
    }
}

/// The subject, prepared for evaluation.
#[derive(Clone, Copy)]
enum Player<'a> {
    /// Parameters, their map from scores to propensities, and the share and policy of exploration.
    Policy { policy: &'a PolicyParams, link: &'a dyn Policy, explored: Option<(f64, &'a PolicyParams)> },
    /// The log's own candidate, by its position.
    Logged(usize),
}

fn link_of<'a>(subject: Subject<'a>) -> Option<Box<dyn Policy + 'a>> {
    match subject {
        Subject::Policy(policy) => Some(policy.link()),
        Subject::Logged(_) => None,
    }
}

fn player<'a>(subject: Subject<'a>, link: Option<&'a dyn Policy>) -> Player<'a> {
    match (subject, link) {
        (Subject::Policy(policy), Some(link)) => {
            let (policy, explored) = policy.parts();
            Player::Policy { policy, link, explored }
        }
        (Subject::Logged(candidate), _) => Player::Logged(candidate),
        (Subject::Policy(_), None) => unreachable!("a policy has a link"),
    }
}

fn expect_rows(log: &dyn LogSource, rows: u64) -> Result<()> {
    if rows == log.shape().rows {
        return Ok(());
    }
    Err(EngineError::Log(format!("{rows} rows were read, but {} were expected", log.shape().rows)))
}

/// One pass over the contexts of a log.
struct Pass<'a> {
    log: &'a dyn LogSource,
    player: Player<'a>,
    modeled: Option<Modeled<'a>>,
    control: &'a Control<'a>,
}

/// Where a cost model comes from.
#[derive(Clone, Copy)]
pub enum Modeled<'a> {
    /// It was fitted on rows that are not certified.
    Fixed(&'a CostModel<'a>),
    /// It is linear, and was fitted on rows that are not certified.
    Linear(&'a LinearModel),
    /// It is refitted on the blocks that were played before.
    Refitted(&'a Refitted<'a>),
}

impl Modeled<'_> {
    /// ĉ(x, ·) of each context of a chunk.
    fn costs(&self, chunk: &Chunk) -> Result<Array2<f64>> {
        match self {
            Modeled::Fixed(model) => model.costs(chunk.situations()),
            Modeled::Linear(model) => Ok(model.costs_of(chunk.situations())),
            Modeled::Refitted(models) => Ok(models.costs(chunk.situations(), &chunk.ordinals)),
        }
    }
}

/// One context of a pass.
struct Visited<'a> {
    seen: Seen<'a>,
    ordinal: u64,
    /// What the subject plays, at the fine and at the coarse resolution of its integrals.
    played: [Played<'a>; 2],
    /// How far the propensities can be off, relative to their size.
    off: f64,
}

impl Pass<'_> {
    /// Whether nothing is computed from features.
    fn is_lean(&self) -> bool {
        matches!(self.player, Player::Logged(_)) && self.modeled.is_none()
    }

    /// The candidate, if nothing but its π(a|x) of the logged actions is used and every row is a context of its own.
    fn logged_alone(&self) -> Option<usize> {
        let Player::Logged(candidate) = self.player else { return None };
        let repeated = self.log.shape().capabilities.multiple_interactions;
        (self.is_lean() && !repeated && !self.plays_all(candidate)).then_some(candidate)
    }

    /// Whether the log carries π(·|x) of a candidate, to be used.
    fn plays_all(&self, candidate: usize) -> bool {
        let capabilities = &self.log.shape().capabilities;
        let name = capabilities.candidates.get(candidate);
        name.is_some_and(|name| capabilities.candidate_propensities.contains(name))
            && !capabilities.precision_of(candidate).is_coarse()
    }

    /// Visits the contexts of some chunks. Returns the number of their rows.
    fn each(&self, range: Range<usize>, mut visit: impl FnMut(&Visited) -> Result<()>) -> Result<u64> {
        let (log, mut rows) = (self.log, 0);
        for index in range {
            self.control.check()?;
            let chunk = match self.is_lean() {
                true => log.lean_chunk(index)?,
                false => log.chunk(index)?,
            };
            match self.is_lean() {
                true => chunk.check_lean(log.shape())?,
                false => chunk.check(log.shape())?,
            }
            rows += chunk.rows() as u64;
            let modeled = self.modeled.map(|modeled| modeled.costs(&chunk)).transpose()?;
            let mut walk = Walk::new(&chunk, self.player, &log.shape().capabilities)?;
            for c in 0..chunk.contexts() {
                let seen = Seen {
                    n_actions: log.shape().n_actions,
                    context: chunk.context(c),
                    cost_model: modeled.as_ref().map(|m| m.row(c).to_slice().expect("row-major")),
                };
                let (played, off) = walk.context(c);
                if off.is_nan() {
                    return Err(EngineError::Numerical("a propensity is not a number".into()));
                }
                visit(&Visited { seen, ordinal: chunk.ordinals[c], played, off })?;
            }
        }
        Ok(rows)
    }
}

fn measure_block(
    pass: &Pass,
    statistics: &dyn Statistics,
    resolutions: usize,
    range: Range<usize>,
) -> Result<Block> {
    let count = statistics.count();
    let mut sums = [Sums::new(count), Sums::new(count)];
    if let Some(candidate) = pass.logged_alone()
        && let Some(rows) = measure_columns(pass, statistics, candidate, range.clone(), &mut sums[0])?
    {
        return Ok(Block { sums, worst_total: 0.0, rows });
    }
    let mut apart = vec![0.0; count];
    let (mut worst_total, mut scratch) = (0.0f64, Vec::new());
    let mut out = [vec![0.0; count], vec![0.0; count]];
    let rows = pass.each(range, |visited| {
        worst_total = worst_total.max(visited.off);
        out[..resolutions].iter_mut().for_each(|out| out.fill(0.0));
        statistics.add(
            &visited.seen,
            &visited.played[..resolutions],
            &mut scratch,
            &mut out[..resolutions],
        )?;
        let ([fine, coarse], [values, differences]) = (&out, &mut sums);
        values.add(fine);
        if resolutions > 1 {
            apart.iter_mut().zip(fine.iter().zip(coarse)).for_each(|(to, (f, c))| *to = (f - c).abs());
            differences.add(&apart);
        }
        Ok(())
    })?;
    Ok(Block { sums, worst_total, rows })
}

/// The same column by column, with the same bits, and the number of rows. `None` if the statistics have no faster way than
/// row by row; nothing was added then.
fn measure_columns(
    pass: &Pass,
    statistics: &dyn Statistics,
    candidate: usize,
    range: Range<usize>,
    sums: &mut Sums,
) -> Result<Option<u64>> {
    let (mut rows, mut terms) = (0, Vec::new());
    for index in range {
        pass.control.check()?;
        let chunk = pass.log.lean_chunk(index)?;
        chunk.check_lean(pass.log.shape())?;
        rows += chunk.rows() as u64;
        for block in logged_rows(&chunk, candidate)?.blocks(ROWS_AT_ONCE) {
            terms.clear();
            if !statistics.add_logged(&block, pass.log.shape().n_actions, &mut terms) {
                return Ok(None);
            }
            sums.add_rows(&terms);
        }
    }
    Ok(Some(rows))
}
