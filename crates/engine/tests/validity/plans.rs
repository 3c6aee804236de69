//! The planner's calibration (docs/math.md#planner): of the certificates that say keep and promise a number of rows, that
//! number must certify in about 80% of the cases. Each forecast comes from a tenth of the rows that are truly needed.
//!
//! The constants of the planner were tuned on `TUNING` and then frozen; `HELD_OUT` has other numbers of actions, logging
//! policies, outcomes, effects and seeds, and gives the numbers of the documentation. `tuning` prints the worlds of the first list
//! (`cargo test --test validity plans::tuning -- --ignored --nocapture`).

use std::collections::BTreeMap;

use guarantor_engine::certificate::{Certificate, Decision};
use guarantor_engine::log::{Columns, Logging, MemoryLog};
use guarantor_engine::plan::Plan;
use guarantor_engine::policy::pick;
use guarantor_engine::spec::{Candidate, Looks, SpecRequest};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::jobs::run_later;

/// A world without features: the context decides only which of two kinds a decision is of.
#[derive(Clone, Copy)]
struct World {
    name: &'static str,
    seed: u64,
    /// How the logging policy plays, for each kind of decision.
    logging: [&'static [f64]; 2],
    /// How the candidate plays.
    candidate: [&'static [f64]; 2],
    /// The mean reward of each action.
    rewards: [&'static [f64]; 2],
    /// Whether rewards are 0 or 1; otherwise they are spread around their mean.
    binary: bool,
    /// The share of decisions of the second kind.
    second: f64,
    how: Logging,
    /// Whether rows carry the probabilities of all actions.
    full: bool,
    min_improvement: f64,
    /// The rows of a forecast: about a tenth of those that are needed.
    pilot: usize,
}

const NAME: &str = "new";

impl World {
    fn draw(&self, rows: usize, rng: &mut ChaCha8Rng) -> Columns {
        let k = self.logging[0].len();
        let mut columns =
            Columns { n_actions: k, logging: self.how, exact_propensities: true, ..Columns::default() };
        let (mut full, mut all) = (Vec::new(), Vec::new());
        let mut played = Vec::new();
        for _ in 0..rows {
            let kind = usize::from(rng.random::<f64>() < self.second);
            let (pi0, pi) = (self.logging[kind], self.candidate[kind]);
            let action = pick(pi0.iter().copied(), rng.random());
            let mean = self.rewards[kind][action];
            let reward = match self.binary {
                true => f64::from(u8::from(rng.random::<f64>() < mean)),
                false => (mean + 0.3 * (rng.random::<f64>() - 0.5)).clamp(0.0, 1.0),
            };
            columns.actions.push(action as u32);
            columns.costs.push(-reward);
            columns.propensities.push(pi0[action]);
            played.push(pi[action]);
            full.extend_from_slice(pi0);
            all.extend_from_slice(pi);
        }
        columns.candidates = vec![(NAME.into(), played)];
        if self.full {
            columns.full = Some(full);
            columns.candidate_full = vec![Some(all)];
        }
        columns
    }

    fn certify(&self, columns: Columns, looks: Looks) -> Certificate {
        let request = SpecRequest {
            candidates: Some(vec![Candidate::Logged { name: NAME.into() }]),
            independent_of_log: Some(true),
            min_improvement: Some(self.min_improvement.into()),
            looks: Some(looks),
            ..SpecRequest::default()
        };
        let log = MemoryLog::new(columns).expect("a drawn log is a log");
        run_later(&request, &log, &BTreeMap::new(), 0).certificate
    }
}

/// Old and new rows together.
fn pooled(mut old: Columns, new: Columns) -> Columns {
    old.actions.extend(new.actions);
    old.costs.extend(new.costs);
    old.propensities.extend(new.propensities);
    old.candidates[0].1.extend(&new.candidates[0].1);
    if let (Some(old), Some(new)) = (&mut old.full, new.full) {
        old.extend(new);
    }
    for (old, new) in old.candidate_full.iter_mut().zip(new.candidate_full) {
        if let (Some(old), Some(new)) = (old, new) {
            old.extend(new);
        }
    }
    old
}

/// How often promises were made and kept.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    keeps: u64,
    fresh: (u64, u64),
    pooled: (u64, u64),
    rows: (f64, f64),
}

/// Forecasts from pilots, each followed by as many rows as it promises. `rows` reads a promise; a broken planner changes
/// it.
fn kept(world: &World, trials: u64, rows: impl Fn(u64) -> usize + Sync) -> Kept {
    let one = |trial: u64| {
        let mut rng = ChaCha8Rng::seed_from_u64(world.seed.wrapping_mul(1_000_003).wrapping_add(trial));
        let mut kept = Kept::default();
        let pilot = world.draw(world.pilot, &mut rng);
        let certificate = world.certify(pilot.clone(), Looks::Once);
        if certificate.decision == Decision::Deploy {
            return kept;
        }
        kept.keeps = 1;
        let plan: Plan = certificate.plan.expect("every keep has a plan");
        if let Some(promise) = plan.fresh {
            let new = world.draw(rows(promise.rows), &mut rng);
            let decision = world.certify(new, Looks::Once).decision;
            kept.fresh = (1, u64::from(decision == Decision::Deploy));
            kept.rows.0 = promise.rows as f64;
        }
        if let Some(promise) = plan.pooled {
            let new = world.draw(rows(promise.rows), &mut rng);
            let decision = world.certify(pooled(pilot, new), Looks::Anytime).decision;
            kept.pooled = (1, u64::from(decision == Decision::Deploy));
            kept.rows.1 = promise.rows as f64;
        }
        kept
    };
    let add = |a: Kept, b: Kept| Kept {
        keeps: a.keeps + b.keeps,
        fresh: (a.fresh.0 + b.fresh.0, a.fresh.1 + b.fresh.1),
        pooled: (a.pooled.0 + b.pooled.0, a.pooled.1 + b.pooled.1),
        rows: (a.rows.0 + b.rows.0, a.rows.1 + b.rows.1),
    };
    let found = (0..trials).into_par_iter().map(one).reduce(Kept::default, add);
    let share = |(promised, kept): (u64, u64)| kept as f64 / promised.max(1) as f64;
    println!(
        "{:<28} {} keeps of {trials}; fresh: {} promised, {:.3} kept; pooled: {} promised, {:.3} kept; mean rows {:.0}, {:.0}",
        world.name,
        found.keeps,
        found.fresh.0,
        share(found.fresh),
        found.pooled.0,
        share(found.pooled),
        found.rows.0 / found.fresh.0.max(1) as f64,
        found.rows.1 / found.pooled.0.max(1) as f64,
    );
    found
}

const TUNING: [World; 8] = [
    World {
        name: "tuning: uniform, binary",
        seed: 11,
        logging: [&[0.25; 4], &[0.25; 4]],
        candidate: [&[0.7, 0.1, 0.1, 0.1], &[0.7, 0.1, 0.1, 0.1]],
        rewards: [&[0.5, 0.3, 0.3, 0.3], &[0.5, 0.3, 0.3, 0.3]],
        binary: true,
        second: 0.0,
        how: Logging::Fixed,
        full: false,
        min_improvement: 0.0,
        pilot: 40,
    },
    World {
        name: "tuning: greedy, adaptive",
        seed: 12,
        logging: [&[0.85, 0.05, 0.05, 0.05], &[0.05, 0.85, 0.05, 0.05]],
        candidate: [&[0.1, 0.8, 0.05, 0.05], &[0.05, 0.85, 0.05, 0.05]],
        rewards: [&[0.3, 0.6, 0.2, 0.2], &[0.3, 0.4, 0.2, 0.2]],
        binary: true,
        second: 0.5,
        how: Logging::Adaptive,
        full: false,
        min_improvement: 0.01,
        pilot: 450,
    },
    World {
        name: "tuning: continuous, full",
        seed: 13,
        logging: [&[0.5, 0.3, 0.2], &[0.2, 0.3, 0.5]],
        candidate: [&[0.1, 0.1, 0.8], &[0.2, 0.3, 0.5]],
        rewards: [&[0.4, 0.45, 0.5], &[0.4, 0.45, 0.5]],
        binary: false,
        second: 0.3,
        how: Logging::Fixed,
        full: true,
        min_improvement: 0.02,
        pilot: 100,
    },
    World {
        name: "tuning: rare rewards",
        seed: 14,
        logging: [&[0.5, 0.5], &[0.5, 0.5]],
        candidate: [&[0.0, 1.0], &[0.0, 1.0]],
        rewards: [&[0.05, 0.08], &[0.05, 0.08]],
        binary: true,
        second: 0.0,
        how: Logging::Adaptive,
        full: true,
        min_improvement: 0.0,
        pilot: 400,
    },
    World {
        name: "tuning: six actions, skewed",
        seed: 101,
        logging: [&[0.4, 0.2, 0.1, 0.1, 0.1, 0.1]; 2],
        candidate: [&[0.1, 0.1, 0.1, 0.1, 0.1, 0.5]; 2],
        rewards: [&[0.4, 0.3, 0.3, 0.3, 0.3, 0.6]; 2],
        binary: true,
        second: 0.0,
        how: Logging::Fixed,
        full: false,
        min_improvement: 0.02,
        pilot: 145,
    },
    World {
        name: "tuning: two kinds, adaptive",
        seed: 102,
        logging: [&[0.6, 0.4], &[0.3, 0.7]],
        candidate: [&[0.2, 0.8], &[0.8, 0.2]],
        rewards: [&[0.35, 0.5], &[0.55, 0.4]],
        binary: true,
        second: 0.4,
        how: Logging::Adaptive,
        full: false,
        min_improvement: 0.0,
        pilot: 143,
    },
    World {
        name: "tuning: continuous, adaptive, full",
        seed: 103,
        logging: [&[0.7, 0.1, 0.1, 0.1], &[0.1, 0.7, 0.1, 0.1]],
        candidate: [&[0.1, 0.1, 0.1, 0.7]; 2],
        rewards: [&[0.5, 0.4, 0.4, 0.58], &[0.4, 0.5, 0.4, 0.58]],
        binary: false,
        second: 0.5,
        how: Logging::Adaptive,
        full: true,
        min_improvement: 0.03,
        pilot: 147,
    },
    World {
        name: "tuning: rare rewards, fixed, full",
        seed: 104,
        logging: [&[0.6, 0.2, 0.2]; 2],
        candidate: [&[0.05, 0.05, 0.9]; 2],
        rewards: [&[0.04, 0.04, 0.09]; 2],
        binary: true,
        second: 0.0,
        how: Logging::Fixed,
        full: true,
        min_improvement: 0.0,
        pilot: 123,
    },
];

#[test]
#[ignore = "prints the worlds that the planner was tuned on"]
fn tuning() {
    for world in &TUNING {
        kept(world, 120, |rows| rows as usize);
    }
}

/// Worlds that nothing was tuned on.
const HELD_OUT: [World; 4] = [
    World {
        name: "five actions, fixed",
        seed: 201,
        logging: [&[0.3, 0.25, 0.2, 0.15, 0.1]; 2],
        candidate: [&[0.1, 0.1, 0.1, 0.1, 0.6]; 2],
        rewards: [&[0.45, 0.4, 0.4, 0.4, 0.62]; 2],
        binary: true,
        second: 0.0,
        how: Logging::Fixed,
        full: false,
        min_improvement: 0.03,
        pilot: 228,
    },
    World {
        name: "three actions, adaptive",
        seed: 202,
        logging: [&[0.5, 0.25, 0.25], &[0.25, 0.5, 0.25]],
        candidate: [&[0.1, 0.1, 0.8], &[0.8, 0.1, 0.1]],
        rewards: [&[0.4, 0.4, 0.55], &[0.5, 0.35, 0.4]],
        binary: true,
        second: 0.5,
        how: Logging::Adaptive,
        full: false,
        min_improvement: 0.0,
        pilot: 191,
    },
    World {
        name: "continuous, fixed",
        seed: 203,
        logging: [&[0.4, 0.3, 0.2, 0.1]; 2],
        candidate: [&[0.1, 0.2, 0.3, 0.4]; 2],
        rewards: [&[0.4, 0.45, 0.5, 0.6]; 2],
        binary: false,
        second: 0.0,
        how: Logging::Fixed,
        full: false,
        min_improvement: 0.02,
        pilot: 128,
    },
    World {
        name: "binary, adaptive, full",
        seed: 204,
        logging: [&[0.6, 0.3, 0.1]; 2],
        candidate: [&[0.2, 0.2, 0.6]; 2],
        rewards: [&[0.5, 0.45, 0.65]; 2],
        binary: true,
        second: 0.0,
        how: Logging::Adaptive,
        full: true,
        min_improvement: 0.0,
        pilot: 152,
    },
];

/// Between these shares of promises must be kept.
const CALIBRATED: std::ops::RangeInclusive<f64> = 0.7..=0.9;

fn shares(kept: &Kept) -> [f64; 2] {
    [kept.fresh, kept.pooled].map(|(promised, kept)| kept as f64 / promised.max(1) as f64)
}

#[test]
fn promises_are_kept_four_times_out_of_five() {
    for world in &HELD_OUT {
        let found = kept(world, TRIALS, |rows| rows as usize);
        assert!(found.fresh.0.min(found.pooled.0) >= TRIALS / 4, "{}: too few promises", world.name);
        for share in shares(&found) {
            assert!(CALIBRATED.contains(&share), "{}: {share} of the promises were kept", world.name);
        }
    }
}

/// A planner that promises half of the rows, or three times as many, is caught.
#[test]
fn a_broken_planner_is_caught() {
    let world = &HELD_OUT[3];
    let optimist = shares(&kept(world, 80, |rows| (rows / 2) as usize));
    let pessimist = shares(&kept(world, 80, |rows| (3 * rows) as usize));
    for share in optimist.into_iter().chain(pessimist) {
        assert!(!CALIBRATED.contains(&share), "{share} is not caught");
    }
}

/// Pilots of each world.
const TRIALS: u64 = 300;
