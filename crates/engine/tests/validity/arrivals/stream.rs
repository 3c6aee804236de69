//! Logs in order of arrival. What is true of each row given everything before it is kept, so the mean over any
//! certified rows is an exact sum.

use std::sync::Arc;

use guarantor_engine::log::{Columns, MemoryLog};
use guarantor_engine::policy::PolicyParams;
use ndarray::Array2;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::logger::Logger;
use super::nature::{ACTIONS, Nature};
use crate::world::pick;

/// The name of the candidate that learns while it is logged.
pub const SHADOW: &str = "shadow";

/// What is true of one row, given everything before it.
#[derive(Clone)]
pub struct Moment {
    /// R_t(π0,t).
    pub baseline: f64,
    /// ν_t(x)·c̄_t(x, a): contexts × K.
    pub costs: Arc<[f64]>,
    /// R_t of the shadow.
    pub shadow: f64,
}

pub struct Stream {
    /// The features of each context.
    pub x: Array2<f32>,
    pub columns: Columns,
    /// One per row.
    pub moments: Vec<Moment>,
    /// How often the logging policy had been fitted before each row.
    pub fits: Vec<u32>,
}

/// The true means over some rows.
#[derive(Debug, Clone, Copy)]
pub struct Truth {
    pub risk: f64,
    pub improvement: f64,
}

impl Truth {
    /// By how much the truth is worse than what was guaranteed; 0 or less if it is not.
    pub fn excess(self, risk: f64, improvement: f64) -> f64 {
        // f64::max would drop a NaN. The sum keeps it, and NaN counts as violated.
        let (a, b) = (self.risk - risk, improvement - self.improvement);
        if (a + b).is_nan() { f64::NAN } else { a.max(b) }
    }
}

/// Draws a log of `rows` decisions. The log carries a shadow: the greedy policy of the logger's estimates,
/// which changes with every row.
pub fn draw(nature: &Nature, mut logger: Logger, rows: usize, full: bool, rng: &mut ChaCha8Rng) -> Stream {
    let mut stream = Stream::empty(nature.x.clone(), full);
    let mut shadow = Vec::with_capacity(rows);
    let mut setting = nature.at(0.0);
    let mut greedy: Vec<usize> = (0..nature.contexts()).map(|x| logger.greedy(x)).collect();
    for row in 0..rows {
        if nature.changes() {
            setting = nature.at(row as f64 / (rows - 1) as f64);
        }
        stream.moments.push(Moment {
            baseline: dot(logger.table(), &setting.weighted),
            shadow: greedy.iter().enumerate().map(|(x, a)| setting.weighted[x * ACTIONS + a]).sum(),
            costs: setting.weighted.clone(),
        });
        let context = pick(setting.shares.iter().copied(), rng.random());
        let action = pick(logger.plays(context).iter().copied(), rng.random());
        let cost = bernoulli(setting.costs[context * ACTIONS + action], rng);
        stream.push(context, action, cost, logger.plays(context));
        stream.fits.push(logger.version);
        shadow.push(f64::from(u8::from(greedy[context] == action)));
        logger.see(context, action, cost);
        logger.changed(context).for_each(|x| greedy[x] = logger.greedy(x));
    }
    stream.columns.candidates.push((SHADOW.into(), shadow));
    stream
}

/// −1 with probability −mean, else 0.
pub fn bernoulli(mean: f64, rng: &mut ChaCha8Rng) -> f64 {
    -f64::from(u8::from(rng.random::<f64>() < -mean))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Stream {
    pub fn empty(x: Array2<f32>, full: bool) -> Stream {
        let columns =
            Columns { n_actions: ACTIONS, dim: x.ncols(), full: full.then(Vec::new), ..Columns::default() };
        Stream { x, columns, moments: Vec::new(), fits: Vec::new() }
    }

    /// Adds a row that a policy with these propensities logged.
    pub fn push(&mut self, context: usize, action: usize, cost: f64, pi0: &[f64]) {
        let columns = &mut self.columns;
        columns.x.extend(self.x.row(context).iter());
        columns.actions.push(action as u32);
        columns.costs.push(cost);
        columns.propensities.push(pi0[action]);
        if let Some(full) = &mut columns.full {
            full.extend(pi0);
        }
    }

    pub fn log(&self) -> MemoryLog {
        MemoryLog::new(self.columns.clone()).expect("a drawn log is a log")
    }

    /// π(a|x) of each row's logged action under a policy on the features.
    pub fn played(&self, policy: &PolicyParams) -> Vec<f64> {
        let (columns, p) = (&self.columns, self.columns.dim);
        let x = ndarray::ArrayView2::from_shape((columns.rows(), p), &columns.x).expect("rows of p");
        let pi = policy.propensities(x).expect("a policy on these contexts");
        columns.actions.iter().enumerate().map(|(i, &a)| pi[(i, a as usize)]).collect()
    }

    /// The truth about a policy with these propensities (contexts × K) over some rows.
    pub fn truth_of(&self, pi: &[f64], rows: &[u64]) -> Truth {
        let risks = rows.iter().map(|&row| dot(pi, &self.moments[row as usize].costs));
        self.against_baseline(risks.sum(), rows)
    }

    /// The truth about the shadow.
    pub fn shadow_truth(&self, rows: &[u64]) -> Truth {
        self.against_baseline(rows.iter().map(|&row| self.moments[row as usize].shadow).sum(), rows)
    }

    fn against_baseline(&self, total_risk: f64, rows: &[u64]) -> Truth {
        let n = rows.len() as f64;
        let baseline: f64 = rows.iter().map(|&row| self.moments[row as usize].baseline).sum();
        Truth { risk: total_risk / n, improvement: (baseline - total_risk) / n }
    }
}
