//! The log as the engine sees it: contexts, each with one or more logged interactions, read in chunks of
//! fixed size through one small trait, so that a source can hold them in memory or read them from disk.
//!
//! Everything that is computed from a log is a sum over its rows with weights 1/m_i, where m_i is the
//! number of interactions of the row's context. So a source need not keep the rows of a context together:
//! it can show them as several entries with the same ordinal, each with its weights.

mod columns;
mod guard;
mod logged;
mod logging;
mod memory;
mod outcome;
mod outcome_log;
mod part;
mod precision;
pub mod ranges;
mod sets;

use std::borrow::Cow;
use std::ops::Range;

use ndarray::{CowArray, Ix2};
use serde::{Deserialize, Serialize};

use super::error::{EngineError, Result};

pub use columns::{
    AGREEMENT_TOLERANCE, Columns, agree, check_distribution, check_full, disagrees, is_probability,
};
pub use guard::Guarded;
pub use logged::LoggedRows;
pub use logging::{LastVersion, Logging, Period, Repetitions};
pub use memory::{LoggedContexts, MAX_UNIFORM, MemoryLog, uniform};
pub use outcome::{NamedOutcome, Outcome, OutcomeKind};
pub use outcome_log::OutcomeLog;
pub use part::{PartLog, Side, Span, Split};
pub use precision::{Precision, PrecisionFinder, Rounding, SeenDigits};
pub use sets::{
    ActionSets, ChunkSets, Contexts, FeatureSpace, MAX_HASH_DIMS, Places, Sets, SetsView, Sparse,
    SparseVector, padded, uniform_over,
};

/// What a log supports. Jobs are checked against it before they run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Capabilities {
    /// Whether rows have features `x`.
    pub features: bool,
    /// Whether rows have π0(·|x) for all actions.
    pub full_propensities: bool,
    /// Whether contexts were logged more than once by design, so that the risk averages contexts.
    pub multiple_interactions: bool,
    /// Whether rows with the same `context_id` are decisions of their own.
    #[serde(default)]
    pub repeated_contexts: bool,
    /// The names of the candidates that the log carries.
    pub candidates: Vec<String>,
    /// The names of those candidates whose probabilities of all actions the log carries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidate_propensities: Vec<String>,
    /// Whether the number of actions was stated, or follows from the length of `propensities`. If not, it was
    /// read off the logged actions.
    #[serde(default)]
    pub actions_declared: bool,
    /// Whether every row carried its propensity. If not, the stored logging policy gave it.
    #[serde(default)]
    pub propensities_logged: bool,
    /// Whether the caller states that actions were drawn with exactly the probabilities that were written.
    #[serde(default)]
    pub exact_propensities: bool,
    /// How precisely the propensities were written.
    #[serde(default)]
    pub precision: Precision,
    /// How precisely each candidate's probabilities were written, in the order of `candidates`; empty if all
    /// of them have full precision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidate_precision: Vec<Precision>,
    /// Whether every logged propensity is 1/K, up to the precision with which it was written. π0(·|x) is then
    /// uniform.
    #[serde(default)]
    pub uniform: bool,
    /// The features of requests and actions, if every row has its own actions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_sets: Option<ActionSets>,
    /// The outcomes, if rows have several with names: first the primary one, whose costs are those of the log, and then
    /// the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<NamedOutcome>,
    /// Whether rows have a `timestamp`, which then decides the order of arrival.
    #[serde(default)]
    pub timestamps: bool,
    /// The times of the first and the last row, if rows have a `timestamp`; absent in datasets of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// The policy version of the last row, if rows have a `policy_version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_version: Option<LastVersion>,
}

impl Default for Capabilities {
    fn default() -> Self {
        Capabilities {
            features: false,
            full_propensities: false,
            multiple_interactions: false,
            repeated_contexts: false,
            candidates: Vec::new(),
            candidate_propensities: Vec::new(),
            actions_declared: true,
            propensities_logged: true,
            exact_propensities: false,
            precision: Precision::default(),
            candidate_precision: Vec::new(),
            uniform: false,
            action_sets: None,
            outcomes: Vec::new(),
            timestamps: false,
            period: None,
            last_version: None,
        }
    }
}

impl Capabilities {
    /// Whether π0(·|x) is known well enough for a control variate. Rounded propensities are not: their errors
    /// have either sign, and a policy could appear to improve on itself.
    pub fn control_variate(&self) -> bool {
        self.full_propensities && (self.uniform || !self.precision.is_coarse())
    }

    /// Whether the number of actions does not depend on the logged actions. That a log is uniform follows from a K that
    /// may have been read off them.
    pub fn knows_actions(&self) -> bool {
        self.action_sets.is_some() || self.actions_declared || (self.full_propensities && !self.uniform)
    }

    /// The precision of a candidate's probabilities, by its position.
    pub fn precision_of(&self, candidate: usize) -> Precision {
        self.candidate_precision.get(candidate).copied().unwrap_or_default()
    }
}

/// The sizes of a log, its outcome and its capabilities.
#[derive(Debug, Clone, PartialEq)]
pub struct LogShape {
    /// n, the number of logged interactions.
    pub rows: u64,
    /// n_c, the number of contexts; equal to `rows` if every context was logged once.
    pub contexts: u64,
    /// K, the number of actions; that of the largest set if every row has its own actions.
    pub n_actions: usize,
    /// p, the number of features; 0 if the log has none, or if they are those of action sets.
    pub dim: usize,
    /// The kind and range of the outcome; of the primary one if there are several.
    pub outcome: Outcome,
    /// Whether one policy logged every row.
    pub logging: Logging,
    /// What the log supports.
    pub capabilities: Capabilities,
}

/// A range of contexts with their interactions. The rows of entry `c` are `offsets[c]..offsets[c+1]`.
pub struct Chunk<'a> {
    /// The features: contexts × p.
    pub x: CowArray<'a, f32, Ix2>,
    /// The position of each context in the log, by first appearance. The split of a fixed log hashes it.
    pub ordinals: Cow<'a, [u64]>,
    /// The position of each row in the order of arrival.
    pub arrivals: Cow<'a, [u64]>,
    /// The first row of each context, and the number of rows at the end.
    pub offsets: Cow<'a, [u32]>,
    /// The logged action of each row.
    pub actions: Cow<'a, [u32]>,
    /// The cost of each row, in [-1, 0]; of the primary outcome if there are several.
    pub costs: Cow<'a, [f64]>,
    /// The costs of the other outcomes, in the order of `Capabilities::outcomes`.
    pub outcomes: Vec<Cow<'a, [f64]>>,
    /// π0(a|x) of the logged action of each row. For propensities that were rounded, the upper end of the
    /// interval: a larger propensity makes every bound larger.
    pub propensities: Cow<'a, [f64]>,
    /// 1/m_i of each row.
    pub weights: Cow<'a, [f64]>,
    /// π0(·|x): contexts × K. Actions that are not available have 0.
    pub full: Option<CowArray<'a, f64, Ix2>>,
    /// π(a|x) of the logged action under each logged candidate, in the order of `Capabilities::candidates`.
    /// For probabilities that were rounded, the lower ends of their intervals.
    pub candidates: Vec<Cow<'a, [f64]>>,
    /// π(·|x) of those candidates of which the log carries it: rows × K.
    pub candidate_full: Vec<Option<CowArray<'a, f64, Ix2>>>,
    /// Whether each row was logged by the last policy version; absent if rows have no version.
    pub last_version: Option<Cow<'a, [bool]>>,
    /// The actions of each context and their features, if every row has its own. Each context then has one row.
    pub sets: Option<ChunkSets<'a>>,
}

/// One context of a chunk, with one element per interaction.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The logged actions.
    pub actions: &'a [u32],
    /// Their costs, in [-1, 0].
    pub costs: &'a [f64],
    /// π0(a|x) of the logged actions.
    pub propensities: &'a [f64],
    /// The weight of each interaction, 1/m_i.
    pub weights: &'a [f64],
    /// π0(·|x), one element per action.
    pub full: Option<&'a [f64]>,
}

impl Chunk<'_> {
    /// Checks that the chunk still belongs to the log that was checked on upload: its arrays have the right
    /// shapes, and its numbers are in their ranges. Otherwise a learned layer could hide a NaN.
    ///
    /// # Errors
    /// If a shape or a number is wrong.
    pub fn check(&self, shape: &LogShape) -> Result<()> {
        self.check_columns(shape, self.x.dim() == (self.contexts(), shape.dim))
    }

    /// The same for a chunk of [`LogSource::lean_chunk`].
    ///
    /// # Errors
    /// If a shape or a number is wrong.
    pub fn check_lean(&self, shape: &LogShape) -> Result<()> {
        let contexts = self.contexts();
        self.check_columns(shape, [(contexts, shape.dim), (contexts, 0)].contains(&self.x.dim()))
    }

    fn check_columns(&self, shape: &LogShape, features: bool) -> Result<()> {
        let (contexts, rows) = (self.contexts(), self.rows());
        let shapes = features
            && self.offsets.len() == contexts + 1
            && self.offsets.first() == Some(&0)
            && all(self.offsets.windows(2), |w| w[0] < w[1])
            && self.offsets.last() == Some(&(rows as u32))
            && [self.costs.len(), self.propensities.len(), self.weights.len(), self.arrivals.len()]
                == [rows; 4]
            && self.outcomes.len() == shape.capabilities.outcomes.len().saturating_sub(1)
            && self.outcomes.iter().all(|costs| costs.len() == rows)
            && self.full.is_some() == shape.capabilities.full_propensities
            && self.full.as_ref().is_none_or(|f| f.dim() == (contexts, shape.n_actions))
            && self.candidates.len() == shape.capabilities.candidates.len()
            && self.candidates.iter().all(|c| c.len() == rows)
            && self.candidate_full.len() == self.candidates.len()
            && self.candidate_full.iter().flatten().all(|f| f.dim() == (rows, shape.n_actions))
            && self.last_version.is_some() == shape.capabilities.last_version.is_some()
            && self.last_version.as_ref().is_none_or(|v| v.len() == rows)
            && self.sets.is_some() == shape.capabilities.action_sets.is_some()
            && (self.sets.as_ref().map(|sets| sets.view()))
                .is_none_or(|v| (v.rows(), v.width()) == (rows, shape.n_actions) && contexts == rows);
        let unit = |v: &f64| (*v > 0.0) & (*v <= 1.0);
        let between = |low: f64, high: f64| move |v: &f64| (*v >= low) & (*v <= high);
        let lists = |full: &CowArray<f64, Ix2>| match full.as_slice() {
            Some(full) => all(full.iter(), between(0.0, 1.001)),
            None => full.iter().all(between(0.0, 1.001)),
        };
        let ranges = match self.x.as_slice() {
            Some(x) => all(x.iter(), |value| value.is_finite()),
            None => self.x.iter().all(|value| value.is_finite()),
        } && all(self.actions.iter(), |&a| (a as usize) < shape.n_actions)
            && std::iter::once(&self.costs)
                .chain(&self.outcomes)
                .all(|costs| all(costs.iter(), between(-1.0, 0.0)))
            && all(self.propensities.iter(), unit)
            && all(self.weights.iter(), unit)
            && self.full.iter().all(lists)
            && self.candidates.iter().all(|c| all(c.iter(), between(0.0, 1.0)))
            && self.candidate_full.iter().flatten().all(lists);
        let ranges =
            ranges && (!shapes || self.sets.as_ref().is_none_or(|sets| self.fits(sets.view(), shape)));
        match (shapes, ranges) {
            (true, true) => Ok(()),
            (false, _) => Err(EngineError::Log("a chunk does not have the log's shape".into())),
            (_, false) => Err(EngineError::Log("a number in a chunk is out of its range".into())),
        }
    }

    /// Whether every logged action is in its set, no set is too large, nothing but an available action has a
    /// probability, and features are in their dimensions.
    fn fits(&self, sets: SetsView, shape: &LogShape) -> bool {
        let spaces = shape.capabilities.action_sets.unwrap_or_default();
        let inside = |vector: SparseVector, space: FeatureSpace| {
            vector.iter().all(|(index, value)| (index as usize) < space.dim() && value.is_finite())
        };
        let padded = |full: &CowArray<f64, Ix2>, i: usize, size: usize| {
            full.row(i).iter().skip(size).all(|&p| p == 0.0)
        };
        (0..sets.rows()).all(|i| {
            let size = sets.size(i);
            (2..=shape.n_actions).contains(&size)
                && (self.actions[i] as usize) < size
                && self.full.iter().chain(self.candidate_full.iter().flatten()).all(|f| padded(f, i, size))
                && inside(sets.x(i), spaces.x)
                && (0..size).all(|a| inside(sets.action(i, a), spaces.actions))
        })
    }

    /// The contexts as policies see them.
    pub fn situations(&self) -> Contexts<'_> {
        match &self.sets {
            Some(sets) => Contexts::Sets(sets.view()),
            None => Contexts::Fixed(self.x.view()),
        }
    }

    /// The number of entries.
    pub fn contexts(&self) -> usize {
        self.ordinals.len()
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.actions.len()
    }

    /// The rows of entry `c`.
    pub fn rows_of(&self, c: usize) -> std::ops::Range<usize> {
        self.offsets[c] as usize..self.offsets[c + 1] as usize
    }

    /// Entry `c`.
    pub fn context(&self, c: usize) -> Context<'_> {
        let rows = self.rows_of(c);
        Context {
            actions: &self.actions[rows.clone()],
            costs: &self.costs[rows.clone()],
            propensities: &self.propensities[rows.clone()],
            weights: &self.weights[rows],
            full: self.full.as_ref().map(|f| f.row(c).to_slice().expect("full propensities are row-major")),
        }
    }
}

/// Without a branch per element, because every pass over a log calls it.
#[inline(always)]
fn all<T>(values: impl Iterator<Item = T>, holds: impl Fn(T) -> bool) -> bool {
    values.fold(true, |so_far, value| so_far & holds(value))
}

/// A log that can be read chunk by chunk.
pub trait LogSource: Sync {
    /// The sizes of the log, its outcome and its capabilities.
    fn shape(&self) -> &LogShape;

    /// The number of chunks.
    fn chunks(&self) -> usize;

    /// Whether every call of `chunk` checks that the rows are those that were there at first.
    fn guards_itself(&self) -> bool {
        false
    }

    /// One chunk. Every call must return the same rows in the same order.
    ///
    /// # Errors
    /// If the chunk cannot be read.
    fn chunk(&self, index: usize) -> Result<Chunk<'_>>;

    /// The same chunk for a pass that needs no features: `x` may have no columns.
    ///
    /// # Errors
    /// If the chunk cannot be read.
    fn lean_chunk(&self, index: usize) -> Result<Chunk<'_>> {
        self.chunk(index)
    }

    /// The positions of a chunk's rows in the order of arrival, if they are consecutive and known without reading it.
    fn arrivals_of(&self, _index: usize) -> Option<Range<u64>> {
        None
    }

    /// Whether the rows are in memory, so that all chunks can be held at once without a copy.
    fn in_memory(&self) -> bool {
        true
    }

    /// Whether [`LogSource::features`] reads nothing but the features that it is asked for.
    fn seeks(&self) -> bool {
        false
    }

    /// Reads the features of single contexts, each given by its chunk and its place in the chunk, one after the other.
    ///
    /// # Errors
    /// If they cannot be read.
    fn features(&self, places: &[(u32, u32)], to: &mut [f32]) -> Result<()> {
        let p = self.shape().dim;
        for (&(index, c), to) in places.iter().zip(to.chunks_exact_mut(p.max(1))) {
            let chunk = self.chunk(index as usize)?;
            to.iter_mut().zip(chunk.x.row(c as usize)).for_each(|(to, &x)| *to = x);
        }
        Ok(())
    }

    /// Copies all chunks of another log to where the rows of this one are, if that is not in memory. The copy seeks.
    ///
    /// # Errors
    /// If the rows are in memory, or chunks cannot be read or written.
    fn keep(&self, _log: &dyn LogSource) -> Result<Box<dyn LogSource>> {
        Err(EngineError::Log("a log in memory has no place to keep another one".into()))
    }
}

/// The number of contexts per chunk. It depends only on p, so sums have the same order on every machine, and
/// it is small enough for a chunk's features to stay in a core's cache between the two matrix products.
pub fn chunk_contexts(dim: usize) -> usize {
    (98_304 / dim.max(1)).clamp(64, 1024)
}
