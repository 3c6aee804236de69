//! Named features into a fixed number of dimensions, by the rule of scikit-learn's `FeatureHasher`:
//! h = MurmurHash3 (x86, 32 bits, seed 0) of the name in UTF-8, read as a signed number; the value goes
//! to dimension |h| mod d, negated if h is negative, so that names that share a dimension cancel out on
//! average. Nothing depends on the data: a name has the same dimension in every log.
//!
//! A name that is a number is its own dimension, modulo d and not negated, as it is its own hash in
//! Vowpal Wabbit: features that are already numbered are passed through.

/// The rule with its number of dimensions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hashing {
    /// If it is 0, the rows get no hashed features.
    pub dims: usize,
}

impl Hashing {
    /// The number of dimensions unless the caller sets it.
    pub const DEFAULT_DIMS: usize = 256;

    /// Adds a feature to the first `dims` numbers of `x`.
    pub fn add(self, x: &mut [f64], name: &str, value: f64) {
        let (hash, sign) = hash_of(name);
        if let Some(dimension) = hash.checked_rem(self.dims as u64)
            && let Some(sum) = x.get_mut(dimension as usize)
        {
            *sum += sign * value;
        }
    }
}

/// The number whose remainder is the dimension of a name, and the sign of its values.
pub fn hash_of(name: &str) -> (u64, f64) {
    let number = name.bytes().all(|b| b.is_ascii_digit()).then(|| name.parse::<u64>().ok()).flatten();
    match number {
        Some(number) => (number, 1.0),
        None => {
            let h = murmur3(name.as_bytes()) as i32;
            (u64::from(h.unsigned_abs()), if h < 0 { -1.0 } else { 1.0 })
        }
    }
}

/// MurmurHash3, x86, 32 bits, seed 0.
fn murmur3(bytes: &[u8]) -> u32 {
    let mix = |k: u32| k.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let mut h = 0u32;
    let mut blocks = bytes.chunks_exact(4);
    for block in &mut blocks {
        h ^= mix(u32::from_le_bytes([block[0], block[1], block[2], block[3]]));
        h = h.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let tail = blocks.remainder();
    if !tail.is_empty() {
        h ^= mix(tail.iter().rev().fold(0, |k, &byte| k << 8 | u32::from(byte)));
    }
    h ^= bytes.len() as u32;
    h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
    h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
    h ^ h >> 16
}
