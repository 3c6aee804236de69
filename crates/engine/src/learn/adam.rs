//! Adam (Kingma & Ba, 2015) with its usual constants, and the seeded order of minibatches.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub struct Adam {
    pub point: Vec<f64>,
    /// Each variable in units that the rate is meant in.
    units: Vec<f64>,
    rate: f64,
    first: Vec<f64>,
    second: Vec<f64>,
    steps: i32,
}

impl Adam {
    pub fn new(point: Vec<f64>, units: Vec<f64>, rate: f64) -> Self {
        let n = point.len();
        Adam { point, units, rate, first: vec![0.0; n], second: vec![0.0; n], steps: 0 }
    }

    pub fn step(&mut self, gradient: &[f64]) {
        const BETA1: f64 = 0.9;
        const BETA2: f64 = 0.999;
        const EPSILON: f64 = 1e-8;
        self.steps += 1;
        let (c1, c2) = (1.0 - BETA1.powi(self.steps), 1.0 - BETA2.powi(self.steps));
        for i in 0..self.point.len() {
            let g = gradient[i] * self.units[i];
            self.first[i] = BETA1 * self.first[i] + (1.0 - BETA1) * g;
            self.second[i] = BETA2 * self.second[i] + (1.0 - BETA2) * g * g;
            let direction = (self.first[i] / c1) / ((self.second[i] / c2).sqrt() + EPSILON);
            self.point[i] -= self.rate * direction * self.units[i];
        }
    }
}

/// `items` in an order that is a function of the seed and the epoch (Fisher–Yates).
pub fn shuffled(items: &[usize], seed: u64, epoch: u64) -> Vec<usize> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ epoch.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut order = items.to_vec();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.random_range(0..=i));
    }
    order
}
