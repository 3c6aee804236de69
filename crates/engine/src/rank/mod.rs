//! Learning from logs whose rows have their own actions (docs/math.md#sets). On the learn side, models of the reward of
//! (x, a) are fitted and compared out of sample. The best one becomes a nearly greedy policy over whatever set it is
//! given, and a cost model.
//!
//! The log is read chunk by chunk, twice: once for the features, once for the rows. What is kept is small and bounded.

mod assess;
mod fit;
mod known;
mod model;
mod rows;

use rayon::prelude::*;

use assess::{Assessed, choose};
use fit::{Fit, Steps, Task};
use known::Known;
use model::{Layout, Pairs};
use rows::{Limits, Rows};

use crate::bound::ControlVariate;
use crate::control::Control;
use crate::error::Result;
use crate::log::{ActionSets, Chunk, LogSource, SetsView, Side, Span, SparseVector};
use crate::policy::{ActionScorer, PairWeights, PolicyParams};
use crate::split::{NEAR_GREEDY, PartOne};

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
pub fn learn(log: &dyn LogSource, span: &Span, control: &Control) -> Result<PartOne> {
    learn_within(log, span, Limits::default(), control)
}

fn learn_within(log: &dyn LogSource, span: &Span, limits: Limits, control: &Control) -> Result<PartOne> {
    let reader = Reader { log, span };
    let known = Known::new(&reader, control)?;
    let rows = Rows::new(&reader, &known, limits, control)?;
    let capabilities = &log.shape().capabilities;
    let full = capabilities.control_variate();
    let variate = if full { ControlVariate::CostModel } else { ControlVariate::None };
    let spaces = capabilities.action_sets.unwrap_or_default();
    Learner { spaces, known, rows, variate, control }.learn()
}

struct Learner<'a> {
    spaces: ActionSets,
    known: Known,
    rows: Rows,
    variate: ControlVariate,
    control: &'a Control<'a>,
}

/// A form of the model with one fit per fold.
struct Family {
    layout: Layout,
    fits: Vec<Fit>,
    assessed: Assessed,
}

impl Learner<'_> {
    fn learn(self) -> Result<PartOne> {
        let mut layouts = vec![Layout::new(&self.known, false), Layout::new(&self.known, true)];
        layouts.dedup_by_key(|layout| layout.pairs);
        let count = layouts.len() * self.rows.folds();
        let steps = Steps::new(self.control, count * Steps::WHOLE + Steps::REFIT);
        let families: Vec<Family> =
            layouts.into_par_iter().map(|layout| self.family(layout, &steps)).collect::<Result<_>>()?;
        let trainings = count as u64 + 1;
        let (layouts, assessed): (Vec<_>, Vec<_>) =
            families.into_iter().map(|family| ((family.layout, family.fits), family.assessed)).unzip();
        let chosen = choose(&assessed);
        let choices = self.choices(&layouts, &assessed, chosen);
        let (layout, fits) = &layouts[chosen];
        let everything: Vec<u32> = (0..self.rows.len() as u32).collect();
        let task = Task { layout, rows: &self.rows, members: &everything };
        let fit = task.refit(fits, &steps)?;
        let assessed = &assessed[chosen];
        let gap = assessed.mean_gap(&self.rows.held_out);
        let guess = |kappa| assessed.guess(&self.rows, kappa, self.variate);
        Ok(PartOne {
            policy: self.policy(layout, &fit, gap),
            calibration: (self.variate == ControlVariate::CostModel).then_some(assessed.calibration),
            improvement: guess(1)?,
            risk: guess(0)?,
            choices,
            trainings,
        })
    }

    /// Fits one form of the model on each fold.
    fn family(&self, layout: Layout, steps: &Steps) -> Result<Family> {
        let fits: Vec<Fit> = (0..self.rows.folds())
            .into_par_iter()
            .map(|fold| {
                let members = self.rows.training(fold);
                Task { layout: &layout, rows: &self.rows, members: &members }.fit(steps)
            })
            .collect::<Result<_>>()?;
        let assessed = Assessed::new(self.held_out_scores(&layout, &fits), &self.rows, self.variate)?;
        Ok(Family { layout, fits, assessed })
    }

    /// The scores of every action of every held-out row, by the fit that left the row out.
    fn held_out_scores(&self, layout: &Layout, fits: &[Fit]) -> Vec<f64> {
        let out = &self.rows.held_out;
        let mut scores = Vec::with_capacity(out.actions.len());
        for (i, &row) in out.rows.iter().enumerate() {
            let fit = &fits[self.rows.fold(row).unwrap_or(0)];
            let x = self.rows.x.vector(row as usize);
            scores.extend(out.set(i).map(|a| layout.score(&fit.weights, x, out.actions.vector(a))));
        }
        scores
    }

    fn choices(&self, families: &[(Layout, Vec<Fit>)], assessed: &[Assessed], chosen: usize) -> Vec<String> {
        let name = |i: usize| match families[i].0.pairs {
            Pairs::None => "linear scores of the request's and the action's features".to_owned(),
            Pairs::Exact => "linear scores with pairs of a request's and an action's feature".to_owned(),
            Pairs::Hashed(bits) => format!("linear scores with pairs of features in 2^{bits} cells"),
        };
        let value = |i: usize| -assess::moments(&assessed[i].z).mean;
        let others: Vec<String> = (0..assessed.len())
            .filter(|&i| i != chosen)
            .map(|i| format!("{}: loss {:.4}, improvement {:.4}", name(i), assessed[i].loss, value(i)))
            .collect();
        let mut choices = vec![format!(
            "{}; on held-out rows: loss {:.4}, improvement {:.4} ({})",
            name(chosen),
            assessed[chosen].loss,
            value(chosen),
            others.join("; "),
        )];
        if self.rows.stride > 1 {
            choices.push(format!("one of every {} rows of the learn side was used", self.rows.stride));
        }
        choices.push(match self.variate {
            ControlVariate::CostModel => "cost model as control variate, fixed on the learn side".into(),
            _ => "without π0(·|x): logged propensities only, no control variate".to_owned(),
        });
        choices
    }

    /// The policy that plays the best action nearly always.
    fn policy(&self, layout: &Layout, fit: &Fit, gap: f64) -> PolicyParams {
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
        let inverse_temperature = 1.0 / (NEAR_GREEDY * gap);
        PolicyParams::ActionScorer(Box::new(ActionScorer {
            features: self.spaces,
            inverse_temperature: match inverse_temperature.is_finite() {
                true => inverse_temperature.clamp(1e-6, 1e6),
                false => 1.0,
            },
            constant: weights[0],
            x,
            actions,
            pairs,
            hidden: None,
        }))
    }
}
