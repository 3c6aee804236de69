//! The learn side of a split, docs/math.md#split and docs/math.md#auto. Anything is allowed here, because the
//! bound never sees these rows: score functions are trained and compared out of sample, the best one becomes
//! a nearly greedy LIG policy and a cost model, and λ for the certify side is chosen from the variance of z.
//! On the certify side nothing is left to minimize over, so the certificate pays ln(1/δ) instead of the
//! ln(N/δ) of a grid.

mod calibrate;
mod material;
mod network;
mod rows;

use ndarray::Array2;
use rayon::prelude::*;

use calibrate::{Calibration, HeldOutPoint, calibrate};
pub use material::MaterialLog;
use network::{LossFamily, Network, Recipe, Ticker, Width, effort, train};
use rows::Rows;

use super::bound::{ControlVariate, Guess, Played, Rules, Seen, shrunk};
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
    /// τ of the cost model; 0 without one.
    pub tau: f64,
    /// The mean and variance of z for the improvement (κ = 1).
    pub improvement: Guess,
    /// The mean and variance of z for the risk (κ = 0).
    pub risk: Guess,
    /// What was chosen and why, one sentence each.
    pub choices: Vec<String>,
    /// The number of networks that were trained.
    pub trainings: u64,
}

/// From this number of contexts, one tenth is held out. Below it, there are four folds.
pub const LARGE: usize = 20_000;
/// The number of folds of a small log.
pub const FOLDS: usize = 4;
/// The hidden units of a network that is trained on a small log.
pub const NARROW: usize = 32;
/// The same for a large log.
pub const WIDE: usize = 128;
/// The λ for which z is limited while its variance is measured: z is at most 25.
const TRIAL: f64 = 0.036;
/// The policy's scale as a share of the mean gap between its two best scores, so that it is nearly greedy.
const NEAR_GREEDY: f64 = 0.02;

/// The networks of one family and width, one per fold, with their scores out of sample.
struct Fitted {
    family: LossFamily,
    width: Width,
    networks: Vec<Network>,
    /// The scores of the held-out contexts, in the order of `held_out`.
    scores: Array2<f32>,
    calibration: Calibration,
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
        vec![fold(10, 0)]
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
pub fn learn(log: &dyn LogSource, span: &Span, tau: f64, seed: u64, control: &Control) -> Result<PartOne> {
    let rows = Rows::new(log, span, Side::Learn)?;
    let k = log.shape().n_actions;
    let learner = Learner { rows, folds: folds(0), k, seed, control };
    Learner { folds: folds(learner.rows.len()), ..learner }.learn(log, tau)
}

struct Learner<'a> {
    rows: Rows<'a>,
    folds: Folds,
    k: usize,
    seed: u64,
    control: &'a Control<'a>,
}

impl Learner<'_> {
    fn learn(&self, log: &dyn LogSource, tau: f64) -> Result<PartOne> {
        let wide: Width = if self.rows.len() >= LARGE { WIDE } else { NARROW };
        let mut fitted = self.fit(&[(LossFamily::Competing, 0), (LossFamily::Separate, 0)], 0.0, 0.2)?;
        // On a large log, the hidden layer of the separate family is trained only if its linear fit is
        // better.
        let separate_wins = fitted[1].calibration.loss < fitted[0].calibration.loss;
        let mut wider = vec![(LossFamily::Competing, wide)];
        if separate_wins || self.rows.len() < LARGE {
            wider.push((LossFamily::Separate, wide));
        }
        fitted.extend(self.fit(&wider, 0.2, 1.0)?);
        let trainings = (fitted.len() * self.folds.folds.len()) as u64;
        let (scorer, choice) = self.combine(&fitted);
        let (tau, improvement, risk, note) = self.guesses(log, tau, &scorer)?;
        let policy = self.policy(&scorer);
        let full = log.shape().capabilities.control_variate();
        let calibration = full.then(|| scorer.score_calibration());
        let choices = vec![choice, note];
        Ok(PartOne { policy, calibration, tau, improvement, risk, choices, trainings })
    }

    /// Trains each (family, width) on each fold.
    fn fit(&self, what: &[(LossFamily, Width)], from: f64, to: f64) -> Result<Vec<Fitted>> {
        let folds = &self.folds.folds;
        let steps: usize = folds.iter().map(|(train, _)| effort(train.len()).1).sum();
        let ticker = Ticker::new(self.control, steps * what.len(), from, to);
        let tasks: Vec<(LossFamily, Width, usize)> =
            what.iter().flat_map(|&(f, w)| (0..folds.len()).map(move |i| (f, w, i))).collect();
        let networks: Vec<Network> = tasks
            .into_par_iter()
            .map(|(family, width, fold)| {
                let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(fold as u64);
                let recipe = Recipe { family, width, seed };
                train(&self.rows, &folds[fold].0, self.k, &recipe, &ticker)
            })
            .collect::<Result<_>>()?;
        let fitted = what.iter().zip(networks.chunks(folds.len().max(1)));
        Ok(fitted.map(|(&(family, width), networks)| self.assess(family, width, networks.to_vec())).collect())
    }

    fn assess(&self, family: LossFamily, width: Width, networks: Vec<Network>) -> Fitted {
        let mut scores = Array2::<f32>::zeros((0, self.k));
        for (network, (_, out)) in networks.iter().zip(&self.folds.folds) {
            scores.append(ndarray::Axis(0), network.scores(&self.rows, out).view()).expect("K columns");
        }
        let calibration = calibrate(&self.points(&scores, link_of(family)));
        Fitted { family, width, networks, scores, calibration }
    }

    /// The held-out interactions with their log-odds according to `scores`.
    fn points(&self, scores: &Array2<f32>, link: ScoreLink) -> Vec<HeldOutPoint> {
        let mut points = Vec::new();
        for (i, &member) in self.folds.held_out.iter().enumerate() {
            let row: Vec<f64> = scores.row(i).iter().map(|&s| s as f64).collect();
            let context = self.rows.context(member);
            points.extend((0..context.actions.len()).map(|j| HeldOutPoint {
                log_odds: link.log_odds(&row, context.actions[j] as usize),
                reward: -context.costs[j],
                weight: context.weights[j],
            }));
        }
        points
    }

    /// Chooses the width that fits best out of sample. Uses the competing family alone if it fits at least as
    /// well as the separate one; otherwise averages both, which gives a more stable policy.
    fn combine(&self, fitted: &[Fitted]) -> (Scorer, String) {
        let best = fitted.iter().min_by(|a, b| a.calibration.loss.total_cmp(&b.calibration.loss));
        let width = best.map_or(0, |b| b.width);
        let of = |family: LossFamily| fitted.iter().find(|f| f.family == family && f.width == width);
        let shape = if width == 0 { "linear scores".into() } else { format!("a hidden layer of {width}") };
        match (of(LossFamily::Competing), of(LossFamily::Separate)) {
            (Some(a), Some(b)) if b.calibration.loss < a.calibration.loss => {
                let (wa, wb) = (0.5 * a.calibration.slope, 0.5 * b.calibration.slope);
                let scores = &a.scores * wa as f32 + &b.scores * wb as f32;
                let calibration = calibrate(&self.points(&scores, ScoreLink::Separate));
                let parts = vec![(a.networks.clone(), wa), (b.networks.clone(), wb)];
                let choice = format!(
                    "{shape}; actions modeled separately and as competing, averaged (out-of-sample loss {:.4} and {:.4})",
                    b.calibration.loss, a.calibration.loss
                );
                (Scorer { parts, scores, link: ScoreLink::Separate, calibration }, choice)
            }
            (Some(f), _) | (None, Some(f)) => {
                let choice = format!(
                    "{shape}; actions modeled as competing (out-of-sample loss {:.4})",
                    f.calibration.loss
                );
                let parts = vec![(f.networks.clone(), 1.0)];
                let scorer = Scorer {
                    parts,
                    scores: f.scores.clone(),
                    link: link_of(f.family),
                    calibration: f.calibration,
                };
                (scorer, choice)
            }
            (None, None) => unreachable!("both families are fitted at width 0"),
        }
    }

    /// One LIG policy from the weighted mean of the networks' scores.
    fn policy(&self, scorer: &Scorer) -> PolicyParams {
        let (features, mean) = scorer.merged(&self.rows);
        let mut policy = PolicyParams::Lig { mean, scale: 1.0, features };
        let sample: Vec<u32> = (0..self.rows.len().min(2000) as u32).collect();
        let norm = self.mean_norm(policy.features(), &sample);
        let gap = mean_gap(&scorer.scores);
        let near_greedy = NEAR_GREEDY * gap / norm;
        if let PolicyParams::Lig { scale, .. } = &mut policy {
            *scale = if near_greedy.is_finite() { near_greedy.clamp(1e-6, 1e6) } else { 1.0 };
        }
        policy
    }

    fn mean_norm(&self, features: &FeatureMap, members: &[u32]) -> f64 {
        let x = self.rows.features_of(members);
        let norms = super::numerics::product::norms(features.apply(x.view()).view());
        norms.iter().sum::<f64>() / norms.len().max(1) as f64
    }

    /// What the certify side's bets start from: the mean and variance of z of the greedy policy on contexts that its
    /// scores were not trained on.
    fn guesses(&self, log: &dyn LogSource, tau: f64, scorer: &Scorer) -> Result<(f64, Guess, Guess, String)> {
        let (control, tau, note) = match log.shape().capabilities.control_variate() {
            true => {
                (ControlVariate::CostModel, tau, "cost model as control variate, fixed on the learn side")
            }
            false => (ControlVariate::None, 0.0, "without π0(·|x): logged propensities only, no clipping"),
        };
        let guess = |kappa: u8| self.guess(&Rules { kappa, control, tau }, scorer);
        Ok((tau, guess(1)?, guess(0)?, note.into()))
    }

    fn guess(&self, rules: &Rules, scorer: &Scorer) -> Result<Guess> {
        let (mut plays, mut pi, mut costs) = (Vec::new(), vec![0.0; self.k], vec![0.0; self.k]);
        let mut z = Vec::new();
        for (i, &member) in self.folds.held_out.iter().enumerate() {
            let row: Vec<f64> = scorer.scores.row(i).iter().map(|&s| s as f64).collect();
            pi.fill(0.0);
            pi[greedy(&row)] = 1.0;
            scorer.score_calibration().costs(&row, &mut costs);
            let context = self.rows.context(member);
            let seen = Seen { n_actions: self.k, context, cost_model: Some(&costs) };
            plays.clear();
            let top = rules.plays(&seen, Played::All(&pi), &mut plays)?;
            let theta = shrunk(1.0, top, TRIAL, f64::from(rules.kappa));
            z.extend(plays.iter().map(|play| play.z(theta)));
        }
        let n = z.len().max(1) as f64;
        let mean = z.iter().sum::<f64>() / n;
        Ok(Guess { mean, variance: z.iter().map(|z| (z - mean) * (z - mean)).sum::<f64>() / n })
    }
}

fn greedy(scores: &[f64]) -> usize {
    (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0)
}

/// The mean difference between the two best scores.
fn mean_gap(scores: &Array2<f32>) -> f64 {
    let gap = |row: ndarray::ArrayView1<f32>| {
        let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
        for &s in row {
            if s > first {
                (first, second) = (s, first);
            } else if s > second {
                second = s;
            }
        }
        (first - second) as f64
    };
    scores.rows().into_iter().map(gap).sum::<f64>() / scores.nrows().max(1) as f64
}

/// A weighted sum of networks, each averaged over the folds.
struct Scorer {
    parts: Vec<(Vec<Network>, f64)>,
    /// The scores of the held-out contexts, out of sample.
    scores: Array2<f32>,
    link: ScoreLink,
    calibration: Calibration,
}

impl Scorer {
    fn score_calibration(&self) -> ScoreCalibration {
        let Calibration { offset, slope, .. } = self.calibration;
        ScoreCalibration { link: self.link, offset, slope }
    }

    /// Merges the networks into one feature map and one mean: linear heads are added, hidden layers are put
    /// side by side.
    fn merged(&self, rows: &Rows) -> (FeatureMap, Vec<Vec<f64>>) {
        let members: Vec<(&Network, f64)> = (self.parts.iter())
            .flat_map(|(networks, w)| networks.iter().map(move |n| (n, w / networks.len() as f64)))
            .collect();
        let Some((first, _)) = members.first() else {
            return (FeatureMap::Identity, Vec::new());
        };
        let mut features = first.features(rows);
        let k = first.head.ncols();
        let scaled =
            |row: ndarray::ArrayView1<f32>, w: f64| row.iter().map(|&v| v as f64 * w).collect::<Vec<f64>>();
        let FeatureMap::Hidden { weights, bias, .. } = &mut features else {
            let mut mean = vec![vec![0.0; k]; first.head.nrows()];
            for (network, w) in &members {
                for (to, from) in mean.iter_mut().zip(network.head.rows()) {
                    to.iter_mut().zip(from).for_each(|(to, &from)| *to += from as f64 * w);
                }
            }
            return (features, mean);
        };
        weights.iter_mut().for_each(Vec::clear);
        bias.clear();
        let (mut mean, mut constant) = (Vec::new(), vec![0.0; k]);
        for (network, w) in &members {
            let Some(layer) = &network.hidden else { continue };
            weights.iter_mut().zip(layer.weights.rows()).for_each(|(to, from)| to.extend(from.iter()));
            bias.extend_from_slice(&layer.bias);
            let last = network.head.nrows() - 1;
            mean.extend(network.head.rows().into_iter().take(last).map(|row| scaled(row, *w)));
            constant.iter_mut().zip(scaled(network.head.row(last), *w)).for_each(|(to, from)| *to += from);
        }
        mean.push(constant);
        (features, mean)
    }
}
