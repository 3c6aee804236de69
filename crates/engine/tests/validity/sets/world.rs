//! A world with a finite list of requests, each with its own actions.

use guarantor_engine::log::{ActionSets, Columns, FeatureSpace, Sets};
use guarantor_engine::policy::pick;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::arrivals::stream::Truth;

pub const CANDIDATE: &str = "steady";
const REQUESTS: usize = 40;
const SEGMENTS: u32 = 3;
const TOPICS: u32 = 4;
const EPSILON: f64 = 0.15;

pub struct World {
    /// The actions of each request.
    pub sets: Sets,
    /// The probability of a reward for each action of each request.
    clicks: Vec<Vec<f64>>,
    /// What the candidate plays.
    pub candidate: Vec<Vec<f64>>,
}

impl World {
    pub fn new(seed: u64, rate: f64) -> World {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let mut table = || 0.9 * (rng.random::<f64>() - 0.5);
        let rates: Vec<f64> = (0..SEGMENTS * TOPICS).map(|_| rate * (1.0 + table())).collect();
        Self::with_rates(seed, |segment, topic| rates[(segment * TOPICS + topic) as usize])
    }

    pub fn with_nothing_to_gain(seed: u64, rate: f64) -> World {
        Self::with_rates(seed, |_, _| rate)
    }

    fn with_rates(seed: u64, rate: impl Fn(u32, u32) -> f64) -> World {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(1);
        let mut world = World { sets: Sets::default(), clicks: Vec::new(), candidate: Vec::new() };
        for request in 0..REQUESTS {
            let segment = rng.random_range(0..SEGMENTS);
            let size = rng.random_range(2..=6);
            let topics: Vec<u32> = (0..size).map(|_| rng.random_range(0..TOPICS)).collect();
            world.sets.x.push([(segment, 1.0), (SEGMENTS + request as u32, 1.0)]);
            for (a, &topic) in topics.iter().enumerate() {
                world.sets.actions.push([(topic, 1.0), (TOPICS + a as u32, 0.5)]);
            }
            world.sets.end_row();
            world.clicks.push(topics.iter().map(|&topic| rate(segment, topic)).collect());
            let scores: Vec<f64> = topics.iter().map(|_| rng.random::<f64>().powi(3) + 0.01).collect();
            let total: f64 = scores.iter().sum();
            world.candidate.push(scores.iter().map(|s| s / total).collect());
        }
        world
    }

    /// The mean reward of what is played on each request.
    fn reward(&self, play: impl Fn(usize) -> Vec<f64>) -> f64 {
        let of = |i: usize| self.clicks[i].iter().zip(play(i)).map(|(c, p)| c * p).sum::<f64>();
        (0..REQUESTS).map(of).sum::<f64>() / REQUESTS as f64
    }

    pub fn draw(&self, mut logger: Logger, rows: usize, full: bool, rng: &mut ChaCha8Rng) -> Drawn {
        let mut columns = Columns {
            sets: Some(Sets::default()),
            set_features: ActionSets {
                x: FeatureSpace::Named { dim: SEGMENTS + REQUESTS as u32 },
                actions: FeatureSpace::Named { dim: TOPICS + 6 },
            },
            n_actions: self.sets.largest(),
            full: full.then(Vec::new),
            candidates: vec![(CANDIDATE.into(), Vec::new())],
            candidate_full: vec![full.then(Vec::new)],
            ..Columns::default()
        };
        let (mut baseline, mut current) = (Vec::with_capacity(rows), None);
        for row in 0..rows {
            if logger.retrain.contains(&row) {
                logger.learn(&self.sets);
                current = None;
            }
            let reward = *current.get_or_insert_with(|| self.reward(|i| logger.play(&self.sets, i)));
            baseline.push(reward);
            let request = rng.random_range(0..REQUESTS);
            let pi = logger.play(&self.sets, request);
            let action = pick(pi.iter().copied(), rng.random());
            let clicked = rng.random::<f64>() < self.clicks[request][action];
            logger.see(request, action, clicked);
            columns.actions.push(action as u32);
            columns.costs.push(if clicked { -1.0 } else { 0.0 });
            columns.propensities.push(pi[action]);
            if let Some(sets) = &mut columns.sets {
                sets.extend_from(&self.sets, request..request + 1);
            }
            columns.candidates[0].1.push(self.candidate[request][action]);
            if let (Some(to), Some(candidate)) = (&mut columns.full, &mut columns.candidate_full[0]) {
                to.extend(&pi);
                candidate.extend(&self.candidate[request]);
            }
        }
        Drawn { columns, baseline }
    }
}

pub struct Drawn {
    pub columns: Columns,
    /// The mean reward of the logging policy that was in place at each row.
    pub baseline: Vec<f64>,
}

impl Drawn {
    /// The truth about a policy, compared with the policies that were in place at some rows.
    pub fn truth(
        &self,
        world: &World,
        play: impl Fn(usize) -> Vec<f64>,
        rows: std::ops::Range<usize>,
    ) -> Truth {
        let reward = world.reward(play);
        let logging = self.baseline[rows.clone()].iter().sum::<f64>() / rows.len() as f64;
        Truth { risk: -reward, improvement: reward - logging }
    }
}

impl Drawn {
    /// Replaces the candidate by one that plays what paid best on these very rows, and returns what it plays.
    pub fn carry_what_paid(&mut self, world: &World) -> Vec<Vec<f64>> {
        let sets = self.columns.sets.as_ref().expect("the sets");
        let request = |row: usize| (sets.view().x(row).indices[1] - SEGMENTS) as usize;
        let mut paid: Vec<Vec<(f64, f64)>> = world.clicks.iter().map(|c| vec![(0.5, 1.0); c.len()]).collect();
        for (row, (&action, &cost)) in self.columns.actions.iter().zip(&self.columns.costs).enumerate() {
            let (reward, count) = &mut paid[request(row)][action as usize];
            (*reward, *count) = (*reward - cost, *count + 1.0);
        }
        let greedy = |paid: &Vec<(f64, f64)>| {
            let rate = |a: usize| paid[a].0 / paid[a].1;
            let best = (0..paid.len()).max_by(|&a, &b| rate(a).total_cmp(&rate(b))).unwrap_or(0);
            (0..paid.len()).map(|a| f64::from(u8::from(a == best))).collect::<Vec<f64>>()
        };
        let candidate: Vec<Vec<f64>> = paid.iter().map(greedy).collect();
        let rows = 0..self.columns.actions.len();
        let played = |row: usize| candidate[request(row)][self.columns.actions[row] as usize];
        let logged: Vec<f64> = rows.clone().map(played).collect();
        let full: Vec<f64> = rows.flat_map(|row| candidate[request(row)].clone()).collect();
        self.columns.candidates[0].1 = logged;
        self.columns.candidate_full[0] = Some(full);
        candidate
    }
}

/// A logging policy: greedy by what it learned, with exploration.
pub struct Logger {
    /// The rows before which it is retrained.
    retrain: Vec<usize>,
    /// Whether it learns every action of every request by itself, or topics.
    by_request: bool,
    /// What it has seen: request, action, reward.
    seen: Vec<(usize, usize, bool)>,
    /// The value of each action of each request.
    values: Vec<Vec<f64>>,
}

impl Logger {
    pub fn fixed() -> Logger {
        Logger { retrain: Vec::new(), by_request: false, seen: Vec::new(), values: Vec::new() }
    }

    /// Retrained this often, on everything that it has seen.
    pub fn retrained(rows: usize, times: usize) -> Logger {
        Logger { retrain: (1..=times).map(|i| rows * i / (times + 1)).collect(), ..Logger::fixed() }
    }

    pub fn retrained_by_request(at: usize) -> Logger {
        Logger { retrain: vec![at], by_request: true, ..Logger::fixed() }
    }

    fn see(&mut self, request: usize, action: usize, clicked: bool) {
        self.seen.push((request, action, clicked));
    }

    fn learn(&mut self, sets: &Sets) {
        let topic = |i: usize, a: usize| sets.view().action(i, a).indices[0];
        let segment = |i: usize| sets.view().x(i).indices[0];
        let same = |(i, a): (usize, usize), (j, b): (usize, usize)| match self.by_request {
            true => (i, a) == (j, b),
            false => (segment(i), topic(i, a)) == (segment(j), topic(j, b)),
        };
        let value = |i: usize, a: usize| {
            let alike = || self.seen.iter().filter(|(j, b, _)| same((i, a), (*j, *b)));
            (alike().filter(|(_, _, clicked)| *clicked).count() as f64 + 0.1) / (alike().count() as f64 + 0.5)
        };
        self.values = (0..sets.rows()).map(|i| (0..sets.size(i)).map(|a| value(i, a)).collect()).collect();
    }

    fn play(&self, sets: &Sets, i: usize) -> Vec<f64> {
        let k = sets.size(i);
        let mut pi = vec![EPSILON / k as f64; k];
        match self.values.get(i) {
            Some(values) => {
                let best = (0..k).max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0);
                pi[best] += 1.0 - EPSILON;
            }
            // Before it has learned, it prefers the first actions.
            None => {
                let weights: Vec<f64> = (0..k).map(|a| 1.0 / (a + 1) as f64).collect();
                let total: f64 = weights.iter().sum();
                pi.iter_mut().zip(&weights).for_each(|(p, w)| *p += (1.0 - EPSILON) * w / total);
            }
        }
        pi
    }
}
