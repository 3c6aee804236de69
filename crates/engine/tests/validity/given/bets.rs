//! The reference in the worlds of the engine's tests: aimed bets in a random order, on the z of the logged
//! propensities. The event that is counted is that H_D is rejected at the true D, for which δ is proved.

use guarantor_engine::log::Columns;
use guarantor_engine::policy::PolicyParams;
use ndarray::ArrayView2;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::nulls::{self, Null};
use super::reference::{Bets, Pilot, equal_blocks};
use super::{DELTAS, LOGS};
use crate::harness::{Claim, Tally, assert_valid, simulate};

/// π(a|x)/π0(a|x) of each row's logged action.
pub fn weights(columns: &Columns, policy: &PolicyParams) -> Vec<f64> {
    let x = ArrayView2::from_shape((columns.rows(), columns.dim), &columns.x).expect("rows of p");
    let pi = policy.propensities(x).expect("a policy on these contexts");
    let weight = |i: usize| pi[(i, columns.actions[i] as usize)] / columns.propensities[i];
    (0..columns.rows()).map(weight).collect()
}

/// z = (w − κ)c of each context, averaged over its interactions.
pub fn z_values(columns: &Columns, weights: &[f64], kappa: f64) -> Vec<f64> {
    let (mut sums, mut last) = (Vec::<(f64, f64)>::new(), None);
    for i in 0..columns.rows() {
        let z = (weights[i] - kappa) * columns.costs[i];
        // Rows of one context are adjacent in drawn logs.
        let context = columns.contexts.as_ref().map_or(i as u64, |contexts| contexts[i]);
        match sums.last_mut() {
            Some(sum) if last == Some(context) => *sum = (sum.0 + z, sum.1 + 1.0),
            _ => sums.push((z, 1.0)),
        }
        last = Some(context);
    }
    sums.into_iter().map(|(sum, rows)| sum / rows).collect()
}

fn claims_of_bets(null: &Null, contexts: u64, rng: &mut ChaCha8Rng) -> Vec<Claim> {
    let (columns, truth) = (null.draw(contexts, rng), null.truths()[0]);
    let weights = weights(&columns, &null.candidates[0]);
    let mut all = Vec::new();
    for (name, kappa, d) in [("bets, improvement", 1.0, -truth.improvement), ("bets, risk", 0.0, truth.risk)]
    {
        let mut z = z_values(&columns, &weights, kappa);
        z.shuffle(rng);
        let (pilot, rest) = z.split_at((z.len() / 10).max(10));
        let (pilot, blocks) = (Pilot::of(pilot), equal_blocks(rest.len(), 64));
        for delta in DELTAS {
            let bets = Bets {
                kappa_cap: kappa,
                delta,
                blocks: &blocks,
                v0: pilot.variance,
                n0: 10.0,
                eagerness: 1.0,
            };
            // Just below the truth, so that rounding does not decide if all z are equal to it.
            let rejected = bets.reject(rest, d - 1e-12);
            all.push(Claim { name, delta, bound: if rejected { -1.0 } else { 1.0 }, truth: 0.0 });
        }
    }
    all
}

#[test]
fn aimed_bets_hold_in_all_worlds() {
    let worlds = [
        ("rare rewards", nulls::rare_rewards()),
        ("heavy weights", nulls::heavy_weights()),
        ("heteroscedastic", nulls::heteroscedastic()),
        ("equal costs", nulls::equal_costs()),
        ("continuous", nulls::continuous()),
        ("same policy", nulls::same_policy()),
        ("missing support", nulls::missing_support()),
        ("rare losses", nulls::rare_losses()),
        ("rare wins", nulls::rare_wins()),
        ("repetitions", nulls::repetitions()),
        ("few repetitions", nulls::few_repetitions()),
        ("easy", nulls::easy()),
    ];
    let mut tallies: Vec<Tally> = Vec::new();
    for ((name, null), seed) in worlds.iter().zip((43_000..).step_by(10)) {
        for (contexts, seed) in [30, 100, 300, 1000].into_iter().zip(seed..) {
            println!("{name}, {contexts} contexts:");
            tallies.extend(simulate(LOGS, seed, |rng| claims_of_bets(null, contexts, rng)));
        }
    }
    assert_valid(&tallies);
}
