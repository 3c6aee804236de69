//! The toy world of `guarantor demo` and `guarantor simulate`: visitors with features, actions with click
//! rates, and a deployed policy that is good but not the best.

use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use guarantor_engine::policy::{FeatureMap, PolicyParams, pick};
use xxhash_rust::xxh3::xxh3_64;

/// The number of features of a visitor.
pub const FEATURES: usize = 8;
/// The number of actions.
pub const ACTIONS: usize = 5;

/// The world and its stream of visitors.
pub struct Toy {
    rng: ChaCha8Rng,
    world: Weights,
    noise: Weights,
    alpha: f64,
    /// The policy that logs, if it is not the built-in one.
    given: Option<PolicyParams>,
    /// What a learner believes after the interactions that it was shown.
    learned: Weights,
}

/// The step size of the learner.
const LEARNING_RATE: f64 = 0.05;

type Weights = Vec<[f64; ACTIONS]>;

/// A context and what the deployed policy did with it.
pub struct Visitor {
    /// The features of the context.
    pub x: Vec<f32>,
    /// π0(·|x), the propensities of all actions.
    pub propensities: Vec<f64>,
    /// Each action with its reward, 0 or 1.
    pub interactions: Vec<(u32, f64)>,
}

impl Toy {
    /// A world whose deployed policy has the inverse temperature `alpha`: the lower it is, the more the
    /// policy explores and the more its log can teach. The same seed gives the same world and visitors.
    pub fn new(alpha: f64, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let world = weights(&mut rng, 1.5);
        let noise = weights(&mut rng, 1.0);
        Toy { rng, world, noise, alpha, given: None, learned: vec![[0.0; ACTIONS]; FEATURES] }
    }

    /// The same world with other visitors, logged by another policy: the next round.
    ///
    /// # Errors
    /// If the policy does not have this world's features and actions.
    pub fn with_policy(mut self, policy: PolicyParams) -> Result<Self, String> {
        let (features, actions) = (policy.dim(), policy.n_actions());
        if (features, actions) != (FEATURES, ACTIONS) {
            return Err(format!(
                "the policy has {features} features and {actions} actions, but the toy world has {FEATURES} and {ACTIONS}"
            ));
        }
        let digest = policy.digest().map_err(|error| error.to_string())?;
        self.rng.set_stream(xxh3_64(digest.as_bytes()));
        Ok(Toy { given: Some(policy), ..self })
    }

    /// Shows a visitor's interactions to the learner: a step of logistic regression for each.
    pub fn learn(&mut self, visitor: &Visitor) {
        for &(action, reward) in &visitor.interactions {
            let action = action as usize;
            let score: f64 =
                self.learned.iter().zip(&visitor.x).map(|(row, &x)| row[action] * f64::from(x)).sum();
            let step = LEARNING_RATE * (reward - 1.0 / (1.0 + (-score).exp()));
            self.learned.iter_mut().zip(&visitor.x).for_each(|(row, &x)| row[action] += step * f64::from(x));
        }
    }

    /// Deploys what the learner believes: from here on it logs.
    pub fn retrain(&mut self) {
        let mean = self.learned.iter().map(|row| row.to_vec()).collect();
        let features = FeatureMap::default();
        self.given = Some(PolicyParams::Softmax { mean, inverse_temperature: self.alpha, features });
    }

    /// The next visitor, with this many interactions.
    pub fn visitor(&mut self, interactions: usize) -> Visitor {
        let rng = &mut self.rng;
        let x: Vec<f64> = (0..FEATURES).map(|_| (standard_normal(rng) * 1e4).round() / 1e4).collect();
        let truth = scores(&self.world, &x);
        let believed = truth.iter().zip(scores(&self.noise, &x)).map(|(&t, n)| belief(t, n));
        let propensities = match &self.given {
            Some(policy) => propensities_of(policy, &x),
            None => softmax(believed, self.alpha),
        };
        let mut interact = || {
            let action = pick(propensities.iter().copied(), rng.random());
            let clicked = rng.random::<f64>() < 1.0 / (1.0 + (-truth[action]).exp());
            (action as u32, f64::from(u8::from(clicked)))
        };
        let interactions = (0..interactions).map(|_| interact()).collect();
        Visitor { x: x.iter().map(|&v| v as f32).collect(), propensities, interactions }
    }

    /// The deployed policy, which is the logging policy.
    pub fn policy(&self) -> PolicyParams {
        if let Some(policy) = &self.given {
            return policy.clone();
        }
        let row =
            |(t, n): (&[f64; ACTIONS], &[f64; ACTIONS])| (0..ACTIONS).map(|a| belief(t[a], n[a])).collect();
        let mean = self.world.iter().zip(&self.noise).map(row).collect();
        PolicyParams::Softmax { mean, inverse_temperature: self.alpha, features: FeatureMap::default() }
    }
}

/// π(·|x) of a policy with this world's features and actions.
fn propensities_of(policy: &PolicyParams, x: &[f64]) -> Vec<f64> {
    let x = Array2::from_shape_fn((1, FEATURES), |(_, j)| x[j] as f32);
    // `with_policy` has checked the only thing that can be wrong.
    policy
        .propensities(x.view())
        .map_or_else(|_| vec![1.0 / ACTIONS as f64; ACTIONS], |pi| pi.row(0).to_vec())
}

/// What the deployed policy believes: the truth with noise.
fn belief(truth: f64, noise: f64) -> f64 {
    0.5 * truth + noise
}

/// Not the engine's draw, whose logarithm and cosine are portable and round differently: the demo's log must keep its
/// digest.
fn standard_normal(rng: &mut ChaCha8Rng) -> f64 {
    let u: f64 = 1.0 - rng.random::<f64>();
    let v: f64 = rng.random();
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

fn weights(rng: &mut ChaCha8Rng, size: f64) -> Weights {
    let per_feature = size / (FEATURES as f64).sqrt();
    (0..FEATURES).map(|_| std::array::from_fn(|_| per_feature * standard_normal(rng))).collect()
}

fn scores(weights: &Weights, x: &[f64]) -> [f64; ACTIONS] {
    std::array::from_fn(|a| weights.iter().zip(x).map(|(row, x)| row[a] * x).sum())
}

/// Not the engine's softmax: scores are shifted only if exp would overflow, which rounds differently, and
/// the demo's log must keep its digest.
fn softmax(scores: impl Iterator<Item = f64>, alpha: f64) -> Vec<f64> {
    let scores: Vec<f64> = scores.map(|s| alpha * s).collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let shift = if max > 500.0 { max } else { 0.0 };
    let powers: Vec<f64> = scores.iter().map(|s| (s - shift).exp()).collect();
    let total: f64 = powers.iter().sum();
    powers.into_iter().map(|p| p / total).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_the_one_that_logged() {
        let mut toy = Toy::new(1.3, 7);
        let policy = toy.policy();
        for _ in 0..50 {
            let visitor = toy.visitor(2);
            let x = ndarray::ArrayView2::from_shape((1, FEATURES), &visitor.x).unwrap();
            let pi = policy.propensities(x).unwrap();
            assert!(pi.iter().zip(&visitor.propensities).all(|(a, b)| (a - b).abs() < 1e-6));
            assert_eq!(visitor.interactions.len(), 2);
        }
    }

    #[test]
    fn a_given_or_retrained_policy_logs() {
        let mut toy = Toy::new(1.0, 3).with_policy(Toy::new(2.0, 4).policy()).unwrap();
        let before = toy.policy();
        for _ in 0..2000 {
            let visitor = toy.visitor(1);
            toy.learn(&visitor);
        }
        let rate = |toy: &mut Toy| (0..4000).map(|_| toy.visitor(1).interactions[0].1).sum::<f64>();
        let old = rate(&mut toy);
        toy.retrain();
        assert_ne!(toy.policy(), before);
        assert!(rate(&mut toy) > old + 100.0, "the learner learns");
        let wrong = PolicyParams::Softmax {
            mean: vec![vec![0.0; 3]; 2],
            inverse_temperature: 1.0,
            features: FeatureMap::default(),
        };
        assert!(Toy::new(1.0, 3).with_policy(wrong).is_err());
    }
}
