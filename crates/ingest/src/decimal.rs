//! Decimal numbers as double precision, to the last bit those of `str::parse`: eight digits at a time, and without a
//! second look at the text.

/// Numbers of this many digits always fit into a u64.
const U64_DIGITS: usize = 19;
/// Integers up to this are exact in double precision, and so are these powers of ten: their quotient is rounded only
/// once, and therefore correctly.
const EXACT: u64 = 1 << 53;
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];
/// Up to this many digits after the point, 5 to their number fits into 64 bits.
const MAX_SCALE: usize = 27;
const TENS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
/// The bits of a double's mantissa that are stored.
const MANTISSA_BITS: u32 = 52;
/// 10⁻⁴ is the smallest power of ten with which a product can lie in the middle between two doubles.
const MOST_TIES: usize = 4;

/// Reads the JSON number at the beginning of `text`. Returns it and its length; `None` if there is none, or if it is
/// larger than a double can be.
pub fn number(text: &[u8]) -> Option<(f64, usize)> {
    let negative = text.first() == Some(&b'-');
    let from = usize::from(negative);
    let (mut mantissa, mut at) = (0, from);
    let whole = digits(text, &mut at, &mut mantissa);
    if whole == 0 || (whole > 1 && text[from] == b'0') {
        return None;
    }
    // The only 0 before a point is no digit of the mantissa.
    let significant = if text[from] == b'0' { 0 } else { whole };
    let mut scale = 0;
    if text.get(at) == Some(&b'.') {
        at += 1;
        scale = digits(text, &mut at, &mut mantissa);
        if scale == 0 {
            return None;
        }
    }
    let exponent = matches!(text.get(at), Some(b'e' | b'E'));
    if exponent {
        at += 1;
        at += usize::from(matches!(text.get(at), Some(b'+' | b'-')));
        if digits(text, &mut at, &mut 0) == 0 {
            return None;
        }
    }
    if exponent || significant + scale > U64_DIGITS {
        return parsed(&text[..at]).map(|value| (value, at));
    }
    // At most 19 digits, so the scale is within both tables.
    let value = match mantissa <= EXACT {
        true => mantissa as f64 / POWERS[scale],
        false => scaled(mantissa, scale),
    };
    Some((if negative { -value } else { value }, at))
}

/// Reads digits from `at` on into a mantissa, which wraps around if there are too many, and returns how many there are.
#[inline(always)]
fn digits(text: &[u8], at: &mut usize, mantissa: &mut u64) -> usize {
    let from = *at;
    while let Some(eight) = text.get(*at..).and_then(|rest| rest.first_chunk::<8>()) {
        let (values, count) = leading_digits(u64::from_le_bytes(*eight));
        *at += count;
        if count < 8 {
            *mantissa = mantissa.wrapping_mul(TENS[count]).wrapping_add(values);
            return *at - from;
        }
        *mantissa = mantissa.wrapping_mul(100_000_000).wrapping_add(values);
    }
    while let Some(digit @ 0..=9) = text.get(*at).map(|byte| byte.wrapping_sub(b'0')) {
        *mantissa = mantissa.wrapping_mul(10).wrapping_add(digit.into());
        *at += 1;
    }
    *at - from
}

/// The number that the first digits of eight characters are, and how many they are. The first character is the lowest
/// byte.
#[inline(always)]
fn leading_digits(eight: u64) -> (u64, usize) {
    // Digits become their values, and only they are then below 10.
    let values = eight ^ 0x3030_3030_3030_3030;
    let others =
        (((values & 0x7f7f_7f7f_7f7f_7f7f) + 0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
    let count = others.trailing_zeros() / 8;
    if count == 0 {
        return (0, 0);
    }
    // Zeros come before the digits in place of what follows them. Then pairs, fours and eights are put together.
    let values = values << (64 - 8 * count);
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    let all = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff;
    (all, count as usize)
}

/// `mantissa` / 10^`scale`, correctly rounded, by the algorithm of Eisel and Lemire: one multiplication by a power of
/// five of 64 bits tells all bits of the result unless they are close to a carry, and 128 bits always do for these
/// powers (D. Lemire, Number parsing at a gigabyte per second, 2021, section 5; N. Mushtak and D. Lemire, Fast number
/// parsing without fallback, 2023). The mantissa is not 0.
fn scaled(mantissa: u64, scale: usize) -> f64 {
    let zeros = mantissa.leading_zeros();
    let digits = mantissa << zeros;
    let (power, more) = FIFTHS[scale];
    let product = u128::from(digits) * u128::from(power);
    let (mut low, mut high) = (product as u64, (product >> 64) as u64);
    // Only if all bits below those of the result are set can the rest of the power carry into them.
    const BELOW: u64 = u64::MAX >> (MANTISSA_BITS + 3);
    if high & BELOW == BELOW {
        let rest = ((u128::from(digits) * u128::from(more)) >> 64) as u64;
        let (sum, carry) = low.overflowing_add(rest);
        (low, high) = (sum, high + u64::from(carry));
    }
    let upper = (high >> 63) as u32;
    let shift = upper + 64 - MANTISSA_BITS - 3;
    // One bit more than the result has, to round by.
    let mut mantissa = high >> shift;
    if low <= 1 && scale <= MOST_TIES && mantissa & 3 == 1 && mantissa << shift == high {
        // Exactly in the middle: rounds to the even one.
        mantissa &= !1;
    }
    mantissa = (mantissa + (mantissa & 1)) >> 1;
    // ⌊log2 10^−scale⌋ + 63, for these scales.
    let exponent = ((-(scale as i32) * 217_706) >> 16) + 63 + upper as i32 - zeros as i32;
    let carried = (mantissa >> (MANTISSA_BITS + 1)) as i32;
    let stored = (mantissa >> carried) & ((1 << MANTISSA_BITS) - 1);
    // The result is between 1e-27 and 2e19, so its exponent is never out of range.
    f64::from_bits(((exponent + carried + 1023) as u64) << MANTISSA_BITS | stored)
}

/// 10^−scale as far as it is not a power of two: 2^b / 5^scale, rounded up to 128 bits, of which the first is 1.
const FIFTHS: [(u64, u64); MAX_SCALE + 1] = {
    let (mut all, mut scale, mut five) = ([(1 << 63, 0); MAX_SCALE + 1], 1, 1u64);
    while scale <= MAX_SCALE {
        five *= 5;
        // The quotient bit by bit: the dividend is 1 followed by zeros.
        let (mut rest, mut quotient) = (1u128, 0u128);
        while quotient >> 127 == 0 {
            rest <<= 1;
            quotient <<= 1;
            if rest >= five as u128 {
                rest -= five as u128;
                quotient |= 1;
            }
        }
        quotient += 1;
        all[scale] = ((quotient >> 64) as u64, quotient as u64);
        scale += 1;
    }
    all
};

/// What the standard library reads. A number that is too large is not read.
fn parsed(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[track_caller]
    fn agree(text: &str) {
        let expected: f64 = text.parse().unwrap();
        // What follows a number must not matter, nor where its text ends.
        for after in ["", ",", "]}\n0000000", "}", ",0.1111111111111111"] {
            let (value, length) = number(format!("{text}{after}").as_bytes()).unwrap();
            assert_eq!((value.to_bits(), length), (expected.to_bits(), text.len()), "{text}");
        }
    }

    /// A number of these digits, of which `scale` are behind the point.
    fn decimal(mantissa: u64, scale: usize) -> String {
        let digits = format!("{mantissa:0width$}", width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        if scale == 0 { whole.into() } else { format!("{whole}.{fraction}") }
    }

    #[test]
    fn random_numbers_have_the_bits_of_the_standard_library() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let same = |mantissa: u64, scale: usize| {
            let text = decimal(mantissa, scale);
            let expected: f64 = text.parse().unwrap();
            let (value, length) = number(text.as_bytes()).unwrap();
            assert_eq!((value.to_bits(), length), (expected.to_bits(), text.len()), "{text}");
        };
        for _ in 0..1_000_000 {
            // Of all lengths, with as many decimals.
            let mantissa = rng.random::<u64>() >> rng.random_range(0..64);
            same(mantissa, rng.random_range(0..24));
            // As programs write numbers of [0, 1).
            let value: f64 = rng.random();
            same((value * 1e17) as u64, 17);
            same((value * 1e16) as u64, 16);
            let text = (value as f32 as f64).to_string();
            assert_eq!(number(text.as_bytes()), Some((value as f32 as f64, text.len())));
            let text = value.to_string();
            assert_eq!(number(text.as_bytes()), Some((value, text.len())));
        }
    }

    /// Decimal numbers that lie in the middle between two doubles, or next to it.
    #[test]
    fn numbers_close_to_the_middle_between_two_doubles_are_rounded_like_in_the_standard_library() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        for _ in 0..20_000 {
            // (2m + 1)/2 · 2^e of 54 bits, as w/10^s: exact for small s, and otherwise the nearest below and above.
            let odd = rng.random_range(1u64 << 53..1 << 54) | 1;
            for scale in 0..=MAX_SCALE {
                let whole = u128::from(odd) * 5u128.pow(scale as u32);
                let shift = (128 - whole.leading_zeros()).saturating_sub(64);
                let near = (whole >> shift) as u64;
                for mantissa in [near.wrapping_sub(1), near, near.wrapping_add(1)] {
                    if mantissa > EXACT {
                        let text = decimal(mantissa, scale);
                        let expected: f64 = text.parse().unwrap();
                        assert_eq!(scaled(mantissa, scale).to_bits(), expected.to_bits(), "{text}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_power_and_the_ends_of_the_mantissa() {
        for scale in 0..=MAX_SCALE {
            let ends = [EXACT + 1, EXACT + 2, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, (1 << 63) + 1];
            let ones = (53..64).flat_map(|bits| [1u64 << bits, (1 << bits) + 1, u64::MAX >> (63 - bits)]);
            for mantissa in ends.into_iter().chain(ones).filter(|&mantissa| mantissa > EXACT) {
                let expected: f64 = decimal(mantissa, scale).parse().unwrap();
                assert_eq!(scaled(mantissa, scale).to_bits(), expected.to_bits(), "{mantissa} {scale}");
            }
        }
    }

    #[test]
    fn numbers_of_every_form() {
        for text in [
            "0",
            "-0",
            "0.0",
            "-0.0",
            "7",
            "-7",
            "12345678",
            "123456789",
            "1234567890123456789",
            "0.5",
            "10.25",
            "12345678901234567890",
            "0.00000000000000000000000001",
            "0.000000000000000123456789",
            "1e5",
            "1E+5",
            "1e-7",
            "9007199254740993",
            "9007199254740992.5",
            "90071992547409.93",
            "1.7976931348623157e308",
            "5e-324",
            "2.2250738585072011e-308",
            "0.1234567890123456789012",
            "99999999999999999999.9",
            "0.30000000000000004",
            "8.5070591730234615e37",
            "179769313486231580793728.971405301",
        ] {
            agree(text);
            agree(&format!("-{}", text.trim_start_matches('-')));
        }
    }

    #[test]
    fn what_is_no_number_is_not_read() {
        for text in
            ["", "-", "01", "-01", "00", "1.", ".5", "1e", "1e+", "+1", "NaN", "1e999", "-1e999", "x", "-.5"]
        {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
        // What follows is not read: the caller rejects it.
        assert_eq!(number(b"1.5.5"), Some((1.5, 3)));
        assert_eq!(number(b"12:"), Some((12.0, 2)));
        assert_eq!(number(b"1/2"), Some((1.0, 1)));
    }

    proptest! {
        #[test]
        fn numbers_of_any_bits(bits in any::<u64>(), small in any::<i64>(), scale in 0..30i32) {
            let value = f64::from_bits(bits);
            if value.is_finite() {
                agree(&value.to_string());
                agree(&format!("{value:e}"));
                agree(&format!("{value:?}"));
            }
            agree(&(small as f64 / 10f64.powi(scale)).to_string());
        }

        #[test]
        fn digits_around_anything(before in "[0-9]{1,30}", after in "[0-9]{1,30}", rest in "[^0-9eE]{0,9}") {
            let text = format!("{}.{after}", before.trim_start_matches('0'));
            let text = if text.starts_with('.') { format!("0{text}") } else { text };
            let expected: f64 = text.parse().unwrap();
            let found = number(format!("{text}{rest}").as_bytes()).map(|(value, length)| (value.to_bits(), length));
            prop_assert_eq!(found, Some((expected.to_bits(), text.len())));
        }
    }
}
