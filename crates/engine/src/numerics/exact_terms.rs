//! Many terms of an exact sum at once, docs/math.md#partials. A term is split into parts, each a multiple of a power of 2
//! that all terms of a block share. The parts of a block add up in f64 without rounding, in any order, so they are
//! vectors; only their few sums go into the limbs.
//!
//! With |x| < 2^E, σ = 1.5·2^(E + 10) and u = 2^(E − 42), which is the distance of the numbers near σ: (x + σ) − σ is x
//! rounded to a multiple of u, and the rest x − ((x + σ) − σ) is exact and at most u/2. Sums of up to 2^10 such multiples
//! are multiples of u below 2^52·u, and f64 has all of them. Any larger E does as well, if nothing is left of any term after
//! the last part; so a block is tried with that of the block before it.

use super::dispatch_wide;
use super::exact::ExactSum;

/// The most terms of a block.
const BLOCK: usize = 1 << 10;
/// With fewer terms the setting up costs more than it saves.
const FEW: usize = 12;
/// E + 10 of the largest σ is at most this, and that of the smallest one leaves normal numbers.
const EXPONENTS: std::ops::RangeInclusive<i32> = -700..=1000;
/// Each next σ is smaller by this: the rest is at most 2^(E − 43).
const STEP: f64 = f64::from_bits((1023 - 43) << 52);
const LANES: usize = 32;
const MAGNITUDE: u64 = u64::MAX >> 1;

impl ExactSum {
    /// Adds terms. The sum is that of adding them one by one.
    pub fn add_all(&mut self, terms: &[f64]) {
        add_all_to([self], terms);
    }
}

/// Adds the same terms to several sums.
pub fn add_all_to<const S: usize>(mut sums: [&mut ExactSum; S], terms: &[f64]) {
    terms.chunks(BLOCK).for_each(|block| add_block(&mut sums, block));
}

fn add_block<const S: usize>(sums: &mut [&mut ExactSum; S], block: &[f64]) {
    let Some(above) = sums.first().map(|sum| sum.above) else { return };
    let mut add = |terms: &[f64], above: Option<i32>| {
        for sum in sums.iter_mut() {
            sum.above = above;
            terms.iter().for_each(|&term| sum.add(term));
        }
    };
    if block.len() < FEW {
        return add(block, above);
    }
    let mut two = Parts::default();
    // Most blocks are like the one before, and one pass over their terms shows whether they are.
    if let Some(exponent) = above {
        split_in_two(block, sigma_of(exponent), &mut two);
        if !two.beyond && two.rest == 0 {
            return add(&two.sums, above);
        }
    }
    let mut largest = 0;
    largest_of(block, &mut largest);
    if largest == 0 {
        return;
    }
    // 2^E is above every term.
    let exponent = (largest >> 52) as i32 - 1022;
    if !EXPONENTS.contains(&(exponent + 10)) {
        return add(block, None);
    }
    let sigma = sigma_of(exponent);
    split_in_two(block, sigma, &mut two);
    if two.rest == 0 {
        return add(&two.sums, Some(exponent));
    }
    let mut four = Parts::default();
    split_in_four(block, sigma, &mut four);
    match four.rest {
        0 => add(&four.sums, None),
        _ => add(block, None),
    }
}

/// σ for terms below 2^E.
fn sigma_of(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent + 10) as u64) << 52 | 1 << 51)
}

/// The sums of the parts of some terms, the bits of what was left of any of them, and whether any was not below 2^E.
struct Parts<const N: usize> {
    sums: [f64; N],
    rest: u64,
    beyond: bool,
}

impl<const N: usize> Default for Parts<N> {
    fn default() -> Self {
        Parts { sums: [0.0; N], rest: 0, beyond: false }
    }
}

dispatch_wide! {
    /// The largest of the terms without their signs, by its bits. Those of what is not finite are larger than all others.
    fn largest_of(terms: &[f64], largest: &mut u64) = largest_of_body
}

dispatch_wide! {
    fn split_in_two(terms: &[f64], sigma: f64, parts: &mut Parts<2>) = split_body
}

dispatch_wide! {
    fn split_in_four(terms: &[f64], sigma: f64, parts: &mut Parts<4>) = split_body
}

#[inline(always)]
fn largest_of_body(terms: &[f64], largest: &mut u64) {
    // Comparing signed numbers is one instruction, and without its sign no f64 is negative as an integer.
    let mut lanes = [0i64; LANES];
    let bits = |term: f64| (term.to_bits() & MAGNITUDE) as i64;
    let (rows, rest) = terms.as_chunks::<LANES>();
    for row in rows {
        for lane in 0..LANES {
            lanes[lane] = lanes[lane].max(bits(row[lane]));
        }
    }
    for (lane, &term) in lanes.iter_mut().zip(rest) {
        *lane = bits(term).max(*lane);
    }
    *largest = lanes.into_iter().fold(0, i64::max) as u64;
}

#[inline(always)]
fn split_body<const N: usize>(terms: &[f64], sigma: f64, parts: &mut Parts<N>) {
    let mut sigmas = [sigma; N];
    for i in 1..N {
        sigmas[i] = sigmas[i - 1] * STEP;
    }
    // The bits of the number before 2^E, which is σ without its half and by 10 exponents smaller.
    let limit = ((sigma.to_bits() - (10 << 52)) & !(1 << 51)) - 1;
    let (mut sums, mut left, mut beyond) = ([[0.0; LANES]; N], [0u64; LANES], [0u64; LANES]);
    let (rows, rest) = terms.as_chunks::<LANES>();
    let mut last = [0.0; LANES];
    last[..rest.len()].copy_from_slice(rest);
    for row in rows.iter().chain(std::iter::once(&last)) {
        let mut term = *row;
        for lane in 0..LANES {
            // Negative if the term is larger, as what is not finite is too.
            beyond[lane] |= limit.wrapping_sub(term[lane].to_bits() & MAGNITUDE);
        }
        for (sums, sigma) in sums.iter_mut().zip(sigmas) {
            for lane in 0..LANES {
                let part = (term[lane] + sigma) - sigma;
                term[lane] -= part;
                sums[lane] += part;
            }
        }
        for lane in 0..LANES {
            left[lane] |= term[lane].to_bits() & MAGNITUDE;
        }
    }
    for (to, lanes) in parts.sums.iter_mut().zip(&mut sums) {
        // Halves onto halves, which are vectors too.
        let mut width = LANES;
        while width > 1 {
            width /= 2;
            let (one, other) = lanes.split_at_mut(width);
            one.iter_mut().zip(other).for_each(|(one, other)| *one += *other);
        }
        *to = lanes[0];
    }
    parts.rest = left.into_iter().fold(0, |all, left| all | left);
    parts.beyond = beyond.into_iter().fold(0, |all, beyond| all | beyond) >> 63 == 1;
}

#[cfg(test)]
mod tests {
    use super::super::kernels::noise;
    use super::*;

    fn one_by_one(terms: &[f64]) -> ExactSum {
        let mut sum = ExactSum::default();
        terms.iter().for_each(|&term| sum.add(term));
        sum
    }

    fn at_once(terms: &[f64]) -> ExactSum {
        let mut sums = [ExactSum::default(), ExactSum::default()];
        let [sum, other] = &mut sums;
        other.add(1e300);
        add_all_to([sum, &mut *other], terms);
        other.add(-1e300);
        assert_eq!(sums[0], sums[1]);
        let [sum, _] = sums;
        sum
    }

    /// Terms whose exponents differ by up to `spread`.
    fn terms(n: usize, spread: f64, salt: u64) -> Vec<f64> {
        let (sizes, signs) = (noise(n, salt), noise(n, salt + 1));
        sizes.iter().zip(signs).map(|(size, sign)| sign * (0.5 * spread * size).exp2()).collect()
    }

    #[test]
    fn blocks_have_the_sums_of_their_terms() {
        // Two parts, four, and neither.
        for (salt, spread) in [0.0, 3.0, 20.0, 60.0, 110.0, 300.0, 1500.0].into_iter().enumerate() {
            for n in [0, 1, FEW - 1, FEW, 100, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 7] {
                let terms = terms(n, spread, 2 * salt as u64);
                assert_eq!(at_once(&terms), one_by_one(&terms), "{n} terms, {spread}");
            }
        }
    }

    #[test]
    fn terms_of_one_sign_and_full_mantissas_do_not_overflow_a_part() {
        let below_two = f64::from_bits(2f64.to_bits() - 1);
        for term in [below_two, -below_two, 1.0 + f64::EPSILON, 1.0 / 3.0, 2f64.powi(600) / 3.0] {
            let terms = vec![term; 3 * BLOCK];
            assert_eq!(at_once(&terms), one_by_one(&terms), "{term:e}");
            // Beside a term that leaves the others only the last bits of the second part.
            for small in [2f64.powi(-33), 2f64.powi(-34), 2f64.powi(-36), 2f64.powi(-120)] {
                let mut terms = vec![term * small; BLOCK];
                terms[17] = term;
                assert_eq!(at_once(&terms), one_by_one(&terms), "{term:e} {small:e}");
            }
        }
    }

    /// A block after another one starts from what bounded that one.
    #[test]
    fn blocks_unlike_the_ones_before_have_the_sums_of_their_terms() {
        let scales = [0, 0, 3, -3, 40, -40, 90, -300, 600, 1020, -1060, 1, 0, 0];
        for first in 0..scales.len() {
            let mut terms: Vec<f64> = Vec::new();
            for (i, &scale) in scales.iter().cycle().skip(first).take(scales.len()).enumerate() {
                let sizes = noise(BLOCK, (i + first) as u64);
                terms.extend(sizes.iter().map(|size| size * 0.5 * 2f64.powi(scale)));
            }
            assert_eq!(at_once(&terms), one_by_one(&terms), "{first}");
            for broken in [f64::NAN, f64::NEG_INFINITY] {
                terms[first * BLOCK + 7] = broken;
                assert!(at_once(&terms).value().is_nan(), "{broken}");
            }
        }
        // At the very end of what the block before allows, and beyond.
        for scale in [0, 1, 2, 30, 40] {
            let largest = 2f64.powi(scale);
            let blocks = [vec![0.75; BLOCK], vec![largest - 0.1; BLOCK], vec![1.0 / 3.0; 50]].concat();
            assert_eq!(at_once(&blocks), one_by_one(&blocks), "{scale}");
            let blocks = [vec![largest / 3.0; BLOCK], vec![0.1; BLOCK], vec![1e-9 / 3.0; 50]].concat();
            assert_eq!(at_once(&blocks), one_by_one(&blocks), "{scale}");
        }
    }

    #[test]
    fn ends_of_the_range_are_exact_too() {
        let tiny = f64::from_bits(1);
        for term in
            [tiny, f64::MIN_POSITIVE, 3.0 * tiny, f64::MAX, 1e-200, 1e-215, 1e290, 1e300, 1e308, 0.0, -0.0]
        {
            let mut terms = vec![term; 100];
            assert_eq!(at_once(&terms), one_by_one(&terms), "{term:e}");
            terms[50] = 1.0;
            assert_eq!(at_once(&terms), one_by_one(&terms), "{term:e} and 1");
        }
        for broken in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN] {
            for place in [0, 9, 99] {
                let mut terms = vec![0.25; 100];
                terms[place] = broken;
                assert!(at_once(&terms).value().is_nan(), "{broken} at {place}");
            }
        }
    }

    #[test]
    fn both_copies_have_the_same_parts() {
        for n in [1, 8, 100, BLOCK] {
            let terms = terms(n, 30.0, 9);
            let (mut fast, mut plain) = (Parts::<2>::default(), Parts::<2>::default());
            split_in_two(&terms, 1.5 * 2f64.powi(26), &mut fast);
            split_body(&terms, 1.5 * 2f64.powi(26), &mut plain);
            assert_eq!((fast.sums, fast.rest, fast.beyond), (plain.sums, plain.rest, plain.beyond));
            let mut largest = [0; 2];
            largest_of(&terms, &mut largest[0]);
            largest_of_body(&terms, &mut largest[1]);
            assert_eq!(largest[0], largest[1]);
            assert_eq!(largest[0], terms.iter().fold(0.0f64, |m, t| m.max(t.abs())).to_bits());
        }
    }
}
