//! A log in order of arrival whose rows are entries of their own, in a temporary file of chunks (`chunk_file`). Most
//! logs are of this kind. They are decoded, checked and written on all threads.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use ndarray::{CowArray, Ix2};
use rayon::prelude::*;

use super::chunk_file::{Backing, Borrowed, ChunkFile, ChunkLayout, Place, Read};
use super::groups::Group;
use super::held::HeldChunks;
use super::order::{Comparison, Order};
use super::record::Rows;
use super::spool::{SpoolError, changed, shape_of, temporary};
use super::spooled::{fill, matrix};
use super::{LogLayout, LogMemory, LogRows, StoredLog};
use guarantor_engine::control::Control;
use guarantor_engine::log::{Chunk, LogShape, LogSource, chunk_contexts, uniform};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::{EngineError, Result};
use guarantor_ingest::ColumnsBuilder;

/// A log in a temporary file of chunks, which is removed when this is dropped.
pub struct ChunkedLog {
    shape: LogShape,
    file: ChunkFile,
    places: Vec<Place>,
    /// The first row of each chunk, and the end.
    starts: Vec<u64>,
    /// The logging policy, if the rows do not contain π0(·|x).
    logging_policy: Option<PolicyParams>,
    /// 0, 1, … and 1, 1, …: the rows and weights of contexts with one row.
    offsets: Vec<u32>,
    ones: Vec<f64>,
    memory: LogMemory,
}

/// Whether the rows of a log can be written in this way.
pub fn is_plain(log: &StoredLog, layout: &LogLayout, order: &Order) -> bool {
    let shape = shape_of(&log.dataset, layout, order, false);
    order.is_sorted() && layout.sets.is_none() && !shape.capabilities.multiple_interactions
}

/// Writes a log to a temporary file of chunks.
pub fn spool(
    log: &StoredLog,
    layout: &LogLayout,
    order: &Order,
    logging_policy: Option<&PolicyParams>,
    control: &Control,
) -> Result<ChunkedLog, SpoolError> {
    let logging_policy = logging_policy.filter(|_| layout.full.is_none()).cloned();
    let shape = shape_of(&log.dataset, layout, order, logging_policy.is_some());
    let size = chunk_contexts(layout.dim);
    let chunks = ChunkLayout {
        dim: if log.features { layout.dim } else { 0 },
        n_actions: shape.n_actions,
        full: layout.full.is_some(),
        candidates: layout.candidates.iter().map(|name| layout.full_position(name).is_some()).collect(),
        outcomes: layout.outcomes.len(),
        versions: layout.versions,
        ordinals: shape.capabilities.repeated_contexts,
        grouped: false,
    };
    let rows = log.dataset.content.rows;
    let count = rows.div_ceil(size as u64) as usize;
    // Rows without their features may fit into memory.
    let backing = match !log.features && chunks.narrow_bytes(rows, rows) <= log.memory.max_bytes {
        true => Backing::Memory(HeldChunks::new(count)),
        false => Backing::File(temporary(&log.memory)?),
    };
    let file = ChunkFile::new(backing, RandomState::new().hash_one(0u8), chunks);
    // The features of a sealed log need not be read only to be left out.
    let bare = log.is_bare();
    let read = if bare { &LogLayout { dim: 0, ..layout.clone() } } else { layout };
    let spooler = Spooler { log, layout: read, order, control, file: &file, size };
    let mut joined = Joined::new(&spooler, count);
    log.each_group(read, bare, |group| spooler.decode(group), |piece| joined.take(piece))?;
    let places = joined.finish(rows)?;
    let count = places.len() as u64;
    Ok(ChunkedLog {
        starts: (0..=count).map(|chunk| (chunk * size as u64).min(rows)).collect(),
        shape,
        places,
        file,
        logging_policy,
        offsets: (0..=size as u32).collect(),
        ones: vec![1.0; size],
        memory: log.memory.clone(),
    })
}

/// Copies the chunks of any log without action sets to a temporary file.
///
/// # Errors
/// If a chunk cannot be read or written.
pub fn keep(log: &dyn LogSource, memory: &LogMemory) -> Result<Box<dyn LogSource>> {
    let shape = log.shape().clone();
    let capabilities = &shape.capabilities;
    if capabilities.action_sets.is_some() {
        return Err(EngineError::Log("chunks with action sets are not kept".into()));
    }
    let layout = ChunkLayout {
        dim: shape.dim,
        n_actions: shape.n_actions,
        full: capabilities.full_propensities,
        candidates: (capabilities.candidates.iter())
            .map(|name| capabilities.candidate_propensities.contains(name))
            .collect(),
        outcomes: capabilities.outcomes.len().saturating_sub(1),
        versions: capabilities.last_version.is_some(),
        ordinals: true,
        grouped: true,
    };
    let file = ChunkFile::new(Backing::File(temporary(memory)?), RandomState::new().hash_one(0u8), layout);
    let write = |index: usize| {
        let chunk = log.chunk(index)?;
        chunk.check(&shape)?;
        let mut bytes = Vec::new();
        let mut place = file.encode(index, &borrowed_chunk(&chunk)?, &mut bytes);
        file.write(bytes, std::iter::once(&mut place)).map_err(SpoolError::Scratch)?;
        Ok(place)
    };
    let places: Vec<Place> = (0..log.chunks()).into_par_iter().map(write).collect::<Result<_>>()?;
    let mut starts = vec![0];
    places.iter().for_each(|place| starts.push(starts[starts.len() - 1] + place.rows()));
    let (offsets, ones, memory) = (Vec::new(), Vec::new(), memory.clone());
    Ok(Box::new(ChunkedLog { shape, file, places, starts, logging_policy: None, offsets, ones, memory }))
}

/// A chunk as columns.
fn borrowed_chunk<'a>(chunk: &'a Chunk) -> Result<Borrowed<'a>> {
    let scattered = || EngineError::Log("a chunk is not in row-major order".into());
    let list = |list: &'a CowArray<f64, Ix2>| list.as_slice().ok_or_else(scattered);
    Ok(Borrowed {
        x: chunk.x.as_slice().ok_or_else(scattered)?,
        actions: &chunk.actions,
        costs: &chunk.costs,
        propensities: &chunk.propensities,
        full: chunk.full.as_ref().map_or(Ok(&[][..]), list)?,
        candidates: chunk.candidates.iter().map(|values| &values[..]).collect(),
        candidate_full: chunk.candidate_full.iter().flatten().map(list).collect::<Result<_>>()?,
        outcomes: chunk.outcomes.iter().map(|costs| &costs[..]).collect(),
        last: chunk.last_version.as_ref().map_or(&[], |last| bytemuck::cast_slice(last)),
        ordinals: &chunk.ordinals,
        arrivals: &chunk.arrivals,
        offsets: &chunk.offsets,
        weights: &chunk.weights,
    })
}

/// Decodes row groups.
struct Spooler<'a> {
    log: &'a StoredLog,
    layout: &'a LogLayout,
    order: &'a Order,
    control: &'a Control<'a>,
    file: &'a ChunkFile,
    /// The number of rows of a chunk.
    size: usize,
}

/// The rows of a group. Chunks that are not entirely in the group are put together later.
struct Piece {
    /// The rows before the first whole chunk.
    head: Rows,
    /// The whole chunks, which are written already, and the number of the first.
    first: usize,
    whole: Vec<Place>,
    /// The rows after the last whole chunk.
    tail: Rows,
    /// The times of all rows.
    times: Vec<i64>,
    rows: u64,
}

impl Spooler<'_> {
    fn decode(&self, group: &mut Group) -> Result<Piece, SpoolError> {
        let size = self.size as u64;
        let head = group.first_row.next_multiple_of(size) - group.first_row;
        let mut piece = Piece {
            head: Rows::default(),
            first: group.first_row.div_ceil(size) as usize,
            whole: Vec::new(),
            tail: Rows::default(),
            times: Vec::new(),
            rows: 0,
        };
        let mut bytes = Vec::new();
        group.each(|before, mut rows| {
            self.control.check()?;
            piece.times.append(&mut rows.timestamps);
            let rows = self.settled(before, rows)?;
            let n = rows.columns.rows();
            let mut at = n.min((head.saturating_sub(piece.rows)) as usize);
            piece.head.extend(&rows, 0..at);
            piece.rows += n as u64;
            while at < n {
                let taken = (self.size - piece.tail.columns.rows()).min(n - at);
                let index = piece.first + piece.whole.len();
                if taken == self.size {
                    piece.whole.push(self.file.encode(index, &borrowed(&rows, at..at + taken), &mut bytes));
                } else {
                    piece.tail.extend(&rows, at..at + taken);
                    if piece.tail.columns.rows() == self.size {
                        let all = borrowed(&piece.tail, 0..self.size);
                        piece.whole.push(self.file.encode(index, &all, &mut bytes));
                        piece.tail.clear();
                    }
                }
                at += taken;
            }
            Ok::<(), SpoolError>(())
        })?;
        self.file.write(bytes, piece.whole.iter_mut()).map_err(SpoolError::Scratch)?;
        Ok(piece)
    }

    /// The rows as bounds use them, with the numbers of their contexts.
    fn settled(&self, before: u64, rows: LogRows) -> Result<Rows, SpoolError> {
        let dataset = &self.log.dataset;
        let last = &dataset.content.capabilities.last_version;
        let last = last.as_ref().map_or("", |last| last.name.as_str());
        let last = rows.versions.iter().map(|version| version == last).collect();
        let ordinals = match self.file.layout().ordinals {
            true => self.order.ordinals(before, &rows)?,
            false => Vec::new(),
        };
        // Ids and times are used up, and a batch is not the whole log.
        let rows = LogRows { context_ids: Vec::new(), timestamps: Vec::new(), versions: Vec::new(), ..rows };
        let layout = self.layout.clone();
        let bare = LogLayout { context_ids: false, timestamps: false, versions: false, ..layout };
        let mut columns = ColumnsBuilder::default();
        columns.append(&bare, rows);
        let mut columns = columns.finish(&dataset.facts());
        columns.check().map_err(|mut error| {
            error.row += before;
            EngineError::from(error)
        })?;
        columns.settle();
        Ok(Rows { columns, ordinals, arrivals: Vec::new(), last })
    }
}

/// Puts the pieces of chunks together, in the order of the groups.
struct Joined<'a> {
    spooler: &'a Spooler<'a>,
    times: Comparison<'a>,
    places: Vec<Place>,
    /// The most chunks.
    chunks: usize,
    pending: Rows,
    rows: u64,
}

impl<'a> Joined<'a> {
    fn new(spooler: &'a Spooler<'a>, chunks: usize) -> Self {
        let (times, pending) = (spooler.order.compare(), Rows::default());
        Joined { spooler, times, places: Vec::new(), chunks, pending, rows: 0 }
    }

    fn take(&mut self, piece: Piece) -> Result<(), SpoolError> {
        self.times.times(&piece.times);
        self.rows += piece.rows;
        let head = piece.head.columns.rows();
        self.pending.extend(&piece.head, 0..head);
        if self.pending.columns.rows() == self.spooler.size {
            self.write_pending()?;
        }
        if self.places.len() == piece.first {
            self.places.extend(&piece.whole);
            let tail = piece.tail.columns.rows();
            self.pending.extend(&piece.tail, 0..tail);
        } else if !piece.whole.is_empty() || piece.tail.columns.rows() > 0 {
            return Err(changed());
        }
        match self.places.len() <= self.chunks {
            true => Ok(()),
            false => Err(EngineError::Log("there are more rows than expected".into()).into()),
        }
    }

    fn write_pending(&mut self) -> Result<(), SpoolError> {
        let (file, mut bytes) = (self.spooler.file, Vec::new());
        let all = borrowed(&self.pending, 0..self.pending.columns.rows());
        let mut place = file.encode(self.places.len(), &all, &mut bytes);
        file.write(bytes, std::iter::once(&mut place)).map_err(SpoolError::Scratch)?;
        self.places.push(place);
        self.pending.clear();
        Ok(())
    }

    fn finish(mut self, expected: u64) -> Result<Vec<Place>, SpoolError> {
        if self.pending.columns.rows() > 0 {
            self.write_pending()?;
        }
        self.times.finish()?;
        let written: u64 = self.places.iter().map(Place::rows).sum();
        if self.rows != expected {
            let message = format!("{} rows were read, but {expected} were expected", self.rows);
            return Err(EngineError::Log(message).into());
        }
        if written == expected && self.places.len() == self.chunks { Ok(self.places) } else { Err(changed()) }
    }
}

/// Some rows as columns of a chunk.
fn borrowed(rows: &Rows, range: Range<usize>) -> Borrowed<'_> {
    let Rows { columns, ordinals, last, .. } = rows;
    let lists = |k: usize| range.start * k..range.end * k;
    let (p, k) = (columns.dim, columns.n_actions);
    Borrowed {
        x: &columns.x[lists(p)],
        actions: &columns.actions[range.clone()],
        costs: &columns.costs[range.clone()],
        propensities: &columns.propensities[range.clone()],
        full: columns.full.as_ref().map_or(&[], |full| &full[lists(k)]),
        candidates: columns.candidates.iter().map(|(_, values)| &values[range.clone()]).collect(),
        candidate_full: columns.candidate_full.iter().flatten().map(|full| &full[lists(k)]).collect(),
        outcomes: columns.other_costs.iter().map(|costs| &costs[range.clone()]).collect(),
        last: if last.is_empty() { &[] } else { bytemuck::cast_slice(&last[range.clone()]) },
        ordinals: if ordinals.is_empty() { &[] } else { &ordinals[range] },
        arrivals: &[],
        offsets: &[],
        weights: &[],
    }
}

impl ChunkedLog {
    fn assemble<'a>(&'a self, index: usize, columns: Read<'a>) -> Result<Chunk<'a>> {
        let (n, k) = (columns.actions.len(), self.shape.n_actions);
        let layout = self.file.layout();
        let grouped = layout.grouped;
        let contexts = if grouped { columns.ordinals.len() } else { n };
        let arrivals: Cow<[u64]> = match grouped {
            true => columns.arrivals,
            false => (self.starts[index]..self.starts[index + 1]).collect(),
        };
        let mut lists = columns.candidate_full.into_iter();
        let candidate_full = layout.candidates.iter().map(|has_full| match has_full {
            true => lists.next().map(|full| matrix(n, k, full)).transpose(),
            false => Ok(None),
        });
        // No features if they were left out.
        let p = columns.x.len() / contexts.max(1);
        Ok(Chunk {
            x: matrix(contexts, p, columns.x)?,
            full: match self.shape.capabilities.full_propensities {
                true if layout.full => Some(matrix(contexts, k, columns.full)?),
                // It is filled in.
                true if self.logging_policy.is_some() => None,
                true => Some(CowArray::from(uniform(n, k))),
                false => None,
            },
            ordinals: match layout.ordinals {
                true => columns.ordinals,
                false => arrivals.clone(),
            },
            arrivals,
            offsets: match grouped {
                true => columns.offsets,
                false => Cow::Borrowed(&self.offsets[..=n]),
            },
            actions: columns.actions,
            costs: columns.costs,
            outcomes: columns.outcomes,
            propensities: columns.propensities,
            weights: match grouped {
                true => columns.weights,
                false => Cow::Borrowed(&self.ones[..n]),
            },
            candidates: columns.candidates,
            candidate_full: candidate_full.collect::<Result<_>>()?,
            last_version: layout.versions.then(|| columns.last.iter().map(|&last| last == 1).collect()),
            sets: None,
        })
    }
}

impl LogSource for ChunkedLog {
    /// Each chunk of a file is compared with the hashes of what was written.
    fn guards_itself(&self) -> bool {
        true
    }

    fn shape(&self) -> &LogShape {
        &self.shape
    }

    fn chunks(&self) -> usize {
        self.places.len()
    }

    fn chunk(&self, index: usize) -> Result<Chunk<'_>> {
        if self.file.layout().dim != self.shape.dim {
            return Err(EngineError::Log("the features of the log were not kept".into()));
        }
        let mut chunk = self.assemble(index, self.file.read(index, &self.places[index], true)?)?;
        if let Some(policy) = &self.logging_policy {
            fill(&mut chunk, policy, self.starts[index])?;
        }
        Ok(chunk)
    }

    fn lean_chunk(&self, index: usize) -> Result<Chunk<'_>> {
        match &self.logging_policy {
            // π0(·|x) is computed from the features.
            Some(_) => self.chunk(index),
            None => self.assemble(index, self.file.read(index, &self.places[index], false)?),
        }
    }

    fn arrivals_of(&self, index: usize) -> Option<Range<u64>> {
        (!self.file.layout().grouped).then(|| self.starts[index]..self.starts[index + 1])
    }

    fn in_memory(&self) -> bool {
        false
    }

    fn seeks(&self) -> bool {
        true
    }

    fn features(&self, places: &[(u32, u32)], to: &mut [f32]) -> Result<()> {
        self.file.features(&self.places, places, to)
    }

    fn keep(&self, log: &dyn LogSource) -> Result<Box<dyn LogSource>> {
        keep(log, &self.memory)
    }
}
