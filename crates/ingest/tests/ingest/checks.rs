//! The checks of a log at upload: they are the same however a log arrives, they follow the times of the rows, they say
//! what was not tested, and valid logs pass.

use guarantor_engine::checks::{CheckName, CheckResult};
use guarantor_engine::log::{Logging, Outcome, Repetitions};
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{
    Checker, Format, IngestLimits, LogOptions, LogSummary, MemorySink, Rules, WarningCode, read,
};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::logs::{CSV, batch, written};
use crate::support::{Reading, Stored, generated, lines};

/// How a simulated log is logged and written.
#[derive(Debug, Clone, Copy)]
struct World {
    k: usize,
    /// π0(·|x) is logged.
    full: bool,
    declared: bool,
    writing: Writing,
    candidates: bool,
    /// π0 follows the outcomes of earlier rows.
    learns: bool,
    /// Contexts have one to twelve rows, whatever happens in them.
    designed: bool,
    /// Rows have times and come in another order.
    shuffled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Writing {
    Exactly,
    Decimals(i32),
    Single,
}

impl Writing {
    fn write(self, p: f64) -> f64 {
        match self {
            Writing::Exactly => p,
            Writing::Decimals(d) => (p * 10f64.powi(d)).round() / 10f64.powi(d),
            Writing::Single => f64::from(p as f32),
        }
    }
}

impl World {
    fn any(rng: &mut ChaCha8Rng) -> World {
        let mut pick = |n: usize| rng.random_range(0..n);
        let (learns, full) = (pick(4) == 0, pick(2) == 0);
        World {
            k: [2, 3, 5, 10][pick(4)],
            full,
            declared: pick(3) > 0,
            writing: [Writing::Exactly, Writing::Decimals(3), Writing::Decimals(4), Writing::Single][pick(4)],
            candidates: pick(2) == 0,
            learns,
            designed: !learns && pick(3) == 0,
            shuffled: !learns && pick(3) == 0,
        }
    }

    /// One fixed policy is attested wherever it is true.
    fn options(&self) -> LogOptions {
        LogOptions {
            logging: if self.learns { Logging::Adaptive } else { Logging::Fixed },
            repetitions: if self.designed { Repetitions::Designed } else { Repetitions::Decisions },
            exact_propensities: false,
        }
    }

    /// A log of `n` rows that were drawn as its propensities say.
    fn rows(&self, n: usize, rng: &mut ChaCha8Rng) -> Vec<Value> {
        let k = self.k;
        let (mut rows, mut wins): (Vec<Value>, Vec<f64>) = (Vec::new(), vec![1.0; k]);
        let mut context = 0;
        while rows.len() < n {
            let x = rng.random::<f32>();
            let scores: Vec<f64> = match self.learns {
                true => wins.clone(),
                false => (0..k).map(|a| 0.3 + ((a as f64 + 1.0) * f64::from(x) * 7.0).sin().abs()).collect(),
            };
            let total: f64 = scores.iter().sum();
            let p: Vec<f64> = scores.iter().map(|s| 0.3 / k as f64 + 0.7 * s / total).collect();
            let again = if self.designed { rng.random_range(1..=12) } else { 1 };
            for _ in 0..again {
                let action = draw(&p, rng);
                let cost = -f64::from(u8::from(rng.random::<f64>() < 0.2 + 0.5 * f64::from(x)));
                wins[action] -= 0.05 * cost;
                let mut row = json!({ "x": [x], "action": action, "cost": cost });
                match self.full {
                    true => row["propensities"] = p.iter().map(|&p| self.writing.write(p)).collect(),
                    false => row["propensity"] = json!(self.writing.write(p[action])),
                }
                if self.candidates {
                    // One that plays the actions in turn, and one like π0.
                    let turn = if action == context % k { 1.0 } else { 0.0 };
                    row["candidates"] = json!({ "turn": turn, "same": self.writing.write(p[action]) });
                }
                if self.designed {
                    row["context_id"] = json!(context.to_string());
                }
                if self.shuffled {
                    row["timestamp"] = json!(1_700_000_000 + rows.len());
                }
                rows.push(row);
            }
            context += 1;
        }
        if self.shuffled {
            // By outcome, as a query without an order may return them.
            rows.sort_by(|a, b| a["cost"].as_f64().unwrap().total_cmp(&b["cost"].as_f64().unwrap()));
        }
        rows
    }

    fn read(&self, rows: &[Value]) -> LogSummary {
        let n_actions = Some(self.k).filter(|_| self.declared);
        let reading = Reading { options: self.options(), n_actions, ..Reading::from(Format::Ndjson) };
        reading.chunks(&lines(rows), 1 << 16).unwrap().0
    }
}

fn draw(p: &[f64], rng: &mut ChaCha8Rng) -> usize {
    let mut left = rng.random::<f64>();
    p.iter()
        .position(|p| {
            left -= p;
            left < 0.0
        })
        .unwrap_or(p.len() - 1)
}

fn result(summary: &LogSummary, name: CheckName) -> &CheckResult {
    summary.health.checks.iter().find(|check| check.name == name).unwrap()
}

fn any_failed(summary: &LogSummary) -> bool {
    summary.health.checks.iter().any(CheckResult::failed)
}

/// P(X ≥ x) for X ~ Binomial(n, p).
fn binomial_tail(n: u32, p: f64, x: u32) -> f64 {
    let mut term = (1.0 - p).powi(n as i32);
    let mut below = 0.0;
    for i in 0..x {
        below += term;
        term *= f64::from(n - i) / f64::from(i + 1) * p / (1.0 - p);
    }
    1.0 - below
}

/// All checks together fail on at most 1% of valid logs, through the same code as an upload.
#[test]
fn valid_logs_pass() {
    let (logs, mut rng, mut failed) = (400, ChaCha8Rng::seed_from_u64(12), Vec::new());
    for _ in 0..logs {
        let mut world = World::any(&mut rng);
        // Three decimals of more actions need not sum to 1.
        if world.full && world.writing == Writing::Decimals(3) {
            world.k = 2;
        }
        let summary = world.read(&world.rows(2500, &mut rng));
        if any_failed(&summary) {
            let checks: Vec<_> = summary.health.checks.into_iter().filter(CheckResult::failed).collect();
            failed.push((world, checks));
        }
    }
    let count = failed.len() as u32;
    assert!(binomial_tail(logs, 0.01, count) > 1e-3, "{count} of {logs}: {failed:#?}");
    // The harness would notice: propensities that are 20% too small.
    let world = World { full: false, declared: true, designed: false, ..World::any(&mut rng) };
    let mut rows = world.rows(5000, &mut rng);
    rows.iter_mut().for_each(|row| row["propensity"] = json!(row["propensity"].as_f64().unwrap() * 0.8));
    assert!(any_failed(&world.read(&rows)));
    assert!(binomial_tail(400, 0.01, 13) < 1e-3);
}

/// Reads the rows in parts, each appended to the earlier ones as the store does it.
fn appended(world: &World, rows: &[Value], cuts: &[usize]) -> LogSummary {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % rows.len()).filter(|&cut| cut > 0).collect();
    ends.push(rows.len());
    ends.sort_unstable();
    ends.dedup();
    let (mut parts, mut from): (Vec<Stored>, usize) = (Vec::new(), 0);
    let mut last: Option<LogSummary> = None;
    for end in ends {
        let rules = Rules::new(Some(world.k), Outcome::default(), None, IngestLimits::default()).unwrap();
        let mut checker = Checker::new(rules.with_options(world.options()));
        for part in &parts {
            part.batches.iter().for_each(|(layout, rows)| checker.remember(layout, rows.clone()).unwrap());
            checker.end_part();
        }
        if let Some(part) = parts.last() {
            checker.follow(part.digest.clone().unwrap(), last.map(|summary| summary.health));
        }
        let mut sink = Stored::default();
        let bytes = std::io::Cursor::new(lines(&rows[from..end]));
        last = Some(read(Format::Ndjson.into(), bytes, checker, &mut sink).unwrap());
        parts.push(sink);
        from = end;
    }
    last.unwrap()
}

proptest! {
    #![proptest_config(generated(8))]

    /// The same log as one file, as parts that are appended and in other formats has the same checks, drift and
    /// capabilities, to the last bit.
    #[test]
    fn results_do_not_depend_on_batches_parts_and_formats(
        seed: u64, cuts in prop::collection::vec(1usize..9000, 0..4), group in 1usize..5000,
        more_digits in 3900usize..4300,
    ) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let world = World { k: 3, declared: true, candidates: true, learns: false, ..World::any(&mut rng) };
        let mut rows = World { writing: Writing::Decimals(4), ..world }.rows(9000, &mut rng);
        // Whether the first rows look rounded depends on how many they are.
        let exact = World { writing: Writing::Exactly, ..world }.rows(9000, &mut rng);
        rows.truncate(more_digits);
        let (last, moved) = (rows.len(), !world.designed);
        rows.extend(exact.into_iter().skip(last).map(|mut row| {
            if !moved {
                row["context_id"] = json!(format!("later {}", row["context_id"].as_str().unwrap()));
            }
            row
        }));
        let whole = world.read(&rows);
        let same = |other: &LogSummary| {
            (&whole.health, &whole.capabilities, &whole.digest) == (&other.health, &other.capabilities, &other.digest)
        };
        let parts = appended(&world, &rows, &cuts);
        prop_assert!(same(&parts), "{:?}\n{:?}", whole.health, parts.health);
        let columns = batch(&rows);
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), columns.schema(), Some(properties)).unwrap();
        writer.write(&columns).unwrap();
        for (format, bytes) in
            [(Format::Parquet, writer.into_inner().unwrap()), (Format::Csv, written(CSV, &rows))]
        {
            let reading =
                Reading { options: world.options(), n_actions: Some(3), ..Reading::from(format) };
            let other = reading.chunks(&bytes, group).unwrap().0;
            prop_assert!(same(&other), "{:?}\n{:?}", whole.health, other.health);
        }
    }
}

const PLAIN: World = World {
    k: 3,
    full: false,
    declared: true,
    writing: Writing::Exactly,
    candidates: false,
    learns: false,
    designed: false,
    shuffled: false,
};

#[test]
fn what_was_not_tested_does_not_pass() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let world = World { declared: false, ..PLAIN };
    let summary = world.read(&world.rows(3000, &mut rng));
    let check = result(&summary, CheckName::Propensities);
    assert_eq!((check.ok, summary.health.inverse_propensity_mean.ok), (Some(true), Some(true)));
    assert_eq!(result(&summary, CheckName::ActionCounts).ok, Some(true));
    // Propensities that are far too small are found all the same.
    let mut rows = world.rows(3000, &mut rng);
    rows.iter_mut().for_each(|row| row["propensity"] = json!(row["propensity"].as_f64().unwrap() * 0.36));
    let summary = world.read(&rows);
    assert_eq!(result(&summary, CheckName::ActionCounts).ok, Some(false));
    assert!(summary.health.inverse_propensity_mean.observed > 8.0);
    assert_eq!(summary.health.inverse_propensity_mean.ok, Some(false));
    assert_eq!(summary.health.warnings[0].code, WarningCode::PropensitiesDoNotFit);
    // A log that is too short to compare parts of it, and one without repetitions.
    let designed = World { designed: true, ..PLAIN };
    let mut rows = PLAIN.rows(10, &mut rng);
    rows.iter_mut().enumerate().for_each(|(i, row)| row["context_id"] = json!(i.to_string()));
    let summary = designed.read(&rows);
    assert_eq!(result(&summary, CheckName::Drift).ok, None);
    assert_eq!(result(&summary, CheckName::Repetitions).ok, None);
}

#[test]
fn drift_follows_the_times_of_the_rows() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    // Sorted by outcome, as the file is, it would change in the middle.
    let sorted = World { shuffled: true, ..PLAIN };
    let mut rows = sorted.rows(6000, &mut rng);
    let summary = sorted.read(&rows);
    assert_eq!(result(&summary, CheckName::Drift).ok, Some(true));
    assert!(summary.health.warnings.iter().any(|w| w.code == WarningCode::RowsOutOfOrder));
    let slices = summary.health.drift.unwrap().slices;
    assert!(
        slices.len() > 10 && slices.iter().all(|slice| (slice.mean_cost + 0.45).abs() < 0.15),
        "{slices:?}"
    );
    rows.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("timestamp")));
    assert_eq!(result(&sorted.read(&rows), CheckName::Drift).ok, Some(false));
    // A change over time shows in every order of the rows.
    let mut rows = PLAIN.rows(6000, &mut rng);
    for (i, row) in rows.iter_mut().enumerate() {
        row["timestamp"] = json!(1_700_000_000 + i);
        if i >= 3000 && i % 2 == 0 {
            row["cost"] = json!(-1);
        }
    }
    assert_eq!(result(&PLAIN.read(&rows), CheckName::Drift).ok, Some(false));
    rows.sort_by_key(|row| row["x"].to_string());
    assert_eq!(result(&PLAIN.read(&rows), CheckName::Drift).ok, Some(false));
    // The first row of a context in the file need not be its first: jobs put them in order.
    rows.iter_mut().enumerate().for_each(|(i, row)| row["context_id"] = json!((i / 2).to_string()));
    let summary = PLAIN.read(&rows);
    assert_eq!(result(&summary, CheckName::Drift).ok, None);
    assert_eq!(summary.health.drift.unwrap().change, None);
}

#[test]
fn repetitions_are_checked_at_upload() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for full in [true, false] {
        let designed = World { designed: true, full, ..PLAIN };
        let rows = designed.rows(6000, &mut rng);
        let summary = designed.read(&rows);
        let check = result(&summary, CheckName::Repetitions);
        assert_eq!(check.ok, Some(true));
        assert_eq!(check.rows, summary.contexts);
        // Users who come back after action 0.
        let mut retried: Vec<Value> = Vec::new();
        let mut dropped = None;
        for row in rows {
            let id = row["context_id"].clone();
            if dropped.as_ref() == Some(&id) {
                continue;
            }
            let first = retried.last().is_none_or(|last| last["context_id"] != id);
            dropped = (first && row["action"] != 0).then(|| id.clone());
            retried.push(row);
        }
        let summary = designed.read(&retried);
        assert_eq!(result(&summary, CheckName::Repetitions).ok, Some(false));
        assert!(summary.health.warnings.iter().any(|w| w.code == WarningCode::RepetitionsDoNotFit));
        // In another order than that of the times, the first action is not known.
        for (i, row) in retried.iter_mut().enumerate() {
            row["timestamp"] = json!(1_700_000_000 + (i ^ 1));
        }
        assert_eq!(result(&designed.read(&retried), CheckName::Repetitions).ok, None);
    }
}

/// A candidate whose probabilities are rounded passes, also if the propensities come from a stored policy.
#[test]
fn candidates_are_rounded_although_the_logging_policy_is_exact() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let row = |_| {
        let action = rng.random_range(0..3);
        json!({ "x": [rng.random::<f32>()], "action": action, "cost": 0, "candidates": { "same": 0.333 } })
    };
    let rows: Vec<Value> = (0..80_000).map(row).collect();
    let read = |exact_propensities| {
        let options = LogOptions { exact_propensities, ..LogOptions::default() };
        let policy = Some(PolicyParams::Uniform { n_actions: 3, dim: 1 });
        let reading = Reading { options, policy, ..Reading::from(Format::Ndjson) };
        let summary = reading.chunks(&lines(&rows), 1 << 16).unwrap().0;
        result(&summary, CheckName::CandidateWeights).ok
    };
    // Taken at its word, 0.333 is too small.
    assert_eq!((read(false), read(true)), (Some(true), Some(false)));
}

/// A log with many actions is held back in a bounded number of bytes, and still checked.
#[test]
fn many_actions_are_checked() {
    let k = 2000;
    let rules = Rules::new(Some(k), Outcome::default(), None, IngestLimits::default()).unwrap();
    let p = vec![1.0 / k as f64; k];
    let rows: Vec<Value> = (0..700)
        .map(|i| json!({ "action": crate::logs::scattered(i) % k, "propensities": p, "cost": 0 }))
        .collect();
    let bytes = std::io::Cursor::new(lines(&rows));
    let summary =
        read(Format::Ndjson.into(), bytes, Checker::new(rules), &mut MemorySink::default()).unwrap();
    let check = result(&summary, CheckName::ActionCounts);
    assert_eq!((check.ok, check.rows), (Some(true), 700));
}
