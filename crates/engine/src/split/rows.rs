//! The contexts of one side of a split, by index, with the standardization of their features.

use ndarray::Array2;
use rayon::prelude::*;

use crate::error::Result;
use crate::log::{Chunk, Context, LogSource, Side, Split};
use crate::policy::standardize;

pub struct Rows<'a> {
    chunks: Vec<Chunk<'a>>,
    /// (chunk, context) of each member.
    places: Vec<(u32, u32)>,
    pub center: Vec<f32>,
    pub inverse_scale: Vec<f32>,
}

impl<'a> Rows<'a> {
    /// Borrows the log's chunks: for a log in memory no feature is copied.
    pub fn new(log: &'a dyn LogSource, split: Split, side: Side) -> Result<Self> {
        let chunks = (0..log.chunks()).map(|i| log.chunk(i)).collect::<Result<Vec<_>>>()?;
        chunks.iter().try_for_each(|chunk| chunk.check(log.shape()))?;
        let mut places = Vec::new();
        for (i, chunk) in chunks.iter().enumerate() {
            let kept = (0..chunk.contexts()).filter(|&c| split.side(chunk.ordinals[c]) == side);
            places.extend(kept.map(|c| (i as u32, c as u32)));
        }
        let mut rows = Rows { chunks, places, center: Vec::new(), inverse_scale: Vec::new() };
        rows.fit_standardization(log.shape().dim);
        Ok(rows)
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

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

    /// The features of some members as logged.
    pub fn features_of(&self, members: &[u32]) -> Array2<f32> {
        let flat: Vec<f32> = members.iter().flat_map(|&m| self.x(m).iter().copied()).collect();
        Array2::from_shape_vec((members.len(), self.center.len()), flat).expect("rows of p")
    }

    /// The standardized features of some members.
    pub fn standardized(&self, members: &[u32]) -> Array2<f32> {
        let p = self.center.len();
        let mut out = vec![0.0f32; members.len() * p];
        for (out, &member) in out.chunks_exact_mut(p.max(1)).zip(members) {
            standardize(self.x(member), &self.center, &self.inverse_scale, out);
        }
        Array2::from_shape_vec((members.len(), p), out).expect("rows of p")
    }

    /// Mean and deviation of each feature; a constant feature becomes 0.
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
            // Below this the spread is rounding, not signal.
            let constant = variance <= 1e-12 * (mean * mean) || variance < 1e-24;
            self.center.push(mean as f32);
            self.inverse_scale.push(if constant { 0.0 } else { (1.0 / variance.sqrt()) as f32 });
        }
    }
}
