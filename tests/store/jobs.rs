use std::time::Duration;

use guarantor::store::*;
use guarantor_engine::certificate::Decision;

use crate::support::{NO_LIMITS, content, dataset, job, new_job, new_version, workspace};

const TERMS: LeaseTerms = LeaseTerms { duration: Duration::from_secs(60), max_attempts: 3 };

pub async fn a_job_is_read_back(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let new = new_job(&dataset);
    let created = repository.submit_job(new.clone(), &NO_LIMITS).await.unwrap();
    assert_eq!(created, repository.job(&new.workspace, new.id).await.unwrap());
    assert_eq!((&created.spec, &created.metadata), (&new.spec, &new.metadata));
    assert_eq!((created.status, created.attempt), (JobStatus::Queued, 0));
    assert_eq!(created.submitted_by.as_deref(), Some("a test (key 1)"));
    assert_eq!(created.issued().submitted_by, created.submitted_by);
    let foreign = repository.job(&workspace("b"), new.id).await;
    assert!(matches!(foreign, Err(StoreError::NotFound(Resource::Job, _))), "{foreign:?}");
    let again = repository.submit_job(new, &QueueLimits { total: Some(1), workspace: None }).await;
    assert!(matches!(again, Err(StoreError::Exists(Resource::Job, _))), "{again:?}");
}

pub async fn a_job_needs_its_inputs(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let mut new = new_job(&dataset);
    new.dataset_version = 2;
    let refused = repository.submit_job(new, &NO_LIMITS).await;
    assert!(matches!(refused, Err(StoreError::Changed)), "{refused:?}");
    let mut new = new_job(&dataset);
    new.workspace = workspace("b");
    let refused = repository.submit_job(new, &NO_LIMITS).await;
    assert!(matches!(refused, Err(StoreError::NotFound(Resource::Dataset, _))), "{refused:?}");
    let mut new = new_job(&dataset);
    new.policy_ids = vec![PolicyId::new()];
    let refused = repository.submit_job(new, &NO_LIMITS).await;
    assert!(matches!(refused, Err(StoreError::NotFound(Resource::Policy, _))), "{refused:?}");
    assert_eq!(repository.queue_depth().await.unwrap().queued, 0);
}

pub async fn the_queue_has_limits(repository: &dyn Repository) {
    let (a, b) = (dataset(repository, "a").await, dataset(repository, "b").await);
    let limits = QueueLimits { total: Some(3), workspace: Some(2) };
    for _ in 0..2 {
        repository.submit_job(new_job(&a), &limits).await.unwrap();
    }
    let full = repository.submit_job(new_job(&a), &limits).await;
    assert!(matches!(full, Err(StoreError::QueueFull { queued: 2, limit: 2 })), "{full:?}");
    repository.submit_job(new_job(&b), &limits).await.unwrap();
    let full = repository.submit_job(new_job(&b), &limits).await;
    assert!(matches!(full, Err(StoreError::QueueFull { queued: 3, limit: 3 })), "{full:?}");
    // A running job is no longer queued.
    repository.claim_job(&TERMS).await.unwrap().unwrap();
    repository.submit_job(new_job(&b), &limits).await.unwrap();
}

pub async fn jobs_are_filtered(repository: &dyn Repository) {
    let (one, two) = (dataset(repository, "a").await, dataset(repository, "a").await);
    let first = job(repository, &one).await;
    let second = job(repository, &two).await;
    let third = job(repository, &one).await;
    repository.cancel_job(&workspace("a"), first.id).await.unwrap();
    let list = async |status, dataset_id| {
        let filter = JobFilter { status, dataset_id, ..JobFilter::default() };
        let page = repository.jobs(&workspace("a"), &filter, &PageRequest::first(10)).await.unwrap();
        page.data.iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!(list(None, None).await, [third.id, second.id, first.id]);
    assert_eq!(list(Some(JobStatus::Queued), None).await, [third.id, second.id]);
    assert_eq!(list(None, Some(one.id)).await, [third.id, first.id]);
    assert_eq!(list(Some(JobStatus::Cancelled), Some(one.id)).await, [first.id]);
    assert_eq!(list(Some(JobStatus::Running), None).await, []);
}

pub async fn jobs_are_listed_by_decision_in_both_orders(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let mut made = Vec::new();
    for decision in [Some(Decision::Keep), Some(Decision::Deploy), None, Some(Decision::Keep)] {
        let waiting = job(repository, &dataset).await.id;
        made.push(waiting);
        let Some(decision) = decision else { continue };
        // The one without a decision is claimed too, and stays running.
        let claim = loop {
            let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
            if claim.job.id == waiting {
                break claim;
            }
        };
        let mut success = super::leases::success(&claim);
        success.result.decision = decision;
        let finish = Finish::Succeeded(Box::new(success));
        repository.finish_job(waiting, claim.token, &TERMS, finish).await.unwrap();
    }
    let pages = async |decision, order| {
        let filter = JobFilter { decision, order, ..JobFilter::default() };
        let mut page = PageRequest::first(1);
        let mut ids = Vec::new();
        loop {
            let found = repository.jobs(&workspace("a"), &filter, &page).await.unwrap();
            ids.extend(found.data.iter().map(|job| job.id));
            match found.next {
                Some(next) => page.after = Some(next),
                None => return ids,
            }
        }
    };
    assert_eq!(pages(None, JobOrder::Oldest).await, made);
    assert_eq!(pages(Some(Decision::Keep), JobOrder::Newest).await, [made[3], made[0]]);
    assert_eq!(pages(Some(Decision::Keep), JobOrder::Oldest).await, [made[0], made[3]]);
    assert_eq!(pages(Some(Decision::Deploy), JobOrder::Newest).await, [made[1]]);
}

pub async fn a_foreign_cursor_is_rejected(repository: &dyn Repository) {
    for after in ["", "x", "1.", "zz.00000000-0000-7000-8000-000000000000", "1.not-an-id"] {
        let page = PageRequest { limit: 10, after: Some(after.into()) };
        let found = repository.jobs(&workspace("a"), &JobFilter::default(), &page).await;
        assert!(matches!(found, Err(StoreError::BadCursor)), "{after}: {found:?}");
    }
}

pub async fn a_queued_job_is_canceled_at_once(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let before = job(repository, &dataset).await;
    let foreign = repository.cancel_job(&workspace("b"), before.id).await;
    assert!(matches!(foreign, Err(StoreError::NotFound(Resource::Job, _))), "{foreign:?}");
    let (cancelled, changed) = repository.cancel_job(&workspace("a"), before.id).await.unwrap();
    assert!(changed);
    assert_eq!(cancelled.status, JobStatus::Cancelled);
    assert!(cancelled.finished_at.is_some() && cancelled.revision > before.revision);
    assert_eq!(repository.cancel_job(&workspace("a"), before.id).await.unwrap(), (cancelled, false));
    assert!(repository.claim_job(&TERMS).await.unwrap().is_none());
}

pub async fn a_running_job_is_asked_to_stop(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let id = job(repository, &dataset).await.id;
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    assert!(!repository.cancel_requested(id, claim.token).await.unwrap());
    let (asked, changed) = repository.cancel_job(&workspace("a"), id).await.unwrap();
    assert!(changed);
    assert_eq!((asked.status, asked.cancel_requested), (JobStatus::Running, true));
    assert!(repository.cancel_requested(id, claim.token).await.unwrap());
    assert!(repository.heartbeat(id, claim.token, &TERMS, None).await.unwrap());
    repository.finish_job(id, claim.token, &TERMS, Finish::Cancelled).await.unwrap();
    let failed = job(repository, &dataset).await.id;
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    let finish = Finish::Failed(JobFailure::new(FailureCode::EngineError, "no"));
    repository.finish_job(failed, claim.token, &TERMS, finish).await.unwrap();
    let late = repository.cancel_job(&workspace("a"), failed).await;
    assert!(matches!(late, Err(StoreError::Finished("failed"))), "{late:?}");
}

pub async fn events_are_resumed(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    let id = job(repository, &dataset).await.id;
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    let failure = JobFailure::new(FailureCode::EngineError, "no");
    repository.finish_job(id, claim.token, &TERMS, Finish::Failed(failure)).await.unwrap();
    let ws = workspace("a");
    let all = repository.job_events(&ws, id, 0, 100).await.unwrap();
    let kinds: Vec<_> = all.iter().map(|event| (event.id, event.kind.as_str())).collect();
    assert_eq!(kinds, [(1, "queued"), (2, "started"), (3, "failed")]);
    assert_eq!(all[1].data["attempt"], 1);
    assert_eq!(all[2].data["message"], "no");
    assert_eq!(repository.job_events(&ws, id, 1, 1).await.unwrap(), all[1..2]);
    assert!(repository.job_events(&ws, id, u64::MAX, 100).await.unwrap().is_empty());
    let foreign = repository.job_events(&workspace("b"), id, 0, 100).await;
    assert!(matches!(foreign, Err(StoreError::NotFound(Resource::Job, _))), "{foreign:?}");
}

pub async fn the_queue_knows_its_depth(repository: &dyn Repository) {
    let dataset = dataset(repository, "a").await;
    assert_eq!(repository.queue_depth().await.unwrap(), QueueDepth::default());
    for _ in 0..3 {
        job(repository, &dataset).await;
    }
    repository.claim_job(&TERMS).await.unwrap().unwrap();
    let depth = repository.queue_depth().await.unwrap();
    assert_eq!((depth.queued, depth.running), (2, 1));
    assert!(depth.oldest_seconds >= 0.0);
}

pub async fn a_job_needs_the_version_that_it_was_resolved_for(repository: &dyn Repository) {
    let first = dataset(repository, "a").await;
    let mut longer = content("datasets/second.parquet");
    longer.rows = 150;
    longer.parts.insert(0, first.content.parts[0].clone());
    let (ws, id) = (&first.workspace, first.id);
    let resolved = NewJob { seen_rows: Some(0), ..new_job(&first) };
    repository.submit_job(resolved.clone(), &NO_LIMITS).await.unwrap();
    let second = repository.add_dataset_version(ws, id, new_version(1, longer)).await.unwrap();
    let late = repository.submit_job(NewJob { id: JobId::new(), ..resolved }, &NO_LIMITS).await;
    assert!(matches!(late, Err(StoreError::Changed)), "{late:?}");
    // The first job has seen 100 rows.
    let unaware = NewJob { seen_rows: Some(0), ..new_job(&second) };
    let unaware = repository.submit_job(unaware, &NO_LIMITS).await;
    assert!(matches!(unaware, Err(StoreError::Changed)), "{unaware:?}");
    let aware = NewJob { seen_rows: Some(100), ..new_job(&second) };
    repository.submit_job(aware, &NO_LIMITS).await.unwrap();
}
