//! Stored logs: Parquet files that never change, and a digest of their rows that depends neither on the
//! format in which they were uploaded nor on how they are divided into files.

mod chunk_file;
mod chunked;
mod column_hashes;
mod decode;
mod encode;
mod groups;
mod held;
mod order;
mod part;
mod record;
mod set_columns;
mod spool;
mod spooled;

use std::ops::Range;
use std::path::PathBuf;

use super::blob_keys::Owner;
use super::error::Result;
use super::records::Dataset;
use super::{Store, StoreError};

use groups::Group;
use guarantor_engine::control::Control;
use guarantor_engine::footprint::fits_in_memory;
use guarantor_engine::log::{Chunk, Columns, LogShape, LogSource, PrecisionFinder};
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{ColumnsBuilder, LogDigest, LogLayout, LogRows};
use part::LogPart;
use spool::SpoolError;

pub use chunked::ChunkedLog;
pub use column_hashes::seal;
pub use encode::{Encoded, LogEncoder};
pub use spooled::RecordLog;

/// How much memory the log of a job may use, and where a larger one is written.
#[derive(Debug, Clone)]
pub struct LogMemory {
    /// The size up to which a log is held in memory.
    pub max_bytes: u64,
    /// The directory for temporary files; `None` is the system's default.
    pub scratch: Option<PathBuf>,
}

impl Default for LogMemory {
    fn default() -> Self {
        LogMemory { max_bytes: 512 << 20, scratch: None }
    }
}

/// A log in a temporary file, which is removed when this is dropped.
pub enum SpooledLog {
    /// Row by row: rows are out of order, have their own actions, or share contexts.
    Records(RecordLog),
    /// Chunk by chunk.
    Chunks(ChunkedLog),
}

impl SpooledLog {
    fn source(&self) -> &dyn LogSource {
        match self {
            SpooledLog::Records(log) => log,
            SpooledLog::Chunks(log) => log,
        }
    }
}

impl LogSource for SpooledLog {
    fn guards_itself(&self) -> bool {
        self.source().guards_itself()
    }

    fn shape(&self) -> &LogShape {
        self.source().shape()
    }

    fn chunks(&self) -> usize {
        self.source().chunks()
    }

    fn chunk(&self, index: usize) -> guarantor_engine::Result<Chunk<'_>> {
        self.source().chunk(index)
    }

    fn lean_chunk(&self, index: usize) -> guarantor_engine::Result<Chunk<'_>> {
        self.source().lean_chunk(index)
    }

    fn arrivals_of(&self, index: usize) -> Option<Range<u64>> {
        self.source().arrivals_of(index)
    }

    fn in_memory(&self) -> bool {
        self.source().in_memory()
    }

    fn seeks(&self) -> bool {
        self.source().seeks()
    }

    fn features(&self, places: &[(u32, u32)], to: &mut [f32]) -> guarantor_engine::Result<()> {
        self.source().features(places, to)
    }

    fn keep(&self, log: &dyn LogSource) -> guarantor_engine::Result<Box<dyn LogSource>> {
        self.source().keep(log)
    }
}

/// The parts of a dataset, not yet decoded. They are in memory if the decoded rows will fit into memory, and
/// otherwise still in the blob store.
pub struct StoredLog {
    parts: Vec<LogPart>,
    dataset: Dataset,
    memory: LogMemory,
    /// Whether a temporary file has the features.
    features: bool,
    /// Whether all rows are read for their digest even if a job needs no features.
    by_digest: bool,
}

/// What a stored log consists of, in order.
#[expect(clippy::large_enum_variant, reason = "nearly every piece has rows, and none is kept")]
pub enum Piece<'a> {
    /// Rows.
    Rows(&'a LogLayout, LogRows),
    /// The end of a part: the rows of one upload.
    EndOfPart,
}

impl StoredLog {
    /// The same log for a job that reads no features: they are checked, but not written to a temporary file.
    pub fn without_features(self) -> Self {
        StoredLog { features: false, ..self }
    }

    /// The same log, of which all rows are read and compared with their digest, whatever a job needs.
    pub fn by_digest(self) -> Self {
        StoredLog { by_digest: true, ..self }
    }

    /// Whether the decoded rows fit into memory.
    pub fn fits_in_memory(&self) -> bool {
        fits_in_memory(&self.dataset.shape(), self.dataset.set_sizes(), self.memory.max_bytes)
    }

    /// Finds out how precisely the probabilities of a log were written, if it was stored before uploads did so.
    ///
    /// # Errors
    /// `Damaged` if the rows do not have the digest that they were stored with.
    pub fn find_precision(&mut self) -> Result<()> {
        if self.dataset.log_checks().is_some() {
            return Ok(());
        }
        // A stored logging policy gives exact propensities. Candidates may be rounded all the same.
        let exact = self.dataset.logging_policy_id.is_some();
        let mut propensities = PrecisionFinder::default();
        let mut candidates =
            vec![PrecisionFinder::default(); self.dataset.content.capabilities.candidates.len()];
        self.each_batch(|_, rows| {
            rows.propensities.iter().chain(&rows.full).for_each(|&p| propensities.see(p));
            for (finder, column) in candidates.iter_mut().zip(&rows.candidates) {
                column.iter().for_each(|&p| finder.see(p));
            }
            Ok::<(), StoreError>(())
        })?;
        let capabilities = &mut self.dataset.content.capabilities;
        if !exact {
            capabilities.precision = propensities.finish();
        }
        capabilities.candidate_precision = candidates.iter().map(PrecisionFinder::finish).collect();
        Ok(())
    }

    /// The rows.
    ///
    /// # Errors
    /// `Damaged` if they do not have the digest that they were stored with.
    pub fn decode(&self) -> Result<Columns> {
        let content = &self.dataset.content;
        let mut columns = ColumnsBuilder::with_capacity(content.rows, content.dim);
        let layout = self.layout()?.unwrap_or_default();
        let batches = |group: &mut Group| {
            let mut batches = Vec::new();
            group.each(|_, rows| {
                batches.push(rows);
                Ok::<(), StoreError>(())
            })?;
            Ok(batches)
        };
        self.each_group(&layout, false, batches, |batches| {
            batches.into_iter().for_each(|rows| columns.append(&layout, rows));
            Ok::<(), StoreError>(())
        })?;
        Ok(columns.finish(&self.dataset.facts()))
    }

    /// The same rows in a temporary file, as a source for the engine that holds few of them in memory.
    ///
    /// # Errors
    /// `Log` if the rows are damaged or not valid, `Unavailable` if the store or the temporary file failed.
    pub fn spool(
        &self,
        logging_policy: Option<&PolicyParams>,
        control: &Control,
    ) -> guarantor_engine::Result<SpooledLog> {
        spool::spool(self, logging_policy, control).map_err(|error| {
            // The cause may name files and hosts, so it is logged and not shown in the job.
            match &error {
                SpoolError::Store(error) if error.is_transient() => {
                    tracing::warn!(%error, "a log could not be read");
                }
                SpoolError::Scratch(error) => {
                    tracing::warn!(%error, "a log could not be written to a temporary file");
                }
                SpoolError::Store(_) | SpoolError::Engine(_) => {}
            }
            error.into()
        })
    }

    /// Visits the stored rows, one batch at a time. The rows may be relied on only after this has returned:
    /// only then is their digest known to be the one that they were stored with. Returns the state of the
    /// digest after the last row, for rows that follow.
    pub fn each_batch<E: From<StoreError>>(
        &self,
        mut visit: impl FnMut(&LogLayout, LogRows) -> Result<(), E>,
    ) -> Result<LogDigest, E> {
        self.each_piece(|piece| match piece {
            Piece::Rows(layout, rows) => visit(layout, rows),
            Piece::EndOfPart => Ok(()),
        })
    }

    /// The same, which also says where parts end.
    pub fn each_piece<E: From<StoreError>>(
        &self,
        mut visit: impl FnMut(Piece) -> Result<(), E>,
    ) -> Result<LogDigest, E> {
        let mut first: Option<LogLayout> = None;
        let mut digest = LogDigest::default();
        for part in &self.parts {
            part.each_batch(None, |batch| {
                let Some((layout, rows)) = decode::rows_of(&batch) else {
                    return Err(groups::no_log(part).into());
                };
                if first.get_or_insert_with(|| layout.clone()) != &layout {
                    return Err(groups::other_columns(part).into());
                }
                digest.update(&layout, &rows);
                visit(Piece::Rows(&layout, rows))
            })?;
            visit(Piece::EndOfPart)?;
        }
        self.check_digest(digest.clone(), &first.unwrap_or_default())?;
        Ok(digest)
    }

    /// Whether the features of rows that share their actions need not be read: a job uses none, and a seal says that the other
    /// columns can be relied on without the digest of all rows.
    fn is_bare(&self) -> bool {
        let sealed = self.parts.last().is_some_and(|part| part.blob().seal.is_some());
        !self.features && !self.by_digest && sealed && self.dataset.content.capabilities.action_sets.is_none()
    }

    /// Compares the seal of the parts with the one that they were stored with.
    fn check_seal(&self) -> Result<()> {
        let stored = self.parts.last().and_then(|part| part.blob().seal.as_ref());
        let found = column_hashes::seal(&self.dataset.content, self.parts.iter().map(LogPart::blob));
        match found.is_some() && found.as_ref() == stored {
            true => Ok(()),
            false => {
                let why = "what is stored about them is not what they were stored with";
                Err(StoreError::damaged("its rows", why).of(Owner::Dataset(self.dataset.id)))
            }
        }
    }

    /// Compares the digest of all rows with the one that they were stored with.
    fn check_digest(&self, digest: LogDigest, layout: &LogLayout) -> Result<()> {
        let content = &self.dataset.content;
        let named = &content.capabilities.outcomes;
        let found = digest.finish(layout, content.n_actions, &content.outcome, named);
        if found != content.digest {
            let why = format!("they have the digest {found}, not {}", content.digest);
            return Err(StoreError::damaged("its rows", why).of(Owner::Dataset(self.dataset.id)));
        }
        Ok(())
    }
}

impl Store {
    /// Prepares to read a dataset's rows. Parts that fit into memory are read here, others are checked to
    /// exist. Objects that are pinned are read into a temporary file, which takes as long as an upload of them.
    pub async fn fetch_log(&self, dataset: &Dataset) -> Result<StoredLog> {
        let mut log = StoredLog {
            parts: Vec::new(),
            dataset: dataset.clone(),
            memory: self.log_memory.clone(),
            features: true,
            by_digest: false,
        };
        if dataset.is_pinned() {
            let (blob, scratch) = self.read_pinned(dataset).await?;
            log.parts.push(match log.fits_in_memory() {
                true => LogPart::held(blob.clone(), scratch.get(&blob).await?),
                false => LogPart::stored(blob, scratch),
            });
            return Ok(log);
        }
        for blob in &dataset.content.parts {
            log.parts.push(if log.fits_in_memory() {
                LogPart::held(blob.clone(), self.blobs().get(blob).await?)
            } else {
                self.blobs().check(blob).await?;
                LogPart::stored(blob.clone(), self.blobs().clone())
            });
        }
        Ok(log)
    }
}

#[cfg(test)]
mod tests;
