//! Adam (Kingma and Ba, 2015) with its usual constants, docs/math.md#learning.

use crate::numerics::elementary::Real;

/// The moments of the gradient. It gives directions; the caller takes the steps, with its own rate,
/// units and weight decay.
pub struct Adam<F> {
    first: Vec<F>,
    second: Vec<F>,
    directions: Vec<F>,
    steps: u32,
}

impl<F: Real> Adam<F> {
    /// For `n` variables, before the first step.
    pub fn new(n: usize) -> Self {
        let zeros = || vec![F::zero(); n];
        Adam { first: zeros(), second: zeros(), directions: zeros(), steps: 0 }
    }

    /// Takes in one gradient and returns the direction of each variable. Subtracting a multiple of the
    /// directions is a step of descent.
    pub fn directions(&mut self, gradient: impl Iterator<Item = F>) -> &[F] {
        let (beta1, beta2, epsilon) = (F::nearest(0.9), F::nearest(0.999), F::nearest(1e-8));
        let (rest1, rest2) = (F::nearest(1.0 - 0.9), F::nearest(1.0 - 0.999));
        self.steps += 1;
        let (c1, c2) = (F::one() - beta1.power(self.steps), F::one() - beta2.power(self.steps));
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((direction, (first, second)), g) in self.directions.iter_mut().zip(moments).zip(gradient) {
            *first = beta1 * *first + rest1 * g;
            *second = beta2 * *second + rest2 * g * g;
            *direction = (*first / c1) / ((*second / c2).sqrt() + epsilon);
        }
        &self.directions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constants are rounded from f64, which gives the nearest f32 of 0.1 and 0.001 too: policies
    /// that were trained in f32 before both types shared this code keep their bits.
    #[test]
    fn constants_are_the_nearest_numbers() {
        assert_eq!(f32::nearest(1.0 - 0.9), 0.1f32);
        assert_eq!(f32::nearest(1.0 - 0.999), 0.001f32);
        assert_eq!((f32::nearest(0.9), f32::nearest(0.999)), (0.9f32, 0.999f32));
    }

    #[test]
    fn first_step_has_unit_length_in_each_variable() {
        let mut adam = Adam::<f64>::new(2);
        let directions = adam.directions([3.0, -0.2].into_iter()).to_vec();
        assert!((directions[0] - 1.0).abs() < 1e-6 && (directions[1] + 1.0).abs() < 1e-6, "{directions:?}");
    }
}
