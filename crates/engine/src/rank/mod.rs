//! Learning from logs whose rows have their own actions (docs/math.md#sets). On the learn side, models of the reward of
//! (x, a) are fitted and compared out of sample. The best one becomes a nearly greedy policy over whatever set it is
//! given, and a cost model.
//!
//! The log is read chunk by chunk, twice: once for the features, once for the rows. What is kept is small and bounded.

mod assess;
mod fit;
mod hidden;
mod known;
mod model;
mod rows;

#[cfg(test)]
mod tests;

use rayon::prelude::*;

use assess::{Assessed, choose};
use fit::{Fit, Steps, Task};
use hidden::Hidden;
use known::Known;
pub use known::MAX_CONSIDERED;
use model::{Layout, Pairs};
use rows::{Limits, Rows};
pub use rows::{MAX_HELD_OUT, MAX_HELD_OUT_NON_ZEROS, MAX_NON_ZEROS, MAX_ROWS};

use crate::bound::ControlVariate;
use crate::control::Control;
use crate::error::Result;
use crate::log::{ActionSets, Chunk, LogSource, SetsView, Side, Span, SparseVector};
use crate::policy::{ActionScorer, PairWeights, PolicyParams};
use crate::split::{NEAR_GREEDY, PartOne, moments};

/// With fewer rows there is no hidden layer.
const LEAST_DEEP: usize = 2000;

/// The rows of the learn side, read chunk by chunk.
struct Reader<'a> {
    log: &'a dyn LogSource,
    span: &'a Span,
}

/// One row with its set.
struct Row<'a> {
    chunk: &'a Chunk<'a>,
    sets: SetsView<'a>,
    at: usize,
}

impl Reader<'_> {
    /// Calls `f` with each row of the learn side, in the log's order.
    fn each(&self, control: &Control, mut f: impl FnMut(Row)) -> Result<()> {
        for index in 0..self.log.chunks() {
            control.check()?;
            let chunk = self.log.chunk(index)?;
            chunk.check(self.log.shape())?;
            let Some(sets) = &chunk.sets else { continue };
            let sets = sets.view();
            for at in (0..chunk.contexts()).filter(|&c| self.span.side(&chunk, c) == Some(Side::Learn)) {
                f(Row { chunk: &chunk, sets, at });
            }
        }
        Ok(())
    }
}

impl<'a> Row<'a> {
    fn x(&self) -> SparseVector<'a> {
        self.sets.x(self.at)
    }

    fn size(&self) -> usize {
        self.sets.size(self.at)
    }

    fn action(&self, a: usize) -> SparseVector<'a> {
        self.sets.action(self.at, a)
    }

    fn logged(&self) -> u32 {
        self.chunk.actions[self.at]
    }

    fn logged_action(&self) -> SparseVector<'a> {
        self.action(self.logged() as usize)
    }

    fn cost(&self) -> f64 {
        self.chunk.costs[self.at]
    }

    fn propensity(&self) -> f64 {
        self.chunk.propensities[self.at]
    }

    /// π0(·|x) over the row's set.
    fn full(&self) -> Option<impl Iterator<Item = f64>> {
        let full = self.chunk.full.as_ref()?;
        Some((0..self.size()).map(|a| full[(self.at, a)]))
    }
}

/// Learns on the learn side of a log whose rows have their own actions.
///
/// # Errors
/// If the log cannot be read or the job is canceled.
pub fn learn(log: &dyn LogSource, span: &Span, seed: u64, control: &Control) -> Result<PartOne> {
    learn_within(log, span, seed, Limits::default(), control)
}

fn learn_within(
    log: &dyn LogSource,
    span: &Span,
    seed: u64,
    limits: Limits,
    control: &Control,
) -> Result<PartOne> {
    let reader = Reader { log, span };
    let known = Known::new(&reader, control)?;
    let rows = Rows::new(&reader, &known, limits, control)?;
    let capabilities = &log.shape().capabilities;
    let full = capabilities.control_variate();
    let variate = if full { ControlVariate::CostModel } else { ControlVariate::None };
    let spaces = capabilities.action_sets.unwrap_or_default();
    Learner { spaces, known, rows, variate, seed, control }.learn()
}

struct Learner<'a> {
    spaces: ActionSets,
    known: Known,
    rows: Rows,
    variate: ControlVariate,
    seed: u64,
    control: &'a Control<'a>,
}

/// A form of the model: a linear one, or one with a hidden layer on top. It has one fit per fold.
struct Family<'a> {
    layout: &'a Layout,
    fits: Vec<Fit>,
    layers: Option<Vec<Hidden>>,
    assessed: Assessed,
}

impl Learner<'_> {
    fn learn(self) -> Result<PartOne> {
        let linear = Layout::new(&self.known, false);
        let pairs = Some(Layout::new(&self.known, true)).filter(|layout| layout.pairs != Pairs::None);
        let layouts: Vec<&Layout> = [&linear].into_iter().chain(&pairs).collect();
        let folds = self.rows.folds();
        let (x, actions) = linear.sizes();
        let deep = hidden::possible(x, actions) && self.rows.len() >= LEAST_DEEP;
        let deep_steps = if deep { folds * hidden::steps(self.rows.len()) } else { 0 };
        let steps =
            Steps::new(self.control, layouts.len() * folds * Steps::WHOLE + Steps::REFIT + deep_steps);
        let mut families: Vec<Family> =
            layouts.into_par_iter().map(|layout| self.linear(layout, &steps)).collect::<Result<_>>()?;
        if let (true, Some(last)) = (deep, families.last()) {
            families.extend(self.with_layers(last, &steps)?);
        }
        let trainings = (families.len() * folds + 1) as u64;
        let chosen = choose(families.iter().map(|family| &family.assessed));
        let choices = self.choices(&families, chosen);
        let (policy, family) = (self.policy(&families[chosen], &steps)?, &families[chosen]);
        let plays = family.assessed.z.clone();
        Ok(PartOne {
            policy,
            calibration: (self.variate == ControlVariate::CostModel).then_some(family.assessed.calibration),
            improvement: moments(&plays),
            risk: family.assessed.risk(&self.rows, self.variate)?,
            plays,
            foreseen: family.assessed.foreseen(&self.rows.held_out, self.variate)?,
            choices,
            trainings,
        })
    }

    /// Fits a linear model on each fold.
    fn linear<'a>(&self, layout: &'a Layout, steps: &Steps) -> Result<Family<'a>> {
        let fit = |fold: usize| {
            let members = self.rows.training(fold);
            Task { layout, rows: &self.rows, members: &members }.fit(steps)
        };
        let folds = 0..self.rows.folds();
        let fits = match layout.is_large() {
            true => folds.map(fit).collect::<Result<_>>()?,
            false => folds.into_par_iter().map(fit).collect::<Result<_>>()?,
        };
        self.assessed(layout, fits, None)
    }

    /// Trains hidden layers on top of a linear model. None if the first one does not lower the loss out of sample.
    fn with_layers<'a>(&self, on: &Family<'a>, steps: &Steps) -> Result<Option<Family<'a>>> {
        let first = self.layer(on.layout, &on.fits[0], &self.rows.training(0), 0, steps)?;
        let out = self.rows.left_out(0);
        let base = self.logged_scores(on.layout, &on.fits[0], &out);
        if first.change_of_loss(&self.rows, &out, &base) >= 0.0 {
            return Ok(None);
        }
        let others: Vec<Hidden> = (1..self.rows.folds())
            .into_par_iter()
            .map(|fold| self.layer(on.layout, &on.fits[fold], &self.rows.training(fold), fold as u64, steps))
            .collect::<Result<_>>()?;
        let layers = [first].into_iter().chain(others).collect();
        Ok(Some(self.assessed(on.layout, on.fits.clone(), Some(layers))?))
    }

    fn layer(&self, layout: &Layout, fit: &Fit, members: &[u32], salt: u64, steps: &Steps) -> Result<Hidden> {
        let base = self.logged_scores(layout, fit, members);
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(salt);
        Hidden::train(&self.rows, layout.sizes(), members, &base, seed, steps)
    }

    /// The scores of the logged actions of some rows by a linear model.
    fn logged_scores(&self, layout: &Layout, fit: &Fit, members: &[u32]) -> Vec<f32> {
        let score = |&row: &u32| {
            let (x, action) = (self.rows.x.vector(row as usize), self.rows.actions.vector(row as usize));
            layout.score(&fit.weights, x, action) as f32
        };
        members.par_iter().map(score).collect()
    }

    /// Assesses a family by the scores of every action of every held-out row, each by the fit that left the row out.
    fn assessed<'a>(
        &self,
        layout: &'a Layout,
        fits: Vec<Fit>,
        layers: Option<Vec<Hidden>>,
    ) -> Result<Family<'a>> {
        let out = &self.rows.held_out;
        let mut scores = Vec::with_capacity(out.actions.len());
        for (i, &row) in out.rows.iter().enumerate() {
            let fold = self.rows.fold(row).unwrap_or(0);
            let x = self.rows.x.vector(row as usize);
            for a in out.set(i) {
                let action = out.actions.vector(a);
                let deep = layers.as_ref().map_or(0.0, |layers| layers[fold].score(x, action));
                scores.push(layout.score(&fits[fold].weights, x, action) + deep);
            }
        }
        let assessed = Assessed::new(scores, &self.rows, self.variate)?;
        Ok(Family { layout, fits, layers, assessed })
    }

    fn choices(&self, families: &[Family], chosen: usize) -> Vec<String> {
        let described = |family: &Family| {
            let value = -moments(&family.assessed.z).mean;
            format!("{} (loss {:.4}, improvement {value:.4})", family.name(), family.assessed.loss)
        };
        let others: Vec<String> =
            (0..families.len()).filter(|&i| i != chosen).map(|i| described(&families[i])).collect();
        let mut choices = vec![format!("scores: {}", described(&families[chosen]))];
        if !others.is_empty() {
            choices.push(format!("not chosen on held-out rows: {}", others.join("; ")));
        }
        if self.rows.stride > 1 {
            choices.push(format!("one of every {} rows of the learn side was used", self.rows.stride));
        }
        choices.push(match self.variate {
            ControlVariate::CostModel => "cost model as control variate, fixed on the learn side".into(),
            _ => "without π0(·|x): logged propensities only, no control variate".to_owned(),
        });
        choices
    }

    /// The policy of the chosen family, which plays its best action nearly always. A linear model is fitted to all rows.
    /// Models with a hidden layer are averaged, because the mean of several is better than one.
    fn policy(&self, family: &Family, steps: &Steps) -> Result<PolicyParams> {
        let layout = family.layout;
        let everything: Vec<u32> = (0..self.rows.len() as u32).collect();
        let fit = match family.layers {
            Some(_) => fit::mean_of(&family.fits),
            None => Task { layout, rows: &self.rows, members: &everything }.refit(&family.fits, steps)?,
        };
        let (mut x, mut actions) = (self.known.x.clone(), self.known.actions.clone());
        let weights = &fit.weights;
        x.iter_mut().zip(&weights[1..]).for_each(|(feature, w)| feature.weight = *w);
        let first = layout.first_action();
        actions.iter_mut().zip(&weights[first..]).for_each(|(feature, w)| feature.weight = *w);
        let cells = || (0u32..).zip(&weights[layout.first_pair()..]).filter(|(_, w)| **w as f32 != 0.0);
        let pairs = (layout.pairs != Pairs::None).then(|| PairWeights {
            bits: if let Pairs::Hashed(bits) = layout.pairs { Some(bits) } else { None },
            cells: cells().map(|(cell, _)| cell).collect(),
            weights: cells().map(|(_, w)| *w as f32).collect(),
        });
        let inverse_temperature = 1.0 / (NEAR_GREEDY * family.assessed.mean_gap(&self.rows.held_out));
        Ok(PolicyParams::ActionScorer(Box::new(ActionScorer {
            features: self.spaces,
            inverse_temperature: match inverse_temperature.is_finite() {
                true => inverse_temperature.clamp(1e-6, 1e6),
                false => 1.0,
            },
            constant: weights[0],
            x,
            actions,
            pairs,
            hidden: family.layers.as_ref().map(|layers| hidden::mean_of(layers)),
        })))
    }
}

impl Family<'_> {
    fn name(&self) -> String {
        let linear = match self.layout.pairs {
            Pairs::None => "linear in the features of request and action".to_owned(),
            Pairs::Exact => "linear with pairs of a request's and an action's feature".to_owned(),
            Pairs::Hashed(bits) => format!("linear with pairs of features in 2^{bits} cells"),
        };
        match self.layers {
            Some(_) => format!("{linear}, and a hidden layer of {}", hidden::UNITS),
            None => linear,
        }
    }
}
