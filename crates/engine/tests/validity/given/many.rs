//! Five candidates in one certificate. Each has its share of δ, and everything that the certificate states holds
//! together.

use super::fixed::tallies;
use super::jobs::Form;
use super::nulls::{self, with_many};
use crate::harness::assert_valid;

#[test]
fn five_candidates_hold_together() {
    for (null, forms, seed) in [
        (nulls::easy(), vec![Form::Logged, Form::Stored], 33_000),
        (nulls::rare_wins(), vec![Form::Logged], 34_000),
        (nulls::rare_losses(), vec![Form::Logged], 35_000),
    ] {
        assert_valid(&tallies(&with_many(null), 60, &forms, seed));
    }
}
