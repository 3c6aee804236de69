//! Writes a log that is too large for memory to a temporary file. The log is read once from its parts,
//! checked, and written in the engine's order: chunk by chunk, each with all rows of its contexts. Later
//! passes read that file and nothing else, and check it against hashes that were taken when it was written,
//! so they cannot see other bytes than those whose digest was checked.
//!
//! The chunks are bit for bit those of the same log in memory, and so is everything computed from them.

use std::fs::File;
use std::hash::RandomState;
use std::os::unix::fs::FileExt;

use super::decode::{columns_of, texts_of};
use super::spooled::{Record, SpooledLog};
use super::{LogLayout, LogMemory, LogRows, StoredLog};
use crate::store::error::StoreError;
use crate::store::records::Dataset;
use guarantor_engine::EngineError;
use guarantor_engine::control::Control;
use guarantor_engine::log::{Capabilities, LogShape, chunk_contexts};
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{Marks, mark};

/// How many bytes are buffered, so that rows of one chunk are written together.
const BUFFER_BYTES: usize = 16 << 20;

/// Why a log could not be written to a temporary file.
#[derive(Debug)]
pub enum SpoolError {
    /// The stored log could not be read.
    Store(StoreError),
    /// The temporary file could not be written.
    Scratch(std::io::Error),
    /// The rows are not valid, or the job was canceled.
    Engine(EngineError),
}

type Result<T> = std::result::Result<T, SpoolError>;

impl From<StoreError> for SpoolError {
    fn from(error: StoreError) -> Self {
        SpoolError::Store(error)
    }
}

impl From<EngineError> for SpoolError {
    fn from(error: EngineError) -> Self {
        SpoolError::Engine(error)
    }
}

/// Leaves out the cause of a failure of the store or the disk, which must not be shown in the job.
impl From<SpoolError> for EngineError {
    fn from(error: SpoolError) -> Self {
        match error {
            SpoolError::Store(error) => error.into(),
            SpoolError::Scratch(error) => EngineError::Unavailable(format!(
                "the log is larger than max_log_memory_bytes and could not be written to a temporary file ({})",
                error.kind()
            )),
            SpoolError::Engine(error) => error,
        }
    }
}

/// The contexts of all rows, from a first pass over their ids.
struct Contexts {
    marks: Marks,
    /// The number of each row's context.
    ordinals: Vec<u32>,
    /// The number of rows of each context.
    counts: Vec<u32>,
}

/// Writes a log to a temporary file.
pub fn spool(
    log: &StoredLog,
    logging_policy: Option<&PolicyParams>,
    control: &Control,
) -> Result<SpooledLog> {
    let contexts = contexts(log, control)?;
    let mut spooler: Option<Spooler> = None;
    let mut read = 0u64;
    log.each_batch(|layout, rows| {
        control.check()?;
        if spooler.is_none() {
            spooler = Some(Spooler::new(log, layout, contexts.as_ref(), logging_policy)?);
        }
        if let Some(spooler) = &mut spooler {
            spooler.append(&log.dataset, layout, rows, read, contexts.as_ref())?;
            read = spooler.rows;
        }
        Ok::<(), SpoolError>(())
    })?;
    match spooler {
        Some(spooler) if read == log.dataset.content.rows => spooler.finish(),
        _ => {
            let expected = log.dataset.content.rows;
            Err(EngineError::Log(format!("{read} rows were read, but {expected} were expected")).into())
        }
    }
}

/// The contexts of the rows, or `None` if the log has no context ids and each row is its own context.
fn contexts(log: &StoredLog, control: &Control) -> Result<Option<Contexts>> {
    let mut contexts = Contexts { marks: Marks::default(), ordinals: Vec::new(), counts: Vec::new() };
    for part in &log.parts {
        part.each_batch(Some("context_id"), |batch| {
            control.check()?;
            for id in texts_of(&batch, "context_id").into_iter().flatten() {
                let (place, new) = contexts.marks.place(mark(id));
                if new {
                    contexts.counts.push(0);
                }
                contexts.counts[place] += 1;
                contexts.ordinals.push(place as u32);
            }
            Ok::<(), SpoolError>(())
        })?;
    }
    Ok((!contexts.ordinals.is_empty()).then_some(contexts))
}

fn shape_of(dataset: &Dataset, layout: &LogLayout, contexts: u64, filled: bool) -> LogShape {
    LogShape {
        rows: dataset.content.rows,
        contexts,
        n_actions: dataset.content.n_actions,
        dim: layout.dim,
        outcome: dataset.content.outcome,
        capabilities: Capabilities {
            features: layout.dim > 0,
            full_propensities: layout.full.is_some() || filled,
            multiple_interactions: contexts < dataset.content.rows,
            candidates: layout.candidates.clone(),
        },
    }
}

fn temporary(memory: &LogMemory) -> Result<File> {
    let file = match &memory.scratch {
        Some(directory) => tempfile::tempfile_in(directory),
        None => tempfile::tempfile(),
    };
    file.map_err(SpoolError::Scratch)
}

/// Writes rows to where their chunk is in the file.
struct Spooler {
    log: SpooledLog,
    rows: u64,
    chunk_contexts: u64,
    /// How many rows of each chunk are written.
    written: Vec<u64>,
    buffer: Vec<u8>,
    /// The chunk of each row in the buffer.
    chunks: Vec<u32>,
}

impl Spooler {
    fn new(
        log: &StoredLog,
        layout: &LogLayout,
        contexts: Option<&Contexts>,
        logging_policy: Option<&PolicyParams>,
    ) -> Result<Self> {
        let rows = log.dataset.content.rows;
        let count = contexts.map_or(rows, |contexts| contexts.counts.len() as u64);
        let logging_policy = logging_policy.filter(|_| layout.full.is_none()).cloned();
        let size = chunk_contexts(layout.dim);
        let starts = match contexts {
            Some(contexts) => starts(contexts.counts.chunks(size).map(|c| c.iter().map(|&m| m as u64).sum())),
            None => starts((0..rows).step_by(size).map(|from| (rows - from).min(size as u64))),
        };
        let record = Record {
            dim: layout.dim,
            full: layout.full.unwrap_or(0),
            candidates: layout.candidates.len(),
            grouped: count < rows,
        };
        Ok(Spooler {
            rows: 0,
            chunk_contexts: size as u64,
            written: vec![0; starts.len() - 1],
            buffer: Vec::with_capacity(BUFFER_BYTES + record.bytes()),
            chunks: Vec::new(),
            log: SpooledLog {
                shape: shape_of(&log.dataset, layout, count, logging_policy.is_some()),
                record,
                file: temporary(&log.memory)?,
                sums: vec![0; starts.len() - 1],
                starts,
                hasher: RandomState::new(),
                logging_policy,
            },
        })
    }

    fn append(
        &mut self,
        dataset: &Dataset,
        layout: &LogLayout,
        rows: LogRows,
        before: u64,
        contexts: Option<&Contexts>,
    ) -> Result<()> {
        let ids = rows.context_ids.clone();
        let mut columns = columns_of(dataset, layout, rows);
        columns.check().map_err(|mut error| {
            error.row += before;
            EngineError::from(error)
        })?;
        columns.normalize();
        for i in 0..columns.rows() {
            let row = before + i as u64;
            let ordinal = match contexts {
                Some(contexts) => contexts.of(row, ids.get(i))?,
                None => row,
            };
            let chunk = (ordinal / self.chunk_contexts) as usize;
            if chunk >= self.written.len() {
                return Err(EngineError::Log("there are more rows than expected".into()).into());
            }
            self.log.record.write(&columns, i, ordinal, &mut self.buffer);
            self.chunks.push(chunk as u32);
            if self.buffer.len() >= BUFFER_BYTES {
                self.flush()?;
            }
        }
        self.rows = before + columns.rows() as u64;
        Ok(())
    }

    /// Writes the buffer, with the rows of a chunk together and in their order.
    fn flush(&mut self) -> Result<()> {
        let size = self.log.record.bytes();
        let mut order: Vec<u32> = (0..self.chunks.len() as u32).collect();
        order.sort_by_key(|&i| self.chunks[i as usize]);
        let mut run = Vec::new();
        for rows in order.chunk_by(|&a, &b| self.chunks[a as usize] == self.chunks[b as usize]) {
            let chunk = self.chunks[rows[0] as usize] as usize;
            let first = self.log.starts[chunk] + self.written[chunk];
            if first + rows.len() as u64 > self.log.starts[chunk + 1] {
                return Err(changed());
            }
            run.clear();
            for (position, &i) in (first..).zip(rows) {
                let record = &self.buffer[i as usize * size..(i as usize + 1) * size];
                self.log.sums[chunk] = self.log.sums[chunk].wrapping_add(self.log.hash(position, record));
                run.extend_from_slice(record);
            }
            self.log.file.write_all_at(&run, first * size as u64).map_err(SpoolError::Scratch)?;
            self.written[chunk] += rows.len() as u64;
        }
        self.buffer.clear();
        self.chunks.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<SpooledLog> {
        self.flush()?;
        Ok(self.log)
    }
}

/// Where each chunk starts, and the end of the last.
fn starts(rows: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut starts = vec![0];
    starts.extend(rows.scan(0, |end, rows| {
        *end += rows;
        Some(*end)
    }));
    starts
}

fn changed() -> SpoolError {
    EngineError::Log("the rows changed while they were read".into()).into()
}

impl Contexts {
    /// The number of a row's context. The first pass read the ids before the digest was checked, so the
    /// second pass compares them with those that the digest covers.
    fn of(&self, row: u64, id: Option<&String>) -> Result<u64> {
        let ordinal = *self.ordinals.get(row as usize).ok_or_else(changed)?;
        match id {
            Some(id) if self.marks.get(ordinal as usize) == Some(mark(id)) => Ok(ordinal.into()),
            _ => Err(changed()),
        }
    }
}
