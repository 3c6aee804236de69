use guarantor::store::*;

use crate::support::{NO_LIMITS, dataset, new_job, policy_params, workspace};

async fn policy(repository: &dyn Repository) -> StoredPolicy {
    let id = PolicyId::new();
    let blob = BlobRef::new(policy_key(id), 3);
    let new = describe_policy(&workspace("a"), id, &policy_params(), None, blob).unwrap();
    repository.create_policy(new).await.unwrap()
}

pub async fn a_policy_is_read_back(repository: &dyn Repository) {
    let created = policy(repository).await;
    let read = repository.policy(&workspace("a"), created.id).await.unwrap();
    assert_eq!(read, created);
    assert_eq!((read.n_actions, read.dim), (3, 2));
    assert_eq!(read.digest, policy_params().digest().unwrap());
    let foreign = repository.policy(&workspace("b"), created.id).await;
    assert!(matches!(foreign, Err(StoreError::NotFound(Resource::Policy, _))), "{foreign:?}");
    assert_eq!(repository.delete_policy(&workspace("a"), created.id).await.unwrap(), [created.params.key]);
    let gone = repository.policy(&workspace("a"), created.id).await;
    assert!(matches!(gone, Err(StoreError::NotFound(Resource::Policy, _))), "{gone:?}");
}

pub async fn policies_are_listed_newest_first(repository: &dyn Repository) {
    let (first, second) = (policy(repository).await, policy(repository).await);
    let page = repository.policies(&workspace("a"), &PageRequest::first(1)).await.unwrap();
    assert_eq!(page.data, [second]);
    let rest = PageRequest { limit: 1, after: page.next };
    let page = repository.policies(&workspace("a"), &rest).await.unwrap();
    assert_eq!((page.data, page.next), (vec![first], None));
}

pub async fn a_policy_in_use_is_not_deleted(repository: &dyn Repository) {
    let policy = policy(repository).await;
    let dataset = dataset(repository, "a").await;
    let mut new = new_job(&dataset);
    new.policy_ids = vec![policy.id];
    let job = repository.submit_job(new, &NO_LIMITS).await.unwrap();
    let ws = workspace("a");
    let refused = repository.delete_policy(&ws, policy.id).await;
    assert!(matches!(refused, Err(StoreError::InUse { resource: Resource::Policy, .. })), "{refused:?}");
    let foreign = repository.delete_policy(&workspace("b"), policy.id).await;
    assert!(matches!(foreign, Err(StoreError::NotFound(Resource::Policy, _))), "{foreign:?}");
    repository.cancel_job(&ws, job.id).await.unwrap();
    repository.delete_policy(&ws, policy.id).await.unwrap();
}
