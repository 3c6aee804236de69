//! Softmax regression on a few labelled rows: the logging policies of the tables. As scikit-learn's logistic regression
//! with C = 1: features are standardized, the weights have an L2 penalty of ½, and the constants have none.

use guarantor_engine::error::Result;
use guarantor_engine::learn::lbfgs::Lbfgs;
use ndarray::{Array2, ArrayView1, ArrayView2, Axis};

/// A fitted model.
pub struct Softmax {
    center: Vec<f64>,
    scale: Vec<f64>,
    /// (p + 1) × the labels that were seen; the last row has the constants.
    weights: Array2<f64>,
    seen: Vec<usize>,
    n_actions: usize,
}

const STEPS: usize = 500;
const TOLERANCE: f64 = 1e-7;

impl Softmax {
    /// Fits the model.
    ///
    /// # Errors
    /// If a number is not finite.
    pub fn fit(x: ArrayView2<f32>, labels: &[usize], n_actions: usize) -> Result<Self> {
        let n = x.nrows().max(1) as f64;
        let mut center = vec![0.0; x.ncols()];
        let mut scale = vec![0.0; x.ncols()];
        for row in x.axis_iter(Axis(0)) {
            center.iter_mut().zip(row).for_each(|(c, &v)| *c += f64::from(v) / n);
        }
        for row in x.axis_iter(Axis(0)) {
            for (j, &v) in row.iter().enumerate() {
                scale[j] += (f64::from(v) - center[j]).powi(2) / n;
            }
        }
        // A feature that is constant here stays as it is.
        scale.iter_mut().for_each(|s| *s = if *s > 0.0 { s.sqrt() } else { 1.0 });
        let mut seen = labels.to_vec();
        seen.sort_unstable();
        seen.dedup();
        let weights = Array2::zeros((x.ncols() + 1, seen.len()));
        let mut model = Softmax { center, scale, weights, seen, n_actions };
        let rows: Vec<Vec<f64>> = x.axis_iter(Axis(0)).map(|row| model.standardized(row)).collect();
        let places: Vec<usize> =
            labels.iter().map(|label| model.seen.binary_search(label).unwrap_or(0)).collect();
        let (p, k) = model.weights.dim();
        let mut evaluate = |w: &[f64]| Ok(loss(&rows, &places, w, p, k));
        let mut lbfgs = Lbfgs::at(vec![0.0; p * k], 1e-2);
        lbfgs.refresh(&mut evaluate)?;
        lbfgs.run(STEPS, TOLERANCE, &mut evaluate)?;
        model.weights = Array2::from_shape_vec((p, k), lbfgs.point).expect("p × k");
        Ok(model)
    }

    /// The standardized features with a 1 at the end.
    fn standardized(&self, x: ArrayView1<f32>) -> Vec<f64> {
        let of = |(j, &v): (usize, &f32)| (f64::from(v) - self.center[j]) / self.scale[j];
        x.iter().enumerate().map(of).chain([1.0]).collect()
    }

    /// π(·|x) at the inverse temperature α. Labels that were not seen score 1 less than the worst one that was.
    pub fn propensities(&self, x: ArrayView1<f32>, alpha: f64) -> Vec<f64> {
        let row = self.standardized(x);
        let score = |c: usize| row.iter().zip(self.weights.column(c)).map(|(x, w)| x * w).sum::<f64>();
        let scores: Vec<f64> = (0..self.seen.len()).map(score).collect();
        let worst = scores.iter().copied().fold(f64::INFINITY, f64::min) - 1.0;
        let mut all = vec![worst; self.n_actions];
        self.seen.iter().zip(&scores).for_each(|(&label, &score)| all[label] = score);
        let top = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let exps: Vec<f64> = all.iter().map(|s| (alpha * (s - top)).exp()).collect();
        let total: f64 = exps.iter().sum();
        exps.into_iter().map(|e| e / total).collect()
    }
}

/// The sum of −ln π(y|x) and half of the squared weights, and its gradient.
fn loss(rows: &[Vec<f64>], labels: &[usize], w: &[f64], p: usize, k: usize) -> (f64, Vec<f64>) {
    let (mut value, mut gradient) = (0.0, vec![0.0; p * k]);
    for (i, v) in w[..(p - 1) * k].iter().enumerate() {
        value += 0.5 * v * v;
        gradient[i] = *v;
    }
    for (row, &label) in rows.iter().zip(labels) {
        let mut scores = vec![0.0; k];
        for (j, x) in row.iter().enumerate() {
            scores.iter_mut().zip(&w[j * k..(j + 1) * k]).for_each(|(s, w)| *s += x * w);
        }
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scores.iter().map(|s| (s - top).exp()).sum();
        value += top + total.ln() - scores[label];
        for (c, score) in scores.iter().enumerate() {
            let residual = (score - top).exp() / total - f64::from(u8::from(c == label));
            row.iter().enumerate().for_each(|(j, x)| gradient[j * k + c] += residual * x);
        }
    }
    (value, gradient)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two separated labels of three: the fit prefers the right one, and the third is never seen.
    #[test]
    fn prefers_what_it_has_seen() {
        let x = Array2::from_shape_fn((40, 2), |(i, j)| if j == 0 { i as f32 } else { 7.0 });
        let labels: Vec<usize> = (0..40).map(|i| if i < 20 { 0 } else { 2 }).collect();
        let model = Softmax::fit(x.view(), &labels, 3).unwrap();
        let (low, high) = (model.propensities(x.row(2), 1.0), model.propensities(x.row(38), 1.0));
        assert!(low[0] > 0.9 && high[2] > 0.9, "{low:?} {high:?}");
        assert!(low[1] < low[2], "{low:?}");
        assert_eq!(model.propensities(x.row(2), 0.0), vec![1.0 / 3.0; 3]);
    }

    #[test]
    fn the_gradient_is_the_derivative() {
        let rows: Vec<Vec<f64>> = (0..9).map(|i| vec![f64::from(i).sin(), f64::from(i).cos(), 1.0]).collect();
        let labels: Vec<usize> = (0..9).map(|i| i % 3).collect();
        let w: Vec<f64> = (0..9).map(|i| 0.3 * f64::from(i) - 1.0).collect();
        let (_, gradient) = loss(&rows, &labels, &w, 3, 3);
        for i in 0..9 {
            let at = |h: f64| {
                let mut moved = w.clone();
                moved[i] += h;
                loss(&rows, &labels, &moved, 3, 3).0
            };
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((slope - gradient[i]).abs() < 1e-6, "{i}: {slope} and {}", gradient[i]);
        }
    }
}
