//! Rows on their way from a file to a sink: batches of columns.

use guarantor_engine::log::{ActionSets, Places, Sets};

/// The approximate size of the features and propensities of a batch.
pub const BATCH_BYTES: usize = 4 << 20;
/// A batch has at least so many rows, however long they are, and at most so many.
pub const MIN_ROWS: usize = 64;
const MAX_ROWS: usize = 8192;

/// The columns of a log. All rows of a log share one layout.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogLayout {
    /// p, the number of features; 0 if rows have no features.
    pub dim: usize,
    /// K, if the rows have π0(·|x); 0 if every row has its own actions.
    pub full: Option<usize>,
    /// Whether rows have a `context_id`.
    pub context_ids: bool,
    /// Whether rows have an `event_id`.
    pub event_ids: bool,
    /// The names of the candidates, in ascending order.
    pub candidates: Vec<String>,
    /// The names of those candidates whose π(·|x) the rows have, in ascending order.
    pub candidate_propensities: Vec<String>,
    /// K, if rows have π(·|x) of a candidate; 0 if every row has its own actions.
    pub candidate_full: Option<usize>,
    /// Whether rows have a `timestamp`.
    pub timestamps: bool,
    /// Whether rows have a `policy_version`.
    pub versions: bool,
    /// The features of requests and actions, if every row has its own actions. `dim` is then 0.
    pub sets: Option<ActionSets>,
    /// Whether actions have ids.
    pub action_ids: bool,
    /// The names of the outcomes besides the primary one, in the order in which they were declared.
    pub outcomes: Vec<String>,
}

impl LogLayout {
    /// K, if the rows have a distribution over all actions.
    pub fn n_actions(&self) -> Option<usize> {
        self.full.or(self.candidate_full).filter(|_| self.sets.is_none())
    }

    /// The position of a candidate among those whose π(·|x) the rows have.
    pub fn full_position(&self, candidate: &str) -> Option<usize> {
        self.candidate_propensities.iter().position(|name| name == candidate)
    }

    /// About how many bytes the numbers of a row take.
    pub fn row_bytes(&self) -> usize {
        let lists =
            self.full.unwrap_or(0) + self.candidate_full.unwrap_or(0) * self.candidate_propensities.len();
        4 * self.dim + 8 * lists + 8 * (self.candidates.len() + self.outcomes.len()) + 64
    }

    /// How many rows a batch has at the most.
    pub fn batch_rows(&self) -> usize {
        (BATCH_BYTES / self.row_bytes()).clamp(MIN_ROWS, MAX_ROWS)
    }

    /// About how many bytes the numbers of a whole batch take.
    pub fn batch_bytes(&self) -> usize {
        self.batch_rows() * self.row_bytes()
    }
}

/// A batch of valid rows as columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogRows {
    /// The features: rows × p.
    pub x: Vec<f32>,
    /// The logged action of each row.
    pub actions: Vec<u32>,
    /// The cost of each row, in [-1, 0]; of the primary outcome if there are several.
    pub costs: Vec<f64>,
    /// The costs of the other outcomes, in the order of the layout.
    pub outcomes: Vec<Vec<f64>>,
    /// π0(a|x) of the logged action of each row.
    pub propensities: Vec<f64>,
    /// π0(·|x): rows × K, or one number per action of each row's own set; empty if it is not known.
    pub full: Vec<f64>,
    /// The `context_id` of each row; empty if the layout has none.
    pub context_ids: Vec<String>,
    /// The `event_id` of each row; empty if the layout has none.
    pub event_ids: Vec<String>,
    /// π(a|x) of the logged action: one column per candidate, in the order of the layout.
    pub candidates: Vec<Vec<f64>>,
    /// π(·|x), in the same form: one column per candidate that has it, in the order of the layout.
    pub candidate_full: Vec<Vec<f64>>,
    /// When each row was logged, in microseconds since 1970; empty if the layout has no times.
    pub timestamps: Vec<i64>,
    /// The `policy_version` of each row; empty if the layout has none.
    pub versions: Vec<String>,
    /// The actions of each row and the features; empty if all rows have the same actions.
    pub sets: Sets,
    /// The id of each action of each row, one after the other; empty if the layout has none.
    pub action_ids: Vec<String>,
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

    /// Where the numbers of each row are in columns that have one number per action, such as `full`. For
    /// `candidate_full`, K is another.
    pub fn places<'a>(&'a self, layout: &LogLayout, k: Option<usize>) -> Places<'a> {
        Places::new(layout.sets.is_some().then_some(&self.sets), k.unwrap_or(0))
    }

    /// π0(·|x) of row `i`; empty if it is not known.
    pub fn full_of(&self, layout: &LogLayout, i: usize) -> &[f64] {
        match layout.full {
            Some(_) => &self.full[self.places(layout, layout.full).of(i)],
            None => &[],
        }
    }

    /// The number of features of requests and actions that are not 0, if rows have their own actions.
    pub(crate) fn non_zeros(&self) -> u64 {
        (self.sets.x.non_zeros() + self.sets.actions.non_zeros()) as u64
    }

    /// About how many bytes the actions of the rows take, with one number for each in every column that has them.
    pub(crate) fn set_bytes(&self) -> usize {
        let columns = self.candidate_full.len() + 2;
        8 * self.non_zeros() as usize + 8 * columns * self.sets.actions.len() + 32 * self.action_ids.len()
    }

    /// Keeps the first `rows` rows, which have this layout.
    pub(crate) fn truncate(&mut self, rows: usize, layout: &LogLayout) {
        self.x.truncate(rows * layout.dim);
        let full = self.places(layout, layout.full).first(rows);
        let candidates = self.places(layout, layout.candidate_full).first(rows);
        self.full.truncate(full);
        self.candidate_full.iter_mut().for_each(|column| column.truncate(candidates));
        if layout.sets.is_some() {
            self.sets.truncate(rows);
            let actions = self.sets.actions.len();
            self.action_ids.truncate(actions);
        }
        self.timestamps.truncate(rows);
        self.versions.truncate(rows);
        self.actions.truncate(rows);
        self.costs.truncate(rows);
        self.outcomes.iter_mut().for_each(|column| column.truncate(rows));
        self.propensities.truncate(rows);
        self.context_ids.truncate(rows);
        self.event_ids.truncate(rows);
        self.candidates.iter_mut().for_each(|column| column.truncate(rows));
    }
}
