//! The repository: everything that is a row rather than a file. One trait per resource and
//! `Repository` over them all. `tests/store_conformance.rs` says what an implementation must do.
//!
//! All that callers may rely on: every method is one transaction; times are the database's; a
//! resource of another workspace is `NotFound`; a list is newest first.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::error::Result;
use super::ids::{DatasetId, JobId, KeyId, LeaseToken, PolicyId, Workspace};
use super::page::{Page, PageRequest};
use super::records::*;
use guarantor_engine::certificate::PublicKey;

pub trait Repository: Keys + Datasets + Policies + Jobs + Leases + Ledger + Idempotency + Upkeep {}

impl<T: Keys + Datasets + Policies + Jobs + Leases + Ledger + Idempotency + Upkeep> Repository for T {}

#[async_trait]
pub trait Keys: Send + Sync {
    async fn create_key(&self, new: NewKey) -> Result<ApiKey>;
    /// All keys of all workspaces, newest first, the revoked ones too.
    async fn keys(&self) -> Result<Vec<ApiKey>>;
    /// Revoking a revoked key changes nothing.
    async fn revoke_key(&self, id: KeyId) -> Result<ApiKey>;
    /// The key with this hash, unless it is revoked.
    async fn key_by_hash(&self, hash: &str) -> Result<Option<ApiKey>>;
}

#[async_trait]
pub trait Datasets: Send + Sync {
    /// `NotFound` where the logging policy is not there.
    async fn create_dataset(&self, new: NewDataset) -> Result<Dataset>;
    /// Adds the version after `after_version`; `InUse` where another append came first.
    async fn add_dataset_version(
        &self,
        workspace: &Workspace,
        id: DatasetId,
        after_version: u64,
        content: DatasetContent,
    ) -> Result<Dataset>;
    /// At its newest version.
    async fn dataset(&self, workspace: &Workspace, id: DatasetId) -> Result<Dataset>;
    async fn dataset_version(&self, workspace: &Workspace, id: DatasetId, version: u64) -> Result<Dataset>;
    async fn datasets(&self, workspace: &Workspace, page: &PageRequest) -> Result<Page<Dataset>>;
    /// `InUse` while an unfinished job reads it. Returns the blobs that nothing names any more.
    async fn delete_dataset(&self, workspace: &Workspace, id: DatasetId) -> Result<Vec<String>>;
}

#[async_trait]
pub trait Policies: Send + Sync {
    async fn create_policy(&self, new: NewPolicy) -> Result<Policy>;
    async fn policy(&self, workspace: &Workspace, id: PolicyId) -> Result<Policy>;
    async fn policies(&self, workspace: &Workspace, page: &PageRequest) -> Result<Page<Policy>>;
    /// `InUse` while an unfinished job reads it or a dataset names it as its logging policy.
    async fn delete_policy(&self, workspace: &Workspace, id: PolicyId) -> Result<Vec<String>>;
}

#[async_trait]
pub trait Jobs: Send + Sync {
    /// `NotFound` where the dataset version or a policy is not there, `QueueFull` over a limit,
    /// `FamilyExhausted` where its family has no look left.
    async fn submit_job(&self, new: NewJob, limits: &QueueLimits) -> Result<Job>;
    async fn job(&self, workspace: &Workspace, id: JobId) -> Result<Job>;
    /// The same, where the store has read it a moment ago and need not read it again.
    fn recent_job(&self, workspace: &Workspace, id: JobId) -> Option<Arc<Job>>;
    async fn jobs(&self, workspace: &Workspace, filter: &JobFilter, page: &PageRequest) -> Result<Page<Job>>;
    /// A queued job is cancelled at once; a running one is asked to stop. Cancelling a cancelled
    /// job changes nothing; `Finished` where the job has succeeded or failed. Also says whether this
    /// call changed it.
    async fn cancel_job(&self, workspace: &Workspace, id: JobId) -> Result<(Job, bool)>;
    /// Events after the one with id `after`, oldest first, at most `limit`.
    async fn job_events(
        &self,
        workspace: &Workspace,
        id: JobId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<JobEvent>>;
    async fn queue_depth(&self) -> Result<QueueDepth>;
}

/// What workers do. Every write but the claim itself is fenced by the lease's token.
#[async_trait]
pub trait Leases: Send + Sync {
    /// Puts jobs whose lease has run out back into their places (or ends them: cancelled where that
    /// was asked, failed after the last attempt). Returns the jobs that changed.
    async fn expire_leases(&self, terms: &LeaseTerms) -> Result<Vec<Job>>;
    /// The next job, if one waits: of the workspace that was served least recently, the oldest. One
    /// whose row cannot be read is failed (`job_unreadable`) and passed over, here and above.
    async fn claim_job(&self, terms: &LeaseTerms) -> Result<Option<Claim>>;
    /// Keeps the job for another while, writes progress if there is some, and says whether
    /// cancellation was asked for.
    async fn heartbeat(
        &self,
        id: JobId,
        token: LeaseToken,
        terms: &LeaseTerms,
        progress: Option<&JobProgress>,
    ) -> Result<bool>;
    /// Whether cancellation was asked for; cheaper than a heartbeat, no write.
    async fn cancel_requested(&self, id: JobId, token: LeaseToken) -> Result<bool>;
    async fn finish_job(
        &self,
        id: JobId,
        token: LeaseToken,
        terms: &LeaseTerms,
        finish: Finish,
    ) -> Result<Job>;
    /// Ends every lease now. Only for a process that knows itself to be the only one.
    async fn end_all_leases(&self) -> Result<()>;
}

/// Every look at a dataset's rows: each certificate, and each job that showed a bound and ended without
/// one. What ends the job enters it, in its own transaction.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// The newest look first.
    async fn ledger(
        &self,
        workspace: &Workspace,
        dataset: DatasetId,
        page: &PageRequest,
    ) -> Result<(LedgerSummary, Page<LedgerEntry>)>;
    /// Also where the dataset is gone.
    async fn look_of_job(&self, workspace: &Workspace, job: JobId) -> Result<Option<LedgerEntry>>;
    async fn remember_signing_key(&self, key: &PublicKey) -> Result<()>;
    /// All that were ever remembered, the newest first.
    async fn signing_keys(&self) -> Result<Vec<PublicKey>>;
}

#[async_trait]
pub trait Idempotency: Send + Sync {
    async fn begin_request(&self, request: &IdempotentRequest) -> Result<Begun>;
    /// Keeps the answer for 24 hours from the first request.
    async fn complete_request(&self, workspace: &Workspace, key: &str, answer: &StoredAnswer) -> Result<()>;
    /// Forgets a request whose failure should not be repeated (an overload, a fault of ours).
    async fn abandon_request(&self, workspace: &Workspace, key: &str) -> Result<()>;
    /// Lets every unanswered request be taken over now. Only for the only process.
    async fn release_requests(&self) -> Result<()>;
}

#[async_trait]
pub trait Upkeep: Send + Sync {
    /// Cheap, and fails when the database is away.
    async fn ping(&self) -> Result<()>;
    /// Reads the whole database and fails with `Damaged` where it is not in order.
    async fn check_integrity(&self) -> Result<()>;
    /// Deletes jobs that finished longer ago than `age`, with their events and the policies that
    /// they learned where nothing else uses those. Returns the blobs to delete.
    async fn sweep_jobs(&self, age: Duration) -> Result<Vec<String>>;
    async fn sweep_requests(&self) -> Result<u64>;
    /// Those of `keys` that no row names.
    async fn unnamed_blobs(&self, keys: &[String]) -> Result<Vec<String>>;
}
