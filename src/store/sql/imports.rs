//! Imports and their leases. As with jobs, every statement on a claimed import names its lease's token.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::Row;

use super::rows::{check_room, is_taken, read_page, to_json};
use super::{Repo, Write, micros};
use crate::store::error::{Resource, Result, StoreError};
use crate::store::ids::{DatasetId, LeaseToken, Workspace};
use crate::store::page::{Page, PageRequest};
use crate::store::records::{
    ClaimedImport, Import, ImportCode, ImportDone, ImportEnd, ImportFailure, ImportProgress, LeaseTerms,
    NewImport, ReadObject,
};
use crate::store::repository::Imports;

/// Everything but the objects, which may be many.
macro_rules! columns {
    () => {
        "id, workspace, status, submitted_by, created_at, started_at, finished_at, attempt, cancel_requested, request, \
         progress, failure, revision"
    };
}

/// How many imports of the workspace of `i` run at the time `$1`.
macro_rules! running {
    () => {
        "(SELECT COUNT(*) FROM imports r WHERE r.workspace = i.workspace AND r.status = 'running' AND r.lease_until > $1)"
    };
}

/// An attempt that ended without a dataset: the status afterwards, and whether the attempt counts.
struct Parting {
    status: &'static str,
    failure: Option<ImportFailure>,
    counts: bool,
}

impl Parting {
    fn failed(failure: ImportFailure) -> Self {
        Parting { status: "failed", failure: Some(failure), counts: true }
    }

    fn cancelled() -> Self {
        Parting { status: "cancelled", failure: None, counts: true }
    }

    fn queued(counts: bool) -> Self {
        Parting { status: "queued", failure: None, counts }
    }

    /// After a failure that the import did not cause.
    fn after_fault(import: &Import, terms: &LeaseTerms, failure: ImportFailure) -> Self {
        if import.cancel_requested {
            Parting::cancelled()
        } else if import.attempt >= terms.max_attempts {
            let message =
                format!("gave up after {} attempts; the last one: {}", import.attempt, failure.message);
            Parting::failed(ImportFailure { message, ..failure })
        } else {
            Parting::queued(true)
        }
    }
}

impl Write {
    async fn found_import(&mut self, workspace: &Workspace, id: DatasetId) -> Result<Import> {
        let found: Option<Import> = sqlx::query_as(concat!(
            "SELECT ",
            columns!(),
            " FROM imports WHERE id = $1 AND workspace = $2",
            lock_rows!()
        ))
        .bind(id.to_string())
        .bind(workspace.as_str())
        .fetch_optional(self.connection())
        .await?;
        found.ok_or_else(|| StoreError::not_found(Resource::Import, id))
    }

    /// Writes the end of an attempt that produced nothing.
    async fn part_import(&mut self, id: DatasetId, parting: Parting) -> Result<Import> {
        let now = self.now.0;
        let ended = (parting.status != "queued").then_some(now);
        let failure = parting.failure.as_ref().map(to_json).transpose()?;
        let after: Import = sqlx::query_as(concat!(
            "UPDATE imports SET status = $2, failure = $3, attempt = attempt - $4, finished_at = $5, \
             lease_token = NULL, lease_until = NULL, revision = revision + 1 WHERE id = $1 RETURNING ",
            columns!()
        ))
        .bind(id.to_string())
        .bind(parting.status)
        .bind(failure)
        .bind(i64::from(!parting.counts))
        .bind(ended)
        .fetch_one(self.connection())
        .await?;
        Ok(after)
    }

    /// Ends an import in the transaction that stores its dataset. Nothing is stored if the lease was lost, or if the
    /// cancellation was acknowledged.
    pub(super) async fn end_import(&mut self, id: DatasetId, done: &ImportDone) -> Result<()> {
        let ended = sqlx::query(
            "UPDATE imports SET status = 'succeeded', finished_at = $3, objects = $4, progress = $5, \
             lease_token = NULL, lease_until = NULL, revision = revision + 1 \
             WHERE id = $1 AND lease_token = $2 AND status = 'running' AND NOT cancel_requested",
        )
        .bind(id.to_string())
        .bind(done.token.to_string())
        .bind(self.now.0)
        .bind(to_json(&done.objects)?)
        .bind(to_json(&done.progress)?)
        .execute(self.connection())
        .await?;
        if ended.rows_affected() == 0 {
            return Err(StoreError::LeaseLost(id.into()));
        }
        Ok(())
    }

    /// The next import to start: of the workspace with the fewest that run, the oldest. One whose lease has expired
    /// waits too. A workspace with `most` that run waits.
    async fn next_import(&mut self, most: u64) -> Result<Option<Import>> {
        let now = self.now.0;
        Ok(sqlx::query_as(concat!(
            "SELECT ",
            columns!(),
            " FROM imports i WHERE (status = 'queued' OR (status = 'running' AND lease_until <= $1)) AND ",
            running!(),
            " < $2 ORDER BY ",
            running!(),
            ", created_at, id LIMIT 1",
            skip_locked!("i")
        ))
        .bind(now)
        .bind(most as i64)
        .fetch_optional(self.connection())
        .await?)
    }

    async fn hold_import(&mut self, id: DatasetId, terms: &LeaseTerms) -> Result<ClaimedImport> {
        let (now, token) = (self.now.0, LeaseToken::new());
        let import: Import = sqlx::query_as(concat!(
            "UPDATE imports SET status = 'running', attempt = attempt + 1, started_at = $2, lease_token = $3, \
             lease_until = $4, progress = NULL, revision = revision + 1 WHERE id = $1 RETURNING ",
            columns!()
        ))
        .bind(id.to_string())
        .bind(now)
        .bind(token.to_string())
        .bind(now + micros(terms.duration))
        .fetch_one(self.connection())
        .await?;
        Ok(ClaimedImport { import, token })
    }
}

#[async_trait]
impl Imports for Repo {
    async fn create_import(&self, new: NewImport, most: u64) -> Result<Import> {
        let mut write = self.write().await?;
        let row = sqlx::query(
            "SELECT COUNT(*) AS unfinished FROM imports WHERE workspace = $1 AND status IN ('queued', 'running')",
        )
        .bind(new.workspace.as_str())
        .fetch_one(write.connection())
        .await?;
        let unfinished = row.try_get::<i64, _>("unfinished")?.max(0) as u64;
        check_room(Resource::Import, unfinished, most)?;
        let inserted: Result<Import, sqlx::Error> = sqlx::query_as(concat!(
            "INSERT INTO imports (id, workspace, status, submitted_by, created_at, attempt, cancel_requested, request, \
             revision) VALUES ($1, $2, 'queued', $3, $4, 0, $5, $6, 1) RETURNING ",
            columns!()
        ))
        .bind(new.id.to_string())
        .bind(new.workspace.as_str())
        .bind(&new.submitted_by)
        .bind(write.now.0)
        .bind(false)
        .bind(to_json(&new.request)?)
        .fetch_one(write.connection())
        .await;
        let import = match inserted {
            Err(error) if is_taken(&error) => {
                return Err(StoreError::Exists(Resource::Import, new.id.to_string()));
            }
            inserted => inserted?,
        };
        write.commit().await?;
        Ok(import)
    }

    async fn import(&self, workspace: &Workspace, id: DatasetId) -> Result<Import> {
        let found: Option<Import> =
            sqlx::query_as(concat!("SELECT ", columns!(), " FROM imports WHERE id = $1 AND workspace = $2"))
                .bind(id.to_string())
                .bind(workspace.as_str())
                .fetch_optional(&self.readers)
                .await?;
        found.ok_or_else(|| StoreError::not_found(Resource::Import, id))
    }

    async fn import_objects(&self, workspace: &Workspace, id: DatasetId) -> Result<Vec<ReadObject>> {
        let row = sqlx::query("SELECT objects FROM imports WHERE id = $1 AND workspace = $2")
            .bind(id.to_string())
            .bind(workspace.as_str())
            .fetch_optional(&self.readers)
            .await?;
        let row = row.ok_or_else(|| StoreError::not_found(Resource::Import, id))?;
        let objects: Option<sqlx::types::Json<Vec<ReadObject>>> = row.try_get("objects")?;
        Ok(objects.map(|objects| objects.0).unwrap_or_default())
    }

    async fn imports(&self, workspace: &Workspace, page: &PageRequest) -> Result<Page<Import>> {
        let sql = concat!(
            "SELECT ",
            columns!(),
            " FROM imports WHERE workspace = $1 AND (created_at, id) < ($2, $3) \
             ORDER BY created_at DESC, id DESC LIMIT $4"
        );
        read_page(&self.readers, sql, workspace.as_str(), page).await
    }

    async fn cancel_import(&self, workspace: &Workspace, id: DatasetId) -> Result<Import> {
        let mut write = self.write_rows().await?;
        let before = write.found_import(workspace, id).await?;
        let after = match before.status.name() {
            "queued" => write.part_import(id, Parting::cancelled()).await?,
            "running" => sqlx::query_as(concat!(
                "UPDATE imports SET cancel_requested = $2, revision = revision + 1 WHERE id = $1 RETURNING ",
                columns!()
            ))
            .bind(id.to_string())
            .bind(true)
            .fetch_one(write.connection())
            .await?,
            "cancelled" => before,
            ended => return Err(StoreError::ImportFinished(ended.to_owned())),
        };
        write.commit().await?;
        Ok(after)
    }

    async fn claim_import(&self, terms: &LeaseTerms, most: u64) -> Result<Option<ClaimedImport>> {
        let waiting = sqlx::query(concat!(
            "SELECT 1 FROM imports WHERE status = 'queued' OR (status = 'running' AND lease_until <= ",
            now_sql!(),
            ") LIMIT 1"
        ))
        .fetch_optional(&self.readers)
        .await?;
        if waiting.is_none() {
            return Ok(None);
        }
        loop {
            let mut write = self.write_rows().await?;
            let Some(mut next) = write.next_import(most).await? else {
                write.commit().await?;
                return Ok(None);
            };
            if next.status.name() == "running" {
                let message = "the process that read the log stopped responding";
                let failure = ImportFailure::new(ImportCode::AttemptsExhausted, message);
                let parting = Parting::after_fault(&next, terms, failure);
                next = write.part_import(next.id, parting).await?;
            }
            if next.status.is_finished() {
                write.commit().await?;
                continue;
            }
            let claimed = write.hold_import(next.id, terms).await?;
            write.commit().await?;
            return Ok(Some(claimed));
        }
    }

    async fn renew_import(
        &self,
        id: DatasetId,
        token: LeaseToken,
        terms: &LeaseTerms,
        progress: &ImportProgress,
    ) -> Result<bool> {
        let mut write = self.write_rows().await?;
        let until = write.now.0 + micros(terms.duration);
        let asked: Option<(bool,)> = sqlx::query_as(
            "UPDATE imports SET lease_until = $3, progress = $4, revision = revision + 1 \
             WHERE id = $1 AND lease_token = $2 AND status = 'running' RETURNING cancel_requested",
        )
        .bind(id.to_string())
        .bind(token.to_string())
        .bind(until)
        .bind(to_json(progress)?)
        .fetch_optional(write.connection())
        .await?;
        let (cancel_requested,) = asked.ok_or(StoreError::LeaseLost(id.into()))?;
        write.commit().await?;
        Ok(cancel_requested)
    }

    async fn finish_import(
        &self,
        id: DatasetId,
        token: LeaseToken,
        terms: &LeaseTerms,
        end: ImportEnd,
        progress: &ImportProgress,
    ) -> Result<Import> {
        let mut write = self.write_rows().await?;
        let held: Option<Import> = sqlx::query_as(concat!(
            "SELECT ",
            columns!(),
            " FROM imports WHERE id = $1 AND lease_token = $2 AND status = 'running'",
            lock_rows!()
        ))
        .bind(id.to_string())
        .bind(token.to_string())
        .fetch_optional(write.connection())
        .await?;
        let held = held.ok_or(StoreError::LeaseLost(id.into()))?;
        sqlx::query("UPDATE imports SET progress = $2 WHERE id = $1")
            .bind(id.to_string())
            .bind(to_json(progress)?)
            .execute(write.connection())
            .await?;
        let parting = match end {
            ImportEnd::Failed(failure) => Parting::failed(failure),
            ImportEnd::Cancelled => Parting::cancelled(),
            ImportEnd::Released if held.cancel_requested => Parting::cancelled(),
            ImportEnd::Released => Parting::queued(false),
            ImportEnd::Retry(failure) => Parting::after_fault(&held, terms, failure),
        };
        let after = write.part_import(id, parting).await?;
        write.commit().await?;
        Ok(after)
    }

    async fn sweep_imports(&self, age: Duration) -> Result<u64> {
        let mut write = self.write().await?;
        let before = write.now.0 - micros(age);
        let swept = sqlx::query(
            "DELETE FROM imports WHERE finished_at <= $1 \
             AND NOT EXISTS (SELECT 1 FROM datasets d WHERE d.id = imports.id)",
        )
        .bind(before)
        .execute(write.connection())
        .await?;
        write.commit().await?;
        Ok(swept.rows_affected())
    }
}
