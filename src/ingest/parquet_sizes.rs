//! What a Parquet file says of its sizes, read before it is decoded: the library sets memory aside
//! and recurses as the file tells it to, and a file that tells it lies must not take the process down.
//! The index and the pages' headers are Thrift's compact protocol, walked here with bounds.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use ::parquet::basic::Compression;
use ::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::IngestLimits;
use super::errors::IngestError;
use super::row::FormatError;

const MOST_FOOTER: u64 = 16 << 20;
/// Nested values of the index, in all and inside each other.
const MOST_VALUES: u32 = 4_000_000;
const MOST_DEPTH: u32 = 32;
const MOST_COLUMNS: u64 = 100_000;
/// Groups inside groups; a list in a struct has four.
const MOST_NESTING: usize = 8;
const MOST_PAGE: i64 = 128 << 20;
const MOST_HEADER: usize = 1 << 20;
/// The old LZ4 framing is decoded without a bound, to at most 255 times its size.
const MOST_LZ4_PAGE: u64 = 4 << 20;
/// Encodings whose decoders take memory for what is there, not for what is claimed: plain, dictionary,
/// run lengths, packed deltas, split bytes.
const ENCODINGS: [i64; 6] = [0, 2, 3, 5, 8, 9];
/// Numbers in a list column of a row group. A single row may claim all of them, and is read whole.
const MOST_LISTED: i64 = 1 << 27;
/// Decoded bytes before their ratio to the file's is looked at.
const RATIO_FROM: u64 = 16 << 20;

fn damaged(what: &str) -> FormatError {
    FormatError::Unreadable(format!("damaged Parquet file: {what}"))
}

/// Checks the shape of the index. What is not even an index is left for the library to name.
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
    if size > MOST_FOOTER {
        return Err(FormatError::Unreadable(format!(
            "the file's index has {size} bytes, at most {MOST_FOOTER} can be; write fewer and larger row groups"
        )));
    }
    let mut footer = vec![0; size as usize];
    file.read_exact_at(&mut footer, length - 8 - size).map_err(unreadable)?;
    let children =
        Thrift::new(&footer).schema_children().ok_or_else(|| damaged("its index cannot be read"))?;
    if is_tree(&children) { Ok(()) } else { Err(damaged("its schema is not a tree of columns")) }
}

/// Whether the elements, each with its number of children and depth first, are one shallow tree.
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
        if open.len() > MOST_NESTING {
            return false;
        }
    }
    open.is_empty() && !children.is_empty()
}

/// Checks what the pages claim, one header after the other, against the limits and each other.
pub fn check_pages(file: &File, index: &ParquetMetaData, limits: &IngestLimits) -> Result<(), FormatError> {
    let length = file.metadata().map_err(|error| FormatError::Unreadable(error.to_string()))?.len();
    let declared = index.row_groups().iter().map(|group| group.total_byte_size());
    let mut decoded = declared.fold(0u64, |sum, n| sum.saturating_add(u64::try_from(n).unwrap_or(0)));
    let mut held = 0u64;
    for column in index.row_groups().iter().flat_map(|group| group.columns()) {
        let chunk = walk(file, length, column)?;
        if column.column_descr().max_rep_level() > 0 && chunk.values > MOST_LISTED {
            return Err(FormatError::Unreadable(format!(
                "the column {} has {} numbers in a row group, at most {MOST_LISTED} can be; write smaller row groups (row_group_size)",
                column.column_path().string(),
                chunk.values
            )));
        }
        // A page of repeated values is short, and its numbers take eight bytes each once decoded.
        let values = u64::try_from(chunk.values).unwrap_or(0).saturating_mul(8);
        held = held.saturating_add(chunk.bytes.max(values));
    }
    decoded = decoded.max(held);
    if decoded > limits.decoded_bytes {
        return Err(expands(format!(
            "The file has {decoded} bytes once it is decoded; this server's limit is {}.",
            limits.decoded_bytes
        )));
    }
    if decoded > RATIO_FROM && decoded / limits.decoded_ratio > length {
        return Err(expands(format!(
            "The file grows to more than {} times its size when it is decoded; write it without compression.",
            limits.decoded_ratio
        )));
    }
    Ok(())
}

fn expands(message: String) -> FormatError {
    FormatError::Stopped(IngestError::Expands(message))
}

/// What a column chunk's pages come to.
#[derive(Default)]
struct Chunk {
    bytes: u64,
    values: i64,
}

fn walk(file: &File, length: u64, column: &ColumnChunkMetaData) -> Result<Chunk, FormatError> {
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let bounds = u64::try_from(start).ok().zip(u64::try_from(column.compressed_size()).ok());
    let bounds = bounds.and_then(|(start, size)| Some((start, start.checked_add(size)?)));
    let Some((mut at, end)) = bounds.filter(|(_, end)| *end <= length) else {
        return Err(damaged("a column lies outside of the file"));
    };
    let mut chunk = Chunk::default();
    while at < end {
        let page = page_at(file, at, end).ok_or_else(|| damaged("a page's header cannot be read"))?;
        check_page(file, at, &page, column)?;
        chunk.bytes = chunk.bytes.saturating_add(page.uncompressed as u64);
        chunk.values = chunk.values.saturating_add(page.values);
        at += page.header + page.compressed;
    }
    // A reader would go on into the next column, or stop early, for as long as these two disagree.
    if chunk.values != column.num_values() {
        return Err(damaged("a column's pages do not have as many values as its index says"));
    }
    Ok(chunk)
}

fn check_page(file: &File, at: u64, page: &Page, column: &ColumnChunkMetaData) -> Result<(), FormatError> {
    let name = column.column_path().string();
    if page.uncompressed > MOST_PAGE || page.compressed > MOST_PAGE as u64 {
        return Err(FormatError::Unreadable(format!(
            "a page of the column {name} has {} bytes, at most {MOST_PAGE} can be; write smaller pages",
            page.uncompressed
        )));
    }
    if !ENCODINGS.contains(&page.encoding) {
        return Err(FormatError::Unreadable(format!(
            "the column {name} has Parquet's encoding number {}, which is not read here; write it plain or with a dictionary",
            page.encoding
        )));
    }
    // A dictionary is as long as it claims before its values are looked for.
    if page.entries > page.uncompressed {
        return Err(damaged("a dictionary claims more values than it has bytes"));
    }
    match column.compression() {
        Compression::LZ4 if page.compressed > MOST_LZ4_PAGE => Err(FormatError::Unreadable(format!(
            "a page of the column {name} has more than {MOST_LZ4_PAGE} bytes of LZ4; write smaller pages, or LZ4_RAW"
        ))),
        // These two are decoded to wherever they lead.
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

/// How many bytes come out, counted to one more than `most`.
fn unpacked(codec: Compression, bytes: &[u8], most: u64) -> io::Result<u64> {
    let bytes: Box<dyn Read + '_> = match codec {
        Compression::GZIP(_) => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
        _ => Box::new(brotli::Decompressor::new(bytes, 1 << 12)),
    };
    io::copy(&mut bytes.take(most + 1), &mut io::sink())
}

/// What a page's header says.
struct Page {
    header: u64,
    compressed: u64,
    uncompressed: i64,
    /// Of a data page; a dictionary's are no rows' values.
    values: i64,
    /// Of a dictionary.
    entries: i64,
    encoding: i64,
    /// Bytes before what is compressed, and whether anything is.
    levels: i64,
    packed: bool,
}

fn page_at(file: &File, at: u64, end: u64) -> Option<Page> {
    let room = usize::try_from(end - at).ok()?.min(MOST_HEADER);
    for size in [room.min(1 << 10), room] {
        let mut bytes = vec![0; size];
        file.read_exact_at(&mut bytes, at).ok()?;
        if let Some(page) = Thrift::new(&bytes).page_header() {
            return Some(page).filter(|page| page.header + page.compressed <= end - at);
        }
    }
    None
}

/// Where a walk through a compact-protocol struct stands.
struct Thrift<'a> {
    rest: &'a [u8],
    seen: u32,
}

const STOP: u8 = 0;
const STRUCT: u8 = 12;
const LIST: u8 = 9;

impl<'a> Thrift<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Thrift { rest: bytes, seen: 0 }
    }

    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    fn bytes(&mut self, n: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(n).ok()?..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn integer(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// The next field's number and type; a type of STOP ends the struct.
    fn field(&mut self, last: i64) -> Option<(i64, u8)> {
        let byte = self.byte()?;
        let (delta, kind) = (i64::from(byte >> 4), byte & 0x0f);
        match (kind, delta) {
            (STOP, _) => Some((last, STOP)),
            (_, 0) => Some((self.integer()?, kind)),
            _ => Some((last.wrapping_add(delta), kind)),
        }
    }

    /// Walks a struct's fields; `visit` reads those that it knows and leaves the others with false.
    fn fields(&mut self, mut visit: impl FnMut(&mut Self, i64, u8) -> Option<bool>) -> Option<()> {
        let mut last = 0;
        loop {
            let (id, kind) = self.field(last)?;
            if kind == STOP {
                return Some(());
            }
            if !visit(self, id, kind)? {
                self.skip(kind, 0, false)?;
            }
            last = id;
        }
    }

    fn list(&mut self) -> Option<(u64, u8)> {
        let byte = self.byte()?;
        let size = if byte >> 4 == 15 { self.varint()? } else { u64::from(byte >> 4) };
        Some((size, byte & 0x0f))
    }

    fn skip(&mut self, kind: u8, depth: u32, in_list: bool) -> Option<()> {
        self.seen += 1;
        if depth > MOST_DEPTH || self.seen > MOST_VALUES {
            return None;
        }
        match kind {
            // In a struct a boolean is its type, in a list a byte.
            1 | 2 if !in_list => Some(()),
            1..=3 => self.byte().map(drop),
            4..=6 => self.varint().map(drop),
            7 => self.bytes(8),
            8 => {
                let n = self.varint()?;
                self.bytes(n)
            }
            9 | 10 => {
                let (size, kind) = self.list()?;
                (0..size).try_for_each(|_| self.skip(kind, depth + 1, true))
            }
            11 => match self.varint()? {
                0 => Some(()),
                size => {
                    let kinds = self.byte()?;
                    (0..size).try_for_each(|_| {
                        self.skip(kinds >> 4, depth + 1, true)?;
                        self.skip(kinds & 0x0f, depth + 1, true)
                    })
                }
            },
            STRUCT => {
                let mut last = 0;
                loop {
                    let (id, kind) = self.field(last)?;
                    if kind == STOP {
                        return Some(());
                    }
                    self.skip(kind, depth + 1, false)?;
                    last = id;
                }
            }
            13 => self.bytes(16),
            _ => None,
        }
    }

    /// How many children each element of the schema has. Walks the whole index on the way.
    fn schema_children(&mut self) -> Option<Vec<i64>> {
        let mut children = Vec::new();
        self.fields(|this, id, kind| {
            if (id, kind) != (2, LIST) {
                return Some(false);
            }
            let (size, kind) = this.list()?;
            if kind != STRUCT || !children.is_empty() || size > MOST_COLUMNS {
                return None;
            }
            for _ in 0..size {
                let mut n = 0;
                this.fields(|this, id, kind| match (id, kind) {
                    (5, 5) => {
                        n = this.integer()?;
                        Some(true)
                    }
                    _ => Some(false),
                })?;
                children.push(n);
            }
            Some(true)
        })?;
        Some(children)
    }

    fn page_header(&mut self) -> Option<Page> {
        let before = self.rest.len();
        let mut page = Page {
            header: 0,
            compressed: 0,
            uncompressed: -1,
            values: 0,
            entries: 0,
            encoding: 0,
            levels: 0,
            packed: true,
        };
        let mut compressed = -1;
        self.fields(|this, id, kind| match (id, kind) {
            (2, 5) => this.read(&mut page.uncompressed),
            (3, 5) => this.read(&mut compressed),
            (5, STRUCT) => this.inner(|this, id, kind| match (id, kind) {
                (1, 5) => this.read(&mut page.values),
                (2, 5) => this.read(&mut page.encoding),
                _ => Some(false),
            }),
            (7, STRUCT) => this.inner(|this, id, kind| match (id, kind) {
                (1, 5) => this.read(&mut page.entries),
                (2, 5) => this.read(&mut page.encoding),
                _ => Some(false),
            }),
            (8, STRUCT) => this.inner(|this, id, kind| match (id, kind) {
                (1, 5) => this.read(&mut page.values),
                (4, 5) => this.read(&mut page.encoding),
                (5 | 6, 5) => {
                    let mut bytes = 0;
                    this.read(&mut bytes)?;
                    page.levels = page.levels.checked_add(bytes)?;
                    Some(true)
                }
                (7, 1 | 2) => {
                    page.packed = kind == 1;
                    Some(true)
                }
                _ => Some(false),
            }),
            _ => Some(false),
        })?;
        let counts = [page.uncompressed, page.values, page.entries, page.levels];
        page.compressed = u64::try_from(compressed).ok().filter(|_| counts.iter().all(|&n| n >= 0))?;
        page.header = (before - self.rest.len()) as u64;
        Some(page)
    }

    fn read(&mut self, to: &mut i64) -> Option<bool> {
        *to = self.integer()?;
        Some(true)
    }

    fn inner(&mut self, visit: impl FnMut(&mut Self, i64, u8) -> Option<bool>) -> Option<bool> {
        self.fields(visit).map(|()| true)
    }
}
