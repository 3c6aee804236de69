//! Thrift's compact protocol, in which the index of a Parquet file and the headers of its pages are written.
//! It is walked with limits on memory and depth.

/// The number of nested values of the index, and how deep they are nested.
const MAX_VALUES: u32 = 4_000_000;
const MAX_DEPTH: u32 = 32;
const MAX_COLUMNS: u64 = 100_000;

/// The content of a page header.
pub struct PageHeader {
    /// The length of the header itself.
    pub header: u64,
    /// The length of the page in the file.
    pub compressed: u64,
    /// The length of the page after decompression.
    pub uncompressed: i64,
    /// The number of values of a data page. The values of a dictionary do not count.
    pub values: i64,
    /// The number of values of a dictionary.
    pub entries: i64,
    pub encoding: i64,
    /// The number of bytes before the compressed ones.
    pub levels: i64,
    /// Whether anything is compressed.
    pub packed: bool,
}

/// A walk through a struct of the compact protocol.
pub struct Thrift<'a> {
    rest: &'a [u8],
    seen: u32,
}

const STOP: u8 = 0;
const STRUCT: u8 = 12;
const LIST: u8 = 9;

impl<'a> Thrift<'a> {
    /// Starts at the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
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

    /// Walks the fields of a struct. `visit` reads those that it knows and returns false for the others.
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
        if depth > MAX_DEPTH || self.seen > MAX_VALUES {
            return None;
        }
        match kind {
            // In a struct a boolean is part of the type, in a list it is a byte.
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

    /// The number of children of each element of the schema. This walks the whole index.
    pub fn schema_children(&mut self) -> Option<Vec<i64>> {
        let mut children = Vec::new();
        self.fields(|this, id, kind| {
            if (id, kind) != (2, LIST) {
                return Some(false);
            }
            let (size, kind) = this.list()?;
            if kind != STRUCT || !children.is_empty() || size > MAX_COLUMNS {
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

    /// The header of a page.
    pub fn page_header(&mut self) -> Option<PageHeader> {
        let before = self.rest.len();
        let mut page = PageHeader {
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
