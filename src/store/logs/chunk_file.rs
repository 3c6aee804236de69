//! Chunks of a log in a temporary file, column by column. A chunk is read whole, without its features, or only the features
//! of single contexts are read. Everything that is read is compared with hashes that were taken when it was written. Chunks
//! without features that are small enough are held in memory instead (`held`), where nothing else can change them.
//!
//! A chunk in a file is: the narrow columns, each after the other, then the features. Each context's features are followed by
//! their hash, which depends on the context's position too, so that a context can be read alone.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use guarantor_engine::{EngineError, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::held::HeldChunks;

/// The length of the hash behind the features of a context.
const HASH: usize = size_of::<u64>();

/// Which columns a chunk has.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkLayout {
    /// p.
    pub dim: usize,
    /// K.
    pub n_actions: usize,
    /// Whether chunks have π0(·|x) of each context.
    pub full: bool,
    /// For each candidate, whether chunks have its π(·|x) of each row.
    pub candidates: Vec<bool>,
    /// The number of outcomes besides the primary one.
    pub outcomes: usize,
    /// Whether chunks say which rows are of the last policy version.
    pub versions: bool,
    /// Whether chunks have the number of each row's context, where each row is an entry of its own.
    pub ordinals: bool,
    /// Whether chunks have contexts of several rows, with their ordinals, arrivals, offsets and weights.
    pub grouped: bool,
}

impl ChunkLayout {
    /// How many bytes the number of an action takes.
    fn action_bytes(&self) -> usize {
        if self.n_actions <= 256 { 1 } else { 4 }
    }

    /// How many bytes so many rows and contexts take without their features.
    pub fn narrow_bytes(&self, rows: u64, contexts: u64) -> u64 {
        let k = self.n_actions as u64;
        let lists = self.candidates.iter().filter(|has_full| **has_full).count() as u64;
        let doubles = 2 + self.candidates.len() as u64 + self.outcomes as u64 + lists * k;
        let full = if self.full { 8 * contexts * k } else { 0 };
        let ordinals = if self.ordinals || self.grouped { 8 * contexts } else { 0 };
        let grouped = if self.grouped { 16 * rows + 4 * (contexts + 1) } else { 0 };
        let row = self.action_bytes() as u64 + 8 * doubles + u64::from(self.versions);
        rows * row + full + ordinals + grouped
    }
}

/// The columns of a chunk.
#[derive(Debug, Default)]
pub struct ChunkColumns<F, A, D, U, B> {
    /// Contexts × p.
    pub x: F,
    pub actions: A,
    pub costs: D,
    pub propensities: D,
    /// Contexts × K, if the layout has it.
    pub full: D,
    pub candidates: Vec<D>,
    /// Rows × K, of those candidates that have it.
    pub candidate_full: Vec<D>,
    pub outcomes: Vec<D>,
    pub last: B,
    /// The number of each context, if the layout has it.
    pub ordinals: U,
    /// These only if the layout is grouped.
    pub arrivals: U,
    pub offsets: A,
    pub weights: D,
}

/// Columns that are written.
pub type Borrowed<'a> = ChunkColumns<&'a [f32], &'a [u32], &'a [f64], &'a [u64], &'a [u8]>;
/// Columns that were read.
pub type Read<'a> = ChunkColumns<Vec<f32>, Cow<'a, [u32]>, Cow<'a, [f64]>, Cow<'a, [u64]>, Cow<'a, [u8]>>;

/// Where a chunk is, and the hash of its narrow columns.
#[derive(Debug, Clone, Copy, Default)]
pub struct Place {
    from: u64,
    hash: u64,
    contexts: u32,
    rows: u32,
}

impl Place {
    /// The place of a chunk of so many rows that is in no file.
    pub fn in_memory(rows: usize) -> Place {
        Place { rows: rows as u32, contexts: rows as u32, ..Place::default() }
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows.into()
    }
}

/// Where chunks are.
pub enum Backing {
    /// A temporary file.
    File(File),
    /// Memory.
    Memory(HeldChunks),
}

/// Chunks in a file.
pub struct ChunkFile {
    backing: Backing,
    end: AtomicU64,
    seed: u64,
    layout: ChunkLayout,
}

impl ChunkFile {
    /// An empty file of chunks. The seed is that of the hashes.
    pub fn new(backing: Backing, seed: u64, layout: ChunkLayout) -> Self {
        ChunkFile { backing, end: AtomicU64::new(0), seed, layout }
    }

    /// Which columns its chunks have.
    pub fn layout(&self) -> &ChunkLayout {
        &self.layout
    }

    fn salt(&self, index: usize, part: u64) -> u64 {
        self.seed
            ^ (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (part + 1).wrapping_mul(0xd1b5_4a32_d192_ed03)
    }

    /// The salt of the features of a context.
    fn salt_of(&self, index: usize, c: usize) -> u64 {
        self.salt(index, (1 << 32) + c as u64)
    }

    /// Appends the bytes of chunk `index` to `out`. It will be at this position of what is written together. Chunks in memory
    /// are held at once.
    pub fn encode(&self, index: usize, columns: &Borrowed, out: &mut Vec<u8>) -> Place {
        if let Backing::Memory(held) = &self.backing {
            return held.hold(index, columns);
        }
        let (mut hash, mut part) = (0u64, 0);
        let from = out.len();
        let mut put = |bytes: &[u8]| {
            hash = hash.wrapping_add(xxh3_64_with_seed(bytes, self.salt(index, part)));
            part += 1;
            out.extend_from_slice(bytes);
        };
        match self.layout.action_bytes() {
            1 => put(&columns.actions.iter().map(|&action| action as u8).collect::<Vec<u8>>()),
            _ => put(cast_slice(columns.actions)),
        }
        put(cast_slice(columns.costs));
        put(cast_slice(columns.propensities));
        for values in columns.candidates.iter().chain(&columns.outcomes).chain(&columns.candidate_full) {
            put(cast_slice(values));
        }
        put(cast_slice(columns.full));
        put(columns.last);
        put(cast_slice(columns.ordinals));
        put(cast_slice(columns.arrivals));
        put(cast_slice(columns.offsets));
        put(cast_slice(columns.weights));
        let rows = columns.actions.len();
        let contexts = if self.layout.grouped { columns.offsets.len().saturating_sub(1) } else { rows };
        if self.layout.dim > 0 {
            for (c, x) in columns.x.chunks_exact(self.layout.dim).enumerate() {
                let x: &[u8] = cast_slice(x);
                out.extend_from_slice(x);
                out.extend_from_slice(&xxh3_64_with_seed(x, self.salt_of(index, c)).to_ne_bytes());
            }
        }
        Place { from: from as u64, hash, contexts: contexts as u32, rows: rows as u32 }
    }

    /// Writes encoded chunks, and says where they are.
    pub fn write<'a>(
        &self,
        bytes: Vec<u8>,
        places: impl Iterator<Item = &'a mut Place>,
    ) -> std::io::Result<()> {
        let start = self.end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        places.for_each(|place| place.from += start);
        match &self.backing {
            Backing::File(file) => file.write_all_at(&bytes, start),
            Backing::Memory(_) => Ok(()),
        }
    }

    /// The columns of chunk `index`, with or without features.
    ///
    /// # Errors
    /// If the file cannot be read, or a byte is not the one that was written.
    pub fn read(&self, index: usize, place: &Place, features: bool) -> Result<Read<'_>> {
        let file = match &self.backing {
            Backing::Memory(held) => return held.read(index).ok_or_else(|| changed(index)),
            Backing::File(file) => file,
        };
        let (n, contexts, k) = (place.rows as usize, place.contexts as usize, self.layout.n_actions);
        let layout = &self.layout;
        let mut reader = Reader { chunks: self, file, index, at: place.from, hash: 0, part: 0 };
        let mut columns = Read {
            actions: match layout.action_bytes() {
                1 => reader.column::<u8>(n)?.iter().map(|&action| u32::from(action)).collect(),
                _ => reader.column(n)?,
            },
            costs: reader.column(n)?,
            propensities: reader.column(n)?,
            ..Read::default()
        };
        for _ in &layout.candidates {
            columns.candidates.push(reader.column(n)?);
        }
        for _ in 0..layout.outcomes {
            columns.outcomes.push(reader.column(n)?);
        }
        for _ in layout.candidates.iter().filter(|has_full| **has_full) {
            columns.candidate_full.push(reader.column(n * k)?);
        }
        columns.full = reader.column(if layout.full { contexts * k } else { 0 })?;
        columns.last = reader.column(if layout.versions { n } else { 0 })?;
        columns.ordinals = reader.column(if layout.ordinals || layout.grouped { contexts } else { 0 })?;
        let grouped = |count: usize| if layout.grouped { count } else { 0 };
        columns.arrivals = reader.column(grouped(n))?;
        columns.offsets = reader.column(grouped(contexts + 1))?;
        columns.weights = reader.column(grouped(n))?;
        let (hash, at) = (reader.hash, reader.at);
        if hash != place.hash {
            return Err(changed(index));
        }
        if features && layout.dim > 0 {
            columns.x = self.features_of_all(file, index, at, contexts)?;
        }
        Ok(columns)
    }

    /// Reads the features of single contexts, each given by its chunk and its place there, one after the other.
    ///
    /// # Errors
    /// If the file cannot be read, or a byte is not the one that was written.
    pub fn features(&self, chunks: &[Place], contexts: &[(u32, u32)], to: &mut [f32]) -> Result<()> {
        let Backing::File(file) = &self.backing else {
            return Err(EngineError::Log("the features of the log were not kept".into()));
        };
        let (p, width) = (self.layout.dim.max(1), self.context_bytes() as u64);
        let mut bytes = vec![0; self.context_bytes()];
        for (&(index, c), to) in contexts.iter().zip(to.chunks_exact_mut(p)) {
            let place = chunks.get(index as usize).filter(|place| c < place.contexts);
            let place = place.ok_or_else(|| EngineError::Log("there is no such context".into()))?;
            let narrow = self.layout.narrow_bytes(place.rows.into(), place.contexts.into());
            let at = place.from + narrow + u64::from(c) * width;
            read_at(file, &mut bytes, at)?;
            self.take_features(index as usize, c as usize, &bytes, to)?;
        }
        Ok(())
    }

    fn features_of_all(&self, file: &File, index: usize, at: u64, contexts: usize) -> Result<Vec<f32>> {
        let (p, width) = (self.layout.dim, self.context_bytes());
        let mut bytes = vec![0u8; contexts * width];
        read_at(file, &mut bytes, at)?;
        let mut x = vec![0f32; contexts * p];
        for (c, (bytes, x)) in bytes.chunks_exact(width).zip(x.chunks_exact_mut(p)).enumerate() {
            self.take_features(index, c, bytes, x)?;
        }
        Ok(x)
    }

    /// How many bytes the features of a context take, with their hash.
    fn context_bytes(&self) -> usize {
        size_of::<f32>() * self.layout.dim + HASH
    }

    fn take_features(&self, index: usize, c: usize, bytes: &[u8], to: &mut [f32]) -> Result<()> {
        let (x, hash) = bytes.split_at(bytes.len() - HASH);
        if xxh3_64_with_seed(x, self.salt_of(index, c)).to_ne_bytes() != hash {
            return Err(changed(index));
        }
        cast_slice_mut(to).copy_from_slice(x);
        Ok(())
    }
}

fn read_at(file: &File, bytes: &mut [u8], at: u64) -> Result<()> {
    let read = file.read_exact_at(bytes, at);
    read.map_err(|error| EngineError::Unavailable(format!("the temporary file of the log: {error}")))
}

/// Reads the columns of a chunk one after the other.
struct Reader<'a> {
    chunks: &'a ChunkFile,
    file: &'a File,
    index: usize,
    at: u64,
    hash: u64,
    part: u64,
}

impl Reader<'_> {
    fn column<T: Pod>(&mut self, count: usize) -> Result<Cow<'static, [T]>> {
        let mut values = vec![T::zeroed(); count];
        let bytes: &mut [u8] = cast_slice_mut(&mut values);
        if count > 0 {
            read_at(self.file, bytes, self.at)?;
        }
        self.at += bytes.len() as u64;
        let salt = self.chunks.salt(self.index, self.part);
        self.hash = self.hash.wrapping_add(xxh3_64_with_seed(bytes, salt));
        self.part += 1;
        Ok(values.into())
    }
}

fn changed(index: usize) -> EngineError {
    EngineError::Log(format!("chunk {index} of the log's temporary file has changed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_disk(file: File) -> ChunkFile {
        ChunkFile::new(Backing::File(file), 7, layout())
    }

    fn layout() -> ChunkLayout {
        ChunkLayout {
            dim: 2,
            n_actions: 3,
            full: true,
            candidates: vec![false, true],
            outcomes: 1,
            versions: true,
            ordinals: true,
            grouped: true,
        }
    }

    /// Two contexts, of which the second has two rows.
    fn columns() -> Borrowed<'static> {
        Borrowed {
            x: &[1.0, 2.0, 3.0, 4.0],
            actions: &[0, 1, 2],
            costs: &[-1.0, 0.0, -0.5],
            propensities: &[0.5, 0.25, 0.125],
            full: &[0.5, 0.25, 0.25, 0.625, 0.25, 0.125],
            candidates: vec![&[0.1, 0.2, 0.3], &[0.4, 0.5, 0.6]],
            candidate_full: vec![&[0.4, 0.3, 0.3, 0.25, 0.5, 0.25, 0.2, 0.2, 0.6]],
            outcomes: vec![&[-0.25, -0.75, 0.0]],
            last: &[0, 1, 1],
            ordinals: &[7, 9],
            arrivals: &[10, 11, 14],
            offsets: &[0, 1, 3],
            weights: &[1.0, 0.5, 0.5],
        }
    }

    fn check(file: &ChunkFile, index: usize, place: &Place) {
        let (read, written) = (file.read(index, place, true).unwrap(), columns());
        assert_eq!((&read.x[..], &*read.actions), (written.x, written.actions));
        assert_eq!((&read.costs[..], &read.propensities[..]), (written.costs, written.propensities));
        assert_eq!((&read.full[..], &read.last[..]), (written.full, written.last));
        assert_eq!(read.candidates, written.candidates);
        assert_eq!(
            (read.candidate_full, read.outcomes),
            (vec![written.candidate_full[0].into()], vec![written.outcomes[0].into()])
        );
        assert_eq!((&read.ordinals[..], &read.arrivals[..]), (written.ordinals, written.arrivals));
        assert_eq!((&read.offsets[..], &read.weights[..]), (written.offsets, written.weights));
        assert!(file.read(index, place, false).unwrap().x.is_empty());
    }

    #[test]
    fn chunks_read_as_they_were_written() {
        let file = on_disk(tempfile::tempfile().unwrap());
        let mut bytes = Vec::new();
        let mut places = [file.encode(0, &columns(), &mut bytes), file.encode(1, &columns(), &mut bytes)];
        file.write(bytes, places.iter_mut()).unwrap();
        let mut bytes = Vec::new();
        let mut last = file.encode(2, &columns(), &mut bytes);
        file.write(bytes, std::iter::once(&mut last)).unwrap();
        let places = [places[0], places[1], last];
        places.iter().enumerate().for_each(|(index, place)| check(&file, index, place));
        let mut x = [0.0; 6];
        file.features(&places, &[(2, 1), (0, 0), (1, 1)], &mut x).unwrap();
        assert_eq!(x, [3.0, 4.0, 1.0, 2.0, 3.0, 4.0]);
        // A chunk is not another one, even with the same rows.
        assert!(file.read(0, &places[1], false).is_err());
        assert!(file.features(&places, &[(0, 2)], &mut x).is_err());
    }

    #[test]
    fn a_byte_that_changes_after_it_was_written_is_noticed() {
        let disk = tempfile::tempfile().unwrap();
        let file = on_disk(disk.try_clone().unwrap());
        let mut bytes = Vec::new();
        let mut place = file.encode(0, &columns(), &mut bytes);
        file.write(bytes.clone(), std::iter::once(&mut place)).unwrap();
        assert_eq!(bytes.len() as u64, layout().narrow_bytes(3, 2) + 2 * file.context_bytes() as u64);
        for (at, byte) in (0..).zip(&bytes) {
            disk.write_all_at(&[byte ^ 4], at).unwrap();
            assert!(file.read(0, &place, true).is_err(), "byte {at}");
            disk.write_all_at(&[*byte], at).unwrap();
        }
        let end = layout().narrow_bytes(3, 2);
        disk.write_all_at(&[bytes[end as usize] ^ 1], end).unwrap();
        let mut x = [0.0; 2];
        assert!(file.features(&[place], &[(0, 0)], &mut x).is_err());
        assert!(file.features(&[place], &[(0, 1)], &mut x).is_ok());
    }
}
