//! Valid logs must pass: all checks of a log together fail at most 1% of the time.

use guarantor_engine::checks::{CheckName, CheckPlan, CheckRow, CheckScope, ChecksBuilder, LEVEL, Rounding};
use rand::RngExt;
use rayon::prelude::*;

use crate::world::{Candidates, Shape, World, Written, check, draw, rng};

/// P(X ≥ at_least) for X ~ Binomial(trials, p).
fn binomial_tail(at_least: u64, trials: u64, p: f64) -> f64 {
    let ln_factorial = |n: u64| libm::lgamma(n as f64 + 1.0);
    let term = |x: u64| {
        let ways = ln_factorial(trials) - ln_factorial(x) - ln_factorial(trials - x);
        (ways + x as f64 * p.ln() + (trials - x) as f64 * (-p).ln_1p()).exp()
    };
    (at_least..=trials).map(term).sum()
}

#[test]
fn valid_logs_pass() {
    const TRIALS: u64 = 3200;
    let failed: Vec<(u64, CheckName, f64)> = (0..TRIALS)
        .into_par_iter()
        .flat_map_iter(|seed| {
            let world = World::any(seed);
            let mut rng = rng(1_000_000 + seed);
            let n = 50.0 * 400f64.powf(rng.random::<f64>());
            // Large logs of many actions take most of the time and add little.
            let n = if world.k > 10 { n.min(4000.0) } else { n } as usize;
            let log = world.log(n, &mut rng);
            // At upload, and in a job that certifies the later half.
            let mut results = check(&world.plan(), &log);
            results.extend(check(&world.plan(), &log[log.len() / 2..]));
            assert!(results.len() >= 3 && results.iter().all(|r| r.evidence >= 0.0 && !r.message.is_empty()));
            let failed: Vec<_> = results.iter().filter(|r| r.failed()).collect();
            failed.iter().for_each(|r| println!("{seed} {world:?} {n}: {r:?}"));
            failed.iter().map(|r| (seed, r.name, r.evidence)).collect::<Vec<_>>()
        })
        .collect();
    let mut logs: Vec<u64> = failed.iter().map(|(seed, ..)| *seed).collect();
    logs.dedup();
    println!("{} of {TRIALS} valid logs failed: {failed:?}", logs.len());
    // 0.4% is the level of one builder. The tail is at a level of 0.1%, with fixed seeds.
    assert!(binomial_tail(logs.len() as u64, TRIALS, 2.0 * LEVEL) > 1e-3, "{} logs failed", logs.len());
}

/// The test above would also pass if evidence were always tiny. At a level of 0.9 some valid logs must fail,
/// and fewer than 90%.
#[test]
fn evidence_is_not_negligible() {
    let failed = (0..400u64).into_par_iter().filter(|&seed| {
        let world = World { candidates: Candidates::None, ..World::any(seed) };
        let plan = CheckPlan { level: 0.9, ..world.plan() };
        check(&plan, &world.log(500, &mut rng(seed))).iter().any(|r| r.failed())
    });
    let failed = failed.count();
    println!("{failed} of 400 valid logs fail at level 0.9");
    assert!((4..360).contains(&failed), "{failed}");
}

fn thirds(rounding: Rounding, rows: u64, full: bool) -> Vec<(CheckName, bool)> {
    let plan = CheckPlan { n_actions: 3, actions_declared: true, full, rounding, ..CheckPlan::default() };
    let all = [1.0 / 3.0; 3];
    let mut builder = ChecksBuilder::new(plan);
    let mut rng = rng(3);
    for _ in 0..rows {
        builder.row(&CheckRow {
            action: rng.random_range(0..3),
            cost: 0.0,
            propensity: if full { 1.0 / 3.0 } else { 0.333 },
            full: full.then_some(&all),
            n_actions: None,
            candidates: &[],
            repetition: None,
            counts_for_drift: true,
        });
    }
    builder.finish(CheckScope::Log).into_iter().map(|r| (r.name, !r.failed())).collect()
}

/// 1/0.333 is above 3 in every single row. With the interval of 0.333 that is no evidence at any n.
#[test]
fn two_million_rounded_rows_pass() {
    let rounding = Written::Decimals(3).rounding();
    for full in [false, true] {
        assert!(thirds(rounding, 2_000_000, full).iter().all(|(_, ok)| *ok));
    }
    let without = thirds(Rounding::default(), 20_000, false);
    assert!(without.contains(&(CheckName::Propensities, false)), "{without:?}");
}

/// The intervals are needed with π0(·|x) too, and for candidates.
#[test]
fn without_intervals_rounded_logs_fail() {
    let truth = [0.0349, 0.0351, 0.93];
    let log = |rounding: Rounding| {
        let plan = CheckPlan { n_actions: 3, full: true, rounding, ..CheckPlan::default() };
        let (mut builder, mut rng) = (ChecksBuilder::new(plan), rng(4));
        let written = [0.03, 0.04, 0.93];
        for _ in 0..200_000 {
            let action = draw(&truth, &mut rng);
            builder.row(&CheckRow {
                action: action as u32,
                cost: 0.0,
                propensity: written[action],
                full: Some(&written),
                n_actions: None,
                candidates: &[],
                repetition: None,
                counts_for_drift: true,
            });
        }
        builder.finish(CheckScope::Log)
    };
    assert!(log(Written::Decimals(2).rounding()).iter().all(|r| !r.failed()));
    let without = log(Rounding::default());
    assert!(without.iter().any(|r| r.name == CheckName::ActionCounts && r.failed()), "{without:?}");

    // The candidate is π0, which is 1/6 everywhere. It was written as 0.17, so its weight is 1.02 in every row.
    let world = World {
        k: 6,
        shape: Shape::Uniform,
        full: false,
        declared: true,
        written: Written::Exactly,
        candidates: Candidates::Played,
        designed: false,
        cost: -0.5,
    };
    let mut rows = world.log(20_000, &mut rng(5));
    rows.iter_mut().for_each(|row| row.candidates = vec![(0.17, None), (0.17, None)]);
    let mut plan = world.plan();
    let failed = |plan: &CheckPlan| check(plan, &rows).iter().filter(|r| r.failed()).count();
    assert_eq!(failed(&plan), 2);
    plan.candidates.iter_mut().for_each(|candidate| candidate.rounding = Written::Decimals(2).rounding());
    assert_eq!(failed(&plan), 0);
}

/// What floating-point sums lose in millions of equal rows is not evidence.
#[test]
fn long_logs_of_equal_rows_pass() {
    let certain = [1.0 - 1e-9, 1e-9];
    let plan = CheckPlan {
        n_actions: 2,
        full: true,
        fixed: true,
        known_baseline: Some(-0.1),
        ..CheckPlan::default()
    };
    let mut builder = ChecksBuilder::new(plan);
    for _ in 0..4_000_000 {
        builder.row(&CheckRow {
            action: 0,
            cost: -0.1,
            propensity: certain[0],
            full: Some(&certain),
            n_actions: None,
            candidates: &[],
            repetition: None,
            counts_for_drift: true,
        });
    }
    for result in builder.finish(CheckScope::Log) {
        assert!(!result.failed() && result.evidence < 1.1, "{result:?}");
    }
}
