//! From a request to a specification that can run: the engine decides, on what the store knows. The
//! store also knows where a policy comes from: one that was learned from the very rows that are to
//! certify it, or to certify what starts from it, is refused (`policy_learned_here`).

use std::collections::{BTreeMap, BTreeSet};

use super::runner::policy_ids;
use crate::store::{Dataset, Policy, PolicyId, Store, StoreError, Workspace};
use guarantor_engine::error::{SpecCode, SpecError};
use guarantor_engine::spec::{Candidate, JobSpec, PolicyShape, SpecContext, SpecRequest};

#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The specification with its defaults, and every stored policy that the job will read.
pub async fn resolve(
    store: &Store,
    workspace: &Workspace,
    dataset: &Dataset,
    request: &SpecRequest,
) -> Result<(JobSpec, Vec<PolicyId>), ResolveError> {
    let mut shapes: BTreeMap<String, PolicyShape> = BTreeMap::new();
    for (field, id) in named_policies(request) {
        if let Some(policy) = find_policy(store, workspace, &id).await? {
            check_origin(&policy, dataset, field)?;
            shapes.insert(id, policy.shape());
        }
    }
    let logging_policy = match dataset.logging_policy_id {
        Some(id) => find_policy(store, workspace, &id.to_string()).await?.map(|policy| policy.shape()),
        None => None,
    };
    let shape = dataset.shape();
    let context = SpecContext { shape: &shape, logging_policy, policy: &|id| shapes.get(id).copied() };
    let spec = request.resolve(&context)?;
    let named = policy_ids(&spec).into_iter().filter_map(|id| id.parse().ok());
    let ids: BTreeSet<PolicyId> = named.chain(dataset.logging_policy_id).collect();
    Ok((spec, ids.into_iter().collect()))
}

/// The policies that a request names, each with the field that does.
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

/// Neither candidates nor priors may depend on the rows of the bound; the caller's word for it does
/// not stand where the store knows better.
fn check_origin(policy: &Policy, dataset: &Dataset, field: String) -> Result<(), SpecError> {
    if !policy.origins.contains(&dataset.id) {
        return Ok(());
    }
    let job = policy.source_job_id.map(|job| format!(", by the job {job}")).unwrap_or_default();
    let message = format!(
        "the policy was learned{job}, from rows of this dataset or from others that a policy learned from it has \
         logged or started; to certify it on other rows, upload those as a dataset of their own"
    );
    Err(SpecError::new(SpecCode::PolicyLearnedHere, field, message))
}

async fn find_policy(store: &Store, workspace: &Workspace, id: &str) -> Result<Option<Policy>, StoreError> {
    let Ok(id) = id.parse::<PolicyId>() else { return Ok(None) };
    match store.repository().policy(workspace, id).await {
        Ok(policy) => Ok(Some(policy)),
        Err(StoreError::NotFound(..)) => Ok(None),
        Err(error) => Err(error),
    }
}
