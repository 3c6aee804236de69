//! `/v1/datasets`: logs of the deployed policy.

mod body;
mod by_reference;
mod content;
mod create;
mod digest;
mod form;
mod ledger;
mod options;
mod versions;

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::auth::Caller;
use super::codes::Code;
use super::etag::{json, tagged};
use super::extract::{Id, Nothing, Params};
use super::page::{ListParams, ListView, listed};
use super::problem::Problem;
use crate::store::{Dataset, DatasetId, PolicyId, StoreError, Timestamp, Workspace};
use guarantor_engine::log::{Capabilities, Logging, NamedOutcome, Outcome, Repetitions};
use guarantor_ingest::Health;

pub use options::limits;

/// The routes of datasets.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, create::create))
        .routes(routes!(read, delete))
        .routes(routes!(create::append))
        .routes(routes!(create::add_candidates))
        .routes(routes!(ledger::ledger))
        .routes(routes!(versions::versions))
}

/// A dataset at its newest version.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Dataset)]
pub struct DatasetView {
    #[schema(value_type = String, format = "uuid")]
    id: DatasetId,
    name: Option<String>,
    #[schema(value_type = String, format = "date-time")]
    created_at: Timestamp,
    /// 1 after the upload, one more after each append and each addition of candidates.
    version: u64,
    /// The number of logged interactions.
    rows: u64,
    /// The number of distinct contexts; fewer than rows if contexts have several interactions.
    contexts: u64,
    /// K.
    n_actions: usize,
    /// p, the number of features of a context.
    dim: usize,
    /// The kind and range of the outcome; of the primary one if there are several.
    outcome: Outcome,
    /// All outcomes, if they have names; first the primary one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outcomes: Vec<NamedOutcome>,
    /// SHA-256 of the rows.
    digest: String,
    /// The size of the stored log.
    bytes: u64,
    #[schema(value_type = Option<String>, format = "uuid")]
    logging_policy_id: Option<PolicyId>,
    /// Whether the caller states that one policy logged every row (`fixed`).
    logging: Logging,
    /// What the caller states about rows with the same `context_id`.
    repetitions: Repetitions,
    /// Whether the caller states that propensities with few digits are exact.
    exact_propensities: bool,
    /// Whether the rows stay in the objects that the dataset was created from, which are pinned: every job reads them
    /// again. `GET /v1/imports/{id}/objects` lists them.
    pinned: bool,
    ledger: LedgerShare,
    capabilities: Capabilities,
    #[schema(value_type = Health)]
    health: serde_json::Value,
}

/// Who shares the dataset's ledger.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct LedgerShare {
    /// The other datasets of the workspace with some of the same rows, deleted ones included, the first hundred of
    /// them. Looks at any of them are looks at these rows.
    #[schema(value_type = Vec<String>)]
    shared_with: BTreeSet<DatasetId>,
    /// What that means, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl LedgerShare {
    fn of(datasets: u64, shared_with: BTreeSet<DatasetId>) -> Self {
        let note = match datasets.saturating_sub(1) {
            0 => None,
            1 => Some("1 other dataset has".to_owned()),
            n => Some(format!("{n} other datasets have")),
        };
        let note = note.map(|who| {
            format!(
                "{who} some of the same rows. Their looks count together, and a policy that was learned from one of \
                 them cannot be certified on another. Upload only new rows, or append them."
            )
        });
        LedgerShare { shared_with, note }
    }
}

impl From<Dataset> for DatasetView {
    fn from(dataset: Dataset) -> Self {
        DatasetView {
            id: dataset.id,
            created_at: dataset.created_at,
            version: dataset.version,
            bytes: dataset.bytes(),
            pinned: dataset.is_pinned(),
            name: dataset.name,
            logging_policy_id: dataset.logging_policy_id,
            logging: dataset.logging,
            repetitions: dataset.repetitions,
            exact_propensities: dataset.exact_propensities,
            ledger: LedgerShare::of(dataset.ledger_datasets, dataset.shares_ledger_with),
            rows: dataset.content.rows,
            contexts: dataset.content.contexts,
            n_actions: dataset.content.n_actions,
            dim: dataset.content.dim,
            outcome: dataset.content.outcome,
            outcomes: dataset.content.capabilities.outcomes.clone(),
            digest: dataset.content.digest,
            capabilities: dataset.content.capabilities,
            health: dataset.content.health,
        }
    }
}

/// List datasets, newest first.
#[utoipa::path(get, path = "/v1/datasets", tag = "Datasets", operation_id = "list_datasets", params(ListParams),
    responses((status = 200, description = "A page of datasets", body = ListView<DatasetView>)))]
async fn list(
    State(app): State<App>,
    Caller(workspace): Caller,
    Params(params): Params<ListParams>,
) -> Result<Json<ListView<DatasetView>>, Problem> {
    Ok(listed(app.store.repository().datasets(&workspace, &params.page()?).await?))
}

/// Get a dataset.
#[utoipa::path(get, path = "/v1/datasets/{id}", tag = "Datasets", operation_id = "get_dataset",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The dataset", body = DatasetView),
              (status = 304, description = "Unchanged since the version in `If-None-Match`")))]
async fn read(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<DatasetId>,
    Params(_): Params<Nothing>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let dataset = app.store.repository().dataset(&workspace, id).await?;
    // Other datasets may join the ledger without changing this one.
    let tag = format!("{}-{}", dataset.revision, dataset.ledger_datasets);
    tagged(&headers, tag, || json(&DatasetView::from(dataset)))
}

/// Delete a dataset. Certificates that were computed from it remain, but can no longer be recomputed.
#[utoipa::path(delete, path = "/v1/datasets/{id}", tag = "Datasets", operation_id = "delete_dataset",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 204, description = "Deleted"),
              (status = 409, description = "`in_use`: an unfinished job uses it")))]
async fn delete(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<DatasetId>,
    Params(_): Params<Nothing>,
) -> Result<StatusCode, Problem> {
    app.store.delete_dataset(&workspace, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Checks that a dataset has rows.
///
/// # Errors
/// If it was merged from partials, whose rows are elsewhere.
pub fn require_rows(dataset: &Dataset, field: &str) -> Result<(), Problem> {
    if !dataset.is_merged() {
        return Ok(());
    }
    let message = "was merged from partials, so its rows are not here; merge other partials with POST /v1/partials, or \
                   upload the rows as a dataset";
    Err(Problem::field(Code::NotForThisKind, field, message))
}

/// Checks that rows and candidates can be added to a dataset.
///
/// # Errors
/// If its rows stay in the objects that it was created from.
fn require_own_rows(dataset: &Dataset) -> Result<(), Problem> {
    if !dataset.is_pinned() {
        return Ok(());
    }
    let message = "has its rows in pinned objects, so nothing can be added to it; create another dataset from all of the \
                   objects, or one with `materialize: true`, which can be added to";
    Err(Problem::field(Code::NotForThisKind, "id", message))
}

/// The dataset that a body names.
///
/// # Errors
/// `unknown_dataset` if there is none.
pub async fn find_dataset(app: &App, workspace: &Workspace, id: &str) -> Result<Dataset, Problem> {
    let unknown = || {
        let message = format!("no dataset has the id {id:?}; upload one with POST /v1/datasets");
        Problem::field(Code::UnknownDataset, "dataset_id", message)
    };
    let id: DatasetId = id.parse().map_err(|_| unknown())?;
    match app.store.repository().dataset(workspace, id).await {
        Err(StoreError::NotFound(..)) => Err(unknown()),
        dataset => Ok(dataset?),
    }
}
