//! The cost model ĉ(x, a), docs/math.md#cost-model: a control variate that was fitted on rows that the bound
//! does not use.
//!
//!   ĉ(x, a) = −sigmoid(offset + slope·t_a),  t_a the policy's score, or the log-odds of its softmax

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::digest::digest_of;
use super::error::Result;
use super::log::Contexts;
use super::numerics::elementary::{exp, ln};
use super::policy::PolicyParams;

/// How t_a is read from the scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoreLink {
    /// The actions' rewards are modeled separately: t_a = s_a.
    Separate,
    /// The actions compete for one reward: t_a = s_a − ln Σ_{b≠a} exp(s_b).
    Competing,
}

impl ScoreLink {
    /// t_a of one context.
    pub fn log_odds(self, scores: &[f64], a: usize) -> f64 {
        match self {
            ScoreLink::Separate => scores[a],
            ScoreLink::Competing => {
                let others = || (0..scores.len()).filter(|&b| b != a).map(|b| scores[b]);
                let max = others().fold(f64::NEG_INFINITY, f64::max);
                scores[a] - max - ln(others().map(|s| exp(s - max)).sum::<f64>())
            }
        }
    }
}

/// How costs are read from scores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScoreCalibration {
    /// How t_a is read from the scores.
    pub link: ScoreLink,
    /// The offset of the sigmoid's argument.
    pub offset: f64,
    /// The factor of t_a.
    pub slope: f64,
}

impl ScoreCalibration {
    /// Writes ĉ(x, ·) of one context, in [−1, 0], from its scores.
    pub fn costs(&self, scores: &[f64], out: &mut [f64]) {
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total = match self.link {
            ScoreLink::Separate => 0.0,
            ScoreLink::Competing => scores.iter().map(|s| exp(s - max)).sum::<f64>(),
        };
        for a in 0..scores.len() {
            // An action that is not available costs nothing.
            if scores[a] == f64::NEG_INFINITY {
                out[a] = 0.0;
                continue;
            }
            // The sum over the others is the total less one, unless that one is nearly all of it.
            let others = total - exp(scores[a] - max);
            let log_odds = match self.link {
                ScoreLink::Competing if others > 1e-3 * total => scores[a] - max - ln(others),
                link => link.log_odds(scores, a),
            };
            let t = self.offset + self.slope * log_odds;
            out[a] = -1.0 / (1.0 + exp(-t));
        }
    }
}

/// A cost model: a calibration of a policy's scores.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostModel<'a> {
    /// The policy whose scores are read.
    pub scores: &'a PolicyParams,
    /// How costs are read from them.
    pub calibration: ScoreCalibration,
}

impl CostModel<'_> {
    /// # Errors
    /// If a parameter is not finite.
    pub fn digest(&self) -> Result<String> {
        digest_of(self)
    }

    /// ĉ(x, ·) of each context.
    ///
    /// # Errors
    /// If the contexts do not have the dimension of the policy.
    pub fn costs<'a>(&self, contexts: impl Into<Contexts<'a>>) -> Result<Array2<f64>> {
        let mut scores = self.scores.scores(contexts)?.scores;
        let mut out = vec![0.0; scores.ncols()];
        for mut row in scores.rows_mut() {
            let row = row.as_slice_mut().expect("row-major");
            self.calibration.costs(row, &mut out);
            row.copy_from_slice(&out);
        }
        Ok(scores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_the_log_odds() {
        for link in [ScoreLink::Separate, ScoreLink::Competing] {
            let calibration = ScoreCalibration { link, offset: 0.3, slope: 0.8 };
            for scores in
                [vec![0.1, 2.0, -1.0, 0.5], vec![40.0, 0.0, 1.0], vec![-700.0, 700.0], vec![3.0; 200]]
            {
                let mut costs = vec![0.0; scores.len()];
                calibration.costs(&scores, &mut costs);
                for (a, cost) in costs.into_iter().enumerate() {
                    let t = 0.3 + 0.8 * link.log_odds(&scores, a);
                    let want = -1.0 / (1.0 + (-t).exp());
                    assert!((cost - want).abs() < 1e-12, "{link:?} {scores:?} {a}: {cost} is not {want}");
                }
            }
        }
    }
}
