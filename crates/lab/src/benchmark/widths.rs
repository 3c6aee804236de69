//! How wide the certificate of a given policy is, as a multiple of the normal interval, in worlds with known truth.

use guarantor_engine::certificate::Decision;
use guarantor_engine::control::unattended;
use guarantor_engine::error::Result;
use guarantor_engine::measure::Subject;
use guarantor_engine::spec::SpecRequest;
use rayon::prelude::*;

use super::worlds::{GivenWorld, worlds};
use super::{DELTA, FIRST_SEED, Failure, Headline, Section, Settings, mean};
use crate::normal::{estimates, quantile};
use crate::plot::{Figure, Marker, Panel, PlotPoint, Series, Style};
use crate::table::markdown;
use crate::trial::{Trial, evaluation, logged};

/// The numbers of rows, with the number of logs of each.
const SIZES: [(usize, u64); 4] = [(300, 400), (1_000, 400), (5_000, 200), (30_000, 100)];
const QUICK: [(usize, u64); 2] = [(300, 6), (1_000, 4)];

/// What a certificate says about one log.
#[derive(Debug, Clone, Copy)]
struct Said {
    width: f64,
    violated: bool,
    deploys: bool,
}

/// One log: `auto` with logged and with all propensities, and the normal interval.
fn one(world: &GivenWorld, n: usize, seed: u64) -> Result<[Said; 3]> {
    let (control, truth) = (unattended(), world.improvement());
    let say = |full: bool| -> Result<(Said, f64, f64)> {
        let log = world.log(n, seed, full)?;
        let estimated = estimates(&log, Subject::Logged(0), &control)?.improvement;
        let request = SpecRequest { delta: Some(DELTA), ..evaluation(vec![logged("new")]) };
        let c = Trial::simulated(&log, world.name, seed)?.run(&request, &control)?.certificate;
        let said = Said {
            width: estimated.mean - c.guaranteed_improvement,
            violated: c.guaranteed_improvement > truth || c.guaranteed_risk < world.risk(),
            deploys: c.decision == Decision::Deploy,
        };
        Ok((said, estimated.mean, estimated.standard_error))
    };
    let (bare, estimate, error) = say(false)?;
    let (full, ..) = say(true)?;
    let width = quantile(1.0 - DELTA) * error;
    let normal = Said { width, violated: estimate - width > truth, deploys: estimate > width };
    Ok([bare, full, normal])
}

struct Cell {
    world: usize,
    rows: usize,
    logs: u64,
    /// Widths as multiples of the normal interval's, violations and deployments: logged, all, normal.
    times: [f64; 3],
    violated: [f64; 3],
    deploys: [f64; 3],
}

/// Runs the part.
pub fn run(settings: &Settings, progress: &(dyn Fn(&str) + Sync)) -> Result<Section, Failure> {
    let (all, sizes) = (worlds(), if settings.quick { &QUICK[..] } else { &SIZES[..] });
    let mut cells = Vec::new();
    for (w, world) in all.iter().enumerate() {
        for &(rows, logs) in sizes {
            let seeds: Vec<u64> = (FIRST_SEED..FIRST_SEED + logs).collect();
            let said = seeds.par_iter().map(|&seed| one(world, rows, seed)).collect::<Result<Vec<_>>>()?;
            let unit = quantile(1.0 - DELTA) * world.deviation() / (rows as f64).sqrt();
            let over = |of: &dyn Fn(&Said) -> f64| -> [f64; 3] {
                std::array::from_fn(|i| mean(said.iter().map(|log| of(&log[i]))))
            };
            cells.push(Cell {
                world: w,
                rows,
                logs,
                times: over(&|s| s.width / unit),
                violated: over(&|s| f64::from(u8::from(s.violated))),
                deploys: over(&|s| f64::from(u8::from(s.deploys))),
            });
            progress(&format!("widths: {}, {rows} rows, {logs} logs", world.name));
        }
    }
    Ok(section(&all, &cells))
}

const NAMES: [&str; 3] = ["logged propensities", "all propensities", "normal interval"];

fn section(worlds: &[GivenWorld], cells: &[Cell]) -> Section {
    let head = [
        "world",
        "rows",
        "logs",
        "width, logged",
        "width, all",
        "wrong, logged / all / normal",
        "deploys, logged / all / normal",
    ];
    let mut lines = vec![head.map(String::from).to_vec()];
    let three = |of: &[f64; 3]| of.map(|v| format!("{v:.3}")).join(" / ");
    for cell in cells {
        lines.push(vec![
            worlds[cell.world].name.into(),
            cell.rows.to_string(),
            cell.logs.to_string(),
            format!("{:.2}", cell.times[0]),
            format!("{:.2}", cell.times[1]),
            three(&cell.violated),
            three(&cell.deploys),
        ]);
    }
    let described = worlds.iter().map(|w| {
        format!(
            "- **{}**: {}; true improvement {:.3}, largest weight {:.0}\n",
            w.name,
            w.about,
            w.improvement(),
            w.largest_weight()
        )
    });
    let text = format!(
        "`evaluate` with `auto`, a certified baseline and δ = {DELTA}, on logs of one fixed policy with K = 5. The width \
         is the estimated improvement minus the guaranteed one, as a multiple of that of the normal interval, \
         1.645·sd/√n, which has no guarantee at any n. The certificate also bounds the risk, and what that takes of δ is \
         part of its width. \"Wrong\" is the share of logs in which the guaranteed improvement or risk is violated; \
         \"deploys\" is the power, or the share of false deployments if nothing is to be gained. Seeds from \
         {FIRST_SEED}.\n\n{}\n{}\n![width over the normal interval's](benchmarks/widths.svg)\n",
        described.collect::<String>(),
        markdown(&lines)
    );
    let large: Vec<&Cell> = cells.iter().filter(|cell| cell.rows >= 1_000).collect();
    let headlines = (0..2).map(|i| Headline {
        what: format!(
            "width over the normal interval's, 1 000 to 30 000 rows, {} worlds, {}",
            worlds.len(),
            NAMES[i]
        ),
        value: format!("{:.2}", mean(large.iter().map(|cell| cell.times[i]))),
        compared: "1.00: the normal interval, which guarantees nothing".into(),
    });
    Section {
        heading: "Given policies: width in worlds with known truth".into(),
        text,
        headlines: headlines.collect(),
        figures: vec![figure(worlds, cells)],
    }
}

fn figure(worlds: &[GivenWorld], cells: &[Cell]) -> Figure {
    let styles = [
        Style { color: (0, 114, 178), marker: Marker::Circle, dashed: false },
        Style { color: (0, 158, 115), marker: Marker::Diamond, dashed: false },
    ];
    let panel = |(w, world): (usize, &GivenWorld)| {
        let of = || cells.iter().filter(move |cell| cell.world == w);
        let series = |i: usize| Series {
            label: format!("`auto`, {}", NAMES[i]),
            style: styles[i],
            points: of()
                .map(|cell| {
                    let (x, mean) = ((cell.rows as f64).log10(), cell.times[i]);
                    PlotPoint { x, mean, low: mean, high: mean }
                })
                .collect(),
        };
        Panel {
            title: world.name.into(),
            x_label: "rows".into(),
            x_ticks: of().map(|cell| ((cell.rows as f64).log10(), cell.rows.to_string())).collect(),
            series: vec![series(0), series(1)],
            rules: vec![(1.0, "the normal interval".into())],
            percent: false,
            categories: false,
        }
    };
    Figure {
        name: "widths".into(),
        title: "Given policies: width over the normal interval's".into(),
        caption: vec![format!(
            "Estimated minus guaranteed improvement, δ = {DELTA}, mean over the logs of each size."
        )],
        columns: 3,
        panels: worlds.iter().enumerate().map(panel).collect(),
    }
}
