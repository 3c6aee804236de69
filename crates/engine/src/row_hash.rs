//! XXH3 with 128 bits of a few numbers that are in registers. Hashes of rows are of a constant number of small numbers; writing
//! them to memory as bytes and reading these in other sizes takes longer than the hash. The values are those of the
//! `xxhash_rust` crate on the little-endian bytes.
//!
//! Many rows at once are vectors where the CPU multiplies numbers of 64 bits in vectors (AVX-512). No CPU gives the upper half
//! of such products at once, so they are put together from products of halves there; the values are the same.

use crate::numerics::{dispatch_wide, kernels};

const PRIME_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME_4: u64 = 0x85eb_ca77_c2b2_ae63;
const PRIME_2_OF_32: u64 = 0x85eb_ca77;
/// The first half of the secret, in numbers of eight bytes.
const SECRET: [u64; 8] = [
    0xbe4b_a423_396c_feb8,
    0x1cad_21f7_2c81_017c,
    0xdb97_9083_e96d_d4de,
    0x1f67_b3b7_a4a4_4072,
    0x78e5_c0cc_4ee6_79cb,
    0x2172_ffcc_7dd0_5a82,
    0x8e24_43f7_7446_08b8,
    0x4c26_3a81_e690_35e0,
];

/// How many rows are hashed at once.
pub const HASHED: usize = 256;
/// A number of each of some rows.
pub type Words = [u32; HASHED];

/// The lower and the upper halves of the hashes of some rows.
pub struct Hashes {
    /// The lower halves.
    pub low: [u64; HASHED],
    /// The upper halves.
    pub high: [u64; HASHED],
}

impl Default for Hashes {
    fn default() -> Self {
        Hashes { low: [0; HASHED], high: [0; HASHED] }
    }
}

impl Hashes {
    /// The hash of a row.
    #[inline(always)]
    pub fn of(&self, row: usize) -> u128 {
        joined(self.low[row], self.high[row])
    }
}

/// The hashes of the first rows, each of 2 to 10 or 12 numbers of four bytes, column by column.
pub fn hash_each(words: &[Words], rows: usize, out: &mut Hashes) {
    match kernels::avx512() {
        true => hash_wide(words, rows, out),
        false => hash_each_body::<false>(words, rows, out),
    }
}

dispatch_wide! {
    fn hash_wide(words: &[Words], rows: usize, out: &mut Hashes) = hash_each_body::<true>
}

#[inline(always)]
fn hash_each_body<const WIDE: bool>(words: &[Words], rows: usize, out: &mut Hashes) {
    match words.len() {
        2 => hash_columns::<2, WIDE>(words, rows, out),
        3 => hash_columns::<3, WIDE>(words, rows, out),
        4 => hash_columns::<4, WIDE>(words, rows, out),
        5 => hash_columns::<5, WIDE>(words, rows, out),
        6 => hash_columns::<6, WIDE>(words, rows, out),
        7 => hash_columns::<7, WIDE>(words, rows, out),
        8 => hash_columns::<8, WIDE>(words, rows, out),
        9 => hash_columns::<9, WIDE>(words, rows, out),
        10 => hash_columns::<10, WIDE>(words, rows, out),
        12 => hash_columns::<12, WIDE>(words, rows, out),
        length => unreachable!("rows of {length} numbers are hashed one by one"),
    }
}

#[inline(always)]
fn hash_columns<const N: usize, const WIDE: bool>(words: &[Words], rows: usize, out: &mut Hashes) {
    let Some(words) = words.first_chunk::<N>() else { return };
    for i in 0..rows.min(HASHED) {
        let mut row = [0; N];
        for (number, words) in row.iter_mut().zip(words) {
            *number = words[i];
        }
        let (low, high) = halves_of_hash::<N, WIDE>(row);
        out.low[i] = low;
        out.high[i] = high;
    }
}

/// The hash of 2 to 16 numbers of four bytes each.
#[inline(always)]
pub fn hash_of<const N: usize>(words: [u32; N]) -> u128 {
    let (low, high) = halves_of_hash::<N, false>(words);
    joined(low, high)
}

#[inline(always)]
fn halves_of_hash<const N: usize, const WIDE: bool>(words: [u32; N]) -> (u64, u64) {
    const { assert!(N >= 2 && N <= 16) };
    let (bytes, last) = (4 * N as u64, N - 2);
    match N {
        2 => of_eight::<WIDE>(pair(&words, 0)),
        3 | 4 => of_sixteen::<WIDE>(pair(&words, 0), pair(&words, last), bytes),
        _ => {
            let (mut low, mut high) = (bytes.wrapping_mul(PRIME_1), 0u64);
            if N > 8 {
                mix::<WIDE>(
                    (&mut low, &mut high),
                    [pair(&words, 4), pair(&words, 6)],
                    [pair(&words, N - 8), pair(&words, N - 6)],
                    4,
                );
            }
            mix::<WIDE>(
                (&mut low, &mut high),
                [pair(&words, 0), pair(&words, 2)],
                [pair(&words, N - 4), pair(&words, last)],
                0,
            );
            let second = (low.wrapping_mul(PRIME_1))
                .wrapping_add(high.wrapping_mul(PRIME_4))
                .wrapping_add(bytes.wrapping_mul(PRIME_2));
            (avalanche(low.wrapping_add(high)), avalanche(second).wrapping_neg())
        }
    }
}

/// A number of eight bytes as two of four.
#[inline(always)]
pub fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// Two numbers of four bytes as one of eight.
#[inline(always)]
fn pair<const N: usize>(words: &[u32; N], at: usize) -> u64 {
    u64::from(words[at]) | u64::from(words[at + 1]) << 32
}

#[inline(always)]
fn of_eight<const WIDE: bool>(word: u64) -> (u64, u64) {
    let keyed = word ^ SECRET[2] ^ SECRET[3];
    let (mut low, mut high) = product::<WIDE>(keyed, PRIME_1.wrapping_add(8 << 2));
    high = high.wrapping_add(low << 1);
    low ^= high >> 3;
    low = (low ^ low >> 35).wrapping_mul(0x9fb2_1c65_1e98_df25);
    (low ^ low >> 28, avalanche(high))
}

/// Of 9 to 16 bytes, given as the first and the last eight.
#[inline(always)]
fn of_sixteen<const WIDE: bool>(first: u64, last: u64, bytes: u64) -> (u64, u64) {
    let (mut low, mut high) = product::<WIDE>(first ^ last ^ SECRET[4] ^ SECRET[5], PRIME_1);
    low = low.wrapping_add((bytes - 1) << 54);
    let last = last ^ SECRET[6] ^ SECRET[7];
    high = high.wrapping_add(last.wrapping_add((last & 0xffff_ffff).wrapping_mul(PRIME_2_OF_32 - 1)));
    low ^= high.swap_bytes();
    let (result, more) = product::<WIDE>(low, PRIME_2);
    (avalanche(result), avalanche(more.wrapping_add(high.wrapping_mul(PRIME_2))))
}

/// Mixes two times 16 bytes into the state, with the secret from a place on.
#[inline(always)]
fn mix<const WIDE: bool>((low, high): (&mut u64, &mut u64), one: [u64; 2], other: [u64; 2], place: usize) {
    *low = low.wrapping_add(fold::<WIDE>(one, place)) ^ other[0].wrapping_add(other[1]);
    *high = high.wrapping_add(fold::<WIDE>(other, place + 2)) ^ one[0].wrapping_add(one[1]);
}

#[inline(always)]
fn fold<const WIDE: bool>([a, b]: [u64; 2], place: usize) -> u64 {
    let (low, high) = product::<WIDE>(a ^ SECRET[place], b ^ SECRET[place + 1]);
    low ^ high
}

#[inline(always)]
fn avalanche(x: u64) -> u64 {
    let x = (x ^ x >> 37).wrapping_mul(0x1656_6791_9e37_79f9);
    x ^ x >> 32
}

/// The lower and the upper half of a product.
#[inline(always)]
fn product<const WIDE: bool>(a: u64, b: u64) -> (u64, u64) {
    if WIDE {
        let (low, high) = (|x: u64| x & 0xffff_ffff, |x: u64| x >> 32);
        let times = u64::wrapping_mul;
        let (least, most) = (times(low(a), low(b)), times(high(a), high(b)));
        // None of these overflows: a product of halves leaves room for two numbers of 32 bits.
        let one = times(high(a), low(b)).wrapping_add(high(least));
        let other = times(low(a), high(b)).wrapping_add(low(one));
        return (a.wrapping_mul(b), most.wrapping_add(high(one)).wrapping_add(high(other)));
    }
    let product = u128::from(a) * u128::from(b);
    (product as u64, (product >> 64) as u64)
}

#[inline(always)]
fn joined(low: u64, high: u64) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_128;

    fn agrees<const N: usize>() {
        let mut state = N as u64;
        for _ in 0..1000 {
            let words: [u32; N] = std::array::from_fn(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 32) as u32
            });
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(hash_of(words), xxh3_128(&bytes), "{words:?}");
        }
        assert_eq!(hash_of([0; N]), xxh3_128(&vec![0; 4 * N]));
        assert_eq!(hash_of([u32::MAX; N]), xxh3_128(&vec![255; 4 * N]));
    }

    /// Many rows at once have the hashes of each.
    fn each_agrees<const N: usize>() {
        let mut words = vec![[0u32; HASHED]; N];
        let mut state = N as u64;
        for (at, word) in words.iter_mut().flatten().enumerate() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *word = [(state >> 32) as u32, u32::MAX, 0][(at % 7).saturating_sub(4)];
        }
        for rows in [0, 1, 7, HASHED] {
            let mut found: [Hashes; 3] = Default::default();
            hash_each(&words, rows, &mut found[0]);
            hash_wide(&words, rows, &mut found[1]);
            hash_each_body::<false>(&words, rows, &mut found[2]);
            for row in 0..HASHED {
                let expected =
                    if row < rows { hash_of::<N>(std::array::from_fn(|at| words[at][row])) } else { 0 };
                assert!(found.iter().all(|found| found.of(row) == expected), "{N} numbers, row {row}");
            }
        }
    }

    #[test]
    fn hashes_of_many_rows_are_those_of_each() {
        each_agrees::<2>();
        each_agrees::<3>();
        each_agrees::<4>();
        each_agrees::<5>();
        each_agrees::<6>();
        each_agrees::<7>();
        each_agrees::<8>();
        each_agrees::<9>();
        each_agrees::<10>();
        each_agrees::<12>();
    }

    #[test]
    fn hashes_are_those_of_the_bytes() {
        agrees::<2>();
        agrees::<3>();
        agrees::<4>();
        agrees::<5>();
        agrees::<6>();
        agrees::<7>();
        agrees::<8>();
        agrees::<9>();
        agrees::<10>();
        agrees::<12>();
        agrees::<13>();
        agrees::<16>();
    }
}
