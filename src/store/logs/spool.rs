//! A log that is larger than the memory it may have. It is read once from its parts, checked, and put
//! down in a temporary file in the engine's own order: chunk after chunk, each with all rows of its
//! contexts. Later passes read that file and nothing else, and compare every row with a hash that was
//! taken when it was written, so that they cannot see other bytes than those whose digest was checked.
//!
//! The chunks are those of the same log in memory, bit for bit, and so is whatever is computed of them.

use std::fs::File;
use std::hash::RandomState;
use std::os::unix::fs::FileExt;

use super::decode::{columns_of, texts_of};
use super::spooled::{Record, SpooledLog};
use super::{LogLayout, LogMemory, LogRows, StoredLog};
use crate::store::records::Dataset;
use guarantor_engine::control::Control;
use guarantor_engine::log::{Capabilities, LogShape, chunk_contexts};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::{EngineError, Result};
use guarantor_ingest::{Marks, mark};

/// Rows that wait to be written, so that those of one chunk go out together.
const BUFFER_BYTES: usize = 16 << 20;

/// The contexts of all rows, from a first pass over their ids alone.
struct Contexts {
    marks: Marks,
    /// Of each row.
    ordinals: Vec<u32>,
    /// Rows of each context.
    counts: Vec<u32>,
}

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
        Ok::<(), EngineError>(())
    })?;
    match spooler {
        Some(spooler) if read == log.dataset.content.rows => spooler.finish(),
        _ => Err(EngineError::Log(format!(
            "{read} rows were read, {} were expected",
            log.dataset.content.rows
        ))),
    }
}

/// None where no context has an id, and each row is one of its own.
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
            Ok::<(), EngineError>(())
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
    file.map_err(not_written)
}

fn not_written(error: std::io::Error) -> EngineError {
    tracing::warn!(%error, "a log could not be put down");
    let why = "it is larger than max_log_memory_bytes and could not be put down in a temporary file";
    EngineError::Unavailable(format!("{why} ({})", error.kind()))
}

/// Puts rows where their chunk is in the file.
struct Spooler {
    log: SpooledLog,
    rows: u64,
    chunk_contexts: u64,
    /// Rows of each chunk that are written.
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
            error
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
                return Err(EngineError::Log("there are more rows than were expected".into()));
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

    /// Writes the buffer, the rows of a chunk together and in the order in which they came.
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
            self.log.file.write_all_at(&run, first * size as u64).map_err(not_written)?;
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

fn starts(rows: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut starts = vec![0];
    starts.extend(rows.scan(0, |end, rows| {
        *end += rows;
        Some(*end)
    }));
    starts
}

fn changed() -> EngineError {
    EngineError::Log("its rows changed while it was read".into())
}

impl Contexts {
    /// The ordinal of a row's context. The first pass read the ids before any digest was checked;
    /// the second compares them with those that are in it.
    fn of(&self, row: u64, id: Option<&String>) -> Result<u64> {
        let ordinal = *self.ordinals.get(row as usize).ok_or_else(changed)?;
        match id {
            Some(id) if self.marks.get(ordinal as usize) == Some(mark(id)) => Ok(ordinal.into()),
            _ => Err(changed()),
        }
    }
}
