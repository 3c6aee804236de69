//! Policies: their parameters, and what they play.

use guarantor_engine::certificate::StrictJson;
use guarantor_engine::log::Contexts;
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{AskedSets, ContextLimits, IngestLimits, contexts_of};
use ndarray::{Array2, ArrayView2, Axis};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use rayon::prelude::*;
use std::sync::Arc;

use crate::attend::{Wishes, attend};
use crate::errors::{Failure, Outcome, from_json, misuse, to_json};

/// The number of contexts that a thread scores at once.
const CHUNK: usize = 1024;

/// The parameters of a policy that JSON describes, checked.
pub fn params_of(text: &str) -> Outcome<PolicyParams> {
    let StrictJson(value) = from_json("policy", text)?;
    let params: PolicyParams =
        serde_json::from_value(value).map_err(|error| Failure::argument("policy", error))?;
    params.check()?;
    Ok(params)
}

/// A policy.
#[pyclass(frozen, module = "guarantor._native")]
pub struct Policy {
    params: Arc<PolicyParams>,
}

#[pymethods]
impl Policy {
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Self> {
        let params = params_of(text).map_err(|failure| failure.raise(py))?;
        Ok(Policy { params: Arc::new(params) })
    }

    #[getter]
    fn kind(&self, py: Python<'_>) -> PyResult<String> {
        to_json(&self.params.kind()).map_err(|failure| failure.raise(py))
    }

    #[getter]
    fn n_actions(&self) -> usize {
        self.params.n_actions()
    }

    #[getter]
    fn dim(&self) -> usize {
        self.params.dim()
    }

    #[getter]
    fn plays_sets(&self) -> bool {
        self.params.plays_sets()
    }

    #[getter]
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        self.params.digest().map_err(|error| Failure::from(error).raise(py))
    }

    /// The id that follows from the parameters.
    #[getter]
    fn id(&self, py: Python<'_>) -> PyResult<String> {
        self.params.id_of_content().map_err(|error| Failure::from(error).raise(py))
    }

    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        to_json(&*self.params).map_err(|failure| failure.raise(py))
    }

    /// Writes π(·|x) of each row of `x` to `out`: n×p single-precision numbers to n×K double-precision ones.
    fn propensities(&self, py: Python<'_>, x: PyBuffer<f32>, out: PyBuffer<f64>) -> PyResult<()> {
        let (x, params) = (matrix(py, &x)?, self.params.clone());
        let pi = attend(py, Wishes::default(), move |_| {
            let link = params.link();
            let chunks: Vec<ArrayView2<f32>> = x.axis_chunks_iter(Axis(0), CHUNK).collect();
            let scored = chunks.into_par_iter().map(|chunk| params.propensities_by(&*link, chunk));
            let scored = scored.collect::<guarantor_engine::Result<Vec<Array2<f64>>>>()?;
            Ok(scored.into_iter().flatten().collect::<Vec<f64>>())
        })?;
        if out.item_count() != pi.len() {
            return Err(misuse("the array for the propensities has another size"));
        }
        out.copy_from_slice(py, &pi)
    }

    /// Draws an action for each row of `x`.
    fn sample(&self, py: Python<'_>, x: PyBuffer<f32>, seed: u64) -> PyResult<(Vec<u32>, Vec<f64>)> {
        let (x, params) = (matrix(py, &x)?, self.params.clone());
        attend(py, Wishes::default(), move |_| Ok(params.sample(x.view(), seed)?.into_iter().unzip()))
    }

    /// π(·|x) of contexts with their own actions: `{"contexts": [{"x": …, "actions": […]}, …]}`.
    fn set_propensities(&self, py: Python<'_>, contexts: String) -> PyResult<Vec<Vec<f64>>> {
        let params = self.params.clone();
        attend(py, Wishes::default(), move |_| {
            let asked = sets_of(&params, &contexts)?;
            let pi = params.propensities(Contexts::Sets(asked.sets.view()))?;
            let row = |i: usize| pi.row(i).iter().copied().take(asked.sets.actions_of(i).len()).collect();
            Ok((0..pi.nrows()).map(row).collect())
        })
    }

    /// Draws an action for each of these contexts.
    fn set_sample(&self, py: Python<'_>, contexts: String, seed: u64) -> PyResult<(Vec<u32>, Vec<f64>)> {
        let params = self.params.clone();
        attend(py, Wishes::default(), move |_| {
            let asked = sets_of(&params, &contexts)?;
            let sets = Contexts::Sets(asked.sets.view());
            Ok(params.sample(sets, seed)?.into_iter().unzip())
        })
    }
}

fn matrix(py: Python<'_>, x: &PyBuffer<f32>) -> PyResult<Array2<f32>> {
    let [rows, columns] = x.shape() else { return Err(misuse("X must have two dimensions")) };
    let shape = (*rows, *columns);
    Array2::from_shape_vec(shape, x.to_vec(py)?).map_err(|error| misuse(&error.to_string()))
}

fn sets_of(params: &PolicyParams, contexts: &str) -> Outcome<AskedSets> {
    let limits = ContextLimits { row: IngestLimits::default(), actions: usize::MAX, non_zeros: usize::MAX };
    contexts_of(contexts.as_bytes(), params.set_features(), &limits)
        .map_err(|fault| Failure::argument(&fault.field, fault.message))
}
