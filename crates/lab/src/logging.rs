//! μ0, the parameter of the logging policy: softmax regression on the examples set aside for it
//! (paper, appendix "Detailed hyperparameters": Adam at 0.1, 10 epochs, L2 of 1e-6).
//!
//! What the paper leaves open: batches are of 32 examples in a new order each epoch (which gives
//! FashionMNIST policies as sure as the published ones), μ starts at 0,
//! and the L2 term is added to the gradient. Where an example has several labels the target is
//! uniform over them, −1/|y| Σ_{a∈y} ln π(a|x); one without labels teaches nothing.

use ndarray::{Array2, s};

use super::dataset::Examples;
use guarantor_engine::learn::adam::{Adam, shuffled};
use guarantor_engine::numerics::product;

const RATE: f64 = 0.1;
const EPOCHS: u64 = 10;
const L2: f64 = 1e-6;
const BATCH: usize = 32;

/// p × K.
pub fn train(examples: &Examples, n_actions: usize, seed: u64) -> Array2<f64> {
    let (p, width) = (examples.x.ncols(), product::padded(n_actions));
    let mut adam = Adam::new(vec![0.0; p * width], vec![1.0; p * width], RATE);
    let all: Vec<usize> = (0..examples.len()).collect();
    for epoch in 1..=EPOCHS {
        for batch in shuffled(&all, seed, epoch).chunks(BATCH) {
            let gradient = gradient(&examples.select(batch), n_actions, &adam.point);
            adam.step(&gradient);
        }
    }
    let padded = Array2::from_shape_vec((p, width), adam.point).expect("p × width");
    padded.slice_move(s![.., ..n_actions])
}

/// Of the batch's mean loss and the L2 term, at the padded point μ.
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

/// Scores → (π − target) / n.
fn residual(scores: &mut [f32], labels: &[u32], n: f32) {
    if labels.is_empty() {
        return scores.fill(0.0);
    }
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores.iter_mut().for_each(|v| *v = (*v - max).exp());
    let total: f32 = scores.iter().sum();
    scores.iter_mut().for_each(|v| *v /= total * n);
    for &label in labels {
        scores[label as usize] -= 1.0 / (labels.len() as f32 * n);
    }
}
