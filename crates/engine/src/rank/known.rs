//! The features that the learn side knows, and how they are scaled (docs/math.md#sets). Only requests and logged actions
//! are read: nothing is learned about the others.

use std::collections::HashMap;

use super::Reader;
use crate::control::Control;
use crate::error::Result;
use crate::log::SparseVector;
use crate::policy::{KnownFeature, MAX_KNOWN};

/// Features that appear after so many others are not considered, so that memory is bounded.
pub const MAX_CONSIDERED: usize = 1 << 20;
/// A feature that was seen less often says nothing about other rows.
const LEAST_SEEN: u32 = 2;

#[derive(Clone, Copy, Default)]
struct Moments {
    count: u32,
    sum: f64,
    square: f64,
}

/// What was seen of the features of requests, or of logged actions.
#[derive(Default)]
struct Seen {
    features: HashMap<u32, Moments>,
    vectors: u64,
}

impl Seen {
    fn add(&mut self, vector: SparseVector) {
        self.vectors += 1;
        for (index, value) in vector.iter() {
            if self.features.len() >= MAX_CONSIDERED && !self.features.contains_key(&index) {
                continue;
            }
            let moments = self.features.entry(index).or_default();
            moments.count = moments.count.saturating_add(1);
            moments.sum += f64::from(value);
            moments.square += f64::from(value) * f64::from(value);
        }
    }

    /// The most frequent features that say something, ascending by index.
    fn known(self) -> Vec<KnownFeature> {
        let vectors = self.vectors as f64;
        let scaled = |(index, moments): (u32, Moments)| {
            Some((moments.count, moments.scaled(index, vectors).filter(|_| moments.count >= LEAST_SEEN)?))
        };
        let mut known: Vec<(u32, KnownFeature)> = self.features.into_iter().filter_map(scaled).collect();
        known.sort_by_key(|(count, feature)| (std::cmp::Reverse(*count), feature.index));
        known.truncate(MAX_KNOWN);
        let mut known: Vec<KnownFeature> = known.into_iter().map(|(_, feature)| feature).collect();
        known.sort_by_key(|feature| feature.index);
        known
    }
}

impl Moments {
    /// A feature that most vectors have is standardized. The values of a rare one are divided by their root mean
    /// square, so that an indicator stays 0 or 1. None for a constant, which says nothing.
    fn scaled(&self, index: u32, vectors: f64) -> Option<KnownFeature> {
        let often = 2.0 * f64::from(self.count) > vectors;
        let (center, variance) = match often {
            true => {
                let mean = self.sum / vectors;
                let variance = self.square / vectors - mean * mean;
                // A variance below this is rounding error.
                (mean, if variance <= 1e-12 * mean * mean { 0.0 } else { variance })
            }
            false => (0.0, self.square / f64::from(self.count)),
        };
        let (center, scale) = (center as f32, (1.0 / variance.sqrt()) as f32);
        let usable = center.is_finite() && scale.is_finite() && scale > 0.0;
        usable.then_some(KnownFeature { index, center, scale, weight: 0.0 })
    }
}

/// The known features of requests and of actions, and how many rows and non-zeros the learn side has.
pub struct Known {
    /// The features of requests.
    pub x: Vec<KnownFeature>,
    /// The features of actions.
    pub actions: Vec<KnownFeature>,
    /// The number of rows.
    pub rows: usize,
    /// The number of non-zeros of their requests and logged actions.
    pub non_zeros: usize,
    /// The number of pairs of them.
    pub pairs: usize,
    /// The number of pairs of the row with most.
    pub most_pairs: usize,
}

impl Known {
    /// Reads the learn side once.
    ///
    /// # Errors
    /// If the log cannot be read or the job is canceled.
    pub fn new(reader: &Reader, control: &Control) -> Result<Self> {
        let (mut x, mut actions) = (Seen::default(), Seen::default());
        let (mut rows, mut non_zeros) = (0, 0);
        let (mut pairs, mut most_pairs) = (0usize, 0);
        reader.each(control, |row| {
            let (request, action) = (row.x(), row.logged_action());
            x.add(request);
            actions.add(action);
            rows += 1;
            non_zeros += request.indices.len() + action.indices.len();
            let own = request.indices.len().saturating_mul(action.indices.len());
            (pairs, most_pairs) = (pairs.saturating_add(own), most_pairs.max(own));
        })?;
        Ok(Known { x: x.known(), actions: actions.known(), rows, non_zeros, pairs, most_pairs })
    }
}
