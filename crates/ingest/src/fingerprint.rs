//! The content of a row as a number, to recognize rows that occur twice.
//!
//! Ids, times, versions and candidates are left out: they change if the same decisions are exported again. Numbers
//! are hashed in single precision, so that a detour through single precision does not hide a row.

use xxhash_rust::xxh3::xxh3_128;

use guarantor_engine::log::{Sets, SparseVector};

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
    let mut bytes = Vec::with_capacity(4 * layout.dim + 8);
    let of_row = |i: usize| {
        bytes.clear();
        if layout.sets.is_none() {
            bytes.extend(rows.actions[i].to_le_bytes());
        }
        bytes.extend((rows.propensities[i] as f32).to_le_bytes());
        // `+ 0.0` turns −0 into 0, which is the same number.
        let x = &rows.x[i * layout.dim..(i + 1) * layout.dim];
        let from = bytes.len();
        bytes.resize(from + 4 * x.len(), 0);
        for (to, &value) in bytes[from..].chunks_exact_mut(4).zip(x) {
            to.copy_from_slice(&(value + 0.0).to_le_bytes());
        }
        if layout.sets.is_some() {
            actions(&mut bytes, &rows.sets, i, rows.actions[i]);
        }
        let decision = xxh3_128(&bytes);
        Fingerprint { decision, row: of_outcome(decision, rows.costs[i]) }
    };
    (0..rows.len()).map(of_row).collect()
}

/// A decision and one of its outcomes.
pub fn of_outcome(decision: u128, cost: f64) -> u128 {
    let mut whole = [0; 20];
    whole[..16].copy_from_slice(&decision.to_le_bytes());
    whole[16..].copy_from_slice(&(cost as f32 + 0.0).to_le_bytes());
    xxh3_128(&whole)
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
