//! Bets against "z ≥ 0 has conditional mean at most 1": Π(1 + λ(z − 1)) for a few λ at once. Products are
//! kept as mantissa and exponent, because a logarithm per row would cost more than the rest of the checks.

use super::evidence::{ln, log_mean};

/// The λ. Large ones find gross errors in few rows, small ones find small errors in many rows.
pub(super) const GRID: [f64; 6] = [0.9, 0.35, 0.12, 0.04, 0.012, 0.003];

/// Larger z count as this, so that no factor overflows. It only lowers the mean.
pub(super) const MAX_Z: f64 = 1e12;

/// After this many factors of at most 9 · `MAX_Z` + 1 and at least 0.1, mantissas are still in range.
pub(super) const FACTORS: u8 = 16;

/// One product per λ.
#[derive(Debug, Clone)]
pub(super) struct Bets {
    pub mantissas: [f64; GRID.len()],
    pub exponents: [i64; GRID.len()],
    /// Factors since the mantissas were brought back to [1, 2).
    pub pending: u8,
}

impl Default for Bets {
    fn default() -> Bets {
        Bets { mantissas: [1.0; GRID.len()], exponents: [0; GRID.len()], pending: 0 }
    }
}

impl Bets {
    /// Multiplies by 1 + λ(z − 1).
    #[inline(always)]
    pub fn bet(&mut self, z: f64) {
        let gain = capped(z) - 1.0;
        for (mantissa, lambda) in self.mantissas.iter_mut().zip(GRID) {
            *mantissa *= 1.0 + lambda * gain;
        }
        self.count();
    }

    /// Multiplies by (1 + λ(z − 1))/(1 − λ). With z = 0 in all other rows, the product over all n rows is
    /// this one times (1 − λ)ⁿ, so a row costs nothing for the actions that were not logged in it.
    #[inline(always)]
    pub fn bet_relative(&mut self, z: f64) {
        let z = capped(z);
        for (mantissa, lambda) in self.mantissas.iter_mut().zip(GRID) {
            *mantissa *= 1.0 + lambda / (1.0 - lambda) * z;
        }
        self.count();
    }

    /// The same as `bet` for each z in order, while the products stay in registers.
    pub fn bet_all(&mut self, mut zs: &[f64]) {
        while !zs.is_empty() {
            let (now, later) = zs.split_at(zs.len().min(usize::from(FACTORS - self.pending)));
            let mut mantissas = self.mantissas;
            for &z in now {
                let gain = capped(z) - 1.0;
                for (mantissa, lambda) in mantissas.iter_mut().zip(GRID) {
                    *mantissa *= 1.0 + lambda * gain;
                }
            }
            self.mantissas = mantissas;
            self.pending += now.len() as u8;
            if self.pending == FACTORS {
                self.rescale();
            }
            zs = later;
        }
    }

    #[inline(always)]
    fn count(&mut self) {
        self.pending += 1;
        if self.pending == FACTORS {
            self.rescale();
        }
    }

    #[inline(never)]
    fn rescale(&mut self) {
        for (mantissa, exponent) in self.mantissas.iter_mut().zip(&mut self.exponents) {
            let (rest, power) = apart(*mantissa);
            *mantissa = rest;
            *exponent += power;
        }
        self.pending = 0;
    }

    /// Multiplies by the products of other rows.
    pub fn merge(&mut self, mut other: Bets) {
        self.rescale();
        other.rescale();
        for i in 0..GRID.len() {
            self.mantissas[i] *= other.mantissas[i];
            self.exponents[i] += other.exponents[i];
        }
        self.rescale();
    }

    /// The logarithm of each product.
    fn logs(&self) -> [f64; GRID.len()] {
        std::array::from_fn(|i| ln(self.mantissas[i]) + self.exponents[i] as f64 * std::f64::consts::LN_2)
    }

    /// The logarithm of the mean over λ: an e-value.
    pub fn log_evidence(&self) -> f64 {
        log_mean(&self.logs())
    }

    /// The logarithm of the mean over λ for products made by `bet_relative`, out of `rows` rows.
    pub fn log_evidence_relative(&self, rows: u64) -> f64 {
        let mut logs = self.logs();
        logs.iter_mut().zip(GRID).for_each(|(log, lambda)| *log += rows as f64 * ln(1.0 - lambda));
        log_mean(&logs)
    }
}

/// A positive number as one in [1, 2) and the power of 2 that it is multiplied by.
#[inline(always)]
pub(super) fn apart(number: f64) -> (f64, i64) {
    let bits = number.to_bits();
    (f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52)), (bits >> 52) as i64 - 1023)
}

/// NaN counts as the largest z, so that it fails the check.
#[inline(always)]
fn capped(z: f64) -> f64 {
    if z < MAX_Z { z.max(0.0) } else { MAX_Z }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_agree_with_sums_of_logarithms() {
        for scale in [0.0, 1.0, 3.0, 1e5, 1e300] {
            let (mut all, mut parts) = (Bets::default(), Vec::new());
            let mut want = [0.0; GRID.len()];
            for part in 0..3 {
                let mut bets = Bets::default();
                for i in 0..(7 + 500 * part) {
                    let z = scale * ((i * 37 % 101) as f64 / 50.0);
                    all.bet(z);
                    bets.bet(z);
                    want.iter_mut().zip(GRID).for_each(|(w, l)| *w += (1.0 + l * (z.min(MAX_Z) - 1.0)).ln());
                }
                parts.push(bets);
            }
            let mut merged = Bets::default();
            parts.into_iter().for_each(|bets| merged.merge(bets));
            for got in [all.logs(), merged.logs()] {
                for (got, want) in got.iter().zip(want) {
                    assert!((got - want).abs() < 1e-9 * want.abs().max(1.0), "{got} {want}");
                }
            }
        }
    }

    #[test]
    fn relative_bets_agree_with_bets() {
        let (mut plain, mut relative) = (Bets::default(), Bets::default());
        for i in 0..1000 {
            let z = if i % 4 == 0 { 4.2 } else { 0.0 };
            plain.bet(z);
            if z > 0.0 {
                relative.bet_relative(z);
            }
        }
        assert!((plain.log_evidence() - relative.log_evidence_relative(1000)).abs() < 1e-9);
    }

    #[test]
    fn nan_is_evidence() {
        let mut bets = Bets::default();
        bets.bet(f64::NAN);
        assert!(bets.log_evidence() > 20.0);
    }
}
