//! Turns a request into a spec that can run. The engine decides, from what the store knows about the
//! dataset and the policies. The store also knows where a policy comes from: a candidate or prior that was
//! learned from rows of the same dataset, or of one that shares its ledger, is rejected
//! (`policy_learned_here`). And it knows which rows were seen by earlier looks.

use std::collections::{BTreeMap, BTreeSet};

use super::fit::{JobMemory, TooLarge, check_fit};
use super::runner::policy_ids;
use crate::store::{Dataset, PolicyId, Store, StoreError, StoredPolicy, Workspace};
use guarantor_engine::error::{SpecCode, SpecError};
use guarantor_engine::spec::{Candidate, JobSpec, PolicyShape, SpecContext, SpecRequest};

/// Why a request cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The request cannot run on this dataset.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The job would take more memory than it may.
    #[error("{0}")]
    TooLarge(TooLarge),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A request that can run.
#[derive(Debug)]
pub struct Resolved {
    /// The spec with its defaults.
    pub spec: JobSpec,
    /// Every stored policy that the job will read.
    pub policy_ids: Vec<PolicyId>,
    /// How many of the dataset's rows had been seen.
    pub seen_rows: u64,
}

/// Fills in the defaults of a request for the newest version of a dataset. `caller` is who asks, as certificates
/// name them.
///
/// # Errors
/// If the request cannot run on this dataset, or the store fails.
pub async fn resolve(
    store: &Store,
    workspace: &Workspace,
    dataset: &Dataset,
    request: &SpecRequest,
    caller: &str,
) -> Result<Resolved, ResolveError> {
    let mut shapes: BTreeMap<String, PolicyShape> = BTreeMap::new();
    for (field, id) in named_policies(request) {
        if let Some(policy) = find_policy(store, workspace, &id).await? {
            check_origin(store, &policy, dataset, field).await?;
            shapes.insert(id, store.policy_shape(&policy).await?);
        }
    }
    let logging_policy = match dataset.logging_policy_id {
        Some(id) => match find_policy(store, workspace, &id.to_string()).await? {
            Some(policy) => Some(store.policy_shape(&policy).await?),
            None => None,
        },
        None => None,
    };
    let shape = dataset.shape();
    // A job that is unfinished counts as a look: it may end first, and the caller may decide by its result. One
    // that is submitted after this cannot have caused this request.
    let seen = store.repository().seen_by_looks(workspace, dataset.id).await?;
    let seen_rows = seen.before(dataset.content.rows);
    let context = SpecContext {
        shape: &shape,
        logging_policy,
        policy: &|id| shapes.get(id).copied(),
        seen_rows,
        caller,
    };
    let spec = request.resolve(&context)?;
    check_fresh(&spec, dataset)?;
    let named = policy_ids(&spec).into_iter().filter_map(|id| id.parse().ok());
    let ids: BTreeSet<PolicyId> = named.chain(dataset.logging_policy_id).collect();
    Ok(Resolved { spec, policy_ids: ids.into_iter().collect(), seen_rows })
}

/// Rejects a job that has no row to certify, because looks at other datasets have seen all of them.
fn check_fresh(spec: &JobSpec, dataset: &Dataset) -> Result<(), SpecError> {
    if spec.seen_rows.is_none_or(|seen| seen < dataset.content.rows) {
        return Ok(());
    }
    let others: Vec<String> = dataset.shares_ledger_with.iter().take(3).map(ToString::to_string).collect();
    let message = format!(
        "looks at other datasets with some of these rows ({}) have seen them, so no row of this dataset is fresh; append \
         new rows to the dataset that was looked at, or to this one, or use looks = anytime, which pools old and new \
         rows",
        others.join(", ")
    );
    Err(SpecError::new(SpecCode::NoFreshRows, "dataset_id", message))
}

/// Checks that a job fits into memory.
///
/// # Errors
/// `TooLarge` if it does not, and if the store fails.
pub async fn require_fit(
    store: &Store,
    workspace: &Workspace,
    dataset: &Dataset,
    spec: &JobSpec,
    memory: &JobMemory,
) -> Result<(), ResolveError> {
    check_fit(store, workspace, dataset, spec, memory).await?.map_err(ResolveError::TooLarge)
}

/// The policies that a request names, each with the field that names it.
fn named_policies(request: &SpecRequest) -> Vec<(String, String)> {
    let prior = request.prior.iter().filter_map(|prior| prior.policy_id.clone());
    let prior = prior.map(|id| ("prior.policy_id".to_owned(), id));
    let candidates = request.candidates.iter().flatten().enumerate();
    let candidates = candidates.filter_map(|(i, candidate)| match candidate {
        Candidate::Policy { policy_id } => Some((format!("candidates[{i}].policy_id"), policy_id.clone())),
        Candidate::Logged { .. } => None,
    });
    prior.chain(candidates).collect()
}

/// Rejects a candidate or prior that depends on rows of the dataset. What the store knows overrides the
/// caller's attestation.
async fn check_origin(
    store: &Store,
    policy: &StoredPolicy,
    dataset: &Dataset,
    field: String,
) -> Result<(), ResolveError> {
    let Some(origin) = store.repository().of_same_ledger(dataset.id, &policy.origins).await? else {
        return Ok(());
    };
    let job = policy.source_job_id.map(|job| format!(" by job {job}")).unwrap_or_default();
    let rows = match origin == dataset.id || policy.origins.contains(&dataset.id) {
        true => "rows of this dataset".to_owned(),
        false => format!("rows of dataset {origin}, which this dataset has too"),
    };
    let message = format!(
        "the policy was learned{job} from {rows}, directly or through a policy that was; to certify it on other \
         rows, upload them as a new dataset"
    );
    Err(SpecError::new(SpecCode::PolicyLearnedHere, field, message).into())
}

async fn find_policy(
    store: &Store,
    workspace: &Workspace,
    id: &str,
) -> Result<Option<StoredPolicy>, StoreError> {
    let Ok(id) = id.parse::<PolicyId>() else { return Ok(None) };
    match store.repository().policy(workspace, id).await {
        Ok(policy) => Ok(Some(policy)),
        Err(StoreError::NotFound(..)) => Ok(None),
        Err(error) => Err(error),
    }
}
