//! Logs that do not say how many actions there are. The number is read off the logged actions, and rare actions
//! may be missing, or be logged only among the certified rows.

use rand::RngExt;

use super::case::{Case, random_policy};
use super::logger::Logger;
use super::nature::Nature;
use super::stream::draw;
use super::{CONTEXTS, LOGS, ROWS};
use crate::harness::{assert_valid, simulate};

#[test]
fn unstated_actions_hold() {
    let natures = [
        Nature::nothing_to_gain(CONTEXTS, 0.05),
        Nature::nothing_to_gain(CONTEXTS, 0.3),
        // The rarest action is the best one.
        Nature::still(CONTEXTS, |_, a| if a == 3 { 0.9 } else { 0.3 }),
    ];
    assert_valid(&simulate(LOGS, 10_400, |rng| {
        let nature = &natures[rng.random_range(0..natures.len())];
        let logger = Logger::fixed(nature, |_, a| [0.6, 0.39, 0.006, 0.004][a]);
        let steady = random_policy(CONTEXTS, rng);
        let mut stream = draw(nature, logger, ROWS, false, rng);
        let columns = &mut stream.columns;
        columns.n_actions = 1 + *columns.actions.iter().max().expect("rows") as usize;
        columns.actions_declared = false;
        Case::with_logged_candidate(&mut stream, steady).claims(rng)
    }));
}
