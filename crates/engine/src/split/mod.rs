//! The learn side of a split, docs/math.md#split and docs/math.md#auto. Anything is allowed here, because the
//! bound never sees these rows: score functions are trained and compared out of sample, the best one becomes
//! a nearly greedy LIG policy and a cost model, and λ for the certify side is chosen from the variance of z.
//! On the certify side nothing is left to minimize over, so the certificate pays ln(1/δ) instead of the
//! ln(N/δ) of a grid.

mod calibrate;
mod combine;
mod lean;
mod material;
mod network;
mod rows;
mod scorer;
mod start;
mod train;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use ndarray::Array2;
use rayon::prelude::*;

use calibrate::Calibration;
pub(crate) use calibrate::{HeldOutPoint, calibrate};
pub use material::material;
use network::{LossFamily, Network, Start};
use rows::Rows;
use scorer::{Scorer, mean_gap};
use start::{LoggingFit, fit_logging, start};
use train::{Recipe, Ticker, train};

use super::bound::{ControlVariate, Foreseen, Guess, Played, Rules, Seen, shrunk};
use super::control::Control;
use super::cost_model::{ScoreCalibration, ScoreLink};
use super::error::Result;
use super::log::{LogSource, Side, Span};
use super::policy::{FeatureMap, PolicyParams};

/// What was learned on the learn side.
pub struct PartOne {
    /// The policy.
    pub policy: PolicyParams,
    /// The cost model, on the policy's scores. Present if the log has π0(·|x).
    pub calibration: Option<ScoreCalibration>,
    /// The mean and variance of z for the improvement (κ = 1).
    pub improvement: Guess,
    /// The mean and variance of z for the risk (κ = 0).
    pub risk: Guess,
    /// z for the improvement, of the greedy policy on contexts that its scores were not trained on.
    pub plays: Vec<f64>,
    /// The same as the cost model foresees them, if every reward is 0 or 1.
    pub foreseen: Option<Foreseen>,
    /// What was chosen and why, one sentence each.
    pub choices: Vec<String>,
    /// The number of networks that were trained.
    pub trainings: u64,
}

/// The bound on the certify side that is learned for.
pub struct Target {
    /// The number of contexts of the certify side.
    pub contexts: u64,
    /// The share of δ of the improvement.
    pub improvement_delta: f64,
}

/// From this number of contexts, two tenths are held out, each by one network. Below it, there are four folds.
pub const LARGE: usize = 20_000;
/// The number of folds of a small log.
pub const FOLDS: usize = 4;
/// The number of folds of a large log.
pub const LARGE_FOLDS: usize = 2;
/// The hidden units of a network.
pub const WIDE: usize = 128;
/// The same if there are few contexts for so many weights.
pub const NARROW: usize = 32;
/// A wide layer has at most this many weights per context.
const WEIGHTS_PER_CONTEXT: usize = 64;
/// Below this number of contexts, networks with a heavy weight decay are trained too.
pub const FEW: usize = 4000;
/// The weight decay of linear score functions.
const LINEAR_DECAY: f32 = 0.1;
/// The weight decays of networks with a hidden layer: on a large log, on a small one, and on few contexts.
const LARGE_DECAY: f32 = 0.1;
const LIGHT_DECAY: f32 = 0.03;
const HEAVY_DECAY: f32 = 1.0;
/// The passes over the contexts of the linear score functions and of the networks with a hidden layer.
const LINEAR_EPOCHS: usize = 10;
const HIDDEN_EPOCHS: usize = 36;
/// On a small log, hidden layers are trained for both families if the losses of their linear score functions differ
/// by less than this share.
const CLOSE: f64 = 0.02;
/// The λ for which z is limited while its variance is measured: z is at most 25.
pub(crate) const TRIAL: f64 = 0.036;
/// The policy's scale as a share of the mean gap between its two best scores, so that it is nearly greedy.
pub(crate) const NEAR_GREEDY: f64 = 0.02;

/// The networks of one recipe, one per fold, with their scores out of sample.
struct Fitted {
    recipe: Recipe,
    networks: Arc<Vec<Network>>,
    /// The scores of the held-out contexts, in the order of `held_out`.
    scores: Array2<f32>,
    calibration: Calibration,
}

/// The hidden units of a network that is trained on `n` contexts with p features and K actions.
pub fn width(n: usize, p: usize, k: usize) -> usize {
    if WIDE * (p + k) <= WEIGHTS_PER_CONTEXT * n { WIDE } else { NARROW }
}

struct Folds {
    /// The training contexts and the held-out contexts of each fold.
    folds: Vec<(Vec<u32>, Vec<u32>)>,
    held_out: Vec<u32>,
}

fn folds(n: usize) -> Folds {
    let all = 0..n as u32;
    let fold = |modulus: u32, f: u32| {
        let (out, train): (Vec<u32>, Vec<u32>) = all.clone().partition(|i| i % modulus == f);
        (train, out)
    };
    let folds: Vec<_> = if n >= LARGE {
        (0..LARGE_FOLDS as u32).map(|f| fold(10, 5 * f)).collect()
    } else {
        (0..FOLDS as u32).map(|f| fold(FOLDS as u32, f)).collect()
    };
    let held_out = folds.iter().flat_map(|(_, out)| out.iter().copied()).collect();
    Folds { folds, held_out }
}

fn link_of(family: LossFamily) -> ScoreLink {
    match family {
        LossFamily::Competing => ScoreLink::Competing,
        LossFamily::Separate => ScoreLink::Separate,
    }
}

/// Learns on the learn side of a split.
///
/// # Errors
/// If the log cannot be read or the job is canceled.
pub fn learn(
    log: &dyn LogSource,
    span: &Span,
    target: &Target,
    seed: u64,
    control: &Control,
) -> Result<PartOne> {
    let rows = Rows::new(log, span, Side::Learn)?;
    let k = log.shape().n_actions;
    let learner = Learner { rows, folds: folds(0), k, seed, control };
    Learner { folds: folds(learner.rows.len()), ..learner }.learn(log, target)
}

struct Learner<'a> {
    rows: Rows<'a>,
    folds: Folds,
    k: usize,
    seed: u64,
    control: &'a Control<'a>,
}

impl Learner<'_> {
    fn learn(&self, log: &dyn LogSource, target: &Target) -> Result<PartOne> {
        let folds = self.folds.folds.par_iter();
        let fits: Vec<Option<LoggingFit>> =
            folds.map(|(members, _)| fit_logging(&self.rows, members, self.k)).collect::<Result<_>>()?;
        let starts = self.starts(&fits)?;
        let both = [LossFamily::Competing, LossFamily::Separate];
        let linear = both.map(|family| self.recipe(family, 0, LINEAR_EPOCHS, LINEAR_DECAY));
        let mut fitted = self.fit(&linear, &starts, 0.0, 0.1)?;
        let hidden = self.hidden_recipes([fitted[0].calibration.loss, fitted[1].calibration.loss]);
        fitted.extend(self.fit(&hidden, &starts, 0.1, 1.0)?);
        let trainings = (fitted.len() * self.folds.folds.len()) as u64;
        let (scorer, choice) = self.combine(&fitted);
        let full = log.shape().capabilities.control_variate();
        let (scorer, share) = if full { self.lean(scorer, &fits, target)? } else { (scorer, 0.0) };
        let (plays, risk, note) = self.plays(log, &scorer)?;
        let policy = self.policy(&scorer)?;
        let calibration = full.then(|| scorer.score_calibration());
        let mut choices = vec![choice];
        if share > 0.0 {
            choices.push(format!("{share} of log π0(·|x) added to the scores, for a narrower certificate"));
        }
        choices.push(note);
        let (improvement, risk) = (moments(&plays), moments(&risk));
        let foreseen = if full { self.foreseen(&scorer)? } else { None };
        Ok(PartOne { policy, calibration, improvement, risk, plays, foreseen, choices, trainings })
    }

    fn recipe(&self, family: LossFamily, width: usize, epochs: usize, decay: f32) -> Recipe {
        Recipe { family, width, epochs, decay, seed: self.seed }
    }

    /// The networks with a hidden layer: for the family whose linear score function fits better, and on a small log
    /// for both if they fit about as well. If there are few contexts for so many weights, little is trained.
    fn hidden_recipes(&self, [competing, separate]: [f64; 2]) -> Vec<Recipe> {
        let n = self.rows.len();
        let width = width(n, self.rows.center.len(), self.k);
        let better = if competing <= separate { LossFamily::Competing } else { LossFamily::Separate };
        if width == NARROW {
            return vec![self.recipe(better, width, LINEAR_EPOCHS, HEAVY_DECAY)];
        }
        let close = n < LARGE && (competing - separate).abs() < CLOSE * competing.min(separate);
        let families = if close { vec![LossFamily::Competing, LossFamily::Separate] } else { vec![better] };
        let decays: &[f32] = match n {
            n if n >= LARGE => &[LARGE_DECAY],
            n if n >= FEW => &[LIGHT_DECAY],
            _ => &[LIGHT_DECAY, HEAVY_DECAY],
        };
        let recipes = families.into_iter().flat_map(|f| decays.iter().map(move |&d| (f, d)));
        recipes.map(|(family, decay)| self.recipe(family, width, HIDDEN_EPOCHS, decay)).collect()
    }

    /// Where training starts on each fold: for the competing and the separate family.
    fn starts(&self, fits: &[Option<LoggingFit>]) -> Result<Vec<[Start; 2]>> {
        let start = |((members, _), fit): (&(Vec<u32>, Vec<u32>), &Option<LoggingFit>)| {
            let start = |link: ScoreLink| start(&self.rows, members, fit.as_ref(), self.k, link);
            Ok([start(ScoreLink::Competing)?, start(ScoreLink::Separate)?])
        };
        self.folds.folds.par_iter().zip(fits).map(start).collect()
    }

    /// Trains each recipe on each fold.
    fn fit(&self, what: &[Recipe], starts: &[[Start; 2]], from: f64, to: f64) -> Result<Vec<Fitted>> {
        let (folds, p) = (&self.folds.folds, self.rows.center.len());
        let tasks: Vec<(&Recipe, usize)> =
            what.iter().flat_map(|recipe| (0..folds.len()).map(move |i| (recipe, i))).collect();
        let steps = tasks.iter().map(|(recipe, i)| recipe.effort(folds[*i].0.len(), p, self.k).steps);
        let ticker = Ticker::new(self.control, steps.sum(), from, to);
        let networks: Vec<Network> = tasks
            .into_par_iter()
            .map(|(recipe, fold)| {
                let start = &starts[fold][usize::from(recipe.family == LossFamily::Separate)];
                let seed = recipe.seed.wrapping_mul(1_000_003).wrapping_add(fold as u64);
                train(&self.rows, &folds[fold].0, start, &Recipe { seed, ..*recipe }, &ticker)
            })
            .collect::<Result<_>>()?;
        let mut networks = networks.into_iter();
        what.iter().map(|&r| self.assess(r, networks.by_ref().take(folds.len()).collect())).collect()
    }

    fn assess(&self, recipe: Recipe, networks: Vec<Network>) -> Result<Fitted> {
        let scores = self.out_of_sample(&networks)?;
        let calibration = calibrate(&self.points(&scores, link_of(recipe.family)));
        Ok(Fitted { recipe, networks: Arc::new(networks), scores, calibration })
    }

    /// The scores of the held-out contexts by the network of their fold.
    fn out_of_sample(&self, networks: &[Network]) -> Result<Array2<f32>> {
        let mut scores = Array2::<f32>::zeros((0, self.k));
        for (network, (_, out)) in networks.iter().zip(&self.folds.folds) {
            scores.append(ndarray::Axis(0), network.scores(&self.rows, out)?.view()).expect("K columns");
        }
        Ok(scores)
    }

    /// The held-out interactions with their log-odds according to `scores`.
    fn points(&self, scores: &Array2<f32>, link: ScoreLink) -> Vec<HeldOutPoint> {
        let mut points = Vec::new();
        for (i, &member) in self.folds.held_out.iter().enumerate() {
            let row: Vec<f64> = scores.row(i).iter().map(|&s| s as f64).collect();
            let context = self.rows.logged(member);
            points.extend((0..context.actions.len()).map(|j| HeldOutPoint {
                log_odds: link.log_odds(&row, context.actions[j] as usize),
                reward: -context.costs[j],
                weight: context.weights[j],
            }));
        }
        points
    }

    /// One LIG policy from the weighted mean of the networks' scores.
    fn policy(&self, scorer: &Scorer) -> Result<PolicyParams> {
        let (features, mean) = scorer.merged(&self.rows);
        let mut policy = PolicyParams::Lig { mean, scale: 1.0, features };
        let sample: Vec<u32> = (0..self.rows.len().min(2000) as u32).collect();
        let norm = self.mean_norm(policy.features(), &sample)?;
        let gap = mean_gap(&scorer.scores);
        let near_greedy = NEAR_GREEDY * gap / norm;
        if let PolicyParams::Lig { scale, .. } = &mut policy {
            *scale = if near_greedy.is_finite() { near_greedy.clamp(1e-6, 1e6) } else { 1.0 };
        }
        Ok(policy)
    }

    fn mean_norm(&self, features: &FeatureMap, members: &[u32]) -> Result<f64> {
        let x = self.rows.features_of(members)?;
        let norms = super::numerics::product::norms(features.apply(x.view()).view());
        Ok(norms.iter().sum::<f64>() / norms.len().max(1) as f64)
    }

    /// What the certify side's bets start from: z of the greedy policy on contexts that its scores were not trained on,
    /// for the improvement and for the risk.
    fn plays(&self, log: &dyn LogSource, scorer: &Scorer) -> Result<(Vec<f64>, Vec<f64>, String)> {
        let (control, note) = match log.shape().capabilities.control_variate() {
            true => (ControlVariate::CostModel, "cost model as control variate, fixed on the learn side"),
            false => (ControlVariate::None, "without π0(·|x): logged propensities only, no control variate"),
        };
        let plays = |kappa: u8| self.plays_of(&Rules { kappa, control, tau: 0.0 }, scorer);
        Ok((plays(1)?, plays(0)?, note.into()))
    }

    fn plays_of(&self, rules: &Rules, scorer: &Scorer) -> Result<Vec<f64>> {
        let (mut plays, mut pi, mut costs) = (Vec::new(), vec![0.0; self.k], vec![0.0; self.k]);
        let mut z = Vec::new();
        self.rows.each(&self.folds.held_out, |i, context| {
            let row: Vec<f64> = scorer.scores.row(i).iter().map(|&s| s as f64).collect();
            pi.fill(0.0);
            pi[greedy(&row)] = 1.0;
            scorer.score_calibration().costs(&row, &mut costs);
            let seen = Seen { n_actions: self.k, context, cost_model: Some(&costs) };
            plays.clear();
            let top = rules.plays(&seen, Played::All(&pi), &mut plays)?;
            let theta = shrunk(1.0, top, TRIAL, f64::from(rules.kappa));
            z.extend(plays.iter().map(|play| play.z(theta)));
            Ok(())
        })?;
        Ok(z)
    }

    /// The plays for the improvement as the cost model foresees them; None unless every reward is 0 or 1.
    fn foreseen(&self, scorer: &Scorer) -> Result<Option<Foreseen>> {
        let rules = Rules { kappa: 1, control: ControlVariate::CostModel, tau: 0.0 };
        let (mut foreseen, mut costs) = (Foreseen::default(), vec![0.0; self.k]);
        let stride = Foreseen::stride(self.folds.held_out.len().saturating_mul(self.k));
        let members: Vec<u32> = self.folds.held_out.iter().step_by(stride).copied().collect();
        if !members.iter().all(|&member| binary(self.rows.logged(member).costs)) {
            return Ok(None);
        }
        self.rows.each(&members, |i, context| {
            let row: Vec<f64> = scorer.scores.row(i * stride).iter().map(|&s| s as f64).collect();
            let mut pi = vec![0.0; self.k];
            pi[greedy(&row)] = 1.0;
            scorer.score_calibration().costs(&row, &mut costs);
            let seen = Seen { n_actions: self.k, context, cost_model: Some(&costs) };
            foreseen.add(&rules, &seen, &pi, TRIAL)
        })?;
        Ok(Some(foreseen))
    }
}

/// Whether every cost is 0 or −1.
pub(crate) fn binary(costs: &[f64]) -> bool {
    costs.iter().all(|&cost| cost == 0.0 || cost == -1.0)
}

/// The mean and variance of numbers.
pub(crate) fn moments(values: &[f64]) -> Guess {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    Guess { mean, variance: values.iter().map(|z| (z - mean) * (z - mean)).sum::<f64>() / n }
}

/// The action with the best score, the last one of several.
pub(crate) fn greedy(scores: &[f64]) -> usize {
    (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0)
}
