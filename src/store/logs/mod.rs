//! Logs as they are stored: Parquet parts that are never changed, and a digest over their rows that
//! depends on neither the format they came in nor how they were cut.

mod decode;
mod encode;
mod part;
mod spool;
mod spooled;

use std::path::PathBuf;

use super::error::Result;
use super::records::{Dataset, DatasetContent};
use super::{Store, StoreError};

use guarantor_engine::control::Control;
use guarantor_engine::log::Columns;
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{ColumnsBuilder, LogDigest, LogLayout, LogRows};
use part::Part;

pub use encode::LogEncoder;
pub use spooled::SpooledLog;

/// How much memory a job's log may take, and where one goes that would take more.
#[derive(Debug, Clone)]
pub struct LogMemory {
    pub max_bytes: u64,
    /// The directory of temporary files; the system's own where none is given.
    pub scratch: Option<PathBuf>,
}

impl Default for LogMemory {
    fn default() -> Self {
        LogMemory { max_bytes: 512 << 20, scratch: None }
    }
}

/// A dataset's parts, not yet decoded: fetched where the rows will fit into memory, else still where
/// they are stored.
pub struct StoredLog {
    parts: Vec<Part>,
    dataset: Dataset,
    memory: LogMemory,
}

impl StoredLog {
    pub fn fits_in_memory(&self) -> bool {
        decoded_bytes(&self.dataset.content) <= self.memory.max_bytes
    }

    /// The rows, whose digest is the one that they were stored with, or an error.
    pub fn decode(&self) -> Result<Columns> {
        let content = &self.dataset.content;
        let mut columns = ColumnsBuilder::with_capacity(content.rows, content.dim);
        self.each_batch(|layout, rows| {
            columns.append(layout, rows);
            Ok::<(), StoreError>(())
        })?;
        Ok(columns.finish(content.n_actions, content.outcome))
    }

    /// The same rows as a source for the engine that holds few of them in memory.
    pub fn spool(
        &self,
        logging_policy: Option<&PolicyParams>,
        control: &Control,
    ) -> guarantor_engine::Result<SpooledLog> {
        spool::spool(self, logging_policy, control)
    }

    /// The rows as they were stored, a batch at a time. What was visited may be relied on only when
    /// this has returned: then the digest is the one that the rows were stored with. It comes back
    /// as it is after the last row, for rows that follow.
    pub fn each_batch<E: From<StoreError>>(
        &self,
        mut visit: impl FnMut(&LogLayout, LogRows) -> Result<(), E>,
    ) -> Result<LogDigest, E> {
        let mut first: Option<LogLayout> = None;
        let mut digest = LogDigest::default();
        for part in &self.parts {
            part.each_batch(None, |batch| {
                let Some((layout, rows)) = decode::rows_of(&batch) else {
                    return Err(StoreError::damaged(part.key(), "its columns are not a log's").into());
                };
                if first.get_or_insert_with(|| layout.clone()) != &layout {
                    return Err(StoreError::damaged(part.key(), "its columns are not those before it").into());
                }
                digest.update(&layout, &rows);
                visit(&layout, rows)
            })?;
        }
        let content = &self.dataset.content;
        let found = digest.clone().finish(&first.unwrap_or_default(), content.n_actions, &content.outcome);
        if found != content.digest {
            let message = format!("its rows have the digest {found}, not {}", content.digest);
            return Err(StoreError::damaged(format!("datasets/{}", self.dataset.id), message).into());
        }
        Ok(digest)
    }
}

/// What the engine's log in memory takes, about.
fn decoded_bytes(content: &DatasetContent) -> u64 {
    let full = if content.capabilities.full_propensities { content.n_actions } else { 0 };
    let row = 40 + 4 * content.dim + 8 * full + 8 * content.capabilities.candidates.len();
    content.rows.saturating_mul(row as u64)
}

impl Store {
    pub async fn fetch_log(&self, dataset: &Dataset) -> Result<StoredLog> {
        let mut log =
            StoredLog { parts: Vec::new(), dataset: dataset.clone(), memory: self.log_memory.clone() };
        for blob in &dataset.content.parts {
            log.parts.push(if log.fits_in_memory() {
                Part::held(blob.clone(), self.blobs().get(blob).await?)
            } else {
                self.blobs().check(blob).await?;
                Part::stored(blob.clone(), self.blobs().clone())
            });
        }
        Ok(log)
    }
}
