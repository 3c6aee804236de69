//! What a worker does with a job: the interface between the queue and the engine.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;

use super::fit::{JobMemory, check_fit};
use crate::store::{
    Dataset, FailureCode, Job, JobFailure, PolicyId, Resource, Store, StoreError, StoredLog, Workspace,
};
use guarantor_engine::control::Control;
use guarantor_engine::footprint::needs_features;
use guarantor_engine::log::{LogSource, MemoryLog};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{Candidate, JobKind, JobSpec};
use guarantor_engine::{self, EngineError, Finished, Inputs};

/// A computation whose inputs were fetched. It is called once, on a compute thread.
pub type Prepared = Box<dyn FnOnce(&Control) -> guarantor_engine::Result<Finished> + Send>;

/// Why a job's computation could not start.
#[derive(Debug)]
pub enum RunError {
    /// Running the job again will not help.
    Failed(JobFailure),
    /// The store is unavailable; the job may succeed later.
    Retry(JobFailure),
}

/// Runs jobs.
#[async_trait]
pub trait Runner: Send + Sync {
    /// Fetches what the job reads. It is called on an async thread and must not compute.
    ///
    /// # Errors
    /// If the inputs cannot be fetched, with whether to try again.
    async fn prepare(&self, job: &Job) -> Result<Prepared, RunError>;
}

/// Runs jobs with the engine on stored data.
pub struct EngineRunner {
    store: Store,
    memory: Option<JobMemory>,
}

impl EngineRunner {
    /// A runner on the data of `store`.
    pub fn new(store: Store) -> Self {
        EngineRunner { store, memory: None }
    }

    /// Does not start jobs that take more memory than this. They are rejected when they are submitted, but the limit
    /// may have been higher then, or there was none.
    pub fn within(self, memory: JobMemory) -> Self {
        EngineRunner { memory: Some(memory), ..self }
    }

    async fn dataset(&self, job: &Job) -> Result<Dataset, RunError> {
        (self.store.repository())
            .dataset_version(&job.workspace, job.dataset_id, job.dataset_version)
            .await
            .map_err(|error| unreadable(FailureCode::DatasetUnreadable, error))
    }

    async fn inputs(&self, job: &Job, dataset: Dataset) -> Result<StoredInputs, RunError> {
        if let Some(memory) = &self.memory {
            let fit = check_fit(&self.store, &job.workspace, &dataset, &job.spec, memory).await;
            let too_large = fit.map_err(|error| unreadable(FailureCode::PolicyUnreadable, error))?.err();
            if let Some(too_large) = too_large {
                return Err(RunError::Failed(JobFailure::new(
                    FailureCode::JobTooLarge,
                    too_large.to_string(),
                )));
            }
        }
        StoredInputs::fetch(&self.store, &job.workspace, dataset, &job.spec).await
    }
}

#[async_trait]
impl Runner for EngineRunner {
    async fn prepare(&self, job: &Job) -> Result<Prepared, RunError> {
        check_current(&job.spec)?;
        let dataset = self.dataset(job).await?;
        if dataset.is_merged() {
            let merged = self.store.merged_sums(&dataset).await;
            let merged = merged.map_err(|error| unreadable(FailureCode::DatasetUnreadable, error))?;
            return Ok(Box::new(move |_| merged.finished().map_err(|error| EngineError::Log(error.message))));
        }
        let (inputs, spec) = (self.inputs(job, dataset).await?, job.spec.clone());
        Ok(Box::new(move |control| {
            inputs.with(control, |inputs| guarantor_engine::run(&spec, inputs, control))
        }))
    }
}

/// Fails a job that an earlier release has queued: nobody checked how its dataset was logged, nor which rows were seen.
fn check_current(spec: &JobSpec) -> Result<(), RunError> {
    let explores = spec.explore.is_some() || spec.kind == JobKind::Evaluate;
    if spec.logging.is_some() && spec.looks.is_some() && explores {
        return Ok(());
    }
    let message = "the job was submitted to an earlier release, which did not check how the log was logged and which \
                   of its rows were seen before; submit it again";
    Err(RunError::Failed(JobFailure::new(FailureCode::SpecOutdated, message)))
}

/// Everything that the engine reads for a job. The log is still encoded, because decoding is work for a
/// compute thread.
pub struct StoredInputs {
    log: StoredLog,
    dataset: Dataset,
    logging_policy: Option<PolicyParams>,
    policies: BTreeMap<String, PolicyParams>,
}

impl StoredInputs {
    /// Fetches the log of `dataset` and the policies that the spec and the dataset name.
    ///
    /// # Errors
    /// If one of them is damaged or missing, or if the store is unavailable.
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
        let log =
            store.fetch_log(&dataset).await.map_err(|e| unreadable(FailureCode::DatasetUnreadable, e))?;
        let log = match needs_features(spec, &dataset.shape(), logging_policy.is_some()) {
            true => log,
            false => log.without_features(),
        };
        Ok(StoredInputs { log, dataset, logging_policy, policies })
    }

    /// The same inputs, with all rows of the log compared with their digest: verification trusts no seal, which whoever
    /// can write to the database and to the files could make anew.
    pub fn by_digest(self) -> Self {
        StoredInputs { log: self.log.by_digest(), ..self }
    }

    /// Decodes the log, checks its digest and calls `work` with the engine's inputs. This takes time: call
    /// it on a compute thread.
    ///
    /// # Errors
    /// If the log is damaged, and whatever `work` returns.
    pub fn with<T>(
        self,
        control: &Control,
        work: impl FnOnce(&Inputs) -> guarantor_engine::Result<T>,
    ) -> guarantor_engine::Result<T> {
        let StoredInputs { mut log, dataset, logging_policy, policies } = self;
        log.find_precision()?;
        let log = open(log, logging_policy.as_ref(), control)?;
        work(&Inputs {
            log: &*log,
            logging_policy: logging_policy.as_ref(),
            policies: &policies,
            dataset_version: dataset.version,
            dataset_digest: &dataset.content.digest,
            log_checks: dataset.log_checks().as_deref(),
        })
    }
}

/// Opens the log in memory if it fits, otherwise from a temporary file. The numbers are the same.
fn open(
    log: StoredLog,
    logging_policy: Option<&PolicyParams>,
    control: &Control,
) -> guarantor_engine::Result<Box<dyn LogSource>> {
    if !log.fits_in_memory() {
        return Ok(Box::new(log.spool(logging_policy, control)?));
    }
    let columns = log.decode()?;
    drop(log);
    let carries_all = columns.full.is_some();
    let log = MemoryLog::new(columns)?;
    Ok(Box::new(match logging_policy.filter(|_| !carries_all) {
        Some(policy) => log.with_full_propensities(|x| policy.propensities(x))?,
        None => log,
    }))
}

/// Every policy that the spec names.
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
    fetch.await.map_err(|error| unreadable(FailureCode::PolicyUnreadable, error))
}

fn unreadable(code: FailureCode, error: StoreError) -> RunError {
    if error.is_transient() {
        // The error may name files and hosts, which belong in the log and not in the job.
        tracing::warn!(%error, "could not read the inputs of a job");
        return RunError::Retry(JobFailure::new(code, "the store is unavailable"));
    }
    let code = match error {
        StoreError::SourceChanged(_) => FailureCode::SourceChanged,
        _ => code,
    };
    RunError::Failed(JobFailure::new(code, error.to_string()))
}
