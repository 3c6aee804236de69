//! Logs whose rows have their own actions. Requests come from a finite list, so the truth is a sum. The logging policy
//! is fixed, or is retrained on its own log.

mod world;

use std::collections::BTreeMap;

use guarantor_engine::log::{Logging, MemoryLog, Span};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{BoundKind, Candidate, Looks, OptimizerRequest, SpecRequest};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::arrivals::stream::Truth;
use crate::harness::{Claim, assert_flagged, assert_valid, simulate};
use crate::jobs::run_job;
use world::{CANDIDATE, Drawn, Logger, World};

const DELTAS: [f64; 2] = [0.05, 0.2];
const LOGS: u64 = 300;
const ROWS: usize = 300;
/// Logs that are learned from. Learning takes most of the time.
const LEARNED: u64 = 150;

fn log_of(drawn: &Drawn, logging: Logging) -> MemoryLog {
    let mut columns = drawn.columns.clone();
    columns.logging = logging;
    MemoryLog::new(columns).expect("a drawn log is a log")
}

/// `auto` with as little training as there is: validity does not depend on how good the policy is.
fn learning(delta: f64, seed: u64) -> SpecRequest {
    let optimizer = OptimizerRequest { max_seconds: Some(0.0), ..OptimizerRequest::default() };
    SpecRequest { delta: Some(delta), seed: Some(seed), optimizer: Some(optimizer), ..SpecRequest::default() }
}

fn learned_claim(
    name: &'static str,
    world: &World,
    drawn: &Drawn,
    logging: Logging,
    delta: f64,
    seed: u64,
) -> Claim {
    let finished = run_job(&learning(delta, seed), &log_of(drawn, logging), &BTreeMap::new());
    let (certificate, policy) = (&finished.certificate, finished.evidence.policy().expect("the policy"));
    let pi = policy.propensities(world.sets.view()).expect("a policy on these requests");
    let rows = match &certificate.certified.as_ref().expect("the certified rows").span {
        Span::Time { first_certified_row, .. } => *first_certified_row as usize..drawn.baseline.len(),
        Span::Hash(_) => 0..drawn.baseline.len(),
    };
    let excess = drawn.truth(world, |i| pi.row(i).to_vec(), rows);
    let excess = excess.excess(certificate.guaranteed_risk, certificate.guaranteed_improvement);
    Claim::that_none_exceeds(name, [excess]).at(delta)
}

/// The candidates that do not depend on the log: one that the log carries, with all of its probabilities or only those
/// of the logged actions, and the uniform policy.
fn evaluated_claim(
    name: &'static str,
    world: &World,
    drawn: &Drawn,
    (logging, bound, looks): (Logging, BoundKind, Looks),
    delta: f64,
) -> Claim {
    let request = SpecRequest {
        candidates: Some(vec![
            Candidate::Logged { name: CANDIDATE.into() },
            Candidate::Policy { policy_id: "uniform".into() },
        ]),
        independent_of_log: Some(true),
        delta: Some(delta),
        bound: Some(bound),
        looks: Some(looks),
        ..SpecRequest::default()
    };
    let policies = BTreeMap::from([("uniform".to_owned(), PolicyParams::UniformOverSets {})]);
    let certificate = run_job(&request, &log_of(drawn, logging), &policies).certificate;
    assert_eq!(certificate.candidates.len(), 2);
    let all = 0..drawn.baseline.len();
    let uniform = |i: usize| vec![1.0 / world.sets.size(i) as f64; world.sets.size(i)];
    let truths: [Truth; 2] =
        [drawn.truth(world, |i| world.candidate[i].clone(), all.clone()), drawn.truth(world, uniform, all)];
    let excesses = certificate
        .candidates
        .iter()
        .zip(truths)
        .map(|(result, truth)| truth.excess(result.guaranteed_risk, result.guaranteed_improvement));
    Claim::that_none_exceeds(name, excesses).at(delta)
}

fn evaluated(world: &World, drawn: &Drawn, logging: Logging) -> Vec<Claim> {
    let mut claims = Vec::new();
    for delta in DELTAS {
        for (name, bound, looks) in [
            ("auto", BoundKind::Auto, Looks::Once),
            ("betting", BoundKind::Betting, Looks::Once),
            ("anytime", BoundKind::Betting, Looks::Anytime),
            ("log smoothing", BoundKind::LogSmoothing, Looks::Once),
        ] {
            claims.push(evaluated_claim(name, world, drawn, (logging, bound, looks), delta));
        }
    }
    claims
}

fn learned(world: &World, drawn: &Drawn, logging: Logging, rng: &mut ChaCha8Rng) -> Vec<Claim> {
    let claim = |delta| learned_claim("learned", world, drawn, logging, delta, rng.random::<u64>() >> 11);
    DELTAS.map(claim).into()
}

#[test]
fn candidates_on_a_fixed_log_hold() {
    let world = World::new(31, 0.3);
    for (seed, full) in [(20_010, true), (20_020, false)] {
        assert_valid(&simulate(LOGS, seed, |rng| {
            evaluated(&world, &world.draw(Logger::fixed(), ROWS, full, rng), Logging::Fixed)
        }));
    }
}

#[test]
fn candidates_on_a_retrained_log_hold() {
    let world = World::new(32, 0.3);
    assert_valid(&simulate(LOGS, 20_030, |rng| {
        evaluated(&world, &world.draw(Logger::retrained(ROWS, 4), ROWS, true, rng), Logging::Adaptive)
    }));
}

#[test]
fn learning_holds() {
    let world = World::new(33, 0.3);
    assert_valid(&simulate(LEARNED, 20_040, |rng| {
        let drawn = world.draw(Logger::fixed(), 2 * ROWS, true, rng);
        learned(&world, &drawn, Logging::Fixed, rng)
    }));
    assert_valid(&simulate(LEARNED, 20_050, |rng| {
        let drawn = world.draw(Logger::retrained(2 * ROWS, 1), 2 * ROWS, true, rng);
        learned(&world, &drawn, Logging::Adaptive, rng)
    }));
}

/// Where all actions are equally good and the policy was retrained on single requests, nothing is gained.
#[test]
fn a_retrained_log_with_nothing_to_gain_holds() {
    let world = World::with_nothing_to_gain(34, 0.7);
    assert_valid(&simulate(LEARNED, 20_060, |rng| {
        let drawn = world.draw(Logger::retrained_by_request(1200), 2000, true, rng);
        learned(&world, &drawn, Logging::Adaptive, rng)
    }));
}

/// The negative control: a candidate that was learned from the rows that it is certified on.
#[test]
fn a_candidate_that_has_seen_the_log_is_caught() {
    let world = World::with_nothing_to_gain(35, 0.5);
    assert_flagged(&simulate(60, 20_070, |rng| {
        let mut drawn = world.draw(Logger::fixed(), 2000, true, rng);
        let candidate = drawn.carry_what_paid(&world);
        let request = SpecRequest {
            candidates: Some(vec![Candidate::Logged { name: CANDIDATE.into() }]),
            independent_of_log: Some(true),
            ..SpecRequest::default()
        };
        let truth = drawn.truth(&world, |i| candidate[i].clone(), 0..2000);
        let claim = |delta: f64| {
            let request = SpecRequest { delta: Some(delta), ..request.clone() };
            let log = log_of(&drawn, Logging::Fixed);
            let result = run_job(&request, &log, &BTreeMap::new()).certificate.candidates.remove(0);
            let excess = truth.excess(result.guaranteed_risk, result.guaranteed_improvement);
            Claim::that_none_exceeds("learned from the certified rows", [excess]).at(delta)
        };
        DELTAS.map(claim).into()
    }));
}
