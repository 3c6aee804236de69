//! The statistics of a certificate: one pass over the log in f64, at two resolutions of the policy's
//! integrals, summed with compensation in an order that depends only on the log (docs/math.md#slack).

use std::ops::Range;

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

use super::bound::{Bound, GivenBetting, Played, Seen};
use super::control::Control;
use super::cost_model::CostModel;
use super::error::{EngineError, Result};
use super::log::{Capabilities, Chunk, LogSource};
use super::numerics::sum::Sum;
use super::policy::{Policy, PolicyParams, Scratch, mixed};

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

impl Statistics for GivenBetting {
    fn count(&self) -> usize {
        self.betting.choices.len()
    }

    fn add(&self, seen: &Seen, played: &[Played], _: &mut Vec<f64>, out: &mut [Vec<f64>]) -> Result<()> {
        played.iter().zip(out).try_for_each(|(played, out)| self.add_statistics(seen, *played, out))
    }
}

/// The most ranges of chunks that are summed separately, whatever the number of threads.
pub const BLOCKS: usize = 64;

/// Ranges of chunks that are summed separately.
pub fn blocks(chunks: usize) -> Vec<Range<usize>> {
    let size = chunks.div_ceil(BLOCKS).max(1);
    (0..chunks.div_ceil(size)).map(|b| b * size..((b + 1) * size).min(chunks)).collect()
}

struct Block {
    /// The statistics, and the absolute difference that the coarser integral makes, summed over contexts.
    sums: [Vec<Sum>; 2],
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
    let link;
    let player = match subject {
        Subject::Policy(policy) => {
            link = policy.link();
            let (policy, explored) = policy.parts();
            Player::Policy { policy, link: &*link, explored }
        }
        Subject::Logged(candidate) => Player::Logged(candidate),
    };
    let blocks: Vec<Block> = blocks(log.chunks())
        .into_par_iter()
        .map(|range| measure_block(log, player, cost_model, statistics, range, control))
        .collect::<Result<_>>()?;
    let rows: u64 = blocks.iter().map(|b| b.rows).sum();
    if rows != log.shape().rows {
        let message = format!("{rows} rows were read, but {} were expected", log.shape().rows);
        return Err(EngineError::Log(message));
    }
    let mut totals = [vec![Sum::default(); statistics.count()], vec![Sum::default(); statistics.count()]];
    let mut worst_total = 0.0f64;
    for block in &blocks {
        for (totals, sums) in totals.iter_mut().zip(&block.sums) {
            totals.iter_mut().zip(sums).for_each(|(total, sum)| total.merge(sum));
        }
        worst_total = worst_total.max(block.worst_total);
    }
    finish(&totals, worst_total, subject, log.shape().contexts as f64)
}

/// Means over contexts, and the bound on their error: the difference of the two resolutions times the
/// policy's safety factor, the effect of Σπ ≠ 1 and of the rounding of the scores, and the error of the
/// summation.
fn finish(totals: &[Vec<Sum>; 2], worst_total: f64, subject: Subject, contexts: f64) -> Result<Measured> {
    if worst_total.is_nan() || worst_total > 1e-6 {
        return Err(EngineError::Numerical(format!("propensities sum to 1 only up to {worst_total}")));
    }
    let (safety, rounding) = match subject {
        Subject::Policy(policy) => (policy.quadrature_safety(), policy.score_rounding()),
        Subject::Logged(_) => (0.0, 0.0),
    };
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

/// The subject, prepared for evaluation.
#[derive(Clone, Copy)]
enum Player<'a> {
    /// Parameters, their map from scores to propensities, and the share and policy of exploration.
    Policy { policy: &'a PolicyParams, link: &'a dyn Policy, explored: Option<(f64, &'a PolicyParams)> },
    /// The log's own candidate, by its position.
    Logged(usize),
}

fn measure_block(
    log: &dyn LogSource,
    player: Player,
    cost_model: Option<&CostModel>,
    statistics: &dyn Statistics,
    range: Range<usize>,
    control: &Control,
) -> Result<Block> {
    let count = statistics.count();
    let empty = || vec![Sum::default(); count];
    let mut block = Block { sums: [empty(), empty()], worst_total: 0.0, rows: 0 };
    for index in range {
        control.check()?;
        let chunk = log.chunk(index)?;
        chunk.check(log.shape())?;
        block.rows += chunk.rows() as u64;
        let modeled = cost_model.map(|m| m.costs(chunk.x.view())).transpose()?;
        let mut walk = Walk::new(&chunk, player, &log.shape().capabilities)?;
        for c in 0..chunk.contexts() {
            let seen = Seen {
                n_actions: log.shape().n_actions,
                context: chunk.context(c),
                cost_model: modeled.as_ref().map(|m| m.row(c).to_slice().expect("row-major")),
            };
            let total = walk.context(c, &seen, statistics, &mut block.sums)?;
            block.worst_total = block.worst_total.max((total - 1.0).abs());
            if total.is_nan() {
                return Err(EngineError::Numerical("a propensity is not a number".into()));
            }
        }
    }
    Ok(block)
}

/// The subject on one chunk.
enum Plays<'a> {
    /// Scores and norms of each context, the map from scores to propensities, and the share and propensities
    /// of exploration.
    Scores {
        scores: Array2<f64>,
        norms: Vec<f64>,
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
    h: Vec<f64>,
    out: [Vec<f64>; 2],
}

impl<'a> Walk<'a> {
    fn new(chunk: &'a Chunk<'a>, player: Player<'a>, capabilities: &Capabilities) -> Result<Self> {
        let (plays, k) = match player {
            Player::Policy { policy, link, explored } => {
                let (scores, norms) = policy.scores(chunk.x.view())?;
                let explored = match explored {
                    Some((share, with)) => Some((share, with.propensities(chunk.x.view())?)),
                    None => None,
                };
                (Plays::Scores { scores, norms, link, explored }, policy.n_actions())
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
        Ok(Walk {
            chunk,
            plays,
            pi: [vec![0.0; k], vec![0.0; k]],
            scratch: Scratch::default(),
            h: Vec::new(),
            out: Default::default(),
        })
    }

    /// Adds one context; returns Σ_a π(a|x).
    fn context(
        &mut self,
        c: usize,
        seen: &Seen,
        statistics: &dyn Statistics,
        sums: &mut [Vec<Sum>; 2],
    ) -> Result<f64> {
        let count = statistics.count();
        self.out.iter_mut().for_each(|out| {
            out.clear();
            out.resize(count, 0.0);
        });
        let mut total = 1.0;
        let played = match &self.plays {
            Plays::Logged(candidate) => {
                let pi = &candidate[self.chunk.rows_of(c)];
                [Played::Logged(pi), Played::Logged(pi)]
            }
            Plays::All(full) => {
                // Rows of one context have the same features, and so the same π(·|x).
                let row = full.row(self.chunk.rows_of(c).start);
                let pi = row.to_slice().expect("row-major");
                total = pi.iter().sum();
                [Played::All(pi), Played::All(pi)]
            }
            Plays::Scores { scores, norms, link, explored } => {
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
                total = self.pi[0].iter().sum();
                [Played::All(&self.pi[0]), Played::All(&self.pi[1])]
            }
        };
        statistics.add(seen, &played, &mut self.h, &mut self.out)?;
        let [fine, coarse] = &self.out;
        let [values, differences] = sums;
        for i in 0..count {
            values[i].add(fine[i]);
            differences[i].add((fine[i] - coarse[i]).abs());
        }
        Ok(total)
    }
}
