//! A log that must not change while a job runs. All passes of a certificate must read the rows that were
//! there when the job began and whose digest was checked; otherwise their sums are inconsistent. The same
//! holds for the learning of a split, because its policy is certified as independent of the certify side.
//! Other learning is not guarded: a bound from a fixed prior holds for any policy.

use rayon::prelude::*;

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
        if self.prints.get(index) == Some(&fingerprint(&chunk)) {
            return Ok(chunk);
        }
        Err(EngineError::Log(format!("chunk {index} changed while the job ran")))
    }
}

/// Odd, so multiplication is invertible, and one changed number always changes the sum of its lane.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Four independent sums, because one chain of multiplications would be slower than memory.
struct Print([u64; 4]);

impl Print {
    fn add(&mut self, lane: usize, word: u64) {
        let sum = &mut self.0[lane];
        *sum = (*sum ^ word).wrapping_mul(MULTIPLIER).rotate_left(29);
    }

    fn add_f32(&mut self, values: &[f32]) {
        let (eights, rest) = values.as_chunks::<8>();
        for eight in eights {
            for lane in 0..4 {
                let low = u64::from(eight[2 * lane].to_bits());
                self.add(lane, low | u64::from(eight[2 * lane + 1].to_bits()) << 32);
            }
        }
        self.add_all(rest.iter().map(|v| u64::from(v.to_bits())));
    }

    fn add_f64(&mut self, values: &[f64]) {
        let (fours, rest) = values.as_chunks::<4>();
        for four in fours {
            for lane in 0..4 {
                self.add(lane, four[lane].to_bits());
            }
        }
        self.add_all(rest.iter().map(|v| v.to_bits()));
    }

    fn add_all(&mut self, words: impl Iterator<Item = u64>) {
        words.for_each(|word| self.add(0, word));
    }
}

/// Detects disk faults, memory faults and mistakes. It does not protect against attackers: anyone who can
/// change the memory of a running process needs no collision.
fn fingerprint(chunk: &Chunk) -> u64 {
    let mut print = Print([1, 2, 3, 4]);
    print.add_all([chunk.contexts(), chunk.rows(), chunk.x.len()].into_iter().map(|n| n as u64));
    match chunk.x.as_slice() {
        Some(x) => print.add_f32(x),
        None => chunk.x.rows().into_iter().for_each(|row| print.add_f32(&row.to_vec())),
    }
    print.add_all(chunk.ordinals.iter().copied());
    print.add_all(chunk.offsets.iter().map(|&v| u64::from(v)));
    print.add_all(chunk.actions.iter().map(|&v| u64::from(v)));
    let columns = [&chunk.costs, &chunk.propensities, &chunk.weights];
    columns.into_iter().chain(&chunk.candidates).for_each(|column| print.add_f64(column));
    match chunk.full.as_ref().map(|full| (full.as_slice(), full)) {
        Some((Some(full), _)) => print.add_f64(full),
        Some((None, full)) => full.rows().into_iter().for_each(|row| print.add_f64(&row.to_vec())),
        None => {}
    }
    let [a, b, c, d] = print.0;
    [b, c, d].into_iter().fold(a, |sum, lane| (sum.rotate_left(17) ^ lane).wrapping_mul(MULTIPLIER))
}
