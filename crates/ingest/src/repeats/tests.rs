//! Repeated rows are found, and honest logs are never refused.

use super::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use xxhash_rust::xxh3::xxh3_128;

/// Rows of a world: context, action and outcome, with the propensity.
struct World {
    rng: ChaCha8Rng,
    actions: usize,
    contexts: u64,
    /// The probability of the favored action.
    favored: f64,
    /// Whether contexts arrive in the same order again and again.
    nightly: bool,
}

impl World {
    fn row(&mut self, i: u64) -> (u128, f64) {
        let context = if self.nightly { i % self.contexts } else { self.rng.random_range(0..self.contexts) };
        let best = context % self.actions as u64;
        let other = (1.0 - self.favored) / (self.actions - 1) as f64;
        let explored = self.rng.random::<f64>() >= self.favored;
        let step = if explored { self.rng.random_range(1..self.actions as u64) } else { 0 };
        let action = (best + step) % self.actions as u64;
        let row = [context, action, u64::from(self.rng.random::<f64>() < 0.1)];
        let bytes: Vec<u8> = row.iter().flat_map(|v| v.to_le_bytes()).collect();
        (xxh3_128(&bytes), if explored { other } else { self.favored })
    }
}

fn world(seed: u64) -> World {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let actions = rng.random_range(2..6);
    World {
        actions,
        contexts: [1, 2, 50, 400][rng.random_range(0..4)],
        favored: [1.0 / actions as f64, 0.5, 0.9, 0.99, 0.9999][rng.random_range(0..5)]
            .max(1.0 / actions as f64),
        nightly: rng.random(),
        rng,
    }
}

/// Many logs without features or with few contexts, in batches over the same customers in the same order, with
/// policies that hardly explore.
#[test]
fn honest_logs_are_never_refused() {
    for seed in 0..2400 {
        let mut world = world(seed);
        let mut repeats = Repeats::default();
        for i in 0..3000 {
            let (row, propensity) = world.row(i);
            repeats.add(row, propensity, i + 1);
            if i % 1000 == 999 {
                repeats.end_part();
            }
        }
        assert_eq!(repeats.found(), None, "seed {seed}");
    }
}

#[test]
fn rows_that_are_sent_again_are_found() {
    for seed in 0..300 {
        let mut world = World { favored: 0.4, contexts: 50, actions: 3, nightly: false, ..world(seed) };
        let rows: Vec<(u128, f64)> = (0..1000).map(|i| world.row(i)).collect();
        for (from, to) in [(0, 300), (123, 423), (500, 1000), (0, 1000)] {
            let mut repeats = Repeats::default();
            let add = |repeats: &mut Repeats, rows: &[(u128, f64)]| {
                (1..).zip(rows).for_each(|(number, &(row, p))| repeats.add(row, p, number));
            };
            add(&mut repeats, &rows);
            repeats.end_part();
            assert_eq!(repeats.found(), None);
            add(&mut repeats, &rows[from..to]);
            repeats.end_part();
            let found = repeats.found().unwrap();
            assert!(found.rows + 30 >= (to - from) as u64 && found.row <= 16, "{found:?}");
            assert_eq!(found.first - found.row, from as u64, "{found:?}");
        }
    }
}

/// Whole blocks at once and row by row: the same runs, whatever repeats.
#[test]
fn rows_at_once_are_those_one_by_one() {
    let mut found = 0;
    for seed in 0..300 {
        let mut world = World { contexts: [3, 50, 100_000][seed as usize % 3], ..world(seed) };
        let mut rows: Vec<(u128, f64)> = (0..900).map(|i| world.row(i)).collect();
        match seed % 5 {
            0 => rows.extend_from_within(100 + seed as usize % 16..500),
            1 => rows = rows.into_iter().flat_map(|row| [row, row]).collect(),
            2 => rows.splice(400..400, vec![rows[399]; 7]).for_each(drop),
            _ => {}
        }
        let (mut one, mut all) = (Repeats::default(), Repeats::default());
        for (part, rows) in rows.chunks(500 + seed as usize % 400).enumerate() {
            let first = 1000 * part as u64 + 1;
            (first..).zip(rows).for_each(|(number, &(row, p))| one.add(row, p, number));
            let marks: Vec<Fingerprint> =
                rows.iter().map(|&(row, _)| Fingerprint { decision: 0, row }).collect();
            let propensities: Vec<f64> = rows.iter().map(|row| row.1).collect();
            let mut from = 0;
            for to in [7, 107, rows.len()].map(|to| to.min(rows.len())) {
                all.add_all(&marks[from..to], &propensities[from..to], first + from as u64);
                from = to;
            }
            assert_eq!((one.rolling, one.part.hash, one.unequal), (all.rolling, all.part.hash, all.unequal));
            one.end_part();
            all.end_part();
        }
        assert_eq!(one.found(), all.found(), "seed {seed}");
        let blocks = |repeats: &Repeats| -> Vec<u64> {
            (0..repeats.seen.len()).filter_map(|number| repeats.seen.hash(number)).collect()
        };
        assert_eq!(blocks(&one), blocks(&all));
        found += usize::from(all.found().is_some());
    }
    assert!((50..250).contains(&found), "{found}");
}

#[test]
fn a_short_part_is_compared_as_a_whole() {
    let mut world = World { favored: 0.1, contexts: 1, actions: 10, nightly: false, ..world(1) };
    let rows: Vec<(u128, f64)> = (0..25).map(|i| world.row(i)).collect();
    let mut repeats = Repeats::default();
    for _ in 0..2 {
        (1..).zip(&rows).for_each(|(number, &(row, p))| repeats.add(row, p, number));
        repeats.end_part();
    }
    assert_eq!(repeats.found(), Some(Run { row: 1, rows: 25, first: 1 }));
}

#[test]
fn rows_that_are_repeated_in_place_are_found() {
    for (seed, times) in (0..60).zip([2, 3, 4].into_iter().cycle()) {
        let mut world = World { favored: 0.4, contexts: 50, actions: 3, nightly: false, ..world(seed) };
        let mut repeats = Repeats::default();
        let mut number = 0;
        for i in 0..200 {
            let (row, p) = world.row(i);
            for _ in 0..times {
                number += 1;
                repeats.add(row, p, number);
            }
        }
        repeats.end_part();
        let found = repeats.found().unwrap();
        assert!(found.rows + 8 >= 200 * times && found.row <= 4, "{times}: {found:?}");
    }
}

#[test]
fn a_log_within_itself() {
    let mut world = World { favored: 0.3, contexts: 7, actions: 4, nightly: false, ..world(2) };
    let rows: Vec<(u128, f64)> = (0..300).map(|i| world.row(i)).collect();
    let mut repeats = Repeats::default();
    for (number, &(row, p)) in (1..).zip(rows.iter().cycle().take(12_000)) {
        repeats.add(row, p, number);
    }
    let found = repeats.found().unwrap();
    assert!(found.row <= 330 && found.rows > 11_000, "{found:?}");
}
