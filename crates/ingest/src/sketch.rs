//! Recognizes the rows of a log in another log, in any order: a digest of all rows as a multiset, and a sample of
//! them that is chosen by their fingerprints, so that two logs sample the same rows.
//!
//! Logs with few distinct rows share rows honestly. How often rows repeat within a log says how many rows two
//! independent logs would share, so such logs are recognized only by the digest of all their rows.

use std::collections::BTreeMap;

/// The most distinct rows in the sample.
const MAX_KEPT: usize = 8192;
/// The share of the smaller log that must be in the other one.
const MIN_SHARE: f64 = 0.05;
/// How many times more rows than chance explains must be shared, and how many more.
const BEYOND_CHANCE: f64 = 4.0;
const MIN_SHARED: f64 = 8.0;
const VERSION: u8 = 1;

/// The order-free fingerprint of a log's rows: actions, outcomes, propensities and features, without ids, times,
/// versions and candidates.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RowSketch {
    rows: u64,
    /// The wrapping sum of the fingerprints.
    sum: u128,
    /// The sample has the fingerprints that begin with this many zero bits.
    zeros: u8,
    /// How often each sampled row occurs.
    kept: BTreeMap<u64, u32>,
}

/// Without the sample, which is long.
impl std::fmt::Debug for RowSketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowSketch").field("rows", &self.rows).field("sum", &self.sum).finish_non_exhaustive()
    }
}

impl RowSketch {
    /// Adds a row.
    pub(crate) fn add(&mut self, fingerprint: u128) {
        self.rows += 1;
        self.sum = self.sum.wrapping_add(fingerprint);
        let hash = (fingerprint >> 64) as u64;
        if hash.leading_zeros() < self.zeros.into() {
            return;
        }
        let count = self.kept.entry(hash).or_default();
        *count = count.saturating_add(1);
        while self.kept.len() > MAX_KEPT && self.zeros < 63 {
            self.zeros += 1;
            let zeros = u32::from(self.zeros);
            self.kept.retain(|hash, _| hash.leading_zeros() >= zeros);
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether the two logs have the same rows, or so many in common that it cannot be chance.
    pub fn same_rows(&self, other: &RowSketch) -> bool {
        if self.rows == 0 || other.rows == 0 {
            return false;
        }
        if self.rows == other.rows && self.sum == other.sum {
            return true;
        }
        let zeros = self.zeros.max(other.zeros);
        let (mine, theirs) = (self.sample(zeros), other.sample(zeros));
        let shared = mine.once.iter().filter(|hash| other.kept.get(hash) == Some(&1)).count() as f64;
        // Of two logs of n and m independent rows, the number of rows that occur once in each is at most about
        // 2m/n times the number of rows that occur twice in the first.
        let ratio = other.rows as f64 / self.rows as f64;
        let by_chance = 2.0 * (mine.twice * ratio).max(theirs.twice / ratio);
        let smaller = if ratio < 1.0 { theirs.rows } else { mine.rows };
        shared >= MIN_SHARE * smaller && shared >= BEYOND_CHANCE * by_chance + MIN_SHARED
    }

    fn sample(&self, zeros: u8) -> Sample {
        let mut sample = Sample { rows: 0.0, once: Vec::new(), twice: 0.0 };
        for (&hash, &count) in self.kept.iter().filter(|(hash, _)| hash.leading_zeros() >= zeros.into()) {
            sample.rows += f64::from(count);
            match count {
                1 => sample.once.push(hash),
                2 => sample.twice += 1.0,
                _ => {}
            }
        }
        sample
    }

    /// The sketch as bytes, at most 100 KiB.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, self.zeros];
        bytes.extend(self.rows.to_le_bytes());
        bytes.extend(self.sum.to_le_bytes());
        for (hash, count) in &self.kept {
            bytes.extend(hash.to_le_bytes());
            bytes.extend(count.to_le_bytes());
        }
        bytes
    }

    /// The sketch that these bytes are of, or `None` if they are not of a sketch.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&[version, zeros], rest) = bytes.split_first_chunk()?;
        let (rows, rest) = rest.split_first_chunk()?;
        let (sum, rest) = rest.split_first_chunk()?;
        let (entries, rest) = rest.as_chunks::<12>();
        if version != VERSION || zeros > 63 || !rest.is_empty() || entries.len() > MAX_KEPT {
            return None;
        }
        let mut kept = BTreeMap::new();
        for entry in entries {
            let hash = u64::from_le_bytes(*entry.first_chunk()?);
            kept.insert(hash, u32::from_le_bytes(*entry.last_chunk()?));
        }
        Some(RowSketch { rows: u64::from_le_bytes(*rows), sum: u128::from_le_bytes(*sum), zeros, kept })
    }
}

/// The sampled rows of a log.
struct Sample {
    rows: f64,
    /// The rows that occur once.
    once: Vec<u64>,
    /// How many rows occur twice.
    twice: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_128;

    fn sketch(rows: impl IntoIterator<Item = u64>) -> RowSketch {
        let mut sketch = RowSketch::default();
        rows.into_iter().for_each(|row| sketch.add(xxh3_128(&row.to_le_bytes())));
        sketch
    }

    #[test]
    fn bytes_are_read_back_and_nothing_else_is_read() {
        for n in [0, 10, 100_000] {
            let written = sketch(0..n);
            let bytes = written.to_bytes();
            assert!(bytes.len() <= 100 << 10, "{}", bytes.len());
            assert_eq!(RowSketch::from_bytes(&bytes), Some(written));
            assert_eq!(RowSketch::from_bytes(&bytes[..bytes.len() - 1]), None);
            assert_eq!(RowSketch::from_bytes(&[&[2], &bytes[1..]].concat()), None);
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
        // A third of the smaller log.
        assert!(sketch(0..400_000).same_rows(&sketch(399_000..402_000)));
    }

    #[test]
    fn few_distinct_rows_are_recognized_only_as_a_whole() {
        let few = |n: u64, salt: u64, of: u64| {
            sketch((0..n).map(move |i| xxh3_128(&(i * 7 + salt).to_le_bytes()) as u64 % of))
        };
        for of in [6, 1_000, 50_000, 1 << 40] {
            assert!(few(20_000, 1, of).same_rows(&few(20_000, 1, of)), "{of}");
            assert!(!few(20_000, 1, of).same_rows(&few(20_000, 2, of)), "{of}");
            assert!(!few(20_000, 1, of).same_rows(&few(3_000, 3, of)), "{of}");
        }
    }
}
