//! A hidden layer over the features of the request and of the action, on top of a linear model with pairs
//! (docs/math.md#sets): Adam on minibatches in f32. The linear model stays as it is.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::fit::Steps;
use super::model::loss_of;
use super::rows::Rows;
use crate::error::Result;
use crate::learn::adam::Adam;
use crate::log::SparseVector;
use crate::numerics::elementary::{Real, cos};
use crate::numerics::random::{shuffle, standard_normal};
use crate::policy::HiddenUnits;

/// The number of units.
pub const UNITS: usize = 32;
/// The most weights of the first layer. With more there is no hidden layer, because every minibatch changes all.
const MAX_WEIGHTS: usize = 1 << 17;
/// Passes over the rows, but no fewer steps than `MIN_STEPS`.
const EPOCHS: usize = 12;
const MIN_STEPS: usize = 300;
const BATCH: usize = 64;
/// The largest learning rate. It falls to 0 like a cosine.
const RATE: f64 = 0.01;
/// The weight decay per unit of the learning rate.
const DECAY: f32 = 0.1;
/// The standard deviations of the first weights of both layers.
const FIRST: f64 = 0.4;
const OUTPUT: f64 = 0.1;

/// A hidden layer: the bias and the output weight of each unit, then one row of weights per feature, those of
/// requests first.
#[derive(Debug, Clone)]
pub struct Hidden {
    weights: Vec<f32>,
    /// The number of features of requests.
    x: usize,
}

/// Whether a hidden layer is possible with so many features.
pub fn possible(x: usize, actions: usize) -> bool {
    actions > 0 && (x + actions) * UNITS <= MAX_WEIGHTS
}

/// Steps that a training takes, for the report of progress.
pub fn steps(rows: usize) -> usize {
    (EPOCHS * rows / BATCH).max(MIN_STEPS)
}

impl Hidden {
    fn initial(x: usize, actions: usize, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut weights = vec![0.0f32; UNITS * (2 + x + actions)];
        for (at, weight) in weights.iter_mut().enumerate().skip(UNITS) {
            let deviation = if at < 2 * UNITS { OUTPUT } else { FIRST };
            *weight = (deviation * standard_normal(&mut rng)) as f32;
        }
        Hidden { weights, x }
    }

    /// The units before they are rectified.
    #[inline]
    fn units(&self, x: SparseVector, action: SparseVector) -> [f32; UNITS] {
        let mut units = *lanes(&self.weights, 0);
        let mut add = |row: usize, value: f32| {
            let weights = lanes(&self.weights, 2 + row);
            (0..UNITS).for_each(|h| units[h] += weights[h] * value);
        };
        x.iter().for_each(|(i, value)| add(i as usize, value));
        action.iter().for_each(|(j, value)| add(self.x + j as usize, value));
        units
    }

    /// What the layer adds to the score.
    pub fn score(&self, x: SparseVector, action: SparseVector) -> f64 {
        let (units, output) = (self.units(x, action), lanes(&self.weights, 1));
        f64::from((0..UNITS).map(|h| if units[h] > 0.0 { units[h] * output[h] } else { 0.0 }).sum::<f32>())
    }

    /// Adds the gradient of a row's loss.
    fn add_gradient(
        &self,
        (x, action): (SparseVector, SparseVector),
        base: f32,
        reward: f32,
        gradient: &mut [f32],
    ) {
        let mut units = self.units(x, action);
        let output = lanes(&self.weights, 1);
        units.iter_mut().for_each(|unit| *unit = if *unit > 0.0 { *unit } else { 0.0 });
        let score = base + (0..UNITS).map(|h| units[h] * output[h]).sum::<f32>();
        let slope = 1.0 / (1.0 + (-score).exponential()) - reward;
        let outer = lanes_mut(gradient, 1);
        for h in 0..UNITS {
            outer[h] += slope * units[h];
            units[h] = if units[h] > 0.0 { slope * output[h] } else { 0.0 };
        }
        let mut add = |row: usize, value: f32| {
            let sums = lanes_mut(gradient, row);
            (0..UNITS).for_each(|h| sums[h] += units[h] * value);
        };
        add(0, 1.0);
        x.iter().for_each(|(i, value)| add(2 + i as usize, value));
        action.iter().for_each(|(j, value)| add(2 + self.x + j as usize, value));
    }

    /// Trains a layer on some rows. `base` has the score of each of them without the layer.
    ///
    /// # Errors
    /// If the job is canceled.
    pub fn train(
        rows: &Rows,
        sizes: (usize, usize),
        members: &[u32],
        base: &[f32],
        seed: u64,
        progress: &Steps,
    ) -> Result<Self> {
        let mut layer = Hidden::initial(sizes.0, sizes.1, seed);
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x5e75);
        let mut order: Vec<u32> = (0..members.len() as u32).collect();
        let (batch, total) = (BATCH.min(members.len().max(1)), steps(members.len()));
        let mut adam = Adam::<f32>::new(layer.weights.len());
        let mut gradient = vec![0.0f32; layer.weights.len()];
        let mut at = members.len();
        for step in 0..total {
            if step % 32 == 0 {
                progress.control.check()?;
                progress.add(if step == 0 { 0 } else { 32 });
                if progress.control.out_of_time() {
                    break;
                }
            }
            if at + batch > members.len() {
                shuffle(&mut order, &mut rng);
                at = 0;
            }
            gradient.fill(0.0);
            for &place in &order[at..at + batch] {
                let row = members[place as usize] as usize;
                let features = (rows.x.vector(row), rows.actions.vector(row));
                layer.add_gradient(features, base[place as usize], rows.rewards[row], &mut gradient);
            }
            at += batch;
            let share = 1.0 / batch as f32;
            let rate = 0.5 * RATE * (1.0 + cos(std::f64::consts::PI * step as f64 / total as f64));
            let directions = adam.directions(gradient.iter().map(|g| g * share));
            for (i, (weight, direction)) in layer.weights.iter_mut().zip(directions).enumerate() {
                let decay = if i < UNITS { 0.0 } else { DECAY };
                *weight -= rate as f32 * (direction + decay * *weight);
            }
        }
        Ok(layer)
    }

    /// The mean loss of logged actions with the layer, less that without it.
    pub fn change_of_loss(&self, rows: &Rows, members: &[u32], base: &[f32]) -> f64 {
        let change = |(&row, &base): (&u32, &f32)| {
            let (x, action) = (rows.x.vector(row as usize), rows.actions.vector(row as usize));
            let reward = f64::from(rows.rewards[row as usize]);
            let with = f64::from(base) + self.score(x, action);
            loss_of(with, reward).1 - loss_of(f64::from(base), reward).1
        };
        members.iter().zip(base).map(change).sum::<f64>() / members.len().max(1) as f64
    }
}

/// Row `row` of weights.
#[inline]
fn lanes(weights: &[f32], row: usize) -> &[f32; UNITS] {
    weights[row * UNITS..][..UNITS].try_into().expect("one number per unit")
}

#[inline]
fn lanes_mut(weights: &mut [f32], row: usize) -> &mut [f32; UNITS] {
    (&mut weights[row * UNITS..][..UNITS]).try_into().expect("one number per unit")
}

/// The mean of several layers, as a policy stores it: all their units, with a share of their output.
pub fn mean_of(layers: &[Hidden]) -> HiddenUnits {
    let share = 1.0 / layers.len().max(1) as f32;
    let x = layers.first().map_or(0, |layer| layer.x);
    let rows = layers.first().map_or(0, |layer| layer.weights.len() / UNITS);
    let mut all =
        (0..rows).map(|row| layers.iter().flat_map(|l| *lanes(&l.weights, row)).collect::<Vec<f32>>());
    let bias = all.next().unwrap_or_default();
    let output = all.next().unwrap_or_default().into_iter().map(|weight| weight * share).collect();
    let x = all.by_ref().take(x).collect();
    HiddenUnits { bias, x, actions: all.collect(), output }
}
