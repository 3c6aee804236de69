//! `GET /v1/datasets/{id}/versions`: what was added to a dataset, and when.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::extract::{Id, Params};
use crate::http::page::{ListParams, ListView, listed};
use crate::http::problem::Problem;
use crate::store::{DatasetId, DatasetVersion, Timestamp};

/// A version of a dataset.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = DatasetVersion)]
pub struct VersionView {
    version: u64,
    /// When the rows or the candidates were added.
    #[schema(value_type = String, format = "date-time")]
    created_at: Timestamp,
    /// The number of logged interactions up to this version.
    rows: u64,
    /// The number of distinct contexts up to this version.
    contexts: u64,
    /// SHA-256 of the rows of this version.
    digest: String,
}

impl From<DatasetVersion> for VersionView {
    fn from(version: DatasetVersion) -> Self {
        VersionView {
            version: version.version,
            created_at: version.created_at,
            rows: version.rows,
            contexts: version.contexts,
            digest: version.digest,
        }
    }
}

/// List the versions of a dataset, newest first.
#[utoipa::path(get, path = "/v1/datasets/{id}/versions", tag = "Datasets", operation_id = "list_dataset_versions",
    params(("id" = String, Path, format = "uuid"), ListParams),
    responses((status = 200, description = "A page of versions", body = ListView<VersionView>)))]
pub async fn versions(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<DatasetId>,
    Params(params): Params<ListParams>,
) -> Result<Json<ListView<VersionView>>, Problem> {
    Ok(listed(app.store.repository().dataset_versions(&workspace, id, &params.page()?).await?))
}
