//! The score functions of the learn side, docs/math.md#auto: linear in the standardized features, or with one
//! hidden layer of rectifiers. Trained by Adam on minibatches in f32.

use std::sync::Mutex;

use ndarray::{Array2, Axis};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::rows::Rows;
use crate::control::{Control, Progress};
use crate::error::Result;
use crate::learn::adam::Adam;
use crate::log::Context;
use crate::numerics::elementary::{Real, cos, exp2, log2};
use crate::numerics::matrix::{add_product, product};
use crate::numerics::random::{shuffle, standard_normal};
use crate::policy::{FeatureMap, rectified, softmax};

/// The loss of the scores on a logged cost. Both are cross-entropies of the reward −c.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossFamily {
    /// With softmax(scores)_a: the actions compete for one reward.
    Competing,
    /// With sigmoid(score_a): the actions' rewards are modeled separately.
    Separate,
}

/// The number of hidden units; 0 is the linear score function.
pub type Width = usize;

/// A score function: φ(x)ᵀ·head, where φ ends in the constant 1.
#[derive(Debug, Clone)]
pub struct Network {
    /// The hidden layer; None for the linear score function.
    pub hidden: Option<Layer>,
    /// (dimension of φ) × K.
    pub head: Array2<f32>,
}

/// A layer of rectifiers.
#[derive(Debug, Clone)]
pub struct Layer {
    /// The weights, p × h.
    pub weights: Array2<f32>,
    /// The bias of each of the h units.
    pub bias: Vec<f32>,
}

/// What to train. The constants of training were tuned on FashionMNIST and on small tabular logs
/// (docs/performance.md).
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// The loss.
    pub family: LossFamily,
    /// The number of hidden units.
    pub width: Width,
    /// The seed of the initial weights and of the order of contexts.
    pub seed: u64,
}

const EPOCHS: usize = 10;
const MIN_STEPS: usize = 300;
const WEIGHT_DECAY: f32 = 0.1;
/// Minibatches are split into this many parts, whatever the number of threads, so that the order of the sum
/// is fixed.
const SHARDS: usize = 2;

impl Network {
    fn initial(p: usize, k: usize, recipe: &Recipe) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(recipe.seed);
        let mut normal = |deviation: f64| (standard_normal(&mut rng) * deviation) as f32;
        if recipe.width == 0 {
            return Network { hidden: None, head: Array2::zeros((p + 1, k)) };
        }
        let h = recipe.width;
        let weights = Array2::from_shape_simple_fn((p, h), || normal((2.0 / p as f64).sqrt()));
        let mut head = Array2::from_shape_simple_fn((h + 1, k), || normal(0.5 / (h as f64).sqrt()));
        head.row_mut(h).fill(0.0);
        Network { hidden: Some(Layer { weights, bias: vec![0.0; h] }), head }
    }

    /// φ of the standardized contexts `s`; its last column is 1.
    fn phi(&self, s: &Array2<f32>) -> Array2<f32> {
        if let Some(layer) = &self.hidden {
            return rectified(s.view(), layer.weights.view(), &layer.bias);
        }
        let mut phi = Array2::<f32>::ones((s.nrows(), s.ncols() + 1));
        phi.slice_mut(ndarray::s![.., ..s.ncols()]).assign(s);
        phi
    }

    /// The scores of the contexts `members` of `rows`.
    pub fn scores(&self, rows: &Rows, members: &[u32]) -> Array2<f32> {
        let parts: Vec<Array2<f32>> = members
            .par_chunks(256)
            .map(|members| product(self.phi(&rows.standardized(members)).view(), self.head.view()))
            .collect();
        let k = self.head.ncols();
        let mut out = Vec::with_capacity(members.len() * k);
        parts.iter().for_each(|part| out.extend(part.iter()));
        Array2::from_shape_vec((members.len(), k), out).expect("rows of K")
    }

    /// φ as the feature map of a policy.
    pub fn features(&self, rows: &Rows) -> FeatureMap {
        let (center, inverse_scale) = (rows.center.clone(), rows.inverse_scale.clone());
        match &self.hidden {
            None => FeatureMap::Standardized { center, inverse_scale },
            Some(layer) => FeatureMap::Hidden {
                center,
                inverse_scale,
                weights: layer.weights.rows().into_iter().map(|r| r.to_vec()).collect(),
                bias: layer.bias.clone(),
            },
        }
    }

    fn parameters(&mut self) -> Vec<&mut [f32]> {
        let mut all = Vec::new();
        if let Some(layer) = &mut self.hidden {
            all.push(layer.weights.as_slice_mut().expect("standard"));
            all.push(&mut layer.bias[..]);
        }
        all.push(self.head.as_slice_mut().expect("standard"));
        all
    }
}

/// Adds the gradient of the loss with respect to the scores, summed over a context's interactions.
pub fn add_loss_gradient(family: LossFamily, context: &Context, scores: &[f32], out: &mut [f32]) {
    let mut q = [0.0f32; 64];
    let mut spill = Vec::new();
    let q = if scores.len() <= 64 {
        &mut q[..scores.len()]
    } else {
        spill.resize(scores.len(), 0.0);
        &mut spill[..]
    };
    if family == LossFamily::Competing {
        q.copy_from_slice(scores);
        softmax(q);
    }
    for j in 0..context.actions.len() {
        let (a, reward, weight) =
            (context.actions[j] as usize, -context.costs[j] as f32, context.weights[j] as f32);
        match family {
            LossFamily::Competing => {
                let g = weight * ((1.0 - reward) * q[a] / (1.0 - q[a]).max(1e-6) - reward);
                out.iter_mut().zip(q.iter()).for_each(|(out, q)| *out -= g * q);
                out[a] += g;
            }
            LossFamily::Separate => out[a] += weight * (1.0 / (1.0 + (-scores[a]).exponential()) - reward),
        }
    }
}

/// Reports the progress of several trainings together.
pub struct Ticker<'a> {
    /// The job's control.
    pub control: &'a Control<'a>,
    done: Mutex<usize>,
    total: usize,
    from: f64,
    to: f64,
}

/// The number of steps between two reports.
const TICK: usize = 32;

impl<'a> Ticker<'a> {
    /// For trainings with `total` steps together, during which the job's progress goes from `from` to `to`.
    pub fn new(control: &'a Control<'a>, total: usize, from: f64, to: f64) -> Self {
        Ticker { control, done: Mutex::new(0), total: total.max(1), from, to }
    }

    fn tick(&self) {
        // If the lock is poisoned, another training panicked and the job fails anyway.
        if let Ok(mut done) = self.done.lock() {
            *done += TICK;
            let share = (*done as f64 / self.total as f64).min(1.0);
            let fraction = self.from + (self.to - self.from) * share;
            self.control.report(Progress::phase("learning", fraction));
        }
    }
}

/// The minibatch size and the number of steps of a training on `n` contexts.
pub fn effort(n: usize) -> (usize, usize) {
    let n = n.max(1);
    let batch = (exp2(log2(n as f64 / 32.0).round()) as usize).clamp(16, 256).min(n);
    (batch, (EPOCHS * n / batch).max(MIN_STEPS))
}

/// Trains on the contexts `members` of `rows`. Stops early when the time budget is used up.
///
/// # Errors
/// If the job is canceled.
pub fn train(rows: &Rows, members: &[u32], k: usize, recipe: &Recipe, ticker: &Ticker) -> Result<Network> {
    let p = rows.center.len();
    let mut network = Network::initial(p, k, recipe);
    if members.is_empty() {
        return Ok(network);
    }
    let (batch, steps) = effort(members.len());
    // Many features need smaller steps.
    let rate = match (recipe.width, p > 100) {
        (0, false) => 1e-2,
        (0, true) | (_, false) => 3e-3,
        (_, true) => 2e-3,
    };
    let parameters = network.parameters().into_iter();
    let mut adams: Vec<Adam<f32>> = parameters.map(|part| Adam::new(part.len())).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(recipe.seed ^ 0x5eed);
    let mut order = members.to_vec();
    let mut next = order.len();
    let mut taken = Vec::with_capacity(batch);
    for step in 0..steps {
        ticker.control.check()?;
        if step % TICK == TICK - 1 {
            ticker.tick();
            if ticker.control.out_of_time() {
                break;
            }
        }
        taken.clear();
        while taken.len() < batch {
            if next >= order.len() {
                shuffle(&mut order, &mut rng);
                next = 0;
            }
            taken.push(order[next]);
            next += 1;
        }
        let gradient = batch_gradient(&network, rows, &taken, recipe.family, k);
        let at = (step + 1) as f64 / steps as f64;
        let schedule = 0.5 * (1.0 + cos(std::f64::consts::PI * at)) * (at / 0.05).min(1.0);
        let rate = (rate * schedule) as f32;
        for ((part, gradient), adam) in network.parameters().into_iter().zip(&gradient).zip(&mut adams) {
            let directions = adam.directions(gradient.iter().copied());
            part.iter_mut().zip(directions).for_each(|(x, d)| *x -= rate * (d + WEIGHT_DECAY * *x));
        }
    }
    Ok(network)
}

/// The mean gradient over a minibatch, in the order of `Network::parameters`.
fn batch_gradient(
    network: &Network,
    rows: &Rows,
    taken: &[u32],
    family: LossFamily,
    k: usize,
) -> Vec<Vec<f32>> {
    let size = taken.len().div_ceil(SHARDS);
    let shard = |members: &[u32]| shard_gradient(network, rows, members, family, k);
    // Small products are not worth a second thread.
    let parts: Vec<Vec<Vec<f32>>> = if size * network.head.len() > 1 << 14 {
        taken.par_chunks(size).map(shard).collect()
    } else {
        taken.chunks(size).map(shard).collect()
    };
    let mut parts = parts.into_iter();
    let mut total = parts.next().unwrap_or_default();
    for part in parts {
        for (total, part) in total.iter_mut().zip(&part) {
            total.iter_mut().zip(part).for_each(|(t, p)| *t += p);
        }
    }
    let scale = 1.0 / taken.len() as f32;
    total.iter_mut().flatten().for_each(|g| *g *= scale);
    total
}

fn shard_gradient(
    network: &Network,
    rows: &Rows,
    members: &[u32],
    family: LossFamily,
    k: usize,
) -> Vec<Vec<f32>> {
    let s = rows.standardized(members);
    let phi = network.phi(&s);
    let scores = product(phi.view(), network.head.view());
    let mut d_scores = Array2::<f32>::zeros((members.len(), k));
    for (i, &member) in members.iter().enumerate() {
        let (scores, mut out) = (scores.row(i), d_scores.row_mut(i));
        let (scores, out) = (scores.as_slice().expect("standard"), out.as_slice_mut().expect("standard"));
        add_loss_gradient(family, &rows.context(member), scores, out);
    }
    let mut d_head = vec![0.0; network.head.len()];
    add_product(phi.t(), d_scores.view(), &mut d_head, k);
    let mut gradient = Vec::new();
    if network.hidden.is_some() {
        let width = network.head.nrows() - 1;
        let mut d_hidden = product(d_scores.view(), network.head.slice(ndarray::s![..width, ..]).t());
        d_hidden.zip_mut_with(&phi.slice(ndarray::s![.., ..width]), |d, &v| {
            if v <= 0.0 {
                *d = 0.0;
            }
        });
        let mut d_weights = vec![0.0; s.ncols() * width];
        add_product(s.t(), d_hidden.view(), &mut d_weights, width);
        gradient.push(d_weights);
        gradient.push(d_hidden.sum_axis(Axis(0)).to_vec());
    }
    gradient.push(d_head);
    gradient
}
