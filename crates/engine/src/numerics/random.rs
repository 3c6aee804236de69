//! Seeded random draws: the standard normal and shuffles. Every simulation and every training in the
//! workspace draws from here, so the same seed gives the same numbers.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::elementary::{cos, ln};

/// A draw from the standard normal by Box and Muller's method. The second number of the pair is not
/// kept, so that draws depend on the generator alone.
pub fn standard_normal<R: Rng>(rng: &mut R) -> f64 {
    let u: f64 = 1.0 - rng.random::<f64>();
    let v: f64 = rng.random();
    (-2.0 * ln(u)).sqrt() * cos(std::f64::consts::TAU * v)
}

/// Puts `items` in a random order (Fisher–Yates).
pub fn shuffle<T, R: Rng>(items: &mut [T], rng: &mut R) {
    for i in (1..items.len()).rev() {
        items.swap(i, rng.random_range(0..=i));
    }
}

/// The numbers 0 to `n` − 1 in an order that is a function of the seed and the epoch.
pub fn shuffled(n: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ epoch.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut order: Vec<usize> = (0..n).collect();
    shuffle(&mut order, &mut rng);
    order
}
