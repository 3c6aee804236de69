//! The published evaluation cases: lower bounds on the value of a given policy, and the choice among policies.

use std::path::Path;

use guarantor_engine::certificate::Decision;
use guarantor_engine::control::unattended;
use guarantor_engine::error::Result;
use guarantor_engine::log::{Columns, Logging, MemoryLog};
use guarantor_engine::spec::{Baseline, BaselineKind, SpecRequest};
use rayon::prelude::*;

use super::ope_files::{Case, Rows, load};
use super::{DELTA, Failure, Headline, Outcome, Section, Settings, mean};
use crate::plot::{Figure, Marker, Panel, PlotPoint, Series, Style};
use crate::table::markdown;
use crate::trial::{Trial, evaluation, logged};

const HOW_TO_GET: &str = "The published evaluation cases are missing: give their folder, with cases.csv and \
                          rows.parquet, as `--ope DIR`. They are rebuilt from the code of Sakhi, Aouali, Alquier \
                          and Chopin, *Logarithmic Smoothing for Pessimistic Off-Policy Evaluation, Selection and \
                          Learning* (NeurIPS 2024; github.com/otmhi/offpolicy_ls, folder ope_ops).";

/// About how many cases `--quick` runs.
const QUICK: usize = 45;

/// The probabilities of a policy that scores one action 1 and the others 0: of that action, and of each other.
fn peak(temperature: f64, k: usize) -> (f64, f64) {
    let e = (1.0 / temperature).exp();
    let total = e + (k - 1) as f64;
    (e / total, 1.0 / total)
}

/// The action that the logging policy prefers: the label, but labels 0 and 1 are shifted by one.
fn preferred(label: usize, k: usize) -> usize {
    if label <= 1 { (label + 1) % k } else { label }
}

/// The log of a case, with each target temperature as a candidate.
fn log_of(case: &Case, rows: &Rows, targets: &[f64], full: bool) -> Result<MemoryLog> {
    let k = case.n_actions;
    let (high, low) = peak(case.logging_temperature, k);
    let all = |favorites: &dyn Fn(usize) -> usize, (high, low): (f64, f64)| -> Vec<f64> {
        let of = |&label: &usize| (0..k).map(move |a| if a == favorites(label) { high } else { low });
        rows.labels.iter().flat_map(of).collect()
    };
    let played = |favorites: &dyn Fn(usize) -> usize, (high, low): (f64, f64)| -> Vec<f64> {
        let of = |(&label, &action): (&usize, &usize)| if action == favorites(label) { high } else { low };
        rows.labels.iter().zip(&rows.actions).map(of).collect()
    };
    let shifted = |label: usize| preferred(label, k);
    let itself = |label: usize| label;
    let candidates = targets
        .iter()
        .map(|&t| (t.to_string(), played(&itself, peak(t, k))))
        .collect::<Vec<(String, Vec<f64>)>>();
    MemoryLog::new(Columns {
        n_actions: k,
        actions: rows.actions.iter().map(|&a| a as u32).collect(),
        costs: rows.rewards.iter().map(|r| -r).collect(),
        propensities: played(&shifted, (high, low)),
        full: full.then(|| all(&shifted, (high, low))),
        candidate_full: targets.iter().map(|&t| full.then(|| all(&itself, peak(t, k)))).collect(),
        candidates,
        logging: Logging::Fixed,
        ..Columns::default()
    })
}

/// The expected reward of the logging policy on the labels of the log.
fn logging_value(case: &Case, rows: &Rows) -> f64 {
    let (high, low) = peak(case.logging_temperature, case.n_actions);
    let right = mean(rows.labels.iter().map(|&y| if preferred(y, case.n_actions) == y { high } else { low }));
    right * (1.0 - case.noise) + (1.0 - right) * case.noise
}

/// (v − b)/v where b < v, else 0, with b at least 0; and whether b exceeds v.
fn radius(value: f64, bound: f64) -> (f64, bool) {
    let bound = bound.max(0.0);
    (((value - bound) / value).max(0.0), bound > value)
}

/// What a job says about one case: its relative radius, and whether the bound is violated.
fn certified_radius(case: &Case, rows: &Rows, full: bool) -> Result<(f64, bool)> {
    let log = log_of(case, rows, &[case.target_temperature], full)?;
    // All of δ goes to the risk if the baseline is known, and its number does not matter: −1 is below every risk.
    let baseline = Some(Baseline { kind: BaselineKind::Known, risk: Some(-1.0) });
    let name = case.target_temperature.to_string();
    let request = SpecRequest { baseline, delta: Some(DELTA), ..evaluation(vec![logged(&name)]) };
    let trial = Trial::simulated(&log, if full { "ope, full" } else { "ope" }, case.case as u64)?;
    let finished = trial.run(&request, &unattended())?;
    Ok(radius(case.true_value, -finished.certificate.guaranteed_risk))
}

/// What certified selection does on one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pick {
    Best,
    Better,
    Worse,
    None,
}

fn pick(case: &Case, rows: &Rows, others: &[(f64, f64)], full: bool) -> Result<Pick> {
    let temperatures: Vec<f64> = others.iter().map(|(t, _)| *t).collect();
    let log = log_of(case, rows, &temperatures, full)?;
    let candidates = temperatures.iter().map(|t| logged(&t.to_string())).collect();
    let request = SpecRequest { delta: Some(DELTA), ..evaluation(candidates) };
    let trial = Trial::simulated(&log, if full { "ope, full" } else { "ope" }, case.case as u64)?;
    let certificate = trial.run(&request, &unattended())?.certificate;
    if certificate.decision != Decision::Deploy {
        return Ok(Pick::None);
    }
    let chosen = others.iter().find(|(t, _)| certificate.candidate == Some(logged(&t.to_string()).label()));
    let value = chosen.map_or(f64::NEG_INFINITY, |(_, value)| *value);
    let best = others.iter().map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max);
    Ok(match value {
        value if value >= best => Pick::Best,
        value if value >= logging_value(case, rows) => Pick::Better,
        _ => Pick::Worse,
    })
}

struct Measured {
    dataset: String,
    rows: usize,
    published: [f64; 5],
    radii: [(f64, bool); 2],
    picks: [Pick; 2],
}

fn measure(all: &[(Case, Rows)], case: &Case, rows: &Rows) -> Result<Measured> {
    let same = |other: &&(Case, Rows)| {
        (&other.0.dataset, other.0.noise, other.0.logging_temperature)
            == (&case.dataset, case.noise, case.logging_temperature)
    };
    let others: Vec<(f64, f64)> =
        all.iter().filter(same).map(|(c, _)| (c.target_temperature, c.true_value)).collect();
    Ok(Measured {
        dataset: case.dataset.clone(),
        rows: case.rows,
        published: [
            case.published_ls,
            case.published_ix,
            case.published_second_moment,
            case.published_empirical_bernstein,
            case.published_eslb,
        ],
        radii: [certified_radius(case, rows, false)?, certified_radius(case, rows, true)?],
        picks: [pick(case, rows, &others, false)?, pick(case, rows, &others, true)?],
    })
}

/// Runs the part.
pub fn run(settings: &Settings, progress: &(dyn Fn(&str) + Sync)) -> Result<Outcome, Failure> {
    let has =
        |directory: &Path| ["cases.csv", "rows.parquet"].iter().all(|name| directory.join(name).is_file());
    let Some(directory) = settings.ope.as_deref().filter(|directory| has(directory)) else {
        return Ok(Outcome::Missing(HOW_TO_GET.into()));
    };
    let all = load(directory)?;
    let step = if settings.quick { (all.len() / QUICK).max(1) } else { 1 };
    let chosen: Vec<&(Case, Rows)> = all.iter().step_by(step).collect();
    let mut measured = Vec::new();
    for block in chosen.chunks(45) {
        let of = |(case, rows): &&(Case, Rows)| measure(&all, case, rows);
        measured.extend(block.par_iter().map(of).collect::<Result<Vec<_>>>()?);
        progress(&format!("published cases: {} of {}", measured.len(), chosen.len()));
    }
    Ok(Outcome::Done(section(&measured)))
}

const PUBLISHED: [&str; 5] = ["LS", "IX", "second moment", "emp. Bernstein", "ESLB"];
const OURS: [&str; 2] = ["ours, logged propensities", "ours, all propensities"];

fn section(measured: &[Measured]) -> Section {
    let mut datasets: Vec<(usize, &str)> = measured.iter().map(|m| (m.rows, m.dataset.as_str())).collect();
    datasets.sort();
    datasets.dedup();
    let published = |of: &[&Measured], i: usize| mean(of.iter().map(|m| m.published[i]));
    let ours = |of: &[&Measured], i: usize| mean(of.iter().map(|m| m.radii[i].0));
    let violations = |of: &[&Measured], i: usize| of.iter().filter(|m| m.radii[i].1).count();
    let head = ["dataset (rows)"].into_iter().chain(PUBLISHED).chain(OURS).chain(["violations"]);
    let mut cells: Vec<Vec<String>> = vec![head.map(String::from).collect()];
    let mut line = |name: String, of: &[&Measured]| {
        let mut row = vec![name];
        row.extend((0..5).map(|i| format!("{:.3}", published(of, i))));
        row.extend((0..2).map(|i| format!("{:.3}", ours(of, i))));
        row.push(format!("{} / {}", violations(of, 0), violations(of, 1)));
        cells.push(row);
    };
    let of_set = |name: &str| measured.iter().filter(|m| m.dataset == name).collect::<Vec<&Measured>>();
    for (rows, name) in &datasets {
        line(format!("{name} ({rows})"), &of_set(name));
    }
    let everything: Vec<&Measured> = measured.iter().collect();
    line("**all**".into(), &everything);
    let text = format!(
        "{} of the 495 cases of Sakhi, Aouali, Alquier and Chopin (NeurIPS 2024), on the authors' own rows: mean \
         relative radius (v − b)/v of a lower bound b on the value v of a given policy, at δ = {DELTA}. Lower is \
         better. `evaluate` runs with `logging=fixed` and a known baseline, so that all of δ is on the value: once \
         with the probabilities of the logged action only, as the published bounds, and once with π0(·|x) and \
         π(·|x).\n\n{}\nViolations are cases in which b exceeds v, with logged and with all propensities; at most \
         {:.0} are expected.\n\n![relative radius per dataset](benchmarks/ope.svg)\n\n{}",
        measured.len(),
        markdown(&cells),
        DELTA * measured.len() as f64,
        selection(measured),
    );
    let what = |i: usize| format!("mean relative radius, {} published cases, {}", measured.len(), NAMES[i]);
    let compared =
        format!("LS {:.3}, IX {:.3} (published)", published(&everything, 0), published(&everything, 1));
    let headlines = (0..2)
        .map(|i| Headline {
            what: what(i),
            value: format!("{:.3}", ours(&everything, i)),
            compared: compared.clone(),
        })
        .collect();
    // Side by side, because many of them are nearly equal.
    let series = |place: f64, label: &str, style: Style, of: &dyn Fn(&[&Measured]) -> f64| Series {
        label: label.into(),
        style,
        points: (datasets.iter().enumerate())
            .map(|(x, (_, name))| {
                let value = of(&of_set(name));
                PlotPoint { x: x as f64 + 0.11 * place, mean: value, low: value, high: value }
            })
            .collect(),
    };
    let style = |color, marker, dashed| Style { color, marker, dashed };
    let panel = Panel {
        title: "Mean relative radius (lower is better)".into(),
        x_label: "dataset, by its number of rows".into(),
        x_ticks: datasets
            .iter()
            .enumerate()
            .map(|(x, (n, name))| (x as f64, format!("{name} {n}")))
            .collect(),
        series: vec![
            series(-1.0, "LS, published", style((204, 121, 167), Marker::Square, true), &|of| {
                published(of, 0)
            }),
            series(-2.0, "IX, published", style((230, 159, 0), Marker::Up, true), &|of| published(of, 1)),
            series(0.0, "second moment, published", style((120, 120, 120), Marker::Down, true), &|of| {
                published(of, 2)
            }),
            series(1.0, OURS[0], style((0, 114, 178), Marker::Circle, false), &|of| ours(of, 0)),
            series(2.0, OURS[1], style((0, 158, 115), Marker::Diamond, false), &|of| ours(of, 1)),
        ],
        rules: vec![(0.0, String::new())],
        percent: false,
        categories: true,
    };
    let figure = Figure {
        name: "ope".into(),
        title: "Given policies: published evaluation cases".into(),
        caption: vec![format!(
            "{} cases, δ = {DELTA}, all of it on the value of the given policy.",
            measured.len()
        )],
        columns: 1,
        panels: vec![panel],
    };
    Section {
        heading: "Given policies: published evaluation cases".into(),
        text,
        headlines,
        figures: vec![figure],
    }
}

const NAMES: [&str; 2] = ["logged propensities only", "all propensities"];

fn selection(measured: &[Measured]) -> String {
    let head = [
        "certified choice among the targets of a log",
        "the best one",
        "a better one",
        "a worse one",
        "none",
    ];
    let mut cells = vec![head.map(String::from).to_vec()];
    for (i, name) in NAMES.into_iter().enumerate() {
        let count = |pick: Pick| measured.iter().filter(|m| m.picks[i] == pick).count().to_string();
        let counts = [Pick::Best, Pick::Better, Pick::Worse, Pick::None].map(count);
        cells.push(std::iter::once(name.to_string()).chain(counts).collect());
    }
    format!(
        "**Selection.** No two cases share their rows, so each log is its own problem: the {} target policies of the \
         dataset and noise are candidates of one job with a certified baseline, and the certified pick is the one with \
         the largest guaranteed improvement over the logging policy, if that is above 0. \"Better\" and \"worse\" are \
         compared with the logging policy; {} logs. The published selection (not on these rows): of 110, LS picks the \
         best 86 times and a worse one never; it compares lower bounds on values and has no baseline to beat.\n\n{}",
        5,
        measured.len(),
        markdown(&cells)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use guarantor_engine::spec::BoundKind;

    /// The cases are in no repository: the test needs their folder in GUARANTOR_OPE, and is skipped without it.
    #[test]
    fn implicit_exploration_gives_the_published_numbers() {
        let Some(directory) = std::env::var_os("GUARANTOR_OPE") else {
            return eprintln!("skipped: GUARANTOR_OPE does not name the folder of the published cases");
        };
        for (case, rows) in &load(Path::new(&directory)).unwrap() {
            let log = log_of(case, rows, &[case.target_temperature], false).unwrap();
            let baseline = Some(Baseline { kind: BaselineKind::Known, risk: Some(-1.0) });
            let candidate = logged(&case.target_temperature.to_string());
            let request = SpecRequest { baseline, bound: Some(BoundKind::Ix), ..evaluation(vec![candidate]) };
            let trial = Trial::simulated(&log, "ope", case.case as u64).unwrap();
            let certificate = trial.run(&request, &unattended()).unwrap().certificate;
            let found = radius(case.true_value, -certificate.guaranteed_risk).0;
            assert!((found - case.published_ix).abs() < 1e-9, "{}: {found} {}", case.case, case.published_ix);
        }
    }

    #[test]
    fn radii_are_relative_and_count_violations() {
        assert_eq!(radius(0.5, 0.4), ((0.5 - 0.4) / 0.5, false));
        assert_eq!(radius(0.5, -0.2), (1.0, false));
        assert_eq!(radius(0.5, 0.6), (0.0, true));
    }
}
