//! The store's records: what callers pass in and get back. `revision` grows with every change of a record,
//! so it can serve as an ETag.

mod age;
mod datasets;
mod deliveries;
mod gates;
mod guardrails;
mod imports;
mod jobs;
mod keys;
mod leases;
mod ledger;
mod policies;
mod requests;
mod webhooks;

use guarantor_engine::footprint::SetSizes;
use serde::{Deserialize, Serialize};

pub use age::Age;
pub use datasets::{AddedRows, Dataset, DatasetContent, DatasetVersion, NewDataset, NewVersion, SeenRows};
pub use deliveries::{
    AfterAttempt, Attempted, Delivery, DeliveryStatus, DueDelivery, OutboxDepth, damaged_event_data,
    end_event_data, end_event_id,
};
pub use gates::{
    Allowance, BadGateName, GateDefinition, GateName, GateRequirements, GateToken, NewGate, NewGateToken,
    RequiredBaseline, RequiredVersion, StandingGate,
};
pub use guardrails::{RequiredGuardrail, RequiredGuardrails};
pub use imports::{
    ClaimedImport, Import, ImportCode, ImportDone, ImportEnd, ImportFailure, ImportProgress, NewImport,
    PinnedLog, ReadObject, RowFault, SourceRequest,
};
pub use jobs::{
    Job, JobChange, JobEvent, JobFilter, JobOrder, JobProgress, JobResult, JobStatus, NewJob, QueueDepth,
    QueueLimits,
};
pub use keys::{ApiKey, KeyHash, NewKey, Role};
pub use leases::{ClaimedJob, Finish, LeaseTerms, Success};
pub use ledger::{LedgerEntry, LedgerSummary};
pub use policies::{NewPolicy, StoredPolicy};
pub use requests::{Begun, IdempotentRequest, StoredAnswer};
pub use webhooks::{BadSecret, EventKind, NewWebhook, Webhook, WebhookDefinition, WebhookSecret};

/// A stored file and its length. A blob is written before the row that names it; a blob that no row names
/// is swept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlobRef {
    /// Its key in the blob store.
    pub key: String,
    /// Its length.
    pub bytes: u64,
    /// How large the action sets of its rows are, if it is a part of a log whose rows have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sets: Option<SetSizes>,
    /// SHA-256 of its index, if it is a part of a log. The index has the hashes of its columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// Ties the indices of the parts up to this one to the digest of their rows, if a version ends with this part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
}

impl BlobRef {
    /// A blob with this key and length.
    pub fn new(key: impl Into<String>, bytes: u64) -> Self {
        BlobRef { key: key.into(), bytes, sets: None, index: None, seal: None }
    }
}
