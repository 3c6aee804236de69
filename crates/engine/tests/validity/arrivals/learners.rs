//! Logging policies that are trained on their own log: after every row, or every night.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::case::{Case, random_policy};
use super::logger::{Logger, Refit, Rule};
use super::nature::Nature;
use super::stream::{Stream, draw};
use super::{CONTEXTS, LOGS, ROWS};
use crate::harness::{Claim, assert_valid, simulate};

/// Rewards are rare, moderate or frequent.
const LEVELS: [f64; 3] = [0.05, 0.3, 0.5];

/// The logger that a nature meets.
type MakeLogger = fn(&Nature) -> Logger;

fn online(nature: &Nature) -> Logger {
    Logger::of_means(nature, Rule::EpsilonGreedy(0.2), Refit::Always)
}

fn nightly(nature: &Nature) -> Logger {
    Logger::of_means(nature, Rule::EpsilonGreedy(0.1), Refit::Every(ROWS / 6))
}

fn nightly_linear(nature: &Nature) -> Logger {
    Logger::of_ridge(nature, Rule::Softmax(8.0), Refit::Every(ROWS / 6))
}

/// The claims on one log. Half of the logs have π0(·|x), the others only the logged action's propensity.
pub fn claims_on(nature: &Nature, logger: Logger, rng: &mut ChaCha8Rng) -> Vec<Claim> {
    let steady = random_policy(nature.x.ncols(), rng);
    let full = rng.random();
    let mut stream: Stream = draw(nature, logger, ROWS, full, rng);
    Case::with_logged_candidate(&mut stream, steady).claims(rng)
}

/// Tries a logger where there is nothing to gain and where there is something, at all reward levels.
fn holds(natures: fn(f64) -> [Nature; 2], logger: MakeLogger, seed: u64) {
    for which in 0..2 {
        let natures = LEVELS.map(|level| natures(level).into_iter().nth(which).expect("two natures"));
        println!("{}", ["nothing to gain", "something to gain"][which]);
        let tallies = simulate(LOGS, seed + which as u64, |rng| {
            let nature = &natures[rng.random_range(0..LEVELS.len())];
            claims_on(nature, logger(nature), rng)
        });
        assert_valid(&tallies);
    }
}

fn own_parameters(level: f64) -> [Nature; 2] {
    [Nature::nothing_to_gain(CONTEXTS, level), Nature::something_to_gain(CONTEXTS, level)]
}

fn shared_features(level: f64) -> [Nature; 2] {
    let contexts = 2 * CONTEXTS;
    [Nature::nothing_to_gain(contexts, level), Nature::something_to_gain(contexts, level)]
        .map(|nature| nature.with_dense_features(3))
}

#[test]
fn online_learners_hold() {
    holds(own_parameters, online, 10_000);
}

#[test]
fn nightly_retraining_holds() {
    holds(own_parameters, nightly, 10_010);
}

#[test]
fn nightly_linear_retraining_holds() {
    holds(shared_features, nightly_linear, 10_020);
}
