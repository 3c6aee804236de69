//! The store: rows behind the trait `Repository` (SQLite in `sqlite/`) and files behind `Blobs`.
//!
//! `Store` holds both and has the operations that touch both. The order is always the same: write
//! the file, then in one transaction the row that names it; delete the row, then the file. A crash
//! in between leaves a file that no row names, and `sweep` removes it.

mod backup;
mod blobs;
mod disk;
mod error;
mod failure;
mod ids;
mod keys;
mod logs;
mod open;
mod page;
mod records;
mod repository;
mod signing;
mod sqlite;
mod uploads;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use disk::Disk;
use guarantor_engine::certificate::{Certificate, Document, Evidence, SigningKey};
use guarantor_engine::policy::PolicyParams;

pub use backup::{BackedUp, back_up};
pub use blobs::{BlobWriter, Blobs};
pub use error::{Resource, Result, StoreError};
pub use failure::{FailureCode, JobFailure};
pub use ids::{BadWorkspace, DatasetId, JobId, KeyId, LeaseToken, PolicyId, Timestamp, Workspace};
pub use logs::{LogEncoder, LogMemory, SpooledLog, StoredLog};
pub use open::DirectoryLock;
pub use page::{Cursor, Page, PageRequest};
pub use records::*;
pub use repository::{Datasets, Idempotency, Jobs, Keys, Leases, Ledger, Policies, Repository, Upkeep};
pub use signing::{make_signing_key, read_signing_key};
pub use sqlite::Sqlite;
pub use uploads::{Append, BodyError, Upload, UploadError, append, upload};

/// Cheap to clone; all clones are one store.
#[derive(Clone)]
pub struct Store {
    repository: Arc<dyn Repository>,
    blobs: Blobs,
    signing_key: Option<Arc<SigningKey>>,
    log_memory: LogMemory,
    /// Files that the last sweep found no row for, and when a sweep first did.
    orphans: Arc<Mutex<HashMap<String, Instant>>>,
    /// None where the data is not on a disk of this machine.
    disk: Option<Disk>,
}

impl Store {
    pub fn new(repository: Arc<dyn Repository>, blobs: Blobs) -> Self {
        Store {
            repository,
            blobs,
            signing_key: None,
            log_memory: LogMemory::default(),
            orphans: Arc::default(),
            disk: None,
        }
    }

    /// The same store, with other terms for the logs that jobs read.
    pub fn with_log_memory(self, log_memory: LogMemory) -> Self {
        Store { log_memory, ..self }
    }

    pub fn log_memory(&self) -> &LogMemory {
        &self.log_memory
    }

    pub fn repository(&self) -> &dyn Repository {
        &*self.repository
    }

    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Ready to read and to write, or why not.
    pub async fn check_ready(&self) -> Result<()> {
        self.repository.ping().await?;
        match &self.disk {
            Some(disk) => disk.check_writable().await,
            None => Ok(()),
        }
    }

    /// Bytes that may still be stored, where that can be known.
    pub fn free_bytes(&self) -> Option<u64> {
        self.disk.as_ref().and_then(|disk| disk.free_bytes().ok())
    }

    /// Stores parameters that `PolicyParams::check` has accepted.
    pub async fn create_policy(
        &self,
        workspace: &Workspace,
        id: PolicyId,
        params: &PolicyParams,
    ) -> Result<Policy> {
        let blob = self.blobs.put(policy_key(id), json_bytes(params)?).await;
        let params_blob = match blob {
            // An earlier attempt of the same request wrote it; whether it got as far as the row is
            // for the row's own key to say.
            Err(StoreError::Exists(..)) => {
                BlobRef { key: policy_key(id), bytes: json_bytes(params)?.len() as u64 }
            }
            blob => blob?,
        };
        let new = describe_policy(workspace, id, params, None, params_blob);
        self.repository.create_policy(new).await
    }

    /// The parameters, with the digest that they were stored with, or an error.
    pub async fn policy_params(&self, policy: &Policy) -> Result<PolicyParams> {
        let params: PolicyParams = self.read_json(&policy.params).await?;
        if params.digest() != policy.digest {
            return Err(StoreError::damaged(&policy.params.key, "its digest has changed"));
        }
        Ok(params)
    }

    pub async fn delete_policy(&self, workspace: &Workspace, id: PolicyId) -> Result<()> {
        let blobs = self.repository.delete_policy(workspace, id).await?;
        self.blobs.delete(&blobs).await;
        Ok(())
    }

    pub async fn delete_dataset(&self, workspace: &Workspace, id: DatasetId) -> Result<()> {
        let blobs = self.repository.delete_dataset(workspace, id).await?;
        self.blobs.delete(&blobs).await;
        Ok(())
    }

    /// The version that the append with this request's id made, if it got so far.
    pub async fn appended(
        &self,
        workspace: &Workspace,
        id: DatasetId,
        request: uuid::Uuid,
    ) -> Result<Option<Dataset>> {
        let prefix = dataset_part_prefix(id, request);
        let of_request =
            |dataset: &Dataset| dataset.content.parts.iter().any(|part| part.key.starts_with(&prefix));
        let mut found = self.repository.dataset(workspace, id).await?;
        if !of_request(&found) {
            return Ok(None);
        }
        // Later appends keep the part: it was the earliest version with it that the request made.
        while found.version > 1 {
            let before = self.repository.dataset_version(workspace, id, found.version - 1).await?;
            if !of_request(&before) {
                break;
            }
            found = before;
        }
        Ok(Some(found))
    }

    /// None while the job has none.
    pub async fn certificate(&self, job: &Job) -> Result<Option<Certificate>> {
        let Some(blob) = &job.certificate else { return Ok(None) };
        let certificate: Certificate = self.read_json(blob).await?;
        if certificate.content_digest() != certificate.digest {
            return Err(StoreError::damaged(&blob.key, "its digest has changed"));
        }
        Ok(Some(certificate))
    }

    /// The certificate as it is handed out: with its job, its place and its signature.
    pub async fn document(&self, job: &Job) -> Result<Option<Document>> {
        let Some(certificate) = self.certificate(job).await? else { return Ok(None) };
        let look = self.repository.look_of_job(&job.workspace, job.id).await?;
        let damaged = |why: &str| Err(StoreError::damaged(format!("jobs/{}", job.id), why));
        let (ledger, signature) = match look {
            Some(look) if look.digest.is_none() => (None, None),
            Some(look) if look.digest.as_ref() != Some(&certificate.digest) => {
                return damaged("the ledger has another digest for its certificate");
            }
            Some(look) => (Some(look.place), look.signature),
            None => return damaged("the ledger does not know its certificate"),
        };
        Ok(Some(Document { certificate, issued: Some(job.issued()), ledger, signature }))
    }

    pub async fn evidence(&self, job: &Job) -> Result<Option<Evidence>> {
        match &job.evidence {
            Some(blob) => self.read_json(blob).await.map(Some),
            None => Ok(None),
        }
    }

    /// Applies the retention, if there is one, and removes what crashes left behind: files that no
    /// row named in any sweep of the last `orphan_age`. That age must exceed the longest upload.
    pub async fn sweep(&self, retention: Option<Duration>, orphan_age: Duration) -> Result<()> {
        if let Some(age) = retention {
            let blobs = self.repository.sweep_jobs(age).await?;
            self.blobs.delete(&blobs).await;
        }
        self.repository.sweep_requests().await?;
        let keys = self.blobs.keys().await?;
        let orphans = self.repository.unnamed_blobs(&keys).await?;
        self.blobs.delete(&self.known_for(orphan_age, orphans)).await;
        Ok(())
    }

    /// Those of `orphans` that were known as such `age` ago. By this process's own clock: the files'
    /// times are the wall clock's, and when that jumps a file may look older than it is.
    fn known_for(&self, age: Duration, orphans: Vec<String>) -> Vec<String> {
        let mut known = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
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
        serde_json::from_slice(&bytes).map_err(|error| StoreError::damaged(&blob.key, error))
    }
}

/// The row for parameters that are stored as `params_blob`.
pub fn describe_policy(
    workspace: &Workspace,
    id: PolicyId,
    params: &PolicyParams,
    source_job_id: Option<JobId>,
    params_blob: BlobRef,
) -> NewPolicy {
    NewPolicy {
        id,
        workspace: workspace.clone(),
        kind: params.kind(),
        n_actions: params.n_actions(),
        dim: params.dim(),
        digest: params.digest(),
        source_job_id,
        params: params_blob,
    }
}

pub fn policy_key(id: PolicyId) -> String {
    format!("policies/{id}.json")
}

/// The request is in the key so that a repeated one finds what the first has made; the rest is new
/// each time, because an attempt that was given up may still be writing.
pub fn dataset_part_key(id: DatasetId, request: uuid::Uuid) -> String {
    format!("{}{}.parquet", dataset_part_prefix(id, request), uuid::Uuid::now_v7())
}

fn dataset_part_prefix(id: DatasetId, request: uuid::Uuid) -> String {
    format!("datasets/{id}/{request}-")
}

/// The token is in the key because a worker that lost its lease may still be writing.
pub fn job_key(id: JobId, token: LeaseToken, file: &str) -> String {
    format!("jobs/{id}/{token}/{file}")
}

pub fn json_bytes<T: serde::Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| StoreError::damaged("a document to be stored", error))
}
