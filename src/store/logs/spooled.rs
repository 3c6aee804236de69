//! The temporary file that `spool` wrote, as a source for the engine.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::FileExt;

use ndarray::{Array2, CowArray, Ix2};

use super::order::Place;
use guarantor_engine::log::{Chunk, Columns, LogShape, LogSource, agree, check_full, uniform};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::{EngineError, Result};

/// A log in a temporary file, which is removed when this is dropped.
pub struct SpooledLog {
    pub(super) shape: LogShape,
    pub(super) record: Record,
    /// Which candidates have π(·|x).
    pub(super) has_full: Vec<bool>,
    pub(super) file: File,
    /// The first row of each chunk, and the end.
    pub(super) starts: Vec<u64>,
    /// The sum of the hashes of each chunk's rows.
    pub(super) sums: Vec<u64>,
    pub(super) hasher: RandomState,
    /// The logging policy, if the rows do not contain π0(·|x).
    pub(super) logging_policy: Option<PolicyParams>,
}

/// The layout of a row in the file. All rows have the same length; numbers are little-endian.
#[derive(Clone, Copy)]
pub struct Record {
    /// The number of features.
    pub dim: usize,
    /// K, or 0 if the rows do not contain π0(·|x).
    pub full: usize,
    /// The number of logged candidates.
    pub candidates: usize,
    /// The number of candidates with π(·|x).
    pub candidate_full: usize,
    /// K.
    pub n_actions: usize,
    /// Whether the rows of a context are one entry.
    pub grouped: bool,
    /// Whether rows contain the number of their context.
    pub ordinals: bool,
    /// Whether rows contain their position in the order of arrival.
    pub arrivals: bool,
    /// Whether rows contain whether they are of the last policy version.
    pub versions: bool,
}

impl Record {
    /// The length of a row.
    pub fn bytes(&self) -> usize {
        let doubles = self.full + self.candidates + self.candidate_full * self.n_actions;
        let integers = usize::from(self.ordinals) + usize::from(self.arrivals);
        20 + 4 * (self.dim + integers) + 8 * doubles + usize::from(self.versions)
    }

    /// Appends row `i` of `columns` to `out`.
    pub fn write(&self, columns: &Columns, i: usize, (place, last): (Place, bool), out: &mut Vec<u8>) {
        out.extend(columns.actions[i].to_le_bytes());
        out.extend(columns.costs[i].to_le_bytes());
        out.extend(columns.propensities[i].to_le_bytes());
        let x = &columns.x[i * self.dim..(i + 1) * self.dim];
        x.iter().for_each(|value| out.extend(value.to_le_bytes()));
        let full = columns.full.iter().flat_map(|full| &full[i * self.full..(i + 1) * self.full]);
        full.for_each(|value| out.extend(value.to_le_bytes()));
        columns.candidates.iter().for_each(|(_, values)| out.extend(values[i].to_le_bytes()));
        let k = self.n_actions;
        let full = columns.candidate_full.iter().flatten().flat_map(|full| &full[i * k..(i + 1) * k]);
        full.for_each(|value| out.extend(value.to_le_bytes()));
        if self.ordinals {
            out.extend((place.ordinal as u32).to_le_bytes());
        }
        if self.arrivals {
            out.extend((place.arrival as u32).to_le_bytes());
        }
        if self.versions {
            out.push(u8::from(last));
        }
    }
}

/// The rows of a chunk.
struct Rows {
    columns: Columns,
    ordinals: Vec<u64>,
    arrivals: Vec<u64>,
    last: Vec<bool>,
}

/// Reads the numbers of a record, whose length was checked.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => [0xff; N],
        }
    }

    fn integer(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn double(&mut self) -> f64 {
        f64::from_le_bytes(self.take())
    }
}

impl SpooledLog {
    pub(super) fn hash(&self, position: u64, record: &[u8]) -> u64 {
        self.hasher.hash_one((position, record))
    }

    /// The records of a chunk, checked to be as they were written.
    fn read(&self, index: usize) -> Result<Vec<u8>> {
        let (size, from) = (self.record.bytes(), self.starts[index]);
        let mut bytes = vec![0; (self.starts[index + 1] - from) as usize * size];
        let read = self.file.read_exact_at(&mut bytes, from * size as u64);
        read.map_err(|error| EngineError::Unavailable(format!("the temporary file of the log: {error}")))?;
        let hashes = (from..).zip(bytes.chunks_exact(size)).map(|(at, record)| self.hash(at, record));
        if hashes.fold(0, u64::wrapping_add) != self.sums[index] {
            return Err(EngineError::Log(format!("chunk {index} of the log's temporary file has changed")));
        }
        Ok(bytes)
    }

    /// The records of a chunk as columns, in the order of the entries.
    fn rows(&self, index: usize, bytes: &[u8]) -> Rows {
        let Record { dim, full, n_actions, .. } = self.record;
        let size = self.record.bytes();
        let n = bytes.len() / size;
        let mut columns = Columns {
            n_actions,
            dim,
            x: Vec::with_capacity(n * dim),
            actions: Vec::with_capacity(n),
            costs: Vec::with_capacity(n),
            propensities: Vec::with_capacity(n),
            full: (full > 0).then(|| Vec::with_capacity(n * full)),
            candidates: vec![(String::new(), Vec::with_capacity(n)); self.record.candidates],
            candidate_full: self
                .has_full
                .iter()
                .map(|has| has.then(|| Vec::with_capacity(n * n_actions)))
                .collect(),
            ..Columns::default()
        };
        let (mut ordinals, mut arrivals, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for record in bytes.chunks_exact(size) {
            let mut fields = Fields(record);
            columns.actions.push(fields.integer());
            columns.costs.push(fields.double());
            columns.propensities.push(fields.double());
            columns.x.extend((0..dim).map(|_| f32::from_le_bytes(fields.take())));
            if let Some(to) = &mut columns.full {
                to.extend((0..full).map(|_| fields.double()));
            }
            columns.candidates.iter_mut().for_each(|(_, to)| to.push(fields.double()));
            for to in columns.candidate_full.iter_mut().flatten() {
                to.extend((0..n_actions).map(|_| fields.double()));
            }
            if self.record.ordinals {
                ordinals.push(fields.integer().into());
            }
            if self.record.arrivals {
                arrivals.push(fields.integer().into());
            }
            if self.record.versions {
                last.push(fields.take::<1>() == [1]);
            }
        }
        if !self.record.arrivals {
            arrivals = (self.starts[index]..self.starts[index + 1]).collect();
        }
        if !self.record.ordinals {
            ordinals = arrivals.clone();
        }
        Rows { columns, ordinals, arrivals, last }.sorted(self.record.grouped)
    }

    /// A chunk with the rows of each context together and contexts by first appearance.
    fn group(&self, rows: Rows) -> Result<Chunk<'_>> {
        let Rows { columns, ordinals, .. } = &rows;
        let (p, k) = (columns.dim, self.record.full);
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
        let made_up = self.shape.capabilities.full_propensities.then(|| CowArray::from(uniform(entries, k)));
        let candidate = |full: Option<Vec<f64>>| full.map(|full| matrix(n, k, full)).transpose();
        Ok(Chunk {
            x: matrix(entries, columns.dim, columns.x)?,
            full: match columns.full {
                Some(full) => Some(matrix(entries, k, full)?),
                None if self.logging_policy.is_some() => None,
                None => made_up,
            },
            ordinals: ordinals.into(),
            arrivals: arrivals.into(),
            offsets: offsets.into(),
            actions: columns.actions.into(),
            costs: columns.costs.into(),
            propensities: columns.propensities.into(),
            weights: weights.into(),
            candidates: columns.candidates.into_iter().map(|(_, values)| values.into()).collect(),
            candidate_full: columns.candidate_full.into_iter().map(candidate).collect::<Result<_>>()?,
            last_version: self.record.versions.then(|| last.into()),
            sets: None,
        })
    }

    /// Computes π0(·|x) from the logging policy and checks it against the logged propensities.
    fn fill(&self, chunk: &mut Chunk, policy: &PolicyParams, first_row: u64) -> Result<()> {
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
}

impl Rows {
    /// The rows in the order of their entries: of their contexts if these are entries, and of arrival.
    fn sorted(mut self, grouped: bool) -> Rows {
        let entry = |&row: &u32| {
            let row = row as usize;
            (if grouped { self.ordinals[row] } else { 0 }, self.arrivals[row])
        };
        let mut order: Vec<u32> = (0..self.arrivals.len() as u32).collect();
        if order.is_sorted_by_key(entry) {
            return self;
        }
        order.sort_by_key(entry);
        self.columns.reorder(&order);
        let pick = |values: &[u64]| order.iter().map(|&row| values[row as usize]).collect();
        (self.ordinals, self.arrivals) = (pick(&self.ordinals), pick(&self.arrivals));
        if !self.last.is_empty() {
            self.last = order.iter().map(|&row| self.last[row as usize]).collect();
        }
        self
    }
}

fn matrix<'a, T>(rows: usize, columns: usize, values: Vec<T>) -> Result<CowArray<'a, T, Ix2>> {
    let matrix = Array2::from_shape_vec((rows, columns), values);
    matrix.map(CowArray::from).map_err(|error| EngineError::Log(error.to_string()))
}

impl LogSource for SpooledLog {
    fn shape(&self) -> &LogShape {
        &self.shape
    }

    fn chunks(&self) -> usize {
        self.sums.len()
    }

    fn chunk(&self, index: usize) -> Result<Chunk<'_>> {
        let rows = self.rows(index, &self.read(index)?);
        let mut chunk = match self.record.grouped {
            true => self.group(rows)?,
            false => self.plain(rows)?,
        };
        if let Some(policy) = &self.logging_policy {
            self.fill(&mut chunk, policy, self.starts[index])?;
        }
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guarantor_engine::log::{Capabilities, Logging, Outcome};

    #[test]
    fn a_byte_that_changes_after_it_was_written_is_noticed() {
        let record = Record {
            dim: 1,
            full: 0,
            candidates: 0,
            candidate_full: 0,
            n_actions: 2,
            grouped: false,
            ordinals: false,
            arrivals: false,
            versions: false,
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
        let mut log = SpooledLog {
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
            sums: Vec::new(),
            hasher: RandomState::new(),
            logging_policy: None,
        };
        let hashes = (0..).zip(bytes.chunks(record.bytes())).map(|(at, row)| log.hash(at, row));
        log.sums = vec![hashes.fold(0, u64::wrapping_add)];
        log.file.write_all_at(&bytes, 0).unwrap();
        assert_eq!(log.chunk(0).unwrap().costs, columns.costs);
        for (at, byte) in (0..).zip(&bytes) {
            log.file.write_all_at(&[byte ^ 4], at).unwrap();
            assert!(log.chunk(0).is_err(), "byte {at}");
            log.file.write_all_at(&[*byte], at).unwrap();
        }
        // Two rows that swapped places are not what was written.
        let (first, second) = bytes.split_at(record.bytes());
        log.file.write_all_at(&[second, first].concat(), 0).unwrap();
        assert!(log.chunk(0).is_err());
        log.file.set_len(record.bytes() as u64).unwrap();
        assert!(log.chunk(0).is_err());
    }
}
