//! What each figure draws, from the rows.

use super::lines::{Line, of_figure};
use super::plot::{Figure, Marker, Panel, PlotPoint, Series, Style};
use super::rows::{Of, Row, Summary, distinct};
use super::table::{PROMISED, PROMISED_RISK, TRUE, TRUE_RISK, TableQuantity, title};

const LOGGING: Style = Style { color: (0, 0, 0), marker: Marker::None, dashed: true };

/// The figure with this number; None if the rows do not have it.
pub fn picture(rows: &[Row], figure: u8) -> Option<Figure> {
    let first = rows.iter().find(|r| r.figure == figure)?;
    let seeds = distinct(rows, figure, |r| r.seed as f64).len();
    let spread = match seeds {
        1 => "one seed".to_string(),
        n => format!("mean over {n} seeds, bands of ± one standard deviation"),
    };
    let mut about =
        vec![format!("{}, {} logged contexts, δ = 0.05; {spread}.", first.dataset, first.contexts)];
    about.push(how_to_read(figure).into());
    let panels = match figure {
        1 => figure_1(rows),
        2 => figure_2(rows),
        3 => figure_3(rows),
        4 => figure_4(rows),
        _ => figure_5(rows),
    };
    let columns = match figure {
        1 => 2,
        3 => panels.len() / 2,
        _ => 3,
    };
    Some(Figure {
        name: format!("figure{figure}"),
        title: title(figure).into(),
        caption: about,
        columns,
        panels,
    })
}

fn how_to_read(figure: u8) -> &'static str {
    match figure {
        1 => {
            "A bound certifies a policy if its guaranteed risk is below R(π0), which is taken from the test set."
        }
        2 => {
            "Risks: lower is better. Improvement: deploy above 0, keep below; R(π0) is taken from the test set."
        }
        3 => {
            "m: how often each context was logged. Every panel has its own scale. R(π0) is taken from the test set."
        }
        4 => {
            "Every line pays for its baseline out of δ. Right: GI* divided by the true improvement of `auto`, cut off at −10 %."
        }
        _ => {
            "CRM/SVP and Bayesian CRM promise an estimate; CBB and `auto` promise a bound. Right, below 0: less was delivered than promised."
        }
    }
}

/// One line over α.
fn over_alpha(rows: &[Row], figure: u8, line: Line, value: fn(&Row) -> f64) -> Series {
    let point = |alpha: f64| {
        let summary = Of { rows, figure, line }.summary(alpha, 1, value)?;
        Some(point(alpha, summary))
    };
    let points = distinct(rows, figure, |r| r.alpha).into_iter().filter_map(point).collect();
    Series { label: line.name().into(), style: line.style(), points }
}

fn point(x: f64, s: Summary) -> PlotPoint {
    PlotPoint { x, mean: s.mean, low: s.mean - s.deviation, high: s.mean + s.deviation }
}

fn logging(rows: &[Row], figure: u8) -> Series {
    let line = of_figure(figure).first().map_or(Line::Auto, |(line, _)| *line);
    let series = over_alpha(rows, figure, line, |r| r.logging_risk);
    Series { label: "R(π0), the logging policy".into(), style: LOGGING, ..series }
}

/// A panel over α with all of a figure's lines.
fn panel(rows: &[Row], figure: u8, title: &str, value: fn(&Row) -> f64) -> Panel {
    let line = |(line, _)| over_alpha(rows, figure, line, value);
    Panel {
        title: title.into(),
        x_label: "inverse temperature α of the logging policy".into(),
        x_ticks: distinct(rows, figure, |r| r.alpha).into_iter().map(|a| (a, a.to_string())).collect(),
        series: of_figure(figure).into_iter().map(line).collect(),
        rules: Vec::new(),
        percent: false,
        categories: false,
    }
}

fn figure_1(rows: &[Row]) -> Vec<Panel> {
    let mut risk = panel(rows, 1, "Guaranteed risk GR* (lower is better)", PROMISED_RISK.of);
    risk.series.insert(0, logging(rows, 1));
    risk.rules.push((0.0, "uninformative above this line".into()));
    let mut improvement = panel(rows, 1, "Guaranteed improvement GI* (needs to be above 0)", PROMISED.of);
    improvement.rules.push((0.0, "deploy above, keep below".into()));
    vec![risk, improvement]
}

fn figure_2(rows: &[Row]) -> Vec<Panel> {
    let mut risk = panel(rows, 2, "Guaranteed risk GR*", PROMISED_RISK.of);
    let mut truth = panel(rows, 2, "True risk R(π*), test set", TRUE_RISK.of);
    for panel in [&mut risk, &mut truth] {
        panel.series.insert(0, logging(rows, 2));
    }
    let mut improvement = panel(rows, 2, "Guaranteed improvement GI*", PROMISED.of);
    improvement.rules.push((0.0, String::new()));
    vec![risk, truth, improvement]
}

/// One column per α (at most three), m on the axis; guarantees above, truth below.
fn figure_3(rows: &[Row]) -> Vec<Panel> {
    let all = distinct(rows, 3, |r| r.alpha);
    let mut shown = vec![all[0], all[all.len() / 2], all[all.len() - 1]];
    shown.dedup();
    let over_m = |quantity: &TableQuantity, alpha: f64| {
        let interactions = distinct(rows, 3, |r| r.interactions as f64);
        let line = |(line, _): (Line, _)| {
            let point = |&m: &f64| {
                let summary = Of { rows, figure: 3, line }.summary(alpha, m as usize, quantity.of)?;
                Some(point(m.log2(), summary))
            };
            let points = interactions.iter().filter_map(point).collect();
            Series { label: line.name().into(), style: line.style(), points }
        };
        Panel {
            title: format!("{}, α = {alpha}", capital(quantity.name)),
            x_label: "interactions m with each context".into(),
            x_ticks: interactions.iter().map(|m| (m.log2(), m.to_string())).collect(),
            series: of_figure(3).into_iter().map(line).collect(),
            rules: Vec::new(),
            percent: false,
            categories: false,
        }
    };
    [&PROMISED, &TRUE].iter().flat_map(|q| shown.iter().map(|&a| over_m(q, a))).collect()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn figure_4(rows: &[Row]) -> Vec<Panel> {
    let mut guaranteed = panel(rows, 4, "Guaranteed improvement GI*", PROMISED.of);
    guaranteed.rules.push((0.0, String::new()));
    let mut truth = panel(rows, 4, "True improvement, test set", TRUE.of);
    truth.rules.push((0.0, String::new()));
    let mut share = panel(rows, 4, "Guaranteed share of `auto`'s gain", PROMISED.of);
    let gained = over_alpha(rows, 4, Line::Auto, TRUE.of).points;
    for series in &mut share.series {
        for point in &mut series.points {
            let whole = gained.iter().find(|g| g.x == point.x).map_or(f64::NAN, |g| g.mean);
            let of = |v: f64| (v / whole).max(-0.1);
            *point = PlotPoint { x: point.x, mean: of(point.mean), low: of(point.low), high: of(point.high) };
        }
    }
    share.rules.push((1.0, String::new()));
    share.rules.push((0.0, String::new()));
    share.percent = true;
    vec![guaranteed, truth, share]
}

fn figure_5(rows: &[Row]) -> Vec<Panel> {
    let mut promised = panel(rows, 5, "Promised improvement", PROMISED.of);
    let mut truth = panel(rows, 5, "Delivered improvement, test set", TRUE.of);
    let mut kept =
        panel(rows, 5, "Delivered minus promised", |r| r.true_improvement - r.promised_improvement);
    for panel in [&mut promised, &mut truth, &mut kept] {
        panel.rules.push((0.0, String::new()));
    }
    vec![promised, truth, kept]
}
