//! Rows on their way from a file to a sink: batches of columns.

/// The columns of a log. All rows of a log share one layout.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogLayout {
    /// p, the number of features; 0 if rows have no features.
    pub dim: usize,
    /// K, if the rows have π0(·|x).
    pub full: Option<usize>,
    /// Whether rows have a `context_id`.
    pub context_ids: bool,
    /// Whether rows have an `event_id`.
    pub event_ids: bool,
    /// The names of the candidates, in ascending order.
    pub candidates: Vec<String>,
}

/// A batch of valid rows as columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogRows {
    /// The features: rows × p.
    pub x: Vec<f32>,
    /// The logged action of each row.
    pub actions: Vec<u32>,
    /// The cost of each row, in [-1, 0].
    pub costs: Vec<f64>,
    /// π0(a|x) of the logged action of each row.
    pub propensities: Vec<f64>,
    /// π0(·|x): rows × K; empty if it is not known.
    pub full: Vec<f64>,
    /// The `context_id` of each row; empty if the layout has none.
    pub context_ids: Vec<String>,
    /// The `event_id` of each row; empty if the layout has none.
    pub event_ids: Vec<String>,
    /// One column per candidate, in the order of the layout.
    pub candidates: Vec<Vec<f64>>,
}

impl LogRows {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Keeps the first `rows` rows, which have `dim` features and `full` propensities each.
    pub(crate) fn truncate(&mut self, rows: usize, dim: usize, full: usize) {
        self.x.truncate(rows * dim);
        self.full.truncate(rows * full);
        self.actions.truncate(rows);
        self.costs.truncate(rows);
        self.propensities.truncate(rows);
        self.context_ids.truncate(rows);
        self.event_ids.truncate(rows);
        self.candidates.iter_mut().for_each(|column| column.truncate(rows));
    }
}
