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
//! to 2²³ blocks (134 million rows, 130 MB). Rows beyond them are compared but not kept.

use hashbrown::HashTable;

/// The number of rows in a block.
const BLOCK: usize = 16;
const MAX_BLOCKS: usize = 1 << 23;
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

/// A part of the dataset, with the hash of all of its rows in order.
#[derive(Clone, Copy, Default)]
struct Part {
    first_block: usize,
    /// The rows before it.
    before: u64,
    rows: u64,
    hash: u64,
    nats: f64,
    /// The number of its first row in its file.
    number: u64,
}

/// Finds repeated runs.
#[derive(Default)]
pub struct Repeats {
    rows: u64,
    part: Part,
    parts: Vec<Part>,
    /// The last rows: hash, −ln π0(a|x), number in the file.
    last: [(u64, f64, u64); BLOCK],
    rolling: u64,
    blocks: Vec<u64>,
    table: HashTable<u32>,
    chains: [Vec<Chain>; BLOCK],
    /// For each size of groups and each position at which the first group may begin.
    in_place: [InPlace; 9],
    found: Option<Run>,
}

impl Repeats {
    /// Adds a row of the current part.
    pub fn add(&mut self, fingerprint: u128, propensity: f64, number: u64) {
        let (hash, nats) = (fingerprint as u64, -propensity.ln());
        self.compare_in_place(hash, nats, number);
        let slot = self.part.rows as usize % BLOCK;
        let (oldest, _, _) = self.last[slot];
        let leaving = if self.part.rows >= BLOCK as u64 { oldest.wrapping_mul(POWER) } else { 0 };
        self.rolling = self.rolling.wrapping_mul(BASE).wrapping_add(hash).wrapping_sub(leaving);
        self.last[slot] = (hash, nats, number);
        if self.part.rows == 0 {
            self.part.number = number;
        }
        self.part.rows += 1;
        self.part.hash = self.part.hash.wrapping_mul(BASE).wrapping_add(hash);
        self.part.nats += nats;
        self.rows += 1;
        if self.part.rows >= BLOCK as u64 {
            self.compare();
        }
        if self.part.rows.is_multiple_of(BLOCK as u64) {
            self.keep();
        }
    }

    /// Ends the current part. Short parts are also compared as a whole.
    pub fn end_part(&mut self) {
        let part = std::mem::take(&mut self.part);
        if part.rows > 0 {
            let same = |other: &&Part| (other.rows, other.hash) == (part.rows, part.hash);
            if part.nats >= self.threshold()
                && let Some(first) = self.parts.iter().find(same).map(|other| other.before + 1)
            {
                self.report(Run { row: part.number, rows: part.rows, first });
            }
            self.parts.push(part);
        }
        self.part = Part { first_block: self.blocks.len(), before: self.rows, ..Part::default() };
        self.rolling = 0;
        self.chains.iter_mut().for_each(Vec::clear);
        self.in_place = Default::default();
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
    fn compare_in_place(&mut self, hash: u64, nats: f64, number: u64) {
        let at = self.part.rows;
        let (before, _, _) = self.last[(at + BLOCK as u64 - 1) as usize % BLOCK];
        let repeats = at > 0 && before == hash;
        let threshold = self.threshold();
        let sizes = IN_PLACE.flat_map(|size| (0..size).map(move |begin| (size, begin)));
        let mut found: Option<Run> = None;
        for (run, (size, begin)) in self.in_place.iter_mut().zip(sizes) {
            if at % size == begin {
                if run.rows == 0 {
                    *run = InPlace { row: number, first: self.rows + 1, ..InPlace::default() };
                }
                run.rows += 1;
            } else if repeats && run.rows > 0 {
                run.rows += 1;
                run.nats += nats;
            } else {
                *run = InPlace::default();
            }
            if run.nats >= threshold {
                found = found.or(Some(Run { row: run.row, rows: run.rows, first: run.first }));
            }
        }
        found.into_iter().for_each(|run| self.report(run));
    }

    /// Compares the last rows with earlier blocks.
    fn compare(&mut self) {
        let (lane, window, threshold) = (self.rows as usize % BLOCK, self.rolling, self.threshold());
        let mut chains = std::mem::take(&mut self.chains[lane]);
        let nats = |last: &[(u64, f64, u64); BLOCK]| last.iter().map(|row| row.1).sum::<f64>();
        let mut best: Option<Run> = None;
        chains.retain_mut(|chain| {
            if chain.due != self.rows || self.blocks.get(chain.next) != Some(&window) {
                return false;
            }
            chain.nats += nats(&self.last);
            chain.run.rows += BLOCK as u64;
            (chain.next, chain.due) = (chain.next + 1, self.rows + BLOCK as u64);
            if chain.nats >= threshold {
                best = best.filter(|best| best.rows >= chain.run.rows).or(Some(chain.run));
            }
            true
        });
        if chains.len() < MAX_CHAINS
            && let Some(block) = self.block_of(window)
            && chains.iter().all(|chain| chain.next != block + 1)
        {
            let nats = nats(&self.last);
            // The row after the last one in the ring is the first of the window.
            let (_, _, row) = self.last[self.part.rows as usize % BLOCK];
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

    /// Keeps the block that the last row completes. Of equal blocks, the first is found.
    fn keep(&mut self) {
        if self.blocks.len() >= MAX_BLOCKS {
            return;
        }
        let Repeats { blocks, table, .. } = self;
        let (number, window) = (blocks.len(), self.rolling);
        blocks.push(window);
        let hash = |number: &u32| spread(blocks[*number as usize]);
        table.entry(spread(window), |&other| blocks[other as usize] == window, hash).or_insert(number as u32);
    }

    fn block_of(&self, window: u64) -> Option<usize> {
        let found = self.table.find(spread(window), |&n| self.blocks[n as usize] == window);
        found.map(|&number| number as usize)
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

/// The hash of a block for the table. Blocks are hashes already; the table looks at their upper bits too.
fn spread(block: u64) -> u64 {
    (block ^ (block >> 32)).wrapping_mul(BASE)
}

/// `BASE` to the power of the length of a block.
const POWER: u64 = BASE.wrapping_pow(BLOCK as u32);

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use xxhash_rust::xxh3::xxh3_128;

    /// Rows of a world: context, action and outcome, with the propensity.
    struct World {
        rng: ChaCha8Rng,
        actions: usize,
        contexts: u64,
        /// The probability of the favored action.
        favored: f64,
        /// Whether contexts arrive in the same order again and again.
        nightly: bool,
    }

    impl World {
        fn row(&mut self, i: u64) -> (u128, f64) {
            let context =
                if self.nightly { i % self.contexts } else { self.rng.random_range(0..self.contexts) };
            let best = context % self.actions as u64;
            let other = (1.0 - self.favored) / (self.actions - 1) as f64;
            let explored = self.rng.random::<f64>() >= self.favored;
            let step = if explored { self.rng.random_range(1..self.actions as u64) } else { 0 };
            let action = (best + step) % self.actions as u64;
            let row = [context, action, u64::from(self.rng.random::<f64>() < 0.1)];
            let bytes: Vec<u8> = row.iter().flat_map(|v| v.to_le_bytes()).collect();
            (xxh3_128(&bytes), if explored { other } else { self.favored })
        }
    }

    fn world(seed: u64) -> World {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let actions = rng.random_range(2..6);
        World {
            actions,
            contexts: [1, 2, 50, 400][rng.random_range(0..4)],
            favored: [1.0 / actions as f64, 0.5, 0.9, 0.99, 0.9999][rng.random_range(0..5)]
                .max(1.0 / actions as f64),
            nightly: rng.random(),
            rng,
        }
    }

    /// Many logs without features or with few contexts, in batches over the same customers in the same order, with
    /// policies that hardly explore.
    #[test]
    fn honest_logs_are_never_refused() {
        for seed in 0..2400 {
            let mut world = world(seed);
            let mut repeats = Repeats::default();
            for i in 0..3000 {
                let (row, propensity) = world.row(i);
                repeats.add(row, propensity, i + 1);
                if i % 1000 == 999 {
                    repeats.end_part();
                }
            }
            assert_eq!(repeats.found(), None, "seed {seed}");
        }
    }

    #[test]
    fn rows_that_are_sent_again_are_found() {
        for seed in 0..300 {
            let mut world = World { favored: 0.4, contexts: 50, actions: 3, nightly: false, ..world(seed) };
            let rows: Vec<(u128, f64)> = (0..1000).map(|i| world.row(i)).collect();
            for (from, to) in [(0, 300), (123, 423), (500, 1000), (0, 1000)] {
                let mut repeats = Repeats::default();
                let add = |repeats: &mut Repeats, rows: &[(u128, f64)]| {
                    (1..).zip(rows).for_each(|(number, &(row, p))| repeats.add(row, p, number));
                };
                add(&mut repeats, &rows);
                repeats.end_part();
                assert_eq!(repeats.found(), None);
                add(&mut repeats, &rows[from..to]);
                repeats.end_part();
                let found = repeats.found().unwrap();
                assert!(found.rows + 30 >= (to - from) as u64 && found.row <= 16, "{found:?}");
                assert_eq!(found.first - found.row, from as u64, "{found:?}");
            }
        }
    }

    #[test]
    fn a_short_part_is_compared_as_a_whole() {
        let mut world = World { favored: 0.1, contexts: 1, actions: 10, nightly: false, ..world(1) };
        let rows: Vec<(u128, f64)> = (0..25).map(|i| world.row(i)).collect();
        let mut repeats = Repeats::default();
        for _ in 0..2 {
            (1..).zip(&rows).for_each(|(number, &(row, p))| repeats.add(row, p, number));
            repeats.end_part();
        }
        assert_eq!(repeats.found(), Some(Run { row: 1, rows: 25, first: 1 }));
    }

    #[test]
    fn rows_that_are_repeated_in_place_are_found() {
        for (seed, times) in (0..60).zip([2, 3, 4].into_iter().cycle()) {
            let mut world = World { favored: 0.4, contexts: 50, actions: 3, nightly: false, ..world(seed) };
            let mut repeats = Repeats::default();
            let mut number = 0;
            for i in 0..200 {
                let (row, p) = world.row(i);
                for _ in 0..times {
                    number += 1;
                    repeats.add(row, p, number);
                }
            }
            repeats.end_part();
            let found = repeats.found().unwrap();
            assert!(found.rows + 8 >= 200 * times && found.row <= 4, "{times}: {found:?}");
        }
    }

    #[test]
    fn a_log_within_itself() {
        let mut world = World { favored: 0.3, contexts: 7, actions: 4, nightly: false, ..world(2) };
        let rows: Vec<(u128, f64)> = (0..300).map(|i| world.row(i)).collect();
        let mut repeats = Repeats::default();
        for (number, &(row, p)) in (1..).zip(rows.iter().cycle().take(12_000)) {
            repeats.add(row, p, number);
        }
        let found = repeats.found().unwrap();
        assert!(found.row <= 330 && found.rows > 11_000, "{found:?}");
    }
}
