//! Broken logs must fail, by the check that is meant for them.

use guarantor_engine::checks::{CheckName, CheckPlan, Repetition};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::world::{Candidates, Row, Shape, World, Written, check, draw, rng, softmax};

const SEEDS: u64 = 100;
const ROWS: usize = 2000;
const CONTEXTS: usize = 2000;

fn world(k: usize, shape: Shape, full: bool) -> World {
    let (written, candidates) = (Written::Decimals(4), Candidates::None);
    World { k, shape, full, declared: true, written, candidates, designed: false, cost: -0.5 }
}

/// Asserts that a check fails in at least 95% of the logs, and prints how often each does.
fn caught(what: &str, name: CheckName, make: impl Fn(&mut ChaCha8Rng) -> (CheckPlan, Vec<Row>) + Sync) {
    let failed: Vec<Vec<CheckName>> = (0..SEEDS)
        .into_par_iter()
        .map(|seed| {
            let (plan, rows) = make(&mut rng(seed));
            check(&plan, &rows).iter().filter(|r| r.failed()).map(|r| r.name).collect()
        })
        .collect();
    let share = |name| failed.iter().filter(|f| f.contains(&name)).count();
    let all: Vec<_> =
        CheckName::ALL.iter().map(|n| (n.name(), share(*n))).filter(|(_, failed)| *failed > 0).collect();
    println!("{what}: of {SEEDS} logs these failed {all:?}");
    assert!(share(name) >= 95, "{what}: {} of {SEEDS}", share(name));
}

/// Actions are drawn uniformly, and a softmax of another model is logged as their propensities: the mean of
/// 1/p is about 8.3 and not 3.
#[test]
fn wrong_propensities() {
    for full in [true, false] {
        caught(&format!("wrong propensities, full {full}"), CheckName::Propensities, |rng| {
            let world = world(3, Shape::Uniform, full);
            let mut rows = world.log(ROWS, rng);
            for row in &mut rows {
                let p = softmax(3, 2.2, 0.01, rng);
                row.propensity = p[row.action as usize];
                row.full = full.then_some(p);
            }
            let mean: f64 = rows.iter().map(|row| 1.0 / row.propensity).sum::<f64>() / rows.len() as f64;
            assert!((5.5..11.0).contains(&mean), "{mean}");
            (world.plan(), rows)
        });
    }
}

/// With a declared K or without, bets on single actions catch propensities that are too small.
#[test]
fn propensities_that_are_too_small() {
    for declared in [true, false] {
        caught(&format!("half of the propensity, declared {declared}"), CheckName::ActionCounts, |rng| {
            let world = World { declared, ..world(5, Shape::Softmax, false) };
            let mut rows = world.log(ROWS, rng);
            rows.iter_mut().for_each(|row| row.propensity /= 2.0);
            (world.plan(), rows)
        });
    }
}

#[test]
fn actions_that_are_numbered_differently() {
    for (what, swap) in [("off by one", false), ("two actions swapped", true)] {
        for k in [3, 10] {
            caught(&format!("{what}, K = {k}"), CheckName::ActionCounts, |rng| {
                let world = World { written: Written::F32, ..world(k, Shape::Uniform, true) };
                // π0 prefers the first actions, a little differently in every context.
                let mut rows = world.log(ROWS, rng);
                for row in &mut rows {
                    let raw: Vec<f64> =
                        (0..k).map(|a| 1.0 / (1 + a) as f64 + 0.2 * rng.random::<f64>()).collect();
                    let total: f64 = raw.iter().sum();
                    let p: Vec<f64> = raw.iter().map(|p| p / total).collect();
                    let action = draw(&p, rng);
                    row.action = match (swap, action) {
                        (false, a) => ((a + 1) % k) as u32,
                        (true, 0) => 1,
                        (true, 1) => 0,
                        (true, a) => a as u32,
                    };
                    row.propensity = p[row.action as usize];
                    row.full = Some(p);
                }
                (world.plan(), rows)
            });
        }
    }
}

/// The column holds the probability of the action that the candidate prefers, not of the logged one.
#[test]
fn a_candidates_own_confidence() {
    for full in [true, false] {
        caught(&format!("own confidence, full {full}"), CheckName::CandidateWeights, |rng| {
            let world = World { candidates: Candidates::Played, ..world(4, Shape::Uniform, full) };
            let mut rows = world.log(ROWS, rng);
            for row in &mut rows {
                let pi = softmax(4, 2.2, 0.0, rng);
                row.candidates[0].0 = pi.iter().copied().fold(0.0, f64::max);
            }
            let mean: f64 =
                rows.iter().map(|row| row.candidates[0].0 / row.propensity).sum::<f64>() / rows.len() as f64;
            assert!((2.0..2.6).contains(&mean), "{mean}");
            (world.plan(), rows)
        });
    }
}

/// Weights that are too small are found where π0(·|x) is known.
#[test]
fn a_candidate_that_is_too_small() {
    caught("half of the candidate", CheckName::CandidateWeights, |rng| {
        let world = World { candidates: Candidates::Played, ..world(4, Shape::Uniform, true) };
        let mut rows = world.log(ROWS, rng);
        rows.iter_mut().for_each(|row| row.candidates[0].0 *= 0.5);
        (world.plan(), rows)
    });
}

/// π0 never takes the actions that the candidate likes as often as it says.
#[test]
fn a_candidate_against_wrong_propensities() {
    caught("wrong where it matters", CheckName::CandidateWeights, |rng| {
        let world = World { candidates: Candidates::All, ..world(4, Shape::Uniform, true) };
        let mut rows = world.log(ROWS, rng);
        for row in &mut rows {
            row.action = draw(&[0.1, 0.3, 0.3, 0.3], rng) as u32;
            let all = vec![0.85, 0.05, 0.05, 0.05];
            row.candidates[0] = (all[row.action as usize], Some(all));
            row.candidates[1] = (0.25, Some(vec![0.25; 4]));
        }
        (world.plan(), rows)
    });
}

#[test]
fn a_baseline_that_the_log_rejects() {
    caught("known baseline 0, mean reward 0.5", CheckName::KnownBaseline, |rng| {
        let world = world(5, Shape::Softmax, false);
        (CheckPlan { known_baseline: Some(0.0), ..world.plan() }, world.log(ROWS, rng))
    });
    caught("known baseline 0.4, mean reward 0.5", CheckName::KnownBaseline, |rng| {
        let world = world(5, Shape::Softmax, false);
        (CheckPlan { known_baseline: Some(-0.4), ..world.plan() }, world.log(ROWS, rng))
    });
}

/// Stating too low a risk for the logging policy understates the improvement, which is safe.
#[test]
fn a_cautious_baseline_passes() {
    let world = world(5, Shape::Softmax, false);
    let plan = CheckPlan { known_baseline: Some(-0.9), ..world.plan() };
    assert!(check(&plan, &world.log(ROWS, &mut rng(1))).iter().all(|r| !r.failed()));
}

#[test]
fn drifting_logs() {
    type Mean = fn(f64) -> f64;
    let cases: [(&str, Mean); 3] = [
        ("slow drift from 0.2 to 0.8", |t| 0.2 + 0.6 * t),
        ("step from 0.35 to 0.65", |t| if t < 0.6 { 0.35 } else { 0.65 }),
        ("an outage of a tenth", |t| if (0.3..0.4).contains(&t) { 0.05 } else { 0.5 }),
    ];
    for (what, mean) in cases {
        caught(what, CheckName::Drift, |rng| {
            let world = world(5, Shape::Softmax, true);
            let mut rows = world.log(ROWS, rng);
            let n = rows.len() as f64;
            for (i, row) in rows.iter_mut().enumerate() {
                row.cost = if rng.random::<f64>() < mean(i as f64 / n) { -1.0 } else { 0.0 };
            }
            (CheckPlan { known_baseline: None, ..world.plan() }, rows)
        });
    }
    caught("a policy that learns, attested as fixed", CheckName::Drift, |rng| {
        let (before, after) = (world(5, Shape::Uniform, true), world(5, Shape::Peaked, true));
        let rows = [before.log(ROWS / 2, rng), after.log(ROWS / 2, rng)].concat();
        (CheckPlan { fixed: true, ..before.plan() }, rows)
    });
}

/// Drift is shown but does not fail logs whose policy may change.
#[test]
fn drift_decides_only_if_a_fixed_policy_was_attested() {
    let world = world(5, Shape::Uniform, false);
    let mut rows = world.log(ROWS, &mut rng(1));
    rows.iter_mut().enumerate().for_each(|(i, row)| row.cost = if i < 1000 { -1.0 } else { 0.0 });
    let plan = CheckPlan { fixed: false, known_baseline: None, ..world.plan() };
    assert!(check(&plan, &rows).iter().all(|r| !r.failed() && r.name != CheckName::Drift));
    let mut builder = guarantor_engine::checks::ChecksBuilder::new(plan);
    rows.iter().for_each(|row| row.show(&mut |row| builder.row(row)));
    let drift = builder.drift();
    let change = drift.change.unwrap();
    assert!(change.significant && change.statistic == "cost", "{change:?}");
    assert!(drift.slices.len() >= 10 && drift.slices.len() <= 20);
    assert_eq!(drift.slices.iter().map(|s| s.rows).sum::<u64>(), rows.len() as u64);
    assert_eq!(drift.actions.len(), 5);
    assert!(drift.slices.iter().all(|s| (s.action_shares.iter().sum::<f64>() - 1.0).abs() < 1e-9));
}

/// Users retry until they succeed, and actions differ in how often they do.
#[test]
fn retries_until_success() {
    for full in [true, false] {
        caught(&format!("retries, full {full}"), CheckName::Repetitions, |rng| {
            let world = World { designed: true, ..world(4, Shape::Softmax, full) };
            let one = World { designed: false, ..world.clone() };
            let success = [0.2, 0.4, 0.6, 0.8];
            let mut rows: Vec<Row> = Vec::new();
            for _ in 0..CONTEXTS {
                let tries = one.log(10, rng);
                let first = rows.len();
                for mut row in tries {
                    row.first = rows.len() == first;
                    // The context is the same, so π0 is.
                    if !row.first {
                        row.action = draw(&[0.25; 4], rng) as u32;
                        row.propensity = 0.25;
                        row.full = full.then(|| vec![0.25; 4]);
                    }
                    row.cost = if rng.random::<f64>() < success[row.action as usize] { -1.0 } else { 0.0 };
                    let done = row.cost < 0.0;
                    rows.push(row);
                    if done {
                        break;
                    }
                }
                let interactions = (rows.len() - first) as u64;
                rows[first].repetition = Some(Repetition { interactions });
            }
            (CheckPlan { known_baseline: None, ..world.plan() }, rows)
        });
    }
}
