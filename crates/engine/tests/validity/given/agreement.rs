//! The reference against what can be computed otherwise.

use proptest::prelude::*;

use super::reference::{Bets, Pilot, aimed, constants, equal_blocks, mixture};

/// The bound of one constant λ at every number of rows: the smallest of (1 − exp((S_t − ln(1/δ))/t))/λ.
fn constant(z: &[f64], lambda: f64, delta: f64) -> f64 {
    let mut sum = 0.0;
    let at = |(i, z): (usize, &f64)| {
        sum += (-lambda * z).ln_1p();
        -((sum + delta.ln()) / (i + 1) as f64).exp_m1() / lambda
    };
    z.iter().enumerate().map(at).fold(f64::INFINITY, f64::min)
}

/// Steps down from 1.
fn grid(step: f64) -> Vec<f64> {
    (1..(4.0 / step) as i32).map(|k| 1.0 - step * f64::from(k)).collect()
}

fn zs() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(prop_oneof![3 => -1.0..1.0f64, 1 => Just(0.0), 1 => -6.0..0.0f64], 1..120)
}

proptest! {
    /// One block with a guess that no row changes is one constant λ, whose exact inversion is known: aimed bets
    /// report the next threshold above it.
    #[test]
    fn one_block_is_a_constant(z in zs(), delta in 0.01..0.5f64, v0 in 0.05..4.0f64, step in 0.003..0.1f64) {
        let n = z.len();
        let lambda = (2.0 * (1.0 / delta).ln() / (n as f64 * v0)).sqrt().min(0.5);
        let exact = constant(&z, lambda, delta).min(1.0);
        let grid = grid(step);
        let bound = aimed(&z, 1.0, delta, &grid, &[n], v0, 1e18);
        let lowest = *grid.last().unwrap();
        prop_assert!(bound >= exact - 1e-9, "{bound} below {exact}");
        prop_assert!(bound <= (exact + step + 1e-9).max(lowest).min(1.0), "{bound} far above {exact}");
    }

    /// A mixture of one constant is that constant at the last row, and a mixture of many is never above a union over
    /// the same constants.
    #[test]
    fn mixtures_are_between(z in zs(), delta in 0.01..0.5f64, count in 1..12i32) {
        let (n, lambdas) = (z.len() as f64, constants(1.0, count));
        let alone = |lambda: f64, penalty: f64| {
            let sum: f64 = z.iter().map(|z| (-lambda * z).ln_1p()).sum();
            -((sum - penalty) / n).exp_m1() / lambda
        };
        let best = |penalty: f64| lambdas.iter().map(|&l| alone(l, penalty)).fold(1.0, f64::min);
        let bound = mixture(&z, 1.0, delta, &lambdas);
        prop_assert!(bound <= best((f64::from(count) / delta).ln()) + 1e-9);
        prop_assert!(bound >= best((1.0 / delta).ln()) - 1e-9);
    }

    /// More thresholds of the same range can only lower the bound by less than the coarse spacing.
    #[test]
    fn finer_grids_agree(z in zs(), delta in 0.01..0.5f64) {
        let blocks = equal_blocks(z.len(), 8);
        let of = |step: f64| aimed(&z, 1.0, delta, &grid(step), &blocks, 0.5, 4.0);
        let (coarse, fine) = (of(0.064), of(0.016));
        prop_assert!(fine <= coarse + 1e-9 && fine >= coarse - 0.064 - 0.016, "{fine} and {coarse}");
    }
}

/// Two rows, each a block, by hand: δ = ½, v = 8, D = 0.
#[test]
fn two_rows_by_hand() {
    let delta = 0.5;
    let bets = |z: [f64; 2]| {
        let blocks = [1, 2];
        Bets { kappa_cap: 1.0, delta, blocks: &blocks, v0: 8.0, n0: 1e18, eagerness: 1.0 }.reject(&z, 0.0)
    };
    // The first λ is sqrt(2 ln 2/(2·8)) = 0.29435; after z = −1 the wealth is 1.29435. What is missing is
    // ln(2/1.29435) = 0.43513, so the second λ is sqrt(2·0.43513/8) = 0.32982, and 2/1.29435 = 1 + 0.32982·1.65292.
    assert!(bets([-1.0, -1.654]));
    assert!(!bets([-1.0, -1.652]));
    // The first row alone reaches 2 from z = −1/0.29435 = −3.39729.
    assert!(bets([-3.398, 1.0]));
    assert!(!bets([-3.396, 1.0]));
    // The largest bet is ½: all that is missing in one row with v = 0.02 would be 8.3.
    let capped = Bets { kappa_cap: 1.0, delta, blocks: &[1], v0: 0.02, n0: 1e18, eagerness: 1.0 };
    assert!(capped.reject(&[-2.001], 0.0) && !capped.reject(&[-1.999], 0.0));
}

/// If all z are equal, the wealth is known: with λ at its cap, D is rejected once
/// n ln((1 − z/2)/(1 − D/2)) ≥ ln(1/δ).
#[test]
fn equal_rows_by_hand() {
    let (z, delta) = ([-0.2; 50], 0.05f64);
    let exact = 2.0 * (1.0 - 1.1 * (delta.ln() / 50.0).exp());
    let bound = aimed(&z, 1.0, delta, &grid(0.001), &equal_blocks(50, 10), 1e-9, 1e-9);
    assert!((bound - exact).abs() <= 0.001, "{bound} and {exact}");
}

/// Nothing can be rejected with too few rows, and blocks and grids have the ends that they should have.
#[test]
fn ends_are_right() {
    assert_eq!(aimed(&[0.0], 1.0, 0.05, &grid(0.1), &[1], 0.25, 4.0), 1.0);
    assert_eq!(aimed(&[0.0; 3], 0.0, 0.05, &[], &equal_blocks(3, 64), 0.25, 4.0), 0.0);
    assert_eq!(equal_blocks(10, 4), [2, 5, 7, 10]);
    assert_eq!(equal_blocks(3, 64), [1, 2, 3]);
    let pilot = Pilot::of(&[0.5, -0.5, 0.1]);
    let grid = pilot.grid(1.0, 100, 0.05);
    assert!(grid.is_sorted_by(|a, b| a > b) && grid[0] < 1.0 && grid.iter().any(|d| *d < pilot.mean - 0.5));
}
