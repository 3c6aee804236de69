//! Rows that carry the version of the policy that logged them. The claim is about the last version, on its rows.

use guarantor_engine::log::Columns;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::case::{Case, quick_auto, random_policy};
use super::logger::{Logger, Refit, Rule};
use super::nature::{ACTIONS, Nature};
use super::stream::{Moment, Stream, bernoulli, draw};
use super::{CONTEXTS, DELTAS, LOGS, ROWS};
use crate::harness::{assert_valid, simulate};
use crate::world::pick;

fn with_versions(stream: &mut Stream) {
    let versions = 1 + *stream.fits.iter().max().expect("rows");
    let columns: &mut Columns = &mut stream.columns;
    columns.version_names = (0..versions).map(|version| format!("night {version}")).collect();
    columns.versions = Some(stream.fits.clone());
}

#[test]
fn the_last_version_holds() {
    let natures = [Nature::nothing_to_gain(CONTEXTS, 0.5), Nature::something_to_gain(CONTEXTS, 0.3)];
    assert_valid(&simulate(LOGS, 10_500, |rng| {
        let nature = &natures[rng.random_range(0..natures.len())];
        let logger = Logger::of_means(nature, Rule::EpsilonGreedy(0.2), Refit::Every(ROWS / 3));
        let steady = random_policy(CONTEXTS, rng);
        let full = rng.random();
        let mut stream = draw(nature, logger, ROWS, full, rng);
        with_versions(&mut stream);
        Case::with_logged_candidate(&mut stream, steady).claims(rng)
    }));
}

/// An old and a new version share the traffic for a while. Then the one with the better mean reward gets all of
/// it, so which version is the last one depends on outcomes that are certified.
fn trial_period(nature: &Nature, rows: usize, full: bool, rng: &mut ChaCha8Rng) -> Stream {
    let mut new = Logger::of_means(nature, Rule::EpsilonGreedy(0.2), Refit::Once(rows / 3));
    let old = Logger::fixed(nature, |_, _| 1.0);
    let mut stream = Stream::empty(nature.x.clone(), full);
    let setting = nature.at(0.0);
    let mut rewards = [(0.0, 0.0); 2];
    for row in 0..rows {
        let version = match row {
            row if row < rows / 3 => 0,
            row if row < 2 * rows / 3 => rng.random_range(0..2),
            _ => usize::from(rewards[1].0 * rewards[0].1 > rewards[0].0 * rewards[1].1),
        };
        let logger = [&old, &new][version];
        let baseline = logger.table().iter().zip(setting.weighted.iter()).map(|(p, c)| p * c).sum();
        stream.moments.push(Moment { baseline, costs: setting.weighted.clone(), shadow: baseline });
        let context = pick(setting.shares.iter().copied(), rng.random());
        let action = pick(logger.plays(context).iter().copied(), rng.random());
        let cost = bernoulli(setting.costs[context * ACTIONS + action], rng);
        stream.push(context, action, cost, logger.plays(context));
        stream.fits.push(version as u32);
        if row >= rows / 3 {
            rewards[version].0 -= cost;
            rewards[version].1 += 1.0;
        }
        new.see(context, action, cost);
    }
    stream
}

#[test]
fn the_version_that_won_a_trial_period_holds() {
    let nature = Nature::nothing_to_gain(CONTEXTS, 0.5);
    assert_valid(&simulate(LOGS, 10_510, |rng| {
        let steady = random_policy(CONTEXTS, rng);
        let full = rng.random();
        let mut stream = trial_period(&nature, ROWS + ROWS / 2, full, rng);
        with_versions(&mut stream);
        let case = Case::with_logged_candidate(&mut stream, steady);
        let mut claims = vec![case.learned("auto", &quick_auto(0.2, rng.random::<u64>() >> 11))];
        claims.extend(DELTAS.map(|delta| case.stored("stored candidate", delta)));
        claims.extend(DELTAS.map(|delta| case.logged("logged candidates", delta)));
        claims
    }));
}
