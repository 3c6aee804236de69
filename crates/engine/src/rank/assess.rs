//! What models promise on held-out rows: their loss, and the estimated improvement of the policy that plays their best
//! action.

use super::rows::{HeldOut, Rows};
use crate::bound::{ControlVariate, Foreseen, Guess, Played, Rules, Seen, shrunk};
use crate::cost_model::{ScoreCalibration, ScoreLink};
use crate::error::Result;
use crate::split::{HeldOutPoint, TRIAL, binary, calibrate, greedy, moments};

/// A model on the held-out rows.
pub struct Assessed {
    /// Its scores of every action of every held-out row.
    pub scores: Vec<f64>,
    /// How costs are read from the scores.
    pub calibration: ScoreCalibration,
    /// The mean cross-entropy.
    pub loss: f64,
    /// z of the greedy policy on each held-out row, for the improvement (κ = 1).
    pub z: Vec<f64>,
}

impl Assessed {
    /// Assesses the model with these scores.
    ///
    /// # Errors
    /// If z cannot be computed, which is a bug.
    pub fn new(scores: Vec<f64>, rows: &Rows, control: ControlVariate) -> Result<Self> {
        let out = &rows.held_out;
        let points: Vec<HeldOutPoint> = (0..out.len())
            .map(|i| HeldOutPoint {
                log_odds: scores[out.set(i).start + out.logged[i] as usize],
                reward: -out.costs[i],
                weight: 1.0,
            })
            .collect();
        let fitted = calibrate(&points);
        let calibration =
            ScoreCalibration { link: ScoreLink::Separate, offset: fitted.offset, slope: fitted.slope };
        let mut assessed = Assessed { scores, calibration, loss: fitted.loss, z: Vec::new() };
        assessed.z = assessed.plays(out, 1, control)?;
        Ok(assessed)
    }

    /// z for the improvement as the cost model foresees it; None unless every reward is 0 or 1.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn foreseen(&self, out: &HeldOut, control: ControlVariate) -> Result<Option<Foreseen>> {
        if control != ControlVariate::CostModel || !binary(&out.costs) {
            return Ok(None);
        }
        let rules = Rules { kappa: 1, control, tau: 0.0 };
        let mut foreseen = Foreseen::default();
        for i in (0..out.len()).step_by(Foreseen::stride(out.actions.len())) {
            let scores = &self.scores[out.set(i)];
            let (mut pi, mut costs) = (vec![0.0; scores.len()], vec![0.0; scores.len()]);
            pi[greedy(scores)] = 1.0;
            self.calibration.costs(scores, &mut costs);
            let seen = Seen { n_actions: scores.len(), context: out.context(i), cost_model: Some(&costs) };
            foreseen.add(&rules, &seen, &pi, TRIAL)?;
        }
        Ok(Some(foreseen))
    }

    /// z of the greedy policy on each held-out row.
    fn plays(&self, out: &HeldOut, kappa: u8, control: ControlVariate) -> Result<Vec<f64>> {
        let rules = Rules { kappa, control, tau: 0.0 };
        let (mut pi, mut costs, mut plays) = (Vec::new(), Vec::new(), Vec::new());
        let mut z = Vec::with_capacity(out.len());
        for i in 0..out.len() {
            let scores = &self.scores[out.set(i)];
            pi.clear();
            pi.resize(scores.len(), 0.0);
            pi[greedy(scores)] = 1.0;
            costs.resize(scores.len(), 0.0);
            self.calibration.costs(scores, &mut costs[..scores.len()]);
            let seen = Seen {
                n_actions: scores.len(),
                context: out.context(i),
                cost_model: Some(&costs[..scores.len()]),
            };
            plays.clear();
            let top = rules.plays(&seen, Played::All(&pi), &mut plays)?;
            let theta = shrunk(1.0, top, TRIAL, f64::from(kappa));
            z.extend(plays.iter().map(|play| play.z(theta)));
        }
        Ok(z)
    }

    /// What the bets on the risk start from: the mean and variance of z.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn risk(&self, rows: &Rows, control: ControlVariate) -> Result<Guess> {
        Ok(moments(&self.plays(&rows.held_out, 0, control)?))
    }

    /// The mean gap between the two best scores of a set.
    pub fn mean_gap(&self, out: &HeldOut) -> f64 {
        let mut total = 0.0;
        for i in 0..out.len() {
            let (mut best, mut second) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
            for &score in &self.scores[out.set(i)] {
                (best, second) = if score > best { (score, best) } else { (best, second.max(score)) };
            }
            total += best - second;
        }
        total / out.len().max(1) as f64
    }
}

/// The estimated improvement of a greedy policy is noisy. On logs with few rows, two standard errors chose better
/// policies than one, and one better than none (docs/math.md#sets).
const ERRORS: f64 = 2.0;

/// The model to use: the one with the lowest loss, unless the greedy policy of another one improves by more than two
/// standard errors of the difference. Then the one that improves most.
pub fn choose<'a>(assessed: impl Iterator<Item = &'a Assessed>) -> usize {
    let assessed: Vec<&Assessed> = assessed.collect();
    let first =
        (0..assessed.len()).min_by(|&a, &b| assessed[a].loss.total_cmp(&assessed[b].loss)).unwrap_or(0);
    let gain = |other: &Assessed| {
        let difference: Vec<f64> =
            assessed[first].z.iter().zip(&other.z).map(|(base, other)| base - other).collect();
        let Guess { mean, variance } = moments(&difference);
        (mean, (variance / difference.len().max(1) as f64).sqrt())
    };
    let mut best = (first, 0.0);
    for (i, other) in assessed.iter().copied().enumerate() {
        let (mean, error) = gain(other);
        if mean > ERRORS * error && mean > best.1 {
            best = (i, mean);
        }
    }
    best.0
}
