//! Uploads and appends through the store: what they leave behind, and that a repeated request finds only its
//! own rows. Which rows are rejected is tested in `crates/ingest/tests`.

use crate::support;

use bytes::Bytes;
use futures_util::stream;
use guarantor::store::{self, Append, BodyError, Upload, UploadError};
use guarantor::store::{Dataset, DatasetId, PageRequest, PolicyId, Store, Workspace};
use guarantor_engine::log::{LogSource, MemoryLog, Outcome, Repetitions};
use guarantor_ingest::{Format, IngestError, IngestLimits, LogOptions};
use serde_json::{Value, json};
use support::{policy_params, store};

fn upload(format: Format) -> Upload {
    Upload {
        id: DatasetId::new(),
        workspace: Workspace::default(),
        name: Some("log".into()),
        format: format.into(),
        n_actions: None,
        outcome: Outcome::default(),
        outcomes: Vec::new(),
        options: Default::default(),
        logging_policy: None,
        limits: IngestLimits::default(),
    }
}

/// The bytes, `size` at a time.
fn body(bytes: &[u8], size: usize) -> impl futures_util::Stream<Item = Result<Bytes, BodyError>> + Unpin {
    let chunks: Vec<_> = bytes.chunks(size).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    stream::iter(chunks)
}

fn lines(rows: &[Value]) -> Vec<u8> {
    rows.iter().map(|row| format!("{row}\n")).collect::<String>().into_bytes()
}

async fn send(store: &Store, upload: Upload, rows: &[Value]) -> Result<Dataset, UploadError> {
    store::upload(store, upload, body(&lines(rows), 7)).await
}

/// A log with every field.
fn full_rows(n: usize) -> Vec<Value> {
    let row = |i: usize| {
        let p = [0.5, 0.25, 0.25];
        json!({
            "x": [(i / 2) as f64 * 0.125, -1.5],
            "action": i % 3,
            "propensity": p[i % 3],
            "propensities": p,
            "cost": -((i % 5) as f64) / 4.0,
            "context_id": format!("c{}", i / 2),
            "event_id": format!("e{i}"),
            "candidates": { "new": 0.5, "a": 0.25 },
        })
    };
    (0..n).map(row).collect()
}

#[tokio::test]
async fn a_stored_log_is_read_back_and_checked() {
    let (directory, store) = store().await;
    let dataset = send(&store, upload(Format::Ndjson), &full_rows(20)).await.unwrap();
    let columns = store.fetch_log(&dataset).await.unwrap().decode().unwrap();
    assert_eq!(columns.rows(), 20);
    assert_eq!(columns.x[..4], [0.0, -1.5, 0.0, -1.5]);
    assert_eq!(columns.costs[..3], [0.0, -0.25, -0.5]);
    assert_eq!(columns.contexts.as_ref().unwrap()[..4], [0, 0, 1, 1]);
    let log = MemoryLog::new(columns).unwrap();
    assert_eq!(*log.shape(), dataset.shape());
    // Another file in its place, of a log that differs in one number, is not the dataset.
    let mut other = full_rows(20);
    other[19]["cost"] = json!(-0.75);
    let other = send(&store, upload(Format::Ndjson), &other).await.unwrap();
    let file = |d: &Dataset| directory.path().join("blobs").join(&d.content.parts[0].key);
    std::fs::copy(file(&other), file(&dataset)).unwrap();
    let mut swapped = dataset.clone();
    swapped.content.parts[0].bytes = other.bytes();
    let damaged = store.fetch_log(&swapped).await.unwrap().decode().map(drop);
    assert!(damaged.is_err());
    assert!(store.fetch_log(&dataset).await.is_err() || other.bytes() == dataset.bytes());
}

async fn nothing_is_stored(store: &Store) {
    let page = PageRequest::first(10);
    assert!(store.repository().datasets(&Workspace::default(), &page).await.unwrap().data.is_empty());
    assert!(store.blobs().keys().await.unwrap().is_empty());
}

/// Rows that are wrong from the first one on, and after many that were already written.
#[tokio::test]
async fn a_rejected_log_stores_nothing() {
    let (_directory, store) = store().await;
    for (n, bad) in [(6, 0), (6, 5), (20_000, 19_999)] {
        let mut rows = full_rows(n);
        rows[bad]["cost"] = json!(1);
        let rejected = store::upload(&store, upload(Format::Ndjson), body(&lines(&rows), 1 << 16)).await;
        let Err(UploadError::Log(IngestError::Rows(errors))) = rejected else { panic!("{rejected:?}") };
        assert_eq!((errors.total, errors.first[0].row), (1, bad as u64 + 1));
        nothing_is_stored(&store).await;
    }
    let rejected = store::upload(&store, upload(Format::Parquet), body(b"PAR1", 2)).await;
    assert!(matches!(rejected, Err(UploadError::Log(IngestError::Unreadable(_)))), "{rejected:?}");
    nothing_is_stored(&store).await;
}

#[tokio::test]
async fn a_body_that_ends_early_stores_nothing() {
    let (_directory, store) = store().await;
    let text = lines(&full_rows(30));
    for error in [BodyError::TooLarge { limit: 10 }, BodyError::Broken("reset".into())] {
        let chunks = vec![Ok(Bytes::from(text.clone())), Err(error.clone())];
        let rejected = store::upload(&store, upload(Format::Ndjson), stream::iter(chunks)).await;
        let Err(UploadError::Body(found)) = rejected else { panic!("{rejected:?}") };
        assert_eq!(found, error);
    }
    nothing_is_stored(&store).await;
}

/// The ids of earlier versions count against the limit of an append.
#[tokio::test]
async fn ids_of_earlier_versions_count_against_the_memory_limit() {
    let (_directory, store) = store().await;
    // 1000 events of 32 bytes, and 500 contexts of 48 bytes or, if their rows must agree, of 64 and three propensities.
    for (repetitions, context) in [(Repetitions::Designed, 64 + 3 * 8), (Repetitions::Decisions, 48)] {
        let bytes = 1_000 * 32 + 500 * context;
        let ids = |identity_bytes| IngestLimits { identity_bytes, ..IngestLimits::default() };
        let options = LogOptions { repetitions, ..LogOptions::default() };
        let limited = Upload { limits: ids(bytes), options, ..upload(Format::Ndjson) };
        let stored = send(&store, limited, &full_rows(1_000)).await.unwrap();
        let more = Append { limits: ids(bytes - 1), ..append(&stored) };
        let rejected = store::append(&store, more, body(&lines(&full_rows(1_001)[1_000..]), 99)).await;
        assert!(matches!(rejected, Err(UploadError::Log(IngestError::TooLarge(_)))), "{rejected:?}");
    }
}

/// The parameters of a stored policy fill in the propensities of an upload, which are stored with it.
#[tokio::test]
async fn propensities_of_the_logging_policy_are_stored() {
    let (_directory, store) = store().await;
    let rows: Vec<Value> =
        (0..50).map(|i| json!({ "x": [i % 7, 0.5], "action": i % 3, "cost": -0.5 })).collect();
    let id = PolicyId::new();
    store.create_policy(&Workspace::default(), id, &policy_params()).await.unwrap();
    let upload = Upload { logging_policy: Some((id, policy_params())), ..upload(Format::Ndjson) };
    let stored = send(&store, upload, &rows).await.unwrap();
    assert!(stored.content.capabilities.full_propensities);
    let columns = store.fetch_log(&stored).await.unwrap().decode().unwrap();
    assert!(
        MemoryLog::new(columns).unwrap().with_full_propensities(|x| policy_params().propensities(x)).is_ok()
    );
}

fn append(dataset: &Dataset) -> Append {
    Append {
        request: uuid::Uuid::now_v7(),
        dataset: dataset.clone(),
        format: Format::Ndjson.into(),
        logging_policy: None,
        limits: IngestLimits::default(),
    }
}

/// After a crash, a request that stored its rows may be repeated, or another one may use its key.
#[tokio::test]
async fn a_repeated_request_finds_only_its_own_rows() {
    let (_directory, store) = store().await;
    let rows = full_rows(40);
    let id = DatasetId::new();
    let again = || Upload { id, ..upload(Format::Ndjson) };
    let first = send(&store, again(), &rows[..20]).await.unwrap();
    let repeated = send(&store, again(), &rows[..20]).await.unwrap();
    assert_eq!((repeated.id, &repeated.content), (id, &first.content));
    let mut wrong = rows[..20].to_vec();
    wrong[3]["cost"] = json!(7);
    for other in [&rows[..21], &rows[20..], &wrong, &[]] {
        let rejected = send(&store, again(), other).await;
        assert!(matches!(rejected, Err(UploadError::AnotherBody)), "{rejected:?}");
    }
    let request = append(&first).request;
    let again = |dataset: &Dataset| Append { request, ..append(dataset) };
    let second = store::append(&store, again(&first), body(&lines(&rows[20..30]), 9)).await.unwrap();
    assert_eq!(second.version, 2);
    let third = store::append(&store, append(&second), body(&lines(&rows[30..]), 9)).await.unwrap();
    // Whatever the newest version is when it is repeated.
    for dataset in [&first, &second, &third] {
        let repeated = store::append(&store, again(dataset), body(&lines(&rows[20..30]), 9)).await.unwrap();
        assert_eq!((repeated.version, &repeated.content), (2, &second.content));
        for other in [&rows[20..29], &rows[30..], &wrong] {
            let rejected = store::append(&store, again(dataset), body(&lines(other), 9)).await;
            assert!(matches!(rejected, Err(UploadError::AnotherBody)), "{rejected:?}");
        }
    }
    assert_eq!(store.repository().dataset(&Workspace::default(), id).await.unwrap().version, 3);
    assert_eq!(store.blobs().keys().await.unwrap().len(), 3);
}

#[tokio::test]
async fn rows_are_appended() {
    let (_directory, store) = store().await;
    let rows = full_rows(40);
    let whole = send(&store, upload(Format::Ndjson), &rows).await.unwrap();
    let first = send(&store, upload(Format::Ndjson), &rows[..25]).await.unwrap();
    let second = store::append(&store, append(&first), body(&lines(&rows[25..]), 9)).await.unwrap();
    assert_eq!((second.id, second.version, second.content.rows), (first.id, 2, 40));
    assert_eq!(second.content.contexts, 20);
    assert_eq!(second.content.digest, whole.content.digest);
    assert_eq!(second.content.health, whole.content.health);
    assert_eq!(store.fetch_log(&second).await.unwrap().decode().unwrap().rows(), 40);
    let repeated = store::append(&store, append(&second), body(&lines(&rows[3..4]), 9)).await;
    let Err(UploadError::Log(IngestError::Rows(errors))) = repeated else { panic!("{repeated:?}") };
    assert!(
        errors.first[0].message.contains("(first seen in an earlier version of the dataset)"),
        "{}",
        errors.first[0]
    );
    let mut more = full_rows(42);
    more[40]["action"] = json!(3);
    let rejected = store::append(&store, append(&second), body(&lines(&more[40..]), 9)).await;
    let Err(UploadError::Log(IngestError::Rows(errors))) = rejected else { panic!("{rejected:?}") };
    assert_eq!(errors.first[0].field, "action");
    let late = store::append(&store, append(&first), body(&lines(&full_rows(42)[40..]), 9)).await;
    assert!(matches!(late, Err(UploadError::Store(_))), "{late:?}");
    // Nothing is left of the rejected appends.
    assert_eq!(store.blobs().keys().await.unwrap().len(), 3);
}
