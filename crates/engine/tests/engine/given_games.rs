//! The games of given policies against reference values that an independent program computed in 40 digits, and
//! their properties.

use guarantor_engine::bound::{Aimed, Guess, Mixture, Order, Start, Table, pilot_of};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    name: String,
    kappa: u8,
    controlled: bool,
    delta: f64,
    seed: u64,
    guess: Option<(f64, f64)>,
    start: (f64, f64),
    u: Vec<f64>,
    v: Vec<f64>,
    top: Vec<f64>,
    blocks: Vec<u16>,
    aimed: String,
    mixture: String,
}

impl Case {
    fn table(&self) -> Table {
        let mut table = Table::new(self.kappa);
        for i in 0..self.u.len() {
            let control = self.controlled.then(|| (self.v[i], self.top[i]));
            table.push(self.u[i], control, None).unwrap();
        }
        table
    }

    fn start(&self) -> Start {
        Start { theta: self.start.0, strength: self.start.1, fixed: false }
    }

    fn contexts(&self) -> u64 {
        self.u.len() as u64
    }

    fn order(&self) -> Order {
        let pilot = if self.guess.is_some() { 0 } else { pilot_of(self.contexts()) };
        Order::new(self.seed, self.contexts(), pilot)
    }

    fn aimed(&self) -> f64 {
        let guess = self.guess.map(|(mean, variance)| Guess { mean, variance });
        let order = self.order();
        let aimed =
            Aimed::new(self.table(), &self.blocks, &order, (self.start(), None), guess, self.delta).unwrap();
        aimed.bound(|| Ok(())).unwrap().value
    }
}

fn cases() -> Vec<Case> {
    let path = format!("{}/tests/golden/given.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn assert_close(what: &str, got: f64, want: &str) {
    let want: f64 = want.parse().unwrap();
    assert!((got - want).abs() <= 1e-9 * want.abs().max(1e-3), "{what}: {got} is not {want}");
}

#[test]
fn orders_are_the_documented_ones() {
    for case in cases() {
        let order = case.order();
        let blocks: Vec<u16> = (0..case.contexts()).map(|ordinal| order.block(ordinal)).collect();
        assert_eq!(blocks, case.blocks, "{}", case.name);
    }
}

#[test]
fn aimed_bets_agree_with_the_reference() {
    for case in cases() {
        assert_close(&case.name, case.aimed(), &case.aimed);
    }
}

#[test]
fn mixtures_agree_with_the_reference() {
    for case in cases() {
        let mixture = Mixture::of_grid(case.kappa, case.delta);
        let found = mixture.bound(&case.table(), case.contexts() as f64, case.start()).unwrap();
        assert_close(&case.name, found.value, &case.mixture);
    }
}

/// The mixture never loses to the union bound over the same constants: each of them alone, with its share of δ.
#[test]
fn a_mixture_never_loses_to_the_union() {
    for case in cases() {
        let (table, contexts) = (case.table(), case.contexts() as f64);
        let mixture = Mixture::of_grid(case.kappa, case.delta);
        let value = mixture.bound(&table, contexts, case.start()).unwrap().value;
        for member in &mixture.members {
            let alone = Mixture::one(member.lambda, case.delta * member.share);
            let alone = alone.bound(&table, contexts, case.start()).unwrap().value;
            assert!(value <= alone + 1e-12, "{}: {value} is above {alone}", case.name);
        }
    }
}

/// With less δ, no game claims more.
#[test]
fn a_smaller_delta_never_helps_a_mixture() {
    for case in cases() {
        let (table, contexts) = (case.table(), case.contexts() as f64);
        let at = |delta: f64| {
            Mixture::of_grid(case.kappa, delta).bound(&table, contexts, case.start()).unwrap().value
        };
        assert!(at(0.01) >= at(0.05) && at(0.05) >= at(0.2), "{}", case.name);
    }
}

/// Degenerate logs: the bound is trivial or finite, never NaN.
#[test]
fn games_on_degenerate_plays() {
    let start = Start { theta: 0.0, strength: 5.0, fixed: false };
    for kappa in [0, 1] {
        for (u, v) in [(0.0, 0.0), (-1e300, 1e300), (f64::from(kappa), -1.0), (-1e-300, 1e-300)] {
            for n in [1u64, 2, 3, 5, 40, 700] {
                let mut table = Table::new(kappa);
                (0..n).for_each(|_| table.push(u, Some((v, f64::MAX)), None).unwrap());
                let order = Order::new(3, n, pilot_of(n));
                let blocks: Vec<u16> = (0..n).map(|ordinal| order.block(ordinal)).collect();
                let found = Mixture::of_grid(kappa, 0.05).bound(&table, n as f64, start).unwrap().value;
                assert!((-2.0..=1.0).contains(&found), "{found}");
                let aimed = Aimed::new(table, &blocks, &order, (start, None), None, 0.05).unwrap();
                let aim = aimed.bound(|| Ok(())).unwrap();
                assert!((-2.1..=1.0).contains(&aim.value) && !aim.mean.is_nan(), "{aim:?}");
                assert!(aim.value <= f64::from(kappa), "{aim:?}");
            }
        }
    }
}

/// z is never above κ + θ(top − κ). Numbers above it, which only errors could produce, must not make negative factors
/// that multiply to a gain.
#[test]
fn numbers_above_their_range_prove_nothing() {
    let start = Start { theta: 1.0, strength: 0.0, fixed: true };
    for control in [None, Some((3.0, 1.5)), Some((-1.0, 1.0))] {
        for n in [16u64, 1600, 3200] {
            let mut table = Table::new(1);
            (0..n).for_each(|_| table.push(40.0, control, None).unwrap());
            let found = Mixture::of_grid(1, 0.05).bound(&table, n as f64, start).unwrap().value;
            assert!(found > 0.0, "{control:?}: {found}");
            let order = Order::new(3, n, pilot_of(n));
            let blocks: Vec<u16> = (0..n).map(|ordinal| order.block(ordinal)).collect();
            let aimed = Aimed::new(table, &blocks, &order, (start, None), None, 0.05).unwrap();
            let aim = aimed.bound(|| Ok(())).unwrap().value;
            assert!(aim >= 0.0, "{control:?}: {aim}");
        }
    }
}

/// Nothing but the number of a context and the seed decides when it is played, and every block gets its share.
#[test]
fn an_order_is_spread_evenly() {
    let (n, pilot) = (100_000, 1000);
    let order = Order::new(42, n, pilot);
    let mut counts = vec![0u64; order.blocks()];
    (0..n).for_each(|ordinal| counts[order.block(ordinal) as usize] += 1);
    assert!((850..1150).contains(&counts[0]), "the pilot has {}", counts[0]);
    // A block has 1/128 of the contexts at most.
    assert!(counts.iter().skip(1).all(|&count| count < 1000), "{counts:?}");
    assert_eq!(counts.iter().sum::<u64>(), n);
    let other = Order::new(43, n, pilot);
    assert!((0..1000).any(|ordinal| order.block(ordinal) != other.block(ordinal)));
}
