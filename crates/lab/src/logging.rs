//! μ0, the parameter of the logging policy: softmax regression on the examples that are set aside for it
//! (paper, appendix "Detailed hyperparameters": Adam at 0.1, 10 epochs, L2 of 1e-6).
//!
//! The paper leaves the following open. Batches have 32 examples, in a new order each epoch; on
//! FashionMNIST this gives policies as peaked as the published ones. μ starts at 0. The L2 term is added to
//! the gradient. If an example has several labels, the target is uniform over them,
//! −1/|y| Σ_{a∈y} ln π(a|x); an example without labels has no gradient.

use ndarray::{Array2, s};

use super::dataset::Examples;
use guarantor_engine::learn::adam::Adam;
use guarantor_engine::numerics::product;
use guarantor_engine::numerics::random::shuffled;
use guarantor_engine::policy::exponentials;

const RATE: f64 = 0.1;
const EPOCHS: u64 = 10;
const L2: f64 = 1e-6;
const BATCH: usize = 32;

/// Trains μ0, p × K.
pub fn train(examples: &Examples, n_actions: usize, seed: u64) -> Array2<f64> {
    let (p, width) = (examples.x.ncols(), product::padded(n_actions));
    let mut mu = vec![0.0; p * width];
    let mut adam = Adam::new(mu.len());
    for epoch in 1..=EPOCHS {
        for batch in shuffled(examples.len(), seed, epoch).chunks(BATCH) {
            let gradient = gradient(&examples.select(batch), n_actions, &mu);
            let directions = adam.directions(gradient.into_iter());
            mu.iter_mut().zip(directions).for_each(|(x, direction)| *x -= RATE * direction);
        }
    }
    let padded = Array2::from_shape_vec((p, width), mu).expect("p × width");
    padded.slice_move(s![.., ..n_actions])
}

/// The gradient of the batch's mean loss and the L2 term at μ, whose rows are padded.
fn gradient(batch: &Examples, n_actions: usize, mu: &[f64]) -> Vec<f64> {
    let (n, width) = (batch.len(), product::padded(n_actions));
    let mean: Vec<f32> = mu.iter().map(|&v| v as f32).collect();
    let x = batch.x.as_slice().expect("row-major");
    let mut d = vec![0.0f32; n * width];
    product::narrow_scores(x, &mean, width, &mut d);
    for (i, d) in d.chunks_exact_mut(width).enumerate() {
        residual(&mut d[..n_actions], batch.labels.of(i), n as f32);
        d[n_actions..].fill(0.0);
    }
    let mut gradient = vec![0.0f32; mu.len()];
    product::add_narrow_gradient(x, &d, width, &mut gradient);
    gradient.iter().zip(mu).map(|(&g, &v)| f64::from(g) + L2 * v).collect()
}

/// Replaces scores by (π − target)/n.
fn residual(scores: &mut [f32], labels: &[u32], n: f32) {
    if labels.is_empty() {
        return scores.fill(0.0);
    }
    // Divided by the sum and n at once, not one after the other: published figures depend on the rounding.
    let total = exponentials(scores);
    scores.iter_mut().for_each(|v| *v /= total * n);
    for &label in labels {
        scores[label as usize] -= 1.0 / (labels.len() as f32 * n);
    }
}
