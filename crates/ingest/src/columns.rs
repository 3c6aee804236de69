//! Batches to the engine's columns, for logs that fit into memory.

use guarantor_engine::log::{Columns, Outcome};

use crate::batch::{LogLayout, LogRows};
use crate::marks::{Marks, mark};

/// Collects batches into the engine's columns.
#[derive(Default)]
pub struct ColumnsBuilder {
    columns: Columns,
    contexts: Marks,
}

impl ColumnsBuilder {
    /// A builder with capacity for `rows` rows of `dim` features.
    pub fn with_capacity(rows: u64, dim: usize) -> Self {
        let rows = usize::try_from(rows).unwrap_or(0);
        let x = Vec::with_capacity(rows.saturating_mul(dim));
        ColumnsBuilder { columns: Columns { x, ..Columns::default() }, contexts: Marks::default() }
    }

    /// Appends a batch. All batches must have the same layout.
    pub fn append(&mut self, layout: &LogLayout, rows: LogRows) {
        let columns = &mut self.columns;
        if columns.actions.is_empty() {
            columns.dim = layout.dim;
            columns.full = layout.full.map(|_| Vec::new());
            columns.contexts = layout.context_ids.then(Vec::new);
            columns.candidates = layout.candidates.iter().map(|name| (name.clone(), Vec::new())).collect();
        }
        columns.x.extend(rows.x);
        columns.actions.extend(rows.actions);
        columns.costs.extend(rows.costs);
        columns.propensities.extend(rows.propensities);
        if let Some(full) = &mut columns.full {
            full.extend(rows.full);
        }
        for ((_, to), from) in columns.candidates.iter_mut().zip(rows.candidates) {
            to.extend(from);
        }
        if let Some(contexts) = &mut columns.contexts {
            contexts.extend(rows.context_ids.iter().map(|id| self.contexts.place(mark(id)).0 as u64));
        }
    }

    /// The columns of a log with `n_actions` actions and this outcome.
    pub fn finish(self, n_actions: usize, outcome: Outcome) -> Columns {
        Columns { n_actions, outcome, ..self.columns }
    }
}
