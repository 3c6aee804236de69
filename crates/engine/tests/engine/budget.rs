//! Bets with a budget for the variance: reference values of 40 digits, the inequality that the proof rests on, and
//! properties.

use guarantor_engine::bound::{Budget, Mixture, Plan, Shape, Square, Start, Table};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

const START: Start = Start { theta: 0.0, strength: 5.0, fixed: true };

#[derive(Deserialize)]
struct Golden {
    values: Vec<Value>,
    squares: Vec<Squared>,
    bounds: Vec<Case>,
}

#[derive(Deserialize)]
struct Value {
    low: f64,
    high: f64,
    knee: f64,
    s: f64,
    rest: f64,
    want: String,
}

#[derive(Deserialize)]
struct Squared {
    low: f64,
    high: f64,
    y: f64,
    want: String,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    delta: f64,
    plan: Plan,
    lambda: f64,
    z: Vec<f64>,
    spent: String,
    value: String,
}

fn golden() -> Golden {
    let path = format!("{}/tests/golden/budget.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn assert_close(what: &str, got: f64, want: &str, tolerance: f64) {
    let want: f64 = want.parse().unwrap();
    assert!((got - want).abs() <= tolerance * want.abs().max(1e-9), "{what}: {got} is not {want}");
}

fn table(z: &[f64]) -> Table {
    let mut table = Table::new(1);
    z.iter().for_each(|&z| table.push(z, None, None).unwrap());
    table
}

fn bound(plan: Plan, lambda: f64, delta: f64, z: &[f64]) -> f64 {
    let budget = Budget::new(plan, z.len() as f64, |_| lambda, delta);
    budget.bound(&table(z), z.len() as f64, START).unwrap().value
}

#[test]
fn expectations_and_squares_agree_with_the_reference() {
    let golden = golden();
    for Value { low, high, knee, s, rest, want } in golden.values {
        let got = Shape { low, high, knee }.value(s, rest);
        assert_close(&format!("E f for {low} {high} at {s} {rest}"), got, &want, 1e-9);
    }
    for Squared { low, high, y, want } in golden.squares {
        assert_close(&format!("Q for {low} {high} at {y}"), Square::new(low, high).of(y), &want, 1e-9);
    }
}

#[test]
fn bounds_agree_with_the_reference() {
    for Case { name, delta, plan, lambda, z, spent, value } in golden().bounds {
        let budget = Budget::new(plan, z.len() as f64, |_| lambda, delta);
        let kept = budget.bound(&table(&z), z.len() as f64, START).unwrap();
        // Plays are kept in single precision, rounded up, and both programs search for the knee, where the width is flat.
        assert_close(&name, kept.spent, &spent, 1e-6);
        assert_close(&name, kept.value, &value, 2e-5);
    }
}

/// u(s + j, v + Q(−j)) ≤ u(s, v) + j·u_s(s, v), on a dense grid and at random, for every pair of slopes. The proof is in
/// docs/math.md#budget; this is a check of the closed forms and of the program.
#[test]
fn no_play_gains_on_the_tangent() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut tried = 0;
    for (low, high) in [-5.0, -1.5, -0.5, 0.5, 1.5].iter().flat_map(|&p| [3.0, 6.5, 10.0].map(|r| (p, r))) {
        if f64::abs(low) >= 0.95 * high {
            continue;
        }
        let (shape, square) = (Shape { low, high, knee: 1.5 }, Square::new(low, high));
        // The budget is 1, and up to 1.3 is spent of it.
        let u = |s: f64, spent: f64| shape.log_value(s, 1.0, spent).exp();
        let mut check = |s: f64, spent: f64, jump: f64| {
            let h = 1e-5;
            let slope = (u(s + h, spent) - u(s - h, spent)) / (2.0 * h);
            let (before, after) = (u(s, spent), u(s + jump, spent + square.of(-jump)));
            tried += 1;
            assert!(
                after <= before + jump * slope + 1e-8 * before.max(after) + 1e-13,
                "{low} {high}: {after} is above {before} + {jump}·{slope} at {s}, {spent}"
            );
        };
        let (down, up) = (0.9 / high, square.reach());
        for (i, j, k) in (0..25).flat_map(|i| (0..14).flat_map(move |j| (0..40).map(move |k| (i, j, k)))) {
            let jump = -down + (down + up) * f64::from(k) / 39.0;
            let spent = 1.0 - f64::from(j * j) / 121.0 - 1e-4;
            check(
                -2.0 + 0.25 * f64::from(i),
                if j < 11 { spent } else { 0.9 + 0.1 * f64::from(j - 10) },
                jump,
            );
        }
        for _ in 0..4000 {
            let (s, spent) = (rng.random::<f64>() * 6.0 - 2.0, 1.3 - 1.3 * rng.random::<f64>().powi(3));
            let near = if rng.random::<bool>() { 1.0 } else { 0.05 };
            check(s, spent, near * (rng.random::<f64>() * (down + up) - down));
        }
    }
    assert!(tried > 50_000, "{tried}");
}

/// u_s ≤ ρu and u ≥ f: what the proof and the bound use besides.
#[test]
fn expectations_are_convex_and_above_the_payoff() {
    for (low, high) in [(-3.0, 6.5), (0.5, 4.5), (-0.5, 10.0)] {
        let shape = Shape { low, high, knee: 1.5 };
        for (i, j) in (0..60).flat_map(|i| (0..20).map(move |j| (i, j))) {
            let (s, rest) = (-2.0 + 0.1 * f64::from(i), 0.05 * f64::from(j));
            let (value, h) = (shape.value(s, rest), 1e-4);
            let (left, right) = (shape.value(s - h, rest), shape.value(s + h, rest));
            assert!(value >= shape.payoff(s) * (1.0 - 1e-9), "{s} {rest}");
            assert!(right >= value && left + right >= 2.0 * value * (1.0 - 1e-9), "{s} {rest}");
            assert!(right - left <= 2.0 * h * high * right * (1.0 + 1e-6), "{s} {rest}");
        }
    }
}

/// Plays of a candidate with weights 0 and `weight` and a share of rewards.
fn plays(rows: usize, weight: f64, rewards: f64, seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut play = || {
        let w = if rng.random::<f64>() < 1.0 / weight { weight } else { 0.0 };
        -(w - 1.0) * f64::from(rng.random::<f64>() < rewards)
    };
    (0..rows).map(|_| play()).collect()
}

fn constant(z: &[f64], rows: usize, delta: f64) -> f64 {
    let mean = z.iter().sum::<f64>() / z.len() as f64;
    let variance = z.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / z.len() as f64;
    f64::sqrt(2.0 * f64::ln(1.0 / delta) / (rows as f64 * variance)).clamp(1e-6, 0.5)
}

/// Widths in standard errors beside one constant bet, from the mean of several logs. A budget is narrower from a few
/// hundred rows on.
#[test]
fn budgets_are_narrower_than_one_constant_bet() {
    for (name, weight, rewards) in
        [("conversions", 3.0, 0.5), ("clicks", 4.0, 0.05), ("heavy weights", 15.0, 0.3)]
    {
        for (rows, logs) in [(300, 24), (1000, 24), (5000, 12), (20_000, 8), (100_000, 4)] {
            let delta = 0.05;
            let before = plays(rows.clamp(500, 20_000), weight, rewards, 1);
            let lambda = constant(&before, rows, delta);
            let plan = Plan::choose(&before, None, 1, rows as u64, lambda, delta);
            let (mut one, mut kept) = (0.0, 0.0);
            for seed in 0..logs {
                let z = plays(rows, weight, rewards, 100 + seed);
                let mean = z.iter().sum::<f64>() / rows as f64;
                let error = (z.iter().map(|z| (z - mean).powi(2)).sum::<f64>()).sqrt() / rows as f64;
                let of_one = Mixture::one(lambda, delta).bound(&table(&z), rows as f64, START).unwrap().value;
                let of_budget =
                    plan.map_or(of_one, |plan| bound(plan, constant(&before, rows, delta * 0.03), delta, &z));
                one += (of_one - mean) / error / logs as f64;
                kept += (of_budget - mean) / error / logs as f64;
            }
            println!("{name:>14} {rows:>7}: one {one:.3}, budget {kept:.3}, {plan:?}");
            assert!(kept <= if rows < 5000 { 1.03 * one } else { one }, "{name}, {rows} rows: {kept}, {one}");
            assert!(rows < 20_000 || weight > 3.0 || kept < 0.92 * one, "{name}, {rows} rows: {kept}, {one}");
        }
    }
}

/// A little more than the budget costs a little, and one play of a huge weight is no reason to start again from nothing.
#[test]
fn beyond_the_budget_bounds_widen_gradually() {
    let (rows, delta) = (4000, 0.05);
    let before = plays(rows, 3.0, 0.5, 1);
    let lambda = constant(&before, rows, delta);
    let plan = Plan::choose(&before, None, 1, rows as u64, lambda, delta).unwrap();
    let reserved = constant(&before, rows, delta * 0.03);
    let z = plays(rows, 3.0, 0.5, 7);
    let mut last = bound(Plan { budget: 1.2 * plan.budget, ..plan }, reserved, delta, &z);
    let error = (plan.expected / rows as f64).sqrt();
    for share in [1.0, 0.98, 0.96, 0.94, 0.92] {
        let value = bound(Plan { budget: share * plan.budget, ..plan }, reserved, delta, &z);
        assert!((value - last).abs() < 0.25 * error, "{share}: {value} after {last}, error {error}");
        last = value;
    }
    let usual = bound(plan, reserved, delta, &z);
    let mut huge = z.clone();
    huge[2000] = -1e6;
    let with_one = bound(plan, reserved, delta, &huge);
    assert!(with_one < usual, "{with_one} {usual} {error}");
}

/// Without a control variate the order of the plays does not matter, and less δ never helps.
#[test]
fn order_does_not_matter_and_a_smaller_delta_never_helps() {
    let (before, z) = (plays(500, 3.0, 0.5, 1), plays(400, 3.0, 0.5, 2));
    let plan = Plan::choose(&before, None, 1, 400, 0.1, 0.05).unwrap();
    let value = bound(plan, 0.1, 0.05, &z);
    let backward: Vec<f64> = z.iter().rev().copied().collect();
    assert!((bound(plan, 0.1, 0.05, &backward) - value).abs() < 1e-9);
    assert!(bound(plan, 0.1, 0.01, &z) >= value && value >= bound(plan, 0.1, 0.2, &z));
    // One worse play never makes the bound smaller than the mean.
    assert!(value > z.iter().sum::<f64>() / 400.0);
}

/// Few rows, equal plays, huge weights, exceeded budgets: the bound is a number between the mean and κ, or there is no
/// plan.
#[test]
fn budgets_on_degenerate_plays() {
    for rows in 1..=50 {
        let z = plays(rows, 4.0, 0.5, rows as u64);
        assert!(Plan::choose(&z, None, 1, rows as u64, 0.3, 0.05).is_none() || rows >= 50);
        let plan = Plan { center: -0.1, low: -0.1, high: 0.5, budget: 1.2, expected: 1.0 };
        let value = bound(plan, 0.3, 0.05, &z);
        assert!(value <= 1.0 && value >= z.iter().sum::<f64>() / rows as f64, "{rows}: {value}");
    }
    assert!(Plan::choose(&vec![0.0; 500], None, 1, 500, 0.5, 0.05).is_none());
    assert!(Plan::choose(&vec![1.0; 500], None, 1, 500, 0.5, 0.05).is_none());
    assert!(Plan::choose(&[vec![0.1; 499], vec![f64::NAN]].concat(), None, 1, 500, 0.5, 0.05).is_none());
    let before = plays(500, 3.0, 0.5, 1);
    let plan = Plan::choose(&before, None, 1, 400, 0.1, 0.05).unwrap();
    for odd in [vec![-1e12; 400], vec![1.0; 400], vec![0.0; 400], [vec![-1e30; 3], vec![1.0; 397]].concat()] {
        let value = bound(plan, 0.1, 0.05, &odd);
        assert!((-2.0..=1.0).contains(&value), "{value}");
    }
    // All of these rows lose: nothing may be claimed.
    assert!(bound(plan, 0.1, 0.05, &vec![1.0; 400]) > 0.99);
    // However far beyond the budget, the bound is not above that of the constant bet.
    for weight in [12.0, 60.0] {
        let wild = plays(400, weight, 0.5, 3);
        let one = Mixture::one(0.1, 0.05 * 0.03).bound(&table(&wild), 400.0, START).unwrap().value;
        assert!(bound(plan, 0.1, 0.05, &wild) <= one + 1e-9);
    }
}
