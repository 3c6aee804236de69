//! Weighted sums of score functions, and the one policy that they become.

use std::sync::Arc;

use ndarray::{Array2, ArrayView1};

use super::calibrate::Calibration;
use super::network::Network;
use super::rows::Rows;
use crate::cost_model::{ScoreCalibration, ScoreLink};
use crate::policy::FeatureMap;

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
    /// by side. Beside hidden layers, the linear part v of an action becomes max(v, 0) − max(−v, 0).
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
        for (action, column) in linear.columns().into_iter().enumerate() {
            for sign in [1.0, -1.0] {
                weights.iter_mut().zip(column).for_each(|(to, v)| to.push((sign * v) as f32));
                bias.push(0.0);
                let mut row = vec![0.0; k];
                row[action] = sign;
                mean.push(row);
            }
        }
        mean.push(constant);
        (FeatureMap::Hidden { center, inverse_scale, weights, bias }, mean)
    }
}
