//! Policies.

use std::collections::BTreeSet;

use async_trait::async_trait;
use sqlx::Row;
use sqlx::types::Json;

use super::rows::{is_taken, readable_page, to_json};
use super::{Sqlite, Write};
use crate::store::blob_keys::Owner;
use crate::store::error::{Resource, Result, StoreError};
use crate::store::ids::{DatasetId, PolicyId, Workspace};
use crate::store::page::{Cursor, Page, PageRequest};
use crate::store::records::{Job, NewPolicy, StoredPolicy};
use crate::store::repository::Policies;

impl Write {
    /// Checks that the workspace has the policy.
    pub async fn check_policy(&mut self, workspace: &Workspace, id: PolicyId) -> Result<()> {
        let found = sqlx::query("SELECT 1 FROM policies WHERE id = $1 AND workspace = $2")
            .bind(id.to_string())
            .bind(workspace.as_str())
            .fetch_optional(self.connection())
            .await?;
        found.map(|_| ()).ok_or_else(|| StoreError::not_found(Resource::Policy, id))
    }

    /// The datasets that the job's result depends on: its own, and those behind every policy that it read,
    /// as a prior or as the logging policy.
    pub async fn origins_of(&mut self, job: &Job) -> Result<BTreeSet<DatasetId>> {
        let read: Vec<(Json<BTreeSet<DatasetId>>,)> = sqlx::query_as(
            "SELECT p.origins FROM job_policies j JOIN policies p ON p.id = j.policy_id WHERE j.job_id = $1",
        )
        .bind(job.id.to_string())
        .fetch_all(self.connection())
        .await?;
        let mut origins = BTreeSet::from([job.dataset_id]);
        for (behind,) in read {
            origins.extend(behind.0);
        }
        Ok(origins)
    }
}

/// Stores a policy: an uploaded one, or the one that a finishing job has learned.
pub async fn insert_policy(
    write: &mut Write,
    new: NewPolicy,
    origins: &BTreeSet<DatasetId>,
) -> Result<StoredPolicy> {
    let inserted = sqlx::query_as(
        "INSERT INTO policies (id, workspace, created_at, revision, kind, n_actions, dim, digest, source_job_id, \
         params, origins) VALUES ($1, $2, $3, 1, $4, $5, $6, $7, $8, $9, $10) RETURNING *",
    )
    .bind(new.id.to_string())
    .bind(new.workspace.as_str())
    .bind(write.now.0)
    .bind(to_json(&new.kind)?)
    .bind(new.n_actions as i64)
    .bind(new.dim as i64)
    .bind(&new.digest)
    .bind(new.source_job_id.map(|id| id.to_string()))
    .bind(to_json(&new.params)?)
    .bind(to_json(origins)?)
    .fetch_one(write.connection())
    .await;
    match inserted {
        Err(error) if is_taken(&error) => Err(StoreError::Exists(Resource::Policy, new.id.to_string())),
        Err(error) => Err(error.into()),
        Ok(policy) => {
            write.name_blobs(&new.id.to_string(), std::slice::from_ref(&new.params)).await?;
            Ok(policy)
        }
    }
}

/// A description of what still uses the policy, if anything does.
pub async fn policy_user(write: &mut Write, id: &str) -> Result<Option<String>> {
    let dataset = sqlx::query("SELECT id FROM datasets WHERE logging_policy_id = $1 LIMIT 1")
        .bind(id)
        .fetch_optional(write.connection())
        .await?;
    if let Some(row) = dataset {
        let id: String = row.try_get("id")?;
        return Ok(Some(format!("dataset {id}, which it logged; delete the dataset first")));
    }
    let job = sqlx::query(
        "SELECT j.id FROM job_policies p JOIN jobs j ON j.id = p.job_id \
         WHERE p.policy_id = $1 AND j.status IN ('queued', 'running') LIMIT 1",
    )
    .bind(id)
    .fetch_optional(write.connection())
    .await?;
    match job {
        Some(row) => {
            let id: String = row.try_get("id")?;
            Ok(Some(format!("the unfinished job {id}; wait for it or cancel it")))
        }
        None => Ok(None),
    }
}

#[async_trait]
impl Policies for Sqlite {
    async fn create_policy(&self, new: NewPolicy) -> Result<StoredPolicy> {
        let mut write = self.write().await?;
        let policy = insert_policy(&mut write, new, &BTreeSet::new()).await?;
        write.commit().await?;
        Ok(policy)
    }

    async fn policy(&self, workspace: &Workspace, id: PolicyId) -> Result<StoredPolicy> {
        let policy: Option<StoredPolicy> =
            sqlx::query_as("SELECT * FROM policies WHERE id = $1 AND workspace = $2")
                .bind(id.to_string())
                .bind(workspace.as_str())
                .fetch_optional(&self.readers)
                .await
                .map_err(|error| StoreError::from(error).of(Owner::Policy(id)))?;
        policy.ok_or_else(|| StoreError::not_found(Resource::Policy, id))
    }

    async fn policies(&self, workspace: &Workspace, page: &PageRequest) -> Result<Page<StoredPolicy>> {
        let cursor = Cursor::of(page)?;
        let rows = sqlx::query(
            "SELECT * FROM policies WHERE workspace = $1 AND (created_at, id) < ($2, $3) \
             ORDER BY created_at DESC, id DESC LIMIT $4",
        )
        .bind(workspace.as_str())
        .bind(cursor.created_at.0)
        .bind(&cursor.id)
        .bind(i64::from(page.limit) + 1)
        .fetch_all(&self.readers)
        .await?;
        readable_page(&rows, page.limit)
    }

    async fn delete_policy(&self, workspace: &Workspace, id: PolicyId) -> Result<Vec<String>> {
        let mut write = self.write().await?;
        if let Some(by) = policy_user(&mut write, &id.to_string()).await? {
            // Only an owner may learn that it is in use.
            self.policy(workspace, id).await?;
            return Err(StoreError::InUse { resource: Resource::Policy, by });
        }
        let deleted = sqlx::query("DELETE FROM policies WHERE id = $1 AND workspace = $2")
            .bind(id.to_string())
            .bind(workspace.as_str())
            .execute(write.connection())
            .await?;
        if deleted.rows_affected() == 0 {
            return Err(StoreError::not_found(Resource::Policy, id));
        }
        let blobs = write.forget_blobs(&id.to_string()).await?;
        write.commit().await?;
        Ok(blobs)
    }
}
