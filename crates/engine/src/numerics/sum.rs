//! Compensated sums, docs/math.md#slack. Certificates add up to millions of terms in a fixed order.
//! Neumaier's method keeps the error near one rounding of the result, whatever the number of terms.

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
}
