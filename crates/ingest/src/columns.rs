//! Batches to the engine's columns, for logs that fit into memory.

use std::collections::HashMap;

use guarantor_engine::log::{Capabilities, Columns, LogShape, Outcome, Repetitions};

use crate::batch::{LogLayout, LogRows};
use crate::marks::{Marks, mark};
use crate::rules::LogOptions;

/// What the engine needs to know about a log besides its rows.
#[derive(Debug, Clone, Copy)]
pub struct LogFacts<'a> {
    /// K, the number of actions.
    pub n_actions: usize,
    /// The kind and range of the outcome; of the primary one if there are several.
    pub outcome: Outcome,
    /// What the caller states about the log.
    pub options: LogOptions,
    /// What was found when the log was read.
    pub capabilities: &'a Capabilities,
}

impl LogFacts<'_> {
    /// The shape that specs are resolved against, of a log with these numbers of rows, contexts and features.
    pub fn shape(&self, rows: u64, contexts: u64, dim: usize) -> LogShape {
        LogShape {
            rows,
            contexts: match self.options.repetitions {
                Repetitions::Designed => contexts,
                Repetitions::Decisions => rows,
            },
            logging: self.options.logging,
            n_actions: self.n_actions,
            dim,
            outcome: self.outcome,
            capabilities: self.capabilities.clone(),
        }
    }

    /// Columns with what is known besides their rows.
    pub fn apply(&self, columns: Columns) -> Columns {
        let LogOptions { logging, repetitions, exact_propensities, .. } = self.options;
        let Capabilities {
            actions_declared,
            propensities_logged,
            precision,
            candidate_precision,
            uniform,
            outcomes,
            ..
        } = self.capabilities;
        Columns {
            n_actions: self.n_actions,
            outcome: self.outcome,
            logging,
            repetitions,
            actions_declared: *actions_declared,
            propensities_logged: *propensities_logged,
            exact_propensities,
            precision: *precision,
            candidate_precision: candidate_precision.clone(),
            uniform: *uniform,
            named_outcomes: outcomes.clone(),
            ..columns
        }
    }
}

/// Collects batches into the engine's columns.
#[derive(Default)]
pub struct ColumnsBuilder {
    columns: Columns,
    contexts: Marks,
    versions: HashMap<String, u32>,
}

impl ColumnsBuilder {
    /// A builder with capacity for `rows` rows of `dim` features.
    pub fn with_capacity(rows: u64, dim: usize) -> Self {
        let rows = usize::try_from(rows).unwrap_or(0);
        let x = Vec::with_capacity(rows.saturating_mul(dim));
        ColumnsBuilder { columns: Columns { x, ..Columns::default() }, ..ColumnsBuilder::default() }
    }

    /// Appends a batch. All batches must have the same layout.
    pub fn append(&mut self, layout: &LogLayout, rows: LogRows) {
        let columns = &mut self.columns;
        if columns.actions.is_empty() {
            columns.dim = layout.dim;
            columns.full = layout.full.map(|_| Vec::new());
            columns.contexts = layout.context_ids.then(Vec::new);
            columns.candidates = layout.candidates.iter().map(|name| (name.clone(), Vec::new())).collect();
            let full = |name: &String| layout.full_position(name).map(|_| Vec::new());
            columns.candidate_full = layout.candidates.iter().map(full).collect();
            columns.other_costs = vec![Vec::new(); layout.outcomes.len()];
            columns.timestamps = layout.timestamps.then(Vec::new);
            columns.versions = layout.versions.then(Vec::new);
        }
        if let Some(spaces) = layout.sets {
            let sets = columns.sets.get_or_insert_default();
            let count = rows.sets.rows();
            sets.extend_from(&rows.sets, 0..count);
            columns.set_features = spaces;
        }
        append(&mut columns.x, rows.x);
        append(&mut columns.actions, rows.actions);
        append(&mut columns.costs, rows.costs);
        columns.other_costs.iter_mut().zip(rows.outcomes).for_each(|(to, from)| append(to, from));
        append(&mut columns.propensities, rows.propensities);
        if let Some(full) = &mut columns.full {
            append(full, rows.full);
        }
        for ((_, to), from) in columns.candidates.iter_mut().zip(rows.candidates) {
            append(to, from);
        }
        for (to, from) in columns.candidate_full.iter_mut().flatten().zip(rows.candidate_full) {
            append(to, from);
        }
        if let Some(timestamps) = &mut columns.timestamps {
            timestamps.extend(rows.timestamps);
        }
        if let Some(versions) = &mut columns.versions {
            for name in rows.versions {
                let next = self.versions.len() as u32;
                versions.push(*self.versions.entry(name).or_insert(next));
            }
        }
        if let Some(contexts) = &mut columns.contexts {
            contexts.extend(rows.context_ids.iter().map(|id| self.contexts.place(mark(id)).0 as u64));
        }
    }

    /// The columns of a log of which this is known.
    pub fn finish(self, facts: &LogFacts) -> Columns {
        let mut version_names = vec![String::new(); self.versions.len()];
        self.versions.into_iter().for_each(|(name, number)| version_names[number as usize] = name);
        Columns { version_names, ..facts.apply(self.columns) }
    }
}

/// Appends numbers. The first ones are not copied, unless there is room for more.
fn append<T: Copy>(to: &mut Vec<T>, from: Vec<T>) {
    match to.capacity() {
        0 => *to = from,
        _ => to.extend(from),
    }
}
