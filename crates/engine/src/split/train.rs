//! The training of score functions on the learn side: Adam on minibatches in f32.

use std::sync::Mutex;

use ndarray::{Array2, Axis};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::network::{LossFamily, Network, Start, Width};
use super::rows::{Logged, Rows};
use crate::control::{Control, Progress};
use crate::error::Result;
use crate::learn::adam::Adam;
use crate::numerics::elementary::{Real, cos, exp2, log2};
use crate::numerics::matrix::{add_product, product};
use crate::numerics::random::shuffle;
use crate::policy::softmax;

/// What to train. The constants of training were tuned on FashionMNIST and on tables (docs/performance.md).
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// The loss.
    pub family: LossFamily,
    /// The number of hidden units.
    pub width: Width,
    /// How often training passes over its contexts, if they are few enough.
    pub epochs: usize,
    /// The weight decay per unit of the learning rate.
    pub decay: f32,
    /// The seed of the initial weights and of the order of contexts.
    pub seed: u64,
}

/// A training takes no less than this many steps.
const MIN_STEPS: usize = 300;
/// A training passes over its contexts this often, however many they are.
const MIN_EPOCHS: usize = 10;
/// The arithmetic of a training beyond its first `MIN_EPOCHS` passes, in multiplications.
const ARITHMETIC: f64 = 4e9;
/// The learning rate is this divided by √p, and never above `MAX_RATE`: many features need smaller steps.
const RATE: f64 = 0.08;
const MAX_RATE: f64 = 0.01;
/// Minibatches of at least this many multiplications are split into two parts, whatever the number of threads, so
/// that the order of the sum is fixed.
const SHARED: usize = 1 << 21;

/// The minibatch size and the number of steps of a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// The contexts of a minibatch.
    pub batch: usize,
    /// The number of steps.
    pub steps: usize,
}

impl Recipe {
    /// The recipe in words, for the certificate's account of what was chosen.
    pub fn described(&self, count: usize) -> String {
        let times = if count > 1 { format!("{count} × ") } else { String::new() };
        match self.width {
            0 => format!("{times}linear scores"),
            width => format!("{times}a hidden layer of {width} (weight decay {})", self.decay),
        }
    }

    /// The multiplications per context of one product of each layer.
    fn multiplications(&self, p: usize, k: usize) -> usize {
        p * k + self.width * (p + k)
    }

    /// The effort of a training on `n` contexts with p features and K actions.
    pub fn effort(&self, n: usize, p: usize, k: usize) -> Effort {
        let n = n.max(1);
        let largest = if self.width == 0 || n >= super::LARGE / 2 { 256 } else { 64 };
        let batch = (exp2(log2(n as f64 / 32.0).round()) as usize).clamp(16, largest).min(n);
        let affordable = ARITHMETIC / (n * self.multiplications(p, k).max(1)) as f64;
        let epochs = self.epochs.min((affordable as usize).max(MIN_EPOCHS));
        Effort { batch, steps: (epochs * n / batch).max(MIN_STEPS) }
    }
}

/// Adds the gradient of the loss with respect to the scores, summed over a context's interactions.
pub fn add_loss_gradient(family: LossFamily, context: &Logged, scores: &[f32], out: &mut [f32]) {
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

/// Trains on the contexts `members` of `rows`. Stops early when the time budget is used up.
///
/// # Errors
/// If the job is canceled.
pub fn train(
    rows: &Rows,
    members: &[u32],
    start: &Start,
    recipe: &Recipe,
    ticker: &Ticker,
) -> Result<Network> {
    let (p, k) = start.linear.dim();
    let mut network = Network::initial(start, recipe.width, recipe.seed);
    if members.is_empty() {
        return Ok(network);
    }
    let Effort { batch, steps } = recipe.effort(members.len(), p, k);
    let shards = if batch * recipe.multiplications(p, k) >= SHARED { 2 } else { 1 };
    let highest = MAX_RATE.min(RATE / (p.max(1) as f64).sqrt());
    let parameters = network.parameters().into_iter();
    let mut adams: Vec<Adam<f32>> = parameters.map(|part| Adam::new(part.len())).collect();
    let mut order = Order::new(members, recipe.seed);
    for step in 0..steps {
        ticker.control.check()?;
        if step % TICK == TICK - 1 {
            ticker.tick();
            if ticker.control.out_of_time() {
                break;
            }
        }
        let gradient = batch_gradient(&network, rows, order.take(batch), recipe.family, shards)?;
        let at = (step + 1) as f64 / steps as f64;
        let schedule = 0.5 * (1.0 + cos(std::f64::consts::PI * at)) * (at / 0.05).min(1.0);
        let rate = (highest * schedule) as f32;
        for ((part, gradient), adam) in network.parameters().into_iter().zip(&gradient).zip(&mut adams) {
            let directions = adam.directions(gradient.iter().copied());
            part.iter_mut().zip(directions).for_each(|(x, d)| *x -= rate * d);
        }
        network.decay(rate * recipe.decay, start);
    }
    Ok(network)
}

/// Minibatches from a new random order in each epoch.
struct Order {
    members: Vec<u32>,
    next: usize,
    rng: ChaCha8Rng,
    taken: Vec<u32>,
}

impl Order {
    fn new(members: &[u32], seed: u64) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
        Order { members: members.to_vec(), next: members.len(), rng, taken: Vec::new() }
    }

    fn take(&mut self, batch: usize) -> &[u32] {
        self.taken.clear();
        while self.taken.len() < batch {
            if self.next >= self.members.len() {
                shuffle(&mut self.members, &mut self.rng);
                self.next = 0;
            }
            self.taken.push(self.members[self.next]);
            self.next += 1;
        }
        &self.taken
    }
}

/// The mean gradient over a minibatch, in the order of `Network::parameters`.
fn batch_gradient(
    network: &Network,
    rows: &Rows,
    taken: &[u32],
    family: LossFamily,
    shards: usize,
) -> Result<Vec<Vec<f32>>> {
    let scale = 1.0 / taken.len() as f32;
    let shard = |members: &[u32]| shard_gradient(network, rows, members, family, scale);
    if shards == 1 {
        return shard(taken);
    }
    let size = taken.len().div_ceil(shards);
    let parts: Vec<Vec<Vec<f32>>> = taken.par_chunks(size).map(shard).collect::<Result<_>>()?;
    let mut parts = parts.into_iter();
    let mut total = parts.next().unwrap_or_default();
    for part in parts {
        for (total, part) in total.iter_mut().zip(&part) {
            total.iter_mut().zip(part).for_each(|(t, p)| *t += p);
        }
    }
    Ok(total)
}

/// `scale` times the gradient, summed over some contexts.
fn shard_gradient(
    network: &Network,
    rows: &Rows,
    members: &[u32],
    family: LossFamily,
    scale: f32,
) -> Result<Vec<Vec<f32>>> {
    let s = rows.standardized(members)?;
    let phi = network.phi(&s);
    let scores = network.outputs(&s, &phi);
    let k = scores.ncols();
    let mut d_scores = Array2::<f32>::zeros(scores.dim());
    for (i, &member) in members.iter().enumerate() {
        let (scores, mut out) = (scores.row(i), d_scores.row_mut(i));
        let (scores, out) = (scores.as_slice().expect("standard"), out.as_slice_mut().expect("standard"));
        add_loss_gradient(family, &rows.logged(member), scores, out);
    }
    d_scores *= scale;
    let mut d_linear = vec![0.0; network.linear.len()];
    add_product(s.t(), d_scores.view(), &mut d_linear, k);
    let mut d_head = vec![0.0; network.head.len()];
    add_product(phi.t(), d_scores.view(), &mut d_head, k);
    let mut gradient = vec![d_linear, d_head];
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
    Ok(gradient)
}
