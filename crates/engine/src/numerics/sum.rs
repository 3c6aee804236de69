//! Compensated sums, docs/math.md#slack. Certificates add up to millions of terms in a fixed order.
//! Neumaier's method keeps the error near one rounding of the result, whatever the number of terms.

use super::{dispatch, dispatch_wide};

/// A compensated sum.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    sum: f64,
    compensation: f64,
    /// Σ|term|, to which the rounding error is proportional.
    magnitude: f64,
}

impl Sum {
    /// Adds a term.
    pub fn add(&mut self, term: f64) {
        let total = self.sum + term;
        self.compensation +=
            if self.sum.abs() >= term.abs() { (self.sum - total) + term } else { (term - total) + self.sum };
        self.sum = total;
        self.magnitude += term.abs();
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Sum) {
        let magnitude = self.magnitude + other.magnitude;
        self.add(other.sum);
        self.add(other.compensation);
        self.magnitude = magnitude;
    }

    /// The sum.
    pub fn value(&self) -> f64 {
        self.sum + self.compensation
    }

    /// The sum of absolute values.
    pub fn magnitude(&self) -> f64 {
        self.magnitude
    }
}

/// Several compensated sums that get a term each at the same time, with the bits of [`Sum`].
#[derive(Debug, Clone, Default)]
pub struct Sums {
    sums: Vec<f64>,
    compensations: Vec<f64>,
    magnitudes: Vec<f64>,
}

impl Sums {
    /// So many sums of nothing.
    pub fn new(count: usize) -> Self {
        let zeros = || vec![0.0; count];
        Sums { sums: zeros(), compensations: zeros(), magnitudes: zeros() }
    }

    /// Adds a term to each sum.
    pub fn add(&mut self, terms: &[f64]) {
        add_each(&mut self.sums, &mut self.compensations, &mut self.magnitudes, terms);
    }

    /// Adds the terms of several rows, one row after the other.
    pub fn add_rows(&mut self, terms: &[f64]) {
        add_rows(&mut self.sums, &mut self.compensations, &mut self.magnitudes, terms);
    }

    /// The sums one by one.
    pub fn each(&self) -> impl Iterator<Item = Sum> {
        let parts = self.sums.iter().zip(&self.compensations).zip(&self.magnitudes);
        parts.map(|((&sum, &compensation), &magnitude)| Sum { sum, compensation, magnitude })
    }
}

dispatch! {
    fn add_each(sums: &mut [f64], compensations: &mut [f64], magnitudes: &mut [f64], terms: &[f64]) = add_each_body
}

dispatch_wide! {
    fn add_rows(sums: &mut [f64], compensations: &mut [f64], magnitudes: &mut [f64], terms: &[f64]) = add_rows_body
}

#[inline(always)]
fn add_rows_body(sums: &mut [f64], compensations: &mut [f64], magnitudes: &mut [f64], terms: &[f64]) {
    for row in terms.chunks_exact(sums.len().max(1)) {
        add_each_body(sums, compensations, magnitudes, row);
    }
}

#[inline(always)]
fn add_each_body(sums: &mut [f64], compensations: &mut [f64], magnitudes: &mut [f64], terms: &[f64]) {
    let parts = sums.iter_mut().zip(compensations).zip(magnitudes).zip(terms);
    for (((sum, compensation), magnitude), &term) in parts {
        let total = *sum + term;
        // Both are computed, so that there is no branch.
        let (larger, smaller) = ((*sum - total) + term, (term - total) + *sum);
        *compensation += if sum.abs() >= term.abs() { larger } else { smaller };
        *sum = total;
        *magnitude += term.abs();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_plain_addition_loses() {
        let mut s = Sum::default();
        for term in [1.0, 1e100, 1.0, -1e100] {
            s.add(term);
        }
        assert_eq!(s.value(), 2.0);
        let (mut a, mut b, mut whole) = (Sum::default(), Sum::default(), Sum::default());
        for i in 0..100_000 {
            let term = 1.0 / (i as f64 + 0.1);
            if i < 40_000 {
                a.add(term)
            } else {
                b.add(term)
            }
            whole.add(term);
        }
        a.merge(&b);
        assert!((a.value() - whole.value()).abs() <= 1e-15 * whole.value());
    }

    #[test]
    fn several_sums_have_the_bits_of_each() {
        let (mut all, mut each) = (Sums::new(7), [Sum::default(); 7]);
        for i in 0..1000 {
            let number = |j: usize| ((i * 31 + j * 17) % 101) as f64 * 0.37 - 18.0 / (j + 1) as f64;
            let terms: [f64; 7] = std::array::from_fn(number);
            all.add(&terms);
            each.iter_mut().zip(terms).for_each(|(sum, term)| sum.add(term));
        }
        // The copy for any CPU has the same bits.
        let (mut fast, mut plain) = (all.clone(), all.clone());
        let terms = [1e-3, -7.0, 1e9, 0.0, 0.1, 3.0, -0.7];
        fast.add(&terms);
        add_each_body(&mut plain.sums, &mut plain.compensations, &mut plain.magnitudes, &terms);
        assert!(fast.each().zip(plain.each()).all(|(a, b)| a.value().to_bits() == b.value().to_bits()));
        // Several rows at once.
        let rows: Vec<f64> = (0..7 * 300).map(|i| (i as f64 * 0.7).sin() * 10f64.powi(i % 13)).collect();
        let mut one_by_one = all.clone();
        let mut at_once = all.clone();
        rows.chunks_exact(7).for_each(|row| one_by_one.add(row));
        at_once.add_rows(&rows);
        assert_eq!(format!("{at_once:?}"), format!("{one_by_one:?}"));
        for (a, b) in all.each().zip(each) {
            assert_eq!(a.value().to_bits(), b.value().to_bits());
            assert_eq!(a.magnitude().to_bits(), b.magnitude().to_bits());
        }
    }
}
