//! Logging policies that are trained on their own log: after every row, or every night.

use guarantor_engine::spec::{BoundKind, SpecRequest};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::case::{Case, STEADY, betting_from_zero, evaluating, random_policy};
use super::logger::{Logger, Refit, Rule};
use super::nature::Nature;
use super::stream::{Stream, draw};
use super::{CONTEXTS, DELTAS, LOGS, ROWS};
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

/// Nothing to gain at each reward level, and something to gain at one of them.
fn natures(contexts: usize) -> Vec<Nature> {
    let mut natures: Vec<Nature> = LEVELS.map(|level| Nature::nothing_to_gain(contexts, level)).into();
    natures.push(Nature::something_to_gain(contexts, 0.3));
    natures
}

/// Tries a logger in all of these natures.
fn holds(natures: &[Nature], logger: MakeLogger, seed: u64) {
    assert_valid(&simulate(LOGS, seed, |rng| {
        let nature = &natures[rng.random_range(0..natures.len())];
        claims_on(nature, logger(nature), rng)
    }));
}

#[test]
fn online_learners_hold() {
    holds(&natures(CONTEXTS), online, 10_000);
}

#[test]
fn nightly_retraining_holds() {
    holds(&natures(CONTEXTS), nightly, 10_010);
}

#[test]
fn nightly_linear_retraining_holds() {
    let natures: Vec<Nature> =
        natures(2 * CONTEXTS).into_iter().map(|nature| nature.with_dense_features(3)).collect();
    holds(&natures, nightly_linear, 10_020);
}

/// A posterior for which KL is paid, on all rows of logs of an online learner.
#[test]
fn betting_from_zero_holds_for_online_learners() {
    let natures = natures(CONTEXTS);
    assert_valid(&simulate(LOGS, 10_025, |rng| {
        let nature = &natures[rng.random_range(0..natures.len())];
        let full = rng.random();
        let stream = draw(nature, online(nature), ROWS / 2, full, rng);
        let case = Case::new(&stream, random_policy(CONTEXTS, rng));
        DELTAS.map(|delta| case.learned("betting from zero", &betting_from_zero(delta))).into()
    }));
}

/// `ix` for a posterior and for a candidate, on all rows of logs of an online learner.
#[test]
fn implicit_exploration_holds_for_online_learners() {
    let natures = natures(CONTEXTS);
    assert_valid(&simulate(LOGS, 10_026, |rng| {
        let nature = &natures[rng.random_range(0..natures.len())];
        let full = rng.random();
        let stream = draw(nature, online(nature), ROWS / 2, full, rng);
        let case = Case::new(&stream, random_policy(CONTEXTS, rng));
        let with_ix = |request: SpecRequest| SpecRequest { bound: Some(BoundKind::Ix), ..request };
        let both = |delta: f64| {
            let candidate = case.evaluate(&with_ix(evaluating(STEADY, delta))).0;
            [
                case.learned("ix from zero", &with_ix(betting_from_zero(delta))),
                Claim::that_none_exceeds("ix, stored candidate", [candidate]).at(delta),
            ]
        };
        DELTAS.into_iter().flat_map(both).collect()
    }));
}
