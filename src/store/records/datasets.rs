//! Datasets and their versions.

use super::BlobRef;
use crate::store::ids::{DatasetId, PolicyId, Timestamp, Workspace};
use guarantor_engine::log::{Capabilities, LogShape, Outcome};

/// What one version of a dataset contains.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct DatasetContent {
    /// The number of logged decisions.
    #[sqlx(rename = "row_count")]
    pub rows: u64,
    /// The number of distinct contexts.
    #[sqlx(rename = "context_count")]
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
    /// The health report.
    #[sqlx(json)]
    pub health: serde_json::Value,
    /// The files with the rows, in order. A version that was appended starts with its predecessor's parts.
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
    /// The first version.
    pub content: DatasetContent,
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
    pub revision: u64,
    /// The version that `content` is of.
    pub version: u64,
    /// The stored policy that logged it, if there is one.
    pub logging_policy_id: Option<PolicyId>,
    /// What the version contains.
    #[sqlx(flatten)]
    pub content: DatasetContent,
}

impl Dataset {
    /// The size of the stored files.
    pub fn bytes(&self) -> u64 {
        self.content.parts.iter().map(|part| part.bytes).sum()
    }

    /// The shape that specs are resolved against.
    pub fn shape(&self) -> LogShape {
        LogShape {
            rows: self.content.rows,
            contexts: self.content.contexts,
            n_actions: self.content.n_actions,
            dim: self.content.dim,
            outcome: self.content.outcome,
            capabilities: self.content.capabilities.clone(),
        }
    }
}
