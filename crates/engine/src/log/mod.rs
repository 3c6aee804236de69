//! The log of the deployed policy, as the core sees it: contexts, each with one or more logged
//! interactions, walked in fixed chunks behind one small trait, so that a source may hold them in
//! memory or read them from disk.
//!
//! Everything that is computed from a log is a sum over its rows, weighted by 1/m_i where m_i is
//! the number of interactions of the row's context. A source therefore need not keep a context's
//! rows together: it may show them as several entries with the same ordinal, each with its weights.

mod columns;
mod guard;
mod memory;
mod outcome;
mod part;

use std::borrow::Cow;

use ndarray::{ArrayView1, CowArray, Ix2};
use serde::{Deserialize, Serialize};

use super::error::{EngineError, Result};

pub use columns::{
    AGREEMENT_TOLERANCE, Columns, agree, check_distribution, check_full, disagrees, is_probability,
};
pub use guard::Guarded;
pub use memory::{Contexts, MemoryLog};
pub use outcome::{Outcome, OutcomeKind};
pub use part::{PartLog, Side, Split};

/// What a log can support; jobs are checked against it before they run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Capabilities {
    pub features: bool,
    pub full_propensities: bool,
    pub multiple_interactions: bool,
    pub candidates: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LogShape {
    /// n, the number of logged interactions.
    pub rows: u64,
    /// n_c, the number of contexts; equal to `rows` when every context was logged once.
    pub contexts: u64,
    /// K.
    pub n_actions: usize,
    /// p; 0 when the log has no features.
    pub dim: usize,
    pub outcome: Outcome,
    pub capabilities: Capabilities,
}

/// A run of contexts with their interactions. Rows of entry `c` are `offsets[c]..offsets[c+1]`.
pub struct Chunk<'a> {
    /// Contexts × p.
    pub x: CowArray<'a, f32, Ix2>,
    /// The context's place in the log, by first appearance; what the split hashes.
    pub ordinals: Cow<'a, [u64]>,
    pub offsets: Cow<'a, [u32]>,
    pub actions: Cow<'a, [u32]>,
    /// In [-1, 0].
    pub costs: Cow<'a, [f64]>,
    /// π0(a|x) of the logged action.
    pub propensities: Cow<'a, [f64]>,
    /// 1/m_i, a row.
    pub weights: Cow<'a, [f64]>,
    /// π0(·|x): contexts × K.
    pub full: Option<CowArray<'a, f64, Ix2>>,
    /// π(a|x) of the logged action under each logged candidate, in the order of `Capabilities::candidates`.
    pub candidates: Vec<Cow<'a, [f64]>>,
}

/// One context of a chunk.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub actions: &'a [u32],
    pub costs: &'a [f64],
    pub propensities: &'a [f64],
    pub weights: &'a [f64],
    pub full: Option<&'a [f64]>,
}

impl Chunk<'_> {
    /// Whether what a source handed over is still a piece of the log that was checked at the door:
    /// shapes that fit and numbers in their ranges. A learned layer could swallow a NaN unseen.
    pub fn check(&self, shape: &LogShape) -> Result<()> {
        let (contexts, rows) = (self.contexts(), self.rows());
        let shapes = self.x.dim() == (contexts, shape.dim)
            && self.offsets.len() == contexts + 1
            && self.offsets.first() == Some(&0)
            && self.offsets.windows(2).all(|w| w[0] < w[1])
            && self.offsets.last() == Some(&(rows as u32))
            && [self.costs.len(), self.propensities.len(), self.weights.len()] == [rows; 3]
            && self.full.is_some() == shape.capabilities.full_propensities
            && self.full.as_ref().is_none_or(|f| f.dim() == (contexts, shape.n_actions))
            && self.candidates.len() == shape.capabilities.candidates.len()
            && self.candidates.iter().all(|c| c.len() == rows);
        let unit = |v: &f64| *v > 0.0 && *v <= 1.0;
        let ranges = self.x.rows().into_iter().all(all_finite)
            && self.actions.iter().all(|&a| (a as usize) < shape.n_actions)
            && self.costs.iter().all(|c| (-1.0..=0.0).contains(c))
            && self.propensities.iter().all(unit)
            && self.weights.iter().all(unit)
            && self.full.iter().flatten().all(|p| (0.0..=1.001).contains(p))
            && self.candidates.iter().flat_map(|c| c.iter()).all(|p| (0.0..=1.0).contains(p));
        match (shapes, ranges) {
            (true, true) => Ok(()),
            (false, _) => Err(EngineError::Log("a chunk does not have the log's shape".into())),
            (_, false) => Err(EngineError::Log("a chunk holds a number out of its range".into())),
        }
    }

    pub fn contexts(&self) -> usize {
        self.ordinals.len()
    }

    pub fn rows(&self) -> usize {
        self.actions.len()
    }

    pub fn rows_of(&self, c: usize) -> std::ops::Range<usize> {
        self.offsets[c] as usize..self.offsets[c + 1] as usize
    }

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

/// Looks at all of them, without a branch for each: every pass over a log asks.
fn all_finite(x: ArrayView1<f32>) -> bool {
    x.iter().fold(true, |so_far, value| so_far & value.is_finite())
}

pub trait LogSource: Sync {
    fn shape(&self) -> &LogShape;

    fn chunks(&self) -> usize;

    /// Must give the same rows in the same order each time it is asked.
    fn chunk(&self, index: usize) -> Result<Chunk<'_>>;
}

/// Contexts a chunk: a function of p alone, so that sums have one order whatever the machine, and
/// small enough for a chunk's features to stay in a core's cache between the two matrix products.
pub fn chunk_contexts(dim: usize) -> usize {
    (98_304 / dim.max(1)).clamp(64, 1024)
}
