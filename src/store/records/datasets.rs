//! Datasets and their versions.

use std::collections::BTreeSet;

use super::{BlobRef, ImportDone};
use crate::store::blob_keys::{is_merged, is_pinned};
use crate::store::ids::{DatasetId, PolicyId, Timestamp, Workspace};
use guarantor_engine::checks::CheckResult;
use guarantor_engine::footprint::SetSizes;
use guarantor_engine::ledger;
use guarantor_engine::log::{Capabilities, LogShape, Logging, Outcome, Repetitions};
use guarantor_ingest::{LogFacts, LogOptions, RowSketch};

/// What one version of a dataset contains.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct DatasetContent {
    /// The number of logged decisions.
    #[sqlx(rename = "row_count", try_from = "i64")]
    pub rows: u64,
    /// The number of distinct contexts.
    #[sqlx(rename = "context_count", try_from = "i64")]
    pub contexts: u64,
    /// K.
    #[sqlx(try_from = "i64")]
    pub n_actions: usize,
    /// The number of features.
    #[sqlx(try_from = "i64")]
    pub dim: usize,
    /// The kind and range of the outcome.
    #[sqlx(json)]
    pub outcome: Outcome,
    /// The digest of the rows.
    pub digest: String,
    /// What the log supports.
    #[sqlx(json)]
    pub capabilities: Capabilities,
    /// The latest timestamp of the rows, if they have one.
    pub last_timestamp: Option<i64>,
    /// The health report.
    #[sqlx(json)]
    pub health: serde_json::Value,
    /// The files with the rows, in order. A version that was appended starts with its predecessor's parts; one
    /// with more candidates has parts of its own.
    #[sqlx(json)]
    pub parts: Vec<BlobRef>,
}

/// A dataset to be stored, with its first version.
#[derive(Debug, Clone)]
pub struct NewDataset {
    /// Its id.
    pub id: DatasetId,
    /// Its workspace.
    pub workspace: Workspace,
    /// A name for people.
    pub name: Option<String>,
    /// The stored policy that logged it, if there is one.
    pub logging_policy_id: Option<PolicyId>,
    /// What the caller states about the log.
    pub options: LogOptions,
    /// The first version.
    pub content: DatasetContent,
    /// Recognizes its rows in other datasets.
    pub sketch: RowSketch,
    /// The import that created it, which ends in the same transaction.
    pub import: Option<ImportDone>,
}

/// The next version of a dataset.
#[derive(Debug, Clone)]
pub struct NewVersion {
    /// The version that it follows.
    pub after_version: u64,
    /// What it contains.
    pub content: DatasetContent,
    /// The rows that it adds; `None` if it has the rows of its predecessor.
    pub added: Option<AddedRows>,
    /// The newest version that a look or an unfinished job had seen when the new rows were checked
    /// (`Datasets::seen_by_looks`); absent if the rows were not compared with it. The version is not stored if
    /// a newer one was seen in the meantime.
    pub seen_version: Option<u64>,
}

/// Recognizes the rows of an appended version in other datasets.
#[derive(Debug, Clone)]
pub struct AddedRows {
    /// The rows that the version added. Among all rows of a large dataset, a few would not be recognized.
    pub new: RowSketch,
    /// All rows of the version.
    pub all: RowSketch,
    /// Whether some of the added rows arrived before rows of the dataset.
    pub reaches_back: bool,
}

/// What looks and unfinished jobs have seen of a dataset's rows, in it and in other datasets with some of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenRows {
    /// The number of rows that each of those on the dataset saw, without duplicates.
    pub rows: BTreeSet<u64>,
    /// For each of those on another dataset, the number of the dataset's first rows that contain all that it saw of
    /// them. Those that saw exactly the rows of the newest version are left out.
    pub elsewhere: BTreeSet<u64>,
    /// The newest version whose rows one of them saw; 0 if there is none.
    pub version: u64,
    /// The latest timestamp of that version's rows.
    pub last_timestamp: Option<i64>,
}

impl SeenRows {
    /// How many of `rows` rows, which are those of the newest version, a look at them must not certify again.
    pub fn before(&self, rows: u64) -> u64 {
        ledger::seen_rows(self.rows.iter().copied(), self.elsewhere.iter().copied(), rows)
    }
}

/// A version of a dataset in the list of its versions.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct DatasetVersion {
    /// 1 after the upload, one more after each append and each addition of candidates.
    #[sqlx(try_from = "i64")]
    pub version: u64,
    /// When it was stored.
    pub created_at: Timestamp,
    /// The number of its rows.
    #[sqlx(rename = "row_count", try_from = "i64")]
    pub rows: u64,
    /// The number of its contexts.
    #[sqlx(rename = "context_count", try_from = "i64")]
    pub contexts: u64,
    /// The digest of its rows.
    pub digest: String,
}

/// A dataset at one of its versions.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Dataset {
    /// Its id.
    pub id: DatasetId,
    /// Its workspace.
    pub workspace: Workspace,
    /// A name for people.
    pub name: Option<String>,
    /// When it was uploaded.
    pub created_at: Timestamp,
    /// Grows with every change.
    #[sqlx(try_from = "i64")]
    pub revision: u64,
    /// The version that `content` is of.
    #[sqlx(try_from = "i64")]
    pub version: u64,
    /// The stored policy that logged it, if there is one.
    pub logging_policy_id: Option<PolicyId>,
    /// Whether the caller states that one policy logged every row.
    #[sqlx(json)]
    pub logging: Logging,
    /// What the caller states about rows with the same `context_id`.
    #[sqlx(json)]
    pub repetitions: Repetitions,
    /// Whether the caller states that propensities with few digits are exact.
    pub exact_propensities: bool,
    /// How many datasets with some of the same rows there were, this one and deleted ones included. They share
    /// one ledger.
    #[sqlx(try_from = "i64")]
    pub ledger_datasets: u64,
    /// The first hundred of the others.
    #[sqlx(json)]
    pub shares_ledger_with: BTreeSet<DatasetId>,
    /// What the version contains.
    #[sqlx(flatten)]
    pub content: DatasetContent,
}

impl Dataset {
    /// The size of the stored files.
    pub fn bytes(&self) -> u64 {
        self.content.parts.iter().map(|part| part.bytes).sum()
    }

    /// How large the action sets of all rows are, if every row has its own.
    pub fn set_sizes(&self) -> Option<SetSizes> {
        self.content.capabilities.action_sets?;
        let parts = self.content.parts.iter().filter_map(|part| part.sets);
        Some(parts.fold(SetSizes::default(), |all, part| SetSizes {
            actions: all.actions.saturating_add(part.actions),
            non_zeros: all.non_zeros.saturating_add(part.non_zeros),
            of_requests: all.of_requests.saturating_add(part.of_requests),
        }))
    }

    /// Whether its rows were never here: sums that were merged from partials stand for them.
    pub fn is_merged(&self) -> bool {
        self.content.parts.iter().any(|part| is_merged(&part.key))
    }

    /// Whether its rows stay in the objects that it was created from, which are pinned.
    pub fn is_pinned(&self) -> bool {
        self.content.parts.iter().any(|part| is_pinned(&part.key))
    }

    /// What the caller stated about the log. Rows that are appended inherit it.
    pub fn options(&self) -> LogOptions {
        LogOptions {
            logging: self.logging,
            repetitions: self.repetitions,
            exact_propensities: self.exact_propensities,
        }
    }

    /// The checks that were made on all rows at upload; `None` if the dataset was stored before there were
    /// any.
    pub fn log_checks(&self) -> Option<Vec<CheckResult>> {
        serde_json::from_value(self.content.health.get("checks")?.clone()).ok()
    }

    /// The shape that specs are resolved against.
    pub fn shape(&self) -> LogShape {
        self.facts().shape(self.content.rows, self.content.contexts, self.content.dim)
    }

    /// What the engine needs to know about the dataset besides its rows.
    pub fn facts(&self) -> LogFacts<'_> {
        LogFacts {
            n_actions: self.content.n_actions,
            outcome: self.content.outcome,
            options: self.options(),
            capabilities: &self.content.capabilities,
        }
    }
}
