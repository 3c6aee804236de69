//! Recognizes rows that the workspace has stored before, in any order and in any dataset, deleted ones
//! included. Datasets that share rows share one ledger, so that uploading a log again does not make its looks
//! free.
//!
//! A sketch has at most 100 KB, whatever the size of its log. Reading and comparing one takes about half a
//! millisecond, so an upload to a workspace with 1 000 large datasets takes half a second longer. That happens on
//! a reader's connection, before the write transaction begins. The transaction only compares with the sketches
//! that were stored since, so other writers do not wait. A sketch is deleted only when one of the same rows and
//! more takes its place, with a higher number, so nothing is missed in between.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryStreamExt;
use sqlx::{Row, SqliteConnection};

use super::rows::to_json;
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

/// The ledgers of which a dataset was found to have some of the same rows, each with that dataset, among all
/// sketches up to a number.
#[derive(Default)]
pub struct Recognized {
    ledgers: BTreeMap<String, String>,
    through: i64,
}

/// Compares with the sketches that were stored after those that `so_far` covers.
async fn compare(
    connection: &mut SqliteConnection,
    version: &SketchedVersion<'_>,
    so_far: &mut Recognized,
) -> Result<()> {
    let mut stored = sqlx::query(
        "SELECT s.seq, s.dataset_id, l.ledger_id, s.digest, s.sketch FROM row_sketches s \
         JOIN ledger_datasets l ON l.dataset_id = s.dataset_id WHERE s.workspace = $1 AND s.seq > $2 ORDER BY s.seq",
    )
    .bind(version.workspace.as_str())
    .bind(so_far.through)
    .fetch(connection);
    let own = version.dataset.to_string();
    while let Some(row) = stored.try_next().await? {
        so_far.through = row.try_get("seq")?;
        let (dataset, ledger): (String, String) = (row.try_get("dataset_id")?, row.try_get("ledger_id")?);
        // One dataset of a ledger is enough. A log that was uploaded a thousand times is compared once.
        if dataset == own || so_far.ledgers.contains_key(&ledger) {
            continue;
        }
        let sketch: Option<&[u8]> = row.try_get("sketch")?;
        let damaged = || StoreError::damaged("a sketch of rows", &dataset);
        let sketch = sketch.map(|bytes| RowSketch::from_bytes(bytes).ok_or_else(damaged)).transpose()?;
        if version.shares_rows(row.try_get("digest")?, sketch.as_ref()) {
            so_far.ledgers.insert(ledger, dataset);
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
        // Ledgers may have been merged since they were found, so they are looked up by their datasets.
        for dataset in found.ledgers.into_values() {
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
        sqlx::query("INSERT INTO ledgers (id, workspace, datasets, looks, spent) VALUES ($1, $2, 1, 0, 0.0)")
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
            "UPDATE ledgers SET datasets = datasets + (SELECT datasets FROM ledgers WHERE id = $1), \
             looks = looks + (SELECT looks FROM ledgers WHERE id = $1), \
             spent = spent + (SELECT spent FROM ledgers WHERE id = $1) WHERE id = $2",
            "UPDATE ledger SET ledger_id = $2 WHERE ledger_id = $1",
            "UPDATE ledger_datasets SET ledger_id = $2 WHERE ledger_id = $1",
        ] {
            sqlx::query(statement).bind(&from).bind(&to).execute(self.connection()).await?;
        }
        sqlx::query("DELETE FROM ledgers WHERE id = $1").bind(&from).execute(self.connection()).await?;
        Ok(())
    }
}

/// One of `others` that shares the ledger of a dataset, or is it.
pub async fn of_same_ledger(
    connection: &mut SqliteConnection,
    dataset: DatasetId,
    others: &BTreeSet<DatasetId>,
) -> Result<Option<DatasetId>> {
    let found: Option<(DatasetId,)> = sqlx::query_as(
        "SELECT o.dataset_id FROM ledger_datasets l JOIN ledger_datasets o ON o.ledger_id = l.ledger_id \
         WHERE l.dataset_id = $1 AND o.dataset_id IN (SELECT value FROM json_each($2)) LIMIT 1",
    )
    .bind(dataset.to_string())
    .bind(to_json(others)?)
    .fetch_optional(connection)
    .await?;
    Ok(found.map(|(id,)| id))
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
