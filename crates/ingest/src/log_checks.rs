//! The engine's checks of a log against its assumptions, run on all rows while they are read.
//!
//! How precisely probabilities were written is known only at the end, but the checks need it from the first row on.
//! So the first rows are held back until their precision has been found. Later rows can only show more digits, so
//! the rounding that is allowed for is never too small. Results depend on the rows and their order, and not on the
//! format or on how rows were divided into batches and parts.

use std::ops::Range;

use guarantor_engine::checks::{
    self, CandidatePlan, CandidateWeight, CheckName, CheckPlan, CheckResult, CheckRow, CheckScope,
    ChecksBuilder, Drift, LoggedColumns, Rounding, TimedSlices,
};
use guarantor_engine::log::{Logging, Places, Precision, Repetitions, Sets};

use crate::batch::{LogLayout, LogRows};
use crate::identity::Interaction;
use crate::precision::Precisions;
use crate::rules::LogOptions;

/// Rows are held back until there are this many, or as many as take so many bytes.
const HELD_ROWS: usize = 4096;
const HELD_BYTES: usize = 8 << 20;

/// Why checks that depend on the order of a context's rows are left to jobs.
const OTHER_ORDER: &str = "not checked at upload, because the rows are not in the order of their timestamps, so that the \
                           first row of each context is not known; jobs check the certified rows in order";

/// Rows to check.
pub struct CheckRows<'a> {
    pub layout: &'a LogLayout,
    pub rows: &'a LogRows,
    /// Which of the rows to check.
    pub range: Range<usize>,
    /// π0(·|x) of the logging policy for the rows of the range, if it is known.
    pub policy: Option<&'a [f64]>,
    /// Which of the rows of its context each row is; empty if rows have no contexts.
    pub interactions: &'a [Interaction],
}

/// The same, held back.
struct Held {
    layout: LogLayout,
    rows: LogRows,
    policy: Option<Vec<f64>>,
    interactions: Vec<Interaction>,
}

impl<'a> CheckRows<'a> {
    fn hold(&self) -> Held {
        let (rows, range) = (self.rows, self.range.clone());
        let lists = |list: &[f64], k: Option<usize>| match k {
            Some(_) => {
                let places = rows.places(self.layout, k);
                list[places.first(range.start)..places.first(range.end)].to_vec()
            }
            None => Vec::new(),
        };
        let numbers = |column: &Vec<f64>| column[range.clone()].to_vec();
        Held {
            layout: self.layout.clone(),
            rows: LogRows {
                actions: rows.actions[range.clone()].to_vec(),
                costs: rows.costs[range.clone()].to_vec(),
                propensities: rows.propensities[range.clone()].to_vec(),
                full: lists(&rows.full, self.layout.full),
                candidates: rows.candidates.iter().map(numbers).collect(),
                candidate_full: (rows.candidate_full.iter())
                    .map(|column| lists(column, self.layout.candidate_full))
                    .collect(),
                timestamps: rows.timestamps.get(range.clone()).unwrap_or_default().to_vec(),
                sets: if self.layout.sets.is_some() {
                    sizes(&rows.sets, range.clone())
                } else {
                    Sets::default()
                },
                ..LogRows::default()
            },
            policy: self.policy.map(<[f64]>::to_vec),
            interactions: self.interactions.get(range.clone()).unwrap_or_default().to_vec(),
        }
    }

    /// Where the numbers of each row are among those of the logging policy, and which of them are the first.
    fn policy_places(&self) -> (Places<'a>, usize) {
        let numbers = self.policy.map_or(0, <[f64]>::len);
        let places = self.rows.places(self.layout, Some(numbers / self.range.len().max(1)));
        (places, places.first(self.range.start))
    }

    /// About how many bytes row `i` takes while it is held back.
    fn row_bytes(&self, i: usize) -> usize {
        // Features are not held.
        let numbers = LogLayout { dim: 0, ..self.layout.clone() }.row_bytes();
        let policy = if self.policy.is_some() { self.policy_places().0.size(i) } else { 0 };
        let lists = match self.layout.sets {
            Some(_) => self.rows.sets.size(i) * (2 + self.rows.candidate_full.len()),
            None => 0,
        };
        numbers + 8 * (policy + lists) + size_of::<Interaction>()
    }

    /// How many of these rows can be held besides `held` rows that take `bytes`.
    fn room(&self, held: usize, mut bytes: usize) -> (usize, usize) {
        let mut n = 0;
        // At least one row is held, however large it is.
        while n < self.range.len() && held + n < HELD_ROWS && (bytes < HELD_BYTES || held + n == 0) {
            bytes += self.row_bytes(self.range.start + n);
            n += 1;
        }
        (n, bytes)
    }

    /// The first `n` rows, and the others.
    fn split(self, n: usize) -> (CheckRows<'a>, CheckRows<'a>) {
        let at = self.range.start + n.min(self.range.len());
        let (places, start) = self.policy_places();
        let (head, tail) = self.policy.map(|policy| policy.split_at(places.first(at) - start)).unzip();
        let CheckRows { layout, rows, range, interactions, .. } = self;
        (
            CheckRows { layout, rows, range: range.start..at, policy: head, interactions },
            CheckRows { layout, rows, range: at..range.end, policy: tail, interactions },
        )
    }
}

/// The sizes of some rows' sets, without features.
fn sizes(sets: &Sets, rows: Range<usize>) -> Sets {
    let mut sizes = Sets::default();
    for i in rows {
        sizes.x.push([]);
        (0..sets.size(i)).for_each(|_| sizes.actions.push([]));
        sizes.end_row();
    }
    sizes
}

impl Held {
    fn rows(&self) -> CheckRows<'_> {
        let (layout, rows, policy) = (&self.layout, &self.rows, self.policy.as_deref());
        CheckRows { layout, rows, range: 0..rows.len(), policy, interactions: &self.interactions }
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
    held_rows: usize,
    /// What they take, if rows have their own actions.
    held_bytes: usize,
    builder: Option<ChecksBuilder>,
    /// The slices of rows with times, in case they are not in the order of their times.
    timed: TimedSlices,
    /// Whether a context has several rows.
    repeated: bool,
    scratch: Scratch,
}

#[derive(Default)]
struct Scratch {
    full: Vec<f64>,
    candidates: Vec<Vec<f64>>,
}

impl LogChecks {
    /// Adds rows.
    pub fn add(&mut self, rows: CheckRows, known: &Known) {
        if self.builder.is_some() {
            return self.check(&rows);
        }
        // How many rows are held depends on the rows only, and not on how they were divided into batches.
        let (n, is_full) = match rows.layout.sets {
            Some(_) => {
                let (n, bytes) = rows.room(self.held_rows, self.held_bytes);
                self.held_bytes = bytes;
                (n, self.held_rows + n >= HELD_ROWS || bytes >= HELD_BYTES)
            }
            None => {
                let most = (HELD_BYTES / rows.row_bytes(rows.range.start)).clamp(1, HELD_ROWS);
                let n = most.saturating_sub(self.held_rows).min(rows.range.len());
                (n, self.held_rows + n >= most)
            }
        };
        let (head, tail) = rows.split(n);
        self.held_rows += head.range.len();
        self.held.push(head.hold());
        if is_full {
            self.start(known);
            self.check(&tail);
        }
    }

    /// The results, and how the log changes over time.
    pub fn finish(mut self, known: &Known, out_of_order: bool) -> (Vec<CheckResult>, Drift) {
        if self.builder.is_none() {
            self.start(known);
        }
        let Some(mut builder) = self.builder else { return Default::default() };
        if out_of_order {
            builder.replace_slices(self.timed);
            builder.skip(CheckName::Repetitions, OTHER_ORDER);
            if self.repeated {
                builder.skip(CheckName::Drift, OTHER_ORDER);
            }
        }
        let drift = builder.drift();
        (builder.finish(CheckScope::Log), drift)
    }

    fn start(&mut self, known: &Known) {
        let held = std::mem::take(&mut self.held);
        let Some(first) = held.first() else { return };
        let mut precisions = Precisions::default();
        held.iter().for_each(|held| precisions.add(&held.layout, &held.rows, held.policy.is_some()));
        self.builder = Some(ChecksBuilder::new(plan(&first.rows(), &precisions, known)));
        held.iter().for_each(|held| self.check(&held.rows()));
    }

    fn check(&mut self, batch: &CheckRows) {
        let (Some(builder), Scratch { full, candidates }) = (&mut self.builder, &mut self.scratch) else {
            return;
        };
        let CheckRows { layout, rows, ref range, policy, interactions } = *batch;
        let lists = policy.is_some() || layout.full.is_some() || !rows.candidate_full.is_empty();
        if !lists && layout.sets.is_none() && interactions.is_empty() {
            builder.logged(&LoggedColumns {
                actions: &rows.actions[range.clone()],
                costs: &rows.costs[range.clone()],
                propensities: &rows.propensities[range.clone()],
                candidates: rows.candidates.iter().map(|column| &column[range.clone()]).collect(),
            });
            for (i, &time) in range.clone().zip(rows.timestamps.get(range.clone()).unwrap_or_default()) {
                self.timed.add(time, rows.actions[i], rows.costs[i], rows.propensities[i]);
            }
            return;
        }
        // The policy's numbers start with the first row of the range, the others with the first row.
        let (all, (places, start)) = match policy {
            Some(policy) => (Some(policy), batch.policy_places()),
            None => (layout.full.map(|_| rows.full.as_slice()), (rows.places(layout, layout.full), 0)),
        };
        let of_candidate = rows.places(layout, layout.candidate_full);
        candidates.resize_with(rows.candidate_full.len(), Vec::new);
        let positions: Vec<Option<usize>> =
            layout.candidates.iter().map(|name| layout.full_position(name)).collect();
        for i in range.clone() {
            if let Some(all) = all {
                let place = places.of(i);
                scale(&all[place.start - start..place.end - start], full);
            }
            for (to, from) in candidates.iter_mut().zip(&rows.candidate_full) {
                scale(&from[of_candidate.of(i)], to);
            }
            let (action, cost) = (rows.actions[i], rows.costs[i]);
            let weight = |(position, column): (&Option<usize>, &Vec<f64>)| {
                let all = position.map(|at| candidates[at].as_slice());
                let played = all.and_then(|all| all.get(action as usize)).copied().unwrap_or(column[i]);
                CandidateWeight { played, all }
            };
            let weights: Vec<CandidateWeight> = positions.iter().zip(&rows.candidates).map(weight).collect();
            let known = all.is_some().then_some(full.as_slice());
            let propensity =
                known.and_then(|pi| pi.get(action as usize)).copied().unwrap_or(rows.propensities[i]);
            let interaction = interactions.get(i);
            let first = interaction.is_none_or(Interaction::is_first);
            builder.row(&CheckRow {
                action,
                cost,
                propensity,
                full: known,
                n_actions: layout.sets.map(|_| rows.sets.size(i)),
                candidates: &weights,
                repetition: None,
                counts_for_drift: first,
            });
            if let Some(&Interaction { number, first_action, first_propensity }) = interaction {
                let number = number.into();
                builder.interaction(&checks::Interaction {
                    number,
                    first_action,
                    first_propensity,
                    full: known,
                });
            }
            self.repeated |= !first;
            if let (Some(&time), true) = (rows.timestamps.get(i), first) {
                self.timed.add(time, action, cost, propensity);
            }
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
    let LogOptions { logging, exact_propensities, repetitions } = known.options;
    let of =
        |precision: Precision| if exact_propensities { Rounding::default() } else { rounding(precision) };
    let candidates = precisions.candidates();
    let full = first.policy.is_some() || first.layout.full.is_some();
    CheckPlan {
        n_actions: known.n_actions.unwrap_or(0),
        actions_declared: known.n_actions.is_some(),
        sets: first.layout.sets.is_some(),
        full,
        rounding: if first.policy.is_some() { Rounding::default() } else { of(precisions.propensities()) },
        candidates: (first.layout.candidates.iter().enumerate())
            .map(|(i, name)| CandidatePlan {
                label: format!("logged:{name}"),
                rounding: of(candidates.get(i).copied().unwrap_or_default()),
            })
            .collect(),
        fixed: logging == Logging::Fixed,
        designed: repetitions == Repetitions::Designed && first.layout.context_ids,
        ..CheckPlan::default()
    }
}

/// Half the width of the interval that a written number stands for.
fn rounding(precision: Precision) -> Rounding {
    precision.rounding()
}
