//! Small random logs, policies and bounds for the properties.

use std::collections::{BTreeMap, BTreeSet};

use guarantor_engine::bound::{Betting, Bound, Catoni, Cbb, Ix, LondonSandler, Sample};
use guarantor_engine::control::unattended;
use guarantor_engine::learn::bound_learner::Gaussian;
use guarantor_engine::log::{Columns, LogSource, Logging, MemoryLog, Repetitions};
use guarantor_engine::measure::{Measured, Statistics, Subject, measure};
use guarantor_engine::policy::PolicyParams;
use ndarray::Array2;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A fixed set of this many cases.
pub fn cases(cases: u32) -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(2023);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

/// The parameters of a random log.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    pub seed: u64,
    pub contexts: usize,
    /// The maximum number of interactions per context.
    pub most: u64,
    pub k: usize,
    pub p: usize,
}

/// Logs of up to 40 contexts, each logged up to `most` times.
pub fn recipes(most: u64) -> impl Strategy<Value = Recipe> {
    (any::<u64>(), 1usize..40, 1..=most, 2usize..6, 1usize..4)
        .prop_map(|(seed, contexts, most, k, p)| Recipe { seed, contexts, most, k, p })
}

fn centered(rng: &mut ChaCha8Rng) -> f64 {
    2.0 * rng.random::<f64>() - 1.0
}

impl Recipe {
    pub fn columns(&self) -> Columns {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut columns = Columns {
            n_actions: self.k,
            dim: self.p,
            full: Some(Vec::new()),
            contexts: Some(Vec::new()),
            logging: Logging::Fixed,
            repetitions: Repetitions::Designed,
            ..Columns::default()
        };
        for id in 0..self.contexts {
            let x: Vec<f32> = (0..self.p).map(|_| centered(&mut rng) as f32).collect();
            let weights: Vec<f64> = (0..self.k).map(|_| (3.0 * centered(&mut rng)).exp()).collect();
            let total: f64 = weights.iter().sum();
            let pi0: Vec<f64> = weights.iter().map(|w| w / total).collect();
            for _ in 0..rng.random_range(1..=self.most) {
                let action = rng.random_range(0..self.k);
                columns.x.extend(&x);
                columns.actions.push(action as u32);
                columns.costs.push(-rng.random::<f64>());
                columns.propensities.push(pi0[action]);
                columns.full.as_mut().unwrap().extend(&pi0);
                columns.contexts.as_mut().unwrap().push(id as u64);
            }
        }
        columns
    }

    /// Q and P.
    pub fn gaussians(&self) -> (Gaussian, Gaussian) {
        let mut rng = ChaCha8Rng::seed_from_u64(!self.seed);
        let mut one = || {
            let mean = Array2::from_shape_simple_fn((self.p, self.k), || centered(&mut rng));
            Gaussian { mean, scale: 0.3 + rng.random::<f64>() }
        };
        (one(), one())
    }
}

/// The distinct m_i, ascending.
pub fn multiplicities(columns: &Columns) -> Vec<u64> {
    let Some(contexts) = &columns.contexts else { return vec![1] };
    let mut counts = BTreeMap::new();
    contexts.iter().for_each(|c| *counts.entry(c).or_insert(0u64) += 1);
    counts.into_values().collect::<BTreeSet<_>>().into_iter().collect()
}

pub fn sample(log: &MemoryLog) -> Sample {
    Sample { rows: log.shape().rows, contexts: log.shape().contexts }
}

/// Every bound. LS_n and C_n are not valid if contexts repeat, but they can still be computed.
pub fn bounds(sample: Sample, multiplicities: &[u64], tau: f64, delta: f64) -> Vec<Box<dyn Bound>> {
    let cbb = |xi: f64| Box::new(Cbb::new(sample, multiplicities.to_vec(), tau, xi, delta));
    let betting = |kappa: u8, xis: &[f64]| Box::new(Betting::new(sample, kappa, xis, tau, delta));
    vec![
        Box::new(LondonSandler { sample, tau, delta }),
        Box::new(Catoni { sample, tau, delta }),
        cbb(0.0),
        cbb(-0.5),
        Box::new(Ix { sample, delta }),
        Box::new(Betting::log_smoothing(sample, delta)),
        betting(0, &[0.0, -0.2, -0.7]),
        betting(1, &[0.0]),
        betting(1, &[0.0, -0.2, -0.7]),
    ]
}

pub fn measured(log: &MemoryLog, policy: &PolicyParams, of: &dyn Statistics) -> Measured {
    measure(log, Subject::Policy(policy), None, of, &unattended()).expect("finite statistics")
}

/// The value of a bound for a policy on a log.
pub fn value(log: &MemoryLog, policy: &PolicyParams, bound: &dyn Bound, kl: f64) -> f64 {
    bound.value_and_gradient(&measured(log, policy, &bound).statistics, kl).value
}
