//! What loggers meet: where contexts come from and what actions cost, both of which may change over time.

use std::sync::Arc;

use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub const ACTIONS: usize = 4;

/// Share of time (0 at the first row, 1 at the last), context and action.
type MeanCost = dyn Fn(f64, usize, usize) -> f64 + Sync + Send;
/// Share of time and context.
type Weight = dyn Fn(f64, usize) -> f64 + Sync + Send;

pub struct Nature {
    /// The features of each context.
    pub x: Array2<f32>,
    /// c̄_t(x, a).
    mean_cost: Box<MeanCost>,
    /// ν_t(x), up to a factor.
    weight: Box<Weight>,
    /// Whether any of it depends on time.
    changes: bool,
}

/// Contexts and costs at one time.
#[derive(Clone)]
pub struct Setting {
    /// ν_t(x).
    pub shares: Arc<[f64]>,
    /// c̄_t(x, a): contexts × K.
    pub costs: Arc<[f64]>,
    /// ν_t(x)·c̄_t(x, a): contexts × K.
    pub weighted: Arc<[f64]>,
}

impl Nature {
    /// Contexts with their own parameters, equally frequent, with mean rewards that do not change.
    pub fn still(contexts: usize, reward: impl Fn(usize, usize) -> f64 + Sync + Send + 'static) -> Nature {
        Nature {
            x: one_hot(contexts),
            mean_cost: Box::new(move |_, x, a| -reward(x, a)),
            weight: Box::new(|_, _| 1.0),
            changes: false,
        }
    }

    /// Nothing to gain: every action has this mean reward.
    pub fn nothing_to_gain(contexts: usize, level: f64) -> Nature {
        Nature::still(contexts, move |_, _| level)
    }

    /// Something to gain: in every context one action is better than the others.
    pub fn something_to_gain(contexts: usize, level: f64) -> Nature {
        Nature::still(
            contexts,
            move |x, a| if a == x % ACTIONS { (2.5 * level).min(0.9) } else { 0.8 * level },
        )
    }

    /// Rewards that change over time.
    pub fn with_rewards(
        mut self,
        reward: impl Fn(f64, usize, usize) -> f64 + Sync + Send + 'static,
    ) -> Nature {
        self.mean_cost = Box::new(move |s, x, a| -reward(s, x, a));
        self.changes = true;
        self
    }

    /// Contexts whose shares change over time.
    pub fn with_shares(mut self, weight: impl Fn(f64, usize) -> f64 + Sync + Send + 'static) -> Nature {
        self.weight = Box::new(weight);
        self.changes = true;
        self
    }

    /// Features that contexts have in common, so that a linear model transfers between contexts.
    pub fn with_dense_features(mut self, dim: usize) -> Nature {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        self.x = Array2::from_shape_simple_fn((self.x.nrows(), dim), || 2.0 * rng.random::<f32>() - 1.0);
        self
    }

    pub fn contexts(&self) -> usize {
        self.x.nrows()
    }

    pub fn changes(&self) -> bool {
        self.changes
    }

    pub fn at(&self, share_of_time: f64) -> Setting {
        let contexts = self.contexts();
        let weights: Vec<f64> = (0..contexts).map(|x| (self.weight)(share_of_time, x)).collect();
        let total: f64 = weights.iter().sum();
        let shares: Arc<[f64]> = weights.iter().map(|w| w / total).collect();
        let cells = || (0..contexts).flat_map(|x| (0..ACTIONS).map(move |a| (x, a)));
        let costs: Arc<[f64]> = cells().map(|(x, a)| (self.mean_cost)(share_of_time, x, a)).collect();
        let weighted = cells().zip(costs.iter()).map(|((x, _), cost)| shares[x] * cost).collect();
        Setting { shares, costs, weighted }
    }
}

/// Every context has its own parameters, so a learner can overfit.
pub fn one_hot(contexts: usize) -> Array2<f32> {
    Array2::from_shape_fn((contexts, contexts), |(c, j)| f32::from(u8::from(c == j)))
}
