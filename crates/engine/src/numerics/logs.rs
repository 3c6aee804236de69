//! Natural logarithms of many numbers at once, docs/math.md#partials. Plain + − × ÷ in a loop without branches, so
//! that the compiler uses vectors where the CPU has them; every CPU gives the same bits.
//!
//!   x = 2^e·(1 + f) with 1 + f in [√½, √2),   s = f/(2 + f),   ln x = e·ln 2 + f − s(f − R),   R = 2(s²/3 + s⁴/5 + …)

use super::{dispatch, dispatch_wide, elementary};

/// ln 2, in two parts. Products of the first one with exponents are exact.
const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// The bits of √½, without the lower half.
const ROOT_HALF: u64 = 0x3fe6_a09e_0000_0000;

/// ln x of one number, with the bits of [`ln_each`].
#[inline(always)]
fn ln_of(x: f64) -> f64 {
    let bits = x.to_bits();
    // The exponent that brings x into [√½, √2).
    let above = bits.wrapping_sub(ROOT_HALF);
    let exponent = (above as i64) >> 52;
    let e = exponent_as_f64(exponent);
    let f = f64::from_bits(bits.wrapping_sub((exponent as u64) << 52)) - 1.0;
    let s = f / (2.0 + f);
    let q = s * s;
    // Truncating after s²²/23 leaves less than 2^-56 of s, because s² ≤ 0.0295.
    let p = 2.0 / 21.0 + q * (2.0 / 23.0);
    let p = 2.0 / 17.0 + q * (2.0 / 19.0 + q * p);
    let p = 2.0 / 13.0 + q * (2.0 / 15.0 + q * p);
    let p = 2.0 / 9.0 + q * (2.0 / 11.0 + q * p);
    let p = 2.0 / 5.0 + q * (2.0 / 7.0 + q * p);
    let r = q * (2.0 / 3.0 + q * p);
    let value = e * LN2_HIGH + (f - (s * (f - r) - e * LN2_LOW));
    // Below the normal numbers nothing is left of a bet, and anything but a positive number is no number.
    let small = if x >= 0.0 { f64::NEG_INFINITY } else { f64::NAN };
    let value = if x >= f64::MIN_POSITIVE { value } else { small };
    if x == f64::INFINITY { x } else { value }
}

/// A small integer as f64, by its bits: conversions of 64-bit integers are not vectors on most CPUs.
#[inline(always)]
fn exponent_as_f64(exponent: i64) -> f64 {
    const MAGIC: u64 = 0x4338_0000_0000_0000;
    f64::from_bits(MAGIC.wrapping_add(exponent as u64)) - f64::from_bits(MAGIC)
}

dispatch_wide! {
    /// Replaces every number by its natural logarithm: within about 1 ulp for normal numbers, −∞ for 0 and subnormal ones,
    /// NaN for negative ones and NaN.
    pub fn ln_each(values: &mut [f64]) = ln_each_body
}

#[inline(always)]
fn ln_each_body(values: &mut [f64]) {
    values.iter_mut().for_each(|value| *value = ln_of(*value));
}

/// The coefficients of `elementary::ln`.
const LG: [f64; 7] = [
    f64::from_bits(0x3fe5_5555_5555_5593),
    f64::from_bits(0x3fd9_9999_9997_fa04),
    f64::from_bits(0x3fd2_4924_9422_9359),
    f64::from_bits(0x3fcc_71c5_1d8e_78af),
    f64::from_bits(0x3fc7_4664_96cb_03de),
    f64::from_bits(0x3fc3_9a09_d078_c69f),
    f64::from_bits(0x3fc2_f112_df3e_5244),
];

/// The natural logarithms of a few numbers at once, with the bits of `elementary::ln`: the same steps in the same order,
/// without branches. Numbers that are not positive and normal are rare, and are left to it.
#[inline(always)]
pub fn ln_lanes<const N: usize>(values: [f64; N]) -> [f64; N] {
    let mut normal = true;
    for x in values {
        normal &= (f64::MIN_POSITIVE..=f64::MAX).contains(&x);
    }
    let mut logs = values;
    if !normal {
        logs.iter_mut().for_each(|x| *x = elementary::ln(*x));
        return logs;
    }
    for value in &mut logs {
        let bits = value.to_bits();
        // The exponent that brings the number into [√½, √2), as `libm` divides it.
        let high = (bits >> 32) + (0x3ff0_0000 - 0x3fe6_a09e);
        let k = exponent_as_f64((high >> 20) as i64 - 0x3ff);
        let high = (high & 0x000f_ffff) + 0x3fe6_a09e;
        let f = f64::from_bits(high << 32 | bits & 0xffff_ffff) - 1.0;
        let half_square = 0.5 * f * f;
        let s = f / (2.0 + f);
        let z = s * s;
        let w = z * z;
        let even = w * (LG[1] + w * (LG[3] + w * LG[5]));
        let odd = z * (LG[0] + w * (LG[2] + w * (LG[4] + w * LG[6])));
        *value = s * (half_square + (odd + even)) + k * LN2_LOW - half_square + f + k * LN2_HIGH;
    }
    logs
}

dispatch! {
    /// Replaces every number by its natural logarithm, with the bits of `elementary::ln`.
    pub fn ln_of_eight(values: &mut [f64; 8]) = ln_of_eight_body
}

#[inline(always)]
fn ln_of_eight_body(values: &mut [f64; 8]) {
    *values = ln_lanes(*values);
}

#[cfg(test)]
mod tests {
    use super::super::kernels::noise;
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[track_caller]
    fn agree(values: [f64; 8]) {
        let [mut fast, mut plain] = [values; 2];
        ln_of_eight(&mut fast);
        ln_of_eight_body(&mut plain);
        for ((value, fast), plain) in values.into_iter().zip(fast).zip(plain) {
            let expected = elementary::ln(value);
            let bits = [fast, plain, expected].map(f64::to_bits);
            assert!(
                bits == [bits[0]; 3] || expected.is_nan() && fast.is_nan() && plain.is_nan(),
                "{value:e}"
            );
        }
    }

    #[test]
    fn several_logarithms_have_the_bits_of_each() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..300_000 {
            // Of all sizes, as products of bets are, and close to where an exponent changes.
            agree(std::array::from_fn(|_| f64::from_bits(rng.random_range(1u64 << 52..2047u64 << 52))));
            agree(std::array::from_fn(|_| (rng.random::<f64>() * 4.0 - 2.0).exp()));
            let near = [
                1.0,
                2.0,
                0.5,
                std::f64::consts::SQRT_2,
                std::f64::consts::FRAC_1_SQRT_2,
                1.414_213_180_541_992_2,
            ];
            agree(std::array::from_fn(|i| {
                f64::from_bits(
                    (near[i % 6] * 2f64.powi(rng.random_range(-40..40))).to_bits() + rng.random_range(0..9)
                        - 4,
                )
            }));
        }
        for odd in [0.0, -0.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 5e-324, 2.2e-308, f64::MAX] {
            agree(std::array::from_fn(|i| if i == 3 { odd } else { 1.0 + i as f64 }));
        }
        agree([f64::MIN_POSITIVE; 8]);
    }

    /// Distance in units of the last place of the oracle.
    fn ulps(got: f64, want: f64) -> f64 {
        let unit = f64::from_bits(want.abs().to_bits() + 1) - want.abs();
        (got - want).abs() / unit
    }

    #[test]
    fn logarithms_are_within_one_unit_of_the_last_place() {
        let mut worst = 0.0f64;
        for (scale, salt) in [(1e-9, 1), (0.1, 2), (1.0, 3), (40.0, 4), (600.0, 5)] {
            let xs: Vec<f64> = noise(100_000, salt).iter().map(|v| (scale * v).exp()).collect();
            let mut logs = xs.clone();
            ln_each(&mut logs);
            for (x, got) in xs.iter().zip(&logs) {
                worst = worst.max(ulps(*got, libm::log(*x)));
            }
        }
        let one = 1f64.to_bits();
        for bits in (0x3fe6_a09d_ffff_fff0u64..0x3fe6_a09e_0000_0010).chain(one - 20..one + 20) {
            let x = f64::from_bits(bits);
            let mut log = [x];
            ln_each(&mut log);
            worst = worst.max(if log[0] == libm::log(x) { 0.0 } else { ulps(log[0], libm::log(x)) });
        }
        // The oracle itself may be off by a little less than 1.
        assert!(worst <= 2.0, "{worst}");
    }

    #[test]
    fn numbers_at_the_ends_are_safe() {
        let ends =
            [0.0, -0.0, 1.0, f64::from_bits(1), -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, f64::MAX];
        let mut logs = ends;
        ln_each(&mut logs);
        assert_eq!(logs[..4], [f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0, f64::NEG_INFINITY]);
        assert!(logs[4].is_nan() && logs[5].is_nan() && logs[6] == f64::INFINITY);
        assert!(ulps(logs[7], libm::log(ends[7])) <= 1.0 && ulps(logs[8], libm::log(ends[8])) <= 1.0);
    }

    #[test]
    fn both_copies_have_the_same_bits() {
        for n in [1, 3, 4, 5, 1000] {
            let mut fast: Vec<f64> = noise(n, 9).iter().map(|v| (30.0 * v).exp()).collect();
            let mut plain = fast.clone();
            ln_each(&mut fast);
            ln_each_body(&mut plain);
            assert!(fast.iter().zip(&plain).all(|(a, b)| a.to_bits() == b.to_bits()), "{n}");
        }
    }
}
