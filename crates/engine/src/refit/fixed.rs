//! The same linear cost model, fitted once on rows that are not certified: the control variate of guardrails of
//! learned policies (docs/math.md#guardrails).

use super::{LinearModel, RANGES, Size, Sums, add_context, possible, size};
use crate::control::Control;
use crate::digest::digest_of;
use crate::error::{EngineError, Result};
use crate::log::ranges::at_most;
use crate::log::{Contexts, LogShape, LogSource};
use ndarray::Array2;
use rayon::prelude::*;

impl LinearModel {
    /// Fits a model on a log. None if the log has no features, too few contexts or too many actions.
    ///
    /// # Errors
    /// If the log cannot be read or the job is canceled.
    pub fn fit(log: &dyn LogSource, control: &Control) -> Result<Option<LinearModel>> {
        if !possible(log.shape()) {
            return Ok(None);
        }
        let Size { d, models } = size(log.shape());
        let empty = || vec![Sums::new(d); models];
        let parts: Vec<Vec<Sums>> = at_most(RANGES, log.chunks())
            .into_par_iter()
            .map(|range| {
                let (mut sums, mut x) = (empty(), vec![0.0; d]);
                for index in range {
                    control.check()?;
                    let chunk = log.chunk(index)?;
                    chunk.check(log.shape())?;
                    for c in 0..chunk.contexts() {
                        add_context(&mut sums, &chunk, c, &mut x);
                    }
                }
                Ok(sums)
            })
            .collect::<Result<_>>()?;
        let mut total = empty();
        for part in &parts {
            total.iter_mut().zip(part).for_each(|(total, part)| total.add(part));
        }
        let model = LinearModel::fitted(&total);
        // Features may be so large that their squares overflow. Such a model could not be stored.
        Ok(model.is_finite().then_some(model))
    }

    fn is_finite(&self) -> bool {
        let rows = [&self.center, &self.inverse_scale].into_iter().chain(&self.weights);
        rows.flatten().all(|number| number.is_finite())
    }

    /// # Errors
    /// If a parameter is not finite.
    pub fn digest(&self) -> Result<String> {
        digest_of(self)
    }

    /// Checks that the model is one of logs with this shape.
    ///
    /// # Errors
    /// If it is not, or a parameter is not finite.
    pub fn check(&self, shape: &LogShape) -> Result<()> {
        let Size { d, models } = size(shape);
        let fits = self.center.len() == d
            && self.inverse_scale.len() == d
            && self.weights.len() == models
            && self.weights.iter().all(|weights| weights.len() == d);
        if fits && self.is_finite() {
            return Ok(());
        }
        Err(EngineError::Log("a cost model does not have the log's shape".into()))
    }

    /// ĉ(x, ·) of each context. The model must have passed [`Self::check`].
    pub fn costs_of(&self, contexts: Contexts) -> Array2<f64> {
        let k = match contexts {
            Contexts::Fixed(_) => self.weights.len(),
            Contexts::Sets(sets) => sets.width(),
        };
        let mut out = Array2::from_elem((contexts.len(), k), -1.0);
        let mut scratch = vec![0.0; self.center.len()];
        for (i, mut out) in out.rows_mut().into_iter().enumerate() {
            self.context_costs(contexts, i, &mut scratch, out.as_slice_mut().expect("row-major"));
        }
        out
    }
}
