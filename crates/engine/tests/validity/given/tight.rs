//! Bounds that are never violated give something away. In easy worlds, aimed bets must use at least a third of
//! their δ.

use super::fixed::tallies;
use super::jobs::Form;
use super::nulls;
use crate::harness::{Tally, assert_valid};

/// Claims with a smaller δ are violated too rarely to be counted in this many logs.
const COUNTABLE: f64 = 0.03;

/// At least a third of δ is used: no less often violated than δ/3.
pub fn assert_nothing_is_given_away(tallies: &[Tally]) {
    let counted: Vec<&Tally> = tallies.iter().filter(|tally| tally.delta >= COUNTABLE).collect();
    assert!(!counted.is_empty(), "no claim can be counted");
    for tally in counted {
        let least = tally.delta / 3.0 * tally.trials as f64;
        assert!(tally.violations as f64 >= least, "fewer violations than δ/3: {tally:?}");
    }
}

fn uses_its_delta(null: &nulls::Null, forms: &[Form], seed: u64) {
    let all = tallies(null, 1000, forms, seed);
    assert_valid(&all);
    // The certificate as a whole is violated less often than its claims in sum.
    let single: Vec<Tally> = all.into_iter().filter(|tally| !tally.name.ends_with("joint")).collect();
    assert_nothing_is_given_away(&single);
}

#[test]
fn nothing_is_given_away() {
    uses_its_delta(&nulls::easy(), &[Form::Logged, Form::Stored], 37_000);
}

#[test]
fn nothing_is_given_away_with_continuous_costs() {
    uses_its_delta(&nulls::easy_continuous(), &[Form::LoggedFull], 39_000);
}
