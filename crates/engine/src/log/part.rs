//! The rows of a log that a job learns from, and those that it certifies (docs/math.md#split).
//!
//! In a log that may have been logged by a policy that learned, later rows know the outcomes of earlier ones. So
//! what is learned comes from rows that arrived before the first certified row. In a log of one fixed policy,
//! contexts can instead be divided by a hash of their ordinal: the side of a context must not depend on
//! anything in its rows.

use std::borrow::Cow;

use ndarray::{Array2, Axis, CowArray};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Chunk, ChunkSets, LogShape, LogSource, Sets};
use crate::error::{EngineError, Result};

/// The division of the contexts of a fixed log into a learn side and a certify side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Split {
    /// The seed of the hash that divides the contexts.
    pub seed: u64,
    /// Share of the contexts on the learn side.
    pub fraction: f64,
}

/// Which rows a job learns from, and which it certifies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Span {
    /// Contexts are divided by a hash, whenever they arrived.
    Hash(Split),
    /// Rows are divided by their order of arrival.
    Time {
        /// The position of the first certified row in the order of arrival. Earlier rows are learned from.
        first_certified_row: u64,
        /// The policy version whose rows are certified; absent if rows have no version. Rows of other versions
        /// that arrived after the first certified row are not used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy_version: Option<String>,
    },
}

impl Span {
    /// The side of entry `c` of a chunk; none if its rows are used by neither. A context that straddles the
    /// first certified row is on neither side: what was learned could know its outcomes.
    pub fn side(&self, chunk: &Chunk, c: usize) -> Option<Side> {
        let (first, version) = match self {
            Span::Hash(split) => return Some(split.side(chunk.ordinals[c])),
            Span::Time { first_certified_row, policy_version } => (*first_certified_row, policy_version),
        };
        let rows = chunk.rows_of(c);
        let arrivals = &chunk.arrivals[rows.clone()];
        if arrivals.iter().all(|&arrival| arrival < first) {
            return Some(Side::Learn);
        }
        let of_version = match (version, &chunk.last_version) {
            (Some(_), Some(last)) => last[rows].iter().all(|&last| last),
            _ => version.is_none(),
        };
        (of_version && arrivals.iter().all(|&arrival| arrival >= first)).then_some(Side::Certify)
    }

    /// The number of rows of a chunk that has none on this side, if that is known without reading it.
    fn skips(&self, log: &dyn LogSource, index: usize, side: Side) -> Option<u64> {
        let Span::Time { first_certified_row: first, .. } = self else { return None };
        let arrivals = log.arrivals_of(index)?;
        let other = match side {
            Side::Learn => arrivals.start >= *first,
            Side::Certify => arrivals.end <= *first,
        };
        other.then_some(arrivals.end - arrivals.start)
    }

    /// Whether all rows are certified.
    pub fn is_everything(&self) -> bool {
        *self == Span::Time { first_certified_row: 0, policy_version: None }
    }
}

/// One side of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Anything can be learned from it, because the bound never sees it.
    Learn,
    /// The bound is computed on it.
    Certify,
}

impl Split {
    /// The side of the context with this ordinal.
    pub fn side(&self, ordinal: u64) -> Side {
        let unit = (mix(self.seed, ordinal) >> 11) as f64 / (1u64 << 53) as f64;
        if unit < self.fraction { Side::Learn } else { Side::Certify }
    }
}

/// SplitMix64's finalizer over (seed, ordinal).
fn mix(seed: u64, ordinal: u64) -> u64 {
    let mut h = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(ordinal.wrapping_add(1).wrapping_mul(0xd1b5_4a32_d192_ed03));
    for _ in 0..2 {
        h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        h ^= h >> 31;
    }
    h
}

/// One side of another log. It is gathered chunk by chunk, so the features are never all copied.
pub struct PartLog<'a> {
    log: &'a dyn LogSource,
    span: Span,
    side: Side,
    shape: LogShape,
}

impl<'a> PartLog<'a> {
    /// One side of a log.
    ///
    /// # Errors
    /// If the log cannot be read, or the side is empty.
    pub fn new(log: &'a dyn LogSource, span: Span, side: Side) -> Result<Self> {
        let mut shape = log.shape().clone();
        (shape.rows, shape.contexts) = (0, 0);
        let count = |index: usize| {
            if let Some(rows) = span.skips(log, index, side) {
                return Ok((rows, 0, 0.0));
            }
            let chunk = log.lean_chunk(index)?;
            chunk.check_lean(log.shape())?;
            let (mut own, mut weight) = (0, 0.0);
            for c in (0..chunk.contexts()).filter(|&c| span.side(&chunk, c) == Some(side)) {
                let rows = chunk.rows_of(c);
                own += rows.len() as u64;
                weight += chunk.weights[rows].iter().sum::<f64>();
            }
            Ok((chunk.rows() as u64, own, weight))
        };
        let counted = (0..log.chunks()).into_par_iter().map(count).collect::<Result<Vec<_>>>()?;
        let (mut weight, mut seen) = (0.0, 0);
        for (rows, own, weights) in counted {
            seen += rows;
            shape.rows += own;
            weight += weights;
        }
        // Later passes over one side would not notice rows that are missing from the log.
        if seen != log.shape().rows {
            let message = format!("{seen} rows were read, but {} were expected", log.shape().rows);
            return Err(EngineError::Log(message));
        }
        // Weights are 1/m_i, so their sum is the number of contexts even if a source shows one in pieces.
        shape.contexts = weight.round() as u64;
        shape.capabilities.multiple_interactions = shape.contexts < shape.rows;
        if shape.rows == 0 {
            let rows = log.shape().rows;
            let message = match side {
                Side::Learn => format!("of {rows} rows, none is left to learn from"),
                Side::Certify => format!("of {rows} rows, none is left to certify"),
            };
            return Err(EngineError::Log(message));
        }
        Ok(PartLog { log, span, side, shape })
    }
}

impl LogSource for PartLog<'_> {
    fn shape(&self) -> &LogShape {
        &self.shape
    }

    fn chunks(&self) -> usize {
        self.log.chunks()
    }

    fn chunk(&self, index: usize) -> Result<Chunk<'_>> {
        if self.span.skips(self.log, index, self.side).is_some() {
            return Ok(self.nothing());
        }
        let whole = self.log.chunk(index)?;
        whole.check(self.log.shape())?;
        Ok(self.own(whole))
    }

    fn in_memory(&self) -> bool {
        self.log.in_memory()
    }

    fn keep(&self, log: &dyn LogSource) -> Result<Box<dyn LogSource>> {
        self.log.keep(log)
    }

    fn lean_chunk(&self, index: usize) -> Result<Chunk<'_>> {
        if self.span.skips(self.log, index, self.side).is_some() {
            return Ok(self.nothing());
        }
        let whole = self.log.lean_chunk(index)?;
        whole.check_lean(self.log.shape())?;
        Ok(self.own(whole))
    }
}

impl PartLog<'_> {
    /// A chunk without rows.
    fn nothing<'a>(&self) -> Chunk<'a> {
        let (shape, k) = (&self.shape, self.shape.n_actions);
        let capabilities = &shape.capabilities;
        let list = || CowArray::from(Array2::zeros((0, k)));
        let has_full = |name: &String| capabilities.candidate_propensities.contains(name).then(list);
        Chunk {
            x: CowArray::from(Array2::zeros((0, shape.dim))),
            ordinals: Cow::Borrowed(&[]),
            arrivals: Cow::Borrowed(&[]),
            offsets: Cow::Borrowed(&[0]),
            actions: Cow::Borrowed(&[]),
            costs: Cow::Borrowed(&[]),
            outcomes: vec![Cow::Borrowed(&[][..]); capabilities.outcomes.len().saturating_sub(1)],
            propensities: Cow::Borrowed(&[]),
            weights: Cow::Borrowed(&[]),
            full: capabilities.full_propensities.then(list),
            candidates: vec![Cow::Borrowed(&[][..]); capabilities.candidates.len()],
            candidate_full: capabilities.candidates.iter().map(has_full).collect(),
            last_version: capabilities.last_version.as_ref().map(|_| Cow::Borrowed(&[][..])),
            sets: capabilities.action_sets.map(|_| ChunkSets::owned(Sets::default(), k)),
        }
    }

    /// The rows of a chunk that are on this side.
    fn own<'a>(&self, whole: Chunk<'a>) -> Chunk<'a> {
        let kept = |&c: &usize| self.span.side(&whole, c) == Some(self.side);
        let contexts: Vec<usize> = (0..whole.contexts()).filter(kept).collect();
        if contexts.len() == whole.contexts() {
            return whole;
        }
        let rows: Vec<usize> = contexts.iter().flat_map(|&c| whole.rows_of(c)).collect();
        let mut offsets = vec![0u32];
        for &c in &contexts {
            offsets.push(offsets[offsets.len() - 1] + whole.rows_of(c).len() as u32);
        }
        let pick = |values: &[f64]| Cow::Owned(rows.iter().map(|&i| values[i]).collect::<Vec<_>>());
        Chunk {
            x: CowArray::from(gather(&whole.x.view(), &contexts)),
            ordinals: contexts.iter().map(|&c| whole.ordinals[c]).collect(),
            arrivals: rows.iter().map(|&i| whole.arrivals[i]).collect(),
            offsets: Cow::Owned(offsets),
            actions: rows.iter().map(|&i| whole.actions[i]).collect(),
            costs: pick(&whole.costs),
            outcomes: whole.outcomes.iter().map(|costs| pick(costs)).collect(),
            propensities: pick(&whole.propensities),
            weights: pick(&whole.weights),
            full: (whole.full.as_ref()).map(|f| CowArray::from(f.select(Axis(0), &contexts))),
            candidates: whole.candidates.iter().map(|c| pick(c)).collect(),
            candidate_full: (whole.candidate_full.iter())
                .map(|full| Some(CowArray::from(full.as_ref()?.select(Axis(0), &rows))))
                .collect(),
            last_version: whole.last_version.as_ref().map(|last| rows.iter().map(|&i| last[i]).collect()),
            sets: whole.sets.as_ref().map(|sets| {
                ChunkSets::owned(sets.view().to_sets(contexts.iter().copied()), self.shape.n_actions)
            }),
        }
    }
}

fn gather(x: &ndarray::ArrayView2<f32>, contexts: &[usize]) -> Array2<f32> {
    let mut out = Vec::with_capacity(contexts.len() * x.ncols());
    for &c in contexts {
        out.extend(x.row(c).iter());
    }
    Array2::from_shape_vec((contexts.len(), x.ncols()), out).expect("rows have one length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_stable_and_near_their_share() {
        let split = Split { seed: 7, fraction: 0.3 };
        let learn = (0..100_000).filter(|&i| split.side(i) == Side::Learn).count();
        assert!((29_000..31_000).contains(&learn), "{learn}");
        let other = Split { seed: 8, fraction: 0.3 };
        let moved = (0..100_000).filter(|&i| split.side(i) != other.side(i)).count();
        assert!((40_000..44_000).contains(&moved), "{moved}");
    }
}
