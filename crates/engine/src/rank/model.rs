//! Models of the reward of (x, a) that are linear in features of the request, of the action and of pairs of both.

use rayon::prelude::*;

use super::known::Known;
use super::rows::Rows;
use crate::log::SparseVector;
use crate::log::ranges::at_most;
use crate::numerics::elementary::{exp, ln_1p};
use crate::policy::{MAX_PAIRS, MAX_ROW_PAIRS, pair_bucket};

/// With more pairs per row there is no model of pairs: it would take too long.
const MEAN_PAIRS: usize = 4096;
/// With more pairs than `MAX_PAIRS`, they share this many cells.
const BITS: u8 = 18;
/// Sums over rows have this many parts, whatever the number of threads; fewer if each part takes much memory.
const PARTS: usize = 16;
const FEW_PARTS: usize = 4;
const LARGE_PART: usize = 1 << 17;

/// Which pairs have weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairs {
    /// None of them.
    None,
    /// Each its own.
    Exact,
    /// 2^bits cells share them.
    Hashed(u8),
}

/// Where the weights of features and pairs are in the list of all weights.
pub struct Layout {
    /// The dimensions of the known features of requests and of actions.
    x: Vec<u32>,
    actions: Vec<u32>,
    /// Which pairs have weights.
    pub pairs: Pairs,
}

impl Layout {
    /// The weights of features and, if `pairs`, of their pairs.
    pub fn new(known: &Known, pairs: bool) -> Self {
        let indices = |known: &[crate::policy::KnownFeature]| known.iter().map(|f| f.index).collect();
        let (x, actions): (Vec<u32>, Vec<u32>) = (indices(&known.x), indices(&known.actions));
        let pairs = match x.len() * actions.len() {
            0 => Pairs::None,
            _ if !pairs || known.pairs > MEAN_PAIRS * known.rows || known.most_pairs > MAX_ROW_PAIRS => {
                Pairs::None
            }
            cells if cells <= MAX_PAIRS => Pairs::Exact,
            _ => Pairs::Hashed(BITS),
        };
        Layout { x, actions, pairs }
    }

    /// The numbers of known features.
    pub fn sizes(&self) -> (usize, usize) {
        (self.x.len(), self.actions.len())
    }

    /// The number of weights.
    pub fn len(&self) -> usize {
        self.first_pair()
            + match self.pairs {
                Pairs::None => 0,
                Pairs::Exact => self.x.len() * self.actions.len(),
                Pairs::Hashed(bits) => 1 << bits,
            }
    }

    /// The place of the first weight of an action's feature.
    pub fn first_action(&self) -> usize {
        1 + self.x.len()
    }

    /// The place of the first weight of a pair.
    pub fn first_pair(&self) -> usize {
        1 + self.x.len() + self.actions.len()
    }

    /// Calls `f` with the place and the value of each term of the score: the constant, the features, the pairs.
    #[inline(always)]
    pub fn each(&self, x: SparseVector, action: SparseVector, mut f: impl FnMut(usize, f64)) {
        f(0, 1.0);
        x.iter().for_each(|(i, value)| f(1 + i as usize, f64::from(value)));
        let first = self.first_action();
        action.iter().for_each(|(j, value)| f(first + j as usize, f64::from(value)));
        let (first, width) = (self.first_pair(), self.actions.len());
        match self.pairs {
            Pairs::None => {}
            Pairs::Exact => {
                for (i, x) in x.iter() {
                    let row = first + i as usize * width;
                    action.iter().for_each(|(j, a)| f(row + j as usize, f64::from(x) * f64::from(a)));
                }
            }
            Pairs::Hashed(bits) => {
                for (i, x) in x.iter() {
                    let i = self.x[i as usize];
                    for (j, a) in action.iter() {
                        let cell = pair_bucket(i, self.actions[j as usize], bits);
                        f(first + cell as usize, f64::from(x) * f64::from(a));
                    }
                }
            }
        }
    }

    /// The score of an action.
    #[inline]
    pub fn score(&self, weights: &[f64], x: SparseVector, action: SparseVector) -> f64 {
        let mut score = 0.0;
        self.each(x, action, |at, value| score += weights[at] * value);
        score
    }

    /// Whether there are so many weights that only one fit is under way at a time.
    pub fn is_large(&self) -> bool {
        self.len() > LARGE_PART
    }

    /// The parts in which rows are summed.
    pub fn parts(&self, rows: usize) -> Vec<std::ops::Range<usize>> {
        at_most(if self.is_large() { FEW_PARTS } else { PARTS }, rows)
    }
}

/// 1/(1 + e^−t).
pub fn sigmoid(t: f64) -> f64 {
    1.0 / (1.0 + exp(-t))
}

/// σ(t) and the cross-entropy −r ln σ(t) − (1 − r) ln(1 − σ(t)).
#[inline]
pub fn loss_of(t: f64, reward: f64) -> (f64, f64) {
    let e = exp(-t.abs());
    let q = 1.0 / (1.0 + e);
    (if t >= 0.0 { q } else { 1.0 - q }, t.max(0.0) - reward * t + ln_1p(e))
}

/// The cross-entropy of some rows and its gradient with respect to the weights.
pub fn loss_and_gradient(layout: &Layout, weights: &[f64], rows: &Rows, members: &[u32]) -> (f64, Vec<f64>) {
    let parts: Vec<(f64, Vec<f64>)> = (layout.parts(members.len()).into_par_iter())
        .map(|part| {
            let (mut loss, mut gradient) = (0.0, vec![0.0; weights.len()]);
            for &row in &members[part] {
                let (x, action) = (rows.x.vector(row as usize), rows.actions.vector(row as usize));
                let reward = f64::from(rows.rewards[row as usize]);
                let (q, own) = loss_of(layout.score(weights, x, action), reward);
                loss += own;
                layout.each(x, action, |at, value| gradient[at] += (q - reward) * value);
            }
            (loss, gradient)
        })
        .collect();
    let mut parts = parts.into_iter();
    let Some((mut loss, mut gradient)) = parts.next() else { return (0.0, vec![0.0; weights.len()]) };
    for (own, part) in parts {
        loss += own;
        gradient.iter_mut().zip(part).for_each(|(sum, own)| *sum += own);
    }
    (loss, gradient)
}

/// The diagonal of the second derivative of the cross-entropy of some rows.
pub fn curvature(layout: &Layout, weights: &[f64], rows: &Rows, members: &[u32]) -> Vec<f64> {
    let parts: Vec<Vec<f64>> = (layout.parts(members.len()).into_par_iter())
        .map(|part| {
            let mut diagonal = vec![0.0; weights.len()];
            for &row in &members[part] {
                let (x, action) = (rows.x.vector(row as usize), rows.actions.vector(row as usize));
                let q = sigmoid(layout.score(weights, x, action));
                let v = q * (1.0 - q);
                layout.each(x, action, |at, value| diagonal[at] += v * value * value);
            }
            diagonal
        })
        .collect();
    let mut diagonal = vec![0.0; weights.len()];
    for part in parts {
        diagonal.iter_mut().zip(part).for_each(|(sum, own)| *sum += own);
    }
    diagonal
}
