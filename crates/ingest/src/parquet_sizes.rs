//! The sizes that a Parquet file claims, checked before it is decoded: the library allocates memory and
//! recurses as the file says, and a malicious file must not crash the process. The index and the headers of
//! the pages are walked with limits (`thrift.rs`).

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use ::parquet::basic::Compression;
use ::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use crate::IngestLimits;
use crate::errors::IngestError;
use crate::row::FormatError;
use crate::thrift::{PageHeader, Thrift};

const MAX_FOOTER: u64 = 16 << 20;
/// Groups inside groups; a list in a struct has four.
const MAX_NESTING: usize = 8;
const MAX_PAGE: i64 = 128 << 20;
const MAX_HEADER: usize = 1 << 20;
/// The old LZ4 framing is decoded without a limit, to at most 255 times its size.
const MAX_LZ4_PAGE: u64 = 4 << 20;
/// Encodings whose decoders allocate memory for what is there, not for what is claimed: plain, dictionary,
/// run lengths, packed deltas, split bytes.
const ENCODINGS: [i64; 6] = [0, 2, 3, 5, 8, 9];
/// Numbers in a list column of a row group. A single row may claim all of them, and is read as a whole.
const MAX_LISTED: i64 = 1 << 27;
/// The ratio of decompressed size to file size is checked from this decompressed size on.
const RATIO_FROM: u64 = 16 << 20;

fn damaged(what: &str) -> FormatError {
    FormatError::Unreadable(format!("damaged Parquet file: {what}"))
}

/// Checks the shape of the index.
pub fn check_footer(file: &File) -> Result<(), FormatError> {
    let unreadable = |error: std::io::Error| FormatError::Unreadable(error.to_string());
    let length = file.metadata().map_err(unreadable)?.len();
    let mut end = [0; 8];
    if length < 12 || file.read_exact_at(&mut end, length - 8).is_err() || &end[4..] != b"PAR1" {
        return Err(FormatError::Unreadable("not a Parquet file: it does not end with an index".into()));
    }
    let size = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]]));
    if size > length - 8 {
        return Err(damaged("its index is longer than the file"));
    }
    if size > MAX_FOOTER {
        return Err(FormatError::Unreadable(format!(
            "the index of the file has {size} bytes; the maximum is {MAX_FOOTER}; write fewer and larger row groups"
        )));
    }
    let mut footer = vec![0; size as usize];
    file.read_exact_at(&mut footer, length - 8 - size).map_err(unreadable)?;
    let children =
        Thrift::new(&footer).schema_children().ok_or_else(|| damaged("its index cannot be read"))?;
    match is_tree(&children) {
        true => Ok(()),
        false => Err(damaged(&format!(
            "its schema is not a tree of columns with at most {MAX_NESTING} levels; write deeper features as NDJSON"
        ))),
    }
}

/// Whether the elements, given by their numbers of children in depth-first order, are one shallow tree.
fn is_tree(children: &[i64]) -> bool {
    let mut open: Vec<i64> = Vec::new();
    for (i, &n) in children.iter().enumerate() {
        if n < 0 || n as usize > children.len() || (i > 0 && open.is_empty()) {
            return false;
        }
        if let Some(last) = open.last_mut() {
            *last -= 1;
        }
        open.push(n);
        while open.last() == Some(&0) {
            open.pop();
        }
        if open.len() > MAX_NESTING {
            return false;
        }
    }
    open.is_empty() && !children.is_empty()
}

/// Checks what the headers of the pages claim, against the limits and each other. The columns in `ignored` are not
/// decoded, so nothing depends on what they claim.
pub fn check_pages(
    file: &File,
    index: &ParquetMetaData,
    ignored: &[String],
    limits: &IngestLimits,
) -> Result<(), FormatError> {
    let length = file.metadata().map_err(|error| FormatError::Unreadable(error.to_string()))?.len();
    let growth = Growth { length, limits };
    let ignored: HashSet<&String> = ignored.iter().collect();
    let is_used = |column: &&ColumnChunkMetaData| {
        let root = column.column_path().parts().first();
        root.is_none_or(|root| !ignored.contains(root))
    };
    let columns = || index.row_groups().iter().flat_map(|group| group.columns()).filter(is_used);
    let declared = columns().map(|column| column.uncompressed_size());
    growth.check(declared.fold(0u64, |sum, n| sum.saturating_add(u64::try_from(n).unwrap_or(0))))?;
    let mut held = 0u64;
    for column in columns() {
        let chunk = walk(file, &growth, held, column)?;
        if column.column_descr().max_rep_level() > 0 && chunk.values > MAX_LISTED {
            return Err(FormatError::Unreadable(format!(
                "the column {} has {} numbers in a row group; the maximum is {MAX_LISTED}; write smaller row groups (row_group_size)",
                column.column_path().string(),
                chunk.values
            )));
        }
        // A page of repeated values is short, but its numbers take eight bytes each when they are decoded.
        let values = u64::try_from(chunk.values).unwrap_or(0).saturating_mul(8);
        held = held.saturating_add(chunk.bytes.max(values));
        growth.check(held)?;
    }
    Ok(())
}

/// The size of a file, and the limits of its decompressed size.
struct Growth<'a> {
    length: u64,
    limits: &'a IngestLimits,
}

impl Growth<'_> {
    /// Called with every page: any number of columns may refer to the same page, and each is decompressed.
    fn check(&self, decoded: u64) -> Result<(), FormatError> {
        let IngestLimits { decoded_bytes, decoded_ratio, .. } = *self.limits;
        if decoded > decoded_bytes {
            return Err(expands(format!(
                "The file exceeds the limit of {decoded_bytes} bytes after decompression."
            )));
        }
        if decoded > RATIO_FROM && decoded / decoded_ratio > self.length {
            return Err(expands(format!(
                "The decompressed file is more than {decoded_ratio} times as large as the compressed one; write it without compression."
            )));
        }
        Ok(())
    }
}

fn expands(message: String) -> FormatError {
    FormatError::Stopped(IngestError::Expands(message))
}

/// What the pages of a column chunk add up to.
#[derive(Default)]
struct Chunk {
    bytes: u64,
    values: i64,
}

/// Walks the pages of a column chunk. `held` is what the previous columns add up to.
fn walk(file: &File, growth: &Growth, held: u64, column: &ColumnChunkMetaData) -> Result<Chunk, FormatError> {
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let bounds = u64::try_from(start).ok().zip(u64::try_from(column.compressed_size()).ok());
    let bounds = bounds.and_then(|(start, size)| Some((start, start.checked_add(size)?)));
    let Some((mut at, end)) = bounds.filter(|(_, end)| *end <= growth.length) else {
        return Err(damaged("a column lies outside the file"));
    };
    let mut chunk = Chunk::default();
    while at < end {
        let page = page_at(file, at, end).ok_or_else(|| damaged("the header of a page cannot be read"))?;
        check_page(&page, column)?;
        chunk.bytes = chunk.bytes.saturating_add(page.uncompressed as u64);
        growth.check(held.saturating_add(chunk.bytes))?;
        check_packed(file, at, &page, column)?;
        chunk.values = chunk.values.saturating_add(page.values);
        at += page.header + page.compressed;
    }
    // If these two disagreed, a reader would continue into the next column or stop early.
    if chunk.values != column.num_values() {
        return Err(damaged("the pages of a column do not have as many values as the index says"));
    }
    Ok(chunk)
}

fn check_page(page: &PageHeader, column: &ColumnChunkMetaData) -> Result<(), FormatError> {
    let name = column.column_path().string();
    if page.uncompressed > MAX_PAGE || page.compressed > MAX_PAGE as u64 {
        return Err(FormatError::Unreadable(format!(
            "a page of the column {name} has {} bytes; the maximum is {MAX_PAGE}; write smaller pages",
            page.uncompressed
        )));
    }
    if !ENCODINGS.contains(&page.encoding) {
        return Err(FormatError::Unreadable(format!(
            "the column {name} has Parquet's encoding number {}, which is not supported; write it plain or with a dictionary",
            page.encoding
        )));
    }
    // Memory for a dictionary is allocated as it claims before its values are read.
    if page.entries > page.uncompressed {
        return Err(damaged("a dictionary claims more values than it has bytes"));
    }
    match column.compression() {
        Compression::LZ4 if page.compressed > MAX_LZ4_PAGE => Err(FormatError::Unreadable(format!(
            "a page of the column {name} has more than {MAX_LZ4_PAGE} bytes of LZ4; write smaller pages, or LZ4_RAW"
        ))),
        _ => Ok(()),
    }
}

fn check_packed(
    file: &File,
    at: u64,
    page: &PageHeader,
    column: &ColumnChunkMetaData,
) -> Result<(), FormatError> {
    match column.compression() {
        // These two are decoded without a limit.
        Compression::GZIP(_) | Compression::BROTLI(_) if page.packed => {
            let mut bytes = vec![0; page.compressed as usize];
            let read = file.read_exact_at(&mut bytes, at + page.header);
            read.map_err(|error| FormatError::Unreadable(error.to_string()))?;
            let packed = usize::try_from(page.levels).ok().and_then(|levels| bytes.get(levels..));
            let most = page.uncompressed as u64;
            match packed.map(|packed| unpacked(column.compression(), packed, most)) {
                Some(Ok(n)) if n <= most => Ok(()),
                _ => Err(damaged("a page is not as long as its header says")),
            }
        }
        _ => Ok(()),
    }
}

/// The decompressed size, counted up to one more than `most`.
fn unpacked(codec: Compression, bytes: &[u8], most: u64) -> io::Result<u64> {
    let bytes: Box<dyn Read + '_> = match codec {
        Compression::GZIP(_) => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
        _ => Box::new(brotli::Decompressor::new(bytes, 1 << 12)),
    };
    io::copy(&mut bytes.take(most + 1), &mut io::sink())
}

fn page_at(file: &File, at: u64, end: u64) -> Option<PageHeader> {
    let room = usize::try_from(end - at).ok()?.min(MAX_HEADER);
    for size in [room.min(1 << 10), room] {
        let mut bytes = vec![0; size];
        file.read_exact_at(&mut bytes, at).ok()?;
        if let Some(page) = Thrift::new(&bytes).page_header() {
            return Some(page).filter(|page| page.header + page.compressed <= end - at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::parquet::arrow::ArrowWriter;
    use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
    use ::parquet::file::properties::WriterProperties;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use std::sync::Arc;

    /// A million zeros in one page, and the file's index.
    fn file() -> (File, ParquetMetaData) {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![0; 1_000_000]));
        let batch = RecordBatch::try_from_iter([("action", column)]).unwrap();
        let properties = WriterProperties::builder()
            .set_compression(Compression::GZIP(Default::default()))
            .set_dictionary_enabled(false);
        let file = tempfile::tempfile().unwrap();
        let writer = file.try_clone().unwrap();
        let mut writer = ArrowWriter::try_new(writer, batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let index = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).unwrap();
        (file, index.metadata().as_ref().clone())
    }

    /// The same column many times, the last time as one that is not in the file: a check that looked at
    /// the limits only after decompressing everything would get that far.
    #[test]
    fn a_page_shared_by_many_columns_is_decompressed_only_up_to_the_limit() {
        let (file, index) = file();
        let group = index.row_group(0).clone();
        let column = group.column(0).clone().into_builder().set_data_page_offset(1 << 40).build().unwrap();
        let wrong = group.clone().into_builder().set_column_metadata(vec![column]).build().unwrap();
        let silent = group.into_builder().set_total_byte_size(0).build().unwrap();
        let mut groups = vec![silent; 20];
        groups.push(wrong);
        let many = ParquetMetaData::new(index.file_metadata().clone(), groups);
        let limits = |decoded_bytes, decoded_ratio| IngestLimits {
            decoded_bytes,
            decoded_ratio,
            ..IngestLimits::default()
        };
        let expands = |limits: &IngestLimits| match check_pages(&file, &many, &[], limits) {
            Err(FormatError::Stopped(IngestError::Expands(_))) => true,
            Err(FormatError::Unreadable(_)) => false,
            _ => panic!("the file was accepted"),
        };
        assert!(expands(&limits(64 << 30, 500)));
        assert!(expands(&limits(100 << 20, u64::MAX)));
        assert!(!expands(&limits(64 << 30, u64::MAX)));
        assert!(check_pages(&file, &index, &[], &limits(64 << 30, 1 << 20)).is_ok());
    }
}
