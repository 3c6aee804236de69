//! Whether a job fits into memory. A job that does not would end the process in the middle of its work, and
//! again at each of its next attempts.

use super::runner::policy_ids;
use crate::store::{Dataset, PolicyId, Result, Store, StoreError, StoredPolicy, Workspace};
use guarantor_engine::footprint::{PolicySize, Resources, check_footprint};
use guarantor_engine::policy::PolicyKind;
use guarantor_engine::spec::{Candidate, JobSpec, PriorKind};

pub use guarantor_engine::footprint::TooLarge;

/// What a job may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobMemory {
    /// The most bytes of memory.
    pub max_bytes: u64,
    /// The number of compute threads: some of the memory is per thread.
    pub threads: usize,
}

/// Estimates the memory of a job, and compares it with what the job may use.
///
/// # Errors
/// If the store fails. A job that does not fit is the inner error.
pub async fn check_fit(
    store: &Store,
    workspace: &Workspace,
    dataset: &Dataset,
    spec: &JobSpec,
    memory: &JobMemory,
) -> Result<std::result::Result<(), TooLarge>> {
    let prior = spec.prior.as_ref();
    let logging_policy = match dataset.logging_policy_id {
        Some(id) => {
            let wide = prior.is_some_and(|prior| prior.kind == PriorKind::LoggingPolicy);
            size_of(store, workspace, &id.to_string(), wide).await?
        }
        None => None,
    };
    let prior = match prior.and_then(|prior| prior.policy_id.as_deref()) {
        Some(id) => size_of(store, workspace, id, true).await?,
        None => None,
    };
    let is_candidate = |id: &String| {
        spec.candidates.iter().any(|c| matches!(c, Candidate::Policy { policy_id } if policy_id == id))
    };
    let mut candidates = Vec::new();
    for id in policy_ids(spec).iter().filter(|id| is_candidate(id)) {
        candidates.extend(size_of(store, workspace, id, false).await?);
    }
    let resources = Resources {
        threads: memory.threads,
        max_log_bytes: store.log_memory().max_bytes,
        sets: dataset.set_sizes(),
        logging_policy,
        prior,
        candidates: &candidates,
    };
    Ok(check_footprint(spec, &dataset.shape(), &resources, memory.max_bytes))
}

/// The size of a stored policy, or `None` if it is gone. The dimensions of φ are in its parameters only, so these
/// are read if `exactly`.
async fn size_of(
    store: &Store,
    workspace: &Workspace,
    id: &str,
    exactly: bool,
) -> Result<Option<PolicySize>> {
    let Ok(id) = id.parse::<PolicyId>() else { return Ok(None) };
    let policy = match store.repository().policy(workspace, id).await {
        Err(StoreError::NotFound(..)) => return Ok(None),
        policy => policy?,
    };
    let size = roughly(&policy);
    if !exactly {
        return Ok(Some(size));
    }
    let params = store.policy_params(&policy).await?;
    Ok(Some(PolicySize { width: params.width(), mixes_logits: params.mixes_logits(), ..size }))
}

/// A number takes at least two bytes of JSON.
fn roughly(policy: &StoredPolicy) -> PolicySize {
    PolicySize {
        numbers: policy.params.bytes / 2,
        width: policy.dim,
        mixes_logits: matches!(policy.kind, PolicyKind::MixedLogit | PolicyKind::Exploring),
    }
}
