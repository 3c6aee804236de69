//! Recognizes the rows of a log in another log, in any order: a digest of all rows as a multiset, and a sample of
//! them that is chosen by their fingerprints, so that two logs sample the same rows.
//!
//! Logs can share rows honestly. If they have few distinct rows, how often rows repeat within a log says how many
//! rows two independent logs would share; such logs are recognized only by the digest of all their rows. And the same
//! customers may be in every night's log: a row is then in the other log with a probability of at most its
//! propensity, so more rows must be shared than their propensities explain.
//!
//! If rows have several outcomes, there is a digest of all rows with each of them, whatever its name. So a log that comes
//! back with some of its outcomes, under other names or in another order, has the same rows.

use std::collections::BTreeMap;

use crate::fingerprint::Fingerprint;

/// The most distinct rows in the sample.
const MAX_KEPT: usize = 8192;
/// The share of the smaller log that must be in the other one.
const MIN_SHARE: f64 = 0.05;
/// How many times more rows than chance explains must be shared, and how many more.
const BEYOND_CHANCE: f64 = 4.0;
const MIN_SHARED: f64 = 8.0;
/// By how many standard errors more rows must be shared than their propensities explain.
const BEYOND_ERRORS: f64 = 6.0;
/// Rows with propensities up to these are looked at, in 255ths.
const UP_TO: [u8; 5] = [255, 128, 64, 26, 13];
const VERSION: u8 = 1;
/// The version of sketches of rows with several outcomes.
const WITH_OUTCOMES: u8 = 2;
/// The logarithm of one over the probability of a coincidence, 10⁻¹².
const BEYOND_COINCIDENCE: f64 = 27.631_021_115_928_547;

/// The greatest common divisor.
fn divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// The order-free fingerprint of a log's rows: actions, propensities, features and, in the digest of all rows,
/// outcomes; without ids, times, versions and candidates.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RowSketch {
    rows: u64,
    /// The wrapping sum of the fingerprints.
    sum: u128,
    /// The same with each of the other outcomes in place of the primary one.
    others: Vec<u128>,
    /// The sample has the fingerprints that begin with this many zero bits.
    zeros: u8,
    /// The sampled rows.
    kept: BTreeMap<u64, Kept>,
}

/// A sampled row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kept {
    /// How often it occurs.
    count: u32,
    /// Its propensity, in 255ths and rounded up.
    propensity: u8,
}

/// Without the sample, which is long.
impl std::fmt::Debug for RowSketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowSketch").field("rows", &self.rows).field("sum", &self.sum).finish_non_exhaustive()
    }
}

impl RowSketch {
    /// Adds a row. `others` are its fingerprints with each of the other outcomes.
    pub(crate) fn add(
        &mut self,
        fingerprint: Fingerprint,
        others: impl Iterator<Item = u128>,
        propensity: f64,
    ) {
        self.rows += 1;
        self.sum = self.sum.wrapping_add(fingerprint.row);
        for (i, other) in others.enumerate() {
            if self.others.len() <= i {
                self.others.push(0);
            }
            self.others[i] = self.others[i].wrapping_add(other);
        }
        self.sample(fingerprint, propensity);
    }

    /// Adds rows with one outcome.
    pub(crate) fn add_all(&mut self, fingerprints: &[Fingerprint], propensities: &[f64]) {
        self.rows += fingerprints.len() as u64;
        self.sum = fingerprints.iter().fold(self.sum, |sum, row| sum.wrapping_add(row.row));
        for (&fingerprint, &propensity) in fingerprints.iter().zip(propensities) {
            self.sample(fingerprint, propensity);
        }
    }

    /// Keeps a row, if it is one of the sample.
    #[inline]
    fn sample(&mut self, fingerprint: Fingerprint, propensity: f64) {
        let hash = (fingerprint.decision >> 64) as u64;
        if hash.leading_zeros() >= self.zeros.into() {
            self.keep(hash, propensity);
        }
    }

    fn keep(&mut self, hash: u64, propensity: f64) {
        let propensity = (255.0 * propensity).ceil().clamp(0.0, 255.0) as u8;
        let kept = self.kept.entry(hash).or_insert(Kept { count: 0, propensity });
        kept.count = kept.count.saturating_add(1);
        self.shrink();
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How often every sampled row occurs at least, if all of them occur a multiple of it and that cannot be chance: the
    /// log was sent several times, in whatever order. A decision in a context that comes again has the action of the
    /// first one with probability at most its propensity.
    pub fn multiplied(&self) -> Option<u32> {
        let common = self.kept.values().fold(0, |common, kept| divisor(common, kept.count));
        // Where a decision comes often, that its number is even is a matter of a fair coin.
        let nats =
            |kept: &Kept| (-(f64::from(kept.propensity.max(1)) / 255.0).ln()).min(std::f64::consts::LN_2);
        let evidence: f64 = self.kept.values().map(nats).sum();
        (common > 1 && evidence >= BEYOND_COINCIDENCE).then_some(common)
    }

    /// A name that all logs with exactly these rows and outcomes have, in whatever order of rows; `None` if there are no
    /// rows.
    pub fn name(&self) -> Option<String> {
        let others: String = self.others.iter().map(|sum| format!("+{sum:032x}")).collect();
        (self.rows > 0).then(|| format!("{}:{:032x}{others}", self.rows, self.sum))
    }

    /// The sampled fingerprints, smallest first. Of two logs that share rows, the smallest ones of one are likely
    /// to be in the sample of the other.
    pub fn sampled(&self) -> impl Iterator<Item = u64> {
        self.kept.keys().copied()
    }

    /// Adds all rows of another log.
    pub fn merge(&mut self, other: &RowSketch) {
        self.rows = self.rows.saturating_add(other.rows);
        self.sum = self.sum.wrapping_add(other.sum);
        self.others.resize(self.others.len().max(other.others.len()), 0);
        for (sum, added) in self.others.iter_mut().zip(&other.others) {
            *sum = sum.wrapping_add(*added);
        }
        for (&hash, added) in &other.kept {
            let kept = self.kept.entry(hash).or_insert(Kept { count: 0, ..*added });
            kept.count = kept.count.saturating_add(added.count);
        }
        self.zeros = self.zeros.max(other.zeros);
        self.drop_beyond(self.zeros);
        self.shrink();
    }

    /// The sketch of the other rows of a log, given that of some of them.
    pub fn without(&self, part: &RowSketch) -> RowSketch {
        let mut rest = self.clone();
        rest.rows = rest.rows.saturating_sub(part.rows);
        rest.sum = rest.sum.wrapping_sub(part.sum);
        for (sum, part) in rest.others.iter_mut().zip(&part.others) {
            *sum = sum.wrapping_sub(*part);
        }
        rest.kept.retain(|hash, kept| {
            kept.count = kept.count.saturating_sub(part.kept.get(hash).map_or(0, |part| part.count));
            kept.count > 0
        });
        rest
    }

    fn drop_beyond(&mut self, zeros: u8) {
        self.kept.retain(|hash, _| hash.leading_zeros() >= zeros.into());
    }

    fn shrink(&mut self) {
        while self.kept.len() > MAX_KEPT && self.zeros < 63 {
            self.zeros += 1;
            self.drop_beyond(self.zeros);
        }
    }

    /// The same sketch with at most this many sampled rows.
    pub(crate) fn trimmed(mut self, most: usize) -> RowSketch {
        while self.kept.len() > most && self.zeros < 63 {
            self.zeros += 1;
            self.drop_beyond(self.zeros);
        }
        self
    }

    /// Whether the two logs have the same rows, or so many in common that it cannot be chance.
    pub fn same_rows(&self, other: &RowSketch) -> bool {
        let sums = |sketch: &RowSketch| [&[sketch.sum][..], &sketch.others].concat();
        let theirs = sums(other);
        let equal =
            self.rows > 0 && self.rows == other.rows && sums(self).iter().any(|sum| theirs.contains(sum));
        equal || self.beyond_chance(other)
    }

    /// Whether the two logs have so many rows in common that it cannot be chance. Logs with few distinct rows may
    /// even be equal by chance.
    pub fn beyond_chance(&self, other: &RowSketch) -> bool {
        if self.rows == 0 || other.rows == 0 {
            return false;
        }
        let (smaller, larger) = if self.rows <= other.rows { (self, other) } else { (other, self) };
        let zeros = self.zeros.max(other.zeros);
        let (few, many) = (smaller.sampled_from(zeros), larger.sampled_from(zeros));
        let is_shared = |row: &&(u64, u8)| larger.kept.get(&row.0).is_some_and(|kept| kept.count == 1);
        let shared: Vec<&(u64, u8)> = few.once.iter().filter(is_shared).collect();
        // Of two logs of n and m independent rows, the number of rows that occur once in each is at most about
        // 2m/n times the number of rows that occur twice in the first.
        let ratio = larger.rows as f64 / smaller.rows as f64;
        let by_chance = 2.0 * (few.twice * ratio).max(many.twice / ratio);
        let count = shared.len() as f64;
        if count < MIN_SHARE * few.rows || count < BEYOND_CHANCE * by_chance + MIN_SHARED {
            return false;
        }
        // Rows that were unlikely say most, so they are also looked at alone.
        UP_TO.into_iter().any(|most| {
            let explained: f64 =
                few.once.iter().filter(|row| row.1 <= most).map(|row| f64::from(row.1) / 255.0).sum();
            let shared = shared.iter().filter(|row| row.1 <= most).count() as f64;
            shared >= explained + BEYOND_ERRORS * explained.sqrt() + MIN_SHARED
        })
    }

    fn sampled_from(&self, zeros: u8) -> Sample {
        let mut sample = Sample { rows: 0.0, once: Vec::new(), twice: 0.0 };
        for (&hash, kept) in self.kept.iter().filter(|(hash, _)| hash.leading_zeros() >= zeros.into()) {
            sample.rows += f64::from(kept.count);
            match kept.count {
                1 => sample.once.push((hash, kept.propensity)),
                2 => sample.twice += 1.0,
                _ => {}
            }
        }
        sample
    }

    /// The sketch as bytes, at most 105 KiB.
    pub fn to_bytes(&self) -> Vec<u8> {
        let version = if self.others.is_empty() { VERSION } else { WITH_OUTCOMES };
        let mut bytes = vec![version, self.zeros];
        bytes.extend(self.rows.to_le_bytes());
        bytes.extend(self.sum.to_le_bytes());
        if version == WITH_OUTCOMES {
            // There are at most 15.
            bytes.push(self.others.len() as u8);
            self.others.iter().for_each(|sum| bytes.extend(sum.to_le_bytes()));
        }
        for (hash, kept) in &self.kept {
            bytes.extend(hash.to_le_bytes());
            bytes.extend(kept.count.to_le_bytes());
            bytes.push(kept.propensity);
        }
        bytes
    }

    /// The sketch that these bytes are of, or `None` if they are not of a sketch.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&[version, zeros], rest) = bytes.split_first_chunk()?;
        let (rows, rest) = rest.split_first_chunk()?;
        let (sum, mut rest) = rest.split_first_chunk()?;
        let mut others = Vec::new();
        if version == WITH_OUTCOMES {
            let (&count, after) = rest.split_first()?;
            let (sums, after) = after.split_at_checked(16 * usize::from(count))?;
            others = sums.as_chunks().0.iter().map(|sum| u128::from_le_bytes(*sum)).collect();
            rest = after;
        }
        let (entries, rest) = rest.as_chunks::<13>();
        if ![VERSION, WITH_OUTCOMES].contains(&version)
            || zeros > 63
            || !rest.is_empty()
            || entries.len() > MAX_KEPT
        {
            return None;
        }
        let mut kept = BTreeMap::new();
        for entry in entries {
            let (hash, rest) = entry.split_first_chunk()?;
            let (count, rest) = rest.split_first_chunk()?;
            let row = Kept { count: u32::from_le_bytes(*count), propensity: *rest.first()? };
            kept.insert(u64::from_le_bytes(*hash), row);
        }
        let (rows, sum) = (u64::from_le_bytes(*rows), u128::from_le_bytes(*sum));
        Some(RowSketch { rows, sum, others, zeros, kept })
    }
}

/// The sampled rows of a log.
struct Sample {
    rows: f64,
    /// The rows that occur once, with their propensities in 255ths.
    once: Vec<(u64, u8)>,
    /// How many rows occur twice.
    twice: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: u128) -> Fingerprint {
        Fingerprint { decision: number, row: number }
    }
    use xxhash_rust::xxh3::xxh3_128;

    fn sketch(rows: impl IntoIterator<Item = u64>) -> RowSketch {
        let mut sketch = RowSketch::default();
        rows.into_iter().for_each(|row| sketch.add(of(xxh3_128(&row.to_le_bytes())), [].into_iter(), 0.1));
        sketch
    }

    #[test]
    fn a_log_that_was_sent_several_times_is_found_in_any_order() {
        for times in [2u64, 3, 4] {
            let rows = |seed: u64| (0..500 * times).map(move |i| (i * 7919 + seed) % 500);
            assert_eq!(sketch(rows(0)).multiplied(), Some(times as u32));
            assert_eq!(sketch(rows(0).chain([3])).multiplied(), None);
        }
        // Honest logs: no row twice, few distinct rows, and contexts that come again and again.
        assert_eq!(sketch(0..500).multiplied(), None);
        assert_eq!(sketch((0..1000).map(|i| i % 2)).multiplied(), None);
        for seed in 0..200u64 {
            let draw = |i: u64| xxh3_128(&(seed << 32 | i).to_le_bytes()) as u64 % 60;
            assert_eq!(sketch((0..4000).map(draw)).multiplied(), None, "{seed}");
        }
    }

    /// Two nights of decisions about the same customers, whose features do not change. The policy plays one action
    /// nearly always, and hardly anybody responds.
    #[test]
    fn another_night_with_the_same_customers_is_another_log() {
        for likely in [0.5, 0.9, 0.99] {
            let night = |salt: u64| {
                let mut sketch = RowSketch::default();
                for customer in 0..20_000u64 {
                    let u = (xxh3_128(&(2 * customer + salt * 1_000_003).to_le_bytes()) as u64) as f64
                        / u64::MAX as f64;
                    let (action, p) = if u < likely { (0, likely) } else { (1, 1.0 - likely) };
                    sketch.add(of(xxh3_128(&(2 * customer + action).to_le_bytes())), [].into_iter(), p);
                }
                sketch
            };
            assert!(!night(1).same_rows(&night(2)), "{likely}");
            assert!(night(1).same_rows(&night(1)));
        }
    }

    #[test]
    fn bytes_are_read_back_and_nothing_else_is_read() {
        for n in [0, 10, 100_000] {
            let written = sketch(0..n);
            let bytes = written.to_bytes();
            assert!(bytes.len() <= 105 << 10, "{}", bytes.len());
            assert_eq!(RowSketch::from_bytes(&bytes), Some(written));
            assert_eq!(RowSketch::from_bytes(&bytes[..bytes.len() - 1]), None);
            assert_eq!(RowSketch::from_bytes(&[&[3], &bytes[1..]].concat()), None);
        }
        assert_eq!(RowSketch::from_bytes(&[]), None);
    }

    #[test]
    fn a_part_of_the_rows_is_recognized_whatever_the_sizes() {
        for n in [100u64, 5_000, 300_000] {
            let whole = sketch(0..n);
            for other in [sketch((0..n).rev()), sketch(0..n / 2), sketch(n / 10..n), sketch(n / 10..2 * n)] {
                assert!(whole.same_rows(&other) && other.same_rows(&whole), "{n}");
            }
            assert!(!whole.same_rows(&sketch(n..3 * n)), "{n}");
        }
        // Half of the smaller log.
        assert!(sketch(0..400_000).same_rows(&sketch(380_000..420_000)));
    }

    #[test]
    fn merged_parts_are_the_sketch_of_all_rows() {
        for n in [10u64, 5_000, 300_000] {
            let mut merged = sketch(0..n);
            merged.merge(&sketch(n / 2..2 * n));
            let whole = sketch((0..n).chain(n / 2..2 * n));
            assert_eq!(merged.name(), whole.name());
            assert_eq!(merged.rows(), whole.rows());
            // The sample may have been thinned once more, and is otherwise the same.
            let common = merged.zeros.max(whole.zeros);
            merged.drop_beyond(common);
            let kept: Vec<_> =
                whole.kept.iter().filter(|(h, _)| h.leading_zeros() >= common.into()).collect();
            assert_eq!(merged.kept.iter().collect::<Vec<_>>(), kept);
        }
        assert_eq!(RowSketch::default().name(), None);
        let rest = sketch(0..5_000).without(&sketch(1_000..5_000));
        assert_eq!(rest, sketch(0..1_000));
    }

    /// Rows without features, which only the digest of all rows recognizes.
    #[test]
    fn rows_are_the_same_with_other_names_or_fewer_outcomes() {
        let hash = |[a, b]: [u64; 2]| xxh3_128(&(u128::from(a) << 64 | u128::from(b)).to_le_bytes());
        let outcome = |row: u64, which: u64| hash([row, which]) as u64 % (which + 2);
        let log = |outcomes: &[u64], rows: std::ops::Range<u64>| {
            let mut sketch = RowSketch::default();
            for row in rows {
                let decision = hash([row % 3, 99]);
                let of =
                    |which: &u64| crate::fingerprint::of_outcome(decision, -(outcome(row, *which) as f64));
                let mut all = outcomes.iter().map(of);
                let row = all.next().unwrap();
                sketch.add(Fingerprint { decision, row }, all, 0.3);
            }
            sketch
        };
        let whole = log(&[1, 2, 3], 0..3000);
        assert_eq!(RowSketch::from_bytes(&whole.to_bytes()), Some(whole.clone()));
        for other in [&[1][..], &[3], &[3, 1, 2], &[2, 7]] {
            let other = log(other, 0..3000);
            assert!(whole.same_rows(&other) && other.same_rows(&whole));
            assert!(!whole.beyond_chance(&other));
        }
        assert!(!whole.same_rows(&log(&[1, 2, 3], 3000..6000)));
        assert!(!whole.same_rows(&log(&[7, 8], 0..3000)));
        // A log with one outcome has the bytes and the name that it always had.
        assert_eq!(log(&[1], 0..10).to_bytes()[0], VERSION);
        let mut merged = log(&[1, 2], 0..1000);
        merged.merge(&log(&[1, 2], 1000..3000));
        assert_eq!(merged.name(), log(&[1, 2], 0..3000).name());
        assert_eq!(merged.without(&log(&[1, 2], 1000..3000)), log(&[1, 2], 0..1000));
        assert_ne!(merged.name(), log(&[1], 0..3000).name());
    }

    #[test]
    fn few_distinct_rows_are_recognized_only_as_a_whole() {
        let few = |n: u64, salt: u64, of: u64| {
            sketch((0..n).map(move |i| xxh3_128(&(i * 7 + salt).to_le_bytes()) as u64 % of))
        };
        for of in [6, 1_000, 50_000, 1 << 40] {
            assert!(few(20_000, 1, of).same_rows(&few(20_000, 1, of)), "{of}");
            assert_eq!(few(20_000, 1, of).beyond_chance(&few(20_000, 1, of)), of > 50_000, "{of}");
            assert!(!few(20_000, 1, of).same_rows(&few(20_000, 2, of)), "{of}");
            assert!(!few(20_000, 1, of).same_rows(&few(3_000, 3, of)), "{of}");
        }
    }
}
