//! A log that must not change while a job runs. All passes of a certificate must read the rows that were
//! there when the job began and whose digest was checked; otherwise their sums are inconsistent. The same
//! holds for the learning of a split, because its policy is certified as independent of the certify side.
//! Other learning is not guarded: a bound from a fixed prior holds for any policy.

use std::ops::Range;

use bytemuck::cast_slice;
use rayon::prelude::*;
use xxhash_rust::xxh3::Xxh3;

use super::{Chunk, LogShape, LogSource};
use crate::control::Control;
use crate::error::{EngineError, Result};

/// A log that reports an error once a chunk differs from what it was at the start.
pub struct Guarded<'a> {
    log: &'a dyn LogSource,
    prints: Vec<u64>,
}

impl<'a> Guarded<'a> {
    /// Reads the log once and takes a fingerprint of every chunk.
    ///
    /// # Errors
    /// If the log cannot be read, has an unexpected number of rows, or the job is canceled.
    pub fn new(log: &'a dyn LogSource, control: &Control) -> Result<Self> {
        if log.guards_itself() {
            return Ok(Guarded { log, prints: Vec::new() });
        }
        let print = |index: usize| {
            control.check()?;
            let chunk = log.chunk(index)?;
            chunk.check(log.shape())?;
            Ok((fingerprint(&chunk), chunk.rows() as u64))
        };
        let taken = (0..log.chunks()).into_par_iter().map(print).collect::<Result<Vec<_>>>()?;
        let rows: u64 = taken.iter().map(|(_, rows)| rows).sum();
        if rows != log.shape().rows {
            let message = format!("{rows} rows were read, but {} were expected", log.shape().rows);
            return Err(EngineError::Log(message));
        }
        Ok(Guarded { log, prints: taken.into_iter().map(|(print, _)| print).collect() })
    }
}

impl LogSource for Guarded<'_> {
    fn shape(&self) -> &LogShape {
        self.log.shape()
    }

    fn chunks(&self) -> usize {
        self.log.chunks()
    }

    fn chunk(&self, index: usize) -> Result<Chunk<'_>> {
        let chunk = self.log.chunk(index)?;
        if self.log.guards_itself() {
            return Ok(chunk);
        }
        if self.prints.get(index) == Some(&fingerprint(&chunk)) {
            return Ok(chunk);
        }
        Err(EngineError::Log(format!("chunk {index} changed while the job ran")))
    }

    fn lean_chunk(&self, index: usize) -> Result<Chunk<'_>> {
        match self.log.guards_itself() {
            true => self.log.lean_chunk(index),
            // The fingerprint covers the features.
            false => self.chunk(index),
        }
    }

    fn arrivals_of(&self, index: usize) -> Option<Range<u64>> {
        self.log.arrivals_of(index)
    }

    fn in_memory(&self) -> bool {
        self.log.in_memory()
    }

    fn seeks(&self) -> bool {
        self.log.seeks()
    }

    fn features(&self, places: &[(u32, u32)], to: &mut [f32]) -> Result<()> {
        self.log.features(places, to)
    }

    fn keep(&self, log: &dyn LogSource) -> Result<Box<dyn LogSource>> {
        self.log.keep(log)
    }
}

/// Detects faults of disks and memory, and mistakes. It is no protection against attackers: whoever can change
/// the memory of a running process needs no collision.
fn fingerprint(chunk: &Chunk) -> u64 {
    let mut hash = Xxh3::new();
    for length in [chunk.contexts(), chunk.rows(), chunk.x.len()] {
        hash.update(&(length as u64).to_ne_bytes());
    }
    match chunk.x.as_slice() {
        Some(x) => hash.update(cast_slice(x)),
        None => chunk.x.iter().for_each(|value| hash.update(&value.to_ne_bytes())),
    }
    hash.update(cast_slice(&chunk.ordinals));
    hash.update(cast_slice(&chunk.arrivals));
    hash.update(cast_slice(&chunk.offsets));
    hash.update(cast_slice(&chunk.actions));
    let columns = [&chunk.costs, &chunk.propensities, &chunk.weights];
    let columns = columns.into_iter().chain(&chunk.outcomes).chain(&chunk.candidates);
    columns.for_each(|column| hash.update(cast_slice(column)));
    for full in chunk.full.iter().chain(chunk.candidate_full.iter().flatten()) {
        match full.as_slice() {
            Some(full) => hash.update(cast_slice(full)),
            None => full.iter().for_each(|value| hash.update(&value.to_ne_bytes())),
        }
    }
    if let Some(sets) = &chunk.sets {
        let view = sets.view();
        for i in 0..view.rows() {
            hash.update(&(view.size(i) as u64).to_ne_bytes());
            for vector in std::iter::once(view.x(i)).chain((0..view.size(i)).map(|a| view.action(i, a))) {
                hash.update(&(vector.indices.len() as u64).to_ne_bytes());
                hash.update(cast_slice(vector.indices));
                hash.update(cast_slice(vector.values));
            }
        }
    }
    chunk.last_version.iter().flat_map(|last| last.iter()).for_each(|&last| hash.update(&[u8::from(last)]));
    hash.digest()
}
