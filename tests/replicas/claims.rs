//! Two repositories on one database claim the same jobs, and hear of each other's changes.

use std::collections::BTreeSet;
use std::task::Poll;
use std::time::Duration;

use guarantor::store::*;
use guarantor_engine::log::{Capabilities, Logging, Outcome};
use guarantor_engine::spec::{SpecContext, SpecRequest};
use guarantor_ingest::{LogOptions, RowSketch};
use serde_json::json;

use crate::postgres;

const TERMS: LeaseTerms = LeaseTerms { duration: Duration::from_secs(60), max_attempts: 3 };

async fn dataset(repository: &dyn Repository) -> Dataset {
    let id = DatasetId::new();
    let content = DatasetContent {
        rows: 100,
        contexts: 100,
        n_actions: 3,
        dim: 2,
        outcome: Outcome::default(),
        digest: format!("sha256:{id}"),
        capabilities: Capabilities { features: true, full_propensities: true, ..Capabilities::default() },
        last_timestamp: None,
        health: json!({}),
        parts: vec![BlobRef::new(format!("datasets/{id}/1.parquet"), 7)],
    };
    let new = NewDataset {
        id,
        workspace: Workspace::default(),
        name: None,
        logging_policy_id: None,
        options: LogOptions { logging: Logging::Fixed, ..LogOptions::default() },
        content,
        sketch: RowSketch::default(),
        import: None,
    };
    repository.create_dataset(new).await.unwrap()
}

async fn submit(repository: &dyn Repository, dataset: &Dataset) -> JobId {
    let shape = dataset.shape();
    let context = SpecContext {
        shape: &shape,
        logging_policy: None,
        policy: &|_| None,
        seen_rows: 0,
        caller: "a test",
    };
    let new = NewJob {
        id: JobId::new(),
        workspace: dataset.workspace.clone(),
        dataset_id: dataset.id,
        dataset_version: dataset.version,
        seen_rows: None,
        spec: SpecRequest::default().resolve(&context).unwrap(),
        metadata: json!({}),
        policy_ids: Vec::new(),
        submitted_by: "a test".into(),
    };
    repository.submit_job(new, &QueueLimits::default()).await.unwrap().id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_job_is_claimed_once() {
    if postgres::is_left_out() {
        return;
    }
    let url = postgres::shared().database().await;
    let repositories = [Postgres::open(&url, 9).await.unwrap(), Postgres::open(&url, 9).await.unwrap()];
    let repositories: Vec<std::sync::Arc<Postgres>> = repositories.into_iter().map(Into::into).collect();
    let dataset = dataset(&*repositories[0]).await;
    for _ in 0..5 {
        let mut submitted = BTreeSet::new();
        for _ in 0..8 {
            submitted.insert(submit(&*repositories[0], &dataset).await);
        }
        let start = std::sync::Arc::new(tokio::sync::Barrier::new(8));
        let claimers: Vec<_> = (0..8)
            .map(|i| {
                let (repository, start) = (repositories[i % 2].clone(), start.clone());
                tokio::spawn(async move {
                    start.wait().await;
                    let mut claimed = Vec::new();
                    while let Some(claim) = repository.claim_job(&TERMS).await.unwrap() {
                        claimed.push(claim);
                    }
                    claimed
                })
            })
            .collect();
        let mut claimed = Vec::new();
        for claimer in claimers {
            claimed.extend(claimer.await.unwrap());
        }
        // A row that another has locked is skipped, so a claimer may end early, but none is claimed twice.
        while let Some(claim) = repositories[1].claim_job(&TERMS).await.unwrap() {
            claimed.push(claim);
        }
        let ids: BTreeSet<JobId> = claimed.iter().map(|claim| claim.job.id).collect();
        assert_eq!((ids.len(), claimed.len()), (8, 8));
        assert_eq!(ids, submitted);
        for (i, claim) in claimed.iter().enumerate() {
            assert_eq!(claim.job.attempt, 1);
            let failure = JobFailure::new(FailureCode::EngineError, "for a test");
            let (id, token) = (claim.job.id, claim.token);
            let ended =
                repositories[i % 2].finish_job(id, token, &TERMS, Finish::Failed(failure)).await.unwrap();
            assert_eq!(ended.status, JobStatus::Failed);
        }
    }
}

#[tokio::test]
async fn changes_are_heard_and_caches_are_not_stale() {
    if postgres::is_left_out() {
        return;
    }
    let url = postgres::shared().database().await;
    let (one, two) = (Postgres::open(&url, 6).await.unwrap(), Postgres::open(&url, 6).await.unwrap());
    let mut changes = two.changes().unwrap();
    // It listens from here on.
    assert_eq!(changes.recv().await.unwrap(), JobChange::Missed);
    let dataset = dataset(&one).await;
    let id = submit(&one, &dataset).await;
    assert_eq!(changes.recv().await.unwrap(), JobChange::Queued(id));
    let workspace = Workspace::default();
    assert_eq!(two.job(&workspace, id).await.unwrap().status, JobStatus::Queued);
    let claim = one.claim_job(&TERMS).await.unwrap().unwrap();
    assert_eq!(changes.recv().await.unwrap(), JobChange::Other(id));
    // The announcement has removed the job from the other's cache.
    assert_eq!(two.job(&workspace, id).await.unwrap().status, JobStatus::Running);
    two.cancel_job(&workspace, id).await.unwrap();
    assert_eq!(changes.recv().await.unwrap(), JobChange::CancelRequested(id));
    assert!(one.cancel_requested(id, claim.token).await.unwrap());
    one.finish_job(id, claim.token, &TERMS, Finish::Cancelled).await.unwrap();
    assert_eq!(changes.recv().await.unwrap(), JobChange::Ended(id));
    assert_eq!(two.job(&workspace, id).await.unwrap().status, JobStatus::Cancelled);
}

#[tokio::test]
async fn upkeep_is_the_task_of_one_and_passes_on() {
    if postgres::is_left_out() {
        return;
    }
    let url = postgres::shared().database().await;
    let (one, two) = (Postgres::open(&url, 3).await.unwrap(), Postgres::open(&url, 3).await.unwrap());
    assert!(one.may_tidy().await.unwrap() && one.may_tidy().await.unwrap());
    assert!(!two.may_tidy().await.unwrap());
    one.close().await;
    // The database releases the lock when it notices that the session has ended.
    while !two.may_tidy().await.unwrap() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Nor is a delivery sent by both.
    assert!(!two.claim_delivery(DeliveryId::new(), Timestamp(2), Timestamp(3)).await.unwrap());
}

#[tokio::test]
async fn heartbeats_do_not_wait_for_other_transactions() {
    if postgres::is_left_out() {
        return;
    }
    use sqlx::{Connection, PgConnection};
    let url = postgres::shared().database().await;
    let repository = Postgres::open(&url, 6).await.unwrap();
    let dataset = dataset(&repository).await;
    let id = submit(&repository, &dataset).await;
    let claim = repository.claim_job(&TERMS).await.unwrap().unwrap();
    // Somebody holds the lock of everything that the ledger depends on.
    let mut other = PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT pg_advisory_xact_lock(113753843695617)").execute(&mut other).await.unwrap();
    let (held,): (i64,) = sqlx::query_as(
        "SELECT COUNT(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
             WHERE d.datname = current_database() AND locktype = 'advisory' AND granted",
    )
    .fetch_one(&mut other)
    .await
    .unwrap();
    assert_eq!(held, 1);
    assert!(!repository.heartbeat(id, claim.token, &TERMS, None).await.unwrap());
    // But an end waits for it.
    let end = repository.finish_job(id, claim.token, &TERMS, Finish::Released);
    tokio::pin!(end);
    let early = tokio::time::timeout(Duration::from_millis(300), &mut end).await;
    assert!(early.is_err(), "it did not wait");
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    assert_eq!(end.await.unwrap().status, JobStatus::Queued);
}

/// Requests are dropped wherever they wait when their clients go away. Their transactions must not go on in the
/// connections of the pool.
#[tokio::test]
async fn reads_that_are_cut_short_do_not_make_later_ones_stale() {
    if postgres::is_left_out() {
        return;
    }
    let url = postgres::shared().database().await;
    let (one, two) = (Postgres::open(&url, 4).await.unwrap(), Postgres::open(&url, 4).await.unwrap());
    let first = dataset(&two).await;
    let page = PageRequest { limit: 1, after: None };
    let known = |id| {
        let (one, workspace) = (&one, &first.workspace);
        async move { one.dataset(workspace, id).await.is_ok() }
    };
    // The runtime looks for answers of the database after some of these polls.
    for polls in (0..400u32).step_by(10) {
        let mut read = Box::pin(one.ledger(&first.workspace, first.id, &page));
        for _ in 0..polls {
            let polled = std::future::poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await;
            if polled.is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(read);
        // A transaction sees the database as it was at its first query.
        for _ in 0..4 {
            assert!(known(first.id).await);
        }
        let second = dataset(&two).await;
        for _ in 0..4 {
            assert!(known(second.id).await, "after {polls} polls a connection is in an earlier transaction");
        }
    }
    one.close().await;
    two.close().await;
}
