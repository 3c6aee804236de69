//! The list of a dataset's versions.

use super::Connection;
use crate::store::error::{Resource, Result, StoreError};
use crate::store::ids::{DatasetId, Timestamp, Workspace};
use crate::store::page::{Cursor, Page, PageRequest};
use crate::store::records::DatasetVersion;

/// A page of the versions of a dataset, the newest first.
pub async fn versions(
    connection: &mut Connection,
    workspace: &Workspace,
    id: DatasetId,
    page: &PageRequest,
) -> Result<Page<DatasetVersion>> {
    let cursor = Cursor::of(page)?;
    let known = sqlx::query("SELECT 1 FROM datasets WHERE id = $1 AND workspace = $2")
        .bind(id.to_string())
        .bind(workspace.as_str())
        .fetch_optional(&mut *connection)
        .await?;
    known.ok_or_else(|| StoreError::not_found(Resource::Dataset, id))?;
    // Two versions may be of the same microsecond, so the cursor carries the version instead of a time.
    let rows: Vec<DatasetVersion> = sqlx::query_as(
        "SELECT version, created_at, row_count, context_count, digest FROM dataset_versions \
         WHERE dataset_id = $1 AND version < $2 ORDER BY version DESC LIMIT $3",
    )
    .bind(id.to_string())
    .bind(cursor.created_at.0)
    .bind(i64::from(page.limit) + 1)
    .fetch_all(connection)
    .await?;
    let cursor = |row: &DatasetVersion| {
        let version = i64::try_from(row.version).unwrap_or(i64::MAX);
        Cursor { created_at: Timestamp(version), id: id.to_string() }
    };
    Ok(Page::from_extra(rows, page.limit, cursor))
}
