//! `/v1/imports`: logs by reference that are read, or were. `POST /v1/datasets` creates them.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::auth::Caller;
use super::etag::{json, tagged};
use super::extract::{Id, Nothing, Params};
use super::jobs::{POLL_AGAIN, wait_of};
use super::page::{ListParams, ListView, listed};
use super::problem::Problem;
use crate::store::{
    DatasetId, Import, ImportFailure, ImportProgress, JobStatus, ReadObject, Timestamp, Workspace,
};
use guarantor_ingest::Format;

/// The routes of imports.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(read))
        .routes(routes!(objects))
        .routes(routes!(cancel))
}

/// A log by reference that is read by a worker. Its dataset exists once it has succeeded.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Import)]
pub struct ImportView {
    /// The id of the import, and of its dataset.
    #[schema(value_type = String, format = "uuid")]
    id: DatasetId,
    status: JobStatus,
    /// Who submitted it: the name and the id of the API key, or `anonymous`.
    submitted_by: String,
    #[schema(value_type = String, format = "date-time")]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = "date-time", required)]
    started_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = "date-time", required)]
    finished_at: Option<Timestamp>,
    /// How many times it was started: 1, unless an attempt was interrupted.
    attempt: u32,
    /// The name of the dataset.
    #[schema(required)]
    name: Option<String>,
    /// The addresses.
    uris: Vec<String>,
    format: Format,
    /// Whether the rows are copied, or the objects pinned.
    materialize: bool,
    /// How much was read.
    #[schema(required)]
    progress: Option<ImportProgress>,
    /// Why it failed.
    #[schema(required)]
    error: Option<ImportFailure>,
}

impl From<Import> for ImportView {
    fn from(import: Import) -> Self {
        ImportView {
            id: import.id,
            status: import.status,
            submitted_by: import.submitted_by,
            created_at: import.created_at,
            started_at: import.started_at,
            finished_at: import.finished_at,
            attempt: import.attempt,
            name: import.request.name,
            uris: import.request.uris,
            format: import.request.format,
            materialize: import.request.materialize,
            progress: import.progress,
            error: import.failure,
        }
    }
}

/// List imports, newest first.
#[utoipa::path(get, path = "/v1/imports", tag = "Datasets", operation_id = "list_imports", params(ListParams),
    responses((status = 200, description = "A page of imports", body = ListView<ImportView>)))]
async fn list(
    State(app): State<App>,
    Caller(workspace): Caller,
    Params(params): Params<ListParams>,
) -> Result<Json<ListView<ImportView>>, Problem> {
    Ok(listed(app.store.repository().imports(&workspace, &params.page()?).await?))
}

/// The query parameters of a request for an import.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ImportReadParams {
    /// How many seconds to wait for the import to end before responding.
    #[param(minimum = 0, maximum = 60)]
    wait: Option<u64>,
}

/// Get an import, or wait until it ends.
#[utoipa::path(get, path = "/v1/imports/{id}", tag = "Datasets", operation_id = "get_import",
    params(("id" = String, Path, format = "uuid"), ImportReadParams),
    responses((status = 200, description = "The import, with `Retry-After` while it has not ended", body = ImportView,
               headers(("etag" = String, description = "Changes when the import does"),
                       ("retry-after" = Option<u32>, description = "Seconds, while it has not ended"))),
              (status = 304, description = "Unchanged since the version in `If-None-Match`")))]
async fn read(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<DatasetId>,
    Params(params): Params<ImportReadParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let wait = wait_of(&app, params.wait)?;
    let import = wait_for_end(&app, &workspace, id, Duration::from_secs(wait)).await?;
    let finished = import.status.is_finished();
    let mut response = tagged(&headers, import.revision, || json(&ImportView::from(import)))?;
    if !finished {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(POLL_AGAIN.as_secs()));
    }
    Ok(response)
}

/// The import once it has ended, or as it is when `wait` is over or the server shuts down.
async fn wait_for_end(
    app: &App,
    workspace: &Workspace,
    id: DatasetId,
    wait: Duration,
) -> Result<Import, Problem> {
    tokio::select! {
        import = app.queue.wait_for_import(workspace, id, wait) => Ok(import?),
        _ = app.drained() => Ok(app.store.repository().import(workspace, id).await?),
    }
}

/// The objects that an import has read.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ImportObjects)]
struct ObjectsView {
    /// In the order of the log. None if the import has not succeeded.
    data: Vec<ReadObject>,
}

/// Get the objects that an import has read, with what identifies their bytes.
#[utoipa::path(get, path = "/v1/imports/{id}/objects", tag = "Datasets", operation_id = "get_import_objects",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The objects", body = ObjectsView)))]
async fn objects(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<DatasetId>,
    Params(_): Params<Nothing>,
) -> Result<Json<ObjectsView>, Problem> {
    let data = app.store.repository().import_objects(&workspace, id).await?;
    Ok(Json(ObjectsView { data }))
}

/// Cancel an import. A queued one ends at once, a running one within a second, and nothing is stored. Canceling a
/// canceled import changes nothing.
#[utoipa::path(post, path = "/v1/imports/{id}/cancel", tag = "Datasets", operation_id = "cancel_import",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The import, canceled or about to be", body = ImportView),
              (status = 409, description = "`import_finished`: the import has already succeeded or failed")))]
async fn cancel(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<DatasetId>,
    Params(_): Params<Nothing>,
) -> Result<Json<ImportView>, Problem> {
    let import = app.queue.cancel_import(&workspace, id).await?;
    tracing::info!(import_id = %id, status = import.status.name(), "cancellation requested");
    Ok(Json(import.into()))
}
