//! Uploads. The bytes arrive on an async thread and are decoded on a blocking one, with a bounded channel in
//! between, so that a large upload neither fills the memory nor delays other requests.

mod error;
mod part;
mod pipe;

use bytes::Bytes;
use futures_util::Stream;
use guarantor_engine::log::Outcome;
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{Checker, FileFormat, Health, IngestError, IngestLimits, LogSummary, Rules};
use uuid::Uuid;

use super::{
    BlobRef, Dataset, DatasetContent, DatasetId, NewDataset, PolicyId, Resource, Store, StoreError,
    StoredLog, Workspace, dataset_part_key,
};
use part::UploadPart;

pub use error::{BodyError, UploadError};

/// A log to be stored as a new dataset.
pub struct Upload {
    /// The id of the dataset, which is also that of the request: the same if the request is repeated.
    pub id: DatasetId,
    /// Its workspace.
    pub workspace: Workspace,
    /// A name for people.
    pub name: Option<String>,
    /// The format and the compression of the body.
    pub format: FileFormat,
    /// K, if the caller states it.
    pub n_actions: Option<usize>,
    /// The kind and range of the outcome.
    pub outcome: Outcome,
    /// The policy that logged, if it is stored.
    pub logging_policy: Option<(PolicyId, PolicyParams)>,
    /// The limits of the upload.
    pub limits: IngestLimits,
}

/// Rows to be appended to a dataset.
pub struct Append {
    /// The dataset at its newest version.
    pub dataset: Dataset,
    /// The id of the request, the same if it is repeated: `Store::appended` finds what it stored.
    pub request: Uuid,
    /// The format and the compression of the body.
    pub format: FileFormat,
    /// The dataset's logging policy, if it has one.
    pub logging_policy: Option<PolicyParams>,
    /// The limits of the upload.
    pub limits: IngestLimits,
}

/// Reads `body` to its end and stores the dataset, or rejects it and stores nothing. If an earlier attempt
/// of the same request has stored the dataset already, but could not respond, the dataset of that attempt
/// is returned.
///
/// # Errors
/// `AnotherBody` if that attempt stored other rows.
pub async fn upload<S>(store: &Store, upload: Upload, body: S) -> Result<Dataset, UploadError>
where
    S: Stream<Item = Result<Bytes, BodyError>> + Unpin,
{
    let (policy_id, policy) = upload.logging_policy.unzip();
    let rules = Rules::new(upload.n_actions, upload.outcome, policy, upload.limits)?;
    let part = dataset_part_key(upload.id, upload.id.into());
    let content = match receive(store, part, upload.format, Checker::new(rules), Vec::new(), body).await {
        // The first attempt stored a body that was accepted, so this is a different one.
        Err(error) if error.is_of_the_body() && is_stored(store, &upload.workspace, upload.id).await? => {
            return Err(UploadError::AnotherBody);
        }
        content => content?,
    };
    let parts: Vec<String> = content.parts.iter().map(|part| part.key.clone()).collect();
    let digest = content.digest.clone();
    let (id, workspace) = (upload.id, upload.workspace.clone());
    let new = NewDataset {
        id,
        workspace: upload.workspace,
        name: upload.name,
        logging_policy_id: policy_id,
        content,
    };
    match store.repository().create_dataset(new).await {
        Err(StoreError::Exists(Resource::Dataset, _)) => {
            store.blobs().delete(&parts).await;
            the_same(store.repository().dataset_version(&workspace, id, 1).await?, &digest)
        }
        stored => keep_or_delete(store, &parts, stored).await,
    }
}

/// Whether the dataset exists already.
async fn is_stored(store: &Store, workspace: &Workspace, id: DatasetId) -> Result<bool, StoreError> {
    match store.repository().dataset(workspace, id).await {
        Ok(_) => Ok(true),
        Err(StoreError::NotFound(..)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What the first attempt stored, if it has this digest.
fn the_same(stored: Dataset, digest: &str) -> Result<Dataset, UploadError> {
    if stored.content.digest == digest { Ok(stored) } else { Err(UploadError::AnotherBody) }
}

/// The same for rows that are appended to a dataset.
pub async fn append<S>(store: &Store, append: Append, body: S) -> Result<Dataset, UploadError>
where
    S: Stream<Item = Result<Bytes, BodyError>> + Unpin,
{
    let Append { dataset, request, .. } = append;
    let (workspace, id) = (dataset.workspace.clone(), dataset.id);
    let done = store.appended(&workspace, id, request).await?;
    let before = match &done {
        Some(done) => {
            store.repository().dataset_version(&workspace, id, done.version.saturating_sub(1)).await?
        }
        None => dataset,
    };
    let (k, outcome) = (before.content.n_actions, before.content.outcome);
    let rules = Rules::new(Some(k), outcome, append.logging_policy, append.limits)?;
    let stored = store.fetch_log(&before).await?;
    let health = serde_json::from_value(before.content.health.clone()).ok();
    let checker = on_blocking_thread(move || after(stored, Checker::new(rules), health)).await??;
    let kept = before.content.parts.clone();
    let part = dataset_part_key(id, request);
    let content = match receive(store, part, append.format, checker, kept, body).await {
        Err(error) if error.is_of_the_body() && done.is_some() => return Err(UploadError::AnotherBody),
        content => content?,
    };
    let first_new = before.content.parts.len();
    let parts: Vec<String> = content.parts.iter().skip(first_new).map(|part| part.key.clone()).collect();
    let digest = content.digest.clone();
    if let Some(done) = done {
        store.blobs().delete(&parts).await;
        return the_same(done, &digest);
    }
    let added = store.repository().add_dataset_version(&workspace, id, before.version, content).await;
    let Err(StoreError::InUse { .. }) = &added else {
        return keep_or_delete(store, &parts, added).await;
    };
    store.blobs().delete(&parts).await;
    // Another append came first. It may have been an attempt of this request that was given up.
    match store.appended(&workspace, id, request).await? {
        // Its digest covers all rows before it, so it can be compared only if these are the same.
        Some(done) if done.version == before.version + 1 => the_same(done, &digest),
        Some(done) => Ok(done),
        None => Ok(added?),
    }
}

/// A checker that has seen the stored rows.
fn after(stored: StoredLog, mut checker: Checker, health: Option<Health>) -> Result<Checker, UploadError> {
    let digest = stored.each_batch(|layout, rows| Ok::<_, UploadError>(checker.remember(layout, rows)?))?;
    checker.follow(digest, health);
    Ok(checker)
}

/// Decodes the body through the checker into a new part, after those in `kept`.
async fn receive<S>(
    store: &Store,
    part: String,
    format: FileFormat,
    checker: Checker,
    kept: Vec<BlobRef>,
    body: S,
) -> Result<DatasetContent, UploadError>
where
    S: Stream<Item = Result<Bytes, BodyError>> + Unpin,
{
    let (sender, reader) = pipe::pipe();
    let part = UploadPart::new(store.blobs().clone(), part);
    let decoding = tokio::task::spawn_blocking(move || decode(format, reader, checker, part, kept));
    let fed = pipe::feed(body, sender).await;
    let decoded = decoding.await.map_err(|_| UploadError::Crashed)?;
    match (fed, decoded) {
        (Ok(()), decoded) => decoded,
        // The body ended early, which explains any error of the decoder.
        (Err(error), decoded) => {
            if let Some(part) = decoded.ok().and_then(|mut content| content.parts.pop()) {
                store.blobs().delete(&[part.key]).await;
            }
            Err(error.into())
        }
    }
}

fn decode(
    format: FileFormat,
    reader: pipe::PipeReader,
    checker: Checker,
    mut part: UploadPart,
    mut parts: Vec<BlobRef>,
) -> Result<DatasetContent, UploadError> {
    let summary = match guarantor_ingest::read(format, reader, checker, &mut part) {
        Err(IngestError::Sink) => return Err(part.take_error()),
        summary => summary?,
    };
    parts.push(part.into_blob().ok_or(UploadError::Crashed)?);
    content(summary, parts)
}

fn content(summary: LogSummary, parts: Vec<BlobRef>) -> Result<DatasetContent, UploadError> {
    let health = serde_json::to_value(summary.health)
        .map_err(|error| StoreError::damaged("a health report to be stored", error))?;
    Ok(DatasetContent {
        rows: summary.rows,
        contexts: summary.contexts,
        n_actions: summary.n_actions,
        dim: summary.dim,
        outcome: summary.outcome,
        digest: summary.digest,
        capabilities: summary.capabilities,
        health,
        parts,
    })
}

/// Deletes the new parts if no row names them.
async fn keep_or_delete(
    store: &Store,
    parts: &[String],
    stored: Result<Dataset, StoreError>,
) -> Result<Dataset, UploadError> {
    if stored.is_err() {
        store.blobs().delete(parts).await;
    }
    Ok(stored?)
}

async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, UploadError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| UploadError::Crashed)
}
