//! Runs of consecutive rows that repeat an earlier run: rows that were sent twice.
//!
//! The criterion holds whatever the contexts are. If actions are drawn independently with the logged propensities,
//! the row at a new position has the action of a given earlier row with probability at most π0(a|x). So the product
//! of 1/π0(a|x) over a run that repeats the rows from a given position on is a nonnegative martingale of mean at
//! most 1, and exceeds c with probability at most 1/c (Ville). A run counts if the product exceeds the number of
//! pairs of positions by a factor of 10⁹. Rows in which the policy had no choice add nothing, so batches over the
//! same customers may repeat themselves.
//!
//! Rows that are repeated in place, each two to four times in a row, are judged in the same way: the earlier row is
//! then the one before.
//!
//! What was seen is kept as a hash of every 16 rows, counted from the start of each part: about one byte per row, up
//! to 2²³ blocks (134 million rows, 150 MB). Rows beyond them are compared but not kept.

mod seen;

use crate::fingerprint::Fingerprint;
use seen::Seen;

/// The number of rows in a block.
const BLOCK: usize = 16;
const MAX_BLOCKS: usize = 1 << 23;
/// The most rows that are looked at at once.
const AT_ONCE: usize = 8 * BLOCK;
/// The most runs that are followed at once, for each position modulo the length of a block.
const MAX_CHAINS: usize = 8;
/// The logarithm of the factor by which a run must exceed chance.
const BEYOND_CHANCE: f64 = 20.723_265_836_946_41;
/// A run starts at a block whose actions are not all certain.
const MIN_START: f64 = 0.5;
/// How often rows may be repeated in place and are found.
const IN_PLACE: std::ops::RangeInclusive<u64> = 2..=4;
/// The multiplier of the rolling hash: odd, so that no bits are lost.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// A run of rows that repeats an earlier run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The number of its first row in the file.
    pub row: u64,
    /// The number of rows.
    pub rows: u64,
    /// The position of the first repeated row among all rows of the dataset, counted from 1.
    pub first: u64,
}

/// A run of blocks that is being followed.
#[derive(Clone, Copy)]
struct Chain {
    run: Run,
    /// The block that must come next, and the position at whose end it must come.
    next: usize,
    due: u64,
    /// Σ −ln π0(a|x).
    nats: f64,
}

/// A run of groups of equal rows.
#[derive(Clone, Copy, Default)]
struct InPlace {
    /// The number of its first row in the file, and that row's position, counted from 1.
    row: u64,
    first: u64,
    rows: u64,
    /// Σ −ln π0(a|x) over the repeated rows.
    nats: f64,
}

/// A row that came lately.
#[derive(Clone, Copy, Default)]
struct Recent {
    hash: u64,
    propensity: f64,
    /// Its number in the file.
    number: u64,
}

/// A part of the dataset, with the hash of all of its rows in order.
#[derive(Clone, Copy)]
struct Part {
    first_block: usize,
    /// The rows before it.
    before: u64,
    rows: u64,
    hash: u64,
    /// Π π0(a|x). It may become 0: no threshold is near the smallest numbers.
    chance: f64,
    /// The number of its first row in its file.
    number: u64,
}

impl Default for Part {
    fn default() -> Self {
        Part { first_block: 0, before: 0, rows: 0, hash: 0, chance: 1.0, number: 0 }
    }
}

/// Finds repeated runs.
#[derive(Default)]
pub struct Repeats {
    rows: u64,
    part: Part,
    parts: Vec<Part>,
    /// The last rows, each at its position modulo the length of a block.
    last: [Recent; BLOCK],
    rolling: u64,
    seen: Seen,
    chains: [Vec<Chain>; BLOCK],
    /// For each size of groups and each position at which the first group may begin.
    in_place: [InPlace; 9],
    /// How many rows came since one that is equal to the row before it. From the third on, `in_place` is not kept up.
    unequal: u64,
    found: Option<Run>,
}

impl Repeats {
    /// Adds a row of the current part.
    pub fn add(&mut self, fingerprint: u128, propensity: f64, number: u64) {
        let row = Recent { hash: fingerprint as u64, propensity, number };
        self.compare_in_place(row);
        let slot = self.part.rows as usize % BLOCK;
        let oldest = self.last[slot].hash;
        let leaving = if self.part.rows >= BLOCK as u64 { oldest.wrapping_mul(POWER) } else { 0 };
        self.rolling = self.rolling.wrapping_mul(BASE).wrapping_add(row.hash).wrapping_sub(leaving);
        self.last[slot] = row;
        if self.part.rows == 0 {
            self.part.number = number;
        }
        self.part.rows += 1;
        self.part.hash = self.part.hash.wrapping_mul(BASE).wrapping_add(row.hash);
        self.part.chance *= propensity;
        self.rows += 1;
        if self.part.rows >= BLOCK as u64 {
            self.compare();
        }
        if self.part.rows.is_multiple_of(BLOCK as u64) {
            // Of equal blocks, the first is found.
            self.seen.keep(self.rolling);
        }
    }

    /// Adds rows of the current part, of which the first one has this number in the file. It is faster than row by row.
    pub fn add_all(&mut self, rows: &[Fingerprint], propensities: &[f64], number: u64) {
        let mut next = 0;
        while let (Some(row), Some(&propensity)) = (rows.get(next), propensities.get(next)) {
            let at = number + next as u64;
            let whole = (rows.len().min(propensities.len()) - next).min(AT_ONCE) / BLOCK * BLOCK;
            if self.add_blocks(&rows[next..next + whole], &propensities[next..next + whole], at) {
                next += whole;
            } else {
                self.add(row.row, propensity, at);
                next += 1;
            }
        }
    }

    /// Adds whole blocks, if they follow another one and nothing in them can be a repetition; false if not.
    fn add_blocks(&mut self, rows: &[Fingerprint], propensities: &[f64], number: u64) -> bool {
        let follows = self.part.rows > 0 && self.part.rows.is_multiple_of(BLOCK as u64);
        if !follows || rows.is_empty() || self.chains.iter().any(|chains| !chains.is_empty()) {
            return false;
        }
        let n = rows.len();
        // The rows of the block before come first.
        let mut hashes = [0; BLOCK + AT_ONCE];
        hashes.iter_mut().zip(&self.last).for_each(|(hash, row)| *hash = row.hash);
        hashes[BLOCK..].iter_mut().zip(rows).for_each(|(hash, row)| *hash = row.row as u64);
        let pairs = hashes[BLOCK - 1..BLOCK + n].windows(2);
        if pairs.fold(false, |equal, pair| equal | (pair[0] == pair[1])) {
            return false;
        }
        let mut windows = [0; AT_ONCE];
        self.roll(&hashes[..BLOCK + n], &mut windows[..n]);
        let Some(ends) = self.are_new(&windows[..n]) else { return false };
        for &end in &ends[..n / BLOCK] {
            self.part.hash = self.part.hash.wrapping_mul(POWER).wrapping_add(end);
            self.seen.keep_new(end);
        }
        self.rolling = windows[n - 1];
        for (last, i) in self.last.iter_mut().zip(n - BLOCK..) {
            *last =
                Recent { hash: hashes[BLOCK + i], propensity: propensities[i], number: number + i as u64 };
        }
        let mut chances = [1.0; BLOCK];
        for block in propensities.as_chunks::<BLOCK>().0 {
            chances.iter_mut().zip(block).for_each(|(chance, p)| *chance *= p);
        }
        self.part.chance *= chances.iter().product::<f64>();
        self.part.rows += n as u64;
        self.rows += n as u64;
        self.unequal += n as u64;
        true
    }

    /// The rolling hash at the end of each row but those of the first block.
    fn roll(&self, hashes: &[u64], windows: &mut [u64]) {
        let leaving = hashes.iter().zip(&hashes[BLOCK..]);
        for (window, (old, new)) in windows.iter_mut().zip(leaving) {
            *window = new.wrapping_sub(old.wrapping_mul(POWER));
        }
        // As in `add`, two rows at once: every second window follows from the one before the last.
        let mut last = self.rolling;
        for [first, second] in windows.as_chunks_mut::<2>().0 {
            let both = first.wrapping_mul(BASE).wrapping_add(*second);
            *first = last.wrapping_mul(BASE).wrapping_add(*first);
            last = last.wrapping_mul(BASE.wrapping_mul(BASE)).wrapping_add(both);
            *second = last;
        }
    }

    /// The windows that end blocks, if none of all windows is that of an earlier block. They are marked as if they were kept
    /// already; a mark too many only costs time.
    fn are_new(&mut self, windows: &[u64]) -> Option<[u64; AT_ONCE / BLOCK]> {
        let mut ends = [0; AT_ONCE / BLOCK];
        let kept = self.seen.room().min(windows.len() / BLOCK);
        self.seen.reserve(kept);
        let blocks = windows.as_chunks::<BLOCK>().0;
        for (i, block) in blocks.iter().enumerate() {
            let end = block[BLOCK - 1];
            if self.seen.may_have(end)
                && (ends[..i.min(kept)].contains(&end) || self.seen.find(end).is_some())
            {
                return None;
            }
            ends[i] = end;
            if i < kept {
                self.seen.mark(end);
            }
        }
        let is_repeated = |window: &u64| ends[..kept].contains(window) || self.seen.find(*window).is_some();
        for block in blocks {
            let windows = &block[..BLOCK - 1];
            // Without a branch for each, so that the words of all of them are fetched at once.
            let any = windows.iter().fold(false, |any, &window| any | self.seen.may_have(window));
            if any && windows.iter().any(|window| self.seen.may_have(*window) && is_repeated(window)) {
                return None;
            }
        }
        Some(ends)
    }

    /// Ends the current part. Short parts are also compared as a whole.
    pub fn end_part(&mut self) {
        let part = std::mem::take(&mut self.part);
        if part.rows > 0 {
            let same = |other: &&Part| (other.rows, other.hash) == (part.rows, part.hash);
            if -part.chance.ln() >= self.threshold()
                && let Some(first) = self.parts.iter().find(same).map(|other| other.before + 1)
            {
                self.report(Run { row: part.number, rows: part.rows, first });
            }
            self.parts.push(part);
        }
        self.part = Part { first_block: self.seen.len(), before: self.rows, ..Part::default() };
        self.rolling = 0;
        self.chains.iter_mut().for_each(Vec::clear);
        self.in_place = Default::default();
        self.unequal = 0;
    }

    /// Forgets what was found so far: rows that are stored already are not judged again.
    pub fn forgive(&mut self) {
        self.found = None;
    }

    /// The longest repeated run.
    pub fn found(&self) -> Option<Run> {
        self.found
    }

    /// The logarithm of the number of pairs of positions so far, and of the factor beyond it.
    fn threshold(&self) -> f64 {
        2.0 * (self.rows.max(1) as f64).ln() + BEYOND_CHANCE
    }

    /// Compares a row with the one before it.
    fn compare_in_place(&mut self, row: Recent) {
        let at = self.part.rows;
        if at == 0 || self.last[(at - 1) as usize % BLOCK].hash != row.hash {
            self.unequal += 1;
            if self.unequal <= 2 {
                self.begin_in_place(row, at);
            }
            return;
        }
        if self.unequal > 2 {
            // After two rows that are unlike the rows before them, nothing is left of earlier rows.
            for at in at - 2..at {
                self.begin_in_place(self.last[at as usize % BLOCK], at);
            }
        }
        self.unequal = 0;
        let (nats, threshold) = (-row.propensity.ln(), self.threshold());
        let mut found: Option<Run> = None;
        for (run, (size, begin)) in self.in_place.iter_mut().zip(groups()) {
            if at % size == begin {
                begin_group(run, row, self.part.before + at);
            } else if run.rows > 0 {
                run.rows += 1;
                run.nats += nats;
            }
            if run.nats >= threshold {
                found = found.or(Some(Run { row: run.row, rows: run.rows, first: run.first }));
            }
        }
        found.into_iter().for_each(|run| self.report(run));
    }

    /// Ends the groups that a row is in the middle of, because it is unlike the row before it, and begins others.
    fn begin_in_place(&mut self, row: Recent, at: u64) {
        let before = self.part.before + at;
        for (run, (size, begin)) in self.in_place.iter_mut().zip(groups()) {
            match at % size == begin {
                true => begin_group(run, row, before),
                false => *run = InPlace::default(),
            }
        }
    }

    /// Compares the last rows with earlier blocks.
    fn compare(&mut self) {
        let (lane, window) = (self.rows as usize % BLOCK, self.rolling);
        let block = self.seen.find(window);
        if block.is_none() && self.chains[lane].is_empty() {
            return;
        }
        let threshold = self.threshold();
        let mut chains = std::mem::take(&mut self.chains[lane]);
        let nats = -self.last.iter().map(|row| row.propensity).product::<f64>().ln();
        let mut best: Option<Run> = None;
        chains.retain_mut(|chain| {
            if chain.due != self.rows || self.seen.hash(chain.next) != Some(window) {
                return false;
            }
            chain.nats += nats;
            chain.run.rows += BLOCK as u64;
            (chain.next, chain.due) = (chain.next + 1, self.rows + BLOCK as u64);
            if chain.nats >= threshold {
                best = best.filter(|best| best.rows >= chain.run.rows).or(Some(chain.run));
            }
            true
        });
        if chains.len() < MAX_CHAINS
            && let Some(block) = block
            && chains.iter().all(|chain| chain.next != block + 1)
        {
            // The row after the last one in the ring is the first of the window.
            let row = self.last[self.part.rows as usize % BLOCK].number;
            let run = Run { row, rows: BLOCK as u64, first: self.position(block) };
            if nats >= threshold {
                best = best.or(Some(run));
            }
            if nats >= MIN_START {
                chains.push(Chain { run, next: block + 1, due: self.rows + BLOCK as u64, nats });
            }
        }
        self.chains[lane] = chains;
        best.into_iter().for_each(|run| self.report(run));
    }

    fn report(&mut self, run: Run) {
        self.found = self.found.filter(|found| found.rows >= run.rows).or(Some(run));
    }

    /// The position of a block's first row in the dataset, counted from 1.
    fn position(&self, block: usize) -> u64 {
        let at = self.parts.partition_point(|part| part.first_block <= block);
        let part = match at {
            _ if self.part.first_block <= block => &self.part,
            0 => &self.part,
            at => &self.parts[at - 1],
        };
        part.before + (BLOCK * (block - part.first_block)) as u64 + 1
    }
}

/// The sizes of groups, and the positions at which the first one may begin.
fn groups() -> impl Iterator<Item = (u64, u64)> {
    IN_PLACE.flat_map(|size| (0..size).map(move |begin| (size, begin)))
}

/// Begins a group of equal rows with a row that has so many rows before it.
fn begin_group(run: &mut InPlace, row: Recent, before: u64) {
    if run.rows == 0 {
        *run = InPlace { row: row.number, first: before + 1, ..InPlace::default() };
    }
    run.rows += 1;
}

/// `BASE` to the power of the length of a block.
const POWER: u64 = BASE.wrapping_pow(BLOCK as u32);

#[cfg(test)]
mod tests;
