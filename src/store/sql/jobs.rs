//! Jobs and their events.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use sqlx::QueryBuilder;

use super::datasets::seen;
use super::rows::{Count, is_taken, name_of, readable_page, to_json};
use super::{Database, Repo, Write, now};
use crate::store::blob_keys::Owner;
use crate::store::error::{Resource, Result, StoreError};
use crate::store::ids::{JobId, Timestamp, Workspace};
use crate::store::page::{Cursor, Page, PageRequest};
use crate::store::records::{
    Job, JobChange, JobEvent, JobFilter, JobOrder, JobStatus, NewJob, QueueDepth, QueueLimits,
};
use crate::store::repository::Jobs;

impl Write {
    /// Adds an event to a job. Every visible change of a job has one.
    pub async fn append_event(
        &mut self,
        id: JobId,
        kind: &'static str,
        data: &serde_json::Value,
    ) -> Result<()> {
        self.changed.add(id, kind);
        let now = self.now.0;
        sqlx::query(
            "INSERT INTO job_events (job_id, id, kind, data, created_at) \
             SELECT $1, COALESCE(MAX(id), 0) + 1, $2, $3, $4 FROM job_events WHERE job_id = $1",
        )
        .bind(id.to_string())
        .bind(kind)
        .bind(to_json(data)?)
        .bind(now)
        .execute(self.connection())
        .await?;
        Ok(())
    }

    async fn check_inputs(&mut self, new: &NewJob) -> Result<()> {
        let newest: Option<(Count, Count)> = sqlx::query_as(
            "SELECT v.version, v.row_count FROM datasets d \
             JOIN dataset_versions v ON v.dataset_id = d.id AND v.version = d.version \
             WHERE d.id = $1 AND d.workspace = $2",
        )
        .bind(new.dataset_id.to_string())
        .bind(new.workspace.as_str())
        .fetch_optional(self.connection())
        .await?;
        let (Count(version), Count(rows)) =
            newest.ok_or_else(|| StoreError::not_found(Resource::Dataset, new.dataset_id))?;
        // An append that nobody had looked at may have put rows before those that the spec was resolved for.
        if version != new.dataset_version {
            return Err(StoreError::Changed);
        }
        if let Some(resolved) = new.seen_rows
            && seen(self.connection(), new.dataset_id).await?.before(rows) != resolved
        {
            return Err(StoreError::Changed);
        }
        for policy in &new.policy_ids {
            self.check_policy(&new.workspace, *policy).await?;
        }
        Ok(())
    }

    async fn check_room(&mut self, workspace: &Workspace, limits: &QueueLimits) -> Result<()> {
        let (total, own): (Count, Count) = sqlx::query_as(
            "SELECT COUNT(*), COUNT(CASE WHEN workspace = $1 THEN 1 END) FROM jobs WHERE status = 'queued'",
        )
        .bind(workspace.as_str())
        .fetch_one(self.connection())
        .await?;
        for (queued, limit) in [(total.0, limits.total), (own.0, limits.workspace)] {
            if let Some(limit) = limit.filter(|&limit| queued >= limit) {
                return Err(StoreError::QueueFull { queued, limit });
            }
        }
        Ok(())
    }

    async fn insert_job(&mut self, new: &NewJob) -> Result<Job> {
        let now = self.now.0;
        let inserted = sqlx::query_as(
            "INSERT INTO jobs (id, workspace, seq, dataset_id, dataset_version, status, spec, metadata, created_at, \
             queued_at, attempt, cancel_requested, revision, submitted_by) SELECT $1, $2, COALESCE(MAX(seq), 0) + 1, \
             $3, $4, 'queued', $5, $6, $7, $7, 0, FALSE, 1, $8 FROM jobs RETURNING *",
        )
        .bind(new.id.to_string())
        .bind(new.workspace.as_str())
        .bind(new.dataset_id.to_string())
        .bind(new.dataset_version as i64)
        .bind(to_json(&new.spec)?)
        .bind(to_json(&new.metadata)?)
        .bind(now)
        .bind(&new.submitted_by)
        .fetch_one(self.connection())
        .await;
        let job = match inserted {
            Err(error) if is_taken(&error) => {
                return Err(StoreError::Exists(Resource::Job, new.id.to_string()));
            }
            job => job?,
        };
        for policy in &new.policy_ids {
            sqlx::query(
                "INSERT INTO job_policies (job_id, policy_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            )
            .bind(new.id.to_string())
            .bind(policy.to_string())
            .execute(self.connection())
            .await?;
        }
        Ok(job)
    }
}

/// The query of a page of jobs. It has only the conditions that apply, so that the index of one of them is used
/// (`0008_job_lists.sql`).
fn list_query(
    workspace: &Workspace,
    filter: &JobFilter,
    page: &PageRequest,
) -> Result<QueryBuilder<Database>> {
    let cursor = page.after.as_ref().map(|_| Cursor::of(page)).transpose()?;
    let (beyond, direction) = match filter.order {
        JobOrder::Newest => (" < (", "DESC"),
        JobOrder::Oldest => (" > (", "ASC"),
    };
    let mut query = QueryBuilder::new("SELECT * FROM jobs WHERE workspace = ");
    query.push_bind(workspace.as_str().to_owned());
    if let Some(cursor) = cursor {
        query.push(" AND (created_at, id)").push(beyond).push_bind(cursor.created_at.0);
        query.push(", ").push_bind(cursor.id).push(")");
    }
    if let Some(status) = filter.status {
        query.push(" AND status = ").push_bind(status.name());
    }
    if let Some(id) = filter.dataset_id {
        query.push(" AND dataset_id = ").push_bind(id.to_string());
    }
    if let Some(decision) = filter.decision {
        query.push(concat!(" AND ", decision_sql!(), " = "));
        query.push_bind(name_of(decision)?);
    }
    query.push(" ORDER BY created_at ").push(direction).push(", id ").push(direction);
    query.push(" LIMIT ").push_bind(i64::from(page.limit) + 1);
    Ok(query)
}

impl Repo {
    /// The job as the database has it now.
    pub(super) async fn read_job(&self, workspace: &Workspace, id: JobId) -> Result<Job> {
        let job: Option<Job> = sqlx::query_as("SELECT * FROM jobs WHERE id = $1 AND workspace = $2")
            .bind(id.to_string())
            .bind(workspace.as_str())
            .fetch_optional(&self.readers)
            .await
            .map_err(|error| StoreError::from(error).of(Owner::Job(id)))?;
        job.ok_or_else(|| StoreError::not_found(Resource::Job, id))
    }
}

#[async_trait]
impl Jobs for Repo {
    async fn submit_job(&self, new: NewJob, limits: &QueueLimits) -> Result<Job> {
        let mut write = self.write().await?;
        // A repeated request must find its job even if the queue has filled up since.
        let taken = sqlx::query("SELECT 1 FROM jobs WHERE id = $1")
            .bind(new.id.to_string())
            .fetch_optional(write.connection())
            .await?;
        if taken.is_some() {
            return Err(StoreError::Exists(Resource::Job, new.id.to_string()));
        }
        write.check_inputs(&new).await?;
        write.check_family(&new).await?;
        write.check_room(&new.workspace, limits).await?;
        sqlx::query("INSERT INTO workspaces (id, last_served) VALUES ($1, 0) ON CONFLICT DO NOTHING")
            .bind(new.workspace.as_str())
            .execute(write.connection())
            .await?;
        let job = write.insert_job(&new).await?;
        write.append_event(job.id, "queued", &json!({})).await?;
        write.commit().await?;
        Ok(job)
    }

    async fn job(&self, workspace: &Workspace, id: JobId) -> Result<Job> {
        if let Some(job) = self.recent.get(workspace, id) {
            return Ok((*job).clone());
        }
        let _turn = self.reading.turn(id).await;
        if let Some(job) = self.recent.get(workspace, id) {
            return Ok((*job).clone());
        }
        let writes = self.recent.writes();
        let job = self.read_job(workspace, id).await?;
        self.recent.keep(job.clone(), writes);
        Ok(job)
    }

    async fn job_now(&self, workspace: &Workspace, id: JobId) -> Result<Job> {
        self.read_job(workspace, id).await
    }

    fn changes(&self) -> Option<tokio::sync::broadcast::Receiver<JobChange>> {
        self.listen()
    }

    fn recent_job(&self, workspace: &Workspace, id: JobId) -> Option<Arc<Job>> {
        self.recent.get(workspace, id)
    }

    async fn jobs(&self, workspace: &Workspace, filter: &JobFilter, page: &PageRequest) -> Result<Page<Job>> {
        let rows = list_query(workspace, filter, page)?.build().fetch_all(&self.readers).await?;
        readable_page(&rows, page.limit)
    }

    async fn cancel_job(&self, workspace: &Workspace, id: JobId) -> Result<(Job, bool)> {
        let mut write = self.write().await?;
        let sql = concat!("SELECT * FROM jobs WHERE id = $1 AND workspace = $2", lock_rows!());
        let before: Option<Job> = sqlx::query_as(sql)
            .bind(id.to_string())
            .bind(workspace.as_str())
            .fetch_optional(write.connection())
            .await
            .map_err(|error| StoreError::from(error).of(Owner::Job(id)))?;
        let before = before.ok_or_else(|| StoreError::not_found(Resource::Job, id))?;
        let (status, finished_at) = match before.status {
            JobStatus::Succeeded => return Err(StoreError::Finished("succeeded")),
            JobStatus::Failed => return Err(StoreError::Finished("failed")),
            JobStatus::Cancelled => return Ok((before, false)),
            JobStatus::Running if before.cancel_requested => return Ok((before, false)),
            JobStatus::Running => (JobStatus::Running, None),
            JobStatus::Queued => (JobStatus::Cancelled, Some(write.now.0)),
        };
        let after: Job = sqlx::query_as(
            "UPDATE jobs SET status = $2, finished_at = $3, cancel_requested = TRUE, revision = revision + 1 \
             WHERE id = $1 RETURNING *",
        )
        .bind(id.to_string())
        .bind(status.name())
        .bind(finished_at)
        .fetch_one(write.connection())
        .await?;
        let kind = if finished_at.is_some() { "cancelled" } else { "cancel_requested" };
        if after.status.is_finished() {
            write.enter_shown(&after).await?;
            write.announce_end(&after).await?;
        }
        write.append_event(id, kind, &json!({})).await?;
        write.commit().await?;
        Ok((after, true))
    }

    async fn job_events(
        &self,
        workspace: &Workspace,
        id: JobId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<JobEvent>> {
        let events: Vec<JobEvent> = sqlx::query_as(
            "SELECT e.* FROM job_events e JOIN jobs j ON j.id = e.job_id \
             WHERE e.job_id = $1 AND e.id > $2 AND j.workspace = $3 ORDER BY e.id LIMIT $4",
        )
        .bind(id.to_string())
        .bind(i64::try_from(after).unwrap_or(i64::MAX))
        .bind(workspace.as_str())
        .bind(i64::from(limit))
        .fetch_all(&self.readers)
        .await?;
        // Without events it is not clear yet whether there is such a job.
        if events.is_empty() {
            self.job(workspace, id).await?;
        }
        Ok(events)
    }

    async fn queue_depth(&self) -> Result<QueueDepth> {
        let mut connection = self.readers.acquire().await?;
        let (queued, running, oldest): (Count, Count, Option<Timestamp>) = sqlx::query_as(
            "SELECT COUNT(CASE WHEN status = 'queued' THEN 1 END), \
             COUNT(CASE WHEN status = 'running' THEN 1 END), \
             MIN(CASE WHEN status = 'queued' THEN created_at END) \
             FROM jobs WHERE status IN ('queued', 'running')",
        )
        .fetch_one(&mut *connection)
        .await?;
        let now = now(&mut connection).await?;
        let oldest_seconds = oldest.map_or(0.0, |oldest| now.seconds_since(oldest));
        Ok(QueueDepth { queued: queued.0, running: running.0, oldest_seconds })
    }
}
