//! Batches to the engine's columns, for logs that fit into memory.

use guarantor_engine::log::{Columns, LogShape};

use crate::batch::{LogLayout, LogRows};
use crate::marks::{Marks, mark};

/// Collects batches into the engine's columns.
pub struct ColumnsBuilder {
    columns: Columns,
    contexts: Marks,
}

impl ColumnsBuilder {
    pub fn new(log: &LogShape) -> Self {
        let rows = usize::try_from(log.rows).unwrap_or(0);
        let columns = Columns {
            n_actions: log.n_actions,
            dim: log.dim,
            x: Vec::with_capacity(rows.saturating_mul(log.dim)),
            outcome: log.outcome,
            ..Columns::default()
        };
        ColumnsBuilder { columns, contexts: Marks::default() }
    }

    /// Appends a batch. All batches must have the same layout.
    pub fn append(&mut self, layout: &LogLayout, rows: LogRows) {
        let columns = &mut self.columns;
        if columns.actions.is_empty() {
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

    pub fn finish(self) -> Columns {
        self.columns
    }
}
