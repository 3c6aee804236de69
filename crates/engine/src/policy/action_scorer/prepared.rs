//! Scores actions one request after the other, in a fixed order of terms.

use super::{ActionScorer, MAX_ROW_PAIRS, PairWeights, Scaling, pair_bucket};
use crate::log::SparseVector;

/// A sum with what bounds its rounding error.
#[derive(Clone, Copy, Default)]
pub struct Term {
    /// The sum.
    pub sum: f64,
    /// Σ|term|.
    pub size: f64,
    /// The number of terms.
    pub count: f64,
}

impl Term {
    #[inline]
    fn add(&mut self, term: f64) {
        self.sum += term;
        self.size += term.abs();
        self.count += 1.0;
    }
}

/// A table of all cells is made if it has at most this many cells per row that is scored. Otherwise each weight is
/// searched for, so that one request does not wait for a large table.
const CELLS_PER_ROW: usize = 256;

/// A scorer with lookup tables, at one request.
pub struct Prepared<'a> {
    scorer: &'a ActionScorer,
    x: Scaling<'a>,
    actions: Scaling<'a>,
    table: Option<Vec<f32>>,
    /// The features of the current request, and what they add to every score.
    request: Vec<(u32, f32)>,
    common: Term,
    /// What the request adds to each hidden unit, and the sizes of these sums.
    units: Vec<(f64, f64)>,
    action: Vec<(u32, f32)>,
}

impl<'a> Prepared<'a> {
    /// For scoring about `rows` requests.
    pub fn new(scorer: &'a ActionScorer, rows: usize) -> Self {
        let table = scorer.pairs.as_ref().and_then(|pairs| {
            let cells = match pairs.bits {
                Some(bits) => 1usize << bits,
                None => scorer.x.len() * scorer.actions.len(),
            };
            (cells <= CELLS_PER_ROW.saturating_mul(rows)).then(|| {
                let mut table = vec![0.0f32; cells];
                pairs.cells.iter().zip(&pairs.weights).for_each(|(&cell, &w)| table[cell as usize] = w);
                table
            })
        });
        let (x, actions) = (Scaling::new(&scorer.x), Scaling::new(&scorer.actions));
        let common = Term::default();
        let (request, action, units) = (Vec::new(), Vec::new(), Vec::new());
        Prepared { scorer, x, actions, table, request, common, units, action }
    }

    /// Moves to a request.
    pub fn request(&mut self, x: SparseVector) {
        self.x.apply(x, &mut self.request);
        self.common = Term::default();
        self.common.add(self.scorer.constant);
        for &(i, value) in &self.request {
            self.common.add(self.scorer.x[i as usize].weight * f64::from(value));
        }
        let Some(hidden) = &self.scorer.hidden else { return };
        self.units.clear();
        self.units.extend(hidden.bias.iter().map(|&bias| (f64::from(bias), f64::from(bias).abs())));
        for &(i, value) in &self.request {
            add_row(&mut self.units, &hidden.x[i as usize], value);
        }
    }

    fn weight(&self, pairs: &PairWeights, cell: u32) -> f64 {
        f64::from(match &self.table {
            Some(table) => table[cell as usize],
            None => pairs.cells.binary_search(&cell).map_or(0.0, |at| pairs.weights[at]),
        })
    }

    /// The score of an action of the current request.
    pub fn action(&mut self, action: SparseVector) -> Term {
        let mut features = std::mem::take(&mut self.action);
        self.actions.apply(action, &mut features);
        let (mut total, scorer) = (self.common, self.scorer);
        for &(j, value) in &features {
            total.add(scorer.actions[j as usize].weight * f64::from(value));
        }
        if let Some(pairs) = &scorer.pairs
            && self.request.len().saturating_mul(features.len()) <= MAX_ROW_PAIRS
        {
            let width = scorer.actions.len() as u32;
            for &(i, x) in &self.request {
                for &(j, a) in &features {
                    let cell = match pairs.bits {
                        Some(bits) => {
                            pair_bucket(scorer.x[i as usize].index, scorer.actions[j as usize].index, bits)
                        }
                        None => i * width + j,
                    };
                    total.add(self.weight(pairs, cell) * (f64::from(x) * f64::from(a)));
                }
            }
        }
        if let Some(hidden) = &scorer.hidden {
            let mut units = self.units.clone();
            features.iter().for_each(|&(j, value)| add_row(&mut units, &hidden.actions[j as usize], value));
            for ((sum, size), &output) in units.into_iter().zip(&hidden.output) {
                let output = f64::from(output);
                total.sum += output * if sum > 0.0 { sum } else { 0.0 };
                total.size += output.abs() * size;
            }
            total.count += (hidden.bias.len() + self.request.len() + features.len()) as f64;
        }
        self.action = features;
        // Products and scaled values are rounded too.
        total.count += 2.0;
        total
    }
}

fn add_row(units: &mut [(f64, f64)], weights: &[f32], value: f32) {
    for ((sum, size), &weight) in units.iter_mut().zip(weights) {
        let term = f64::from(weight) * f64::from(value);
        *sum += term;
        *size += term.abs();
    }
}
