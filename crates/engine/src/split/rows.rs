//! The contexts of one side of a split, by number, with the standardization of their features.

use ndarray::Array2;
use rayon::prelude::*;

use crate::error::Result;
use crate::log::{Chunk, Context, LogSource, Side, Span};
use crate::policy::standardize;

/// The contexts of one side of a split.
pub struct Rows<'a> {
    chunks: Vec<Chunk<'a>>,
    /// The chunk and the number in the chunk of each context.
    places: Vec<(u32, u32)>,
    /// The mean of each feature.
    pub center: Vec<f32>,
    /// One over the standard deviation of each feature; 0 for a constant feature.
    pub inverse_scale: Vec<f32>,
}

impl<'a> Rows<'a> {
    /// Selects the contexts of a side. Borrows the log's chunks, so no feature of a log in memory is copied.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn new(log: &'a dyn LogSource, span: &Span, side: Side) -> Result<Self> {
        let chunks = (0..log.chunks()).map(|i| log.chunk(i)).collect::<Result<Vec<_>>>()?;
        chunks.iter().try_for_each(|chunk| chunk.check(log.shape()))?;
        let mut places = Vec::new();
        for (i, chunk) in chunks.iter().enumerate() {
            let kept = (0..chunk.contexts()).filter(|&c| span.side(chunk, c) == Some(side));
            places.extend(kept.map(|c| (i as u32, c as u32)));
        }
        let mut rows = Rows { chunks, places, center: Vec::new(), inverse_scale: Vec::new() };
        rows.fit_standardization(log.shape().dim);
        Ok(rows)
    }

    /// No contexts, with this standardization.
    #[cfg(test)]
    pub fn standardized_by(center: Vec<f32>, inverse_scale: Vec<f32>) -> Self {
        Rows { chunks: Vec::new(), places: Vec::new(), center, inverse_scale }
    }

    /// The number of contexts.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// A context by its number.
    pub fn context(&self, member: u32) -> Context<'_> {
        let (chunk, c) = self.places[member as usize];
        self.chunks[chunk as usize].context(c as usize)
    }

    fn x(&self, member: u32) -> &[f32] {
        let (chunk, c) = self.places[member as usize];
        let x = &self.chunks[chunk as usize].x;
        let p = x.ncols();
        &x.as_slice().expect("chunks are row-major")[c as usize * p..(c as usize + 1) * p]
    }

    /// The features of some contexts as logged.
    pub fn features_of(&self, members: &[u32]) -> Array2<f32> {
        let flat: Vec<f32> = members.iter().flat_map(|&m| self.x(m).iter().copied()).collect();
        Array2::from_shape_vec((members.len(), self.center.len()), flat).expect("rows of p")
    }

    /// The standardized features of some contexts.
    pub fn standardized(&self, members: &[u32]) -> Array2<f32> {
        let p = self.center.len();
        let mut out = vec![0.0f32; members.len() * p];
        for (out, &member) in out.chunks_exact_mut(p.max(1)).zip(members) {
            standardize(self.x(member), &self.center, &self.inverse_scale, out);
        }
        Array2::from_shape_vec((members.len(), p), out).expect("rows of p")
    }

    /// Computes the mean and deviation of each feature. A constant feature becomes 0.
    fn fit_standardization(&mut self, p: usize) {
        let members: Vec<u32> = (0..self.len() as u32).collect();
        let moments: Vec<(Vec<f64>, Vec<f64>)> = members
            .par_chunks(2048)
            .map(|members| {
                let (mut sum, mut square) = (vec![0.0f64; p], vec![0.0f64; p]);
                for &member in members {
                    for (j, &v) in self.x(member).iter().enumerate() {
                        sum[j] += v as f64;
                        square[j] += v as f64 * v as f64;
                    }
                }
                (sum, square)
            })
            .collect();
        let n = self.len().max(1) as f64;
        for j in 0..p {
            let mean = moments.iter().map(|m| m.0[j]).sum::<f64>() / n;
            let variance = moments.iter().map(|m| m.1[j]).sum::<f64>() / n - mean * mean;
            // A variance below this is rounding error.
            let constant = variance <= 1e-12 * (mean * mean) || variance < 1e-24;
            self.center.push(mean as f32);
            self.inverse_scale.push(if constant { 0.0 } else { (1.0 / variance.sqrt()) as f32 });
        }
    }
}
