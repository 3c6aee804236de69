//! The contexts of one side of a split, by number, with the standardization of their features. If the log is in memory
//! they borrow it. Otherwise features are read when they are needed, and what training needs besides them is held here.

use ndarray::Array2;
use rayon::prelude::*;

use crate::error::Result;
use crate::log::{Chunk, Context, LogSource, Side, Span};
use crate::policy::standardize;

/// The contexts of one side of a split.
pub struct Rows<'a> {
    source: Source<'a>,
    /// The chunk and the number in the chunk of each context.
    places: Vec<(u32, u32)>,
    /// The mean of each feature.
    pub center: Vec<f32>,
    /// One over the standard deviation of each feature; 0 for a constant feature.
    pub inverse_scale: Vec<f32>,
}

enum Source<'a> {
    /// All chunks of a log in memory.
    Chunks(Vec<Chunk<'a>>),
    /// A log that is read again and again.
    Streamed(Streamed<'a>),
}

/// What is held of a log that is not in memory.
struct Streamed<'a> {
    stored: Stored<'a>,
    /// The first interaction of each context, and the end; empty if every context has one.
    offsets: Vec<u64>,
    actions: Vec<u32>,
    costs: Vec<f64>,
    /// Empty if every context has one interaction.
    weights: Vec<f64>,
}

/// A log whose features can be read context by context.
enum Stored<'a> {
    Own(&'a dyn LogSource),
    /// A copy.
    Kept(Box<dyn LogSource>),
}

impl Stored<'_> {
    fn source(&self) -> &dyn LogSource {
        match self {
            Stored::Own(log) => *log,
            Stored::Kept(log) => &**log,
        }
    }
}

/// The logged interactions of a context.
#[derive(Clone, Copy)]
pub struct Logged<'a> {
    /// The logged actions.
    pub actions: &'a [u32],
    /// Their costs, in [-1, 0].
    pub costs: &'a [f64],
    /// The weight of each interaction.
    pub weights: &'a [f64],
}

/// How many contexts are summed together for the standardization.
const SUMMED: usize = 2048;
/// How many of them are read together.
const READ: usize = 64;

impl<'a> Rows<'a> {
    /// Selects the contexts of a side. Borrows the log's chunks, so no feature of a log in memory is copied.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn new(log: &'a dyn LogSource, span: &Span, side: Side) -> Result<Self> {
        let mut places = Vec::new();
        let select = |index: usize, chunk: &Chunk, places: &mut Vec<(u32, u32)>| {
            let kept = (0..chunk.contexts()).filter(|&c| span.side(chunk, c) == Some(side));
            places.extend(kept.map(|c| (index as u32, c as u32)));
        };
        let source = if log.in_memory() {
            let chunks = (0..log.chunks()).map(|i| log.chunk(i)).collect::<Result<Vec<_>>>()?;
            chunks.iter().try_for_each(|chunk| chunk.check(log.shape()))?;
            chunks.iter().enumerate().for_each(|(index, chunk)| select(index, chunk, &mut places));
            Source::Chunks(chunks)
        } else {
            let stored = if log.seeks() { Stored::Own(log) } else { Stored::Kept(log.keep(log)?) };
            let grouped = log.shape().capabilities.multiple_interactions;
            let (mut offsets, mut weights) = (Vec::from_iter(grouped.then_some(0)), Vec::new());
            let (mut actions, mut costs) = (Vec::new(), Vec::new());
            for index in 0..log.chunks() {
                let chunk = log.lean_chunk(index)?;
                chunk.check_lean(log.shape())?;
                let start = places.len();
                select(index, &chunk, &mut places);
                for &(_, c) in &places[start..] {
                    let context = chunk.context(c as usize);
                    actions.extend_from_slice(context.actions);
                    costs.extend_from_slice(context.costs);
                    if grouped {
                        weights.extend_from_slice(context.weights);
                        offsets.push(actions.len() as u64);
                    }
                }
            }
            Source::Streamed(Streamed { stored, offsets, actions, costs, weights })
        };
        let mut rows = Rows { source, places, center: Vec::new(), inverse_scale: Vec::new() };
        rows.fit_standardization(log.shape().dim)?;
        Ok(rows)
    }

    /// No contexts, with this standardization.
    #[cfg(test)]
    pub fn standardized_by(center: Vec<f32>, inverse_scale: Vec<f32>) -> Self {
        Rows { source: Source::Chunks(Vec::new()), places: Vec::new(), center, inverse_scale }
    }

    /// The number of contexts.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The interactions of a context by its number.
    pub fn logged(&self, member: u32) -> Logged<'_> {
        match &self.source {
            Source::Chunks(chunks) => {
                let (chunk, c) = self.places[member as usize];
                let Context { actions, costs, weights, .. } = chunks[chunk as usize].context(c as usize);
                Logged { actions, costs, weights }
            }
            Source::Streamed(rows) => rows.logged(member as usize),
        }
    }

    /// Shows contexts with everything but their features, and their positions among `members`. It is fast if these
    /// ascend.
    ///
    /// # Errors
    /// If the log cannot be read, and what `visit` returns.
    pub fn each(&self, members: &[u32], mut visit: impl FnMut(usize, Context) -> Result<()>) -> Result<()> {
        let place = |member: u32| self.places[member as usize];
        let log = match &self.source {
            Source::Streamed(rows) => rows.stored.source(),
            Source::Chunks(chunks) => {
                return members.iter().enumerate().try_for_each(|(i, &member)| {
                    let (chunk, c) = place(member);
                    visit(i, chunks[chunk as usize].context(c as usize))
                });
            }
        };
        let mut first = 0;
        for of_chunk in members.chunk_by(|&a, &b| place(a).0 == place(b).0) {
            let chunk = log.lean_chunk(place(of_chunk[0]).0 as usize)?;
            for (i, &member) in (first..).zip(of_chunk) {
                visit(i, chunk.context(place(member).1 as usize))?;
            }
            first += of_chunk.len();
        }
        Ok(())
    }

    /// Fills `out` with the features of some contexts, one after the other.
    fn read(&self, members: &[u32], out: &mut [f32]) -> Result<()> {
        match &self.source {
            Source::Streamed(rows) => {
                let places: Vec<(u32, u32)> = members.iter().map(|&m| self.places[m as usize]).collect();
                rows.stored.source().features(&places, out)
            }
            Source::Chunks(chunks) => {
                let p = chunks.first().map_or(0, |chunk| chunk.x.ncols());
                for (out, &member) in out.chunks_exact_mut(p.max(1)).zip(members) {
                    let (chunk, c) = self.places[member as usize];
                    out.copy_from_slice(x_of(&chunks[chunk as usize], c));
                }
                Ok(())
            }
        }
    }

    /// The features of some contexts as logged.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn features_of(&self, members: &[u32]) -> Result<Array2<f32>> {
        let p = self.center.len();
        let mut flat = vec![0.0f32; members.len() * p];
        self.read(members, &mut flat)?;
        Ok(Array2::from_shape_vec((members.len(), p), flat).expect("rows of p"))
    }

    /// The standardized features of some contexts.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn standardized(&self, members: &[u32]) -> Result<Array2<f32>> {
        let p = self.center.len();
        let mut out = vec![0.0f32; members.len() * p];
        let rows = out.chunks_exact_mut(p.max(1));
        match &self.source {
            Source::Chunks(chunks) => {
                for (out, &member) in rows.zip(members) {
                    let (chunk, c) = self.places[member as usize];
                    standardize(x_of(&chunks[chunk as usize], c), &self.center, &self.inverse_scale, out);
                }
            }
            Source::Streamed(_) => {
                let x = self.features_of(members)?;
                let x = x.as_slice().unwrap_or_default();
                for (out, x) in rows.zip(x.chunks_exact(p.max(1))) {
                    standardize(x, &self.center, &self.inverse_scale, out);
                }
            }
        }
        Ok(Array2::from_shape_vec((members.len(), p), out).expect("rows of p"))
    }

    /// Computes the mean and deviation of each feature. A constant feature becomes 0.
    fn fit_standardization(&mut self, p: usize) -> Result<()> {
        let members: Vec<u32> = (0..self.len() as u32).collect();
        let moments: Vec<(Vec<f64>, Vec<f64>)> = members
            .par_chunks(SUMMED)
            .map(|members| {
                let (mut sum, mut square) = (vec![0.0f64; p], vec![0.0f64; p]);
                let mut x = vec![0.0f32; READ * p];
                for members in members.chunks(READ) {
                    self.read(members, &mut x[..members.len() * p])?;
                    for x in x[..members.len() * p].chunks_exact(p.max(1)) {
                        for (j, &v) in x.iter().enumerate() {
                            sum[j] += v as f64;
                            square[j] += v as f64 * v as f64;
                        }
                    }
                }
                Ok((sum, square))
            })
            .collect::<Result<_>>()?;
        let n = self.len().max(1) as f64;
        for j in 0..p {
            let mean = moments.iter().map(|m| m.0[j]).sum::<f64>() / n;
            let variance = moments.iter().map(|m| m.1[j]).sum::<f64>() / n - mean * mean;
            // A variance below this is rounding error.
            let constant = variance <= 1e-12 * (mean * mean) || variance < 1e-24;
            self.center.push(mean as f32);
            self.inverse_scale.push(if constant { 0.0 } else { (1.0 / variance.sqrt()) as f32 });
        }
        Ok(())
    }
}

impl Streamed<'_> {
    fn logged(&self, member: usize) -> Logged<'_> {
        if self.offsets.is_empty() {
            let (actions, costs) = (&self.actions[member..=member], &self.costs[member..=member]);
            return Logged { actions, costs, weights: &[1.0] };
        }
        let range = self.offsets[member] as usize..self.offsets[member + 1] as usize;
        Logged {
            actions: &self.actions[range.clone()],
            costs: &self.costs[range.clone()],
            weights: &self.weights[range],
        }
    }
}

fn x_of<'a>(chunk: &'a Chunk, c: u32) -> &'a [f32] {
    let p = chunk.x.ncols();
    &chunk.x.as_slice().expect("chunks are row-major")[c as usize * p..(c as usize + 1) * p]
}
