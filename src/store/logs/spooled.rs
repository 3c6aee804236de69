//! The temporary file that `spool` wrote row by row, as a source for the engine.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;

use ndarray::{Array2, ArrayView2, CowArray, Ix2};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::LogMemory;
use super::chunked::keep;
use super::record::{Record, Rows, SetParts};
use guarantor_engine::log::{
    Chunk, ChunkSets, Columns, LogShape, LogSource, agree, check_full, padded, uniform, uniform_over,
};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::{EngineError, Result};

/// A log in a temporary file, which is removed when this is dropped.
pub struct RecordLog {
    pub(super) shape: LogShape,
    pub(super) record: Record,
    /// Which candidates have π(·|x).
    pub(super) has_full: Vec<bool>,
    pub(super) file: File,
    /// The first row of each chunk, and the end.
    pub(super) starts: Vec<u64>,
    /// Where each chunk starts in the file, and the end of the last.
    pub(super) offsets: Vec<u64>,
    /// The sum of the hashes of each chunk's rows.
    pub(super) sums: Vec<u64>,
    /// The seed of these hashes.
    pub(super) seed: u64,
    /// The logging policy, if the rows do not contain π0(·|x).
    pub(super) logging_policy: Option<PolicyParams>,
    /// Where copies are kept.
    pub(super) memory: LogMemory,
}

impl RecordLog {
    /// The hash of a row, by its position among the rows of its chunk.
    pub(super) fn hash(&self, position: u64, record: &[u8]) -> u64 {
        xxh3_64_with_seed(record, self.seed ^ position.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The records of a chunk, checked to be as they were written.
    fn read(&self, index: usize) -> Result<Vec<u8>> {
        let (from, rows) = (self.offsets[index], self.starts[index + 1] - self.starts[index]);
        let mut bytes = vec![0; (self.offsets[index + 1] - from) as usize];
        let read = self.file.read_exact_at(&mut bytes, from);
        read.map_err(|error| EngineError::Unavailable(format!("the temporary file of the log: {error}")))?;
        let records = (0..).zip(self.record.split(&bytes));
        let (sum, found) = records
            .fold((0u64, 0), |(sum, n), (at, record)| (sum.wrapping_add(self.hash(at, record)), n + 1));
        if (sum, found) != (self.sums[index], rows) {
            return Err(EngineError::Log(format!("chunk {index} of the log's temporary file has changed")));
        }
        Ok(bytes)
    }

    /// The records of a chunk as columns, in the order of the entries.
    fn rows(&self, index: usize, bytes: &[u8]) -> Result<Rows> {
        let n = (self.starts[index + 1] - self.starts[index]) as usize;
        let mut rows = self.record.columns(n, &self.has_full);
        let mut sets = SetParts::default();
        for record in self.record.split(bytes) {
            self.record.read(record, &mut rows, &mut sets);
        }
        if self.record.sets {
            let whole = sets.finish().filter(|sets| sets.rows() == n);
            let damaged = || EngineError::Log("the action sets of a chunk do not fit together".into());
            rows.columns.sets = Some(whole.ok_or_else(damaged)?);
        }
        if !self.record.arrivals {
            rows.arrivals = (self.starts[index]..self.starts[index + 1]).collect();
        }
        if !self.record.ordinals {
            rows.ordinals = rows.arrivals.clone();
        }
        Ok(rows.sorted(self.record.grouped))
    }

    /// A chunk with the rows of each context together and contexts by first appearance.
    fn group(&self, rows: Rows) -> Result<Chunk<'_>> {
        let Rows { columns, ordinals, .. } = &rows;
        let (p, k) = (columns.dim, self.record.n_actions);
        let (mut x, mut full) = (Vec::new(), columns.full.as_ref().map(|_| Vec::new()));
        let (mut contexts, mut offsets, mut weights) = (Vec::new(), vec![0u32], Vec::new());
        let order: Vec<usize> = (0..ordinals.len()).collect();
        for rows in order.chunk_by(|&a, &b| ordinals[a] == ordinals[b]) {
            let of = |i: usize| &columns.x[i * p..(i + 1) * p];
            let pi = |i: usize| columns.full.as_ref().map_or(&[][..], |full| &full[i * k..(i + 1) * k]);
            let first = rows[0];
            if rows.iter().any(|&i| of(i) != of(first) || !agree(pi(first), pi(i))) {
                return Err(EngineError::Log("rows with the same context_id differ".into()));
            }
            contexts.push(ordinals[first]);
            x.extend_from_slice(of(first));
            full.iter_mut().for_each(|full| full.extend_from_slice(pi(first)));
            weights.resize(weights.len() + rows.len(), 1.0 / rows.len() as f64);
            offsets.push(weights.len() as u32);
        }
        let columns = Columns { x, full, ..rows.columns };
        self.assemble(Rows { columns, ordinals: contexts, ..rows }, offsets, weights)
    }

    /// A chunk in which each row is an entry.
    fn plain(&self, rows: Rows) -> Result<Chunk<'_>> {
        let n = rows.columns.rows();
        self.assemble(rows, (0..=n as u32).collect(), vec![1.0; n])
    }

    /// A chunk of entries with one `x`, `full` and ordinal each, and of rows.
    fn assemble(&self, rows: Rows, offsets: Vec<u32>, weights: Vec<f64>) -> Result<Chunk<'_>> {
        let Rows { columns, ordinals, arrivals, last } = rows;
        let (entries, n, k) = (ordinals.len(), columns.rows(), self.record.n_actions);
        // Rows with sets are entries of their own.
        let per_action = |rows: usize, values: Vec<f64>| match &columns.sets {
            Some(sets) => Ok(CowArray::from(padded(&values, sets, 0..rows, k))),
            None => matrix(rows, k, values),
        };
        let made_up = || {
            let uniform = match &columns.sets {
                Some(sets) => uniform_over(ChunkSets::part(sets, 0..n, k).view()),
                None => uniform(entries, k),
            };
            self.shape.capabilities.full_propensities.then(|| CowArray::from(uniform))
        };
        let candidate = |full: Option<Vec<f64>>| full.map(|full| per_action(n, full)).transpose();
        Ok(Chunk {
            x: matrix(entries, columns.dim, columns.x)?,
            full: match columns.full {
                Some(full) => Some(per_action(entries, full)?),
                None if self.logging_policy.is_some() => None,
                None => made_up(),
            },
            ordinals: ordinals.into(),
            arrivals: arrivals.into(),
            offsets: offsets.into(),
            actions: columns.actions.into(),
            costs: columns.costs.into(),
            outcomes: columns.other_costs.into_iter().map(Into::into).collect(),
            propensities: columns.propensities.into(),
            weights: weights.into(),
            candidates: columns.candidates.into_iter().map(|(_, values)| values.into()).collect(),
            candidate_full: columns.candidate_full.into_iter().map(candidate).collect::<Result<_>>()?,
            last_version: self.record.versions.then(|| last.into()),
            sets: columns.sets.map(|sets| ChunkSets::owned(sets, k)),
        })
    }
}

/// Computes π0(·|x) from the logging policy and checks it against the logged propensities.
pub fn fill(chunk: &mut Chunk, policy: &PolicyParams, first_row: u64) -> Result<()> {
    let full = policy.propensities(chunk.situations())?;
    for (c, pi) in full.rows().into_iter().enumerate() {
        let pi = pi.to_vec();
        for row in chunk.rows_of(c) {
            let number = first_row as usize + row + 1;
            let action = chunk.actions[row] as usize;
            check_full(number, &pi, action, chunk.propensities[row])?;
            chunk.propensities.to_mut()[row] = pi[action];
        }
    }
    chunk.full = Some(CowArray::from(full));
    Ok(())
}

/// A matrix of these values, row by row.
pub fn matrix<'a, T: Clone>(
    rows: usize,
    columns: usize,
    values: impl Into<Cow<'a, [T]>>,
) -> Result<CowArray<'a, T, Ix2>> {
    let matrix = match values.into() {
        Cow::Owned(values) => Array2::from_shape_vec((rows, columns), values).map(CowArray::from),
        Cow::Borrowed(values) => ArrayView2::from_shape((rows, columns), values).map(CowArray::from),
    };
    matrix.map_err(|error| EngineError::Log(error.to_string()))
}

impl LogSource for RecordLog {
    /// Each chunk is compared with the hashes of the rows that were written, and with their number.
    fn guards_itself(&self) -> bool {
        true
    }

    fn shape(&self) -> &LogShape {
        &self.shape
    }

    fn chunks(&self) -> usize {
        self.sums.len()
    }

    fn in_memory(&self) -> bool {
        false
    }

    fn keep(&self, log: &dyn LogSource) -> Result<Box<dyn LogSource>> {
        keep(log, &self.memory)
    }

    fn chunk(&self, index: usize) -> Result<Chunk<'_>> {
        let rows = self.rows(index, &self.read(index)?)?;
        let mut chunk = match self.record.grouped {
            true => self.group(rows)?,
            false => self.plain(rows)?,
        };
        if let Some(policy) = &self.logging_policy {
            fill(&mut chunk, policy, self.starts[index])?;
        }
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::super::order::Place;
    use super::super::record::Record;
    use super::*;
    use guarantor_engine::log::{Capabilities, Logging, Outcome};

    #[test]
    fn a_byte_that_changes_after_it_was_written_is_noticed() {
        let record = Record {
            dim: 1,
            full: false,
            candidates: 0,
            candidate_full: 0,
            n_actions: 2,
            grouped: false,
            ordinals: false,
            arrivals: false,
            versions: false,
            sets: false,
            outcomes: 0,
        };
        let columns = Columns {
            dim: 1,
            x: vec![1.0, 2.0],
            actions: vec![0, 1],
            costs: vec![-1.0, 0.0],
            propensities: vec![0.5; 2],
            ..Columns::default()
        };
        let mut bytes = Vec::new();
        for i in 0..2 {
            let place = Place { arrival: i, ordinal: i };
            record.write(&columns, i as usize, (place, false), &mut bytes);
        }
        let mut log = RecordLog {
            shape: LogShape {
                rows: 2,
                contexts: 2,
                n_actions: 2,
                dim: 1,
                outcome: Outcome::default(),
                logging: Logging::Fixed,
                capabilities: Capabilities { features: true, ..Capabilities::default() },
            },
            has_full: Vec::new(),
            record,
            file: tempfile::tempfile().unwrap(),
            starts: vec![0, 2],
            offsets: vec![0, bytes.len() as u64],
            sums: Vec::new(),
            seed: 7,
            logging_policy: None,
            memory: LogMemory::default(),
        };
        let hashes = (0..).zip(record.split(&bytes)).map(|(at, row)| log.hash(at, row));
        log.sums = vec![hashes.fold(0, u64::wrapping_add)];
        log.file.write_all_at(&bytes, 0).unwrap();
        assert_eq!(log.chunk(0).unwrap().costs, columns.costs);
        for (at, byte) in (0..).zip(&bytes) {
            log.file.write_all_at(&[byte ^ 4], at).unwrap();
            assert!(log.chunk(0).is_err(), "byte {at}");
            log.file.write_all_at(&[*byte], at).unwrap();
        }
        // Two rows that swapped places are not what was written.
        let (first, second) = bytes.split_at(bytes.len() / 2);
        log.file.write_all_at(&[second, first].concat(), 0).unwrap();
        assert!(log.chunk(0).is_err());
        log.file.set_len(bytes.len() as u64 / 2).unwrap();
        assert!(log.chunk(0).is_err());
    }
}
