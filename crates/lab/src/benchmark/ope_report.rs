//! What the page says about the published evaluation cases.

use super::ope::{Measured, Pick};
use super::{DELTA, Headline, Section, mean};
use crate::plot::{Figure, Marker, Panel, PlotPoint, Series, Style};
use crate::table::markdown;

const PUBLISHED: [&str; 5] = ["LS", "IX", "second moment", "emp. Bernstein", "ESLB"];
const OURS: [&str; 2] = ["ours, logged propensities", "ours, all propensities"];
const NAMES: [&str; 2] = ["logged propensities only", "all propensities"];

fn published(of: &[&Measured], i: usize) -> f64 {
    mean(of.iter().map(|m| m.published[i]))
}

fn ours(of: &[&Measured], i: usize) -> f64 {
    mean(of.iter().map(|m| m.radii[i].0))
}

/// The datasets by their number of rows, each with its cases.
fn datasets(measured: &[Measured]) -> Vec<(usize, &str, Vec<&Measured>)> {
    let mut names: Vec<(usize, &str)> = measured.iter().map(|m| (m.rows, m.dataset.as_str())).collect();
    names.sort();
    names.dedup();
    let of = |name: &str| measured.iter().filter(|m| m.dataset == name).collect();
    names.into_iter().map(|(rows, name)| (rows, name, of(name))).collect()
}

/// The section of the page.
pub fn section(measured: &[Measured]) -> Section {
    let everything: Vec<&Measured> = measured.iter().collect();
    let text = format!(
        "{} of the 495 cases of Sakhi, Aouali, Alquier and Chopin (NeurIPS 2024), on the authors' own rows: mean \
         relative radius (v − b)/v of a lower bound b on the value v of a given policy, at δ = {DELTA}. Lower is \
         better. `evaluate` runs with `logging=fixed` and a known baseline, so that all of δ is on the value: once \
         with the probabilities of the logged action only, as the published bounds, and once with π0(·|x) and \
         π(·|x).\n\n{}\nViolations are cases in which b exceeds v, with logged and with all propensities; at most \
         {:.0} are expected.\n\n![relative radius per dataset](benchmarks/ope.svg)\n\n{}",
        measured.len(),
        radii(measured, &everything),
        DELTA * measured.len() as f64,
        selection(measured),
    );
    let headline = |i: usize| Headline {
        what: format!("mean relative radius, {} published cases, {}", measured.len(), NAMES[i]),
        value: format!("{:.3}", ours(&everything, i)),
        compared: format!(
            "LS {:.3}, IX {:.3} (published)",
            published(&everything, 0),
            published(&everything, 1)
        ),
    };
    Section {
        heading: "Given policies: published evaluation cases".into(),
        text,
        headlines: (0..2).map(headline).collect(),
        figures: vec![figure(measured)],
    }
}

fn radii(measured: &[Measured], everything: &[&Measured]) -> String {
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
    for (rows, name, of) in datasets(measured) {
        line(format!("{name} ({rows})"), &of);
    }
    line("**all**".into(), everything);
    markdown(&cells)
}

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
        "**Selection.** No two cases share their rows, so each log is its own problem: the target policies of its \
         dataset and noise are the candidates of one job with a certified baseline, and the certified pick is the one \
         with the largest guaranteed improvement over the logging policy, if that is above 0. \"Better\" and \"worse\" \
         are compared with the logging policy; {} logs. The published selection (not on these rows): of 110, LS picks \
         the best 86 times and a worse one never; it compares lower bounds on values and has no baseline to beat.\n\n{}",
        measured.len(),
        markdown(&cells)
    )
}

fn figure(measured: &[Measured]) -> Figure {
    let datasets = datasets(measured);
    // Side by side, because many of them are nearly equal.
    let series = |place: f64, label: &str, (color, marker), of: &dyn Fn(&[&Measured]) -> f64| Series {
        label: label.into(),
        style: Style { color, marker, dashed: false },
        points: (datasets.iter().enumerate())
            .map(|(x, (_, _, cases))| {
                let value = of(cases);
                PlotPoint { x: x as f64 + 0.11 * place, mean: value, low: value, high: value }
            })
            .collect(),
    };
    let tick =
        |(x, (rows, name, _)): (usize, &(usize, &str, Vec<&Measured>))| (x as f64, format!("{name} {rows}"));
    let panel = Panel {
        title: "Mean relative radius (lower is better)".into(),
        x_label: "dataset, by its number of rows".into(),
        x_ticks: datasets.iter().enumerate().map(tick).collect(),
        series: vec![
            series(-2.0, "IX, published", ((230, 159, 0), Marker::Up), &|of| published(of, 1)),
            series(-1.0, "second moment, published", ((120, 120, 120), Marker::Down), &|of| published(of, 2)),
            series(0.0, "LS, published", ((204, 121, 167), Marker::Square), &|of| published(of, 0)),
            series(1.0, OURS[0], ((0, 114, 178), Marker::Circle), &|of| ours(of, 0)),
            series(2.0, OURS[1], ((0, 158, 115), Marker::Diamond), &|of| ours(of, 1)),
        ],
        rules: vec![(0.0, String::new())],
        percent: false,
        categories: true,
    };
    Figure {
        name: "ope".into(),
        title: "Given policies: published evaluation cases".into(),
        caption: vec![format!(
            "{} cases, δ = {DELTA}, all of it on the value of the given policy.",
            measured.len()
        )],
        columns: 1,
        panels: vec![panel],
    }
}
