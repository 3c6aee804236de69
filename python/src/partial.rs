//! Recipes, partials and their merge: certificates of logs that outgrow one machine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatchReader;
use arrow_schema::ArrowError;
use guarantor_engine::control::Control;
use guarantor_engine::partial::{FreezeRequest, MergeError, Partial, Recipe};
use guarantor_engine::spec::SpecRequest;
use guarantor_ingest::partials::{self, PartialFault, read_partial_batches};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use pyo3::prelude::*;

use crate::attend::{Wishes, attend};
use crate::capsule;
use crate::errors::{Failure, Outcome, from_json, to_json};
use crate::log::{CALLER, Log, PolicyTexts, policies_of};
use crate::options::trusted;
use crate::table::{Shaping, plain};

/// How many rows of a Parquet file are decoded at once.
const BATCH_ROWS: usize = 8192;

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
        summed(reader, &shaping, &recipe, &partition, control)
    })
}

/// The sums over some row groups of a Parquet file, as JSON.
#[pyfunction]
#[pyo3(signature = (path, groups, recipe, partition, rename, features, threads = None))]
#[expect(clippy::too_many_arguments, reason = "keywords of the Python half")]
pub fn partial_file(
    py: Python<'_>,
    path: PathBuf,
    groups: (usize, usize),
    recipe: String,
    partition: String,
    rename: BTreeMap<String, String>,
    features: Vec<String>,
    threads: Option<usize>,
) -> PyResult<String> {
    let shaping = Shaping { rename, features };
    attend(py, Wishes { threads, progress: None }, move |control| {
        let recipe = Arc::new(Recipe::from_json(&recipe)?);
        let reader = row_groups(&path, groups.0..groups.1, &shaping, &recipe)?;
        summed(reader, &shaping, &recipe, &partition, control)
    })
}

/// Those of these columns that the partial of a recipe depends on.
#[pyfunction]
pub fn columns_read(py: Python<'_>, recipe: &str, columns: Vec<String>) -> PyResult<Vec<String>> {
    let recipe = Recipe::from_json(recipe).map_err(|error| Failure::from(error).raise(py))?;
    Ok(columns.into_iter().filter(|name| partials::reads_column(&recipe, name)).collect())
}

/// The rows of row groups, without the columns that the recipe does not depend on.
fn row_groups(
    path: &Path,
    groups: Range<usize>,
    shaping: &Shaping,
    recipe: &Recipe,
) -> Outcome<ParquetRecordBatchReader> {
    let damaged = |error: ParquetError| Failure::argument(&path.display().to_string(), error);
    let file = File::open(path).map_err(|error| {
        let message = format!("{}: {error}", path.display());
        Failure::Python(io::Error::new(error.kind(), message).into())
    })?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(damaged)?;
    let is_read = |name: &str| {
        let field = shaping.rename.get(name).map_or(name, String::as_str);
        shaping.features.iter().any(|feature| feature == name) || partials::reads_column(recipe, field)
    };
    let roots = builder.parquet_schema().root_schema().get_fields().iter().enumerate();
    let used: Vec<usize> = roots.filter(|(_, root)| is_read(root.name())).map(|(i, _)| i).collect();
    let mask = ProjectionMask::roots(builder.parquet_schema(), used);
    let builder = builder.with_row_groups(groups.collect()).with_projection(mask);
    builder.with_batch_size(BATCH_ROWS).build().map_err(damaged)
}

/// The partial of a stream of batches.
fn summed(
    reader: impl RecordBatchReader,
    shaping: &Shaping,
    recipe: &Arc<Recipe>,
    partition: &str,
    control: &Control,
) -> Outcome<String> {
    let schema = shaping.schema(&reader.schema()).map_err(|error| Failure::argument("data", plain(error)))?;
    let batches = reader.map(|batch| {
        control.check().map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        shaping.apply(&batch?)
    });
    let partial = read_partial_batches(&schema, batches, None, recipe, partition, trusted(), control);
    Ok(partial?.to_json()?)
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
