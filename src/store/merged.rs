//! Datasets whose rows were never here: sums that were merged from partials, stored in place of the rows. They join the
//! ledger of every dataset with some of the same rows, like an upload.

use super::blob_keys::merged_key;
use super::records::{Dataset, DatasetContent, NewDataset};
use super::{Result, Store, StoreError, json_bytes};
use crate::store::error::Resource;
use crate::store::ids::{DatasetId, Workspace};
use guarantor_engine::log::Repetitions;
use guarantor_engine::partial::Merged;
use guarantor_ingest::{LogOptions, RowSketch};
use serde_json::Value;

/// Merged sums to be stored.
pub struct NewMerged {
    /// The id of the dataset.
    pub id: DatasetId,
    /// Its workspace.
    pub workspace: Workspace,
    /// A name for people.
    pub name: Option<String>,
    /// The sums.
    pub merged: Merged,
    /// The digest of the rows.
    pub digest: String,
    /// Recognizes the rows in other datasets.
    pub sketch: RowSketch,
    /// The health report.
    pub health: Value,
}

impl Store {
    /// Stores merged sums as a dataset without rows. If an earlier attempt of the same request has stored them, that
    /// dataset is returned.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn create_merged(&self, new: NewMerged) -> Result<Dataset> {
        let NewMerged { id, workspace, name, merged, digest, sketch, health } = new;
        let part = self.blobs().put(merged_key(id), json_bytes(&merged)?).await?;
        let (shape, key) = (merged.shape(), part.key.clone());
        let log = &merged.recipe().log;
        let options = LogOptions {
            logging: log.logging,
            repetitions: Repetitions::Decisions,
            exact_propensities: log.exact_propensities,
        };
        let content = DatasetContent {
            rows: shape.rows,
            contexts: shape.contexts,
            n_actions: shape.n_actions,
            dim: shape.dim,
            outcome: shape.outcome,
            digest,
            capabilities: shape.capabilities,
            last_timestamp: merged.period.map(|period| period.last),
            health,
            parts: vec![part],
        };
        let dataset = NewDataset {
            id,
            workspace: workspace.clone(),
            name,
            logging_policy_id: None,
            options,
            content,
            sketch,
            import: None,
        };
        let stored = self.repository().create_dataset(dataset).await;
        if stored.is_err() {
            self.discard(&[key]).await;
        }
        match stored {
            Err(StoreError::Exists(Resource::Dataset, _)) => {
                self.repository().dataset_version(&workspace, id, 1).await
            }
            stored => stored,
        }
    }

    /// The sums of a dataset that was merged from partials.
    ///
    /// # Errors
    /// `Damaged` if they are not as they were stored.
    pub async fn merged_sums(&self, dataset: &Dataset) -> Result<Merged> {
        let missing = || StoreError::damaged("a merged dataset", "its sums are missing");
        let blob = dataset.content.parts.first().ok_or_else(missing)?;
        let merged: Merged = self.read_json(blob).await?;
        let damaged = |why: String| StoreError::damaged_blob(&blob.key, why);
        merged.check().map_err(|error| damaged(error.message))?;
        match merged.rows_digest() {
            Ok(digest) if digest == dataset.content.digest => Ok(merged),
            _ => Err(damaged("its digest has changed".into())),
        }
    }
}
