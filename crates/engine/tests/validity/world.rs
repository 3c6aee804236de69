//! A small world with known truth: finitely many contexts, the mean cost of every action in each, and the
//! logging policy. R(π) and R(π0) are exact sums, and logs are drawn from the world.

use std::collections::BTreeMap;

use guarantor_engine::log::{Columns, Logging, MemoryLog, Repetitions};
use guarantor_engine::policy::PolicyParams;
use ndarray::{Array2, ArrayView2};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How a cost with mean c̄ is drawn.
#[derive(Clone, Copy)]
pub enum Outcomes {
    /// −1 or 0.
    Bernoulli,
    /// Uniform around the mean, as wide as [-1, 0] allows.
    Continuous,
    /// Always the mean.
    Exact,
}

#[derive(Clone)]
pub struct World {
    /// Contexts × p; a log draws them uniformly.
    pub x: Array2<f32>,
    /// c̄(x, a).
    pub costs: Array2<f64>,
    /// π0(a|x).
    pub logging: Array2<f64>,
    pub outcomes: Outcomes,
    /// A context is logged between once and this many times, uniformly.
    pub most_interactions: u64,
    /// Whether logs have π0(·|x), or only the propensity of the logged action.
    pub full_propensities: bool,
}

/// A drawn log and what a bound must know about it.
pub struct Drawn {
    pub columns: Columns,
    /// The distinct m_i, ascending.
    pub multiplicities: Vec<u64>,
}

impl Drawn {
    pub fn log(&self) -> MemoryLog {
        MemoryLog::new(self.columns.clone()).expect("a drawn log is a log")
    }
}

pub const ACTIONS: usize = 4;
const CONTEXTS: usize = 8;

impl World {
    /// Every context has its own parameters (one-hot features), so a learner can overfit. Mean costs are
    /// spread by `signal` around −½; at 0 there is nothing to learn, and everything that is found is
    /// overfitting.
    fn new(seed: u64, signal: f64, logging: impl Fn(usize, usize) -> f64) -> World {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut spread = || -0.5 + signal * (rng.random::<f64>() - 0.5);
        World {
            x: Array2::from_shape_fn((CONTEXTS, CONTEXTS), |(c, j)| f32::from(u8::from(c == j))),
            costs: Array2::from_shape_simple_fn((CONTEXTS, ACTIONS), &mut spread),
            logging: normalized(Array2::from_shape_fn((CONTEXTS, ACTIONS), |(c, a)| logging(c, a))),
            outcomes: Outcomes::Bernoulli,
            most_interactions: 1,
            full_propensities: true,
        }
    }

    pub fn full_support() -> World {
        World::new(1, 0.8, |c, a| 1.0 + ((c + a) % ACTIONS) as f64)
    }

    /// In every context one action is never logged; in half of them it is the best one.
    pub fn missing_support() -> World {
        let mut world = World::new(2, 0.8, |c, a| f64::from(u8::from(a != c % ACTIONS)));
        for c in (0..CONTEXTS).step_by(2) {
            world.costs[(c, c % ACTIONS)] = -0.95;
        }
        world.outcomes = Outcomes::Continuous;
        world
    }

    /// One action is played nearly always; the propensities of the others are far below τ.
    pub fn peaked() -> World {
        World::new(3, 0.8, |c, a| if a == c % ACTIONS { 0.94 } else { 0.02 })
    }

    /// Contexts logged between once and five times.
    pub fn repeated() -> World {
        World { most_interactions: 5, outcomes: Outcomes::Continuous, ..World::full_support() }
    }

    /// All actions have the mean cost −½, so no learned policy is better than the logging policy.
    pub fn no_signal() -> World {
        World::new(4, 0.0, |_, _| 1.0)
    }

    /// Contexts are good or bad whatever the action, and each is logged many times: there are many rows and
    /// few independent contexts.
    pub fn few_contexts_often() -> World {
        let mut world = World::no_signal();
        world.costs = Array2::from_shape_fn(world.costs.dim(), |(c, _)| -((c % 2) as f64));
        World { most_interactions: 40, ..world }
    }

    pub fn logged_propensities_only(self) -> World {
        World { full_propensities: false, ..self }
    }

    /// R of the policy with these propensities (contexts × K).
    pub fn risk_of(&self, pi: ArrayView2<f64>) -> f64 {
        let total: f64 = pi.iter().zip(&self.costs).map(|(pi, c)| pi * c).sum();
        total / self.x.nrows() as f64
    }

    pub fn risk(&self, policy: &PolicyParams) -> f64 {
        self.risk_of(policy.propensities(self.x.view()).expect("a policy on these contexts").view())
    }

    pub fn baseline_risk(&self) -> f64 {
        self.risk_of(self.logging.view())
    }

    fn cost(&self, mean: f64, rng: &mut ChaCha8Rng) -> f64 {
        let u: f64 = rng.random();
        match self.outcomes {
            Outcomes::Bernoulli => -f64::from(u8::from(u < -mean)),
            Outcomes::Exact => mean,
            Outcomes::Continuous => {
                let reach = (-mean).min(1.0 + mean);
                (mean + reach * (2.0 * u - 1.0)).clamp(-1.0, 0.0)
            }
        }
    }

    /// A log of `contexts` independent contexts.
    pub fn draw(&self, contexts: u64, rng: &mut ChaCha8Rng) -> Drawn {
        let mut columns = Columns {
            n_actions: ACTIONS,
            dim: self.x.ncols(),
            full: self.full_propensities.then(Vec::new),
            contexts: (self.most_interactions > 1).then(Vec::new),
            logging: Logging::Fixed,
            repetitions: Repetitions::Designed,
            ..Columns::default()
        };
        let mut multiplicities = std::collections::BTreeSet::new();
        for id in 0..contexts {
            let (c, m) = (rng.random_range(0..self.x.nrows()), rng.random_range(1..=self.most_interactions));
            multiplicities.insert(m);
            (0..m).for_each(|_| self.interact(id, c, &mut columns, rng));
        }
        Drawn { columns, multiplicities: multiplicities.into_iter().collect() }
    }

    fn interact(&self, id: u64, c: usize, columns: &mut Columns, rng: &mut ChaCha8Rng) {
        let pi0 = self.logging.row(c);
        let action = pick(pi0.iter().copied(), rng.random());
        columns.x.extend(self.x.row(c).iter());
        columns.actions.push(action as u32);
        columns.costs.push(self.cost(self.costs[(c, action)], rng));
        columns.propensities.push(pi0[action]);
        if let Some(full) = &mut columns.full {
            full.extend(pi0.iter());
        }
        if let Some(ids) = &mut columns.contexts {
            ids.push(id);
        }
    }

    /// The log with `policies` as logged candidates, under their names.
    pub fn with_candidates(&self, drawn: &Drawn, policies: &BTreeMap<String, PolicyParams>) -> MemoryLog {
        let mut columns = drawn.columns.clone();
        let x = ArrayView2::from_shape((columns.rows(), columns.dim), &columns.x).expect("rows of p");
        let played = |policy: &PolicyParams| {
            let pi = policy.propensities(x).expect("a policy on these contexts");
            columns.actions.iter().enumerate().map(|(i, &a)| pi[(i, a as usize)]).collect::<Vec<f64>>()
        };
        columns.candidates = policies.iter().map(|(name, p)| (name.clone(), played(p))).collect();
        MemoryLog::new(columns).expect("a drawn log is a log")
    }

    /// A LIG policy that does not depend on any log; a small scale makes it nearly deterministic.
    pub fn random_policy(&self, scale: f64, rng: &mut ChaCha8Rng) -> PolicyParams {
        let mut row = || (0..ACTIONS).map(|_| rng.random::<f64>() - 0.5).collect::<Vec<f64>>();
        let mean = (0..self.x.ncols()).map(|_| row()).collect();
        PolicyParams::Lig { mean, scale, features: Default::default() }
    }
}

fn normalized(mut pi: Array2<f64>) -> Array2<f64> {
    for mut row in pi.rows_mut() {
        let total = row.sum();
        row.mapv_inplace(|p| p / total);
    }
    pi
}

/// The action whose interval of [0, 1) contains `u`; never one of probability 0.
pub fn pick(pi: impl Iterator<Item = f64>, mut u: f64) -> usize {
    let mut last = 0;
    for (action, p) in pi.enumerate().filter(|(_, p)| *p > 0.0) {
        last = action;
        u -= p;
        if u < 0.0 {
            break;
        }
    }
    last
}
