//! From a request to a specification that can run: the engine decides, on what the store knows.

use std::collections::{BTreeMap, BTreeSet};

use super::runner::policy_ids;
use crate::engine::error::SpecError;
use crate::engine::spec::{Candidate, JobSpec, PolicyShape, SpecContext, SpecRequest};
use crate::store::{Dataset, PolicyId, Store, StoreError, Workspace};

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
    for id in named_policies(request) {
        if let Some(shape) = shape_of(store, workspace, &id).await? {
            shapes.insert(id, shape);
        }
    }
    let logging_policy = match dataset.logging_policy_id {
        Some(id) => shape_of(store, workspace, &id.to_string()).await?,
        None => None,
    };
    let shape = dataset.shape();
    let context = SpecContext { shape: &shape, logging_policy, policy: &|id| shapes.get(id).copied() };
    let spec = request.resolve(&context)?;
    let named = policy_ids(&spec).into_iter().filter_map(|id| id.parse().ok());
    let ids: BTreeSet<PolicyId> = named.chain(dataset.logging_policy_id).collect();
    Ok((spec, ids.into_iter().collect()))
}

fn named_policies(request: &SpecRequest) -> Vec<String> {
    let prior = request.prior.iter().filter_map(|prior| prior.policy_id.clone());
    let candidates = request.candidates.iter().flatten().filter_map(|candidate| match candidate {
        Candidate::Policy { policy_id } => Some(policy_id.clone()),
        Candidate::Logged { .. } => None,
    });
    prior.chain(candidates).collect()
}

async fn shape_of(store: &Store, workspace: &Workspace, id: &str) -> Result<Option<PolicyShape>, StoreError> {
    let Ok(id) = id.parse::<PolicyId>() else { return Ok(None) };
    match store.repository().policy(workspace, id).await {
        Ok(policy) => Ok(Some(policy.shape())),
        Err(StoreError::NotFound(..)) => Ok(None),
        Err(error) => Err(error),
    }
}
