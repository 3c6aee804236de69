//! Exact sums of f64, docs/math.md#partials. The sum is an integer multiple of 2^-1074, kept in limbs of 32 bits. No
//! addition rounds, so the sum of the same terms is the same in every order and every grouping, to the last bit.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::elementary::scalbn;

/// Limbs of 32 bits: 2098 bits for every finite f64, and more than 64 for the number of terms.
const LIMBS: usize = 68;
/// The exponent of the lowest bit.
const LOWEST: i32 = -1074;
/// After this many additions the limbs are carried. Each addition changes a limb by less than 2^32.
const CARRY_AFTER: u32 = 1 << 30;

/// An exact sum of f64.
#[derive(Clone)]
pub struct ExactSum {
    /// Limb i counts 2^(32·i − 1074). Between carries limbs may be negative, or above 2^32.
    limbs: [i64; LIMBS],
    /// Additions since the last carry.
    pending: u32,
    /// Whether a term was not finite. The sum is then not a number.
    broken: bool,
    /// A power of 2 that was above all terms lately, from which blocks of terms start.
    pub(super) above: Option<i32>,
}

impl Default for ExactSum {
    fn default() -> Self {
        ExactSum { limbs: [0; LIMBS], pending: 0, broken: false, above: None }
    }
}

impl ExactSum {
    /// Adds a term. A term that is not finite makes the sum NaN.
    #[inline]
    pub fn add(&mut self, term: f64) {
        let bits = term.to_bits();
        let exponent = (bits >> 52) as usize & 0x7ff;
        if exponent == 0x7ff {
            self.broken = true;
            return;
        }
        let fraction = bits & ((1 << 52) - 1);
        // Subnormal numbers have the exponent of the smallest normal ones, and no hidden bit.
        let (mantissa, place) =
            if exponent == 0 { (fraction, 0) } else { (fraction | 1 << 52, exponent - 1) };
        let wide = u128::from(mantissa) << (place % 32);
        let sign = if bits >> 63 == 0 { 1 } else { -1 };
        let at = &mut self.limbs[place / 32..place / 32 + 3];
        at[0] += sign * i64::from(wide as u32);
        at[1] += sign * i64::from((wide >> 32) as u32);
        at[2] += sign * i64::from((wide >> 64) as u32);
        self.pending += 1;
        if self.pending == CARRY_AFTER {
            self.carry();
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &ExactSum) {
        let mut other = other.clone();
        other.carry();
        self.carry();
        self.limbs.iter_mut().zip(other.limbs).for_each(|(mine, theirs)| *mine += theirs);
        self.broken |= other.broken;
        self.carry();
    }

    /// Brings every limb but the last into [0, 2^32). The last one has the sign.
    fn carry(&mut self) {
        let mut carry = 0i64;
        let (last, limbs) = self.limbs.split_last_mut().expect("there are limbs");
        for limb in limbs {
            let total = *limb + carry;
            *limb = total & 0xffff_ffff;
            carry = total >> 32;
        }
        *last += carry;
        self.pending = 0;
    }

    /// Whether the sum is negative, and its absolute value in limbs of 32 bits.
    fn magnitude(&self) -> (bool, [u32; LIMBS]) {
        let mut sum = self.clone();
        sum.carry();
        let negative = sum.limbs[LIMBS - 1] < 0;
        if negative {
            sum.limbs.iter_mut().for_each(|limb| *limb = -*limb);
            sum.carry();
        }
        (negative, sum.limbs.map(|limb| limb as u32))
    }

    /// The sum, rounded to the nearest f64, ties to even. NaN if a term was not finite, and an infinity if the sum is
    /// too large.
    pub fn value(&self) -> f64 {
        if self.broken {
            return f64::NAN;
        }
        let (negative, limbs) = self.magnitude();
        let Some(top) = limbs.iter().rposition(|limb| *limb != 0) else { return 0.0 };
        // The upper 96 bits or more, and whether anything is below them.
        let mut head = 0u128;
        let from = top.saturating_sub(3);
        for limb in limbs[from..=top].iter().rev() {
            head = head << 32 | u128::from(*limb);
        }
        let below = limbs[..from].iter().any(|limb| *limb != 0);
        let exponent = 32 * from as i32 + LOWEST;
        // 64 bits with a sticky bit round in one step: 53 bits, a half, and more.
        let excess = (128 - head.leading_zeros()).saturating_sub(64);
        let mut short = (head >> excess) as u64;
        let lost = head & ((1u128 << excess) - 1) != 0 || below;
        short |= u64::from(lost);
        let value = rounded(short, exponent + excess as i32);
        if negative { -value } else { value }
    }

    /// The canonical text: `0`, `nan`, or the sign and the hexadecimal digits of an integer, `p` and a power of 2.
    fn text(&self) -> String {
        if self.broken {
            return "nan".into();
        }
        let (negative, limbs) = self.magnitude();
        let Some(top) = limbs.iter().rposition(|limb| *limb != 0) else { return "0".into() };
        let bottom = limbs.iter().position(|limb| *limb != 0).unwrap_or(0);
        let mut digits = String::with_capacity(8 * (top - bottom + 1));
        for limb in limbs[bottom..=top].iter().rev() {
            digits.push_str(&format!("{limb:08x}"));
        }
        let sign = if negative { "-" } else { "" };
        format!("{sign}{}p{}", digits.trim_start_matches('0'), 32 * bottom as i32 + LOWEST)
    }

    /// The sum that has this text; None if it is not the canonical text of a sum.
    fn parse(text: &str) -> Option<ExactSum> {
        let mut sum = ExactSum::default();
        match text {
            "0" => return Some(sum),
            "nan" => return Some(ExactSum { broken: true, ..sum }),
            _ => {}
        }
        let (digits, power) = text.split_once('p')?;
        let (negative, digits) = match digits.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, digits),
        };
        let first = usize::try_from(power.parse::<i32>().ok()?.checked_sub(LOWEST)?).ok()? / 32;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex || digits.is_empty() || digits.len().div_ceil(8).checked_add(first)? > LIMBS {
            return None;
        }
        for (i, part) in digits.as_bytes().rchunks(8).enumerate() {
            let part = std::str::from_utf8(part).ok()?;
            sum.limbs[first + i] = i64::from(u32::from_str_radix(part, 16).ok()?);
        }
        if negative {
            sum.limbs.iter_mut().for_each(|limb| *limb = -*limb);
        }
        sum.carry();
        // Equal sums have equal texts, so every other text of the same sum is an error.
        (sum.text() == text).then_some(sum)
    }
}

/// mantissa·2^exponent, rounded to nearest, ties to even. Bits below the mantissa's last one are gathered in it.
fn rounded(mantissa: u64, exponent: i32) -> f64 {
    let bits = 64 - mantissa.leading_zeros() as i32;
    // The exponent of the last bit that the result keeps.
    let last = (exponent + bits - 53).max(LOWEST);
    let drop = last - exponent;
    if drop <= 0 {
        // Few bits: the product is exact. Two steps, because 2^exponent alone may be out of range.
        return scalbn(mantissa as f64, exponent);
    }
    if drop > 64 {
        return 0.0;
    }
    let (kept, rest) = match drop {
        64 => (0, u128::from(mantissa)),
        _ => (mantissa >> drop, u128::from(mantissa & ((1 << drop) - 1))),
    };
    let half = 1u128 << (drop - 1);
    let up = rest > half || (rest == half && kept & 1 == 1);
    scalbn((kept + u64::from(up)) as f64, last)
}

impl std::fmt::Debug for ExactSum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.value(), self.text())
    }
}

impl PartialEq for ExactSum {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Serialize for ExactSum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for ExactSum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        ExactSum::parse(&text)
            .ok_or_else(|| serde::de::Error::custom("is not an exact sum in canonical form"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::kernels::noise;

    fn sum_of(terms: &[f64]) -> ExactSum {
        let mut sum = ExactSum::default();
        terms.iter().for_each(|&term| sum.add(term));
        sum
    }

    /// Terms of very different sizes and signs, so that plain addition depends on the order.
    fn terms(n: usize, salt: u64) -> Vec<f64> {
        let (sizes, signs) = (noise(n, salt), noise(n, salt + 1));
        sizes.iter().zip(signs).map(|(size, sign)| sign * (60.0 * size).exp2()).collect()
    }

    #[test]
    fn the_sum_is_the_same_in_every_order_and_grouping_and_plain_addition_is_not() {
        let terms = terms(5000, 1);
        let want = sum_of(&terms);
        let mut plain_differs = false;
        for step in [7usize, 11, 4999, 2503] {
            let shuffled: Vec<f64> = (0..terms.len()).map(|i| terms[i * step % terms.len()]).collect();
            assert_eq!(sum_of(&shuffled), want);
            assert_eq!(sum_of(&shuffled).value().to_bits(), want.value().to_bits());
            plain_differs |= shuffled.iter().sum::<f64>() != terms.iter().sum::<f64>();
            for parts in [1usize, 2, 7, 200, 4999] {
                let mut merged = ExactSum::default();
                for part in shuffled.chunks(terms.len().div_ceil(parts)) {
                    let text = serde_json::to_string(&sum_of(part)).unwrap();
                    merged.merge(&serde_json::from_str(&text).unwrap());
                }
                assert_eq!(merged, want, "{parts} parts");
            }
        }
        assert!(plain_differs, "the control: a plain sum of these terms must depend on the order");
    }

    #[test]
    fn sums_are_rounded_once() {
        let tiny = f64::from_bits(1);
        for (terms, want) in [
            (vec![1e308, 1e308, -1e308], 1e308),
            (vec![1.0, 1e100, 1.0, -1e100], 2.0),
            (vec![tiny, tiny, tiny], 3.0 * tiny),
            (vec![1.0, 2f64.powi(-53)], 1.0),
            (vec![1.0, 2f64.powi(-53), tiny], 1.0 + f64::EPSILON),
            (vec![1.0 + f64::EPSILON, 2f64.powi(-53)], 1.0 + 2.0 * f64::EPSILON),
            (vec![f64::MIN_POSITIVE, -tiny], f64::MIN_POSITIVE - tiny),
            (vec![-3.5, 3.5], 0.0),
            (vec![-0.1; 10], -1.0),
            (vec![f64::MAX, f64::MAX], f64::INFINITY),
        ] {
            assert_eq!(sum_of(&terms).value().to_bits(), want.to_bits(), "{terms:?}");
        }
        assert!(sum_of(&[1.0, f64::INFINITY]).value().is_nan() && sum_of(&[f64::NAN]).value().is_nan());
        for term in terms(1000, 5).into_iter().chain([f64::MAX, -f64::MIN_POSITIVE, tiny, 1.5]) {
            assert_eq!(sum_of(&[term]).value().to_bits(), term.to_bits());
            assert_eq!(sum_of(&[term, 1e-300, -term]).value(), 1e-300);
        }
    }

    #[test]
    fn only_the_canonical_text_is_read() {
        for terms in [terms(100, 3), vec![], vec![-1.0], vec![f64::MAX; 9], vec![f64::NAN]] {
            let sum = sum_of(&terms);
            let text = serde_json::to_string(&sum).unwrap();
            assert_eq!(serde_json::from_str::<ExactSum>(&text).unwrap(), sum, "{text}");
        }
        let huge = format!("\"{}p-1074\"", "f".repeat(9 * LIMBS));
        for text in [
            "\"\"",
            "\"1\"",
            "\"-0\"",
            "\"01p-50\"",
            "\"1p-49\"",
            "\"100000000p-50\"",
            "\"Ap-1074\"",
            "\"+1p-1074\"",
            "1.0",
            &huge,
        ] {
            assert!(serde_json::from_str::<ExactSum>(text).is_err(), "{text}");
        }
        assert_eq!(serde_json::to_string(&sum_of(&[f64::from_bits(1)])).unwrap(), "\"1p-1074\"");
    }
}
