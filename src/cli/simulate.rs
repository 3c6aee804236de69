//! A small world to show the service on: visitors with features, actions with click rates, and a
//! deployed policy that is good but not the best.

use std::fmt::Write;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub const FEATURES: usize = 8;
pub const ACTIONS: usize = 5;
/// How sure of itself the deployed policy is. The lower, the more it explores and the more its
/// log can teach.
const INVERSE_TEMPERATURE: f64 = 1.0;

/// An NDJSON log of `rows` decisions with a reward of 0 or 1. The same seed gives the same bytes.
pub fn log(rows: usize, seed: u64) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let world = weights(&mut rng, 1.5);
    let noise = weights(&mut rng, 1.0);
    let mut out = String::new();
    for _ in 0..rows {
        let x: Vec<f64> = (0..FEATURES).map(|_| (normal(&mut rng) * 1e4).round() / 1e4).collect();
        let truth = scores(&world, &x);
        // What the deployed policy believes is the truth, blurred.
        let believed: Vec<f64> = truth.iter().zip(scores(&noise, &x)).map(|(t, n)| 0.5 * t + n).collect();
        let pi = softmax(&believed);
        let action = draw(&pi, rng.random());
        let clicked = rng.random::<f64>() < 1.0 / (1.0 + (-truth[action]).exp());
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{{\"x\":{x:?},\"action\":{action},\"propensities\":{pi:?},\"reward\":{}}}",
            u8::from(clicked)
        );
    }
    out
}

fn weights(rng: &mut ChaCha8Rng, size: f64) -> Vec<[f64; ACTIONS]> {
    let per_feature = size / (FEATURES as f64).sqrt();
    (0..FEATURES).map(|_| std::array::from_fn(|_| per_feature * normal(rng))).collect()
}

fn scores(weights: &[[f64; ACTIONS]], x: &[f64]) -> [f64; ACTIONS] {
    std::array::from_fn(|a| weights.iter().zip(x).map(|(row, x)| row[a] * x).sum())
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let powers: Vec<f64> = scores.iter().map(|s| (INVERSE_TEMPERATURE * s).exp()).collect();
    let total: f64 = powers.iter().sum();
    powers.into_iter().map(|p| p / total).collect()
}

fn draw(pi: &[f64], mut u: f64) -> usize {
    for (action, p) in pi.iter().enumerate() {
        u -= p;
        if u < 0.0 {
            return action;
        }
    }
    pi.len() - 1
}

/// Box and Muller's way to a normal number.
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_log_is_repeatable_and_is_json() {
        let log = super::log(50, 7);
        assert_eq!(log, super::log(50, 7));
        assert_ne!(log, super::log(50, 8));
        for line in log.lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let pi: f64 = row["propensities"].as_array().unwrap().iter().map(|p| p.as_f64().unwrap()).sum();
            assert!((pi - 1.0).abs() < 1e-9, "{row}");
        }
    }
}
