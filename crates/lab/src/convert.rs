//! Supervised examples to a bandit log (paper, Experiments): 5% of the training set, in a seeded order, train
//! μ0. The softmax policy of αμ0 then logs the other 95%, with m interactions per context and the cost −1[a ∈
//! y].

use ndarray::{ArcArray2, Array2, ArrayView2, s};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::dataset::{Examples, Labels, Supervised};
use super::logging;
use guarantor_engine::error::Result;
use guarantor_engine::log::{LoggedContexts, MemoryLog};
use guarantor_engine::numerics::random::shuffled;
use guarantor_engine::policy::{FeatureMap, PolicyParams, pick};

/// A conversion in one step. To compare inverse temperatures, train one [`Logger`] and use it for all.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversion {
    /// α, the inverse temperature of the logging policy.
    pub alpha: f64,
    /// m, the number of interactions per context.
    pub interactions: usize,
    /// The seed of the order, of training and of the draws.
    pub seed: u64,
    /// Log only this many contexts, the first ones.
    pub contexts: Option<usize>,
}

impl Conversion {
    /// Trains the logging policy and draws the log.
    pub fn run(&self, data: &Supervised) -> Result<Bandit> {
        Logger::train(data, self.seed).log(self.alpha, self.interactions, self.contexts)
    }
}

/// A log and the policy that drew it.
pub struct Bandit {
    /// The log.
    pub log: MemoryLog,
    /// Softmax of μ0 at the inverse temperature α; as a prior, N(αμ0, I).
    pub logging_policy: PolicyParams,
}

/// What all logs of one seed share: which contexts are logged, in which order, and μ0.
pub struct Logger {
    x: ArcArray2<f32>,
    labels: Labels,
    n_actions: usize,
    /// p rows of K numbers.
    mu0: Vec<Vec<f64>>,
    seed: u64,
}

/// The number of examples that train μ0, as in the paper's table: 5%, rounded down, but at least one.
fn set_aside(examples: usize) -> usize {
    (examples / 20).max(1).min(examples)
}

impl Logger {
    /// Splits the training set and trains μ0 on the smaller part.
    pub fn train(data: &Supervised, seed: u64) -> Self {
        let order = shuffled(data.train.len(), seed, 0);
        let (aside, logged) = order.split_at(set_aside(order.len()));
        let mu0 = logging::train(&data.train.select(aside), data.n_actions, seed);
        Self::given(data, logged, mu0.view(), seed)
    }

    /// Logs these examples of the training set, in this order, with a given μ0 (p × K).
    pub fn given(data: &Supervised, logged: &[usize], mu0: ArrayView2<f64>, seed: u64) -> Self {
        let Examples { x, labels } = data.train.select(logged);
        let mu0 = mu0.rows().into_iter().map(|row| row.to_vec()).collect();
        Logger { x: x.into_shared(), labels, n_actions: data.n_actions, mu0, seed }
    }

    /// The number of contexts that a training set of this size gives.
    pub fn contexts_of(examples: usize) -> usize {
        examples - set_aside(examples)
    }

    /// The number of contexts.
    pub fn contexts(&self) -> usize {
        self.labels.len()
    }

    /// The examples behind these contexts.
    pub fn examples(&self, contexts: &[usize]) -> Examples {
        let labels = contexts.iter().map(|&i| self.labels.of(i)).collect();
        Examples { x: self.x.select(ndarray::Axis(0), contexts), labels }
    }

    /// π0 at the inverse temperature α.
    pub fn policy(&self, alpha: f64) -> PolicyParams {
        let (mean, features) = (self.mu0.clone(), FeatureMap::default());
        PolicyParams::Softmax { mean, inverse_temperature: alpha, features }
    }

    /// Draws a log with `interactions` per context on the first `contexts`, or on all. Draw j of context i
    /// uses the same random number at every α and m. So a log with fewer interactions or contexts is a part
    /// of one with more, and curves over α do not jitter.
    ///
    /// # Errors
    /// If `interactions` is 0 or α is not a finite number.
    pub fn log(&self, alpha: f64, interactions: usize, contexts: Option<usize>) -> Result<Bandit> {
        let n = contexts.unwrap_or(usize::MAX).min(self.contexts());
        let pi = self.propensities(alpha, n)?;
        let mut draws: Vec<ChaCha8Rng> = (0..interactions as u64).map(|j| stream(self.seed, j)).collect();
        let each = (0..n).flat_map(|i| (0..interactions).map(move |j| (i, j)));
        let actions = each.map(|(i, j)| pick(pi.row(i).iter().copied(), draws[j].random()) as u32);
        let actions = actions.collect();
        self.with_actions(alpha, interactions, actions, pi)
    }

    /// The log in which these actions were taken, m per context.
    ///
    /// # Errors
    /// If an action is not below K, or the number of actions is not m per context.
    pub fn replay(&self, alpha: f64, interactions: usize, actions: Vec<u32>) -> Result<Bandit> {
        let n = (actions.len() / interactions.max(1)).min(self.contexts());
        let pi = self.propensities(alpha, n)?;
        self.with_actions(alpha, interactions, actions, pi)
    }

    fn with_actions(&self, alpha: f64, m: usize, actions: Vec<u32>, full: Array2<f64>) -> Result<Bandit> {
        let x = self.x.clone().slice_move(s![..full.nrows(), ..]);
        let cost = |(row, &a): (usize, &u32)| if self.labels.contains(row / m, a) { -1.0 } else { 0.0 };
        let costs = actions.iter().enumerate().map(cost).collect();
        let log = MemoryLog::of_contexts(LoggedContexts { x, full, interactions: m, actions, costs })?;
        Ok(Bandit { log, logging_policy: self.policy(alpha) })
    }

    /// π0(·|x) of the first `n` contexts.
    fn propensities(&self, alpha: f64, n: usize) -> Result<Array2<f64>> {
        let (policy, k) = (self.policy(alpha), self.n_actions);
        let mut full = vec![0.0; n * k];
        full.par_chunks_mut(BLOCK * k).enumerate().try_for_each(|(block, out)| {
            let from = block * BLOCK;
            let pi = policy.propensities(self.x.slice(s![from..from + out.len() / k, ..]))?;
            out.copy_from_slice(pi.as_slice().expect("row-major"));
            Ok::<_, guarantor_engine::EngineError>(())
        })?;
        Ok(Array2::from_shape_vec((n, k), full).expect("n × K"))
    }
}

/// Contexts per block of parallel work.
const BLOCK: usize = 1024;

/// The generator for the `j`-th interaction of every context.
fn stream(seed: u64, j: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // Stream 0 gave the order of the examples.
    rng.set_stream(1 + j);
    rng
}

/// R(π) = −E[Σ_{a∈y} π(a|x)] over the examples, at the precision of certificates.
pub fn true_risk(policy: &PolicyParams, examples: &Examples) -> Result<f64> {
    Ok(-rewards(policy, examples)?.iter().sum::<f64>() / examples.len() as f64)
}

/// Σ_{a∈y} π(a|x) of each example.
pub fn rewards(policy: &PolicyParams, examples: &Examples) -> Result<Vec<f64>> {
    let (n, link) = (examples.len(), policy.link());
    let block = |block: usize| -> Result<Vec<f64>> {
        let (from, to) = (block * BLOCK, ((block + 1) * BLOCK).min(n));
        let pi = policy.propensities_by(&*link, examples.x.slice(s![from..to, ..]))?;
        let right = |i: usize| examples.labels.of(from + i).iter().map(|&a| pi[(i, a as usize)]).sum::<f64>();
        Ok((0..to - from).map(right).collect())
    };
    let blocks: Vec<Vec<f64>> = (0..n.div_ceil(BLOCK)).into_par_iter().map(block).collect::<Result<_>>()?;
    Ok(blocks.concat())
}
