//! Logging policies that learn from the log that they write.

use std::ops::Range;

use ndarray::Array2;

use super::nature::{ACTIONS, Nature};

/// After which rows a policy is fitted again.
#[derive(Clone, Copy)]
pub enum Refit {
    Never,
    /// After every row: an online learner.
    Always,
    /// After every so many rows: nightly retraining.
    Every(usize),
    /// Once, before the row with this number.
    Once(usize),
}

/// How a policy plays, given its estimates of the rewards.
#[derive(Clone, Copy)]
pub enum Rule {
    /// The best action, or with this probability any action.
    EpsilonGreedy(f64),
    /// Softmax of the estimates at this inverse temperature.
    Softmax(f64),
}

/// What a policy estimates rewards with.
enum Model {
    /// The mean reward of each action in each context.
    Means { sums: Vec<f64>, counts: Vec<f64> },
    /// One ridge regression per action on the features.
    Ridge { x: Array2<f32>, grams: Vec<Vec<Vec<f64>>>, moments: Vec<Vec<f64>> },
}

pub struct Logger {
    model: Model,
    rule: Rule,
    refit: Refit,
    seen: usize,
    /// π0,t: contexts × K.
    table: Vec<f64>,
    /// How often the policy was fitted.
    pub version: u32,
}

impl Logger {
    /// A logger that starts with the uniform policy.
    pub fn of_means(nature: &Nature, rule: Rule, refit: Refit) -> Logger {
        let cells = nature.contexts() * ACTIONS;
        Logger::new(Model::Means { sums: vec![0.0; cells], counts: vec![0.0; cells] }, cells, rule, refit)
    }

    /// The same with linear estimates.
    pub fn of_ridge(nature: &Nature, rule: Rule, refit: Refit) -> Logger {
        let p = nature.x.ncols();
        let gram: Vec<Vec<f64>> =
            (0..p).map(|i| (0..p).map(|j| f64::from(u8::from(i == j))).collect()).collect();
        let model = Model::Ridge {
            x: nature.x.clone(),
            grams: vec![gram; ACTIONS],
            moments: vec![vec![0.0; p]; ACTIONS],
        };
        Logger::new(model, nature.contexts() * ACTIONS, rule, refit)
    }

    fn new(model: Model, cells: usize, rule: Rule, refit: Refit) -> Logger {
        Logger { model, rule, refit, seen: 0, table: vec![1.0 / ACTIONS as f64; cells], version: 0 }
    }

    /// A policy that never learns.
    pub fn fixed(nature: &Nature, pi: impl Fn(usize, usize) -> f64) -> Logger {
        let mut logger = Logger::of_means(nature, Rule::Softmax(0.0), Refit::Never);
        for (x, row) in logger.table.chunks_exact_mut(ACTIONS).enumerate() {
            row.iter_mut().enumerate().for_each(|(a, p)| *p = pi(x, a));
            let total: f64 = row.iter().sum();
            row.iter_mut().for_each(|p| *p /= total);
        }
        logger
    }

    /// π0,t of all contexts.
    pub fn table(&self) -> &[f64] {
        &self.table
    }

    /// π0,t(·|x).
    pub fn plays(&self, context: usize) -> &[f64] {
        &self.table[context * ACTIONS..(context + 1) * ACTIONS]
    }

    /// Learns from a row, and is fitted again if it is time.
    pub fn see(&mut self, context: usize, action: usize, cost: f64) {
        match &mut self.model {
            Model::Means { sums, counts } => {
                sums[context * ACTIONS + action] -= cost;
                counts[context * ACTIONS + action] += 1.0;
            }
            Model::Ridge { x, grams, moments } => {
                let x = x.row(context).mapv(f64::from);
                for i in 0..x.len() {
                    moments[action][i] -= cost * x[i];
                    (0..x.len()).for_each(|j| grams[action][i][j] += x[i] * x[j]);
                }
            }
        }
        self.seen += 1;
        let due = match self.refit {
            Refit::Never => false,
            Refit::Always => true,
            Refit::Every(rows) => self.seen.is_multiple_of(rows),
            Refit::Once(row) => self.seen == row,
        };
        if !due {
            return;
        }
        self.version += 1;
        match self.refit {
            Refit::Always => self.changed(context).for_each(|x| self.play_by_estimates(x)),
            _ => (0..self.table.len() / ACTIONS).for_each(|x| self.play_by_estimates(x)),
        }
    }

    /// The contexts whose estimates a row of this context changes.
    pub fn changed(&self, context: usize) -> Range<usize> {
        match self.model {
            Model::Means { .. } => context..context + 1,
            Model::Ridge { .. } => 0..self.table.len() / ACTIONS,
        }
    }

    fn play_by_estimates(&mut self, context: usize) {
        let estimates = self.estimates(context);
        let row = &mut self.table[context * ACTIONS..(context + 1) * ACTIONS];
        match self.rule {
            Rule::EpsilonGreedy(epsilon) => {
                row.fill(epsilon / ACTIONS as f64);
                row[best(&estimates)] += 1.0 - epsilon;
            }
            Rule::Softmax(alpha) => {
                let top = estimates[best(&estimates)];
                row.iter_mut().zip(&estimates).for_each(|(p, e)| *p = (alpha * (e - top)).exp());
                let total: f64 = row.iter().sum();
                row.iter_mut().for_each(|p| *p /= total);
            }
        }
    }

    /// The estimated reward of each action, from all rows so far.
    pub fn estimates(&self, context: usize) -> Vec<f64> {
        match &self.model {
            // Half a success in one imagined row, so that actions are tried at first.
            Model::Means { sums, counts } => {
                let cells = context * ACTIONS..(context + 1) * ACTIONS;
                cells.map(|cell| (sums[cell] + 0.5) / (counts[cell] + 1.0)).collect()
            }
            Model::Ridge { x, grams, moments } => {
                let x = x.row(context).mapv(f64::from);
                let of = |a: usize| {
                    solve(grams[a].clone(), moments[a].clone()).iter().zip(&x).map(|(w, x)| w * x).sum()
                };
                (0..ACTIONS).map(of).collect()
            }
        }
    }

    /// The action with the best estimate.
    pub fn greedy(&self, context: usize) -> usize {
        best(&self.estimates(context))
    }
}

fn best(estimates: &[f64]) -> usize {
    (0..estimates.len()).max_by(|&a, &b| estimates[a].total_cmp(&estimates[b])).unwrap_or(0)
}

/// Solves a small positive definite system by elimination.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let n = right.len();
    for i in 0..n {
        let pivot = matrix[i].clone();
        for j in i + 1..n {
            let factor = matrix[j][i] / pivot[i];
            matrix[j].iter_mut().zip(&pivot).for_each(|(to, from)| *to -= factor * from);
            right[j] -= factor * right[i];
        }
    }
    for i in (0..n).rev() {
        let rest: f64 = (i + 1..n).map(|j| matrix[i][j] * right[j]).sum();
        right[i] = (right[i] - rest) / matrix[i][i];
    }
    right
}
