//! The content of a row as a number, to recognize rows that occur twice.
//!
//! Ids, times, versions and candidates are left out: they change if the same decisions are exported again. Numbers
//! are hashed in single precision, so that a detour through single precision does not hide a row.

use std::ops::Range;

use guarantor_engine::log::{Sets, SparseVector};
use guarantor_engine::row_hash::{HASHED, Hashes, Words, halves, hash_each, hash_of};
use xxhash_rust::xxh3::xxh3_128;

use crate::batch::{LogLayout, LogRows};

/// A row as two numbers.
#[derive(Debug, Clone, Copy)]
pub struct Fingerprint {
    /// The features, the action and the propensity. It is the same if the outcome was mapped from another range.
    pub decision: u128,
    /// The decision and its outcome; the primary one if it has several.
    pub row: u128,
}

/// The fingerprint of each row.
pub fn fingerprints(layout: &LogLayout, rows: &LogRows) -> Vec<Fingerprint> {
    let mut all = Vec::with_capacity(rows.len());
    add_fingerprints(layout, rows, 0..rows.len(), &mut all);
    all
}

/// Adds the fingerprints of some rows.
pub fn add_fingerprints(layout: &LogLayout, rows: &LogRows, range: Range<usize>, all: &mut Vec<Fingerprint>) {
    if layout.sets.is_some() {
        let mut bytes = Vec::new();
        return all.extend(range.map(|i| of_set(rows, i, &mut bytes)));
    }
    // Two numbers, and then the features.
    match layout.dim {
        0 => add_short::<2>(rows, range, all),
        1 => add_short::<3>(rows, range, all),
        2 => add_short::<4>(rows, range, all),
        3 => add_short::<5>(rows, range, all),
        4 => add_short::<6>(rows, range, all),
        5 => add_short::<7>(rows, range, all),
        6 => add_short::<8>(rows, range, all),
        8 => add_short::<10>(rows, range, all),
        10 => add_short::<12>(rows, range, all),
        dim => {
            let mut bytes = Vec::with_capacity(4 * dim + 8);
            all.extend(range.map(|i| of_long(rows, i, dim, &mut bytes)));
        }
    }
}

/// The fingerprints of rows of so many numbers.
fn add_short<const N: usize>(rows: &LogRows, range: Range<usize>, all: &mut Vec<Fingerprint>) {
    let (mut words, mut outcome) = ([[0; HASHED]; N], [[0; HASHED]; 5]);
    let (mut decisions, mut hashes) = (Hashes::default(), Hashes::default());
    for from in range.clone().step_by(HASHED) {
        let rows_of = from..(from + HASHED).min(range.end);
        let n = rows_of.len();
        let [action, propensity, x @ ..] = words.as_mut_slice() else { return };
        action[..n].copy_from_slice(&rows.actions[rows_of.clone()]);
        singles(&rows.propensities[rows_of.clone()], propensity);
        let features = rows.x[rows_of.start * (N - 2)..rows_of.end * (N - 2)].chunks_exact((N - 2).max(1));
        for (i, features) in features.enumerate() {
            // `+ 0.0` turns −0 into 0, which is the same number.
            x.iter_mut().zip(features).for_each(|(x, feature)| x[i] = (feature + 0.0).to_bits());
        }
        hash_each(&words, n, &mut decisions);
        // As in `of_outcome`.
        let [a, b, c, d, cost] = &mut outcome;
        for i in 0..n {
            [a[i], b[i]] = halves(decisions.low[i]);
            [c[i], d[i]] = halves(decisions.high[i]);
        }
        singles(&rows.costs[rows_of], cost);
        hash_each(&outcome, n, &mut hashes);
        all.extend((0..n).map(|i| Fingerprint { decision: decisions.of(i), row: hashes.of(i) }));
    }
}

/// Numbers in single precision.
fn singles(values: &[f64], words: &mut Words) {
    words.iter_mut().zip(values).for_each(|(word, &value)| *word = (value as f32 + 0.0).to_bits());
}

/// The fingerprint of a row with many features.
fn of_long(rows: &LogRows, i: usize, dim: usize, bytes: &mut Vec<u8>) -> Fingerprint {
    bytes.clear();
    bytes.extend(rows.actions[i].to_le_bytes());
    bytes.extend((rows.propensities[i] as f32).to_le_bytes());
    let from = bytes.len();
    bytes.resize(from + 4 * dim, 0);
    for (to, &value) in bytes[from..].chunks_exact_mut(4).zip(&rows.x[i * dim..(i + 1) * dim]) {
        to.copy_from_slice(&(value + 0.0).to_le_bytes());
    }
    let decision = xxh3_128(bytes);
    Fingerprint { decision, row: of_outcome(decision, rows.costs[i]) }
}

/// The fingerprint of a row that has its own actions.
fn of_set(rows: &LogRows, i: usize, bytes: &mut Vec<u8>) -> Fingerprint {
    bytes.clear();
    bytes.extend((rows.propensities[i] as f32).to_le_bytes());
    actions(bytes, &rows.sets, i, rows.actions[i]);
    let decision = xxh3_128(bytes);
    Fingerprint { decision, row: of_outcome(decision, rows.costs[i]) }
}

/// A decision and one of its outcomes.
#[inline(always)]
pub fn of_outcome(decision: u128, cost: f64) -> u128 {
    let ([a, b], [c, d]) = (halves(decision as u64), halves((decision >> 64) as u64));
    hash_of([a, b, c, d, (cost as f32 + 0.0).to_bits()])
}

/// The features of a request, of its chosen action, and of all actions in whatever order: the same decision may be
/// exported with its actions in another order.
fn actions(bytes: &mut Vec<u8>, sets: &Sets, i: usize, chosen: u32) {
    let (all, mut one) = (sets.actions_of(i), Vec::new());
    let hashes = all.clone().map(|a| {
        one.clear();
        vector(&mut one, sets.actions.vector(a));
        xxh3_128(&one)
    });
    let sum = hashes.fold(0u128, u128::wrapping_add);
    vector(bytes, sets.x.vector(i));
    vector(bytes, sets.actions.vector(all.start + chosen as usize));
    bytes.extend((all.len() as u32).to_le_bytes());
    bytes.extend(sum.to_le_bytes());
}

fn vector(bytes: &mut Vec<u8>, vector: SparseVector) {
    bytes.extend((vector.indices.len() as u32).to_le_bytes());
    for (index, value) in vector.iter() {
        bytes.extend(index.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_rows_at_once_have_the_fingerprints_of_long_ones() {
        for dim in [0, 1, 2, 3, 4, 5, 6, 8, 10] {
            let n = 2 * HASHED + 77;
            let number = |i: usize| (i as f64 * 0.37).sin();
            let rows = LogRows {
                actions: (0..n as u32).map(|i| i % 5).collect(),
                propensities: (0..n).map(|i| 0.5 + 0.49 * number(i)).collect(),
                costs: (0..n).map(|i| if i % 3 == 0 { -0.0 } else { -number(i).abs() }).collect(),
                x: (0..n * dim).map(|i| if i % 7 == 0 { -0.0 } else { number(i + 5) as f32 }).collect(),
                ..LogRows::default()
            };
            let layout = LogLayout { dim, ..LogLayout::default() };
            for range in [0..n, 3..n - 9, 5..5, n - 1..n] {
                let mut found = Vec::new();
                add_fingerprints(&layout, &rows, range.clone(), &mut found);
                assert_eq!(found.len(), range.len());
                for (i, found) in range.zip(found) {
                    let expected = of_long(&rows, i, dim, &mut Vec::new());
                    assert_eq!((found.decision, found.row), (expected.decision, expected.row), "{dim}, {i}");
                }
            }
        }
    }
}
