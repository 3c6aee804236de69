//! A log with φ(x) in place of its features. Refining a policy on the certify side makes many passes over it, so φ is
//! computed once. It is in memory if the log is, and otherwise where the log keeps it.

use ndarray::CowArray;
use std::borrow::Cow;

use crate::error::Result;
use crate::log::{Chunk, LogShape, LogSource};
use crate::policy::FeatureMap;

/// A log with φ(x) in place of its features.
///
/// # Errors
/// If the log cannot be read.
pub fn material(log: &dyn LogSource, features: &FeatureMap) -> Result<Box<dyn LogSource>> {
    match log.in_memory() {
        true => Ok(Box::new(MaterialLog::new(log, features)?)),
        false => log.keep(&Mapped::new(log, features)),
    }
}

/// A log whose chunks get φ(x) in place of their features as they are read.
struct Mapped<'a> {
    log: &'a dyn LogSource,
    features: &'a FeatureMap,
    shape: LogShape,
}

impl<'a> Mapped<'a> {
    fn new(log: &'a dyn LogSource, features: &'a FeatureMap) -> Self {
        let mut shape = log.shape().clone();
        shape.dim = features.output_dim(shape.dim);
        Mapped { log, features, shape }
    }
}

impl LogSource for Mapped<'_> {
    fn shape(&self) -> &LogShape {
        &self.shape
    }

    fn chunks(&self) -> usize {
        self.log.chunks()
    }

    fn chunk(&self, index: usize) -> Result<Chunk<'_>> {
        let chunk = self.log.chunk(index)?;
        let x = CowArray::from(self.features.apply(chunk.x.view()).into_owned());
        Ok(Chunk { x, ..chunk })
    }
}

/// A log in memory with φ(x) in place of its features.
struct MaterialLog {
    shape: LogShape,
    chunks: Vec<Chunk<'static>>,
}

impl MaterialLog {
    /// Copies a log and applies φ.
    fn new(log: &dyn LogSource, features: &FeatureMap) -> Result<Self> {
        let mut shape = log.shape().clone();
        shape.dim = features.output_dim(shape.dim);
        let chunks = (0..log.chunks())
            .map(|index| {
                let chunk = log.chunk(index)?;
                Ok(Chunk {
                    sets: None,
                    x: CowArray::from(features.apply(chunk.x.view()).into_owned()),
                    ordinals: Cow::Owned(chunk.ordinals.into_owned()),
                    arrivals: Cow::Owned(chunk.arrivals.into_owned()),
                    offsets: Cow::Owned(chunk.offsets.into_owned()),
                    actions: Cow::Owned(chunk.actions.into_owned()),
                    costs: Cow::Owned(chunk.costs.into_owned()),
                    outcomes: chunk.outcomes.into_iter().map(|c| Cow::Owned(c.into_owned())).collect(),
                    propensities: Cow::Owned(chunk.propensities.into_owned()),
                    weights: Cow::Owned(chunk.weights.into_owned()),
                    full: chunk.full.map(|f| CowArray::from(f.into_owned())),
                    candidates: chunk.candidates.into_iter().map(|c| Cow::Owned(c.into_owned())).collect(),
                    candidate_full: (chunk.candidate_full.into_iter())
                        .map(|full| full.map(|full| CowArray::from(full.into_owned())))
                        .collect(),
                    last_version: chunk.last_version.map(|last| Cow::Owned(last.into_owned())),
                })
            })
            .collect::<Result<_>>()?;
        Ok(MaterialLog { shape, chunks })
    }
}

impl LogSource for MaterialLog {
    fn shape(&self) -> &LogShape {
        &self.shape
    }

    fn chunks(&self) -> usize {
        self.chunks.len()
    }

    fn chunk(&self, index: usize) -> Result<Chunk<'_>> {
        let chunk = &self.chunks[index];
        Ok(Chunk {
            sets: None,
            x: CowArray::from(chunk.x.view()),
            ordinals: Cow::Borrowed(&chunk.ordinals),
            arrivals: Cow::Borrowed(&chunk.arrivals),
            offsets: Cow::Borrowed(&chunk.offsets),
            actions: Cow::Borrowed(&chunk.actions),
            costs: Cow::Borrowed(&chunk.costs),
            outcomes: chunk.outcomes.iter().map(|costs| Cow::Borrowed(&costs[..])).collect(),
            propensities: Cow::Borrowed(&chunk.propensities),
            weights: Cow::Borrowed(&chunk.weights),
            full: chunk.full.as_ref().map(|f| CowArray::from(f.view())),
            candidates: chunk.candidates.iter().map(|c| Cow::Borrowed(&c[..])).collect(),
            candidate_full: (chunk.candidate_full.iter())
                .map(|full| full.as_ref().map(|full| CowArray::from(full.view())))
                .collect(),
            last_version: chunk.last_version.as_ref().map(|last| Cow::Borrowed(&last[..])),
        })
    }
}
