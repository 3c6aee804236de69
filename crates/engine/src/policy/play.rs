//! What a policy plays: scores of contexts, propensities, and draws.

use ndarray::{Array2, ArrayView2, Axis};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::params::PolicyParams;
use super::{Lig, MixedLogit, Policy, Scratch, SetScores, Softmax};
use crate::error::{EngineError, Result};
use crate::log::{Contexts, uniform_over};
use crate::numerics::product;

/// The scores of contexts, from which a policy's link computes propensities.
pub struct Scored {
    /// Contexts × K. Actions that are not available have −∞.
    pub scores: Array2<f64>,
    /// ‖φ(x)‖ of each context.
    pub norms: Vec<f64>,
    /// What the rounding of scores can change in each context, besides [`PolicyParams::score_rounding`]; empty if
    /// nothing.
    pub rounding: Vec<f64>,
}

/// The number of points over which a mixed-logit policy is averaged.
pub const DRAWS: usize = 4096;

/// φ of at most about this many numbers exists at a time: 16 MiB, however wide a hidden layer is.
const PHI_BLOCK: usize = 1 << 22;

impl PolicyParams {
    /// The map from scores to propensities, at the resolution of certificates. It leaves exploration out.
    pub fn link(&self) -> Box<dyn Policy> {
        match self {
            PolicyParams::Softmax { inverse_temperature, .. } => {
                Box::new(Softmax { inverse_temperature: *inverse_temperature })
            }
            PolicyParams::ActionScorer(scorer) => {
                Box::new(Softmax { inverse_temperature: scorer.inverse_temperature })
            }
            // All scores are 0, or −∞ for actions that are not available.
            PolicyParams::Uniform { .. } | PolicyParams::UniformOverSets {} => {
                Box::new(Softmax { inverse_temperature: 1.0 })
            }
            PolicyParams::Lig { scale, .. } => Box::new(Lig::fine(*scale, self.n_actions())),
            PolicyParams::MixedLogit { scale, .. } => {
                Box::new(MixedLogit::new(*scale, self.n_actions(), DRAWS))
            }
            PolicyParams::Exploring { base, .. } => base.link(),
        }
    }

    /// The factor by which the difference between the two resolutions may understate the error of the finer
    /// one, q in docs/math.md#slack.
    pub fn quadrature_safety(&self) -> f64 {
        match self {
            PolicyParams::Lig { .. } => 2.0,
            PolicyParams::MixedLogit { .. } => 4.0,
            PolicyParams::Softmax { .. }
            | PolicyParams::Uniform { .. }
            | PolicyParams::ActionScorer(_)
            | PolicyParams::UniformOverSets {} => 0.0,
            PolicyParams::Exploring { base, .. } => base.quadrature_safety(),
        }
    }

    /// A bound on the relative change of a propensity by the rounding of f64 scores, ρ in docs/math.md#slack.
    pub fn score_rounding(&self) -> f64 {
        if let PolicyParams::Exploring { base, with, .. } = self {
            return base.score_rounding().max(with.score_rounding());
        }
        let Some(mean) = self.mean_matrix() else { return 0.0 };
        let spread = match self {
            PolicyParams::Softmax { inverse_temperature, .. } => inverse_temperature.abs(),
            PolicyParams::Lig { scale, .. } | PolicyParams::MixedLogit { scale, .. } => 1.0 / scale,
            _ => 0.0,
        };
        let longest = mean
            .columns()
            .into_iter()
            .map(|c| c.iter().map(|v| v * v).sum::<f64>().sqrt())
            .fold(0.0, f64::max);
        f64::EPSILON * (mean.nrows() as f64).sqrt() * longest * spread
    }

    /// The scores of contexts, in f64, without exploration.
    ///
    /// # Errors
    /// If the contexts are not of the policy's kind or dimension, or a score is not finite.
    pub fn scores<'a>(&self, contexts: impl Into<Contexts<'a>>) -> Result<Scored> {
        let other = |message: &str| Err(EngineError::Numerical(message.into()));
        match (self, contexts.into()) {
            (PolicyParams::Exploring { base, .. }, contexts) => base.scores(contexts),
            (PolicyParams::ActionScorer(scorer), Contexts::Sets(sets)) => {
                let SetScores { scores, rounding } = scorer.scores(sets)?;
                Ok(Scored { scores, norms: vec![1.0; sets.rows()], rounding })
            }
            (PolicyParams::UniformOverSets {}, Contexts::Sets(sets)) => {
                let mut scores = uniform_over(sets);
                scores.mapv_inplace(|p| if p > 0.0 { 0.0 } else { f64::NEG_INFINITY });
                Ok(Scored { scores, norms: vec![1.0; sets.rows()], rounding: Vec::new() })
            }
            (PolicyParams::ActionScorer(_) | PolicyParams::UniformOverSets {}, Contexts::Fixed(_)) => {
                other("the policy plays over action sets, but these contexts have none")
            }
            (_, Contexts::Sets(_)) => {
                other("the policy has fixed actions, but every context has its own; use a scorer of actions")
            }
            (_, Contexts::Fixed(x)) => {
                let (scores, norms) = self.fixed_scores(x)?;
                Ok(Scored { scores, norms, rounding: Vec::new() })
            }
        }
    }

    /// φ(x)ᵀμ and ‖φ(x)‖ of each context.
    fn fixed_scores(&self, x: ArrayView2<f32>) -> Result<(Array2<f64>, Vec<f64>)> {
        if x.ncols() != self.dim() {
            let message = format!("contexts have {} features, but the policy has {}", x.ncols(), self.dim());
            return Err(EngineError::Numerical(message));
        }
        let Some(mean) = self.mean_matrix() else {
            let k = self.n_actions();
            return Ok((Array2::zeros((x.nrows(), k)), vec![1.0; x.nrows()]));
        };
        let (features, width) = (self.features(), mean.nrows());
        let block = if features.is_identity() { x.nrows() } else { PHI_BLOCK / width.max(1) }.max(1);
        if x.nrows() <= block {
            let phi = features.apply(x);
            return Ok((product::scores(phi.view(), mean.view()), product::norms(phi.view())));
        }
        let mut scores = Vec::with_capacity(x.nrows() * mean.ncols());
        let mut norms = Vec::with_capacity(x.nrows());
        for rows in x.axis_chunks_iter(Axis(0), block) {
            let phi = features.apply(rows);
            scores.extend(product::scores(phi.view(), mean.view()));
            norms.extend(product::norms(phi.view()));
        }
        let scores = Array2::from_shape_vec((x.nrows(), mean.ncols()), scores).expect("rows × K");
        Ok((scores, norms))
    }

    /// π(·|x) of each context, at the resolution of certificates.
    ///
    /// # Errors
    /// If the contexts do not have the policy's dimension, or propensities do not sum to 1.
    pub fn propensities<'a>(&self, contexts: impl Into<Contexts<'a>>) -> Result<Array2<f64>> {
        self.propensities_by(&*self.link(), contexts)
    }

    /// The same with a link that already exists, for callers with many blocks of contexts.
    ///
    /// # Errors
    /// As [`Self::propensities`].
    pub fn propensities_by<'a>(
        &self,
        link: &dyn Policy,
        contexts: impl Into<Contexts<'a>>,
    ) -> Result<Array2<f64>> {
        let contexts = contexts.into();
        let Scored { scores, norms, .. } = self.scores(contexts)?;
        let mut scratch = Scratch::default();
        let mut out = Array2::zeros(scores.dim());
        for (c, mut pi) in out.rows_mut().into_iter().enumerate() {
            let (pi, scores) = (pi.as_slice_mut().expect("row-major"), scores.row(c));
            link.propensities(scores.as_slice().expect("row-major"), norms[c], &mut scratch, pi);
            let total: f64 = pi.iter().sum();
            if total.is_nan() || (total - 1.0).abs() > 1e-6 {
                return Err(EngineError::Numerical(format!("propensities sum to {total}")));
            }
            pi.iter_mut().for_each(|p| *p /= total);
        }
        if let PolicyParams::Exploring { share, with, .. } = self {
            let explored = with.propensities(contexts)?;
            out.zip_mut_with(&explored, |p, q| *p = mixed(*share, *p, *q));
        }
        Ok(out)
    }

    /// Draws one action per context from π(·|x), with its propensity.
    ///
    /// # Errors
    /// As [`Self::propensities`].
    pub fn sample<'a>(&self, contexts: impl Into<Contexts<'a>>, seed: u64) -> Result<Vec<(u32, f64)>> {
        let contexts = contexts.into();
        let pi = self.propensities(contexts)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        if let PolicyParams::Lig { scale, .. } = self {
            let lig = Lig::fine(*scale, self.n_actions());
            let Scored { scores, norms, .. } = self.scores(contexts)?;
            let draw = |c: usize| {
                let scores = scores.row(c);
                let action = lig.sample(scores.as_slice().expect("row-major"), norms[c], &mut rng);
                (action as u32, pi[(c, action)])
            };
            return Ok((0..pi.nrows()).map(draw).collect());
        }
        let draw = |pi: ndarray::ArrayView1<f64>| {
            let action = pick(pi.iter().copied(), rng.random());
            (action as u32, pi[action])
        };
        Ok(pi.rows().into_iter().map(draw).collect())
    }
}

/// The probability under a policy that plays q with probability `share` and otherwise p.
pub fn mixed(share: f64, p: f64, q: f64) -> f64 {
    (1.0 - share) * p + share * q
}

/// The action whose share of [0, 1) contains `u`; never an action of probability 0.
pub fn pick(pi: impl Iterator<Item = f64>, mut u: f64) -> usize {
    let mut last = 0;
    for (action, p) in pi.enumerate().filter(|(_, p)| *p > 0.0) {
        u -= p;
        last = action;
        if u < 0.0 {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::super::FeatureMap;
    use super::*;

    /// A hidden layer so wide that φ of two contexts fills a block.
    #[test]
    fn scores_do_not_depend_on_blocks() {
        let units = PHI_BLOCK / 2 - 1;
        let number = |i: usize| (i % 1013) as f32 / 1013.0 - 0.4;
        let policy = PolicyParams::Softmax {
            mean: (0..=units).map(|i| vec![f64::from(number(i)), f64::from(number(7 * i))]).collect(),
            inverse_temperature: 1.0,
            features: FeatureMap::Hidden {
                center: vec![0.25],
                inverse_scale: vec![1.5],
                weights: vec![(0..units).map(|i| number(3 * i)).collect()],
                bias: (0..units).map(|i| number(5 * i)).collect(),
            },
        };
        policy.check().unwrap();
        let x = Array2::from_shape_vec((5, 1), vec![0.1f32, -0.7, 0.4, 2.0, -3.0]).unwrap();
        let Scored { scores, norms, .. } = policy.scores(x.view()).unwrap();
        for (i, row) in x.axis_chunks_iter(Axis(0), 1).enumerate() {
            let alone = policy.scores(row).unwrap();
            assert_eq!((alone.scores.row(0), alone.norms[0]), (scores.row(i), norms[i]));
        }
    }
}
