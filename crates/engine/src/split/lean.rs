//! Leaning toward the logging policy, docs/math.md#auto. Where the policy plays what π0 plays often, its certificate
//! is narrower. So a share of the linear fit of log π0(·|x) is added to the scores if the improvement that is
//! expected to be certified grows by it.

use std::sync::Arc;

use ndarray::Array2;
use rayon::prelude::*;

use super::network::Network;
use super::scorer::{Scorer, mean_gap};
use super::start::LoggingFit;
use super::{Learner, TRIAL, Target, calibrate, greedy};
use crate::bound::{ControlVariate, Played, Rules, Seen, shrunk};
use crate::error::Result;
use crate::numerics::elementary::ln;

/// The shares of log π0 that are tried, in units in which the mean gap between the two best actions is that of the
/// scores.
const SHARES: [f64; 4] = [0.25, 0.5, 1.0, 2.0];
/// With a smaller mean gap between the two best actions, log π0(·|x) is taken for uniform.
const SMALLEST_GAP: f64 = 0.01;
/// With more actions, the costs of all actions take too long to compute so often.
const MAX_ACTIONS: usize = 256;

impl Learner<'_> {
    /// The scores with the share of log π0 that promises most, and that share. `fits` has the fit of each fold.
    pub(super) fn lean(
        &self,
        scorer: Scorer,
        fits: &[Option<LoggingFit>],
        target: &Target,
    ) -> Result<(Scorer, f64)> {
        let fits: Option<Vec<Network>> = fits.iter().map(|fit| Some(fit.as_ref()?.network())).collect();
        let Some(fits) = fits.filter(|fits| !fits.is_empty() && self.k <= MAX_ACTIONS) else {
            return Ok((scorer, 0.0));
        };
        let logging = self.out_of_sample(&fits)?;
        let unit = mean_gap(&scorer.scores) / mean_gap(&logging);
        // With one action there is no gap. A fit of a nearly uniform π0 is rounding error.
        if !unit.is_finite() || mean_gap(&logging) < SMALLEST_GAP {
            return Ok((scorer, 0.0));
        }
        let (costs, fits) = (self.costs(&scorer), Arc::new(fits));
        let leaning = |share: f64| {
            let leaning = self.with_share(&scorer, share * unit, &fits, &logging);
            let promise = self.promise(&leaning, &costs, target)?;
            Ok((leaning, share, promise))
        };
        let tried: Vec<(Scorer, f64, f64)> = SHARES.into_par_iter().map(leaning).collect::<Result<_>>()?;
        let mut most = self.promise(&scorer, &costs, target)?;
        let mut chosen = (scorer, 0.0);
        for (leaning, share, promise) in tried {
            if promise > most {
                most = promise;
                chosen = (leaning, share);
            }
        }
        Ok(chosen)
    }

    fn with_share(
        &self,
        scorer: &Scorer,
        weight: f64,
        fits: &Arc<Vec<Network>>,
        logging: &Array2<f32>,
    ) -> Scorer {
        let mut scores = scorer.scores.clone();
        scores.scaled_add(weight as f32, logging);
        let mut parts = scorer.parts.clone();
        parts.push((Arc::clone(fits), weight));
        let calibration = calibrate(&self.points(&scores, scorer.link));
        Scorer { parts, scores, link: scorer.link, calibration }
    }

    /// ĉ of each held-out context.
    fn costs(&self, scorer: &Scorer) -> Array2<f64> {
        let calibration = scorer.score_calibration();
        let mut costs = scorer.scores.mapv(f64::from);
        for mut row in costs.rows_mut() {
            let scores = row.to_vec();
            calibration.costs(&scores, row.as_slice_mut().expect("standard"));
        }
        costs
    }

    /// The improvement that is expected to be certified for the greedy policy: its estimate, less the width of the
    /// interval. The estimate is the mean of the cost model's, which is not noisy, and of that of z, which is not
    /// biased. `costs` are those of the scores before leaning.
    fn promise(&self, scorer: &Scorer, costs: &Array2<f64>, target: &Target) -> Result<f64> {
        let rules = Rules { kappa: 1, control: ControlVariate::CostModel, tau: 0.0 };
        let calibration = scorer.score_calibration();
        let (mut z, mut pi, mut own) = (Vec::new(), vec![0.0; self.k], vec![0.0; self.k]);
        let (mut modeled, mut plays) = (0.0, Vec::new());
        self.rows.each(&self.folds.held_out, |i, context| {
            let row: Vec<f64> = scorer.scores.row(i).iter().map(|&s| s as f64).collect();
            let played = greedy(&row);
            pi.fill(0.0);
            pi[played] = 1.0;
            calibration.costs(&row, &mut own);
            let logged = context.full.into_iter().flatten().zip(costs.row(i));
            modeled += costs[(i, played)] - logged.map(|(p, c)| p * c).sum::<f64>();
            let seen = Seen { n_actions: self.k, context, cost_model: Some(&own) };
            plays.clear();
            let top = rules.plays(&seen, Played::All(&pi), &mut plays)?;
            let theta = shrunk(1.0, top, TRIAL, 1.0);
            z.extend(plays.iter().map(|play| play.z(theta)));
            Ok(())
        })?;
        let n = z.len().max(1) as f64;
        let mean = z.iter().sum::<f64>() / n;
        let variance = z.iter().map(|z| (z - mean) * (z - mean)).sum::<f64>() / n;
        let contexts = self.folds.held_out.len().max(1) as f64;
        let width = (2.0 * ln(1.0 / target.improvement_delta) * variance / target.contexts as f64).sqrt();
        Ok(-0.5 * (mean + modeled / contexts) - width)
    }
}
