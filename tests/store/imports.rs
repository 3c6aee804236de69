use std::time::Duration;

use guarantor::store::*;
use guarantor_engine::log::Outcome;
use guarantor_ingest::{Format, LogOptions};

use crate::support::{new_dataset, workspace};

const TERMS: LeaseTerms = LeaseTerms { duration: Duration::from_secs(60), max_attempts: 2 };
/// A lease that expires as soon as it is granted.
const NO_TIME: LeaseTerms = LeaseTerms { duration: Duration::ZERO, max_attempts: 2 };
const MOST: u64 = 3;
const DONE: ImportProgress = ImportProgress { objects: 2, bytes: 14, bytes_read: 14 };

fn new_import(name: &str) -> NewImport {
    NewImport {
        id: DatasetId::new(),
        workspace: workspace(name),
        submitted_by: "a test".into(),
        request: SourceRequest {
            uris: vec!["s3://logs/a.parquet".into(), "s3://logs/b-*.parquet".into()],
            materialize: true,
            name: Some("a log".into()),
            format: Format::Parquet,
            hash_dims: None,
            n_actions: Some(3),
            outcome: Outcome::reward(),
            outcomes: Vec::new(),
            options: LogOptions::default(),
            logging_policy_id: None,
        },
    }
}

async fn queued(repository: &dyn Repository, name: &str) -> Import {
    repository.create_import(new_import(name), MOST).await.unwrap()
}

async fn claimed(repository: &dyn Repository, terms: &LeaseTerms) -> ClaimedImport {
    repository.claim_import(terms, 2).await.unwrap().expect("an import waits")
}

fn objects() -> Vec<ReadObject> {
    let object = |uri: &str, etag: Option<&str>| ReadObject {
        uri: uri.into(),
        bytes: 7,
        sha256: "00".into(),
        etag: etag.map(Into::into),
        version: None,
    };
    vec![object("s3://logs/a.parquet", Some("\"1\"")), object("s3://logs/b-1.parquet", None)]
}

/// The dataset that a claim ends with.
fn dataset_of(claim: &ClaimedImport) -> NewDataset {
    let workspace = &claim.import.workspace;
    let import = Some(ImportDone { token: claim.token, objects: objects(), progress: DONE });
    NewDataset { id: claim.import.id, import, ..new_dataset(workspace) }
}

pub async fn an_import_is_read_back(repository: &dyn Repository) {
    let new = new_import("a");
    let import = repository.create_import(new.clone(), MOST).await.unwrap();
    assert_eq!((import.id, import.status, import.attempt), (new.id, JobStatus::Queued, 0));
    assert_eq!(import.request, new.request);
    assert_eq!(repository.import(&new.workspace, new.id).await.unwrap(), import);
    let again = repository.create_import(new.clone(), MOST).await;
    assert!(matches!(again, Err(StoreError::Exists(Resource::Import, _))), "{again:?}");
    // Another workspace sees nothing of it.
    let other = workspace("b");
    assert!(matches!(repository.import(&other, new.id).await, Err(StoreError::NotFound(..))));
    assert!(matches!(repository.import_objects(&other, new.id).await, Err(StoreError::NotFound(..))));
    assert!(matches!(repository.cancel_import(&other, new.id).await, Err(StoreError::NotFound(..))));
    let newer = queued(repository, "a").await;
    let page = repository.imports(&new.workspace, &PageRequest::first(1)).await.unwrap();
    assert_eq!((page.data, page.next.is_some()), (vec![newer], true));
    let page = PageRequest { limit: 5, after: page.next };
    assert_eq!(repository.imports(&new.workspace, &page).await.unwrap().data, [import]);
    assert!(repository.imports(&other, &PageRequest::first(5)).await.unwrap().data.is_empty());
}

pub async fn a_workspace_has_few_unfinished_imports(repository: &dyn Repository) {
    for _ in 0..MOST {
        queued(repository, "a").await;
    }
    let more = repository.create_import(new_import("a"), MOST).await;
    assert!(matches!(more, Err(StoreError::LimitReached { limit: MOST, .. })), "{more:?}");
    queued(repository, "b").await;
    let claim = claimed(repository, &TERMS).await;
    repository
        .finish_import(claim.import.id, claim.token, &TERMS, ImportEnd::Cancelled, &DONE)
        .await
        .unwrap();
    queued(repository, "a").await;
}

pub async fn workspaces_take_turns_with_imports(repository: &dyn Repository) {
    let mut submitted = Vec::new();
    for name in ["a", "a", "a", "b"] {
        submitted.push(queued(repository, name).await.id);
    }
    let mut served = Vec::new();
    let mut claims = Vec::new();
    while let Some(claim) = repository.claim_import(&TERMS, 2).await.unwrap() {
        served.push(claim.import.id);
        claims.push(claim);
    }
    // The third of the same workspace waits until one of the others has ended.
    assert_eq!(served, [submitted[0], submitted[3], submitted[1]]);
    let (id, token) = (claims[0].import.id, claims[0].token);
    repository.finish_import(id, token, &TERMS, ImportEnd::Cancelled, &DONE).await.unwrap();
    assert_eq!(claimed(repository, &TERMS).await.import.id, submitted[2]);
}

pub async fn an_import_ends_with_its_dataset(repository: &dyn Repository) {
    let import = queued(repository, "a").await;
    let claim = claimed(repository, &TERMS).await;
    assert_eq!((claim.import.status, claim.import.attempt), (JobStatus::Running, 1));
    let progress = ImportProgress { objects: 2, bytes: 14, bytes_read: 3 };
    assert!(!repository.renew_import(import.id, claim.token, &TERMS, &progress).await.unwrap());
    let found = repository.import(&import.workspace, import.id).await.unwrap();
    assert_eq!(found.progress, Some(progress));
    assert!(found.revision > claim.import.revision);
    let dataset = repository.create_dataset(dataset_of(&claim)).await.unwrap();
    assert_eq!(dataset.id, import.id);
    let ended = repository.import(&import.workspace, import.id).await.unwrap();
    assert_eq!((ended.status, ended.progress), (JobStatus::Succeeded, Some(DONE)));
    assert!(ended.finished_at.is_some());
    assert_eq!(repository.import_objects(&import.workspace, import.id).await.unwrap(), objects());
    let canceled = repository.cancel_import(&import.workspace, import.id).await;
    assert!(matches!(canceled, Err(StoreError::ImportFinished(_))), "{canceled:?}");
    // It is kept as long as its dataset, and goes with it.
    assert_eq!(repository.sweep_imports(Duration::ZERO).await.unwrap(), 0);
    repository.delete_dataset(&import.workspace, import.id).await.unwrap();
    assert!(matches!(repository.import(&import.workspace, import.id).await, Err(StoreError::NotFound(..))));
}

pub async fn a_lost_lease_stores_no_dataset(repository: &dyn Repository) {
    let import = queued(repository, "a").await;
    let first = claimed(repository, &NO_TIME).await;
    let second = claimed(repository, &TERMS).await;
    assert_eq!((second.import.id, second.import.attempt), (import.id, 2));
    let late = repository.create_dataset(dataset_of(&first)).await;
    assert!(matches!(late, Err(StoreError::LeaseLost(_))), "{late:?}");
    assert!(matches!(repository.dataset(&import.workspace, import.id).await, Err(StoreError::NotFound(..))));
    let progress = ImportProgress::default();
    let renewed = repository.renew_import(import.id, first.token, &TERMS, &progress).await;
    assert!(matches!(renewed, Err(StoreError::LeaseLost(_))), "{renewed:?}");
    let ended = repository.finish_import(import.id, first.token, &TERMS, ImportEnd::Cancelled, &DONE).await;
    assert!(matches!(ended, Err(StoreError::LeaseLost(_))), "{ended:?}");
    repository.create_dataset(dataset_of(&second)).await.unwrap();
    assert!(repository.claim_import(&TERMS, 2).await.unwrap().is_none());
}

pub async fn a_canceled_import_stores_no_dataset(repository: &dyn Repository) {
    let waiting = queued(repository, "a").await;
    let canceled = repository.cancel_import(&waiting.workspace, waiting.id).await.unwrap();
    assert_eq!(canceled.status, JobStatus::Cancelled);
    assert_eq!(repository.cancel_import(&waiting.workspace, waiting.id).await.unwrap(), canceled);
    assert!(repository.claim_import(&TERMS, 2).await.unwrap().is_none());
    let import = queued(repository, "a").await;
    let claim = claimed(repository, &TERMS).await;
    let asked = repository.cancel_import(&import.workspace, import.id).await.unwrap();
    assert_eq!((asked.status, asked.cancel_requested), (JobStatus::Running, true));
    // The worker had read everything when the cancellation was acknowledged.
    let late = repository.create_dataset(dataset_of(&claim)).await;
    assert!(matches!(late, Err(StoreError::LeaseLost(_))), "{late:?}");
    assert!(matches!(repository.dataset(&import.workspace, import.id).await, Err(StoreError::NotFound(..))));
    assert!(
        repository.renew_import(import.id, claim.token, &TERMS, &ImportProgress::default()).await.unwrap()
    );
    // Whatever the worker says, it was canceled.
    let ended =
        repository.finish_import(import.id, claim.token, &TERMS, ImportEnd::Released, &DONE).await.unwrap();
    assert_eq!(ended.status, JobStatus::Cancelled);
}

pub async fn an_import_is_given_up_after_its_last_attempt(repository: &dyn Repository) {
    let import = queued(repository, "a").await;
    let failure = ImportFailure::new(ImportCode::SourceUnreadable, "no answer");
    let first = claimed(repository, &TERMS).await;
    let end = ImportEnd::Retry(failure.clone());
    let after = repository.finish_import(import.id, first.token, &TERMS, end.clone(), &DONE).await.unwrap();
    assert_eq!((after.status, after.attempt, after.failure), (JobStatus::Queued, 1, None));
    // A shutdown is not counted.
    let second = claimed(repository, &TERMS).await;
    let after =
        repository.finish_import(import.id, second.token, &TERMS, ImportEnd::Released, &DONE).await.unwrap();
    assert_eq!((after.status, after.attempt), (JobStatus::Queued, 1));
    let third = claimed(repository, &TERMS).await;
    let ended = repository.finish_import(import.id, third.token, &TERMS, end, &DONE).await.unwrap();
    assert_eq!((ended.status, ended.attempt), (JobStatus::Failed, 2));
    let why = ended.failure.unwrap();
    assert_eq!(why.code, ImportCode::SourceUnreadable);
    assert!(why.message.contains("2 attempts") && why.message.contains("no answer"), "{}", why.message);
    // Workers that die are counted too.
    let dying = queued(repository, "a").await;
    for attempt in 1..=TERMS.max_attempts {
        assert_eq!(claimed(repository, &NO_TIME).await.import.attempt, attempt);
    }
    assert!(repository.claim_import(&NO_TIME, 2).await.unwrap().is_none());
    let failed = repository.import(&dying.workspace, dying.id).await.unwrap();
    assert_eq!(failed.failure.map(|why| why.code), Some(ImportCode::AttemptsExhausted));
    assert_eq!(repository.sweep_imports(Duration::from_secs(60)).await.unwrap(), 0);
    assert_eq!(repository.sweep_imports(Duration::ZERO).await.unwrap(), 2);
}
