//! The ledger.

use crate::store::ids::{DatasetId, JobId, Timestamp};
use guarantor_engine::certificate::{Decision, LedgerPlace, Signature};
use guarantor_engine::spec::{BoundKind, JobKind};

pub use guarantor_engine::ledger::LedgerSummary;

/// A look at a dataset's rows: a certificate, or a bound shown by a job that ended without one.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerEntry {
    /// Its number, δ and cost.
    pub place: LedgerPlace,
    /// The job.
    pub job_id: JobId,
    /// The dataset.
    pub dataset_id: DatasetId,
    /// The version of the dataset that the job read.
    pub dataset_version: u64,
    /// How many rows that version has; `None` for a look of an earlier release whose dataset is gone.
    pub rows: Option<u64>,
    /// When the look was entered.
    pub created_at: Timestamp,
    /// The kind of the job.
    pub kind: JobKind,
    /// The bound that the job was asked for.
    pub bound: BoundKind,
    /// How many candidates shared δ; 0 for kind `learn`.
    pub candidates: u64,
    /// The certificate's decision; `None` if there is no certificate.
    pub decision: Option<Decision>,
    /// The certificate's digest; `None` if there is no certificate, or if it was issued before the ledger
    /// existed and therefore does not contain its entry.
    pub digest: Option<String>,
    /// The signature of the certificate with this entry.
    pub signature: Option<Signature>,
}
