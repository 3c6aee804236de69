//! A part of a stored log, read one row group at a time, so that one group is in memory wherever the bytes
//! are. Everything here blocks: call it on compute and blocking threads, never on an async one.

use std::ops::Range;

use arrow_array::RecordBatch;
use bytes::{Buf, Bytes};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, Length};
use tokio::runtime::Handle;

use crate::store::blobs::Blobs;
use crate::store::error::{Result, StoreError};
use crate::store::records::BlobRef;

/// The most rows of a batch.
const BATCH_ROWS: usize = 8192;
/// The length of the end of a Parquet file: the length of its index, and four letters.
const TAIL: u64 = 8;

/// A part of a stored log.
pub struct LogPart {
    blob: BlobRef,
    bytes: PartBytes,
}

enum PartBytes {
    /// Already fetched.
    Held(Bytes),
    Stored(Blobs, Handle),
}

impl LogPart {
    /// A part whose bytes are in memory.
    pub fn held(blob: BlobRef, bytes: Bytes) -> Self {
        LogPart { blob, bytes: PartBytes::Held(bytes) }
    }

    /// A part that is read from the blob store when it is needed. Call this on an async thread.
    pub fn stored(blob: BlobRef, blobs: Blobs) -> Self {
        LogPart { blob, bytes: PartBytes::Stored(blobs, Handle::current()) }
    }

    /// Its bytes, if they are in memory.
    #[cfg(test)]
    pub fn bytes(&self) -> Option<Bytes> {
        match &self.bytes {
            PartBytes::Held(bytes) => Some(bytes.clone()),
            PartBytes::Stored(..) => None,
        }
    }

    /// The key of its blob.
    pub fn key(&self) -> &str {
        &self.blob.key
    }

    /// Visits the rows in order, with all of their columns or only the named ones. If one of these does not exist,
    /// it visits no rows.
    pub fn each_batch<E: From<StoreError>>(
        &self,
        only: Option<&[&str]>,
        mut visit: impl FnMut(RecordBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        let index = self.index()?;
        let schema = index.0.metadata().file_metadata().schema_descr();
        let columns = match only {
            Some(names) if names.iter().any(|name| index.0.schema().field_with_name(name).is_err()) => {
                return Ok(());
            }
            Some(names) => ProjectionMask::columns(schema, names.iter().copied()),
            None => ProjectionMask::all(),
        };
        (0..index.0.metadata().num_row_groups())
            .try_for_each(|number| self.each_batch_of(&index, number, &columns, &mut visit))
    }

    /// Visits the rows of one row group in order.
    pub fn each_batch_of<E: From<StoreError>>(
        &self,
        index: &PartIndex,
        number: usize,
        columns: &ProjectionMask,
        visit: &mut dyn FnMut(RecordBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        let PartIndex(index) = index;
        let range = self.range_of(index.metadata().row_group(number), columns)?;
        let window = self.window(range)?;
        let batches = ParquetRecordBatchReaderBuilder::new_with_metadata(window, index.clone())
            .with_row_groups(vec![number])
            .with_projection(columns.clone())
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(|error| StoreError::damaged_blob(self.key(), error))?;
        for batch in batches {
            visit(batch.map_err(|error| StoreError::damaged_blob(self.key(), error))?)?;
        }
        Ok(())
    }

    /// What the end of the file says about its row groups.
    pub fn index(&self) -> Result<PartIndex> {
        let unreadable = |error: ParquetError| StoreError::damaged_blob(self.key(), error);
        let index = ArrowReaderMetadata::load(&self.end()?, ArrowReaderOptions::new());
        index.map(PartIndex).map_err(unreadable)
    }

    /// The file's index, which is at its end.
    fn end(&self) -> Result<Window> {
        let size = self.blob.bytes;
        let no_index = || StoreError::damaged_blob(self.key(), "its index is longer than the file");
        let tail = self.read(size.checked_sub(TAIL).ok_or_else(no_index)?..size)?;
        let length = u64::from(tail.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)));
        self.window(size.checked_sub(TAIL + length).ok_or_else(no_index)?..size)
    }

    /// Where the bytes of a group's columns are.
    fn range_of(&self, group: &RowGroupMetaData, columns: &ProjectionMask) -> Result<Range<u64>> {
        let outside = || StoreError::damaged_blob(self.key(), "its index points outside of the file");
        let mut all: Option<Range<u64>> = None;
        for (_, column) in group.columns().iter().enumerate().filter(|(i, _)| columns.leaf_included(*i)) {
            let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let start = u64::try_from(start).map_err(|_| outside())?;
            let length = u64::try_from(column.compressed_size()).map_err(|_| outside())?;
            let end = start.checked_add(length).filter(|&end| end <= self.blob.bytes).ok_or_else(outside)?;
            all = Some(all.map_or(start..end, |all| all.start.min(start)..all.end.max(end)));
        }
        all.ok_or_else(|| StoreError::damaged_blob(self.key(), "its columns are not those of a log"))
    }

    fn window(&self, range: Range<u64>) -> Result<Window> {
        Ok(Window { start: range.start, bytes: self.read(range)?, size: self.blob.bytes })
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        match &self.bytes {
            PartBytes::Held(bytes) => Ok(bytes.slice(range.start as usize..range.end as usize)),
            PartBytes::Stored(blobs, runtime) => runtime.block_on(blobs.get_range(&self.blob, range)),
        }
    }
}

/// The row groups of a part.
pub struct PartIndex(ArrowReaderMetadata);

impl PartIndex {
    /// The number of rows of each group.
    pub fn groups(&self) -> impl Iterator<Item = u64> {
        self.0.metadata().row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0))
    }
}

/// Some of a file's bytes, and where in the file they are.
struct Window {
    start: u64,
    bytes: Bytes,
    size: u64,
}

impl Window {
    fn from(&self, start: u64) -> Result<Bytes, ParquetError> {
        let at = start.checked_sub(self.start).filter(|&at| at <= self.bytes.len() as u64);
        at.map(|at| self.bytes.slice(at as usize..)).ok_or_else(outside)
    }
}

fn outside() -> ParquetError {
    ParquetError::General("its index points outside of its rows".into())
}

impl Length for Window {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Window {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let bytes = self.from(start)?;
        if length <= bytes.len() { Ok(bytes.slice(..length)) } else { Err(outside()) }
    }
}
