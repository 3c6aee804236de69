//! A linear cost model that is refitted while a game goes on, docs/math.md#refitted: the control variate of candidates
//! whose log has features. The model that serves a block is fitted on earlier blocks only. Features are folded into a
//! few dimensions, so that one pass over the log and a small amount of memory are enough, however large the log is.

mod fixed;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::bound::Order;
use super::control::Control;
use super::error::Result;
use super::log::ranges::at_most;
use super::log::{Chunk, Context, Contexts, LogShape, LogSource, SparseVector};

/// The dimensions into which features are folded.
const DIMS: usize = 24;
/// The dimensions into which the features of a request, of an action, and their products are folded, in logs with
/// action sets. One model serves all actions.
const SET_DIMS: [usize; 3] = [12, 24, 28];
/// With more products of features than this, an action is modeled without them, so that no row takes long.
const MAX_PRODUCTS: usize = 4096;
/// With more actions there is no model of each: its sums would take too much memory.
const MAX_ACTIONS: usize = 128;
/// With fewer contexts there is no model: a constant does as well.
const MIN_CONTEXTS: u64 = 200;
/// The shares of the contexts after which the model is refitted.
const REFITS: [f64; 4] = [1.0 / 16.0, 1.0 / 8.0, 1.0 / 4.0, 1.0 / 2.0];
/// With fewer contexts before it, there is no refit: the model would add more noise than it takes away.
const FEWEST: f64 = 100.0;
/// How many rows the model of all actions counts for in the model of one. Rare actions have large weights, and a noisy
/// model of their costs would be multiplied by them.
const POOLED_ROWS: f64 = 50.0;

/// Sums over at most this many ranges of chunks are kept at the same time.
const RANGES: usize = 8;

/// About how many bytes fitting takes.
pub fn bytes(shape: &LogShape) -> f64 {
    let Size { d, models } = size(shape);
    let sums = 8 * (d * (d + 1) / 2 + d) * models * REFITS.len();
    ((RANGES + 2) * sums) as f64
}

/// Whether a log can have a refitted cost model.
pub fn possible(shape: &LogShape) -> bool {
    shape.capabilities.features && size(shape).models <= MAX_ACTIONS && shape.contexts >= MIN_CONTEXTS
}

/// The size of a model.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// The dimensions, with the constant.
    d: usize,
    /// One per action, or one for all.
    models: usize,
}

fn size(shape: &LogShape) -> Size {
    match shape.capabilities.action_sets {
        Some(_) => Size { d: SET_DIMS.iter().sum::<usize>() + 1, models: 1 },
        None => Size { d: shape.dim.min(DIMS) + 1, models: shape.n_actions },
    }
}

/// The number of refits before a block. Rows before the first model count as before it.
fn stage(order: &Order, block: u16) -> usize {
    let (start, contexts) = (order.start(block), order.contexts() as f64);
    let reached = REFITS.iter().filter(|&&share| start >= share).count();
    // The first model is the first one that has enough contexts.
    if reached > 0 && REFITS[reached - 1] * contexts >= FEWEST { reached } else { 0 }
}

/// The first block that has a model.
pub fn first_block(order: &Order) -> usize {
    (0..order.blocks()).find(|&block| stage(order, block as u16) > 0).unwrap_or(order.blocks())
}

/// The features of a context in few dimensions, with a constant 1 at the end.
fn folded(x: &[f32], out: &mut [f64]) {
    let last = out.len() - 1;
    out.fill(0.0);
    out[last] = 1.0;
    if x.len() <= last {
        x.iter().zip(out).for_each(|(&x, out)| *out = f64::from(x));
        return;
    }
    for (j, &x) in x.iter().enumerate() {
        fold(j as u64, f64::from(x), &mut out[..last]);
    }
}

/// Adds a feature to one of the dimensions, with one of both signs.
fn fold(feature: u64, value: f64, out: &mut [f64]) {
    let hash = (feature + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let sign = if hash >> 63 == 1 { 1.0 } else { -1.0 };
    out[(hash >> 33) as usize % out.len()] += sign * value;
}

/// The features of a request with one of its actions, in few dimensions, with a constant 1 at the end.
fn folded_pair(x: SparseVector, action: SparseVector, out: &mut [f64]) {
    out.fill(0.0);
    let (request, rest) = out.split_at_mut(SET_DIMS[0]);
    let (alone, rest) = rest.split_at_mut(SET_DIMS[1]);
    let (products, last) = rest.split_at_mut(SET_DIMS[2]);
    last.fill(1.0);
    x.iter().for_each(|(i, value)| fold(i.into(), value.into(), request));
    let few = x.indices.len().saturating_mul(action.indices.len()) <= MAX_PRODUCTS;
    for (j, action) in action.iter() {
        fold(j.into(), action.into(), alone);
        for (i, x) in x.iter().filter(|_| few) {
            fold(u64::from(i) << 24 ^ u64::from(j), f64::from(x) * f64::from(action), products);
        }
    }
}

/// Sums over the rows of one action: products of features, and of features and costs.
#[derive(Debug, Clone)]
struct Sums {
    /// The lower triangle, row by row.
    products: Vec<f64>,
    costs: Vec<f64>,
}

impl Sums {
    fn new(d: usize) -> Self {
        Sums { products: vec![0.0; d * (d + 1) / 2], costs: vec![0.0; d] }
    }

    fn add_row(&mut self, x: &[f64], cost: f64, weight: f64) {
        let mut at = 0;
        for (i, &xi) in x.iter().enumerate() {
            let xi = weight * xi;
            for (sum, &xj) in self.products[at..=at + i].iter_mut().zip(x) {
                *sum += xi * xj;
            }
            at += i + 1;
            self.costs[i] += xi * cost;
        }
    }

    fn add(&mut self, other: &Sums) {
        self.products.iter_mut().zip(&other.products).for_each(|(a, b)| *a += b);
        self.costs.iter_mut().zip(&other.costs).for_each(|(a, b)| *a += b);
    }

    fn product(&self, i: usize, j: usize) -> f64 {
        let (i, j) = (i.max(j), i.min(j));
        self.products[i * (i + 1) / 2 + j]
    }
}

/// A model of the costs of all actions, linear in the features after they were folded and standardized.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinearModel {
    center: Vec<f64>,
    inverse_scale: Vec<f64>,
    /// For each action, one weight per feature and the constant.
    weights: Vec<Vec<f64>>,
}

impl LinearModel {
    fn fitted(by_action: &[Sums]) -> LinearModel {
        let d = by_action[0].costs.len();
        let mut all = Sums::new(d);
        by_action.iter().for_each(|sums| all.add(sums));
        let (last, n) = (d - 1, all.product(d - 1, d - 1).max(1.0));
        let (mut center, mut inverse_scale) = (vec![0.0; d], vec![1.0; d]);
        for j in 0..last {
            let mean = all.product(last, j) / n;
            let variance = all.product(j, j) / n - mean * mean;
            // A smaller variance is rounding error. A feature without variance gets no weight.
            let varies = variance > 1e-9 * mean * mean && variance > 1e-24 && variance.is_finite();
            center[j] = mean;
            inverse_scale[j] = if varies { 1.0 / variance.sqrt() } else { 0.0 };
        }
        let mut model = LinearModel { center, inverse_scale, weights: Vec::new() };
        let pooled = model.solve(&all, 1.0, &vec![0.0; d]);
        model.weights = by_action.iter().map(|sums| model.solve(sums, POOLED_ROWS, &pooled)).collect();
        model
    }

    /// The ridge regression toward `start`, in standardized features.
    fn solve(&self, sums: &Sums, ridge: f64, start: &[f64]) -> Vec<f64> {
        let d = start.len();
        let last = d - 1;
        let n = sums.product(last, last);
        let first = |j: usize| sums.product(last, j);
        let standardized = |i: usize, j: usize| {
            let (ci, cj) = (self.center[i], self.center[j]);
            let centered = match (i == last, j == last) {
                (true, true) => n,
                (true, false) => first(j) - cj * n,
                (false, true) => first(i) - ci * n,
                (false, false) => sums.product(i, j) - ci * first(j) - cj * first(i) + ci * cj * n,
            };
            centered * self.inverse_scale[i] * self.inverse_scale[j]
        };
        let mut matrix = vec![0.0; d * d];
        let mut right = vec![0.0; d];
        for i in 0..d {
            for j in 0..=i {
                matrix[i * d + j] = standardized(i, j) + if i == j { ridge } else { 0.0 };
            }
            let cost = match i == last {
                true => sums.costs[last],
                false => (sums.costs[i] - self.center[i] * sums.costs[last]) * self.inverse_scale[i],
            };
            right[i] = cost + ridge * start[i];
        }
        solved(&mut matrix, right, d)
    }

    /// ĉ(x, ·) of context `i`. Actions that it does not have are left as they are.
    fn context_costs(&self, contexts: Contexts, i: usize, scratch: &mut [f64], out: &mut [f64]) {
        match contexts {
            Contexts::Fixed(x) => {
                folded(x.row(i).to_slice().expect("row-major"), scratch);
                self.costs(scratch, out);
            }
            Contexts::Sets(sets) => {
                for (a, out) in out.iter_mut().take(sets.size(i)).enumerate() {
                    folded_pair(sets.x(i), sets.action(i, a), scratch);
                    self.costs(scratch, std::slice::from_mut(out));
                }
            }
        }
    }

    fn costs(&self, x: &mut [f64], out: &mut [f64]) {
        let last = x.len() - 1;
        for j in 0..last {
            // Rare large values would otherwise decide.
            x[j] = ((x[j] - self.center[j]) * self.inverse_scale[j]).clamp(-5.0, 5.0);
        }
        for (weights, out) in self.weights.iter().zip(out) {
            let cost: f64 = weights.iter().zip(x.iter()).map(|(w, x)| w * x).sum();
            *out = if cost.is_finite() { cost.clamp(-1.0, 0.0) } else { -0.5 };
        }
    }
}

/// Solves a symmetric positive definite system, given by its lower triangle, by Cholesky's method.
fn solved(matrix: &mut [f64], mut right: Vec<f64>, d: usize) -> Vec<f64> {
    for i in 0..d {
        for j in 0..=i {
            let inner: f64 = (0..j).map(|k| matrix[i * d + k] * matrix[j * d + k]).sum();
            let rest = matrix[i * d + j] - inner;
            matrix[i * d + j] = if i == j { rest.max(1e-12).sqrt() } else { rest / matrix[j * d + j] };
        }
    }
    for i in 0..d {
        let inner: f64 = (0..i).map(|k| matrix[i * d + k] * right[k]).sum();
        right[i] = (right[i] - inner) / matrix[i * d + i];
    }
    for i in (0..d).rev() {
        let inner: f64 = (i + 1..d).map(|k| matrix[k * d + i] * right[k]).sum();
        right[i] = (right[i] - inner) / matrix[i * d + i];
    }
    right
}

/// A cost model for every stage of a game.
#[derive(Debug, Clone)]
pub struct Refitted<'a> {
    order: &'a Order,
    size: Size,
    /// The models from the second stage on. In the first stage the model is the constant −1.
    models: Vec<LinearModel>,
}

impl<'a> Refitted<'a> {
    /// Fits the models of all stages in one pass over the log.
    ///
    /// # Errors
    /// If the log cannot be read or the job is canceled.
    pub fn fit(log: &dyn LogSource, order: &'a Order, control: &Control) -> Result<Self> {
        let size = size(log.shape());
        let Size { d, models: k } = size;
        let empty = || vec![Sums::new(d); k * REFITS.len()];
        let parts: Vec<Vec<Sums>> = at_most(RANGES, log.chunks())
            .into_par_iter()
            .map(|range| {
                let (mut sums, mut x) = (empty(), vec![0.0; d]);
                for index in range {
                    control.check()?;
                    let chunk = log.chunk(index)?;
                    chunk.check(log.shape())?;
                    for c in 0..chunk.contexts() {
                        let stage = stage(order, order.block(chunk.ordinals[c]));
                        // Nothing is fitted on the rows of the last stage.
                        if stage < REFITS.len() {
                            add_context(&mut sums[stage * k..(stage + 1) * k], &chunk, c, &mut x);
                        }
                    }
                }
                Ok(sums)
            })
            .collect::<Result<_>>()?;
        let mut total = empty();
        for part in &parts {
            total.iter_mut().zip(part).for_each(|(total, part)| total.add(part));
        }
        let mut past = vec![Sums::new(d); k];
        let mut models = Vec::with_capacity(REFITS.len());
        for stage in total.chunks(k) {
            past.iter_mut().zip(stage).for_each(|(past, sums)| past.add(sums));
            models.push(LinearModel::fitted(&past));
        }
        Ok(Refitted { order, size, models })
    }

    /// ĉ(x, ·) of each context, by the model of its block.
    pub fn costs(&self, contexts: Contexts, ordinals: &[u64]) -> ndarray::Array2<f64> {
        let k = match contexts {
            Contexts::Fixed(_) => self.size.models,
            Contexts::Sets(sets) => sets.width(),
        };
        let mut out = ndarray::Array2::from_elem((contexts.len(), k), -1.0);
        let mut scratch = vec![0.0; self.size.d];
        for ((i, mut out), &ordinal) in out.rows_mut().into_iter().enumerate().zip(ordinals) {
            let stage = stage(self.order, self.order.block(ordinal));
            let Some(model) = stage.checked_sub(1).and_then(|stage| self.models.get(stage)) else { continue };
            model.context_costs(contexts, i, &mut scratch, out.as_slice_mut().expect("row-major"));
        }
        out
    }
}

fn add_context(sums: &mut [Sums], chunk: &Chunk, c: usize, x: &mut [f64]) {
    let context = chunk.context(c);
    let Some(sets) = &chunk.sets else {
        folded(chunk.x.row(c).to_slice().expect("row-major"), x);
        let Context { actions, costs, weights, .. } = context;
        for j in 0..actions.len() {
            sums[actions[j] as usize].add_row(x, costs[j], weights[j]);
        }
        return;
    };
    let sets = sets.view();
    folded_pair(sets.x(c), sets.action(c, context.actions[0] as usize), x);
    sums[0].add_row(x, context.costs[0], context.weights[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_cost_is_found() {
        let d = 4;
        let mut sums = vec![Sums::new(d), Sums::new(d)];
        let point = |i: usize| [(i % 7) as f64 * 100.0 + 1e4, (i % 5) as f64, 3.0, 1.0];
        let cost = |x: &[f64], a: usize| -0.5 - 0.0005 * (x[0] - 1e4) + 0.1 * (a as f64 - 0.5) * x[1];
        for i in 0..4000 {
            let (x, a) = (point(i), i % 2);
            sums[a].add_row(&x, cost(&x, a), 1.0);
        }
        let model = LinearModel::fitted(&sums);
        let mut out = [0.0; 2];
        for i in 0..35 {
            model.costs(&mut point(i), &mut out);
            for (a, found) in out.into_iter().enumerate() {
                let want = cost(&point(i), a).clamp(-1.0, 0.0);
                assert!((found - want).abs() < 0.01, "{i} {a}: {found} is not {want}");
            }
        }
    }

    #[test]
    fn folding_keeps_few_features_and_mixes_many() {
        let mut out = vec![9.0; 4];
        folded(&[1.0, 2.0], &mut out);
        assert_eq!(out, [1.0, 2.0, 0.0, 1.0]);
        let many: Vec<f32> = (0..100).map(|i| i as f32).collect();
        let mut out = vec![0.0; DIMS + 1];
        folded(&many, &mut out);
        assert!(out.iter().filter(|&&v| v != 0.0).count() > DIMS / 2 && out[DIMS] == 1.0);
    }
}
