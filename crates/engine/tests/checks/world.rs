//! Simulated logs whose rows really are drawn from π0.

use guarantor_engine::checks::{
    CandidatePlan, CandidateWeight, CheckPlan, CheckResult, CheckRow, CheckScope, ChecksBuilder, Repetition,
    Rounding,
};
use guarantor_engine::log::Precision;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How π0(·|x) is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    Uniform,
    /// One action with most of the probability, which changes with x.
    Peaked,
    Softmax,
    /// ε-greedy on the outcomes so far: π0 of a row depends on all earlier rows.
    Greedy,
}

/// How numbers are written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Written {
    Exactly,
    Decimals(i32),
    F32,
}

impl Written {
    pub fn write(self, p: f64) -> f64 {
        match self {
            Written::Exactly => p,
            Written::Decimals(d) => (p * 10f64.powi(d)).round() / 10f64.powi(d),
            Written::F32 => p as f32 as f64,
        }
    }

    pub fn rounding(self) -> Rounding {
        match self {
            Written::Exactly => Rounding::default(),
            Written::Decimals(d) => {
                let decimals = Some(d as u8);
                Precision { decimals, significant: decimals, single: false }.rounding()
            }
            Written::F32 => Precision { decimals: None, significant: None, single: true }.rounding(),
        }
    }
}

/// What is logged about candidates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Candidates {
    None,
    Played,
    All,
}

#[derive(Debug, Clone)]
pub struct World {
    pub k: usize,
    pub shape: Shape,
    pub full: bool,
    pub declared: bool,
    pub written: Written,
    pub candidates: Candidates,
    /// Contexts are logged up to ten times, depending on x only.
    pub designed: bool,
    /// The mean cost, the same for all actions.
    pub cost: f64,
}

#[derive(Debug, Clone)]
pub struct Row {
    pub action: u32,
    pub cost: f64,
    pub propensity: f64,
    pub full: Option<Vec<f64>>,
    pub candidates: Vec<(f64, Option<Vec<f64>>)>,
    pub repetition: Option<Repetition>,
    pub first: bool,
}

impl Row {
    pub fn show(&self, visit: &mut dyn FnMut(&CheckRow)) {
        let candidates: Vec<CandidateWeight> = self
            .candidates
            .iter()
            .map(|(played, all)| CandidateWeight { played: *played, all: all.as_deref() })
            .collect();
        visit(&CheckRow {
            action: self.action,
            cost: self.cost,
            propensity: self.propensity,
            full: self.full.as_deref(),
            n_actions: None,
            candidates: &candidates,
            repetition: self.repetition,
            counts_for_drift: self.first,
        });
    }
}

pub fn draw<R: RngExt>(p: &[f64], rng: &mut R) -> usize {
    let mut left: f64 = rng.random::<f64>() * p.iter().sum::<f64>();
    for (a, p) in p.iter().enumerate() {
        left -= p;
        if left < 0.0 {
            return a;
        }
    }
    p.iter().rposition(|p| *p > 0.0).unwrap()
}

pub fn softmax<R: RngExt>(k: usize, scale: f64, floor: f64, rng: &mut R) -> Vec<f64> {
    let e: Vec<f64> = (0..k).map(|_| (scale * (2.0 * rng.random::<f64>() - 1.0)).exp()).collect();
    let total: f64 = e.iter().sum();
    e.into_iter().map(|e| floor / k as f64 + (1.0 - floor) * e / total).collect()
}

fn normalized(mut p: Vec<f64>) -> Vec<f64> {
    let total: f64 = p.iter().sum();
    p.iter_mut().for_each(|p| *p /= total);
    p
}

impl World {
    /// A random world.
    pub fn any(seed: u64) -> World {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut pick = |n: u32| rng.random_range(0..n);
        let shape = [Shape::Uniform, Shape::Peaked, Shape::Softmax, Shape::Greedy][pick(4) as usize];
        let written = [Written::Exactly, Written::Decimals(3), Written::Decimals(4), Written::F32];
        World {
            k: [2, 3, 5, 10, 20, 50][pick(6) as usize],
            shape,
            full: pick(2) == 0,
            declared: pick(4) > 0,
            written: written[pick(4) as usize],
            candidates: [Candidates::None, Candidates::Played, Candidates::All][pick(3) as usize],
            designed: pick(3) == 0 && shape != Shape::Greedy,
            cost: -0.1 * (1 + pick(9)) as f64,
        }
    }

    /// The plan whose assumptions the world satisfies.
    pub fn plan(&self) -> CheckPlan {
        let candidate =
            |label: &str| CandidatePlan { label: label.into(), rounding: self.written.rounding() };
        CheckPlan {
            n_actions: if self.declared { self.k } else { 0 },
            actions_declared: self.declared,
            full: self.full,
            rounding: self.written.rounding(),
            candidates: match self.candidates {
                Candidates::None => Vec::new(),
                _ => vec![candidate("mild"), candidate("sharp")],
            },
            known_baseline: Some(self.cost),
            fixed: self.shape != Shape::Greedy,
            designed: self.designed,
            ..CheckPlan::default()
        }
    }

    fn policy(&self, seen: &[(f64, f64)], rng: &mut ChaCha8Rng) -> Vec<f64> {
        let k = self.k as f64;
        let peak = |best: usize, rest: f64| {
            let mut p = vec![rest / k; self.k];
            p[best] += 1.0 - rest;
            p
        };
        match self.shape {
            Shape::Uniform => vec![1.0 / k; self.k],
            Shape::Peaked => peak(rng.random_range(0..self.k), 0.15),
            Shape::Softmax => softmax(self.k, 2.0, 0.1, rng),
            Shape::Greedy => {
                let mean = |a: &usize| seen[*a].0 / (seen[*a].1 + 1.0);
                peak((0..self.k).min_by(|a, b| mean(a).total_cmp(&mean(b))).unwrap(), 0.2)
            }
        }
    }

    /// A log of at least `n` rows.
    pub fn log(&self, n: usize, rng: &mut ChaCha8Rng) -> Vec<Row> {
        let mut seen = vec![(0.0, 0.0); self.k];
        let mut rows = Vec::with_capacity(n + 10);
        while rows.len() < n {
            let truth = self.policy(&seen, rng);
            let m = if self.designed { 1 + (10.0 * truth[0]) as u64 } else { 1 };
            let written: Vec<f64> = truth.iter().map(|p| self.written.write(*p)).collect();
            let full = self.full.then(|| normalized(written.clone()));
            let policies: Vec<Vec<f64>> = match self.candidates {
                Candidates::None => Vec::new(),
                _ => [0.5, 3.0].map(|scale| softmax(self.k, scale, 0.0, rng)).to_vec(),
            };
            for i in 0..m {
                let action = draw(&truth, rng);
                let cost = if rng.random::<f64>() < -self.cost { -1.0 } else { 0.0 };
                seen[action].0 += cost;
                seen[action].1 += 1.0;
                let candidate = |pi: &Vec<f64>| match self.candidates {
                    Candidates::All => {
                        let all = normalized(pi.iter().map(|p| self.written.write(*p)).collect());
                        (all[action], Some(all))
                    }
                    _ => (self.written.write(pi[action]), None),
                };
                rows.push(Row {
                    action: action as u32,
                    cost,
                    propensity: full.as_ref().map_or(written[action], |full| full[action]),
                    full: full.clone(),
                    candidates: policies.iter().map(candidate).collect(),
                    repetition: (self.designed && i == 0).then_some(Repetition { interactions: m }),
                    first: i == 0,
                });
            }
        }
        rows
    }
}

/// The results of a log.
pub fn check(plan: &CheckPlan, rows: &[Row]) -> Vec<CheckResult> {
    let mut builder = ChecksBuilder::new(plan.clone());
    rows.iter().for_each(|row| row.show(&mut |row| builder.row(row)));
    builder.finish(CheckScope::Log)
}

pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}
