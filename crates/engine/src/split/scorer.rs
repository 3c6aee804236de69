//! Weighted sums of score functions, and the one policy that they become.

use std::sync::Arc;

use ndarray::{Array2, ArrayView1};

use super::calibrate::Calibration;
use super::network::Network;
use super::rows::Rows;
use crate::cost_model::{ScoreCalibration, ScoreLink};
use crate::policy::{CLIP, FeatureMap};

/// The mean difference between the two best scores.
pub fn mean_gap(scores: &Array2<f32>) -> f64 {
    let gap = |row: ArrayView1<f32>| {
        let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
        for &s in row {
            if s > first {
                (first, second) = (s, first);
            } else if s > second {
                second = s;
            }
        }
        (first - second) as f64
    };
    scores.rows().into_iter().map(gap).sum::<f64>() / scores.nrows().max(1) as f64
}

/// A weighted sum of networks, each averaged over the folds.
pub struct Scorer {
    /// The networks of each recipe, one per fold, and their weight.
    pub parts: Vec<(Arc<Vec<Network>>, f64)>,
    /// The scores of the held-out contexts, out of sample.
    pub scores: Array2<f32>,
    /// How log-odds are read from the scores.
    pub link: ScoreLink,
    /// The calibration of the log-odds.
    pub calibration: Calibration,
}

impl Scorer {
    /// The cost model on these scores.
    pub fn score_calibration(&self) -> ScoreCalibration {
        let Calibration { offset, slope, .. } = self.calibration;
        ScoreCalibration { link: self.link, offset, slope }
    }

    /// Merges the networks into one feature map and one mean: linear parts are added, hidden layers are put side
    /// by side. Beside hidden layers, the linear part passes through units of its own, as few as possible.
    pub fn merged(&self, rows: &Rows) -> (FeatureMap, Vec<Vec<f64>>) {
        let members: Vec<(&Network, f64)> = (self.parts.iter())
            .flat_map(|(networks, w)| networks.iter().map(move |n| (n, w / networks.len() as f64)))
            .collect();
        let Some((first, _)) = members.first() else {
            return (FeatureMap::Identity, Vec::new());
        };
        let (p, k) = first.linear.dim();
        let (mut linear, mut constant) = (Array2::<f64>::zeros((p, k)), vec![0.0; k]);
        let (mut weights, mut bias, mut mean) = (vec![Vec::new(); p], Vec::new(), Vec::new());
        for (network, w) in &members {
            linear.zip_mut_with(&network.linear, |to, &from| *to += w * from as f64);
            let last = network.head.nrows() - 1;
            constant.iter_mut().zip(network.head.row(last)).for_each(|(to, &from)| *to += w * from as f64);
            let Some(layer) = &network.hidden else { continue };
            weights.iter_mut().zip(layer.weights.rows()).for_each(|(to, from)| to.extend(from.iter()));
            bias.extend_from_slice(&layer.bias);
            let scaled = |row: ArrayView1<f32>| row.iter().map(|&v| v as f64 * w).collect();
            mean.extend(network.head.rows().into_iter().take(last).map(scaled));
        }
        let (center, inverse_scale) = (rows.center.clone(), rows.inverse_scale.clone());
        if bias.is_empty() {
            mean = linear.rows().into_iter().map(|row| row.to_vec()).collect();
            mean.push(constant);
            return (FeatureMap::Standardized { center, inverse_scale }, mean);
        }
        if p < 2 * k {
            pass_features(&linear, &mut weights, &mut bias, &mut mean, &mut constant);
        } else {
            pass_scores(&linear, &mut weights, &mut bias, &mut mean);
        }
        mean.push(constant);
        (FeatureMap::Hidden { center, inverse_scale, weights, bias }, mean)
    }
}

/// One unit per feature: max(s + 5, 0) = s + 5, because standardized features are clipped at ±5.
fn pass_features(
    linear: &Array2<f64>,
    weights: &mut [Vec<f32>],
    bias: &mut Vec<f32>,
    mean: &mut Vec<Vec<f64>>,
    constant: &mut [f64],
) {
    for (j, row) in linear.rows().into_iter().enumerate() {
        for (i, to) in weights.iter_mut().enumerate() {
            to.push(f32::from(u8::from(i == j)));
        }
        bias.push(CLIP);
        mean.push(row.to_vec());
        constant.iter_mut().zip(row).for_each(|(to, v)| *to -= f64::from(CLIP) * v);
    }
}

/// Two units per action, because its linear part v is max(v, 0) − max(−v, 0).
fn pass_scores(
    linear: &Array2<f64>,
    weights: &mut [Vec<f32>],
    bias: &mut Vec<f32>,
    mean: &mut Vec<Vec<f64>>,
) {
    for (action, column) in linear.columns().into_iter().enumerate() {
        for sign in [1.0, -1.0] {
            weights.iter_mut().zip(column).for_each(|(to, v)| to.push((sign * v) as f32));
            bias.push(0.0);
            let mut row = vec![0.0; linear.ncols()];
            row[action] = sign;
            mean.push(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::network::{Layer, Start};
    use super::*;
    use crate::policy::PolicyParams;
    use ndarray::Array1;

    fn network(p: usize, k: usize, width: usize, seed: u64) -> Network {
        let number = |i: usize| ((i as u64 * 37 + seed * 11) % 23) as f32 * 0.1 - 1.1;
        let linear = Array2::from_shape_fn((p, k), |(i, j)| number(i * k + j));
        let start = Start { linear, constant: Array1::from_shape_fn(k, number) };
        let mut network = Network::initial(&start, width, seed);
        if let Some(Layer { bias, .. }) = &mut network.hidden {
            bias.iter_mut().enumerate().for_each(|(i, b)| *b = 0.3 * number(i));
        }
        network
    }

    /// The merged policy has the weighted mean of the networks' scores, whichever way the linear parts pass.
    #[test]
    fn merging_keeps_the_scores() {
        for (p, k, widths) in [(3, 4, [7, 5]), (9, 2, [7, 5]), (3, 4, [0, 5]), (5, 3, [0, 0])] {
            let center: Vec<f32> = (0..p).map(|j| 0.1 * j as f32).collect();
            let rows = Rows::standardized_by(center.clone(), vec![2.0; p]);
            let networks: Vec<Vec<Network>> =
                widths.iter().map(|&w| vec![network(p, k, w, 1), network(p, k, w, 2)]).collect();
            let weights = [0.75, 0.25];
            let scorer = Scorer {
                parts: networks.iter().cloned().map(Arc::new).zip(weights).collect(),
                scores: Array2::zeros((0, k)),
                link: ScoreLink::Separate,
                calibration: Calibration { offset: 0.0, slope: 1.0, loss: 0.0 },
            };
            let (features, mean) = scorer.merged(&rows);
            let policy = PolicyParams::Lig { mean, scale: 1.0, features };
            // Some standardized features are beyond ±5.
            let x = Array2::from_shape_fn((20, p), |(i, j)| ((i * 13 + j * 7) % 17) as f32 * 0.5 - 4.0);
            let scores = policy.scores(x.view()).unwrap().scores;
            let s =
                Array2::from_shape_fn((20, p), |(i, j)| ((x[(i, j)] - center[j]) * 2.0).clamp(-CLIP, CLIP));
            let mut want = Array2::<f64>::zeros((20, k));
            for (networks, weight) in networks.iter().zip(weights) {
                for network in networks {
                    want.zip_mut_with(&network.outputs(&s, &network.phi(&s)), |to, &v| {
                        *to += 0.5 * weight * v as f64
                    });
                }
            }
            for (got, want) in scores.iter().zip(&want) {
                assert!((got - want).abs() < 1e-4, "p = {p}, K = {k}: {got} instead of {want}");
            }
        }
    }
}
