//! Jobs on a log in memory, without a store: the log is read, specs are resolved and jobs run as in the service, so
//! that certificates have the same digests.

use std::collections::BTreeMap;

use guarantor_engine::control::Control;
use guarantor_engine::error::SpecError;
use guarantor_engine::footprint::{PolicySize, Resources, SetSizes, TooLarge, check_footprint};
use guarantor_engine::log::{LogShape, MemoryLog};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{Candidate, JobSpec, PolicyShape, SpecContext, SpecRequest};
use guarantor_engine::{Finished, Inputs, Result};

use crate::check::LogSummary;
use crate::memory::MemorySink;

/// The policies of a job, by id.
type Policies = BTreeMap<String, PolicyParams>;

/// A log in memory, with what jobs must know besides its rows.
pub struct LocalLog {
    log: MemoryLog,
    summary: LogSummary,
    logging_policy: Option<PolicyParams>,
    sets: Option<SetSizes>,
    version: u64,
}

/// What a job may use.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// The most bytes of memory.
    pub max_bytes: u64,
    /// The number of compute threads: some of the memory is per thread.
    pub threads: usize,
}

impl LocalLog {
    /// The log whose rows are in `sink`. `summary` is what reading it returned.
    ///
    /// # Errors
    /// If rows of one context differ, or the logging policy does not fit the rows.
    pub fn new(sink: MemorySink, summary: LogSummary, logging_policy: Option<PolicyParams>) -> Result<Self> {
        let columns = sink.into_columns(&summary);
        let sets = columns.sets.as_ref().map(|sets| {
            let of_requests = sets.x.indices().len() as u64;
            SetSizes {
                actions: sets.offsets().last().copied().unwrap_or(0),
                non_zeros: of_requests + sets.actions.indices().len() as u64,
                of_requests,
            }
        });
        let carries_all = columns.full.is_some();
        let mut log = MemoryLog::new(columns)?;
        if let Some(policy) = logging_policy.as_ref().filter(|_| !carries_all) {
            log = log.with_full_propensities(|x| policy.propensities(x))?;
        }
        Ok(LocalLog { log, summary, logging_policy, sets, version: 1 })
    }

    /// The same log as this version of a dataset.
    pub fn with_version(self, version: u64) -> Self {
        LocalLog { version, ..self }
    }

    /// What is known about the log.
    pub fn summary(&self) -> &LogSummary {
        &self.summary
    }

    /// The shape that specs are resolved against.
    pub fn shape(&self) -> LogShape {
        let LogSummary { rows, contexts, dim, .. } = self.summary;
        self.summary.facts().shape(rows, contexts, dim)
    }

    /// Fills in the defaults of a request. `caller` is who asks, as certificates name them.
    ///
    /// # Errors
    /// If the request cannot run on this log.
    pub fn resolve(
        &self,
        request: &SpecRequest,
        policies: &Policies,
        caller: &str,
    ) -> Result<JobSpec, SpecError> {
        request.resolve(&SpecContext {
            shape: &self.shape(),
            logging_policy: self.logging_policy.as_ref().map(PolicyShape::of),
            policy: &|id| policies.get(id).map(PolicyShape::of),
            seen_rows: 0,
            caller,
        })
    }

    /// Checks that a job fits into memory.
    ///
    /// # Errors
    /// The job would take more.
    pub fn check_fit(&self, spec: &JobSpec, policies: &Policies, memory: Memory) -> Result<(), TooLarge> {
        let named = |id: &String| policies.get(id).map(size_of);
        let prior = spec.prior.as_ref().and_then(|prior| prior.policy_id.as_ref());
        let candidates = spec.candidates.iter().filter_map(|candidate| match candidate {
            Candidate::Policy { policy_id } => named(policy_id),
            Candidate::Logged { .. } => None,
        });
        let candidates: Vec<PolicySize> = candidates.collect();
        let resources = Resources {
            threads: memory.threads,
            max_log_bytes: u64::MAX,
            sets: self.sets,
            logging_policy: self.logging_policy.as_ref().map(size_of),
            prior: prior.and_then(named),
            candidates: &candidates,
        };
        check_footprint(spec, &self.shape(), &resources, memory.max_bytes)
    }

    /// What a job on this log works on.
    pub fn inputs<'a>(&'a self, policies: &'a Policies) -> Inputs<'a> {
        Inputs {
            log: &self.log,
            logging_policy: self.logging_policy.as_ref(),
            policies,
            dataset_version: self.version,
            dataset_digest: &self.summary.digest,
            log_checks: Some(&self.summary.health.checks),
        }
    }

    /// Runs a job on the current rayon pool.
    ///
    /// # Errors
    /// As [`guarantor_engine::run`].
    pub fn run(&self, spec: &JobSpec, policies: &Policies, control: &Control) -> Result<Finished> {
        guarantor_engine::run(spec, &self.inputs(policies), control)
    }
}

/// The size of a policy. A number takes at least two bytes of JSON.
fn size_of(policy: &PolicyParams) -> PolicySize {
    let bytes = serde_json::to_vec(policy).map_or(0, |text| text.len() as u64);
    PolicySize { numbers: bytes / 2, width: policy.width(), mixes_logits: policy.mixes_logits() }
}
