//! Logs that were attested as fixed although the improvement drifts. The mean over all rows is what a certificate is
//! held to. No proof covers this; a random order makes it hold in practice.

use std::collections::BTreeMap;

use guarantor_engine::log::Logging;
use guarantor_engine::spec::Looks;
use rand_chacha::ChaCha8Rng;

use super::jobs::{Form, Look, certificate, claims, evaluating, in_form};
use super::{DELTAS, LOGS};
use crate::arrivals::case::{STEADY, always};
use crate::arrivals::logger::Logger;
use crate::arrivals::nature::{ACTIONS, Nature};
use crate::arrivals::stream::draw;
use crate::harness::{Claim, assert_valid, simulate};

const CONTEXTS: usize = 2;

/// The improvement of always playing action 0 over the uniform policy, by the share of time.
fn drifting(improvement: fn(f64) -> f64) -> Nature {
    let gap = ACTIONS as f64 / (ACTIONS - 1) as f64;
    Nature::nothing_to_gain(CONTEXTS, 0.5)
        .with_rewards(move |s, _, a| if a == 0 { 0.5 + gap * improvement(s) } else { 0.5 })
}

fn drift_claims(nature: &Nature, rows: usize, forms: &[Form], rng: &mut ChaCha8Rng) -> Vec<Claim> {
    let uniform = Logger::fixed(nature, |_, _| 1.0);
    let mut stream = draw(nature, uniform, rows, true, rng);
    (stream.columns.logging, stream.columns.candidates) = (Logging::Fixed, Vec::new());
    let policy = always(0, CONTEXTS);
    let pi = policy.propensities(stream.x.view()).expect("a policy on these contexts");
    let rows: Vec<u64> = (0..rows as u64).collect();
    let truth = stream.truth_of(pi.as_slice().expect("row-major"), &rows);
    let stored = BTreeMap::from([(STEADY.to_string(), policy)]);
    let mut all = Vec::new();
    for &form in forms {
        let log = in_form(form, stream.columns.clone(), &stored);
        for delta in DELTAS {
            let request = evaluating(form, stored.keys(), delta, Looks::Once, rng);
            let certificate = certificate(&request, &log, &stored);
            all.extend(claims(form, &[Look { certificate, truths: vec![truth] }]));
        }
    }
    all
}

fn holds(improvement: fn(f64) -> f64, rows: usize, forms: &[Form], seed: u64) {
    let nature = drifting(improvement);
    assert_valid(&simulate(LOGS, seed, |rng| drift_claims(&nature, rows, forms, rng)));
}

#[test]
fn a_rising_improvement_holds() {
    holds(|s| 0.06 * (2.0 * s - 1.0), 1000, &[Form::Logged], 41_000);
    holds(|s| 0.15 * (2.0 * s - 1.0), 300, &[Form::Logged, Form::Stored], 41_100);
}

#[test]
fn a_falling_improvement_holds() {
    holds(|s| 0.06 * (1.0 - 2.0 * s), 300, &[Form::Logged], 41_200);
    holds(|s| 0.15 * (1.0 - 2.0 * s), 300, &[Form::Logged, Form::Stored], 41_300);
}

#[test]
fn a_sudden_change_holds() {
    holds(|s| if s < 0.5 { 0.3 } else { -0.3 }, 300, &[Form::Logged, Form::Stored], 41_400);
}
