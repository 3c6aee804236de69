//! Parts that are merged in order give the results of the whole.

use guarantor_engine::checks::{CheckName, CheckScope, ChecksBuilder};
use rand::RngExt;

use crate::world::{World, check, rng};

#[test]
fn every_partition_gives_the_same_results() {
    for seed in 0..60 {
        let world = World::any(seed);
        let mut rng = rng(seed);
        let mut rows = world.log(3000, &mut rng);
        // Half of the logs are broken, so that large evidence is compared too.
        if seed % 2 == 0 {
            rows.iter_mut().for_each(|row| row.action = (row.action / 2).min(row.action));
        }
        let whole = check(&world.plan(), &rows);
        for parts in [1, 2, 7, 400] {
            let merged = |rng: &mut rand_chacha::ChaCha8Rng| {
                let mut cuts: Vec<usize> = (1..parts).map(|_| rng.random_range(0..=rows.len())).collect();
                cuts.extend([0, rows.len()]);
                cuts.sort_unstable();
                let mut merged = ChecksBuilder::new(world.plan());
                for part in cuts.windows(2) {
                    let mut builder = ChecksBuilder::new(world.plan());
                    rows[part[0]..part[1]].iter().for_each(|row| row.show(&mut |row| builder.row(row)));
                    merged.merge(builder);
                }
                (merged.drift(), merged.finish(CheckScope::Log))
            };
            let (drift, results) = merged(&mut crate::world::rng(parts as u64));
            // The same partition gives the same bits.
            assert_eq!((drift.clone(), results.clone()), merged(&mut crate::world::rng(parts as u64)));
            assert!(drift.slices.len() <= 20);
            assert_eq!(results.len(), whole.len());
            for (a, b) in results.iter().zip(&whole) {
                assert_eq!((a.name, a.rows, a.level), (b.name, b.rows, b.level));
                // Slices of merged parts begin elsewhere.
                if a.name == CheckName::Drift {
                    continue;
                }
                assert_eq!((a.ok, &a.subject), (b.ok, &b.subject), "{a:?} {b:?}");
                let close = |x: f64, y: f64| (x - y).abs() <= 1e-9 * x.abs().max(y.abs()).max(1e-9);
                assert!(close(a.observed, b.observed) && close(a.expected, b.expected), "{a:?} {b:?}");
                let ln = |e: f64| e.max(1e-300).ln();
                assert!((ln(a.evidence) - ln(b.evidence)).abs() < 1e-6, "{a:?} {b:?}");
            }
        }
    }
}
