//! Sets of rows that the workspace has stored, and which datasets have them.
//!
//! A set is the rows that a version added, or all rows of a version. Datasets with exactly the same rows have the same
//! set, so a log that is uploaded a thousand times is stored and compared once. A dataset has at most
//! `MAX_PARTS` sets besides that of all of its rows: the sets of adjacent small appends are merged.

use sqlx::Row;

use super::rows::{Count, to_json};
use super::{Connection, Write};
use crate::store::error::{Result, StoreError};
use crate::store::ids::{DatasetId, Workspace};
use guarantor_ingest::RowSketch;

/// The most hashes of a set in the index. A log has at most eight times as many in its sketch, so of a sample that is
/// large enough to be recognized, some are very likely in the index.
const INDEXED: usize = 1024;
/// The most sets of appended rows that a dataset has.
const MAX_PARTS: usize = 32;

/// If a dataset is known to have rows of a set, it has them among those of the later version.
macro_rules! later_overlap {
    () => {
        "ON CONFLICT (dataset_id, set_id) DO UPDATE SET through_version = \
         CASE WHEN row_overlaps.through_version > excluded.through_version \
          THEN row_overlaps.through_version ELSE excluded.through_version END"
    };
}

/// The name of a set. Rows without a sketch are known by the digest of their log.
pub fn set_name(sketch: &RowSketch, digest: &str) -> String {
    sketch.name().unwrap_or_else(|| digest.to_owned())
}

/// The ids of the sets after `after` that may have rows of these: those with one of the names, and those with an
/// indexed hash.
pub async fn sets_like(
    connection: &mut Connection,
    workspace: &Workspace,
    names: &[&str],
    sketches: &[&RowSketch],
    after: i64,
) -> Result<Vec<i64>> {
    let mut hashes: Vec<i64> = sketches.iter().flat_map(|sketch| sketch.sampled()).map(as_stored).collect();
    hashes.sort_unstable();
    hashes.dedup();
    // One search of the index per hash.
    let found: Vec<(i64,)> = sqlx::query_as(concat!(
        "SELECT id FROM row_sets WHERE workspace = $1 AND name IN (SELECT value FROM ",
        json_each!("$2"),
        ") AND id > $4 \
         UNION SELECT h.set_id FROM ",
        json_each!("$3"),
        " j ",
        join_in_order!(),
        " row_hashes h ON h.workspace = $1 \
         AND h.hash = CAST(j.value AS BIGINT) WHERE h.set_id > $4"
    ))
    .bind(workspace.as_str())
    .bind(to_json(&names)?)
    .bind(to_json(&hashes)?)
    .bind(after)
    .fetch_all(connection)
    .await?;
    Ok(found.into_iter().map(|(id,)| id).collect())
}

/// The database has no unsigned integers.
fn as_stored(hash: u64) -> i64 {
    i64::from_ne_bytes(hash.to_ne_bytes())
}

/// The newest set of all workspaces.
pub async fn newest_set(connection: &mut Connection) -> Result<i64> {
    let row = sqlx::query("SELECT COALESCE(MAX(id), 0) AS id FROM row_sets").fetch_one(connection).await?;
    Ok(row.try_get("id")?)
}

/// The name and the sketch of a set, or `None` if it was replaced in the meantime.
pub async fn read_set(connection: &mut Connection, id: i64) -> Result<Option<(String, Option<Vec<u8>>)>> {
    let row = sqlx::query_as("SELECT name, sketch FROM row_sets WHERE id = $1")
        .bind(id)
        .fetch_optional(connection)
        .await?;
    Ok(row)
}

/// Decodes a stored sketch.
pub fn decode(bytes: &[u8]) -> Result<RowSketch> {
    RowSketch::from_bytes(bytes).ok_or_else(|| StoreError::damaged("a sketch of rows", "it cannot be read"))
}

/// The sketches of the sets that a dataset's versions added, oldest first.
pub async fn own_sketches(connection: &mut Connection, dataset: DatasetId) -> Result<Vec<Vec<u8>>> {
    let rows: Vec<(Vec<u8>,)> = sqlx::query_as(
        "SELECT s.sketch FROM dataset_row_sets d JOIN row_sets s ON s.id = d.set_id \
         WHERE d.dataset_id = $1 AND d.whole = FALSE AND s.sketch IS NOT NULL ORDER BY d.first_version, d.set_id",
    )
    .bind(dataset.to_string())
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|(sketch,)| sketch).collect())
}

/// A dataset that has a set.
#[derive(sqlx::FromRow)]
pub struct SetOwner {
    /// The dataset.
    pub dataset_id: String,
    /// Whether the set is all of its rows.
    pub whole: bool,
    /// The version whose rows contain the set.
    pub through_version: i64,
}

/// The versions of a dataset that have a set.
pub struct SetVersions {
    /// Whether the set is all rows of the newest version, after an append.
    pub whole: bool,
    /// The first of them.
    pub first: u64,
    /// The version whose rows contain the set.
    pub through: u64,
}

impl Write {
    /// The id of the set with this name. It is stored if there is none.
    pub async fn set_named(&mut self, workspace: &Workspace, name: &str, sketch: &RowSketch) -> Result<i64> {
        let found: Option<(i64,)> =
            sqlx::query_as("SELECT id FROM row_sets WHERE workspace = $1 AND name = $2")
                .bind(workspace.as_str())
                .bind(name)
                .fetch_optional(self.connection())
                .await?;
        if let Some((id,)) = found {
            return Ok(id);
        }
        let row =
            sqlx::query("INSERT INTO row_sets (workspace, name, sketch) VALUES ($1, $2, $3) RETURNING id")
                .bind(workspace.as_str())
                .bind(name)
                .bind((sketch.rows() > 0).then(|| sketch.to_bytes()))
                .fetch_one(self.connection())
                .await?;
        let id: i64 = row.try_get("id")?;
        let hashes: Vec<i64> = sketch.sampled().take(INDEXED).map(as_stored).collect();
        sqlx::query(concat!(
            "INSERT INTO row_hashes (workspace, hash, set_id) SELECT $1, CAST(value AS BIGINT), $2 FROM ",
            json_each!("$3")
        ))
        .bind(workspace.as_str())
        .bind(id)
        .bind(to_json(&hashes)?)
        .execute(self.connection())
        .await?;
        Ok(id)
    }

    /// Records that a dataset has a set.
    pub async fn own_set(&mut self, dataset: DatasetId, set: i64, versions: &SetVersions) -> Result<()> {
        sqlx::query(
            "INSERT INTO dataset_row_sets (dataset_id, set_id, whole, first_version, through_version) \
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (dataset_id, set_id, whole) DO UPDATE SET \
             first_version = CASE WHEN dataset_row_sets.first_version < excluded.first_version \
              THEN dataset_row_sets.first_version ELSE excluded.first_version END, \
             through_version = CASE WHEN dataset_row_sets.through_version > excluded.through_version \
              THEN dataset_row_sets.through_version ELSE excluded.through_version END",
        )
        .bind(dataset.to_string())
        .bind(set)
        .bind(versions.whole)
        .bind(versions.first as i64)
        .bind(versions.through as i64)
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// The other datasets that have a set.
    pub async fn other_owners(&mut self, set: i64, than: DatasetId) -> Result<Vec<SetOwner>> {
        let owners = sqlx::query_as(
            "SELECT dataset_id, whole, through_version FROM dataset_row_sets WHERE set_id = $1 AND dataset_id <> $2",
        )
        .bind(set)
        .bind(than.to_string())
        .fetch_all(self.connection())
        .await?;
        Ok(owners)
    }

    /// Records that a dataset has rows of a set, among those of its version `through`.
    pub async fn overlap(&mut self, dataset: &str, set: i64, through: i64) -> Result<()> {
        sqlx::query(concat!(
            "INSERT INTO row_overlaps (dataset_id, set_id, through_version) VALUES ($1, $2, $3) ",
            later_overlap!()
        ))
        .bind(dataset)
        .bind(set)
        .bind(through)
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// Whether a dataset is known to have rows of another one.
    pub async fn overlaps(&mut self, dataset: DatasetId, other: &str) -> Result<bool> {
        let found = sqlx::query(
            "SELECT 1 FROM dataset_row_sets o WHERE o.dataset_id = $2 AND (\
             EXISTS (SELECT 1 FROM row_overlaps r WHERE r.dataset_id = $1 AND r.set_id = o.set_id) OR \
             EXISTS (SELECT 1 FROM dataset_row_sets d WHERE d.dataset_id = $1 AND d.set_id = o.set_id)) LIMIT 1",
        )
        .bind(dataset.to_string())
        .bind(other)
        .fetch_optional(self.connection())
        .await?;
        Ok(found.is_some())
    }

    /// After an append whose rows arrived before stored ones: what is known about a dataset's rows is no longer
    /// known about its first rows, so it holds for all of them.
    pub async fn spread_overlaps(&mut self, dataset: DatasetId, version: u64) -> Result<()> {
        for statement in [
            "UPDATE row_overlaps SET through_version = $2 WHERE dataset_id = $1",
            "UPDATE dataset_row_sets SET through_version = $2 WHERE dataset_id = $1",
        ] {
            sqlx::query(statement)
                .bind(dataset.to_string())
                .bind(version as i64)
                .execute(self.connection())
                .await?;
        }
        Ok(())
    }

    /// Lets `set`, which contains the rows of `old`, take its place in a dataset. Whatever has rows of `old` has
    /// rows of `set`.
    pub async fn replace_set(&mut self, dataset: DatasetId, old: i64, whole: bool, set: i64) -> Result<()> {
        if old == set {
            return Ok(());
        }
        let own = dataset.to_string();
        for statement in [
            concat!(
                "INSERT INTO row_overlaps (dataset_id, set_id, through_version) \
             SELECT dataset_id, $3, MAX(through_version) FROM (\
              SELECT dataset_id, through_version FROM row_overlaps WHERE set_id = $2 AND dataset_id <> $1 UNION ALL \
              SELECT dataset_id, through_version FROM dataset_row_sets WHERE set_id = $2 AND dataset_id <> $1\
             ) o WHERE $4 IS NOT NULL GROUP BY dataset_id ",
                later_overlap!()
            ),
            concat!(
                "INSERT INTO row_overlaps (dataset_id, set_id, through_version) \
             SELECT dataset_id, set_id, through_version FROM dataset_row_sets d \
             WHERE d.dataset_id = $1 AND d.set_id = $2 AND d.whole = $4 AND EXISTS (\
              SELECT 1 FROM dataset_row_sets o WHERE o.set_id = $2 AND o.dataset_id <> $1) AND $3 > 0 ",
                later_overlap!()
            ),
            "DELETE FROM dataset_row_sets WHERE dataset_id = $1 AND set_id = $2 AND whole = $4 AND $3 > 0",
        ] {
            sqlx::query(statement)
                .bind(&own)
                .bind(old)
                .bind(set)
                .bind(whole)
                .execute(self.connection())
                .await?;
        }
        self.forget_unowned(old).await
    }

    async fn forget_unowned(&mut self, set: i64) -> Result<()> {
        let owned = sqlx::query("SELECT 1 FROM dataset_row_sets WHERE set_id = $1 LIMIT 1")
            .bind(set)
            .fetch_optional(self.connection())
            .await?;
        if owned.is_some() {
            return Ok(());
        }
        for statement in [
            "DELETE FROM row_overlaps WHERE set_id = $1",
            "DELETE FROM row_hashes WHERE set_id = $1",
            "DELETE FROM row_sets WHERE id = $1",
        ] {
            sqlx::query(statement).bind(set).execute(self.connection()).await?;
        }
        Ok(())
    }

    /// Merges the two adjacent appends with the fewest rows if a dataset has too many sets.
    pub async fn merge_small_parts(&mut self, workspace: &Workspace, dataset: DatasetId) -> Result<()> {
        let parts: Vec<(i64, Count, Count, Vec<u8>)> = sqlx::query_as(
            "SELECT d.set_id, d.first_version, d.through_version, s.sketch FROM dataset_row_sets d \
             JOIN row_sets s ON s.id = d.set_id WHERE d.dataset_id = $1 AND d.whole = FALSE AND s.sketch IS NOT NULL \
             ORDER BY d.first_version, d.set_id",
        )
        .bind(dataset.to_string())
        .fetch_all(self.connection())
        .await?;
        if parts.len() <= MAX_PARTS {
            return Ok(());
        }
        let sketches: Vec<RowSketch> =
            parts.iter().map(|(.., bytes)| decode(bytes)).collect::<Result<_>>()?;
        let rows = |at: &usize| sketches[*at].rows().saturating_add(sketches[at + 1].rows());
        let Some(at) = (0..parts.len() - 1).min_by_key(rows) else { return Ok(()) };
        let (first, second) = (&parts[at], &parts[at + 1]);
        let mut merged = sketches[at].clone();
        merged.merge(&sketches[at + 1]);
        let set = self.set_named(workspace, &set_name(&merged, ""), &merged).await?;
        let versions = SetVersions {
            whole: false,
            first: first.1.0.min(second.1.0),
            through: first.2.0.max(second.2.0),
        };
        self.own_set(dataset, set, &versions).await?;
        for part in [first, second] {
            self.replace_set(dataset, part.0, false, set).await?;
        }
        Ok(())
    }
}
