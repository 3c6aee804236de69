//! How fast rows are checked. Nothing is asserted about the time.

use std::time::Instant;

use guarantor_engine::checks::{CheckScope, ChecksBuilder};

use crate::world::{Candidates, Row, Shape, World, Written, rng};
use guarantor_engine::checks::{CandidateWeight, CheckRow};

#[test]
fn rows_per_second() {
    for (what, full, candidates) in [
        ("K = 10, full, 2 candidates", true, Candidates::Played),
        ("K = 10, full, 2 candidates with all actions", true, Candidates::All),
        ("K = 10, logged only", false, Candidates::None),
    ] {
        let (k, shape, written) = (10, Shape::Softmax, Written::Decimals(4));
        let world =
            World { k, shape, full, declared: true, written, candidates, designed: false, cost: -0.5 };
        let rows: Vec<Row> = world.log(2000, &mut rng(1));
        let weights: Vec<Vec<CandidateWeight>> = rows
            .iter()
            .map(|row| {
                row.candidates
                    .iter()
                    .map(|(p, all)| CandidateWeight { played: *p, all: all.as_deref() })
                    .collect()
            })
            .collect();
        let mut builder = ChecksBuilder::new(world.plan());
        let start = Instant::now();
        for _ in 0..100 {
            for (row, weights) in rows.iter().zip(&weights) {
                builder.row(&CheckRow {
                    action: row.action,
                    cost: row.cost,
                    propensity: row.propensity,
                    full: row.full.as_deref(),
                    n_actions: None,
                    candidates: weights,
                    repetition: None,
                    counts_for_drift: true,
                });
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        assert!(!builder.finish(CheckScope::Log).is_empty());
        println!("{what}: {:.2} million rows/s", 0.2 / seconds);
    }
}
