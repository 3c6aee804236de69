//! Bets that aim at the target, docs/math.md#aimed. Plays come in a random order, in blocks. For a threshold D, the
//! wealth Π (1 − λ_i z_i)/(1 − λ_i D) tests the hypothesis E z ≥ D; λ is chosen before each block so that the wealth
//! would reach 1/δ when the plays run out:
//!
//!   λ = √(2(ln(1/δ) − ln W)/(contexts left · v)),  at most ½.
//!
//! Thresholds of a grid that was fixed beforehand are tested downward until one is not rejected. The last rejected
//! one is the bound. If it is wrong, then the largest threshold of the grid that is not above E z was rejected,
//! which has probability δ at most.

use rayon::prelude::*;

use super::mixture::{LOWEST, ROUNDING};
use super::table::{Moments, Table};
use crate::error::{EngineError, Result};
use crate::numerics::elementary::{ln, ln_1p};

/// λ never exceeds this.
const LAMBDA_CAP: f64 = 0.5;
/// Blocks have at most this share of the contexts. With fewer blocks λ reacts late; more gain nothing.
const BLOCK: f64 = 1.0 / 128.0;
/// A block has at most this share of the contexts before it, so that the first bets are revised soon,
const GROWTH: f64 = 0.5;
/// and at most this share of those that are left, because the last bets decide.
const TAIL: f64 = 0.1;
/// How many contexts the guess of the variance counts for.
const GUESS_STRENGTH: f64 = 5.0;
/// The guess is never below this, so that λ is finite.
const LEAST_VARIANCE: f64 = 1e-6;
/// How many thresholds are tested at the same time.
const BATCH: usize = 8;
/// Thresholds are closest within this many widths of the guessed mean.
const NEAR: f64 = 10.0;
/// Thresholds are never further apart than this.
const WIDEST_STEP: f64 = 1.0 / 64.0;
/// At most this many times the plays are visited, so that a bad guess cannot take forever. Stopping early only makes
/// the bound larger.
const VISITS: usize = 600;

/// What is known about z before the bound is computed, from rows that it does not use.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Guess {
    /// The mean of z.
    pub mean: f64,
    /// The variance of z.
    pub variance: f64,
}

/// Where the control variate's factor starts, and how many contexts the start counts for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Start {
    /// The factor.
    pub theta: f64,
    /// The number of contexts.
    pub strength: f64,
    /// Whether the factor stays as it is.
    pub fixed: bool,
}

/// Another control variate from some block on, whose factor starts again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The first block with the other control variate.
    pub block: usize,
    /// Where its factor starts.
    pub start: Start,
}

/// The random order: which block a context is played in. It is derived from the log's digest.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    seed: u64,
    contexts: u64,
    /// Where blocks end, as shares of 2^64.
    ends: Vec<u64>,
}

impl Order {
    /// Blocks for `contexts` contexts, of which about `pilot` come first and are not certified.
    pub fn new(seed: u64, contexts: u64, pilot: u64) -> Self {
        let n = contexts as f64;
        let mut at = pilot as f64;
        let mut ends = vec![share(at / n)];
        while at < n {
            let played = at - pilot as f64;
            let size = (BLOCK * n).min(GROWTH * played).min(TAIL * (n - at)).max(1.0);
            at = (at + size).min(n);
            ends.push(share(at / n));
        }
        if let Some(last) = ends.last_mut() {
            *last = u64::MAX;
        }
        Order { seed, contexts, ends }
    }

    /// The number of contexts that the order was made for.
    pub fn contexts(&self) -> u64 {
        self.contexts
    }

    /// The number of blocks, the pilot included.
    pub fn blocks(&self) -> usize {
        self.ends.len()
    }

    /// The share of the contexts that are played before a block.
    pub fn start(&self, block: u16) -> f64 {
        match block.checked_sub(1) {
            Some(before) => self.ends[before as usize] as f64 / u64::MAX as f64,
            None => 0.0,
        }
    }

    /// The block of a context. It depends on nothing in the context's rows.
    pub fn block(&self, ordinal: u64) -> u16 {
        let place = hash(self.seed, ordinal);
        // At most a few hundred blocks.
        (self.ends.partition_point(|&end| end < place).min(self.ends.len() - 1)) as u16
    }
}

fn share(of: f64) -> u64 {
    (of.clamp(0.0, 1.0) * u64::MAX as f64) as u64
}

/// SplitMix64 over (seed, ordinal), with other constants than the hash of the split, so that the two are independent.
fn hash(seed: u64, ordinal: u64) -> u64 {
    let mut h = seed
        .wrapping_mul(0xa076_1d64_78bd_642f)
        .wrapping_add(ordinal.wrapping_add(1).wrapping_mul(0xe703_7ed1_a0b4_28db));
    for _ in 0..3 {
        h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        h ^= h >> 31;
    }
    h
}

/// The number of contexts of a pilot for a bound on `contexts` contexts. A few contexts have none: by chance, the random
/// order could put all of them into it.
pub fn pilot_of(contexts: u64) -> u64 {
    if contexts < 20 {
        return 0;
    }
    (contexts / 20).clamp(4, 16).max((contexts / 100).min(4096)).min(contexts / 2)
}

/// The number of thresholds per expected width.
fn resolution(contexts: f64) -> f64 {
    if contexts <= 200_000.0 { 48.0 } else { 24.0 }
}

/// A bound by aimed bets.
pub struct Aimed {
    table: Table,
    /// Where each block begins, and the number of plays at the end.
    starts: Vec<usize>,
    /// The contexts of each block.
    contexts: Vec<f64>,
    /// The control variate's factor in each block.
    thetas: Vec<f64>,
    guess: Guess,
    delta: f64,
}

/// What aimed bets found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aim {
    /// The last rejected threshold: an upper bound.
    pub value: f64,
    /// The distance of the last two thresholds.
    pub step: f64,
    /// The number of contexts in the game, without the pilot.
    pub contexts: f64,
    /// The number of contexts of the pilot.
    pub pilot: f64,
    /// The mean of z over the game, with the last factor of the control variate and without shrinking.
    pub mean: f64,
    /// The last factor of the control variate.
    pub theta: f64,
}

impl Aimed {
    /// Prepares the plays of a log. `blocks` has the block of each play; block 0 is the pilot, and it gives the guess
    /// if there is none.
    ///
    /// # Errors
    /// If nothing is left to play.
    pub fn new(
        mut table: Table,
        blocks: &[u16],
        order: &Order,
        (mut start, change): (Start, Option<Change>),
        guess: Option<Guess>,
        delta: f64,
    ) -> Result<Self> {
        let starts = table.arrange(blocks, order.blocks());
        let (mut contexts, mut thetas) = (Vec::new(), Vec::new());
        let (mut past, mut first) = (Moments::default(), Moments::default());
        for (at, block) in starts.windows(2).enumerate() {
            if let Some(change) = change.filter(|change| change.block == at) {
                (start, past) = (change.start, Moments::default());
            }
            let theta = if start.fixed { start.theta } else { past.theta(start.theta, start.strength) };
            thetas.push(theta);
            let sums = table.moments(block[0]..block[1]);
            contexts.push(sums.contexts);
            past.add(&sums);
            if thetas.len() == 1 {
                first = sums;
            }
        }
        if contexts.iter().skip(1).sum::<f64>() <= 0.0 {
            return Err(EngineError::Log("too few rows are left for a bound".into()));
        }
        let guess = guess.unwrap_or_else(|| guessed(&first, thetas.get(1).copied().unwrap_or(0.0)));
        let guess = Guess { variance: guess.variance.clamp(LEAST_VARIANCE, 1e18), ..guess };
        Ok(Aimed { table, starts, contexts, thetas, guess, delta })
    }

    /// Whether the wealth against the hypothesis E z ≥ D reaches 1/δ, and how many plays were visited.
    fn rejects(&self, d: f64) -> (bool, usize) {
        let mut left: f64 = self.contexts.iter().skip(1).sum();
        // The rounding of the sums, which could otherwise tip the balance.
        let target = ln(1.0 / self.delta) + ROUNDING * (1.0 + left);
        let off = self.guess.mean - d;
        let (mut wealth, mut visited) = (0.0, 0);
        let (mut squares, mut counted) = (GUESS_STRENGTH * (self.guess.variance + off * off), GUESS_STRENGTH);
        for block in 1..self.contexts.len() {
            let contexts = self.contexts[block];
            if contexts <= 0.0 {
                continue;
            }
            // `max` and `min` turn NaN into a number; a wealth that is not a number never reaches the target.
            let variance = (squares / counted).max(LEAST_VARIANCE * 1e-3);
            let lambda = (2.0 * (target - wealth) / (left * variance)).sqrt().min(LAMBDA_CAP);
            let bets =
                self.table.bets(self.starts[block]..self.starts[block + 1], self.thetas[block], lambda);
            visited += self.starts[block + 1] - self.starts[block];
            let at_d = ln_1p(-lambda * d);
            let gained = bets.logs - contexts * at_d;
            wealth += gained;
            if !wealth.is_finite() {
                return (false, visited);
            }
            if wealth >= target {
                return (true, visited);
            }
            // ln(1 + x) = x − x²/2 + …: what a bet falls short of x, as a variance. It is less than the square for
            // large gains, which do not call for smaller bets.
            let scale = 1.0 - lambda * d;
            let sum = (d * contexts - bets.z) / scale;
            let shortfall = 2.0 * (lambda * sum - gained) / (lambda * lambda);
            let square = (bets.zz - 2.0 * d * bets.z + d * d * contexts) / (scale * scale);
            squares +=
                if lambda * square.max(0.0).sqrt() > 1e-5 { shortfall.max(0.0) } else { square.max(0.0) };
            counted += contexts;
            left = (left - contexts).max(contexts.min(1.0));
        }
        (false, visited)
    }

    /// Tests thresholds downward.
    ///
    /// # Errors
    /// If a number is not finite, or `check` says so between thresholds.
    pub fn bound(&self, check: impl Fn() -> Result<()>) -> Result<Aim> {
        let contexts: f64 = self.contexts.iter().skip(1).sum();
        let width = (2.0 * ln(1.0 / self.delta) * self.guess.variance / contexts).sqrt();
        let step = (width / resolution(contexts)).clamp(1e-7, WIDEST_STEP);
        let (mut value, mut last) = (self.table.kappa(), step);
        let mut visits = VISITS.saturating_mul(self.table.len()).max(1 << 24);
        'down: loop {
            check()?;
            let (mut batch, mut next) = (Vec::with_capacity(BATCH), value);
            while batch.len() < BATCH && next > LOWEST {
                let distance = (next - self.guess.mean).abs() / (NEAR * width).max(1e-9);
                let step = (step * distance.max(1.0)).min(WIDEST_STEP);
                next -= step;
                batch.push((next, step));
            }
            if batch.is_empty() {
                break;
            }
            let tests: Vec<(bool, usize)> = batch.par_iter().map(|&(d, _)| self.rejects(d)).collect();
            for (&(d, step), &(rejected, visited)) in batch.iter().zip(&tests) {
                if !rejected || visited > visits {
                    break 'down;
                }
                visits -= visited;
                (value, last) = (d, step);
            }
        }
        let theta = self.thetas.last().copied().unwrap_or(0.0);
        let sums = self.table.moments(self.starts[1]..self.table.len());
        Ok(Aim {
            value,
            step: last,
            contexts,
            pilot: self.contexts.first().copied().unwrap_or(0.0),
            mean: (sums.u + theta * sums.v) / contexts,
            theta,
        })
    }
}

/// The mean and variance of z, from the sums of a pilot. Rare costs may be missing from a pilot although its weights
/// are there, so half of a context with the weights of the others and a cost of −1 is added.
fn guessed(pilot: &Moments, theta: f64) -> Guess {
    let n = pilot.contexts;
    if n <= 0.0 {
        return Guess { mean: 0.0, variance: 1.0 };
    }
    let mean = (pilot.u + theta * pilot.v) / n;
    let square = (pilot.uu + 2.0 * theta * pilot.uv + theta * theta * pilot.vv) / n;
    let variance = square - mean * mean;
    Guess { mean, variance: variance.max(0.0) + (0.5 * pilot.vv.max(n) / n) / (n + 1.0) }
}
