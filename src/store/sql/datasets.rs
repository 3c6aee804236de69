//! Datasets and their versions.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::Row;

use super::row_sets::{decode, own_sketches};
use super::rows::{Count, is_taken, plain, read_page, to_json};
use super::same_rows::{Recognized, SketchedVersion};
use super::versions::versions;
use super::{Connection, Repo, Write};
use crate::store::blob_keys::Owner;
use crate::store::error::{Resource, Result, StoreError};
use crate::store::ids::{DatasetId, Workspace};
use crate::store::page::{Page, PageRequest};
use crate::store::records::{
    BlobRef, Dataset, DatasetContent, DatasetVersion, NewDataset, NewVersion, SeenRows,
};
use crate::store::repository::Datasets;
use guarantor_ingest::RowSketch;

/// A dataset joined with one of its versions.
macro_rules! select_dataset {
    ($rest:literal) => {
        concat!(
            "SELECT d.id, d.workspace, d.name, d.logging_policy_id, d.logging, d.repetitions, d.exact_propensities, \
             d.created_at, d.revision, v.version, v.row_count, v.context_count, v.n_actions, v.dim, v.outcome, \
             v.digest, v.capabilities, v.last_timestamp, v.health, v.parts, \
             g.datasets AS ledger_datasets, (SELECT ",
            json_array!("o.dataset_id"),
            " FROM (\
              SELECT dataset_id FROM ledger_datasets WHERE ledger_id = g.id AND dataset_id <> d.id LIMIT 100\
             ) o) AS shares_ledger_with \
             FROM datasets d JOIN dataset_versions v ON v.dataset_id = d.id \
             JOIN ledger_datasets l ON l.dataset_id = d.id JOIN ledgers g ON g.id = l.ledger_id ",
            $rest
        )
    };
}

/// A dataset at its newest version.
async fn newest(connection: &mut Connection, workspace: &Workspace, id: DatasetId) -> Result<Dataset> {
    let dataset: Option<Dataset> =
        sqlx::query_as(select_dataset!("WHERE d.id = $1 AND d.workspace = $2 AND v.version = d.version"))
            .bind(id.to_string())
            .bind(workspace.as_str())
            .fetch_optional(connection)
            .await
            .map_err(|error| StoreError::from(error).of(Owner::Dataset(id)))?;
    dataset.ok_or_else(|| StoreError::not_found(Resource::Dataset, id))
}

/// Writes a version, and the names of those of its parts that are not in `kept`.
async fn insert_version(
    write: &mut Write,
    id: &str,
    version: u64,
    content: &DatasetContent,
    row_set: &str,
    kept: &[BlobRef],
) -> Result<()> {
    sqlx::query(
        "INSERT INTO dataset_versions (dataset_id, version, created_at, row_count, context_count, n_actions, dim, \
         outcome, digest, capabilities, last_timestamp, health, parts, row_set) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
    )
    .bind(id)
    .bind(version as i64)
    .bind(write.now.0)
    .bind(content.rows as i64)
    .bind(content.contexts as i64)
    .bind(content.n_actions as i64)
    .bind(content.dim as i64)
    .bind(to_json(&content.outcome)?)
    .bind(&content.digest)
    .bind(to_json(&content.capabilities)?)
    .bind(content.last_timestamp)
    .bind(to_json(&content.health)?)
    .bind(to_json(&content.parts)?)
    .bind(row_set)
    .execute(write.connection())
    .await?;
    let new: Vec<BlobRef> = content.parts.iter().filter(|part| !kept.contains(part)).cloned().collect();
    write.name_blobs(id, &new).await
}

/// The name of a version's rows.
async fn row_set_of(write: &mut Write, id: DatasetId, version: u64) -> Result<String> {
    let row = sqlx::query("SELECT row_set FROM dataset_versions WHERE dataset_id = $1 AND version = $2")
        .bind(id.to_string())
        .bind(version as i64)
        .fetch_one(write.connection())
        .await?;
    Ok(row.try_get("row_set")?)
}

/// The looks at other datasets that have rows of a dataset, and their unfinished jobs: the version whose rows contain
/// what they saw, and whether they saw exactly the rows of the newest version.
const SHARED_LOOKS: &str = "WITH own AS (\
     SELECT set_id, through_version FROM dataset_row_sets WHERE dataset_id = $1 UNION ALL \
     SELECT set_id, through_version FROM row_overlaps WHERE dataset_id = $1), \
    looks AS (\
     SELECT r.through_version AS through, k.row_set FROM own r \
     JOIN dataset_row_sets o ON o.set_id = r.set_id AND o.dataset_id <> $1 \
     JOIN ledger k ON k.dataset_id = o.dataset_id AND k.dataset_version >= o.first_version UNION \
     SELECT r.through_version, v.row_set FROM own r \
     JOIN dataset_row_sets o ON o.set_id = r.set_id AND o.dataset_id <> $1 \
     JOIN jobs j ON j.dataset_id = o.dataset_id AND j.status IN ('queued', 'running') \
      AND j.dataset_version >= o.first_version \
     JOIN dataset_versions v ON v.dataset_id = j.dataset_id AND v.version = j.dataset_version) \
    SELECT v.version, v.row_count, v.last_timestamp, (l.row_set IN (n.row_set, n.digest)) IS TRUE AS same \
    FROM looks l JOIN dataset_versions v ON v.dataset_id = $1 AND v.version = l.through \
    JOIN datasets d ON d.id = $1 JOIN dataset_versions n ON n.dataset_id = $1 AND n.version = d.version";

/// What the looks at a dataset's rows saw, and what unfinished jobs may be seeing.
pub(super) async fn seen(connection: &mut Connection, id: DatasetId) -> Result<SeenRows> {
    let own: Vec<(Count, Count, Option<i64>)> = sqlx::query_as(
        "SELECT version, row_count, last_timestamp FROM dataset_versions WHERE dataset_id = $1 AND version IN (\
         SELECT dataset_version FROM ledger WHERE dataset_id = $1 UNION \
         SELECT dataset_version FROM jobs WHERE dataset_id = $1 AND status IN ('queued', 'running')) \
         ORDER BY version",
    )
    .bind(id.to_string())
    .fetch_all(&mut *connection)
    .await?;
    let shared: Vec<(Count, Count, Option<i64>, bool)> =
        sqlx::query_as(SHARED_LOOKS).bind(id.to_string()).fetch_all(connection).await?;
    let versions =
        own.iter().copied().chain(shared.iter().map(|&(version, rows, last, _)| (version, rows, last)));
    let newest = versions.max_by_key(|&(version, ..)| version);
    Ok(SeenRows {
        rows: own.iter().map(|&(_, rows, _)| rows.0).collect(),
        elsewhere: shared.iter().filter(|(.., same)| !same).map(|&(_, rows, ..)| rows.0).collect(),
        version: newest.map_or(0, |(version, ..)| version.0),
        last_timestamp: newest.and_then(|(.., last)| last),
    })
}

#[async_trait]
impl Datasets for Repo {
    async fn create_dataset(&self, new: NewDataset) -> Result<Dataset> {
        let sketched = SketchedVersion {
            workspace: new.workspace.clone(),
            dataset: new.id,
            version: 1,
            digest: new.content.digest.clone(),
            all: Arc::new(new.sketch),
            new: None,
            reaches_back: false,
        };
        let recognized = self.recognize(&sketched).await?;
        let mut write = self.write().await?;
        let id = new.id.to_string();
        if let Some(policy) = new.logging_policy_id {
            write.check_policy(&new.workspace, policy).await?;
        }
        let inserted = sqlx::query(
            "INSERT INTO datasets (id, workspace, name, logging_policy_id, logging, repetitions, \
             exact_propensities, created_at, version, revision) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, 1)",
        )
        .bind(&id)
        .bind(new.workspace.as_str())
        .bind(new.name.as_deref().map(plain))
        .bind(new.logging_policy_id.map(|id| id.to_string()))
        .bind(to_json(&new.options.logging)?)
        .bind(to_json(&new.options.repetitions)?)
        .bind(new.options.exact_propensities)
        .bind(write.now.0)
        .execute(write.connection())
        .await;
        match inserted {
            Err(error) if is_taken(&error) => return Err(StoreError::Exists(Resource::Dataset, id)),
            other => other?,
        };
        if let Some(done) = &new.import {
            write.end_import(new.id, done).await?;
        }
        insert_version(&mut write, &id, 1, &new.content, &sketched.row_set(), &[]).await?;
        write.open_ledger(&new.workspace, new.id).await?;
        write.remember_rows(&sketched, recognized).await?;
        let stored = newest(write.connection(), &new.workspace, new.id).await?;
        write.commit().await?;
        Ok(stored)
    }

    async fn add_dataset_version(
        &self,
        workspace: &Workspace,
        id: DatasetId,
        new: NewVersion,
    ) -> Result<Dataset> {
        let version = new.after_version + 1;
        let sketched = new.added.map(|added| SketchedVersion {
            workspace: workspace.clone(),
            dataset: id,
            version,
            digest: new.content.digest.clone(),
            all: Arc::new(added.all),
            new: Some(Arc::new(added.new)),
            reaches_back: added.reaches_back,
        });
        let recognized = match &sketched {
            Some(sketched) => self.recognize(sketched).await?,
            None => Recognized::default(),
        };
        let mut write = self.write().await?;
        let before = newest(write.connection(), workspace, id).await?;
        if before.version != new.after_version {
            let by = format!("another append, which created version {}; send the rows again", before.version);
            return Err(StoreError::InUse { resource: Resource::Dataset, by });
        }
        if let Some(compared) = new.seen_version
            && seen(write.connection(), id).await?.version > compared
        {
            let by = "a job that was submitted while the rows arrived; send the rows again".into();
            return Err(StoreError::InUse { resource: Resource::Dataset, by });
        }
        let row_set = match &sketched {
            Some(sketched) => sketched.row_set(),
            None => row_set_of(&mut write, id, before.version).await?,
        };
        let kept = &before.content.parts;
        insert_version(&mut write, &id.to_string(), version, &new.content, &row_set, kept).await?;
        sqlx::query("UPDATE datasets SET version = $2, revision = revision + 1 WHERE id = $1")
            .bind(id.to_string())
            .bind(version as i64)
            .execute(write.connection())
            .await?;
        if let Some(sketched) = &sketched {
            write.remember_rows(sketched, recognized).await?;
        }
        let stored = newest(write.connection(), workspace, id).await?;
        write.commit().await?;
        Ok(stored)
    }

    async fn seen_by_looks(&self, workspace: &Workspace, id: DatasetId) -> Result<SeenRows> {
        let mut tx = self.read().await?;
        newest(&mut tx, workspace, id).await?;
        seen(&mut tx, id).await
    }

    async fn row_sketches(&self, id: DatasetId) -> Result<Vec<RowSketch>> {
        let stored = own_sketches(&mut *self.readers.acquire().await?, id).await?;
        let decoded = tokio::task::spawn_blocking(move || stored.iter().map(|bytes| decode(bytes)).collect());
        decoded.await.map_err(|error| StoreError::damaged("the sketches of a dataset", error))?
    }

    async fn candidate_additions(&self, workspace: &Workspace, id: DatasetId) -> Result<u64> {
        // Every append has at least one row.
        let (additions,): (Count,) = sqlx::query_as(
            "SELECT COUNT(*) - COUNT(DISTINCT v.row_count) FROM dataset_versions v \
             JOIN datasets d ON d.id = v.dataset_id WHERE d.id = $1 AND d.workspace = $2",
        )
        .bind(id.to_string())
        .bind(workspace.as_str())
        .fetch_one(&self.readers)
        .await?;
        Ok(additions.0)
    }

    async fn version_with_part(
        &self,
        workspace: &Workspace,
        id: DatasetId,
        prefix: &str,
    ) -> Result<Option<Dataset>> {
        let version: (Option<i64>,) = sqlx::query_as(
            "SELECT MIN(v.version) FROM dataset_versions v JOIN datasets d ON d.id = v.dataset_id \
             WHERE d.id = $1 AND d.workspace = $2 AND REPLACE(CAST(v.parts AS TEXT), $3, '') <> CAST(v.parts AS TEXT)",
        )
        .bind(id.to_string())
        .bind(workspace.as_str())
        .bind(prefix)
        .fetch_one(&self.readers)
        .await?;
        match version.0 {
            Some(version) => self.dataset_version(workspace, id, version as u64).await.map(Some),
            None => Ok(None),
        }
    }

    async fn dataset(&self, workspace: &Workspace, id: DatasetId) -> Result<Dataset> {
        newest(&mut *self.readers.acquire().await?, workspace, id).await
    }

    async fn dataset_version(&self, workspace: &Workspace, id: DatasetId, version: u64) -> Result<Dataset> {
        let dataset: Option<Dataset> =
            sqlx::query_as(select_dataset!("WHERE d.id = $1 AND d.workspace = $2 AND v.version = $3"))
                .bind(id.to_string())
                .bind(workspace.as_str())
                .bind(i64::try_from(version).unwrap_or(i64::MAX))
                .fetch_optional(&self.readers)
                .await
                .map_err(|error| StoreError::from(error).of(Owner::Dataset(id)))?;
        let missing = || StoreError::not_found(Resource::DatasetVersion, format!("{id} version {version}"));
        dataset.ok_or_else(missing)
    }

    async fn dataset_versions(
        &self,
        workspace: &Workspace,
        id: DatasetId,
        page: &PageRequest,
    ) -> Result<Page<DatasetVersion>> {
        versions(&mut *self.readers.acquire().await?, workspace, id, page).await
    }

    async fn datasets(&self, workspace: &Workspace, page: &PageRequest) -> Result<Page<Dataset>> {
        let sql = select_dataset!(
            "WHERE d.workspace = $1 AND v.version = d.version AND (d.created_at, d.id) < ($2, $3) \
             ORDER BY d.created_at DESC, d.id DESC LIMIT $4"
        );
        read_page(&self.readers, sql, workspace.as_str(), page).await
    }

    async fn delete_dataset(&self, workspace: &Workspace, id: DatasetId) -> Result<Vec<String>> {
        let mut write = self.write().await?;
        // Jobs are in the workspace of their dataset, so no other workspace learns anything from this.
        let job = sqlx::query(
            "SELECT id FROM jobs WHERE dataset_id = $1 AND workspace = $2 AND status IN ('queued', 'running') LIMIT 1",
        )
        .bind(id.to_string())
        .bind(workspace.as_str())
        .fetch_optional(write.connection())
        .await?;
        if let Some(row) = job {
            let job: String = row.try_get("id")?;
            let by = format!("the unfinished job {job}; wait for it or cancel it");
            return Err(StoreError::InUse { resource: Resource::Dataset, by });
        }
        let deleted = sqlx::query("DELETE FROM datasets WHERE id = $1 AND workspace = $2")
            .bind(id.to_string())
            .bind(workspace.as_str())
            .execute(write.connection())
            .await?;
        if deleted.rows_affected() == 0 {
            return Err(StoreError::not_found(Resource::Dataset, id));
        }
        sqlx::query("DELETE FROM imports WHERE id = $1")
            .bind(id.to_string())
            .execute(write.connection())
            .await?;
        let blobs = write.forget_blobs(&id.to_string()).await?;
        write.commit().await?;
        Ok(blobs)
    }
}
