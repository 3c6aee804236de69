//! The repository: everything that is a row and not a file. There is one trait for each resource, and
//! `Repository` for all of them. `tests/store/conformance.rs` checks what an implementation must do.
//!
//! Callers may rely on this: every method is one transaction; times are the database's; a resource of
//! another workspace is `NotFound`; lists are newest first, and a row that is damaged is left out of them.
//! An implementation does not contain the ledger's rules: it calls `guarantor_engine::ledger`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::error::Result;
use super::ids::{
    DatasetId, DeliveryId, GateTokenId, JobId, KeyId, LeaseToken, PolicyId, Timestamp, WebhookId, Workspace,
};
use super::page::{Page, PageRequest};
use super::records::*;
use guarantor_engine::certificate::PublicKey;
use guarantor_ingest::RowSketch;

/// A database with everything that the store keeps as rows.
pub trait Repository:
    Keys
    + Datasets
    + Imports
    + Policies
    + Jobs
    + Leases
    + Ledger
    + Gates
    + Webhooks
    + Outbox
    + Idempotency
    + Upkeep
{
}

impl<T> Repository for T where
    T: Keys
        + Datasets
        + Imports
        + Policies
        + Jobs
        + Leases
        + Ledger
        + Gates
        + Webhooks
        + Outbox
        + Idempotency
        + Upkeep
{
}

/// API keys.
#[async_trait]
pub trait Keys: Send + Sync {
    /// Stores a key.
    async fn create_key(&self, new: NewKey) -> Result<ApiKey>;
    /// All keys of all workspaces, newest first, including revoked ones.
    async fn keys(&self) -> Result<Vec<ApiKey>>;
    /// Revokes a key. Revoking a revoked key changes nothing.
    async fn revoke_key(&self, id: KeyId) -> Result<ApiKey>;
    /// The key with this hash, unless it is revoked.
    async fn key_by_hash(&self, hash: &KeyHash) -> Result<Option<ApiKey>>;
}

/// Datasets and their versions.
#[async_trait]
pub trait Datasets: Send + Sync {
    /// Stores a dataset with its first version. `NotFound` if its logging policy does not exist. A dataset with
    /// rows that the workspace has stored before, in a dataset that may be deleted, joins the ledger of that
    /// dataset. So does a dataset to which such rows are appended.
    async fn create_dataset(&self, new: NewDataset) -> Result<Dataset>;
    /// Adds a version. `InUse` if another append came first, or if a job looked at rows in the meantime that the
    /// new ones may reach back before.
    async fn add_dataset_version(
        &self,
        workspace: &Workspace,
        id: DatasetId,
        new: NewVersion,
    ) -> Result<Dataset>;
    /// What looks and unfinished jobs have seen of the dataset's rows, in whichever dataset.
    async fn seen_by_looks(&self, workspace: &Workspace, id: DatasetId) -> Result<SeenRows>;
    /// The sketches of the rows that the dataset's versions added, oldest first, those of small appends merged.
    async fn row_sketches(&self, id: DatasetId) -> Result<Vec<RowSketch>>;
    /// How many versions have the rows of their predecessors: candidates were added to them.
    async fn candidate_additions(&self, workspace: &Workspace, id: DatasetId) -> Result<u64>;
    /// The first version with a part whose key begins with `prefix`.
    async fn version_with_part(
        &self,
        workspace: &Workspace,
        id: DatasetId,
        prefix: &str,
    ) -> Result<Option<Dataset>>;
    /// A dataset at its newest version.
    async fn dataset(&self, workspace: &Workspace, id: DatasetId) -> Result<Dataset>;
    /// A dataset at one of its versions.
    async fn dataset_version(&self, workspace: &Workspace, id: DatasetId, version: u64) -> Result<Dataset>;
    /// A page of the versions of a dataset, the newest first.
    async fn dataset_versions(
        &self,
        workspace: &Workspace,
        id: DatasetId,
        page: &PageRequest,
    ) -> Result<Page<DatasetVersion>>;
    /// A page of the workspace's datasets, each at its newest version.
    async fn datasets(&self, workspace: &Workspace, page: &PageRequest) -> Result<Page<Dataset>>;
    /// Deletes a dataset. `InUse` while an unfinished job reads it. Returns the keys of the blobs that no row
    /// names anymore.
    async fn delete_dataset(&self, workspace: &Workspace, id: DatasetId) -> Result<Vec<String>>;
}

/// Imports: logs that are read where they lie. A worker holds one under a lease, as it holds a job.
#[async_trait]
pub trait Imports: Send + Sync {
    /// Queues an import. `LimitReached` if the workspace has `most` that are not finished.
    async fn create_import(&self, new: NewImport, most: u64) -> Result<Import>;
    /// An import.
    async fn import(&self, workspace: &Workspace, id: DatasetId) -> Result<Import>;
    /// The objects that an import has read; none if it has not succeeded.
    async fn import_objects(&self, workspace: &Workspace, id: DatasetId) -> Result<Vec<ReadObject>>;
    /// A page of the workspace's imports, newest first.
    async fn imports(&self, workspace: &Workspace, page: &PageRequest) -> Result<Page<Import>>;
    /// Cancels a queued import at once, and asks a running one to stop. Canceling a canceled import changes nothing.
    /// `ImportFinished` if it has succeeded or failed.
    async fn cancel_import(&self, workspace: &Workspace, id: DatasetId) -> Result<Import>;
    /// Claims the next import, if one waits or has lost its worker, and fewer than `most` of its workspace run. The transaction that stores its dataset
    /// (`Datasets::create_dataset`) ends it.
    async fn claim_import(&self, terms: &LeaseTerms, most: u64) -> Result<Option<ClaimedImport>>;
    /// Extends the lease, writes progress, and returns whether cancellation was requested.
    async fn renew_import(
        &self,
        id: DatasetId,
        token: LeaseToken,
        terms: &LeaseTerms,
        progress: &ImportProgress,
    ) -> Result<bool>;
    /// Ends an attempt that stored nothing. `LeaseLost` if the lease has passed to another worker.
    async fn finish_import(
        &self,
        id: DatasetId,
        token: LeaseToken,
        terms: &LeaseTerms,
        end: ImportEnd,
        progress: &ImportProgress,
    ) -> Result<Import>;
    /// Deletes imports without a dataset that ended longer than `age` ago. Returns how many.
    async fn sweep_imports(&self, age: Duration) -> Result<u64>;
}

/// Policies.
#[async_trait]
pub trait Policies: Send + Sync {
    /// Stores a policy.
    async fn create_policy(&self, new: NewPolicy) -> Result<StoredPolicy>;
    /// A policy.
    async fn policy(&self, workspace: &Workspace, id: PolicyId) -> Result<StoredPolicy>;
    /// A page of the workspace's policies.
    async fn policies(&self, workspace: &Workspace, page: &PageRequest) -> Result<Page<StoredPolicy>>;
    /// Deletes a policy. `InUse` while an unfinished job reads it or a dataset names it as its logging
    /// policy. Returns the keys of the blobs that no row names anymore.
    async fn delete_policy(&self, workspace: &Workspace, id: PolicyId) -> Result<Vec<String>>;
}

/// Jobs, as clients see them.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// Queues a job. `NotFound` if the dataset or a policy does not exist, `Changed` if the version is not the newest
    /// one or if rows were seen since the spec was resolved, `QueueFull` over a limit, `FamilyExhausted` if its family
    /// has no look left.
    async fn submit_job(&self, new: NewJob, limits: &QueueLimits) -> Result<Job>;
    /// A job.
    async fn job(&self, workspace: &Workspace, id: JobId) -> Result<Job>;
    /// The same, never from a cache: for whatever decides.
    async fn job_now(&self, workspace: &Workspace, id: JobId) -> Result<Job>;
    /// The changes of jobs by all processes from now on; `None` if the database announces none. Some may be missed, so
    /// whoever waits for a change also looks from time to time.
    fn changes(&self) -> Option<broadcast::Receiver<JobChange>>;
    /// The same, if the store read it recently enough to return it without reading again.
    fn recent_job(&self, workspace: &Workspace, id: JobId) -> Option<Arc<Job>>;
    /// A page of the workspace's jobs.
    async fn jobs(&self, workspace: &Workspace, filter: &JobFilter, page: &PageRequest) -> Result<Page<Job>>;
    /// Cancels a queued job at once, and asks a running one to stop. Canceling a canceled job changes
    /// nothing. `Finished` if the job has succeeded or failed. Also returns whether this call changed the
    /// job.
    async fn cancel_job(&self, workspace: &Workspace, id: JobId) -> Result<(Job, bool)>;
    /// The events after the one with id `after`, oldest first, at most `limit`.
    async fn job_events(
        &self,
        workspace: &Workspace,
        id: JobId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<JobEvent>>;
    /// How many jobs of all workspaces are unfinished.
    async fn queue_depth(&self) -> Result<QueueDepth>;
}

/// What workers do. Every write except the claim itself is guarded by the lease's token.
#[async_trait]
pub trait Leases: Send + Sync {
    /// Returns jobs whose lease has expired to their position in the queue, or ends them: canceled if that
    /// was requested, failed after the last attempt. Returns the jobs that changed.
    async fn expire_leases(&self, terms: &LeaseTerms) -> Result<Vec<Job>>;
    /// Claims the next job, if one is queued: the oldest job of the workspace that was served least
    /// recently. A job whose row cannot be read is failed (`job_unreadable`) and skipped, here and in
    /// `expire_leases`.
    async fn claim_job(&self, terms: &LeaseTerms) -> Result<Option<ClaimedJob>>;
    /// Extends the lease, writes progress if there is any, and returns whether cancellation was requested.
    async fn heartbeat(
        &self,
        id: JobId,
        token: LeaseToken,
        terms: &LeaseTerms,
        progress: Option<&JobProgress>,
    ) -> Result<bool>;
    /// Whether cancellation was requested. Writes nothing, so it is cheaper than a heartbeat.
    async fn cancel_requested(&self, id: JobId, token: LeaseToken) -> Result<bool>;
    /// Ends an attempt. `LeaseLost` if the lease has passed to another worker. A success of a job whose
    /// cancellation was requested ends it as canceled; the caller then deletes the files of the result.
    async fn finish_job(
        &self,
        id: JobId,
        token: LeaseToken,
        terms: &LeaseTerms,
        finish: Finish,
    ) -> Result<Job>;
    /// Ends every lease now. Only for a process that is known to be the only one.
    async fn end_all_leases(&self) -> Result<()>;
}

/// The looks at a dataset's rows: each certificate, and each bound shown by a job that ended without one. The
/// transaction that ends a job enters its look.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// The totals of a dataset's ledger and a page of its looks, newest first, with those of all datasets that
    /// share it. A damaged row is an error here, because a ledger with a look missing would be misleading.
    async fn ledger(
        &self,
        workspace: &Workspace,
        dataset: DatasetId,
        page: &PageRequest,
    ) -> Result<(LedgerSummary, Page<LedgerEntry>)>;
    /// One of `others` that shares the ledger of a dataset, or is it; `None` if there is none.
    async fn of_same_ledger(
        &self,
        dataset: DatasetId,
        others: &BTreeSet<DatasetId>,
    ) -> Result<Option<DatasetId>>;
    /// The look of a job, even if its dataset is gone.
    async fn look_of_job(&self, workspace: &Workspace, job: JobId) -> Result<Option<LedgerEntry>>;
    /// Stores the public half of a signing key.
    async fn remember_signing_key(&self, key: &PublicKey) -> Result<()>;
    /// Makes the public half of a signing key the newest one, even if it is known.
    async fn announce_signing_key(&self, key: &PublicKey) -> Result<()>;
    /// Whether a server may sign with this key: it is the newest one, or the only one, or the one before the newest, and
    /// that was announced less than `grace` ago. The first key is stored.
    async fn accept_signing_key(&self, key: &PublicKey, grace: Duration) -> Result<bool>;
    /// All public keys that were ever stored, newest first.
    async fn signing_keys(&self) -> Result<Vec<PublicKey>>;
}

/// Standing gates and their tokens.
#[async_trait]
pub trait Gates: Send + Sync {
    /// Stores a gate. `Exists` if the workspace has a gate of this name, `LimitReached` if it has `most` gates.
    async fn create_gate(&self, new: NewGate, most: u64) -> Result<StandingGate>;
    /// A gate.
    async fn gate(&self, workspace: &Workspace, name: &GateName) -> Result<StandingGate>;
    /// A page of the workspace's gates.
    async fn gates(&self, workspace: &Workspace, page: &PageRequest) -> Result<Page<StandingGate>>;
    /// Replaces the definition of a gate. Its tokens stay valid.
    async fn change_gate(
        &self,
        workspace: &Workspace,
        name: &GateName,
        definition: &GateDefinition,
        by: &str,
    ) -> Result<StandingGate>;
    /// Deletes a gate and its tokens.
    async fn delete_gate(&self, workspace: &Workspace, name: &GateName) -> Result<()>;
    /// The job that a gate asks about: of the jobs that it selects and that have ended, in whatever way, the one
    /// that ended last. A row that cannot be read is an error here, because skipping it could open the gate.
    async fn job_of_gate(&self, gate: &StandingGate) -> Result<Option<Job>>;
    /// Stores a token. `LimitReached` if the gate has `most` tokens.
    async fn create_gate_token(
        &self,
        workspace: &Workspace,
        gate: &GateName,
        new: NewGateToken,
        most: u64,
    ) -> Result<GateToken>;
    /// The tokens of a gate, newest first, without revoked ones.
    async fn gate_tokens(&self, workspace: &Workspace, gate: &GateName) -> Result<Vec<GateToken>>;
    /// Revokes a token of a gate for good.
    async fn revoke_gate_token(&self, workspace: &Workspace, gate: &GateName, id: GateTokenId) -> Result<()>;
    /// The gate of the token with this hash, and the token's id.
    async fn gate_by_token(&self, hash: &KeyHash) -> Result<Option<(StandingGate, GateTokenId)>>;
}

/// Webhooks, as clients see them.
#[async_trait]
pub trait Webhooks: Send + Sync {
    /// Stores a webhook. `LimitReached` if the workspace has `most` webhooks.
    async fn create_webhook(&self, new: NewWebhook, most: u64) -> Result<Webhook>;
    /// A webhook.
    async fn webhook(&self, workspace: &Workspace, id: WebhookId) -> Result<Webhook>;
    /// A page of the workspace's webhooks.
    async fn webhooks(&self, workspace: &Workspace, page: &PageRequest) -> Result<Page<Webhook>>;
    /// Replaces the definition of a webhook. Deliveries that wait go to the new address. The secret stays, and so does
    /// what is known about failures, unless the address changes.
    async fn change_webhook(
        &self,
        workspace: &Workspace,
        id: WebhookId,
        definition: &WebhookDefinition,
        enabled: bool,
        by: &str,
    ) -> Result<Webhook>;
    /// Gives a webhook another secret. The one before signs too for `grace`; the one before that does not anymore.
    async fn rotate_webhook_secret(
        &self,
        workspace: &Workspace,
        id: WebhookId,
        secret: &WebhookSecret,
        grace: Duration,
        by: &str,
    ) -> Result<Webhook>;
    /// Deletes a webhook and its deliveries. An attempt in progress is not stopped; its end is not recorded.
    async fn delete_webhook(&self, workspace: &Workspace, id: WebhookId) -> Result<()>;
    /// Queues a test event. `LimitReached` if too many deliveries wait.
    async fn ping_webhook(&self, workspace: &Workspace, id: WebhookId) -> Result<Delivery>;
    /// A page of a webhook's deliveries.
    async fn deliveries(
        &self,
        workspace: &Workspace,
        webhook: WebhookId,
        page: &PageRequest,
    ) -> Result<Page<Delivery>>;
    /// Queues a delivery again, however it has ended, as if its event had just happened. The event keeps its id.
    async fn redeliver(
        &self,
        workspace: &Workspace,
        webhook: WebhookId,
        delivery: DeliveryId,
    ) -> Result<Delivery>;
}

/// What the task that delivers events reads and writes. The transaction that ends a job queues a delivery for each
/// enabled webhook of its workspace that wants the event. The caller passes the time, so that tests can choose it.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// The deliveries of enabled webhooks whose time has come, at most `per_webhook` of each, the longest due first. A
    /// webhook that cannot be read is disabled, and a delivery that cannot be read has failed.
    async fn due_deliveries(&self, now: Timestamp, per_webhook: u32) -> Result<Vec<DueDelivery>>;
    /// When the next delivery of an enabled webhook is due.
    async fn next_delivery(&self) -> Result<Option<Timestamp>>;
    /// Takes a delivery that is due by `now`, so that no other process sends it before `until`. False if another has it.
    async fn claim_delivery(&self, id: DeliveryId, now: Timestamp, until: Timestamp) -> Result<bool>;
    /// Writes the end of an attempt. Nothing happens if the delivery does not wait anymore, or is gone.
    async fn record_attempt(&self, id: DeliveryId, attempted: &Attempted) -> Result<()>;
    /// Deletes deliveries that ended longer than `age` ago, and of each webhook all but the newest `most` that have
    /// ended. Those that have waited for longer than `age` fail. Returns how many changed.
    async fn sweep_deliveries(&self, age: Duration, most: u64) -> Result<u64>;
    /// What waits.
    async fn outbox_depth(&self) -> Result<OutboxDepth>;
}

/// Requests with idempotency keys.
#[async_trait]
pub trait Idempotency: Send + Sync {
    /// Begins a request, or finds the outcome of an earlier one with the same key.
    async fn begin_request(&self, request: &IdempotentRequest) -> Result<Begun>;
    /// Stores the response for 24 hours from the first request.
    async fn complete_request(&self, workspace: &Workspace, key: &str, answer: &StoredAnswer) -> Result<()>;
    /// Deletes a request whose failure should not be returned again, such as an overload or a server
    /// error.
    async fn abandon_request(&self, workspace: &Workspace, key: &str) -> Result<()>;
    /// Keeps others from taking over a request without a response for another `patience`.
    async fn renew_request(&self, workspace: &Workspace, key: &str, patience: Duration) -> Result<()>;
    /// Lets a request without a response be taken over now, with the id that it has.
    async fn release_request(&self, workspace: &Workspace, key: &str) -> Result<()>;
    /// Lets every request without a response be taken over now. Only for a process that is known to be the
    /// only one.
    async fn release_requests(&self) -> Result<()>;
}

/// Checks and sweeps.
#[async_trait]
pub trait Upkeep: Send + Sync {
    /// Fails if the database does not respond. Cheap.
    async fn ping(&self) -> Result<()>;
    /// Moves the changes in the database's log to their places, and returns the space of the log to the disk.
    async fn truncate_log(&self) -> Result<()>;
    /// Reads the whole database. `Damaged` if it is not consistent.
    async fn check_integrity(&self) -> Result<()>;
    /// Whether several servers can use the database at the same time.
    fn is_shared(&self) -> bool;
    /// The time by the database's clock.
    async fn now(&self) -> Result<Timestamp>;
    /// The same, as far as this process knows it without asking.
    fn clock(&self) -> Timestamp;
    /// Whether upkeep is this process's task: exactly one of those that use the database has it, and another takes
    /// over if that one dies.
    async fn may_tidy(&self) -> Result<bool>;
    /// The name of this database, which its blobs have too.
    async fn installation(&self) -> Result<String>;
    /// Deletes jobs that finished longer than `age` ago, with their events and the policies that they
    /// learned, unless something else uses those. Returns the keys of the blobs to delete.
    async fn sweep_jobs(&self, age: Duration) -> Result<Vec<String>>;
    /// Deletes expired requests. Returns how many.
    async fn sweep_requests(&self) -> Result<u64>;
    /// Those of `keys` that no row names. Transactions in progress that may name them are waited for.
    async fn unnamed_blobs(&self, keys: &[String]) -> Result<Vec<String>>;
}
