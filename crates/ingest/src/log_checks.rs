//! The engine's checks of a log against its assumptions, run on all rows while they are read.
//!
//! How precisely probabilities were written is known only at the end, but the checks need it from the first row on.
//! So the first rows are held back until their precision has been found. Later rows can only show more digits, so
//! the rounding that is allowed for is never too small.

use std::ops::Range;

use guarantor_engine::checks::{
    CandidatePlan, CandidateWeight, CheckPlan, CheckResult, CheckRow, CheckScope, ChecksBuilder, Drift,
    Rounding,
};
use guarantor_engine::log::{Logging, Precision};

use crate::batch::{LogLayout, LogRows};
use crate::precision::Precisions;
use crate::rules::LogOptions;

/// Rows are held back until there are this many, or until they take so many bytes.
const HELD_ROWS: usize = 4096;
const HELD_BYTES: usize = 4 << 20;

/// Rows to check.
pub struct CheckRows<'a> {
    pub layout: &'a LogLayout,
    pub rows: &'a LogRows,
    /// Which of the rows to check.
    pub range: Range<usize>,
    /// π0(·|x) of the logging policy for these rows, if it is known.
    pub policy: Option<&'a [f64]>,
    /// Whether each row is the first of its context; empty if rows have no contexts.
    pub first: &'a [bool],
}

/// The same, held back.
struct Held {
    layout: LogLayout,
    rows: LogRows,
    policy: Option<Vec<f64>>,
    first: Vec<bool>,
}

impl CheckRows<'_> {
    fn hold(&self) -> Held {
        let (rows, range) = (self.rows, self.range.clone());
        let (k, of) = (self.layout.full.unwrap_or(0), self.layout.candidate_full.unwrap_or(0));
        let lists = |list: &[f64], k: usize| list[range.start * k..range.end * k].to_vec();
        Held {
            layout: self.layout.clone(),
            rows: LogRows {
                actions: rows.actions[range.clone()].to_vec(),
                costs: rows.costs[range.clone()].to_vec(),
                propensities: rows.propensities[range.clone()].to_vec(),
                full: lists(&rows.full, k),
                candidates: rows.candidates.iter().map(|column| lists(column, 1)).collect(),
                candidate_full: rows.candidate_full.iter().map(|column| lists(column, of)).collect(),
                ..LogRows::default()
            },
            policy: self.policy.map(<[f64]>::to_vec),
            first: self.first.get(range.clone()).unwrap_or_default().to_vec(),
        }
    }
}

impl Held {
    fn rows(&self) -> CheckRows<'_> {
        let (layout, rows, policy) = (&self.layout, &self.rows, self.policy.as_deref());
        CheckRows { layout, rows, range: 0..rows.len(), policy, first: &self.first }
    }
}

/// What is known about a log before its rows are checked.
pub struct Known {
    /// K, if it was stated.
    pub n_actions: Option<usize>,
    pub options: LogOptions,
}

/// Checks rows as they arrive.
#[derive(Default)]
pub struct LogChecks {
    held: Vec<Held>,
    builder: Option<ChecksBuilder>,
    scratch: Scratch,
}

#[derive(Default)]
struct Scratch {
    full: Vec<f64>,
    candidates: Vec<Vec<f64>>,
}

impl LogChecks {
    /// Adds rows.
    pub fn add(&mut self, rows: CheckRows, precisions: &Precisions, known: &Known) {
        if self.builder.is_some() {
            self.check(&rows);
            return;
        }
        self.held.push(rows.hold());
        let rows: usize = self.held.iter().map(|batch| batch.rows.len()).sum();
        let bytes: usize = self.held.iter().map(|batch| batch.rows.len() * batch.layout.row_bytes()).sum();
        if rows >= HELD_ROWS || bytes >= HELD_BYTES {
            self.start(precisions, known);
        }
    }

    /// The results, and how the log changes over time.
    pub fn finish(mut self, precisions: &Precisions, known: &Known) -> (Vec<CheckResult>, Drift) {
        if self.builder.is_none() {
            self.start(precisions, known);
        }
        let Some(builder) = self.builder else { return Default::default() };
        let drift = builder.drift();
        (builder.finish(CheckScope::Log), drift)
    }

    fn start(&mut self, precisions: &Precisions, known: &Known) {
        let held = std::mem::take(&mut self.held);
        let Some(first) = held.first() else { return };
        self.builder = Some(ChecksBuilder::new(plan(&first.rows(), precisions, known)));
        held.iter().for_each(|held| self.check(&held.rows()));
    }

    fn check(&mut self, batch: &CheckRows) {
        let (Some(builder), Scratch { full, candidates }) = (&mut self.builder, &mut self.scratch) else {
            return;
        };
        let CheckRows { layout, rows, ref range, policy, first } = *batch;
        // The policy's numbers start with the first row of the range, the others with the first row.
        let (all, start, n) = match policy {
            Some(policy) => (Some(policy), range.start, range.len()),
            None => (layout.full.map(|_| rows.full.as_slice()), 0, rows.len()),
        };
        let (k, of_candidate) =
            (all.map_or(0, |all| all.len() / n.max(1)), layout.candidate_full.unwrap_or(0));
        candidates.resize_with(rows.candidate_full.len(), Vec::new);
        let positions: Vec<Option<usize>> =
            layout.candidates.iter().map(|name| layout.full_position(name)).collect();
        for i in range.clone() {
            if let Some(all) = all {
                scale(&all[(i - start) * k..(i - start + 1) * k], full);
            }
            for (to, from) in candidates.iter_mut().zip(&rows.candidate_full) {
                scale(&from[i * of_candidate..(i + 1) * of_candidate], to);
            }
            let action = rows.actions[i];
            let weight = |(position, column): (&Option<usize>, &Vec<f64>)| {
                let all = position.map(|at| candidates[at].as_slice());
                let played = all.and_then(|all| all.get(action as usize)).copied().unwrap_or(column[i]);
                CandidateWeight { played, all }
            };
            let weights: Vec<CandidateWeight> = positions.iter().zip(&rows.candidates).map(weight).collect();
            let known = all.is_some().then_some(full.as_slice());
            builder.row(&CheckRow {
                action,
                cost: rows.costs[i],
                propensity: known
                    .and_then(|pi| pi.get(action as usize))
                    .copied()
                    .unwrap_or(rows.propensities[i]),
                full: known,
                candidates: &weights,
                repetition: None,
                counts_for_drift: first.get(i).copied().unwrap_or(true),
            });
        }
    }
}

/// Numbers scaled to sum to 1: numbers that were rounded do so only nearly.
fn scale(from: &[f64], to: &mut Vec<f64>) {
    let total: f64 = from.iter().sum();
    to.clear();
    to.extend(from.iter().map(|p| p / total));
}

fn plan(first: &CheckRows, precisions: &Precisions, known: &Known) -> CheckPlan {
    let LogOptions { logging, exact_propensities, .. } = known.options;
    let of =
        |precision: Precision| if exact_propensities { Rounding::default() } else { rounding(precision) };
    let candidates = precisions.candidates();
    let full = first.policy.is_some() || first.layout.full.is_some();
    CheckPlan {
        n_actions: known.n_actions.unwrap_or(0),
        actions_declared: known.n_actions.is_some(),
        full,
        rounding: if first.policy.is_some() { Rounding::default() } else { of(precisions.propensities()) },
        candidates: (first.layout.candidates.iter().enumerate())
            .map(|(i, name)| CandidatePlan {
                label: format!("logged:{name}"),
                rounding: of(candidates.get(i).copied().unwrap_or_default()),
            })
            .collect(),
        fixed: logging == Logging::Fixed,
        // How often a context was logged is known only at the end; jobs check it.
        designed: false,
        ..CheckPlan::default()
    }
}

/// Half the width of the interval that a written number stands for.
fn rounding(precision: Precision) -> Rounding {
    precision.rounding()
}
