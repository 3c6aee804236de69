//! `GET /v1/datasets/{id}/ledger`: every certificate that was drawn from the rows of a dataset, also through
//! other datasets that have them.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::http::App;
use crate::http::auth::Caller;
use crate::http::extract::{Id, Params};
use crate::http::page::{ListParams, ListView};
use crate::http::problem::Problem;
use crate::store::{DatasetId, JobId, LedgerEntry, LedgerSummary, Timestamp};
use guarantor_engine::certificate::{Decision, LedgerPlace};
use guarantor_engine::ledger::family_wise_confidence;
use guarantor_engine::spec::{BoundKind, JobKind};

/// The totals of the ledger, and a page of its looks.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Ledger)]
pub struct LedgerView {
    /// The number of looks at all versions of all datasets with these rows.
    looks: u64,
    /// The sum of their costs, in units of δ.
    spent: f64,
    /// The probability, at least, that all of them hold together.
    family_wise_confidence: f64,
    #[serde(flatten)]
    page: ListView<LookView>,
}

/// One look: a certificate, or a bound that was shown. It remains after its job is deleted.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Look)]
pub struct LookView {
    #[serde(flatten)]
    place: LedgerPlace,
    #[schema(value_type = String, format = "uuid")]
    job_id: JobId,
    /// The dataset that the job read: this one, or another with some of the same rows.
    #[schema(value_type = String, format = "uuid")]
    dataset_id: DatasetId,
    dataset_version: u64,
    /// The number of rows of that version; null for a look of an earlier release whose dataset was deleted.
    #[schema(required)]
    rows: Option<u64>,
    #[schema(value_type = String, format = "date-time")]
    created_at: Timestamp,
    kind: JobKind,
    bound: BoundKind,
    /// The number of candidates that shared its δ; 0 for kind `learn`.
    candidates: u64,
    /// Null if the job ended without a certificate, after its bound had been shown.
    #[schema(required)]
    decision: Option<Decision>,
    /// Null if there is no certificate, or if it was issued before the ledger existed.
    #[schema(required)]
    certificate_digest: Option<String>,
}

impl From<LedgerEntry> for LookView {
    fn from(entry: LedgerEntry) -> Self {
        LookView {
            place: entry.place,
            job_id: entry.job_id,
            dataset_id: entry.dataset_id,
            dataset_version: entry.dataset_version,
            rows: entry.rows,
            created_at: entry.created_at,
            kind: entry.kind,
            bound: entry.bound,
            candidates: entry.candidates,
            decision: entry.decision,
            certificate_digest: entry.digest,
        }
    }
}

/// List the looks at the rows of a dataset, newest first, with their family-wise confidence. Looks at other
/// datasets with some of the same rows are listed too.
#[utoipa::path(get, path = "/v1/datasets/{id}/ledger", tag = "Datasets", operation_id = "get_ledger",
    params(("id" = String, Path, format = "uuid"), ListParams),
    responses((status = 200, description = "The ledger of the dataset", body = LedgerView)))]
pub async fn ledger(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<DatasetId>,
    Params(params): Params<ListParams>,
) -> Result<Json<LedgerView>, Problem> {
    let (summary, page) = app.store.repository().ledger(&workspace, id, &params.page()?).await?;
    let LedgerSummary { looks, spent } = summary;
    let family_wise_confidence = family_wise_confidence(spent);
    Ok(Json(LedgerView { looks, spent, family_wise_confidence, page: ListView::from(page) }))
}
