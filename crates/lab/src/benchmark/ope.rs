//! The published evaluation cases: lower bounds on the value of a given policy, and the choice among policies.

use std::path::Path;

use guarantor_engine::certificate::Decision;
use guarantor_engine::control::unattended;
use guarantor_engine::error::Result;
use guarantor_engine::log::{Columns, Logging, MemoryLog};
use guarantor_engine::spec::{Baseline, BaselineKind, SpecRequest};
use rayon::prelude::*;

use super::ope_files::{Case, Rows, load};
use super::ope_report::section;
use super::{DELTA, Failure, Outcome, Settings, mean};
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
pub enum Pick {
    /// The best candidate.
    Best,
    /// Another one that is at least as good as the logging policy.
    Better,
    /// One that is worse than the logging policy.
    Worse,
    /// Nothing is certified.
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

/// The results on one case; pairs are with logged propensities only and with all.
pub struct Measured {
    /// The dataset behind the case.
    pub dataset: String,
    /// Its number of rows.
    pub rows: usize,
    /// The published radii: LS, IX, second moment, empirical Bernstein, ESLB.
    pub published: [f64; 5],
    /// Our relative radius, and whether the bound is violated.
    pub radii: [(f64, bool); 2],
    /// The certified choice among the targets.
    pub picks: [Pick; 2],
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
