//! The statistics of a certificate: one pass over the log in f64, at two resolutions of the policy's
//! integrals, summed with compensation in an order that depends only on the log (docs/math.md#slack).

use std::ops::Range;

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

use super::bound::{Bound, ControlVariate, Order, Play, Played, Rules, Seen, Table};
use super::control::Control;
use super::cost_model::CostModel;
use super::error::{EngineError, Result};
use super::log::ranges::blocks;
use super::log::{Capabilities, Chunk, LogSource};
use super::numerics::exact::ExactSum;
use super::numerics::sum::{Sum, Sums};
use super::policy::{Policy, PolicyParams, Scored, Scratch, mixed};
use super::refit::{LinearModel, Refitted};

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
}

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

/// The plays of a log, in order of arrival, and the block of each if there is a random order.
pub struct Collected {
    /// The plays.
    pub table: Table,
    /// The block of each play; empty without a random order.
    pub blocks: Vec<u16>,
}

impl Collected {
    /// No plays yet.
    fn new(rules: &Rules) -> Self {
        Collected { table: Table::new(rules.kappa), blocks: Vec::new() }
    }
}

/// Collects z of `subject` on `log`, rounded up by its numerical error.
///
/// # Errors
/// If the log cannot be read or has an unexpected number of rows, or a number is not finite.
pub fn collect(
    log: &dyn LogSource,
    subject: Subject,
    modeled: Option<Modeled>,
    rules: &Rules,
    order: Option<&Order>,
    control: &Control,
) -> Result<Collected> {
    let [collected] = collect_each(log, subject, modeled, [rules], order, control)?;
    Ok(collected)
}

/// The same for several rules at once, in one pass over the log.
///
/// # Errors
/// As [`collect`].
pub fn collect_each<const N: usize>(
    log: &dyn LogSource,
    subject: Subject,
    modeled: Option<Modeled>,
    rules: [&Rules; N],
    order: Option<&Order>,
    control: &Control,
) -> Result<[Collected; N]> {
    let link = link_of(subject);
    let pass = Pass { log, player: player(subject, link.as_deref()), modeled, control };
    let precision = Uncertainty::new(log, subject);
    let parts: Vec<([Collected; N], u64)> = blocks(log.chunks())
        .into_par_iter()
        .map(|range| collect_block(&pass, rules, order, precision, range))
        .collect::<Result<_>>()?;
    let mut all = rules.map(Collected::new);
    let mut rows = 0;
    for (part, read) in parts {
        rows += read;
        for (all, mut part) in all.iter_mut().zip(part) {
            all.table.append(part.table);
            all.blocks.append(&mut part.blocks);
        }
    }
    expect_rows(log, rows)?;
    Ok(all)
}

/// Propensities that are known less precisely than this are an error.
const MAX_RELATIVE_ERROR: f64 = 1e-3;

/// How far a computed propensity can be off (docs/math.md#slack).
#[derive(Clone, Copy)]
struct Uncertainty {
    /// The factor of the difference between the two resolutions.
    safety: f64,
    /// Relative to the weight.
    relative: f64,
}

impl Uncertainty {
    fn new(log: &dyn LogSource, subject: Subject) -> Self {
        let (safety, rounding) = (safety_of(subject), rounding_of(subject));
        let capabilities = &log.shape().capabilities;
        let single = capabilities.precision.single && !capabilities.uniform;
        let single = if single { 4.0 * f64::from(f32::EPSILON) } else { 0.0 };
        Uncertainty { safety, relative: rounding + single + 16.0 * f64::EPSILON }
    }
}

fn collect_block<const N: usize>(
    pass: &Pass,
    rules: [&Rules; N],
    order: Option<&Order>,
    uncertainty: Uncertainty,
    range: Range<usize>,
) -> Result<([Collected; N], u64)> {
    if let (Player::Logged(candidate), None) = (pass.player, order)
        && rules.iter().all(|rules| rules.control == ControlVariate::None)
        && !pass.log.shape().capabilities.multiple_interactions
        && !pass.plays_all(candidate)
    {
        return collect_columns(pass, rules, uncertainty, candidate, range);
    }
    let mut found = rules.map(Collected::new);
    let (mut fine, mut coarse): (Vec<Play>, Vec<Play>) = (Vec::new(), Vec::new());
    let repeated = pass.log.shape().capabilities.multiple_interactions;
    let rows = pass.each(range, |visited| {
        let Visited { seen, ordinal, played, off } = visited;
        check_total(*off)?;
        let relative = uncertainty.relative + off;
        if relative.is_nan() || relative > MAX_RELATIVE_ERROR {
            let message = format!(
                "the policy's propensities are only known up to {relative:e}; use smaller parameters"
            );
            return Err(EngineError::Numerical(message));
        }
        let block = order.map(|order| order.block(*ordinal));
        for (rules, found) in rules.iter().zip(&mut found) {
            fine.clear();
            coarse.clear();
            let top = rules.plays(seen, played[0], &mut fine)?;
            // Without integrals both resolutions are the same numbers.
            let coarse = if uncertainty.safety > 0.0 {
                rules.plays(seen, played[1], &mut coarse)?;
                &coarse
            } else {
                &fine
            };
            let controlled = rules.control != ControlVariate::None;
            for (j, (fine, coarse)) in fine.iter().zip(coarse).enumerate() {
                // The terms of z are at most |z| + 2 before they are added up.
                let error = |fine: f64, coarse: f64| {
                    uncertainty.safety * (fine - coarse).abs() + relative * (fine.abs() + 2.0)
                };
                // z is κ at most without the control variate, whatever the error.
                let u = (fine.u + error(fine.u, coarse.u)).min(f64::from(rules.kappa));
                let control = controlled.then(|| (fine.v + error(fine.v, coarse.v), top + error(top, top)));
                found.table.push(u, control, repeated.then(|| seen.context.weights[j]))?;
                found.blocks.extend(block);
            }
        }
        Ok(())
    })?;
    Ok((found, rows))
}

/// The same for a candidate of which the log carries π(a|x) of the logged actions alone, column by column.
fn collect_columns<const N: usize>(
    pass: &Pass,
    rules: [&Rules; N],
    uncertainty: Uncertainty,
    candidate: usize,
    range: Range<usize>,
) -> Result<([Collected; N], u64)> {
    let mut found = rules.map(Collected::new);
    let mut rows = 0;
    for index in range {
        pass.control.check()?;
        let chunk = pass.log.lean_chunk(index)?;
        chunk.check_lean(pass.log.shape())?;
        rows += chunk.rows() as u64;
        let missing = || EngineError::Log("the candidate is missing from the log".into());
        let played = chunk.candidates.get(candidate).ok_or_else(missing)?;
        for (rules, found) in rules.iter().zip(&mut found) {
            let kappa = f64::from(rules.kappa);
            let numbers = played.iter().zip(chunk.propensities.iter()).zip(chunk.costs.iter());
            found.table.push_each(numbers.map(|((&played, &propensity), &cost)| {
                let u = (rules.weight(played, propensity) - kappa) * cost;
                // As in `collect_block`, without a second resolution.
                (u + uncertainty.relative * (u.abs() + 2.0)).min(kappa)
            }))?;
        }
    }
    Ok((found, rows))
}

/// The subject on one chunk.
enum Plays<'a> {
    /// Scores and norms of each context, the map from scores to propensities, and the share and propensities
    /// of exploration.
    Scores {
        scores: Array2<f64>,
        norms: Vec<f64>,
        rounding: Vec<f64>,
        link: &'a dyn Policy,
        explored: Option<(f64, Array2<f64>)>,
    },
    /// π(a|x) of the logged action of each row.
    Logged(&'a [f64]),
    /// π(·|x) of each row.
    All(ArrayView2<'a, f64>),
}

/// A chunk with the subject on it, and the working memory to evaluate it.
struct Walk<'a> {
    chunk: &'a Chunk<'a>,
    plays: Plays<'a>,
    pi: [Vec<f64>; 2],
    scratch: Scratch,
}

impl<'a> Walk<'a> {
    fn new(chunk: &'a Chunk<'a>, player: Player<'a>, capabilities: &Capabilities) -> Result<Self> {
        let (plays, k) = match player {
            Player::Policy { policy, link, explored } => {
                let Scored { scores, norms, mut rounding } = policy.scores(chunk.situations())?;
                let with = explored.map(|(_, with)| with);
                let explored = match explored {
                    Some((share, with)) => Some((share, with.propensities(chunk.situations())?)),
                    None => None,
                };
                if let Some(with) = with.filter(|with| with.set_features().is_some()) {
                    let other = with.scores(chunk.situations())?.rounding;
                    rounding.resize(chunk.contexts(), 0.0);
                    rounding.iter_mut().zip(other).for_each(|(own, other)| *own = own.max(other));
                }
                let k = scores.ncols();
                (Plays::Scores { scores, norms, rounding, link, explored }, k)
            }
            Player::Logged(candidate) => {
                let missing = || EngineError::Log("the candidate is missing from the log".into());
                let logged = chunk.candidates.get(candidate).ok_or_else(missing)?;
                match chunk.candidate_full.get(candidate) {
                    // Rounded probabilities are used at the lower ends of their intervals.
                    Some(Some(full)) if !capabilities.precision_of(candidate).is_coarse() => {
                        (Plays::All(full.view()), 0)
                    }
                    _ => (Plays::Logged(logged), 0),
                }
            }
        };
        Ok(Walk { chunk, plays, pi: [vec![0.0; k], vec![0.0; k]], scratch: Scratch::default() })
    }

    /// What the subject plays on one context, and how far its propensities can be off: |Σ_a π(a|x) − 1|, and what the
    /// rounding of scores explains.
    fn context(&mut self, c: usize) -> ([Played<'_>; 2], f64) {
        match &self.plays {
            Plays::Logged(candidate) => {
                let pi = &candidate[self.chunk.rows_of(c)];
                ([Played::Logged(pi), Played::Logged(pi)], 0.0)
            }
            Plays::All(full) => {
                // Rows of one context have the same features, and so the same π(·|x).
                let row = full.row(self.chunk.rows_of(c).start);
                let pi = row.to_slice().expect("row-major");
                let total: f64 = pi.iter().sum();
                ([Played::All(pi), Played::All(pi)], (total - 1.0).abs())
            }
            Plays::Scores { scores, norms, rounding, link, explored } => {
                let scores = scores.row(c);
                let scores = scores.as_slice().expect("row-major");
                let [fine, coarse] = &mut self.pi;
                link.propensities(scores, norms[c], &mut self.scratch, fine);
                link.coarse(norms[c], &self.scratch, fine, coarse);
                if let Some((share, explored)) = explored {
                    for (a, &q) in explored.row(c).iter().enumerate() {
                        fine[a] = mixed(*share, fine[a], q);
                        coarse[a] = mixed(*share, coarse[a], q);
                    }
                }
                let total: f64 = self.pi[0].iter().sum();
                let off = (total - 1.0).abs() + rounding.get(c).copied().unwrap_or(0.0);
                ([Played::All(&self.pi[0]), Played::All(&self.pi[1])], off)
            }
        }
    }
}
