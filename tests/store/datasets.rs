use guarantor::store::*;

use std::collections::BTreeSet;

use crate::support::{content, dataset, job, new_dataset, new_version, policy_params, workspace};

pub async fn a_dataset_is_read_back(repository: &dyn Repository) {
    let new = new_dataset(&workspace("a"));
    let created = repository.create_dataset(new.clone()).await.unwrap();
    assert_eq!(created, repository.dataset(&new.workspace, new.id).await.unwrap());
    assert_eq!(created.content, new.content);
    assert_eq!((created.version, created.revision, created.bytes()), (1, 1, 7));
}

pub async fn a_name_may_be_any_text(repository: &dyn Repository) {
    let mut new = new_dataset(&workspace("a"));
    let name = "a\0b \u{1F600} '\"; DROP TABLE datasets";
    new.name = Some(name.into());
    let stored = repository.create_dataset(new).await.unwrap().name.unwrap();
    // Not every database can hold the character 0.
    assert_eq!(stored.replace('\u{fffd}', "\0"), name);
}

pub async fn a_dataset_id_is_taken_once(repository: &dyn Repository) {
    let new = new_dataset(&workspace("a"));
    repository.create_dataset(new.clone()).await.unwrap();
    let again = repository.create_dataset(new).await;
    assert!(matches!(again, Err(StoreError::Exists(Resource::Dataset, _))), "{again:?}");
}

pub async fn versions_follow_each_other(repository: &dyn Repository) {
    let first = dataset(repository, "a").await;
    let mut longer = content("datasets/second.parquet");
    longer.rows = 150;
    longer.parts.insert(0, first.content.parts[0].clone());
    let (ws, id) = (&first.workspace, first.id);
    let second = repository.add_dataset_version(ws, id, new_version(1, longer.clone())).await.unwrap();
    assert_eq!((second.version, second.content.rows, second.bytes()), (2, 150, 14));
    assert!(second.revision > first.revision);
    assert_eq!(second.created_at, first.created_at);
    assert_eq!(repository.dataset(ws, id).await.unwrap(), second);
    // Old certificates still refer to their own version.
    assert_eq!(repository.dataset_version(ws, id, 1).await.unwrap().content, first.content);
    let missing = repository.dataset_version(ws, id, 3).await;
    assert!(matches!(missing, Err(StoreError::NotFound(Resource::DatasetVersion, _))), "{missing:?}");
    let late = repository.add_dataset_version(ws, id, new_version(1, longer)).await;
    assert!(matches!(late, Err(StoreError::InUse { .. })), "{late:?}");
    let mut blobs = repository.delete_dataset(ws, id).await.unwrap();
    blobs.sort();
    assert_eq!(blobs.len(), 2, "{blobs:?}");
}

pub async fn other_workspaces_do_not_see_datasets(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let other = workspace("b");
    let read = repository.dataset(&other, dataset.id).await;
    assert!(matches!(read, Err(StoreError::NotFound(Resource::Dataset, _))), "{read:?}");
    let deleted = repository.delete_dataset(&other, dataset.id).await;
    assert!(matches!(deleted, Err(StoreError::NotFound(Resource::Dataset, _))), "{deleted:?}");
    let listed = repository.datasets(&other, &PageRequest::first(10)).await.unwrap();
    assert!(listed.data.is_empty() && listed.next.is_none());
    assert!(repository.dataset(&dataset.workspace, dataset.id).await.is_ok());
}

pub async fn datasets_are_listed_newest_first(repository: &dyn Repository) {
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(dataset(repository, "a").await.id);
    }
    ids.reverse();
    let (mut seen, mut page) = (Vec::new(), PageRequest::first(2));
    loop {
        let found = repository.datasets(&workspace("a"), &page).await.unwrap();
        seen.extend(found.data.iter().map(|d| d.id));
        match found.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, ids);
}

pub async fn a_dataset_is_deleted_when_no_job_needs_it(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let (ws, id) = (&dataset.workspace, dataset.id);
    let job = job(repository, &dataset).await;
    let refused = repository.delete_dataset(ws, id).await;
    assert!(matches!(refused, Err(StoreError::InUse { resource: Resource::Dataset, .. })), "{refused:?}");
    repository.cancel_job(ws, job.id).await.unwrap();
    let blobs = repository.delete_dataset(ws, id).await.unwrap();
    assert_eq!(blobs, [dataset.content.parts[0].key.clone()]);
    let gone = repository.dataset(ws, id).await;
    assert!(matches!(gone, Err(StoreError::NotFound(Resource::Dataset, _))), "{gone:?}");
    assert_eq!(repository.job(ws, job.id).await.unwrap().dataset_id, id);
}

pub async fn a_dataset_names_a_policy_that_is_there(repository: &dyn Repository) {
    let mut new = new_dataset(&workspace("a"));
    new.logging_policy_id = Some(PolicyId::new());
    let refused = repository.create_dataset(new.clone()).await;
    assert!(matches!(refused, Err(StoreError::NotFound(Resource::Policy, _))), "{refused:?}");
    let blob = BlobRef::new("policies/p.json", 3);
    let id = PolicyId::new();
    let policy = describe_policy(&workspace("a"), id, &policy_params(), None, blob).unwrap();
    repository.create_policy(policy).await.unwrap();
    new.logging_policy_id = Some(id);
    assert_eq!(repository.create_dataset(new).await.unwrap().logging_policy_id, Some(id));
}

/// Other columns for the same rows: nothing of the earlier version is kept, and nothing of it is lost.
pub async fn a_version_may_have_parts_of_its_own(repository: &dyn Repository) {
    let first = dataset(repository, "a").await;
    let (ws, id) = (&first.workspace, first.id);
    let again = NewVersion { added: None, ..new_version(1, content("datasets/wider.parquet")) };
    let second = repository.add_dataset_version(ws, id, again).await.unwrap();
    assert_eq!((second.version, second.bytes()), (2, 7));
    assert_eq!(repository.dataset_version(ws, id, 1).await.unwrap().content, first.content);
    assert_eq!(repository.delete_dataset(ws, id).await.unwrap().len(), 2);
}

pub async fn looks_and_unfinished_jobs_have_seen_rows(repository: &dyn Repository) {
    let first = dataset(repository, "a").await;
    let (ws, id) = (&first.workspace, first.id);
    assert_eq!(repository.seen_by_looks(ws, id).await.unwrap(), SeenRows::default());
    let queued = job(repository, &first).await;
    let mut longer = content("datasets/second.parquet");
    (longer.rows, longer.last_timestamp) = (150, Some(7));
    longer.parts.insert(0, first.content.parts[0].clone());
    // A job looked at version 1 after the rows were compared with nothing.
    let late = NewVersion { seen_version: Some(0), ..new_version(1, longer.clone()) };
    let refused = repository.add_dataset_version(ws, id, late).await;
    assert!(matches!(refused, Err(StoreError::InUse { .. })), "{refused:?}");
    let compared = NewVersion { seen_version: Some(1), ..new_version(1, longer) };
    let second = repository.add_dataset_version(ws, id, compared).await.unwrap();
    let seen = repository.seen_by_looks(ws, id).await.unwrap();
    assert_eq!((&seen.rows, seen.version, seen.last_timestamp), (&BTreeSet::from([100]), 1, None));
    job(repository, &second).await;
    let seen = repository.seen_by_looks(ws, id).await.unwrap();
    assert_eq!((&seen.rows, seen.version, seen.last_timestamp), (&BTreeSet::from([100, 150]), 2, Some(7)));
    // A job that showed nothing has seen nothing anymore.
    repository.cancel_job(ws, queued.id).await.unwrap();
    assert_eq!(repository.seen_by_looks(ws, id).await.unwrap().rows, BTreeSet::from([150]));
    let foreign = repository.seen_by_looks(&workspace("b"), id).await;
    assert!(matches!(foreign, Err(StoreError::NotFound(Resource::Dataset, _))), "{foreign:?}");
}

/// A copy has the same rows, so looks at it are looks at the same rows until rows are appended.
pub async fn rows_of_another_dataset_were_seen_there(repository: &dyn Repository) {
    let first = dataset(repository, "a").await;
    let (ws, id) = (&first.workspace, first.id);
    let mut copy = new_dataset(ws);
    copy.content.digest = first.content.digest.clone();
    let copy = repository.create_dataset(copy).await.unwrap();
    let queued = job(repository, &copy).await;
    let seen = repository.seen_by_looks(ws, id).await.unwrap();
    assert_eq!((seen.before(100), seen.version), (0, 1), "the same rows again: {seen:?}");
    let mut longer = content("datasets/second.parquet");
    longer.rows = 150;
    longer.parts.insert(0, first.content.parts[0].clone());
    // A job has seen the rows in the copy, so none may reach back before them.
    let late = NewVersion { seen_version: Some(0), ..new_version(1, longer.clone()) };
    let refused = repository.add_dataset_version(ws, id, late).await;
    assert!(matches!(refused, Err(StoreError::InUse { .. })), "{refused:?}");
    repository.add_dataset_version(ws, id, new_version(1, longer)).await.unwrap();
    let seen = repository.seen_by_looks(ws, id).await.unwrap();
    assert_eq!((&seen.rows, &seen.elsewhere), (&BTreeSet::new(), &BTreeSet::from([100])));
    assert_eq!(seen.before(150), 100);
    repository.cancel_job(ws, queued.id).await.unwrap();
    assert_eq!(repository.seen_by_looks(ws, id).await.unwrap(), SeenRows::default());
}

pub async fn a_version_is_found_by_its_part(repository: &dyn Repository) {
    let first = dataset(repository, "a").await;
    let (ws, id) = (&first.workspace, first.id);
    let mut longer = content("datasets/x/request-1.parquet");
    longer.rows = 150;
    longer.parts.insert(0, first.content.parts[0].clone());
    repository.add_dataset_version(ws, id, new_version(1, longer)).await.unwrap();
    // Candidates replace all parts.
    let mut wider = content("datasets/x/other-1.parquet");
    wider.rows = 150;
    let wider = NewVersion { added: None, ..new_version(2, wider) };
    repository.add_dataset_version(ws, id, wider).await.unwrap();
    for (prefix, version) in
        [("datasets/x/request-", Some(2)), ("datasets/x/other-", Some(3)), ("none", None)]
    {
        let found = repository.version_with_part(ws, id, prefix).await.unwrap();
        assert_eq!(found.map(|dataset| dataset.version), version, "{prefix}");
    }
    let foreign = repository.version_with_part(&workspace("b"), id, "datasets/x/request-").await.unwrap();
    assert!(foreign.is_none());
}

pub async fn additions_of_candidates_are_counted(repository: &dyn Repository) {
    let first = dataset(repository, "a").await;
    let (ws, id) = (&first.workspace, first.id);
    assert_eq!(repository.candidate_additions(ws, id).await.unwrap(), 0);
    for version in 1..4 {
        let mut next = content(&format!("datasets/{version}.parquet"));
        next.rows = if version == 2 { 100 } else { 100 + version };
        let next = NewVersion { added: None, ..new_version(version, next) };
        repository.add_dataset_version(ws, id, next).await.unwrap();
    }
    assert_eq!(repository.candidate_additions(ws, id).await.unwrap(), 1);
}
