//! A policy that was retrained once on its own log, where all actions are equally good and all propensities are
//! exact. A split by a hash lets what was learned know the outcomes of the certified rows: later rows on the
//! learn side show what the policy learned from earlier rows on the certify side.

use std::collections::BTreeMap;

use guarantor_engine::certificate::Decision;
use guarantor_engine::log::{Logging, MemoryLog};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::SpecRequest;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::case::{Case, quick_auto, random_policy};
use super::logger::{Logger, Refit, Rule};
use super::nature::Nature;
use super::stream::{Stream, draw};
use super::{DELTAS, LOGS};
use crate::harness::{Claim, assert_flagged, assert_valid, simulate};
use crate::jobs::run_job;

const LEVEL: f64 = 0.8;

/// Retrained after 60 % of the rows.
fn retrained_once(contexts: usize, rows: usize, rng: &mut ChaCha8Rng) -> Stream {
    let nature = Nature::nothing_to_gain(contexts, LEVEL);
    let logger = Logger::of_means(&nature, Rule::EpsilonGreedy(0.1), Refit::Once(rows * 6 / 10));
    draw(&nature, logger, rows, true, rng)
}

/// The log as one that is attested to be of one fixed policy, which it is not.
fn attested_fixed(stream: &Stream) -> MemoryLog {
    let mut columns = stream.columns.clone();
    columns.logging = Logging::Fixed;
    MemoryLog::new(columns).expect("a drawn log is a log")
}

/// The hash split on a log that was not logged by one policy. The true improvement is 0.
fn hash_split_claim(stream: &Stream, request: &SpecRequest) -> Claim {
    let certificate = run_job(request, &attested_fixed(stream), &BTreeMap::new()).certificate;
    let claim = Claim::that_none_exceeds("auto, hash split", [certificate.guaranteed_improvement]);
    claim.at(request.delta.expect("a δ"))
}

#[test]
fn retraining_once_holds() {
    assert_valid(&simulate(LOGS, 10_030, |rng| {
        let steady = random_policy(8, rng);
        let mut stream = retrained_once(8, 480, rng);
        Case::with_logged_candidate(&mut stream, steady).claims(rng)
    }));
}

/// The negative control: the split of earlier releases.
#[test]
fn the_hash_split_of_a_retrained_log_is_caught() {
    assert_flagged(&simulate(60, 10_040, |rng| {
        let stream = retrained_once(16, 1600, rng);
        DELTAS.map(|delta| hash_split_claim(&stream, &quick_auto(delta, rng.random::<u64>() >> 11))).into()
    }));
}

/// Why a candidate must depend on nothing that was logged since the first certified row: the policy that was
/// trained on the log is evaluated on it.
#[test]
fn a_candidate_of_the_same_period_is_caught() {
    const CONTEXTS: usize = 100;
    assert_flagged(&simulate(30, 10_050, |rng| {
        let nature = Nature::nothing_to_gain(CONTEXTS, LEVEL);
        let mut last = Logger::of_means(&nature, Rule::EpsilonGreedy(0.0), Refit::Never);
        let logger = Logger::of_means(&nature, Rule::EpsilonGreedy(0.1), Refit::Once(2400));
        let stream = draw(&nature, logger, 4000, true, rng);
        for (row, x) in stream.columns.x.chunks_exact(CONTEXTS).enumerate().take(2400) {
            let context = x.iter().position(|&v| v == 1.0).expect("one-hot");
            last.see(context, stream.columns.actions[row] as usize, stream.columns.costs[row]);
        }
        let mean = (0..CONTEXTS).map(|x| last.estimates(x)).collect();
        let policy = PolicyParams::Softmax { mean, inverse_temperature: 1e3, features: Default::default() };
        let case = Case::new(&stream, policy);
        DELTAS.map(|delta| case.stored("trained on the same period", delta)).into()
    }));
}

/// The table of the documentation: how many of 100 `auto` jobs at δ = 0.05 say deploy where nothing can be
/// gained. Run with `--ignored --nocapture`.
#[test]
#[ignore = "prints a table for the documentation"]
fn deploy_counts() {
    let count = |logs: u64| {
        let each = |index: u64| {
            let mut rng = ChaCha8Rng::seed_from_u64(10_060);
            rng.set_stream(index);
            let stream = retrained_once(24, 3000, &mut rng);
            let request = SpecRequest { seed: Some(index), delta: Some(0.05), ..SpecRequest::default() };
            let hash = run_job(&request, &attested_fixed(&stream), &BTreeMap::new()).certificate;
            let time = run_job(&request, &stream.log(), &BTreeMap::new()).certificate;
            [
                hash.guaranteed_improvement > 0.0,
                hash.decision == Decision::Deploy,
                time.guaranteed_improvement > 0.0,
                time.decision == Decision::Deploy,
            ]
        };
        let all: Vec<[bool; 4]> = (0..logs).into_par_iter().map(each).collect();
        [0, 1, 2, 3].map(|i| all.iter().filter(|each| each[i]).count())
    };
    let [hash, hash_checked, time, time_checked] = count(100);
    println!("hash split, without checks: {hash} of 100 deploy");
    println!("hash split (logging = fixed), with checks: {hash_checked}");
    println!("time split, without checks: {time}");
    println!("time split (logging = adaptive, the default), with checks: {time_checked}");
    assert!(hash >= 50 && time <= 15);
}
