//! The score functions of the learn side, docs/math.md#auto: linear in the standardized features, with one hidden
//! layer of rectifiers beside the linear part or without one.

use ndarray::{Array1, Array2};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::rows::Rows;
use crate::error::Result;
use crate::numerics::matrix::{add_product, product};
use crate::numerics::random::standard_normal;
use crate::policy::rectified;

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

/// A score function: s·linear + φ(s)·head of the standardized features s, where φ ends in the constant 1.
#[derive(Debug, Clone)]
pub struct Network {
    /// The hidden layer; None for the linear score function.
    pub hidden: Option<Layer>,
    /// (h + 1) × K: the weights of the hidden units and of the constant.
    pub head: Array2<f32>,
    /// p × K: the weights of the linear part.
    pub linear: Array2<f32>,
}

/// A layer of rectifiers.
#[derive(Debug, Clone)]
pub struct Layer {
    /// The weights, p × h.
    pub weights: Array2<f32>,
    /// The bias of each of the h units.
    pub bias: Vec<f32>,
}

/// Where training starts: the linear part and the constant of each action.
#[derive(Debug, Clone)]
pub struct Start {
    /// p × K.
    pub linear: Array2<f32>,
    /// One number per action.
    pub constant: Array1<f32>,
}

/// The mean square of the initial scores of a hidden layer is about the square of this.
const INITIAL_SCORES: f64 = 0.5;

impl Network {
    /// A network before training: `start`, and a random hidden layer.
    pub fn initial(start: &Start, width: Width, seed: u64) -> Self {
        let (p, k) = start.linear.dim();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut normal = |deviation: f64| (standard_normal(&mut rng) * deviation) as f32;
        let weights = Array2::from_shape_simple_fn((p, width), || normal((2.0 / p as f64).sqrt()));
        let deviation = INITIAL_SCORES / (width.max(1) as f64).sqrt();
        let mut head = Array2::from_shape_simple_fn((width + 1, k), || normal(deviation));
        head.row_mut(width).assign(&start.constant);
        let hidden = (width > 0).then(|| Layer { weights, bias: vec![0.0; width] });
        Network { hidden, head, linear: start.linear.clone() }
    }

    /// φ of the standardized contexts `s`; its last column is 1.
    pub fn phi(&self, s: &Array2<f32>) -> Array2<f32> {
        match &self.hidden {
            Some(layer) => rectified(s.view(), layer.weights.view(), &layer.bias),
            None => Array2::ones((s.nrows(), 1)),
        }
    }

    /// The scores of the standardized contexts `s`, whose φ is `phi`.
    pub fn outputs(&self, s: &Array2<f32>, phi: &Array2<f32>) -> Array2<f32> {
        let mut scores = product(phi.view(), self.head.view());
        let k = self.head.ncols();
        add_product(s.view(), self.linear.view(), scores.as_slice_mut().expect("standard"), k);
        scores
    }

    /// The scores of the contexts `members` of `rows`.
    ///
    /// # Errors
    /// If the features cannot be read.
    pub fn scores(&self, rows: &Rows, members: &[u32]) -> Result<Array2<f32>> {
        let scores = |members: &[u32]| {
            let s = rows.standardized(members)?;
            Ok(self.outputs(&s, &self.phi(&s)))
        };
        let parts: Vec<Array2<f32>> = members.par_chunks(256).map(scores).collect::<Result<_>>()?;
        let k = self.head.ncols();
        let mut out = Vec::with_capacity(members.len() * k);
        parts.iter().for_each(|part| out.extend(part.iter()));
        Ok(Array2::from_shape_vec((members.len(), k), out).expect("rows of K"))
    }

    /// All parameters, in the order of the gradient.
    pub fn parameters(&mut self) -> Vec<&mut [f32]> {
        let mut all = vec![self.linear.as_slice_mut().expect("standard")];
        all.push(self.head.as_slice_mut().expect("standard"));
        if let Some(layer) = &mut self.hidden {
            all.push(layer.weights.as_slice_mut().expect("standard"));
            all.push(&mut layer.bias[..]);
        }
        all
    }

    /// Moves the weights by `share` of the way to zero, and those of the linear part to where they started.
    /// Constants stay, because a rare reward needs a constant far from zero.
    pub fn decay(&mut self, share: f32, start: &Start) {
        self.linear.zip_mut_with(&start.linear, |x, s| *x -= share * (*x - s));
        let last = self.head.nrows() - 1;
        self.head.slice_mut(ndarray::s![..last, ..]).mapv_inplace(|x| x * (1.0 - share));
        if let Some(layer) = &mut self.hidden {
            layer.weights.mapv_inplace(|x| x * (1.0 - share));
        }
    }
}
