//! Policies.

use std::collections::BTreeSet;

use super::BlobRef;
use crate::store::ids::{DatasetId, JobId, PolicyId, Timestamp, Workspace};
use guarantor_engine::policy::PolicyKind;
use guarantor_engine::spec::PolicyShape;

/// A policy to be stored.
#[derive(Debug, Clone)]
pub struct NewPolicy {
    /// Its id.
    pub id: PolicyId,
    /// Its workspace.
    pub workspace: Workspace,
    /// Its kind.
    pub kind: PolicyKind,
    /// K.
    pub n_actions: usize,
    /// The number of features.
    pub dim: usize,
    /// The digest of its parameters.
    pub digest: String,
    /// The digest of what its scores are computed from, by which its descent is known: another form, scale or
    /// exploration does not change what the rest was learned from. Policies of earlier releases have `digest` here.
    pub base_digest: String,
    /// The job that learned it.
    pub source_job_id: Option<JobId>,
    /// Its parameters: `PolicyParams` as JSON.
    pub params: BlobRef,
}

/// A stored policy.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct StoredPolicy {
    /// Its id.
    pub id: PolicyId,
    /// Its workspace.
    pub workspace: Workspace,
    /// When it was stored.
    pub created_at: Timestamp,
    /// Grows with every change.
    #[sqlx(try_from = "i64")]
    pub revision: u64,
    /// Its kind.
    #[sqlx(json)]
    pub kind: PolicyKind,
    /// K.
    #[sqlx(try_from = "i64")]
    pub n_actions: usize,
    /// The number of features.
    #[sqlx(try_from = "i64")]
    pub dim: usize,
    /// The digest of its parameters.
    pub digest: String,
    /// The job that learned it.
    pub source_job_id: Option<JobId>,
    /// The datasets whose rows the policy's parameters depend on, as far as the store knows: the one of the job
    /// that learned them, and those behind every policy that this job read. The store recognizes parameters
    /// that were downloaded and stored again.
    #[sqlx(json)]
    pub origins: BTreeSet<DatasetId>,
    /// Its parameters: `PolicyParams` as JSON.
    #[sqlx(json)]
    pub params: BlobRef,
}

impl StoredPolicy {
    /// The shape that specs are resolved against; `None` if the policy plays over the actions that it is given, because
    /// only its parameters say which features it reads.
    pub fn shape(&self) -> Option<PolicyShape> {
        (self.n_actions > 0).then_some(PolicyShape {
            kind: self.kind,
            n_actions: self.n_actions,
            dim: self.dim,
            plays_sets: false,
            sets: None,
        })
    }
}
