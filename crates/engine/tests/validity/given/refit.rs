//! Cost models that are refitted on the rows that were played before, and what happens if they see their own row.

use guarantor_engine::bound::{Aimed, Order, Start, Table, pilot_of};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::fixed::tallies;
use super::jobs::Form;
use super::{DELTAS, LOGS, nulls};
use crate::harness::{Claim, assert_flagged, assert_valid, simulate};

/// From 200 contexts on, logs with features have a refitted model.
#[test]
fn refitted_cost_models_hold() {
    let worlds = [nulls::heavy_weights(), nulls::rare_wins(), nulls::rare_losses(), nulls::heteroscedastic()];
    for (null, seed) in worlds.iter().zip([40_000, 41_000, 42_000, 43_000]) {
        assert_valid(&tallies(null, 240, &[Form::LoggedFull], seed));
    }
}

const ROWS: u64 = 300;

/// Two equally good actions: 0 is logged with probability 0.7, and the candidate always plays it. `model` gives ĉ(x, ·)
/// from the logged action and cost.
fn bounds(rng: &mut ChaCha8Rng, model: impl Fn(usize, f64) -> [f64; 2]) -> Vec<Claim> {
    let (logging, pi) = ([0.7, 0.3], [1.0, 0.0]);
    let order = Order::new(5, ROWS, pilot_of(ROWS));
    let blocks: Vec<u16> = (0..ROWS).map(|ordinal| order.block(ordinal)).collect();
    let mut table = Table::new(1);
    for _ in 0..ROWS {
        let action = usize::from(rng.random_bool(logging[1]));
        let cost = -f64::from(u8::from(rng.random_bool(0.8)));
        let (modeled, weight) = (model(action, cost), pi[action] / logging[action] - 1.0);
        let expected: f64 = (0..2).map(|b| (pi[b] - logging[b]) * modeled[b]).sum();
        table.push(weight * cost, Some((expected - weight * modeled[action], 2.0)), None).expect("a number");
    }
    let start = Start { theta: 1.0, strength: 50.0, fixed: false };
    let claim = |delta: f64| {
        let aimed = Aimed::new(table.clone(), &blocks, &order, (start, None), None, delta).expect("rows");
        let bound = aimed.bound(|| Ok(())).expect("a bound").value;
        Claim { name: "improvement", delta, bound, truth: 0.0 }
    };
    DELTAS.map(claim).into()
}

#[test]
fn a_model_that_has_seen_its_own_row_is_caught() {
    assert_valid(&simulate(LOGS, 44_000, |rng| bounds(rng, |_, _| [-0.7, -0.6])));
    assert_flagged(&simulate(LOGS, 44_100, |rng| {
        bounds(rng, |action, cost| if action == 0 { [cost, -0.5] } else { [-0.5, cost] })
    }));
}
