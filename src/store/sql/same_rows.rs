//! Recognizes rows that the workspace has stored before, in any order and in any dataset, deleted ones
//! included. Datasets that share rows share one ledger, so that uploading a log again does not make its looks
//! free. And rows that a look at one of them has seen are not fresh in another.
//!
//! A sketch has at most 100 KB, whatever the size of its log. Only sketches that share a hash with the log are read
//! and compared, before the write transaction begins and on a thread for blocking work. The transaction compares
//! only with sets that were stored since, so other writers do not wait. A set is deleted only when one of the same
//! rows and more takes its place, with a higher number, so nothing is missed in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::row_sets::{SetOwner, SetVersions, decode, newest_set, read_set, set_name, sets_like};
use super::rows::to_json;
use super::{Connection, Repo, Write};
use crate::store::error::{Result, StoreError};
use crate::store::ids::{DatasetId, Workspace};
use guarantor_ingest::RowSketch;

/// How many sketches are compared at a time, so that few are in memory.
const AT_ONCE: usize = 16;

/// A version whose rows are compared with those that are stored.
#[derive(Clone)]
pub struct SketchedVersion {
    /// Its workspace.
    pub workspace: Workspace,
    /// Its dataset.
    pub dataset: DatasetId,
    /// The version.
    pub version: u64,
    /// The digest of its rows.
    pub digest: String,
    /// The sketch of all of its rows.
    pub all: Arc<RowSketch>,
    /// The sketch of the rows that it added to its predecessor; `None` for a first version.
    pub new: Option<Arc<RowSketch>>,
    /// Whether some of these arrived before rows of its predecessor.
    pub reaches_back: bool,
}

/// Which rows of a version are in a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shared {
    /// So many of those that it added that this cannot be chance.
    Added,
    /// So many of all of its rows.
    Any,
}

impl SketchedVersion {
    /// The name of all of its rows.
    pub fn row_set(&self) -> String {
        set_name(&self.all, &self.digest)
    }

    fn shares_rows(&self, name: &str, sketch: Option<&RowSketch>) -> Option<Shared> {
        let same = |own: &RowSketch| sketch.is_some_and(|stored| own.same_rows(stored));
        let all = name == self.digest || name == self.row_set() || same(&self.all);
        match &self.new {
            None if all => Some(Shared::Added),
            Some(new) if same(new) => Some(Shared::Added),
            Some(_) if all => Some(Shared::Any),
            _ => None,
        }
    }
}

/// The sets with some of a version's rows, among all sets up to a number.
#[derive(Default)]
pub struct Recognized {
    sets: BTreeMap<i64, Shared>,
    through: i64,
}

/// The sets after those that `so_far` covers that may have rows of the version.
async fn candidates(
    connection: &mut Connection,
    version: &SketchedVersion,
    so_far: &Recognized,
) -> Result<Vec<i64>> {
    let name = version.row_set();
    let sketches: Vec<&RowSketch> =
        [Some(&version.all), version.new.as_ref()].into_iter().flatten().map(|s| &**s).collect();
    sets_like(connection, &version.workspace, &[&name, &version.digest], &sketches, so_far.through).await
}

/// Those of the stored sets that have rows of the version.
fn compare(version: &SketchedVersion, stored: Vec<StoredSet>) -> Result<BTreeMap<i64, Shared>> {
    let mut found = BTreeMap::new();
    for StoredSet { id, name, sketch } in stored {
        let sketch = sketch.as_deref().map(decode).transpose()?;
        if let Some(shared) = version.shares_rows(&name, sketch.as_ref()) {
            found.insert(id, shared);
        }
    }
    Ok(found)
}

struct StoredSet {
    id: i64,
    name: String,
    sketch: Option<Vec<u8>>,
}

async fn read_sets(connection: &mut Connection, ids: &[i64]) -> Result<Vec<StoredSet>> {
    let mut sets = Vec::new();
    for &id in ids {
        if let Some((name, sketch)) = read_set(connection, id).await? {
            sets.push(StoredSet { id, name, sketch });
        }
    }
    Ok(sets)
}

impl Repo {
    /// Compares with everything that is stored, before the transaction that will store the version.
    pub async fn recognize(&self, version: &SketchedVersion) -> Result<Recognized> {
        let mut found = Recognized::default();
        let mut tx = self.read().await?;
        let through = newest_set(&mut tx).await?;
        for ids in candidates(&mut tx, version, &found).await?.chunks(AT_ONCE) {
            let stored = read_sets(&mut tx, ids).await?;
            let version = version.clone();
            let compared = tokio::task::spawn_blocking(move || compare(&version, stored)).await;
            found.sets.extend(compared.map_err(|error| StoreError::damaged("a comparison of rows", error))??);
        }
        found.through = through;
        Ok(found)
    }
}

/// A set of another dataset that has rows of a version.
struct Match {
    set: i64,
    shared: Shared,
    owner: SetOwner,
}

impl Write {
    /// Stores the sketches of a version, and lets its dataset share the ledger of every dataset with some of the
    /// same rows.
    pub async fn remember_rows(&mut self, version: &SketchedVersion, mut found: Recognized) -> Result<()> {
        let more = candidates(self.connection(), version, &found).await?;
        let stored = read_sets(self.connection(), &more).await?;
        found.sets.extend(compare(version, stored)?);
        let (added, whole) = self.own_sets(version).await?;
        let (sets, dataset) = (found.sets, version.dataset);
        for matches in self.matches(&sets, dataset).await?.into_values() {
            // If a part of the other dataset has the rows, they are not somewhere among all of its rows.
            let precise = matches.iter().any(|found| !found.owner.whole);
            let other = &matches[0].owner.dataset_id;
            let known = self.overlaps(dataset, other).await?;
            for Match { set, shared, owner } in matches.iter().filter(|found| !(precise && found.owner.whole))
            {
                let own = match shared {
                    Shared::Added => added,
                    // The rows are in earlier parts, for which this was recorded.
                    Shared::Any if known => continue,
                    Shared::Any => whole,
                };
                if *set == own {
                    continue;
                }
                self.overlap(&dataset.to_string(), *set, version.version as i64).await?;
                self.overlap(&owner.dataset_id, own, owner.through_version).await?;
            }
        }
        self.join_ledgers(dataset, &sets).await?;
        if version.reaches_back {
            self.spread_overlaps(dataset, version.version).await?;
        }
        self.merge_small_parts(&version.workspace, dataset).await
    }

    /// The sets with a version's rows, by the other datasets that have them.
    async fn matches(
        &mut self,
        sets: &BTreeMap<i64, Shared>,
        dataset: DatasetId,
    ) -> Result<BTreeMap<String, Vec<Match>>> {
        let mut matches: BTreeMap<String, Vec<Match>> = BTreeMap::new();
        for (&set, &shared) in sets {
            for owner in self.other_owners(set, dataset).await? {
                let of_owner = matches.entry(owner.dataset_id.clone()).or_default();
                of_owner.push(Match { set, shared, owner });
            }
        }
        Ok(matches)
    }

    /// Stores the sets of a version: what it added, and all of its rows.
    async fn own_sets(&mut self, version: &SketchedVersion) -> Result<(i64, i64)> {
        let (workspace, dataset, number) = (&version.workspace, version.dataset, version.version);
        let all = self.set_named(workspace, &version.row_set(), &version.all).await?;
        let Some(new) = &version.new else {
            let versions = SetVersions { whole: false, first: number, through: number };
            self.own_set(dataset, all, &versions).await?;
            return Ok((all, all));
        };
        let before: Vec<(i64,)> =
            sqlx::query_as("SELECT set_id FROM dataset_row_sets WHERE dataset_id = $1 AND whole = TRUE")
                .bind(dataset.to_string())
                .fetch_all(self.connection())
                .await?;
        self.own_set(dataset, all, &SetVersions { whole: true, first: 1, through: number }).await?;
        for (old,) in before {
            self.replace_set(dataset, old, true, all).await?;
        }
        let Some(name) = new.name() else { return Ok((all, all)) };
        let added = self.set_named(workspace, &name, new).await?;
        self.own_set(dataset, added, &SetVersions { whole: false, first: number, through: number }).await?;
        Ok((added, all))
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

    /// Makes one ledger of a dataset's and those of all datasets with these sets: looks and costs add up. Entries
    /// keep their numbers, which were signed; the next look counts on from all of them.
    async fn join_ledgers(&mut self, dataset: DatasetId, sets: &BTreeMap<i64, Shared>) -> Result<()> {
        let to = self.ledger_of(&dataset.to_string()).await?;
        let sets: Vec<i64> = sets.keys().copied().collect();
        let others: Vec<(String,)> = sqlx::query_as(concat!(
            "SELECT DISTINCT l.ledger_id FROM dataset_row_sets o JOIN ledger_datasets l \
             ON l.dataset_id = o.dataset_id WHERE o.set_id IN (SELECT CAST(value AS BIGINT) FROM ",
            json_each!("$1"),
            ") \
             AND l.ledger_id <> $2 ORDER BY l.ledger_id"
        ))
        .bind(to_json(&sets)?)
        .bind(&to)
        .fetch_all(self.connection())
        .await?;
        let Some(((oldest,), rest)) = others.split_first() else { return Ok(()) };
        // The oldest of the others stays: it may have many datasets and looks, and this one is usually new.
        for from in rest.iter().map(|(id,)| id).chain([&to]) {
            self.merge_ledger(from, oldest).await?;
        }
        Ok(())
    }

    async fn merge_ledger(&mut self, from: &str, to: &str) -> Result<()> {
        for statement in [
            "UPDATE ledgers SET datasets = datasets + (SELECT datasets FROM ledgers WHERE id = $1), \
             looks = looks + (SELECT looks FROM ledgers WHERE id = $1), \
             spent = spent + (SELECT spent FROM ledgers WHERE id = $1) WHERE id = $2",
            "UPDATE ledger SET ledger_id = $2 WHERE ledger_id = $1",
            "UPDATE ledger_datasets SET ledger_id = $2 WHERE ledger_id = $1",
        ] {
            sqlx::query(statement).bind(from).bind(to).execute(self.connection()).await?;
        }
        sqlx::query("DELETE FROM ledgers WHERE id = $1").bind(from).execute(self.connection()).await?;
        Ok(())
    }
}

/// One of `others` that shares the ledger of a dataset, or is it.
pub async fn of_same_ledger(
    connection: &mut Connection,
    dataset: DatasetId,
    others: &BTreeSet<DatasetId>,
) -> Result<Option<DatasetId>> {
    let found: Option<(DatasetId,)> = sqlx::query_as(concat!(
        "SELECT o.dataset_id FROM ledger_datasets l JOIN ledger_datasets o ON o.ledger_id = l.ledger_id \
         WHERE l.dataset_id = $1 AND o.dataset_id IN (SELECT value FROM ",
        json_each!("$2"),
        ") LIMIT 1"
    ))
    .bind(dataset.to_string())
    .bind(to_json(others)?)
    .fetch_optional(connection)
    .await?;
    Ok(found.map(|(id,)| id))
}

/// The id of a dataset's ledger. Every dataset has one, from its creation on and forever.
pub async fn ledger_of(connection: &mut Connection, dataset: &str) -> Result<String> {
    let found: Option<(String,)> =
        sqlx::query_as("SELECT ledger_id FROM ledger_datasets WHERE dataset_id = $1")
            .bind(dataset)
            .fetch_optional(connection)
            .await?;
    found.map(|(id,)| id).ok_or_else(|| StoreError::damaged("the ledger of a dataset", "it is missing"))
}
