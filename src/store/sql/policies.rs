//! Policies.

use std::collections::BTreeSet;

use async_trait::async_trait;
use sqlx::Row;

use super::rows::{is_taken, read_page, to_json};
use super::{Repo, Write};
use crate::store::blob_keys::Owner;
use crate::store::error::{Resource, Result, StoreError};
use crate::store::ids::{DatasetId, PolicyId, Workspace};
use crate::store::page::{Page, PageRequest};
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
        let read: Vec<(DatasetId,)> = sqlx::query_as(
            "SELECT DISTINCT d.dataset_id FROM job_policies j JOIN policies p ON p.id = j.policy_id \
             JOIN policy_descents d ON d.workspace = p.workspace AND d.digest IN (p.base_digest, p.digest) WHERE j.job_id = $1",
        )
        .bind(job.id.to_string())
        .fetch_all(self.connection())
        .await?;
        Ok(read.into_iter().map(|(behind,)| behind).chain([job.dataset_id]).collect())
    }

    /// Records where the parameters that a job learned come from. Parameters that the job read and returned
    /// unchanged come from where they came from before.
    pub async fn record_descent(
        &mut self,
        job: &Job,
        digest: &str,
        origins: &BTreeSet<DatasetId>,
    ) -> Result<()> {
        let unchanged = sqlx::query(
            "SELECT 1 FROM job_policies j JOIN policies p ON p.id = j.policy_id \
             WHERE j.job_id = $1 AND p.base_digest = $2",
        )
        .bind(job.id.to_string())
        .bind(digest)
        .fetch_optional(self.connection())
        .await?;
        if unchanged.is_some() {
            return Ok(());
        }
        for origin in origins {
            sqlx::query(
                "INSERT INTO policy_descents (workspace, digest, dataset_id) VALUES ($1, $2, $3) \
                 ON CONFLICT DO NOTHING",
            )
            .bind(job.workspace.as_str())
            .bind(digest)
            .bind(origin.to_string())
            .execute(self.connection())
            .await?;
        }
        Ok(())
    }
}

/// A policy with its origins, which are known by the digest of its parameters.
macro_rules! select_policy {
    ($rest:literal) => {
        concat!(
            "SELECT p.*, (SELECT ",
            json_array!("d.dataset_id"),
            " FROM policy_descents d \
             WHERE d.workspace = p.workspace AND d.digest IN (p.base_digest, p.digest)) AS origins FROM policies p ",
            $rest
        )
    };
}

/// Stores a policy: an uploaded one, or the one that a finishing job has learned.
pub async fn insert_policy(write: &mut Write, new: NewPolicy) -> Result<StoredPolicy> {
    let inserted = sqlx::query(
        "INSERT INTO policies (id, workspace, created_at, revision, kind, n_actions, dim, digest, base_digest, \
         source_job_id, params) VALUES ($1, $2, $3, 1, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(new.id.to_string())
    .bind(new.workspace.as_str())
    .bind(write.now.0)
    .bind(to_json(&new.kind)?)
    .bind(new.n_actions as i64)
    .bind(new.dim as i64)
    .bind(&new.digest)
    .bind(&new.base_digest)
    .bind(new.source_job_id.map(|id| id.to_string()))
    .bind(to_json(&new.params)?)
    .execute(write.connection())
    .await;
    match inserted {
        Err(error) if is_taken(&error) => {
            return Err(StoreError::Exists(Resource::Policy, new.id.to_string()));
        }
        inserted => inserted?,
    };
    write.name_blobs(&new.id.to_string(), std::slice::from_ref(&new.params)).await?;
    let policy = sqlx::query_as(select_policy!("WHERE p.id = $1"))
        .bind(new.id.to_string())
        .fetch_one(write.connection())
        .await?;
    Ok(policy)
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
impl Policies for Repo {
    async fn create_policy(&self, new: NewPolicy) -> Result<StoredPolicy> {
        let mut write = self.write().await?;
        let policy = insert_policy(&mut write, new).await?;
        write.commit().await?;
        Ok(policy)
    }

    async fn policy(&self, workspace: &Workspace, id: PolicyId) -> Result<StoredPolicy> {
        let policy: Option<StoredPolicy> =
            sqlx::query_as(select_policy!("WHERE p.id = $1 AND p.workspace = $2"))
                .bind(id.to_string())
                .bind(workspace.as_str())
                .fetch_optional(&self.readers)
                .await
                .map_err(|error| StoreError::from(error).of(Owner::Policy(id)))?;
        policy.ok_or_else(|| StoreError::not_found(Resource::Policy, id))
    }

    async fn policies(&self, workspace: &Workspace, page: &PageRequest) -> Result<Page<StoredPolicy>> {
        let sql = select_policy!(
            "WHERE p.workspace = $1 AND (p.created_at, p.id) < ($2, $3) \
             ORDER BY p.created_at DESC, p.id DESC LIMIT $4"
        );
        read_page(&self.readers, sql, workspace.as_str(), page).await
    }

    async fn delete_policy(&self, workspace: &Workspace, id: PolicyId) -> Result<Vec<String>> {
        let mut write = self.write().await?;
        if let Some(by) = policy_user(&mut write, &id.to_string()).await? {
            // Only an owner may learn that it is in use.
            write.check_policy(workspace, id).await?;
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
