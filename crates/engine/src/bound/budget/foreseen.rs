//! What the plays of the certify side may be like, according to a cost model: every action with its propensity, and a
//! reward or none with the model's probability. Which actions were drawn and which rewards came is noise that logged
//! plays have, and these do not.

use crate::bound::{Played, Rules, Seen, shrunk};
use crate::error::Result;
use crate::log::Context;

/// Not more plays than this are foreseen: plans pass over them many times.
const MOST: usize = 1 << 16;

/// Plays with their probabilities, context by context.
#[derive(Debug, Clone, Default)]
pub struct Foreseen {
    /// z and its probability.
    pub plays: Vec<(f64, f64)>,
    /// Where the plays of each context end.
    pub ends: Vec<usize>,
}

impl Foreseen {
    /// Every how many contexts one is to be added, if all of them together have so many actions.
    pub fn stride(actions: usize) -> usize {
        actions.saturating_mul(2).div_ceil(MOST).max(1)
    }

    /// Adds the possible plays of a context where the policy plays `pi`. Nothing if there is no cost model or no π0(·|x),
    /// or enough are foreseen already.
    ///
    /// # Errors
    /// As [`Rules::plays`].
    pub fn add(&mut self, rules: &Rules, seen: &Seen, pi: &[f64], lambda: f64) -> Result<()> {
        let (Some(full), Some(costs)) = (seen.context.full, seen.cost_model) else { return Ok(()) };
        if self.plays.len() + 2 * full.len() > MOST {
            return Ok(());
        }
        let possible: Vec<u32> = (0..full.len() as u32).filter(|&a| full[a as usize] > 0.0).collect();
        let twice = |f: &dyn Fn(usize) -> [f64; 2]| -> Vec<f64> {
            possible.iter().flat_map(|&a| f(a as usize)).collect()
        };
        let context = Context {
            actions: &possible.iter().flat_map(|&a| [a, a]).collect::<Vec<u32>>(),
            costs: &twice(&|_| [0.0, -1.0]),
            propensities: &twice(&|a| [full[a]; 2]),
            weights: &twice(&|_| [1.0; 2]),
            full: Some(full),
        };
        let mut plays = Vec::with_capacity(2 * possible.len());
        let top = rules.plays(&Seen { context, ..*seen }, Played::All(pi), &mut plays)?;
        let theta = shrunk(1.0, top, lambda, f64::from(rules.kappa));
        let probability = twice(&|a| {
            let rewarded = -costs[a].clamp(-1.0, 0.0);
            [full[a] * (1.0 - rewarded), full[a] * rewarded]
        });
        self.plays.extend(plays.iter().map(|play| play.z(theta)).zip(probability));
        self.ends.push(self.plays.len());
        Ok(())
    }

    /// The same plays with z times a factor.
    pub fn scaled(mut self, factor: f64) -> Self {
        self.plays.iter_mut().for_each(|(z, _)| *z *= factor);
        self
    }

    /// The number of contexts.
    pub fn contexts(&self) -> usize {
        self.ends.len()
    }

    /// The expectation of `f` and of its square, and the mean square of its expectation in a context.
    pub fn moments(&self, f: impl Fn(f64) -> f64) -> Moments {
        let (mut sums, mut start) = (Moments::default(), 0);
        let count = self.ends.len().max(1) as f64;
        for &end in &self.ends {
            let mut own = 0.0;
            for &(z, probability) in &self.plays[start..end] {
                let value = f(z);
                own += probability * value;
                sums.square += probability * value * value / count;
            }
            sums.mean += own / count;
            sums.between += own * own / count;
            start = end;
        }
        sums
    }
}

/// Moments of a function of plays.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    /// The mean.
    pub mean: f64,
    /// The mean square.
    pub square: f64,
    /// The mean over contexts of the squared mean of a context.
    pub between: f64,
}
