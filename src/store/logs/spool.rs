//! Writes a log that is too large for memory to a temporary file. The log is read once from its parts,
//! checked, and written in the engine's order: chunk by chunk, each with all rows of its contexts. Later
//! passes read that file and nothing else, and check it against hashes that were taken when it was written,
//! so they cannot see other bytes than those whose digest was checked.
//!
//! The chunks are bit for bit those of the same log in memory, and so is everything computed from them.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::FileExt;

use super::order::{Order, Place};
use super::record::Record;
use super::set_columns::{ACTION_NON_ZEROS, X_INDICES, sizes_of};
use super::spooled::RecordLog;
use super::{LogLayout, LogMemory, LogRows, SpooledLog, StoredLog, chunked};
use crate::store::error::StoreError;
use crate::store::records::Dataset;
use guarantor_engine::EngineError;
use guarantor_engine::control::Control;
use guarantor_engine::log::{ActionSets, Capabilities, LogShape, MAX_UNIFORM, Repetitions, chunk_contexts};
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::ColumnsBuilder;

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

/// Writes a log to a temporary file.
pub fn spool(
    log: &StoredLog,
    logging_policy: Option<&PolicyParams>,
    control: &Control,
) -> Result<SpooledLog> {
    let order = Order::of(log, control)?;
    match log.layout()? {
        Some(layout) if chunked::is_plain(log, &layout, &order) => {
            chunked::spool(log, &layout, &order, logging_policy, control).map(SpooledLog::Chunks)
        }
        _ => spool_records(log, &order, logging_policy, control).map(SpooledLog::Records),
    }
}

/// Writes a log row by row, to where the chunk of each row is.
fn spool_records(
    log: &StoredLog,
    order: &Order,
    logging_policy: Option<&PolicyParams>,
    control: &Control,
) -> Result<RecordLog> {
    let mut pass = order.compare();
    let mut spooler: Option<Spooler> = None;
    log.each_batch(|layout, rows| {
        control.check()?;
        if spooler.is_none() {
            spooler = Some(Spooler::new(log, layout, order, logging_policy, control)?);
        }
        let before = pass.rows();
        let places = pass.places(&rows)?;
        match &mut spooler {
            Some(spooler) => spooler.append(&log.dataset, layout, rows, before, &places),
            None => Ok(()),
        }
    })?;
    let (read, expected) = (pass.finish()?, log.dataset.content.rows);
    match spooler {
        Some(spooler) if read == expected => spooler.finish(),
        _ => Err(EngineError::Log(format!("{read} rows were read, but {expected} were expected")).into()),
    }
}

/// The shape that the same log has in memory.
pub fn shape_of(dataset: &Dataset, layout: &LogLayout, order: &Order, filled: bool) -> LogShape {
    let content = &dataset.content;
    let repeated = order.contexts() < content.rows;
    let designed = repeated && dataset.repetitions == Repetitions::Designed;
    let made_up = content.capabilities.uniform && content.n_actions <= MAX_UNIFORM;
    LogShape {
        rows: content.rows,
        contexts: if designed { order.contexts() } else { content.rows },
        n_actions: content.n_actions,
        dim: layout.dim,
        outcome: content.outcome,
        logging: dataset.logging,
        capabilities: Capabilities {
            features: layout.dim > 0 || layout.sets.is_some_and(|sets| sets != ActionSets::default()),
            full_propensities: layout.full.is_some() || filled || made_up,
            multiple_interactions: designed,
            repeated_contexts: repeated && !designed,
            candidates: layout.candidates.clone(),
            candidate_propensities: layout.candidate_propensities.clone(),
            timestamps: layout.timestamps,
            period: order.period(),
            action_sets: layout.sets,
            ..content.capabilities.clone()
        },
    }
}

/// A temporary file, which is removed when it is closed.
pub fn temporary(memory: &LogMemory) -> Result<File> {
    let file = match &memory.scratch {
        Some(directory) => tempfile::tempfile_in(directory),
        None => tempfile::tempfile(),
    };
    file.map_err(SpoolError::Scratch)
}

/// Writes rows to where their chunk is in the file.
struct Spooler {
    log: RecordLog,
    chunk_contexts: u64,
    /// How many rows and bytes of each chunk are written.
    written: Vec<(u64, u64)>,
    buffer: Vec<u8>,
    /// The chunk of each row in the buffer, and where the row ends.
    ends: Vec<(u32, usize)>,
}

impl Spooler {
    fn new(
        log: &StoredLog,
        layout: &LogLayout,
        order: &Order,
        logging_policy: Option<&PolicyParams>,
        control: &Control,
    ) -> Result<Self> {
        let rows = log.dataset.content.rows;
        let logging_policy = logging_policy.filter(|_| layout.full.is_none()).cloned();
        let shape = shape_of(&log.dataset, layout, order, logging_policy.is_some());
        let size = chunk_contexts(layout.dim);
        let grouped = shape.capabilities.multiple_interactions;
        if grouped && layout.sets.is_some() {
            let message = "repetitions are designed, but every row has its own actions";
            return Err(EngineError::Log(message.into()).into());
        }
        let starts = match grouped {
            true => starts(order.counts().chunks(size).map(|c| c.iter().map(|&m| m as u64).sum())),
            false => starts((0..rows).step_by(size).map(|from| (rows - from).min(size as u64))),
        };
        let record = Record {
            dim: layout.dim,
            full: layout.full.is_some(),
            candidates: layout.candidates.len(),
            candidate_full: layout.candidate_propensities.len(),
            n_actions: shape.n_actions,
            grouped,
            ordinals: grouped || shape.capabilities.repeated_contexts,
            arrivals: grouped || !order.is_sorted(),
            versions: layout.versions,
            sets: layout.sets.is_some(),
            outcomes: layout.outcomes.len(),
        };
        let offsets = match record.sets {
            true => starts_of_sets(log, &record, order, (size as u64, starts.len() - 1), control)?,
            false => starts.iter().map(|row| row * record.fixed() as u64).collect(),
        };
        let has_full = |name: &String| layout.full_position(name).is_some();
        Ok(Spooler {
            chunk_contexts: size as u64,
            written: vec![(0, 0); starts.len() - 1],
            buffer: Vec::with_capacity(BUFFER_BYTES),
            ends: Vec::new(),
            log: RecordLog {
                has_full: layout.candidates.iter().map(has_full).collect(),
                shape,
                record,
                file: temporary(&log.memory)?,
                sums: vec![0; starts.len() - 1],
                starts,
                offsets,
                seed: RandomState::new().hash_one(0u8),
                logging_policy,
                memory: log.memory.clone(),
            },
        })
    }

    fn append(
        &mut self,
        dataset: &Dataset,
        layout: &LogLayout,
        rows: LogRows,
        before: u64,
        places: &[Place],
    ) -> Result<()> {
        let last = &dataset.content.capabilities.last_version;
        let last = last.as_ref().map_or("", |last| last.name.as_str());
        let is_last: Vec<bool> = rows.versions.iter().map(|version| version == last).collect();
        // Ids and times are in `places`, and a batch is not the whole log.
        let rows = LogRows { context_ids: Vec::new(), timestamps: Vec::new(), versions: Vec::new(), ..rows };
        let bare = LogLayout { context_ids: false, timestamps: false, versions: false, ..layout.clone() };
        let mut columns = ColumnsBuilder::default();
        columns.append(&bare, rows);
        let mut columns = columns.finish(&dataset.facts());
        columns.check().map_err(|mut error| {
            error.row += before;
            EngineError::from(error)
        })?;
        columns.settle();
        for (i, &place) in places.iter().enumerate() {
            let entry = if self.log.record.grouped { place.ordinal } else { place.arrival };
            let chunk = (entry / self.chunk_contexts) as usize;
            if chunk >= self.written.len() {
                return Err(EngineError::Log("there are more rows than expected".into()).into());
            }
            let is_last = is_last.get(i).copied().unwrap_or(false);
            self.log.record.write(&columns, i, (place, is_last), &mut self.buffer);
            self.ends.push((chunk as u32, self.buffer.len()));
            if self.buffer.len() >= BUFFER_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes the buffer, with the rows of a chunk together and in their order.
    fn flush(&mut self) -> Result<()> {
        let log = &mut self.log;
        let mut order: Vec<u32> = (0..self.ends.len() as u32).collect();
        order.sort_by_key(|&i| self.ends[i as usize].0);
        let mut run = Vec::new();
        for rows in order.chunk_by(|&a, &b| self.ends[a as usize].0 == self.ends[b as usize].0) {
            let chunk = self.ends[rows[0] as usize].0 as usize;
            let (first, from) = self.written[chunk];
            run.clear();
            for (position, &i) in (first..).zip(rows) {
                let start = if i == 0 { 0 } else { self.ends[i as usize - 1].1 };
                let record = &self.buffer[start..self.ends[i as usize].1];
                log.sums[chunk] = log.sums[chunk].wrapping_add(log.hash(position, record));
                run.extend_from_slice(record);
            }
            let (rows, end) = (first + rows.len() as u64, from + run.len() as u64);
            let starts = |starts: &[u64]| starts[chunk + 1] - starts[chunk];
            if rows > starts(&log.starts) || end > starts(&log.offsets) {
                return Err(changed());
            }
            log.file.write_all_at(&run, log.offsets[chunk] + from).map_err(SpoolError::Scratch)?;
            self.written[chunk] = (rows, end);
        }
        self.buffer.clear();
        self.ends.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<RecordLog> {
        self.flush()?;
        let expected = self.log.starts.windows(2).zip(self.log.offsets.windows(2));
        let expected = expected.map(|(rows, bytes)| (rows[1] - rows[0], bytes[1] - bytes[0]));
        if self.written.iter().copied().eq(expected) { Ok(self.log) } else { Err(changed()) }
    }
}

/// Where each chunk starts in the file if rows have different lengths, which a first pass over their sizes finds.
fn starts_of_sets(
    log: &StoredLog,
    record: &Record,
    order: &Order,
    (chunk_rows, chunks): (u64, usize),
    control: &Control,
) -> Result<Vec<u64>> {
    let mut lengths = vec![0u64; chunks];
    let mut row = 0;
    for part in &log.parts {
        part.each_batch(Some(&[ACTION_NON_ZEROS, X_INDICES]), |batch| {
            control.check()?;
            for size in sizes_of(&batch).ok_or_else(changed)? {
                let chunk = order.arrival(row)? / chunk_rows;
                let length = lengths.get_mut(chunk as usize).ok_or_else(changed)?;
                *length = length.checked_add(record.bytes(size) as u64).ok_or_else(changed)?;
                row += 1;
            }
            Ok::<(), SpoolError>(())
        })?;
    }
    // Damaged sizes may be anything; files are not that long.
    let all = lengths.iter().try_fold(0u64, |all, &length| all.checked_add(length));
    if all.is_none_or(|all| all > i64::MAX as u64) {
        return Err(changed());
    }
    Ok(starts(lengths.into_iter()))
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

/// The error of a log that is not the same on its second reading.
pub fn changed() -> SpoolError {
    EngineError::Log("the rows changed while they were read".into()).into()
}
