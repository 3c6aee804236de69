//! Recognizes rows that the workspace has stored before, in any order and in any dataset, deleted ones
//! included. Datasets that share rows share one ledger, so that uploading a log again does not make its looks
//! free.
//!
//! A sketch has at most 100 KB, whatever the size of its log. Reading and comparing one takes about half a
//! millisecond, so an upload to a workspace with 1 000 large datasets takes half a second longer. That happens on
//! a reader's connection, before the write transaction begins. The transaction only compares with the sketches
//! that were stored since, so other writers do not wait. A sketch is deleted only when one of the same rows and
//! more takes its place, with a higher number, so nothing is missed in between.

use std::collections::BTreeSet;

use futures_util::TryStreamExt;
use sqlx::{Row, SqliteConnection};

use super::{Sqlite, Write};
use crate::store::error::{Result, StoreError};
use crate::store::ids::{DatasetId, Workspace};
use guarantor_ingest::RowSketch;

/// A version whose rows are compared with those that are stored.
pub struct SketchedVersion<'a> {
    /// Its workspace.
    pub workspace: &'a Workspace,
    /// Its dataset.
    pub dataset: DatasetId,
    /// The version.
    pub version: u64,
    /// The digest of its rows.
    pub digest: &'a str,
    /// The sketch of all of its rows.
    pub all: &'a RowSketch,
    /// The sketch of the rows that it added to its predecessor; `None` for a first version.
    pub new: Option<&'a RowSketch>,
}

impl SketchedVersion<'_> {
    fn shares_rows(&self, digest: &str, sketch: Option<&RowSketch>) -> bool {
        let same = |stored: &RowSketch| {
            self.all.same_rows(stored) || self.new.is_some_and(|new| new.same_rows(stored))
        };
        digest == self.digest || sketch.is_some_and(same)
    }
}

/// The datasets that were found to have some of the same rows, among all sketches up to a number.
#[derive(Default)]
pub struct Recognized {
    datasets: BTreeSet<String>,
    through: i64,
}

/// Compares with the sketches that were stored after those that `so_far` covers.
async fn compare(
    connection: &mut SqliteConnection,
    version: &SketchedVersion<'_>,
    so_far: &mut Recognized,
) -> Result<()> {
    let mut stored = sqlx::query(
        "SELECT seq, dataset_id, digest, sketch FROM row_sketches \
         WHERE workspace = $1 AND seq > $2 ORDER BY seq",
    )
    .bind(version.workspace.as_str())
    .bind(so_far.through)
    .fetch(connection);
    let own = version.dataset.to_string();
    while let Some(row) = stored.try_next().await? {
        so_far.through = row.try_get("seq")?;
        let dataset: String = row.try_get("dataset_id")?;
        if dataset == own || so_far.datasets.contains(&dataset) {
            continue;
        }
        let sketch: Option<&[u8]> = row.try_get("sketch")?;
        let damaged = || StoreError::damaged("a sketch of rows", &dataset);
        let sketch = sketch.map(|bytes| RowSketch::from_bytes(bytes).ok_or_else(damaged)).transpose()?;
        if version.shares_rows(row.try_get("digest")?, sketch.as_ref()) {
            so_far.datasets.insert(dataset);
        }
    }
    Ok(())
}

impl Sqlite {
    /// Compares with everything that is stored, before the transaction that will store the version.
    pub async fn recognize(&self, version: &SketchedVersion<'_>) -> Result<Recognized> {
        let mut found = Recognized::default();
        compare(&mut *self.readers.acquire().await?, version, &mut found).await?;
        Ok(found)
    }
}

impl Write {
    /// Stores the sketches of a version, and lets its dataset share the ledger of every dataset with the same
    /// rows.
    pub async fn remember_rows(
        &mut self,
        version: &SketchedVersion<'_>,
        mut found: Recognized,
    ) -> Result<()> {
        compare(self.connection(), version, &mut found).await?;
        if let Some(new) = version.new {
            sqlx::query("DELETE FROM row_sketches WHERE dataset_id = $1 AND whole = 1")
                .bind(version.dataset.to_string())
                .execute(self.connection())
                .await?;
            self.insert_sketch(version, false, new).await?;
        }
        self.insert_sketch(version, version.new.is_some(), version.all).await?;
        for dataset in found.datasets {
            self.merge_ledgers(&version.dataset.to_string(), &dataset).await?;
        }
        Ok(())
    }

    async fn insert_sketch(
        &mut self,
        version: &SketchedVersion<'_>,
        whole: bool,
        sketch: &RowSketch,
    ) -> Result<()> {
        let now = self.now.0;
        sqlx::query(
            "INSERT INTO row_sketches (workspace, dataset_id, version, whole, digest, sketch, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(version.workspace.as_str())
        .bind(version.dataset.to_string())
        .bind(version.version as i64)
        .bind(i64::from(whole))
        .bind(version.digest)
        .bind(sketch.to_bytes())
        .bind(now)
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// Gives a new dataset a ledger of its own.
    pub async fn open_ledger(&mut self, workspace: &Workspace, dataset: DatasetId) -> Result<()> {
        let id = dataset.to_string();
        sqlx::query("INSERT INTO ledgers (id, workspace, looks, spent) VALUES ($1, $2, 0, 0.0)")
            .bind(&id)
            .bind(workspace.as_str())
            .execute(self.connection())
            .await?;
        sqlx::query("INSERT INTO ledger_datasets (dataset_id, ledger_id) VALUES ($1, $1)")
            .bind(&id)
            .execute(self.connection())
            .await?;
        Ok(())
    }

    /// The id of a dataset's ledger.
    pub async fn ledger_of(&mut self, dataset: &str) -> Result<String> {
        ledger_of(self.connection(), dataset).await
    }

    /// Makes one ledger of those of two datasets: looks and costs add up. Entries keep their numbers, which
    /// were signed; the next look counts on from all of them.
    async fn merge_ledgers(&mut self, dataset: &str, other: &str) -> Result<()> {
        let (from, to) = (self.ledger_of(dataset).await?, self.ledger_of(other).await?);
        if from == to {
            return Ok(());
        }
        for statement in [
            "UPDATE ledgers SET looks = looks + (SELECT looks FROM ledgers WHERE id = $1), \
             spent = spent + (SELECT spent FROM ledgers WHERE id = $1) WHERE id = $2",
            "UPDATE ledger SET ledger_id = $2 WHERE ledger_id = $1",
            "UPDATE ledger_datasets SET ledger_id = $2 WHERE ledger_id = $1",
        ] {
            sqlx::query(statement).bind(&from).bind(&to).execute(self.connection()).await?;
        }
        sqlx::query("DELETE FROM ledgers WHERE id = $1").bind(&from).execute(self.connection()).await?;
        // Each of them now names others, so what clients have cached is outdated.
        sqlx::query(
            "UPDATE datasets SET revision = revision + 1 \
             WHERE id IN (SELECT dataset_id FROM ledger_datasets WHERE ledger_id = $1)",
        )
        .bind(&to)
        .execute(self.connection())
        .await?;
        Ok(())
    }
}

/// The id of a dataset's ledger. Every dataset has one, from its creation on and forever.
pub async fn ledger_of(connection: &mut SqliteConnection, dataset: &str) -> Result<String> {
    let found: Option<(String,)> =
        sqlx::query_as("SELECT ledger_id FROM ledger_datasets WHERE dataset_id = $1")
            .bind(dataset)
            .fetch_optional(connection)
            .await?;
    found.map(|(id,)| id).ok_or_else(|| StoreError::damaged("the ledger of a dataset", "it is missing"))
}
