//! The store: rows behind the trait `Repository` (SQLite in `sqlite/`, PostgreSQL in `postgres/`, their queries in `sql/`)
//! and files behind `Blobs` (on disk or in S3).
//!
//! `Store` has both, and the operations that need both. The order is always the same: write the file, then
//! the row that names it, in one transaction; delete the row, then the file. A crash in between leaves a
//! file that no row names, which `sweep` removes.

mod backup;
mod blob_keys;
mod blobs;
mod disk;
mod error;
mod failure;
mod ids;
mod keys;
mod logs;
mod merged;
mod open;
mod page;
mod postgres;
mod private;
mod recent;
mod records;
mod repository;
mod s3;
mod signing;
mod sources;
mod sqlite;
mod uploads;

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use blob_keys::dataset_part_prefix;
use disk::Disk;
use guarantor_engine::certificate::{Certificate, Document, Evidence, SigningKey};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::PolicyShape;
use parking_lot::Mutex;

pub use backup::{BackedUp, back_up};
pub use blob_keys::{Owner, dataset_part_key, job_key, policy_key};
pub use blobs::{BlobWriter, Blobs};
pub use error::{Damage, Resource, Result, StoreError};
pub use failure::{FailureCode, JobFailure};
pub use ids::{
    BadWorkspace, DatasetId, DeliveryId, GateId, GateTokenId, JobId, KeyId, LeaseToken, PolicyId, Timestamp,
    WebhookId, Workspace,
};
pub use keys::{Bootstrap, TOKEN_PREFIX, new_api_key, new_gate_token, new_webhook_secret};
pub use logs::{Encoded, LogEncoder, LogMemory, Piece, SpooledLog, StoredLog, seal};
pub use merged::NewMerged;
pub use open::{DirectoryLock, Places};
pub use page::{Cursor, Page, PageRequest};
pub use postgres::Postgres;
pub use private::create_private_files;
pub use records::*;
pub use repository::{
    Datasets, Gates, Idempotency, Imports, Jobs, Keys, Leases, Ledger, Outbox, Policies, Repository, Upkeep,
    Webhooks,
};
pub use s3::{S3Place, install_tls};
pub use signing::{SigningKeyAt, make_signing_key, new_signing_key, read_signing_key};
pub use sources::{
    AllowedSources, ImportError, ImportMeter, S3Endpoint, SourceError, SourceObject, SourceReader, SourceUri,
    Sources, import,
};
pub use sqlite::Sqlite;
pub use uploads::{
    Append, BodyError, FileFailed, Upload, UploadError, add_candidates, append, upload, upload_files,
};

/// How long deliveries that have ended can be looked at. One that waits for longer than this has failed: its webhook
/// was disabled, or no server ran.
const KEPT_DELIVERIES: Duration = Duration::from_secs(7 * 86_400);
/// How many deliveries of a webhook that have ended can be looked at.
const MOST_ENDED_DELIVERIES: u64 = 10_000;

/// Rows and files. Cheap to clone; all clones are one store.
#[derive(Clone)]
pub struct Store {
    repository: Arc<dyn Repository>,
    blobs: Blobs,
    signing_key: Option<Arc<SigningKey>>,
    log_memory: LogMemory,
    /// Files without a row in the last sweep, and when a sweep first found them.
    orphans: Arc<Mutex<HashMap<String, Instant>>>,
    /// `None` if the data is not on a disk of this machine.
    disk: Option<Disk>,
    /// What is read by reference; `None` if that is nothing.
    sources: Option<Arc<SourceReader>>,
}

impl Store {
    /// A store of these rows and files, without a signing key.
    pub fn new(repository: Arc<dyn Repository>, blobs: Blobs) -> Self {
        Store {
            repository,
            blobs,
            signing_key: None,
            log_memory: LogMemory::default(),
            orphans: Arc::default(),
            disk: None,
            sources: None,
        }
    }

    /// The same store, which also reads logs by reference.
    pub fn with_sources(self, reader: SourceReader) -> Self {
        Store { sources: Some(Arc::new(reader)), ..self }
    }

    /// What is read by reference, if that is anything.
    pub fn sources(&self) -> Option<&SourceReader> {
        self.sources.as_deref()
    }

    /// The same store, with other limits for the logs that jobs read.
    pub fn with_log_memory(self, log_memory: LogMemory) -> Self {
        Store { log_memory, ..self }
    }

    /// The limits for the logs that jobs read.
    pub fn log_memory(&self) -> &LogMemory {
        &self.log_memory
    }

    /// The rows.
    pub fn repository(&self) -> &dyn Repository {
        &*self.repository
    }

    /// The files.
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Checks that the store can be read and written.
    pub async fn check_ready(&self) -> Result<()> {
        self.repository.ping().await?;
        self.blobs.check_reachable().await?;
        match &self.disk {
            Some(disk) => {
                disk.check_reserve().await?;
                disk.check_writable().await
            }
            None => Ok(()),
        }
    }

    /// How many bytes can still be stored, if that is known.
    pub fn free_bytes(&self) -> Option<u64> {
        self.disk.as_ref().and_then(|disk| disk.free_bytes().ok())
    }

    /// Does something that must work on a full disk: it frees space, or lets others free it, or withdraws access.
    /// If the disk is full, it gets the space that is reserved for this.
    pub async fn freeing<T, W: Future<Output = Result<T>>>(&self, work: impl Fn() -> W) -> Result<T> {
        let mut done = work().await;
        let (Err(StoreError::Full(_)), Some(disk)) = (&done, &self.disk) else { return done };
        let mut reserve = disk.take_reserve().await;
        while matches!(done, Err(StoreError::Full(_))) && reserve.release() {
            done = work().await;
        }
        // The log of the database has grown. This returns its space, so that the reserve becomes whole again.
        while let Err(StoreError::Full(_)) = self.repository.truncate_log().await {
            if !reserve.release() {
                break;
            }
        }
        done
    }

    /// Reserves space for deletions again, if it was used. Only for the server that holds the directory's lock.
    pub async fn keep_reserve(&self) {
        if let Some(disk) = &self.disk {
            disk.keep_reserve().await;
        }
    }

    /// Stores parameters that `PolicyParams::check` has accepted.
    pub async fn create_policy(
        &self,
        workspace: &Workspace,
        id: PolicyId,
        params: &PolicyParams,
    ) -> Result<StoredPolicy> {
        let blob = self.blobs.put(policy_key(id), json_bytes(params)?).await;
        let params_blob = match blob {
            // An earlier attempt of the same request wrote it. Inserting the row will show whether that
            // attempt also wrote the row.
            Err(StoreError::Exists(..)) => BlobRef::new(policy_key(id), json_bytes(params)?.len() as u64),
            blob => blob?,
        };
        let new = describe_policy(workspace, id, params, None, params_blob)?;
        self.repository.create_policy(new).await
    }

    /// Deletes files that were written for rows that do not exist. If others use the database too, it may have
    /// committed the rows although it seemed to fail, so it is asked first. What is left is removed by the sweep.
    pub async fn discard(&self, keys: &[String]) {
        if !self.repository.is_shared() {
            return self.blobs.delete(keys).await;
        }
        match self.repository.unnamed_blobs(keys).await {
            Ok(unnamed) => self.blobs.delete(&unnamed).await,
            Err(error) => tracing::warn!(%error, "files may be left behind; the sweep will remove them"),
        }
    }

    /// The parameters of a policy.
    ///
    /// # Errors
    /// `Damaged` if they do not have the digest that they were stored with.
    pub async fn policy_params(&self, policy: &StoredPolicy) -> Result<PolicyParams> {
        let params: PolicyParams = self.read_json(&policy.params).await?;
        let digest = params.digest().map_err(|error| StoreError::damaged_blob(&policy.params.key, error))?;
        if digest != policy.digest {
            return Err(StoreError::damaged_blob(&policy.params.key, "its digest has changed"));
        }
        Ok(params)
    }

    /// The shape that specs are resolved against. The parameters are read only if they are needed.
    ///
    /// # Errors
    /// `Damaged` if the parameters do not have the digest that they were stored with.
    pub async fn policy_shape(&self, policy: &StoredPolicy) -> Result<PolicyShape> {
        match policy.shape() {
            Some(shape) => Ok(shape),
            None => Ok(PolicyShape::of(&self.policy_params(policy).await?)),
        }
    }

    /// Deletes a policy and its parameters.
    pub async fn delete_policy(&self, workspace: &Workspace, id: PolicyId) -> Result<()> {
        let blobs = self.freeing(|| self.repository.delete_policy(workspace, id)).await?;
        self.blobs.delete(&blobs).await;
        self.keep_reserve().await;
        Ok(())
    }

    /// Changes the definition of a gate. This can close the gate, so it works on a full disk too.
    pub async fn change_gate(
        &self,
        workspace: &Workspace,
        name: &GateName,
        definition: &GateDefinition,
        by: &str,
    ) -> Result<StandingGate> {
        self.freeing(|| self.repository.change_gate(workspace, name, definition, by)).await
    }

    /// Deletes a gate and its tokens, also on a full disk.
    pub async fn delete_gate(&self, workspace: &Workspace, name: &GateName) -> Result<()> {
        self.freeing(|| self.repository.delete_gate(workspace, name)).await
    }

    /// Revokes a token of a gate, also on a full disk.
    pub async fn revoke_gate_token(
        &self,
        workspace: &Workspace,
        gate: &GateName,
        id: GateTokenId,
    ) -> Result<()> {
        self.freeing(|| self.repository.revoke_gate_token(workspace, gate, id)).await
    }

    /// Changes a webhook. This can stop it, so it works on a full disk too.
    pub async fn change_webhook(
        &self,
        workspace: &Workspace,
        id: WebhookId,
        definition: &WebhookDefinition,
        enabled: bool,
        by: &str,
    ) -> Result<Webhook> {
        self.freeing(|| self.repository.change_webhook(workspace, id, definition, enabled, by)).await
    }

    /// Deletes a webhook and its deliveries, also on a full disk.
    pub async fn delete_webhook(&self, workspace: &Workspace, id: WebhookId) -> Result<()> {
        self.freeing(|| self.repository.delete_webhook(workspace, id)).await?;
        self.keep_reserve().await;
        Ok(())
    }

    /// Deletes a dataset and its files.
    pub async fn delete_dataset(&self, workspace: &Workspace, id: DatasetId) -> Result<()> {
        let blobs = self.freeing(|| self.repository.delete_dataset(workspace, id)).await?;
        self.blobs.delete(&blobs).await;
        self.keep_reserve().await;
        Ok(())
    }

    /// The version that this request created, if there is one: the earliest that has its part. Later versions may
    /// have the part too, or parts of their own.
    pub async fn appended(
        &self,
        workspace: &Workspace,
        id: DatasetId,
        request: uuid::Uuid,
    ) -> Result<Option<Dataset>> {
        let prefix = dataset_part_prefix(id, request);
        self.repository.version_with_part(workspace, id, &prefix).await
    }

    /// The certificate of a job, if it has one.
    ///
    /// # Errors
    /// `Damaged` if it does not have the digest that it was stored with.
    pub async fn certificate(&self, job: &Job) -> Result<Option<Certificate>> {
        let Some(blob) = &job.certificate else { return Ok(None) };
        let certificate: Certificate = self.read_json(blob).await?;
        let digest =
            certificate.content_digest().map_err(|error| StoreError::damaged_blob(&blob.key, error))?;
        if digest != certificate.digest {
            return Err(StoreError::damaged_blob(&blob.key, "its digest has changed"));
        }
        Ok(Some(certificate))
    }

    /// The certificate as callers receive it: with its job, its ledger entry and its signature.
    ///
    /// # Errors
    /// `Damaged` if the certificate, the job and the ledger do not agree.
    pub async fn document(&self, job: &Job) -> Result<Option<Document>> {
        let Some(certificate) = self.certificate(job).await? else { return Ok(None) };
        let look = self.repository.look_of_job(&job.workspace, job.id).await?;
        let damaged = |why: &str| Err(StoreError::damaged("its certificate", why).of(Owner::Job(job.id)));
        // The digest does not cover the ids of policies and the dataset's version, but the job has them too.
        if certificate.spec != job.spec || certificate.dataset.version != job.dataset_version {
            return damaged("it is of another job");
        }
        let (ledger, signature) = match look {
            Some(look) if look.digest.is_none() => (None, None),
            Some(look) if look.digest.as_ref() != Some(&certificate.digest) => {
                return damaged("the ledger has another digest");
            }
            Some(look) => (Some(look.place), look.signature),
            None => return damaged("it is not in the ledger"),
        };
        Ok(Some(Document { certificate, issued: Some(job.issued()), ledger, signature }))
    }

    /// The evidence of a job, if it has a certificate.
    pub async fn evidence(&self, job: &Job) -> Result<Option<Evidence>> {
        match &job.evidence {
            Some(blob) => self.read_json(blob).await.map(Some),
            None => Ok(None),
        }
    }

    /// Deletes jobs that are older than `retention`, if there is one, and removes what crashes left behind:
    /// files that no row named in any sweep of the last `orphan_age`, which must exceed the longest upload.
    pub async fn sweep(&self, retention: Option<Duration>, orphan_age: Duration) -> Result<()> {
        if let Some(age) = retention {
            let blobs = self.freeing(|| self.repository.sweep_jobs(age)).await?;
            self.blobs.delete(&blobs).await;
            self.freeing(|| self.repository.sweep_imports(age)).await?;
        }
        self.repository.sweep_requests().await?;
        self.freeing(|| self.repository.sweep_deliveries(KEPT_DELIVERIES, MOST_ENDED_DELIVERIES)).await?;
        let keys = self.blobs.keys().await?;
        let orphans = self.repository.unnamed_blobs(&keys).await?;
        self.blobs.delete(&self.known_for(orphan_age, orphans)).await;
        self.keep_reserve().await;
        Ok(())
    }

    /// Those of `orphans` that were known as orphans `age` ago. This uses a monotonic clock,
    /// because file times follow the wall clock, and when that jumps a file may look older than it is.
    fn known_for(&self, age: Duration, orphans: Vec<String>) -> Vec<String> {
        let mut known = self.orphans.lock();
        let now = Instant::now();
        let since = |key: &String| known.get(key).copied().unwrap_or(now);
        let dated: HashMap<String, Instant> =
            orphans.into_iter().map(|key| (key.clone(), since(&key))).collect();
        let is_old = |first: &Instant| now.duration_since(*first) >= age;
        let (old, young) = dated.into_iter().partition(|(_, first)| is_old(first));
        *known = young;
        HashMap::into_keys(old).collect()
    }

    async fn read_json<T: serde::de::DeserializeOwned>(&self, blob: &BlobRef) -> Result<T> {
        let bytes = self.blobs.get(blob).await?;
        serde_json::from_slice(&bytes).map_err(|error| StoreError::damaged_blob(&blob.key, error))
    }
}

/// The record of a policy whose parameters are stored as `params_blob`.
pub fn describe_policy(
    workspace: &Workspace,
    id: PolicyId,
    params: &PolicyParams,
    source_job_id: Option<JobId>,
    params_blob: BlobRef,
) -> Result<NewPolicy> {
    let unnamed = |error| StoreError::damaged(&params_blob.key, error);
    let digest = params.digest().map_err(unnamed)?;
    let base_digest = params.scores_digest().map_err(unnamed)?;
    Ok(NewPolicy {
        id,
        workspace: workspace.clone(),
        kind: params.kind(),
        n_actions: params.n_actions(),
        dim: params.dim(),
        digest,
        base_digest,
        source_job_id,
        params: params_blob,
    })
}

/// A document as it is stored.
pub fn json_bytes<T: serde::Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| StoreError::damaged("a document to be stored", error))
}
