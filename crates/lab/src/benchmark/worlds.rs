//! Worlds with known truth for given policies: types of contexts, the mean reward of each action, the logging policy
//! and a candidate, all of them tables of numbers.

use guarantor_engine::error::Result;
use guarantor_engine::log::{Columns, Logging, MemoryLog};
use guarantor_engine::policy::pick;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The number of types of contexts, all equally frequent.
const TYPES: usize = 16;
const K: usize = 5;

/// How rewards are drawn around their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rewards {
    /// 0 or 1.
    Binary,
    /// Uniform around the mean, as wide as [0, 1] allows.
    Continuous,
}

/// A world.
#[derive(Debug, Clone)]
pub struct GivenWorld {
    /// Its name.
    pub name: &'static str,
    /// What it is like.
    pub about: &'static str,
    rewards: Rewards,
    /// Mean rewards, π0 and π: types × K.
    means: Vec<[f64; K]>,
    logging: Vec<[f64; K]>,
    candidate: Vec<[f64; K]>,
}

/// How a world is made.
struct Recipe {
    name: &'static str,
    about: &'static str,
    rewards: Rewards,
    /// Mean rewards are between these.
    range: (f64, f64),
    /// How strongly the logging policy prefers its favorites, and its smallest probability.
    peakedness: f64,
    floor: f64,
    /// The true improvement of the candidate.
    improvement: f64,
}

const RECIPES: [Recipe; 5] = [
    Recipe {
        name: "conversions",
        about: "rewards of 0.05 to 0.6, a logging policy that explores",
        rewards: Rewards::Binary,
        range: (0.05, 0.6),
        peakedness: 1.0,
        floor: 0.05,
        improvement: 0.136,
    },
    Recipe {
        name: "clicks",
        about: "rewards of 0.01 to 0.14, a logging policy that explores",
        rewards: Rewards::Binary,
        range: (0.01, 0.14),
        peakedness: 1.0,
        floor: 0.05,
        improvement: 0.033,
    },
    Recipe {
        name: "heavy weights",
        about: "a peaked logging policy, which hardly plays some actions",
        rewards: Rewards::Binary,
        range: (0.1, 0.7),
        peakedness: 4.0,
        floor: 0.002,
        improvement: 0.1,
    },
    Recipe {
        name: "continuous outcome",
        about: "rewards spread over [0, 1] around their means",
        rewards: Rewards::Continuous,
        range: (0.2, 0.7),
        peakedness: 1.0,
        floor: 0.05,
        improvement: 0.1,
    },
    Recipe {
        name: "nothing to gain",
        about: "all actions are equally good",
        rewards: Rewards::Binary,
        range: (0.3, 0.3),
        peakedness: 1.0,
        floor: 0.05,
        improvement: 0.0,
    },
];

/// All worlds. Their tables are fixed by the seed that all reported numbers start from.
pub fn worlds() -> Vec<GivenWorld> {
    RECIPES
        .iter()
        .enumerate()
        .map(|(i, recipe)| GivenWorld::new(recipe, super::FIRST_SEED + i as u64))
        .collect()
}

impl GivenWorld {
    fn new(recipe: &Recipe, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (low, high) = recipe.range;
        let row = |rng: &mut ChaCha8Rng| -> [f64; K] { std::array::from_fn(|_| rng.random::<f64>()) };
        let mut world = GivenWorld {
            name: recipe.name,
            about: recipe.about,
            rewards: recipe.rewards,
            means: Vec::new(),
            logging: Vec::new(),
            candidate: Vec::new(),
        };
        for _ in 0..TYPES {
            let (goodness, taste) = (row(&mut rng), row(&mut rng));
            world.means.push(goodness.map(|u| low + (high - low) * u));
            // The logging policy knows a little about the rewards.
            let scores: [f64; K] =
                std::array::from_fn(|a| recipe.peakedness * (0.3 * goodness[a] + taste[a]) * 2.0);
            let total: f64 = scores.iter().map(|s| s.exp()).sum();
            let left = 1.0 - recipe.floor * K as f64;
            world.logging.push(scores.map(|s| recipe.floor + left * s.exp() / total));
        }
        let best: Vec<[f64; K]> = world.means.iter().map(greedy).collect();
        let gain = value(&world.means, &best) - value(&world.means, &world.logging);
        let share = if gain > 0.0 { (recipe.improvement / gain).min(1.0) } else { 1.0 };
        let mixed = |(logging, best): (&[f64; K], &[f64; K])| {
            std::array::from_fn(|a| (1.0 - share) * logging[a] + share * best[a])
        };
        world.candidate = world.logging.iter().zip(&best).map(mixed).collect();
        world
    }

    /// R(π0) − R(π).
    pub fn improvement(&self) -> f64 {
        value(&self.means, &self.candidate) - value(&self.means, &self.logging)
    }

    /// R(π).
    pub fn risk(&self) -> f64 {
        -value(&self.means, &self.candidate)
    }

    /// The largest weight π/π0.
    pub fn largest_weight(&self) -> f64 {
        let ratio = |(p, q): (&[f64; K], &[f64; K])| (0..K).map(|a| p[a] / q[a]).fold(0.0, f64::max);
        self.candidate.iter().zip(&self.logging).map(ratio).fold(0.0, f64::max)
    }

    /// The standard deviation of (1 − w)·c, whose mean is the improvement.
    pub fn deviation(&self) -> f64 {
        let mut square = 0.0;
        for s in 0..TYPES {
            for a in 0..K {
                let (p0, m) = (self.logging[s][a], self.means[s][a]);
                let gain = self.candidate[s][a] / p0 - 1.0;
                square += p0 * gain * gain * self.second_moment(m) / TYPES as f64;
            }
        }
        (square - self.improvement().powi(2)).max(0.0).sqrt()
    }

    /// E r² of a reward with this mean.
    fn second_moment(&self, mean: f64) -> f64 {
        match self.rewards {
            Rewards::Binary => mean,
            Rewards::Continuous => mean * mean + half_width(mean).powi(2) / 3.0,
        }
    }

    /// A log of n rows with the candidate `new`. With `full`, rows have π0(·|x), π(·|x) and their type as features.
    ///
    /// # Errors
    /// Never in practice: the rows are valid.
    pub fn log(&self, n: usize, seed: u64, full: bool) -> Result<MemoryLog> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut columns = Columns {
            n_actions: K,
            dim: if full { TYPES } else { 0 },
            full: full.then(Vec::new),
            candidate_full: vec![full.then(Vec::new)],
            logging: Logging::Fixed,
            ..Columns::default()
        };
        let mut played = Vec::with_capacity(n);
        for _ in 0..n {
            let s = ((rng.random::<f64>() * TYPES as f64) as usize).min(TYPES - 1);
            let action = pick(self.logging[s].iter().copied(), rng.random());
            let (mean, u) = (self.means[s][action], rng.random::<f64>());
            let reward = match self.rewards {
                Rewards::Binary => f64::from(u < mean),
                Rewards::Continuous => (mean + (2.0 * u - 1.0) * half_width(mean)).clamp(0.0, 1.0),
            };
            columns.actions.push(action as u32);
            columns.costs.push(-reward);
            columns.propensities.push(self.logging[s][action]);
            played.push(self.candidate[s][action]);
            if full {
                columns.x.extend((0..TYPES).map(|t| f32::from(u8::from(t == s))));
                columns.full.iter_mut().for_each(|full| full.extend(self.logging[s]));
                columns.candidate_full.iter_mut().flatten().for_each(|full| full.extend(self.candidate[s]));
            }
        }
        columns.candidates = vec![("new".into(), played)];
        MemoryLog::new(columns)
    }
}

/// The widest that a symmetric reward around this mean can be.
fn half_width(mean: f64) -> f64 {
    mean.min(1.0 - mean)
}

fn greedy(means: &[f64; K]) -> [f64; K] {
    let best = (0..K).max_by(|&a, &b| means[a].total_cmp(&means[b])).unwrap_or(0);
    std::array::from_fn(|a| if a == best { 1.0 } else { 0.0 })
}

fn value(means: &[[f64; K]], policy: &[[f64; K]]) -> f64 {
    let of = |(m, p): (&[f64; K], &[f64; K])| (0..K).map(|a| m[a] * p[a]).sum::<f64>();
    means.iter().zip(policy).map(of).sum::<f64>() / means.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formulas for mean and deviation agree with a long log.
    #[test]
    fn truths_are_those_of_the_logs() {
        for world in worlds() {
            let log = world.log(60_000, 1, false).unwrap();
            let subject = guarantor_engine::measure::Subject::Logged(0);
            let control = guarantor_engine::control::unattended();
            let found = crate::normal::estimates(&log, subject, &control).unwrap();
            let gap = (found.improvement.mean - world.improvement()).abs();
            assert!(gap < 4.5 * found.improvement.standard_error, "{}: {gap}", world.name);
            let gap = (found.risk.mean - world.risk()).abs();
            assert!(gap < 4.5 * found.risk.standard_error, "{}: {gap}", world.name);
            let deviation = found.improvement.standard_error * 60_000f64.sqrt();
            assert!((deviation / world.deviation() - 1.0).abs() < 0.1, "{}: {deviation}", world.name);
        }
    }
}
