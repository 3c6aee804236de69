use std::time::Duration;

use guarantor::store::*;

use crate::support::{dataset, job, workspace};

fn new_key(secret: &str, role: Role) -> NewKey {
    let (id, workspace, hash) = (KeyId::new(), workspace("a"), KeyHash::of(secret));
    NewKey { id, workspace, name: "ci".into(), role, hash }
}

pub async fn keys_keep_their_role(repository: &dyn Repository) {
    for role in Role::ALL {
        let secret = format!("gk_{role}");
        let key = repository.create_key(new_key(&secret, role)).await.unwrap();
        assert_eq!(key.role, role);
        assert_eq!(repository.key_by_hash(&KeyHash::of(&secret)).await.unwrap(), Some(key.clone()));
        assert_eq!(repository.revoke_key(key.id).await.unwrap().role, role);
    }
    let mut roles: Vec<Role> = repository.keys().await.unwrap().iter().map(|key| key.role).collect();
    roles.sort();
    assert_eq!(roles, Role::ALL);
}

pub async fn keys_are_found_until_revoked(repository: &dyn Repository) {
    let key = repository.create_key(new_key("gk_a", Role::Submit)).await.unwrap();
    assert_eq!(repository.key_by_hash(&KeyHash::of("gk_a")).await.unwrap(), Some(key.clone()));
    assert_eq!(repository.key_by_hash(&KeyHash::of("gk_b")).await.unwrap(), None);
    assert_eq!(repository.keys().await.unwrap(), std::slice::from_ref(&key));
    let revoked = repository.revoke_key(key.id).await.unwrap();
    assert!(revoked.revoked_at.is_some());
    assert_eq!(repository.revoke_key(key.id).await.unwrap(), revoked);
    assert_eq!(repository.key_by_hash(&KeyHash::of("gk_a")).await.unwrap(), None);
    let unknown = repository.revoke_key(KeyId::new()).await;
    assert!(matches!(unknown, Err(StoreError::NotFound(Resource::Key, _))), "{unknown:?}");
}

fn request(fingerprint: &str, patience: Duration) -> IdempotentRequest {
    IdempotentRequest {
        workspace: workspace("a"),
        key: "k".into(),
        fingerprint: fingerprint.into(),
        resource_id: JobId::new().into(),
        patience,
    }
}

const MINUTE: Duration = Duration::from_secs(60);

pub async fn an_answer_is_repeated(repository: &dyn Repository) {
    let first = request("x", MINUTE);
    let begun = repository.begin_request(&first).await.unwrap();
    assert_eq!(begun, Begun::Proceed { resource_id: first.resource_id });
    assert_eq!(repository.begin_request(&request("x", MINUTE)).await.unwrap(), Begun::InProgress);
    assert_eq!(repository.begin_request(&request("y", MINUTE)).await.unwrap(), Begun::Mismatch);
    let answer = StoredAnswer {
        status: 202,
        headers: vec![("location".into(), "/v1/jobs/1".into())],
        body: b"{}".to_vec(),
    };
    repository.complete_request(&first.workspace, "k", &answer).await.unwrap();
    assert_eq!(repository.begin_request(&request("x", MINUTE)).await.unwrap(), Begun::Replay(answer));
    assert_eq!(repository.begin_request(&request("y", MINUTE)).await.unwrap(), Begun::Mismatch);
    let mut elsewhere = request("x", MINUTE);
    elsewhere.workspace = workspace("b");
    let begun = repository.begin_request(&elsewhere).await.unwrap();
    assert_eq!(begun, Begun::Proceed { resource_id: elsewhere.resource_id });
    assert_eq!(repository.sweep_requests().await.unwrap(), 0);
}

pub async fn an_unanswered_request_is_taken_over(repository: &dyn Repository) {
    let first = request("x", Duration::ZERO);
    repository.begin_request(&first).await.unwrap();
    // Its process died: the next attempt continues with the same id.
    let begun = repository.begin_request(&request("x", MINUTE)).await.unwrap();
    assert_eq!(begun, Begun::Proceed { resource_id: first.resource_id });
    assert_eq!(repository.begin_request(&request("x", MINUTE)).await.unwrap(), Begun::InProgress);
    repository.release_requests().await.unwrap();
    let begun = repository.begin_request(&request("x", MINUTE)).await.unwrap();
    assert_eq!(begun, Begun::Proceed { resource_id: first.resource_id });
}

pub async fn an_abandoned_request_starts_again(repository: &dyn Repository) {
    repository.begin_request(&request("x", MINUTE)).await.unwrap();
    repository.abandon_request(&workspace("a"), "k").await.unwrap();
    let second = request("y", MINUTE);
    let begun = repository.begin_request(&second).await.unwrap();
    assert_eq!(begun, Begun::Proceed { resource_id: second.resource_id });
}

pub async fn retention_removes_jobs_and_their_files(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let ended = job(repository, &dataset).await.id;
    let waiting = job(repository, &dataset).await.id;
    let ws = workspace("a");
    repository.cancel_job(&ws, ended).await.unwrap();
    assert!(repository.sweep_jobs(Duration::from_secs(3600)).await.unwrap().is_empty());
    assert!(repository.job(&ws, ended).await.is_ok());
    repository.sweep_jobs(Duration::ZERO).await.unwrap();
    assert!(matches!(repository.job(&ws, ended).await, Err(StoreError::NotFound(..))));
    assert!(matches!(repository.job_events(&ws, ended, 0, 9).await, Err(StoreError::NotFound(..))));
    assert!(repository.job(&ws, waiting).await.is_ok());
}

pub async fn unnamed_blobs_are_found(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let named = dataset.content.parts[0].key.clone();
    let keys = [named.clone(), "datasets/nobody/1.parquet".into()];
    assert_eq!(repository.unnamed_blobs(&keys).await.unwrap(), keys[1..]);
    repository.delete_dataset(&dataset.workspace, dataset.id).await.unwrap();
    assert_eq!(repository.unnamed_blobs(&keys).await.unwrap(), keys);
}
