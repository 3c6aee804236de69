//! Logs as they are stored: Parquet parts that are never changed, and a digest over their rows that
//! depends on neither the format they came in nor how they were cut.

mod decode;
mod digest;
mod encode;

use bytes::Bytes;

use super::error::Result;
use super::records::Dataset;
use super::{Store, StoreError};
use crate::engine::log::Columns;

pub use digest::LogDigest;
pub use encode::LogEncoder;

/// Which columns a log has. The same for all of its rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogLayout {
    /// p; 0 without features.
    pub dim: usize,
    /// K, where the rows carry π0(·|x).
    pub full: Option<usize>,
    pub context_ids: bool,
    pub event_ids: bool,
    /// Names in ascending order.
    pub candidates: Vec<String>,
}

/// A run of valid rows as columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogRows {
    /// Rows × p.
    pub x: Vec<f32>,
    pub actions: Vec<u32>,
    /// In [-1, 0].
    pub costs: Vec<f64>,
    pub propensities: Vec<f64>,
    /// Rows × K.
    pub full: Vec<f64>,
    pub context_ids: Vec<String>,
    pub event_ids: Vec<String>,
    /// One column a candidate, in the layout's order.
    pub candidates: Vec<Vec<f64>>,
}

impl LogRows {
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }
}

/// A dataset's parts as bytes, not yet decoded.
pub struct StoredLog {
    parts: Vec<Bytes>,
    dataset: Dataset,
}

impl StoredLog {
    /// The rows, whose digest is the one that they were stored with, or an error.
    pub fn decode(&self) -> Result<Columns> {
        let mut columns = decode::ColumnsBuilder::new(&self.dataset);
        self.each_batch(|layout, rows| columns.append(layout, rows))?;
        columns.finish(&self.dataset)
    }

    /// The rows as they were stored, a batch at a time.
    pub fn each_batch(&self, mut visit: impl FnMut(&LogLayout, LogRows) -> Result<()>) -> Result<()> {
        for (part, bytes) in self.dataset.content.parts.iter().zip(&self.parts) {
            decode::each_batch(bytes.clone(), &mut visit).map_err(|error| match error {
                decode::PartError::Unreadable(why) => StoreError::damaged(&part.key, why),
                decode::PartError::Visitor(error) => error,
            })?;
        }
        Ok(())
    }
}

impl Store {
    pub async fn fetch_log(&self, dataset: &Dataset) -> Result<StoredLog> {
        let mut parts = Vec::with_capacity(dataset.content.parts.len());
        for part in &dataset.content.parts {
            parts.push(self.blobs().get(part).await?);
        }
        Ok(StoredLog { parts, dataset: dataset.clone() })
    }
}
