//! What a worker does with a job: the one seam between the queue and the core.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;

use crate::engine::control::Control;
use crate::engine::log::MemoryLog;
use crate::engine::policy::PolicyParams;
use crate::engine::spec::{Candidate, JobSpec};
use crate::engine::{self, EngineError, Finished, Inputs};
use crate::store::{Dataset, Job, JobFailure, PolicyId, Resource, Store, StoreError, StoredLog, Workspace};

/// The computation, its inputs fetched: called once, on a compute thread.
pub type Prepared = Box<dyn FnOnce(&Control) -> engine::Result<Finished> + Send>;

#[derive(Debug)]
pub enum RunError {
    /// Running the job again will not help.
    Failed(JobFailure),
    /// The store is away; the job itself may be sound.
    Retry(JobFailure),
}

#[async_trait]
pub trait Runner: Send + Sync {
    /// Fetches what the job reads. On an async thread: no computing here.
    async fn prepare(&self, job: &Job) -> Result<Prepared, RunError>;
}

/// The engine on the store's data.
pub struct EngineRunner {
    store: Store,
}

impl EngineRunner {
    pub fn new(store: Store) -> Self {
        EngineRunner { store }
    }

    async fn inputs(&self, job: &Job) -> Result<StoredInputs, RunError> {
        let dataset = (self.store.repository())
            .dataset_version(&job.workspace, job.dataset_id, job.dataset_version)
            .await
            .map_err(|error| unreadable("dataset_unreadable", error))?;
        StoredInputs::fetch(&self.store, &job.workspace, dataset, &job.spec).await
    }
}

#[async_trait]
impl Runner for EngineRunner {
    async fn prepare(&self, job: &Job) -> Result<Prepared, RunError> {
        let (inputs, spec) = (self.inputs(job).await?, job.spec.clone());
        Ok(Box::new(move |control| inputs.with(|inputs| engine::run(&spec, inputs, control))))
    }
}

/// Everything that the engine reads for a job, as bytes: decoding is work for a compute thread.
pub struct StoredInputs {
    log: StoredLog,
    dataset: Dataset,
    logging_policy: Option<PolicyParams>,
    policies: BTreeMap<String, PolicyParams>,
}

impl StoredInputs {
    pub async fn fetch(
        store: &Store,
        workspace: &Workspace,
        dataset: Dataset,
        spec: &JobSpec,
    ) -> Result<Self, RunError> {
        let mut policies = BTreeMap::new();
        for id in policy_ids(spec) {
            policies.insert(id.clone(), fetch_policy(store, workspace, &id).await?);
        }
        let logging_policy = match dataset.logging_policy_id {
            Some(id) => Some(fetch_policy(store, workspace, &id.to_string()).await?),
            None => None,
        };
        let log = store.fetch_log(&dataset).await.map_err(|e| unreadable("dataset_unreadable", e))?;
        Ok(StoredInputs { log, dataset, logging_policy, policies })
    }

    /// Decodes the log, checks its digest and hands it over. On a compute thread.
    pub fn with<T>(self, work: impl FnOnce(&Inputs) -> engine::Result<T>) -> engine::Result<T> {
        let columns = self.log.decode().map_err(|error| EngineError::Log(error.to_string()))?;
        let carries_all = columns.full.is_some();
        let mut log = MemoryLog::new(columns)?;
        if let Some(policy) = self.logging_policy.as_ref().filter(|_| !carries_all) {
            log = log.with_logging_policy(policy)?;
        }
        work(&Inputs {
            log: &log,
            logging_policy: self.logging_policy.as_ref(),
            policies: &self.policies,
            dataset_version: self.dataset.version,
            dataset_digest: &self.dataset.content.digest,
        })
    }
}

/// Every policy that the specification names.
pub fn policy_ids(spec: &JobSpec) -> BTreeSet<String> {
    let candidates = spec.candidates.iter().filter_map(|candidate| match candidate {
        Candidate::Policy { policy_id } => Some(policy_id.clone()),
        Candidate::Logged { .. } => None,
    });
    candidates.chain(spec.prior.iter().filter_map(|prior| prior.policy_id.clone())).collect()
}

async fn fetch_policy(store: &Store, workspace: &Workspace, id: &str) -> Result<PolicyParams, RunError> {
    let fetch = async {
        let id = id.parse::<PolicyId>().map_err(|_| StoreError::not_found(Resource::Policy, id))?;
        let policy = store.repository().policy(workspace, id).await?;
        store.policy_params(&policy).await
    };
    fetch.await.map_err(|error| unreadable("policy_unreadable", error))
}

fn unreadable(code: &str, error: StoreError) -> RunError {
    if error.is_transient() {
        // The cause may name files and hosts: it is for the log, not for whoever reads the job.
        tracing::warn!(%error, "a job's inputs could not be read");
        return RunError::Retry(JobFailure::new(code, "the store could not be reached"));
    }
    RunError::Failed(JobFailure::new(code, error.to_string()))
}
