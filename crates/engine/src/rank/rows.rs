//! The rows of the learn side in the compact form in which models are fitted: scaled features of the request and of the
//! logged action, and the reward. Some rows are held out with their whole sets, for comparing policies.

use super::Reader;
use super::known::Known;
use crate::control::Control;
use crate::error::Result;
use crate::log::{Context, Sparse};
use crate::policy::Scaling;

/// The most rows that are kept.
pub const MAX_ROWS: usize = 1 << 21;
/// The most non-zeros that are kept: 128 MiB of numbers, and about as much again.
pub const MAX_NON_ZEROS: usize = 1 << 24;
/// The most rows that are held out with their sets.
pub const MAX_HELD_OUT: usize = 20_000;
/// The most non-zeros of these.
pub const MAX_HELD_OUT_NON_ZEROS: usize = 1 << 22;
/// From this number of rows, two tenths are held out, each by one fit. Below it, there are four folds.
const LARGE: usize = 20_000;
const FOLDS: usize = 4;
const LARGE_FOLDS: usize = 2;

/// The limits of what is kept. Tests make them small.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Rows.
    pub rows: usize,
    /// Non-zeros of requests and logged actions.
    pub non_zeros: usize,
    /// Held-out rows with their sets.
    pub held_out: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { rows: MAX_ROWS, non_zeros: MAX_NON_ZEROS, held_out: MAX_HELD_OUT }
    }
}

/// The rows that models are fitted to.
pub struct Rows {
    /// The scaled features of each request, by position among the known ones.
    pub x: Sparse,
    /// The same for the logged actions.
    pub actions: Sparse,
    /// −c of each row.
    pub rewards: Vec<f32>,
    /// The held-out rows.
    pub held_out: HeldOut,
    /// Every how many rows of the learn side one is kept.
    pub stride: usize,
    folds: usize,
}

/// The held-out rows with their sets.
#[derive(Default)]
pub struct HeldOut {
    /// The row among those that models are fitted to.
    pub rows: Vec<u32>,
    /// Where the actions of each row start, and the end of the last row's.
    pub offsets: Vec<u32>,
    /// The scaled features of each action.
    pub actions: Sparse,
    /// The position of the logged action in its set.
    pub logged: Vec<u32>,
    /// The costs of the logged actions and their propensities.
    pub costs: Vec<f64>,
    /// π0 of the logged actions.
    pub propensities: Vec<f64>,
    /// π0(·|x), one number per action; empty if the log does not have it.
    pub full: Vec<f64>,
}

impl HeldOut {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The actions of row `i` among those of all rows.
    pub fn set(&self, i: usize) -> std::ops::Range<usize> {
        self.offsets[i] as usize..self.offsets[i + 1] as usize
    }

    /// Row `i` as a bound sees it.
    pub fn context(&self, i: usize) -> Context<'_> {
        Context {
            actions: &self.logged[i..i + 1],
            costs: &self.costs[i..i + 1],
            propensities: &self.propensities[i..i + 1],
            weights: &[1.0],
            full: (!self.full.is_empty()).then(|| &self.full[self.set(i)]),
        }
    }
}

impl Rows {
    /// Reads the learn side once more. If it is larger than the limits, every m-th row is kept.
    ///
    /// # Errors
    /// If the log cannot be read or the job is canceled.
    pub fn new(reader: &Reader, known: &Known, limits: Limits, control: &Control) -> Result<Self> {
        // A feature that counts where it is absent adds a non-zero to every row.
        let absent = known.x.iter().chain(&known.actions).filter(|feature| feature.center != 0.0).count();
        let non_zeros = known.non_zeros.saturating_add(absent.saturating_mul(known.rows));
        let stride = known.rows.div_ceil(limits.rows).max(non_zeros.div_ceil(limits.non_zeros)).max(1);
        let kept = known.rows.div_ceil(stride);
        let folds = if kept >= LARGE { LARGE_FOLDS } else { FOLDS };
        let mut rows = Rows {
            x: Sparse::default(),
            actions: Sparse::default(),
            rewards: Vec::with_capacity(kept),
            held_out: HeldOut { offsets: vec![0], ..HeldOut::default() },
            stride,
            folds,
        };
        let held = if folds == FOLDS { kept } else { kept / 5 };
        let sparser = held.div_ceil(limits.held_out).max(1);
        let (x, actions) = (Scaling::new(&known.x), Scaling::new(&known.actions));
        let (mut scaled, mut seen, mut held) = (Vec::new(), 0usize, 0usize);
        reader.each(control, |row| {
            seen += 1;
            if !(seen - 1).is_multiple_of(stride) {
                return;
            }
            let number = rows.rewards.len() as u32;
            x.apply(row.x(), &mut scaled);
            rows.x.push(scaled.iter().copied());
            actions.apply(row.logged_action(), &mut scaled);
            rows.actions.push(scaled.iter().copied());
            rows.rewards.push(-row.cost() as f32);
            if rows.fold(number).is_none() {
                return;
            }
            held += 1;
            let out = &mut rows.held_out;
            // A feature that counts where it is absent is a non-zero of every action.
            let more = row.size().saturating_mul(absent);
            if !(held - 1).is_multiple_of(sparser)
                || out.actions.non_zeros().saturating_add(more) >= MAX_HELD_OUT_NON_ZEROS
            {
                return;
            }
            for a in 0..row.size() {
                actions.apply(row.action(a), &mut scaled);
                out.actions.push(scaled.iter().copied());
            }
            out.rows.push(number);
            out.offsets.push(out.actions.len() as u32);
            out.logged.push(row.logged());
            out.costs.push(row.cost());
            out.propensities.push(row.propensity());
            out.full.extend(row.full().into_iter().flatten());
        })?;
        Ok(rows)
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rewards.len()
    }

    /// The number of folds.
    pub fn folds(&self) -> usize {
        self.folds
    }

    /// The fold whose fit leaves the row out, if there is one.
    pub fn fold(&self, row: u32) -> Option<usize> {
        let row = row as usize;
        match self.folds {
            LARGE_FOLDS => row.is_multiple_of(5).then_some(row / 5 % 2),
            folds => Some(row % folds),
        }
    }

    /// The rows that the fit of a fold leaves out.
    pub fn left_out(&self, fold: usize) -> Vec<u32> {
        (0..self.len() as u32).filter(|&row| self.fold(row) == Some(fold)).collect()
    }

    /// The rows that the fit of a fold is trained on.
    pub fn training(&self, fold: usize) -> Vec<u32> {
        (0..self.len() as u32).filter(|&row| self.fold(row) != Some(fold)).collect()
    }
}
