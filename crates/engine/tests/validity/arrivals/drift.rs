//! Traffic that changes: who comes, and what they like. The certified improvement is the average over the
//! certified rows.

use rand::RngExt;

use super::case::{Case, always};
use super::learners::claims_on;
use super::logger::{Logger, Refit, Rule};
use super::nature::{ACTIONS, Nature};
use super::stream::{Stream, draw};
use super::{CONTEXTS, DELTAS, LOGS, ROWS};
use crate::harness::{Claim, assert_flagged, assert_valid, simulate};

/// The improvement of always playing action 0 over the uniform policy drifts from `from` to −`from`.
fn drifting_rewards(from: f64) -> Nature {
    let gap = from * ACTIONS as f64 / (ACTIONS - 1) as f64;
    Nature::nothing_to_gain(CONTEXTS, 0.5)
        .with_rewards(move |s, _, a| if a == 0 { 0.5 + gap * (1.0 - 2.0 * s) } else { 0.5 })
}

fn uniform(nature: &Nature) -> Logger {
    Logger::fixed(nature, |_, _| 1.0)
}

#[test]
fn drifting_contexts_hold() {
    // The first two contexts become rare. What is best differs between contexts.
    let nature = Nature::something_to_gain(CONTEXTS, 0.3).with_shares(|s, x| match x < CONTEXTS / 2 {
        true => (4.0 * (0.5 - s)).exp(),
        false => 1.0,
    });
    assert_valid(&simulate(LOGS, 10_100, |rng| {
        let logger = Logger::of_means(&nature, Rule::EpsilonGreedy(0.2), Refit::Always);
        claims_on(&nature, logger, rng)
    }));
}

#[test]
fn drifting_rewards_hold() {
    let natures = [0.06, -0.06, 0.15, -0.15].map(drifting_rewards);
    assert_valid(&simulate(LOGS, 10_110, |rng| {
        let nature = &natures[rng.random_range(0..natures.len())];
        let full = rng.random();
        let mut stream = draw(nature, uniform(nature), ROWS, full, rng);
        Case::with_logged_candidate(&mut stream, always(0, CONTEXTS)).claims(rng)
    }));
}

/// Whether bets that aim to win 1/δ by the last row, played in order of arrival, reject that the improvement is
/// at most 0.
fn aimed_bets_reject(stream: &Stream, delta: f64) -> bool {
    let (columns, n) = (&stream.columns, stream.columns.rows());
    let (mut wealth, mut squares) = (0.0f64, 1.0);
    for row in 0..n {
        let weight = columns.candidates[0].1[row] / columns.propensities[row];
        let z = (weight - 1.0) * columns.costs[row];
        let missing = ((1.0 / delta).ln() - wealth).max(0.0);
        let variance = squares / (row + 1) as f64;
        let lambda = (2.0 * missing / ((n - row) as f64 * variance)).sqrt().min(0.5);
        wealth += (-lambda * z).ln_1p();
        squares += z * z;
        if wealth >= (1.0 / delta).ln() {
            return true;
        }
    }
    false
}

/// Why adaptive logs are certified with a constant λ: one that changes can lean on the rows where the improvement
/// happens to be high.
#[test]
fn bets_that_change_over_time_are_caught() {
    let nature = drifting_rewards(0.15);
    assert_flagged(&simulate(LOGS, 10_120, |rng| {
        let mut stream = draw(&nature, uniform(&nature), 3000, false, rng);
        let always = (stream.columns.actions.iter()).map(|&a| f64::from(u8::from(a == 0))).collect();
        stream.columns.candidates = vec![("always".into(), always)];
        let claim = |delta: f64| {
            let claimed = if aimed_bets_reject(&stream, delta) { 1e-9 } else { -1.0 };
            Claim::that_none_exceeds("aimed bets in order of arrival", [claimed]).at(delta)
        };
        DELTAS.map(claim).into()
    }));
}
