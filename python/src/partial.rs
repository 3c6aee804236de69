//! Recipes, partials and their merge: certificates of logs that outgrow one machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatchReader;
use arrow_schema::ArrowError;
use guarantor_engine::partial::{FreezeRequest, MergeError, Partial, Recipe};
use guarantor_engine::spec::SpecRequest;
use guarantor_ingest::partials::{self, PartialFault, read_partial_batches};
use pyo3::prelude::*;

use crate::attend::{Wishes, attend};
use crate::capsule;
use crate::errors::{Failure, Outcome, from_json, to_json};
use crate::log::{CALLER, Log, PolicyTexts, policies_of};
use crate::options::trusted;
use crate::table::{Shaping, plain};

impl From<MergeError> for Failure {
    fn from(error: MergeError) -> Self {
        Failure::Merge(error)
    }
}

impl From<PartialFault> for Failure {
    fn from(fault: PartialFault) -> Self {
        match fault {
            PartialFault::File(error) => error.into(),
            PartialFault::Engine(error) => error.into(),
            PartialFault::Merge(error) => error.into(),
        }
    }
}

/// Freezes a recipe on a log that was read: canonical JSON, and its digest.
#[pyfunction]
#[pyo3(signature = (log, spec, policies, planned_rows, snapshot, threads = None, progress = None))]
#[expect(clippy::too_many_arguments, reason = "keywords of the Python half")]
pub fn freeze(
    py: Python<'_>,
    log: &Log,
    spec: String,
    policies: PolicyTexts,
    planned_rows: Option<u64>,
    snapshot: Option<String>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String)> {
    let log = log.log.clone();
    attend(py, Wishes { threads, progress }, move |control| {
        let request: SpecRequest = from_json("spec", &spec)?;
        let policies = policies_of(&policies)?;
        let spec = log.resolve(&request, &policies, CALLER)?;
        let sketch = Some(partials::encode(&log.summary().sketch));
        let request = FreezeRequest { spec: &spec, planned_rows, sketch };
        let mut recipe = Recipe::freeze(&log.inputs(&policies), &request, control)?;
        recipe.snapshot = snapshot;
        recipe.check()?;
        Ok((recipe.to_json()?, recipe.digest()?))
    })
}

/// The sums over one partition, as JSON.
#[pyfunction]
#[pyo3(signature = (data, recipe, partition, rename, features, threads = None))]
pub fn partial(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    recipe: String,
    partition: String,
    rename: BTreeMap<String, String>,
    features: Vec<String>,
    threads: Option<usize>,
) -> PyResult<String> {
    let (reader, shaping) = (capsule::import(data)?, Shaping { rename, features });
    attend(py, Wishes { threads, progress: None }, move |control| {
        let recipe = Arc::new(Recipe::from_json(&recipe)?);
        let schema =
            shaping.schema(&reader.schema()).map_err(|error| Failure::argument("data", plain(error)))?;
        let batches = reader.map(|batch| {
            control.check().map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
            shaping.apply(&batch?)
        });
        let summed = read_partial_batches(&schema, batches, None, &recipe, &partition, trusted(), control);
        Ok(summed?.to_json()?)
    })
}

/// The certificate of partials.
#[pyfunction]
#[pyo3(signature = (recipe, partials, expected_rows = None))]
pub fn merge(
    py: Python<'_>,
    recipe: String,
    partials: Vec<String>,
    expected_rows: Option<u64>,
) -> PyResult<String> {
    attend(py, Wishes::default(), move |_| {
        let recipe = Recipe::from_json(&recipe)?;
        let read = |text: &String| Ok(Partial::from_json(text)?);
        let partials = partials.iter().map(read).collect::<Outcome<Vec<Partial>>>()?;
        let (merged, _) = partials::merge(&recipe, partials, expected_rows)?;
        to_json(&merged.document()?)
    })
}
