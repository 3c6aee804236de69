//! Learning from logs whose rows have their own actions, through whole jobs.

use std::collections::BTreeMap;

use guarantor_engine::certificate::{Decision, Evidence};
use guarantor_engine::control::unattended;
use guarantor_engine::log::{ActionSets, Columns, FeatureSpace, LogSource, Logging, MemoryLog, Sets};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{ExploreRequest, SpecContext, SpecRequest};
use guarantor_engine::verify::Wording;
use guarantor_engine::{Finished, Inputs, run, verify};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Readers of five kinds see 2 to `most` items of five kinds. They like their own kind, and items of quality.
fn columns(n: usize, most: usize, seed: u64) -> Columns {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let spaces =
        ActionSets { x: FeatureSpace::Named { dim: 1 << 24 }, actions: FeatureSpace::List { dim: 6 } };
    let mut columns = Columns { full: Some(Vec::new()), set_features: spaces, ..Columns::default() };
    let mut sets = Sets::default();
    for _ in 0..n {
        let (reader, k) = (rng.random_range(0..5u32), rng.random_range(2..=most));
        sets.x.push([(reader * 3_000_000, 1.0)]);
        let items: Vec<(u32, f32)> = (0..k).map(|_| (rng.random_range(0..5), rng.random())).collect();
        items.iter().for_each(|&(kind, quality)| sets.actions.push([(kind, 1.0), (5, quality)]));
        sets.end_row();
        let action = rng.random_range(0..k);
        let (kind, quality) = items[action];
        let good = f64::from(quality) * 0.3 + if kind == reader { 0.5 } else { 0.1 };
        columns.actions.push(action as u32);
        columns.costs.push(if rng.random::<f64>() < good { -1.0 } else { 0.0 });
        columns.propensities.push(1.0 / k as f64);
        columns.full.iter_mut().for_each(|full| full.extend(std::iter::repeat_n(1.0 / k as f64, k)));
        columns.n_actions = columns.n_actions.max(k);
    }
    columns.sets = Some(sets);
    columns
}

/// Runs `auto` without exploration and verifies its certificate.
fn start(columns: Columns, explore: f64) -> (MemoryLog, Finished) {
    let log = MemoryLog::new(columns).unwrap();
    let request = SpecRequest { explore: Some(ExploreRequest::Share(explore)), ..SpecRequest::default() };
    let shape = log.shape();
    let context =
        SpecContext { shape, logging_policy: None, policy: &|_| None, seen_rows: 0, caller: "key-7" };
    let spec = request.resolve(&context).unwrap();
    let policies = BTreeMap::new();
    let inputs = Inputs {
        log: &log,
        logging_policy: None,
        policies: &policies,
        dataset_version: 1,
        dataset_digest: "sha256:test",
        log_checks: None,
    };
    let finished = run(&spec, &inputs, &unattended()).unwrap();
    let again =
        verify(&finished.certificate, Wording::Compared, &finished.evidence, &inputs, &unattended()).unwrap();
    assert!(again.valid, "{:?}", again.checks.iter().filter(|check| !check.ok).collect::<Vec<_>>());
    (log, finished)
}

fn policy(finished: &Finished) -> &PolicyParams {
    let Evidence::Auto(evidence) = &finished.evidence else { panic!("not auto") };
    &evidence.policy
}

#[test]
fn auto_learns_what_readers_like_and_certifies_it() {
    for (logging, most) in [(Logging::Adaptive, 8), (Logging::Fixed, 8), (Logging::Adaptive, 2)] {
        let mut columns = columns(4000, most, 11);
        columns.logging = logging;
        let (log, finished) = start(columns, 0.0);
        let certificate = &finished.certificate;
        let least = if most == 8 { 0.15 } else { 0.02 };
        assert!(certificate.guaranteed_improvement > least, "{}", certificate.guaranteed_improvement);
        assert_eq!(certificate.decision, Decision::Deploy, "{:?}", certificate.reasons);
        let pi = policy(&finished).propensities(log.chunk(0).unwrap().situations()).unwrap();
        let sure = pi.rows().into_iter().filter(|row| row.iter().any(|&p| p > 0.9)).count();
        assert!(10 * sure > 8 * pi.nrows(), "{sure} of {}", pi.nrows());
    }
}

#[test]
fn learned_policies_explore_over_the_set_that_they_are_given() {
    let (log, finished) = start(columns(600, 40, 3), 0.1);
    let chunk = log.chunk(0).unwrap();
    let sets = chunk.sets.as_ref().unwrap().view();
    let pi = policy(&finished).propensities(chunk.situations()).unwrap();
    for i in 0..sets.rows() {
        let size = sets.size(i);
        let least = 0.1 / size as f64 - 1e-12;
        assert!((0..size).all(|a| pi[(i, a)] >= least) && (size..pi.ncols()).all(|a| pi[(i, a)] == 0.0));
    }
}

/// A policy that was learned must not know the rows that certify it: whatever these are, it is the same.
#[test]
fn nothing_is_learned_from_certified_rows() {
    let whole = columns(1000, 6, 5);
    let (_, before) = start(whole.clone(), 0.0);
    let mut changed = columns(1000, 6, 6);
    let (sets, other) = (whole.sets.as_ref().unwrap(), changed.sets.as_ref().unwrap());
    let first = 500;
    let mut mixed = Sets::default();
    mixed.extend_from(sets, 0..first);
    mixed.extend_from(other, first..1000);
    let (own, theirs) = (sets.offsets()[first] as usize, other.offsets()[first] as usize);
    let full = [&whole.full.as_ref().unwrap()[..own], &changed.full.as_ref().unwrap()[theirs..]].concat();
    changed.actions.splice(..first, whole.actions[..first].iter().copied());
    changed.costs.splice(..first, whole.costs[..first].iter().copied());
    changed.propensities.splice(..first, whole.propensities[..first].iter().copied());
    changed.costs[first..].iter_mut().for_each(|cost| *cost = -1.0 - *cost);
    (changed.sets, changed.full) = (Some(mixed), Some(full));
    let (_, after) = start(changed, 0.0);
    assert_eq!(policy(&before).digest().unwrap(), policy(&after).digest().unwrap());
    let improvement = |finished: &Finished| finished.certificate.guaranteed_improvement;
    assert!(improvement(&before) > improvement(&after));
}

#[test]
fn degenerate_logs_get_certificates() {
    let constant = |cost: f64| {
        let mut columns = columns(100, 5, 1);
        columns.costs.fill(cost);
        columns
    };
    let mut logged_only = columns(100, 5, 2);
    logged_only.full = None;
    for columns in
        [constant(0.0), constant(-1.0), constant(-0.5), columns(20, 3, 1), columns(60, 200, 1), logged_only]
    {
        let (_, finished) = start(columns, 0.0);
        let certificate = &finished.certificate;
        assert!(certificate.guaranteed_improvement.is_finite() && certificate.guaranteed_risk.is_finite());
        assert_eq!(certificate.decision, Decision::Keep);
    }
}
