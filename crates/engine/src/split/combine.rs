//! Which score functions become the policy, and with which weights.

use std::sync::Arc;

use ndarray::Array2;
use rayon::prelude::*;

use super::calibrate::calibrate;
use super::network::LossFamily;
use super::scorer::Scorer;
use super::{Fitted, Learner, link_of};

/// The largest number of score functions that are averaged, with repetitions.
const AVERAGED: usize = 5;

impl Learner<'_> {
    /// Averages score functions of the family that fits best out of sample. Starts from the best one and adds
    /// whichever lowers the loss of the average most, until none does (Caruana et al., 2004). Families are not
    /// mixed: where rewards are rare, the scores of the competing family follow what π0 plays.
    pub(super) fn combine(&self, fitted: &[Fitted]) -> (Scorer, String) {
        let loss = |f: &&Fitted| f.calibration.loss;
        let best =
            fitted.iter().min_by(|a, b| loss(a).total_cmp(&loss(b))).expect("both families are fitted");
        let family = best.recipe.family;
        let peers: Vec<&Fitted> = fitted.iter().filter(|f| f.recipe.family == family).collect();
        let mut counts: Vec<usize> = peers.iter().map(|f| usize::from(std::ptr::eq(*f, best))).collect();
        let mut average = self.average(&peers, &counts);
        for _ in 1..AVERAGED {
            let with = |i: usize| {
                let mut counts = counts.clone();
                counts[i] += 1;
                (self.average(&peers, &counts), counts)
            };
            let tried: Vec<(Scorer, Vec<usize>)> = (0..peers.len()).into_par_iter().map(with).collect();
            let loss = |(scorer, _): &(Scorer, Vec<usize>)| scorer.calibration.loss;
            match tried.into_iter().min_by(|a, b| loss(a).total_cmp(&loss(b))) {
                Some((next, more)) if next.calibration.loss < average.calibration.loss => {
                    (average, counts) = (next, more);
                }
                _ => break,
            }
        }
        let parts = peers.iter().zip(&counts).filter(|(_, count)| **count > 0);
        let parts: Vec<String> = parts.map(|(f, count)| f.recipe.described(*count)).collect();
        let modeled = match family {
            LossFamily::Competing => "as competing",
            LossFamily::Separate => "separately",
        };
        let other = fitted.iter().filter(|f| f.recipe.family != family).map(|f| f.calibration.loss);
        let choice = format!(
            "actions modeled {modeled}, {} (out-of-sample loss {:.4}; the other way {:.4})",
            parts.join(" and "),
            average.calibration.loss,
            other.fold(f64::INFINITY, f64::min)
        );
        (average, choice)
    }

    /// The mean of calibrated score functions of one family, each as often as `counts` says.
    fn average(&self, peers: &[&Fitted], counts: &[usize]) -> Scorer {
        let total = counts.iter().sum::<usize>().max(1) as f64;
        let mut scores = Array2::<f32>::zeros((self.folds.held_out.len(), self.k));
        let mut parts = Vec::new();
        for (fitted, &count) in peers.iter().zip(counts).filter(|(_, count)| **count > 0) {
            // A slope of 0 says that the scores predict nothing; the scores of the policy must not all be 0.
            let weight = count as f64 / total * fitted.calibration.slope.max(1e-3);
            scores.scaled_add(weight as f32, &fitted.scores);
            parts.push((Arc::clone(&fitted.networks), weight));
        }
        let link = link_of(peers.first().map_or(LossFamily::Competing, |f| f.recipe.family));
        let calibration = calibrate(&self.points(&scores, link));
        Scorer { parts, scores, link, calibration }
    }
}
