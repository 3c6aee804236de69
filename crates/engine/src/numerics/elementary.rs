//! Elementary functions with the same bits on every CPU. The methods of f64 call the platform's C library,
//! whose code depends on its version and, at run time, on the CPU. These call the `libm` crate, which uses
//! only + − × ÷ and √. A test keeps the methods out of the engine (`tests/engine/arithmetic.rs`).

use ndarray::NdFloat;

/// e^x.
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// e^x − 1 without cancellation near 0.
pub fn exp_m1(x: f64) -> f64 {
    libm::expm1(x)
}

/// 2^x.
pub fn exp2(x: f64) -> f64 {
    libm::exp2(x)
}

/// x·2^n, rounded once.
pub fn scalbn(x: f64, n: i32) -> f64 {
    libm::scalbn(x, n)
}

/// The natural logarithm.
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// ln(1 + x) without cancellation near 0.
pub fn ln_1p(x: f64) -> f64 {
    libm::log1p(x)
}

/// The logarithm to base 2.
pub fn log2(x: f64) -> f64 {
    libm::log2(x)
}

/// The logarithm to base 10.
pub fn log10(x: f64) -> f64 {
    libm::log10(x)
}

/// x^y.
pub fn powf(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// The cosine.
pub fn cos(x: f64) -> f64 {
    libm::cos(x)
}

/// A floating-point type that generic code can run in.
pub trait Real: NdFloat {
    /// The nearest number of this type.
    fn nearest(value: f64) -> Self;

    /// e^self. Not named `exp`, which is the C library's.
    fn exponential(self) -> Self;

    /// self^n by repeated squaring. The order in which the method `powi` multiplies is not specified.
    fn power(self, n: u32) -> Self {
        let (mut result, mut square, mut left) = (Self::one(), self, n);
        while left > 0 {
            if left % 2 == 1 {
                result *= square;
            }
            square *= square;
            left /= 2;
        }
        result
    }
}

impl Real for f32 {
    fn nearest(value: f64) -> Self {
        value as f32
    }

    fn exponential(self) -> Self {
        libm::expf(self)
    }
}

impl Real for f64 {
    fn nearest(value: f64) -> Self {
        value
    }

    fn exponential(self) -> Self {
        exp(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::Xxh3;

    /// The bits of many values, in one number. It is the same on every machine.
    fn fingerprint(f: impl Fn(f64) -> f64, from: f64, to: f64) -> u64 {
        let mut hash = Xxh3::new();
        for i in 0..20_000 {
            let x = from + (to - from) * (i as f64 / 20_000.0);
            hash.update(&f(x).to_bits().to_le_bytes());
        }
        hash.digest()
    }

    /// If this fails on a new CPU, certificates from there cannot be recomputed elsewhere. If it fails after an
    /// update of `libm`, numbers have changed: increase `METHOD`, then the fingerprints.
    #[test]
    fn values_have_the_same_bits_everywhere() {
        let got = [
            ("exp", fingerprint(exp, -745.0, 709.0)),
            ("exp_m1", fingerprint(exp_m1, -40.0, 40.0)),
            ("exp2", fingerprint(exp2, -40.0, 40.0)),
            ("ln", fingerprint(ln, 1e-9, 50.0)),
            ("ln_1p", fingerprint(ln_1p, -0.9999, 30.0)),
            ("log2", fingerprint(log2, 1e-9, 1e6)),
            ("log10", fingerprint(log10, 1e-9, 1e6)),
            ("powf", fingerprint(|x| powf(1.0 + x, 1.0 / (2.0 + x)), 0.0, 9.0)),
            ("cos", fingerprint(cos, -10.0, 10.0)),
            ("exponential", fingerprint(|x| (x as f32).exponential() as f64, -100.0, 80.0)),
            ("power", fingerprint(|x| 0.999f32.power(x as u32) as f64, 1.0, 20_000.0)),
        ];
        let want = [
            ("exp", 0x1436c547477a7de7),
            ("exp_m1", 0xf54301ce35de928f),
            ("exp2", 0x342f956d8f916d5d),
            ("ln", 0x33502fa22a797081),
            ("ln_1p", 0x37a8094d0b9ac521),
            ("log2", 0x1106959c0cba4d52),
            ("log10", 0xad60da6169a3ad18),
            ("powf", 0xc3ab0c025fe65a07),
            ("cos", 0x4d18f31dfe3d3545),
            ("exponential", 0xce656ee8589a8c48),
            ("power", 0x1f28e1f3568d7576),
        ];
        assert_eq!(got, want);
    }

    /// Compares with the C library, whose error is below one unit in the last place.
    #[test]
    fn values_agree_with_the_c_library() {
        for i in 1..20_000 {
            let x = i as f64 / 1_000.0;
            let pairs = [
                (exp(-x), (-x).exp()),
                (exp_m1(-x), (-x).exp_m1()),
                (exp2(-x), (-x).exp2()),
                (ln(x), x.ln()),
                (ln_1p(-x / 20.0), (-x / 20.0).ln_1p()),
                (log2(x), x.log2()),
                (log10(x), x.log10()),
                (powf(x, 0.3), x.powf(0.3)),
                (cos(x), x.cos()),
                (0.999f64.power(i), 0.999f64.powi(i as i32)),
            ];
            for (at, (got, want)) in pairs.into_iter().enumerate() {
                assert!(
                    (got - want).abs() <= 4e-16 * want.abs() + 1e-300,
                    "{at} at {x}: {got} is not {want}"
                );
            }
            let (got, want) = ((-x as f32).exponential(), (-x as f32).exp());
            assert!((got - want).abs() <= 2e-7 * want, "{got} is not {want}");
        }
    }
}
