//! A part of a stored log, read one row group at a time, so that one group is in memory wherever the bytes
//! are. Everything here blocks: call it on compute and blocking threads, never on an async one.

use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field};
use bytes::{Buf, Bytes};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use tokio::runtime::Handle;

use super::column_hashes::{ColumnHashes, hash_of_index, without_features};
use crate::store::blobs::Blobs;
use crate::store::error::{Result, StoreError};
use crate::store::records::BlobRef;

/// The most rows of a batch.
const BATCH_ROWS: usize = 8192;
/// The end of a Parquet file.
const TAIL: u64 = super::encode::TAIL as u64;
/// Columns that are closer to each other are read at once.
const GAP: u64 = 1 << 20;

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

    /// Its blob.
    pub fn blob(&self) -> &BlobRef {
        &self.blob
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
        let PartIndex { metadata, .. } = &index;
        let schema = metadata.metadata().file_metadata().schema_descr();
        let columns = match only {
            Some(names) if names.iter().any(|name| metadata.schema().field_with_name(name).is_err()) => {
                return Ok(());
            }
            Some(names) => ProjectionMask::columns(schema, names.iter().copied()),
            None => ProjectionMask::all(),
        };
        (0..metadata.metadata().num_row_groups())
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
        let group = index.metadata.metadata().row_group(number);
        let window = self.window(self.ranges_of(group, columns)?)?;
        self.each_batch_in(window, index, number, columns, visit)
    }

    /// Visits the rows of one row group in order, without their features, after each of the other columns was compared with
    /// its hash in the index. Only parts have hashes whose index was compared with its own when it was read.
    pub fn each_checked_batch_of<E: From<StoreError>>(
        &self,
        index: &PartIndex,
        number: usize,
        visit: &mut dyn FnMut(RecordBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        let no_hashes = || StoreError::damaged_blob(self.key(), "its index has no hashes of its columns");
        let hashes = index.hashes.as_ref().ok_or_else(no_hashes)?;
        let metadata = index.metadata.metadata();
        let group = metadata.row_group(number);
        let columns = without_features(metadata.file_metadata().schema_descr());
        let window = self.window(self.ranges_of(group, &columns)?)?;
        for (i, column) in group.columns().iter().enumerate().filter(|(i, _)| columns.leaf_included(*i)) {
            let Range { start, end } = self.range_of(column)?;
            let bytes = window.get_bytes(start, (end - start) as usize);
            if !bytes.is_ok_and(|bytes| hashes.fit(number, i, &bytes)) {
                let why =
                    format!("its column {} does not have the bytes that were written", column.column_path());
                return Err(StoreError::damaged_blob(self.key(), why).into());
            }
        }
        self.each_batch_in(window, index, number, &columns, visit)
    }

    fn each_batch_in<E: From<StoreError>>(
        &self,
        window: Window,
        index: &PartIndex,
        number: usize,
        columns: &ProjectionMask,
        visit: &mut dyn FnMut(RecordBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        let index = index.metadata.clone();
        let batches = ParquetRecordBatchReaderBuilder::new_with_metadata(window, index)
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
        let end = self.end()?;
        if let Some(expected) = &self.blob.index
            && end.pieces.iter().all(|(_, bytes)| hash_of_index(bytes) != *expected)
        {
            return Err(StoreError::damaged_blob(
                self.key(),
                "its index does not have the bytes that were written",
            ));
        }
        let metadata = ArrowReaderMetadata::load(&end, ArrowReaderOptions::new()).map_err(unreadable)?;
        let hashes = self.blob.index.as_ref().and_then(|_| ColumnHashes::of(metadata.metadata()));
        Ok(PartIndex { metadata, hashes })
    }

    /// The file's index, which is at its end.
    fn end(&self) -> Result<Window> {
        let size = self.blob.bytes;
        let no_index = || StoreError::damaged_blob(self.key(), "its index is longer than the file");
        let tail = self.read(size.checked_sub(TAIL).ok_or_else(no_index)?..size)?;
        let length = u64::from(tail.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)));
        let start = size.checked_sub(TAIL + length).ok_or_else(no_index)?;
        self.window(std::iter::once(start..size))
    }

    /// Where the bytes of a group's columns are, in order.
    fn ranges_of(&self, group: &RowGroupMetaData, columns: &ProjectionMask) -> Result<Vec<Range<u64>>> {
        let included = group.columns().iter().enumerate().filter(|(i, _)| columns.leaf_included(*i));
        let mut each = included.map(|(_, column)| self.range_of(column)).collect::<Result<Vec<_>>>()?;
        each.sort_by_key(|range| range.start);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for range in each {
            match ranges.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(GAP) => {
                    last.end = last.end.max(range.end)
                }
                _ => ranges.push(range),
            }
        }
        match ranges.is_empty() {
            true => Err(StoreError::damaged_blob(self.key(), "its columns are not those of a log")),
            false => Ok(ranges),
        }
    }

    /// Where the bytes of a column are.
    fn range_of(&self, column: &ColumnChunkMetaData) -> Result<Range<u64>> {
        let outside = || StoreError::damaged_blob(self.key(), "its index points outside of the file");
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let start = u64::try_from(start).map_err(|_| outside())?;
        let length = u64::try_from(column.compressed_size()).map_err(|_| outside())?;
        let end = start.checked_add(length).filter(|&end| end <= self.blob.bytes).ok_or_else(outside)?;
        Ok(start..end)
    }

    fn window(&self, ranges: impl IntoIterator<Item = Range<u64>>) -> Result<Window> {
        let read = |range: Range<u64>| Ok((range.start, self.read(range)?));
        Ok(Window { pieces: ranges.into_iter().map(read).collect::<Result<_>>()?, size: self.blob.bytes })
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        match &self.bytes {
            PartBytes::Held(bytes) => Ok(bytes.slice(range.start as usize..range.end as usize)),
            PartBytes::Stored(blobs, runtime) => runtime.block_on(blobs.get_range(&self.blob, range)),
        }
    }
}

/// The row groups of a part.
pub struct PartIndex {
    metadata: ArrowReaderMetadata,
    /// Of its columns without features, if the index itself was compared with its hash.
    hashes: Option<ColumnHashes>,
}

impl PartIndex {
    /// p.
    pub fn dim(&self) -> usize {
        match self.metadata.schema().field_with_name("x").map(Field::data_type) {
            Ok(DataType::FixedSizeList(_, p)) => usize::try_from(*p).unwrap_or(0),
            _ => 0,
        }
    }

    /// The number of rows of each group.
    pub fn groups(&self) -> impl Iterator<Item = u64> {
        self.metadata.metadata().row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0))
    }
}

/// Some of a file's bytes, and where in the file they start, in order.
struct Window {
    pieces: Vec<(u64, Bytes)>,
    size: u64,
}

impl Window {
    fn from(&self, start: u64) -> Result<Bytes, ParquetError> {
        let piece = self.pieces.iter().rev().find(|(first, _)| *first <= start).ok_or_else(outside)?;
        let at = start - piece.0;
        let inside = at <= piece.1.len() as u64;
        if inside { Ok(piece.1.slice(at as usize..)) } else { Err(outside()) }
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
