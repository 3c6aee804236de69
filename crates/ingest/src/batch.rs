//! Rows on their way from a file to whoever keeps them: batches of columns.

/// Which columns a log has. All rows of a log share one layout.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogLayout {
    /// p, the number of features; 0 without features.
    pub dim: usize,
    /// K, if the rows carry π0(·|x).
    pub full: Option<usize>,
    pub context_ids: bool,
    pub event_ids: bool,
    /// Names in ascending order.
    pub candidates: Vec<String>,
}

/// A batch of valid rows as columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogRows {
    /// Rows × p.
    pub x: Vec<f32>,
    pub actions: Vec<u32>,
    /// In [-1, 0].
    pub costs: Vec<f64>,
    pub propensities: Vec<f64>,
    /// Rows × K.
    pub full: Vec<f64>,
    pub context_ids: Vec<String>,
    pub event_ids: Vec<String>,
    /// One column per candidate, in the order of the layout.
    pub candidates: Vec<Vec<f64>>,
}

impl LogRows {
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }
}
