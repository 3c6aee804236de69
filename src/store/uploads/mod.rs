//! Uploads. The bytes arrive on an async thread and are decoded on a blocking one, with a bounded channel in
//! between, so that a large upload neither fills the memory nor delays other requests.

mod candidates;
mod error;
mod part;
mod pipe;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::Stream;
use guarantor_engine::log::{NamedOutcome, Outcome};
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{
    Checker, FileError, FileFormat, Health, IngestError, IngestLimits, LogOptions, LogSummary, RowSketch,
    Rules,
};
use uuid::Uuid;

use super::{
    AddedRows, BlobRef, Blobs, Dataset, DatasetContent, DatasetId, NewDataset, NewVersion, Piece, PolicyId,
    Resource, Store, StoreError, StoredLog, Workspace, dataset_part_key, seal,
};
use part::{Arrived, UploadPart};

pub use candidates::add_candidates;
pub use error::{BodyError, FileFailed, UploadError};

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
    /// The kind and range of the outcome, unless outcomes have names.
    pub outcome: Outcome,
    /// All outcomes, if they have names; first the primary one.
    pub outcomes: Vec<NamedOutcome>,
    /// What the caller states about the log.
    pub options: LogOptions,
    /// The policy that logged, if it is stored.
    pub logging_policy: Option<(PolicyId, PolicyParams)>,
    /// The limits of the upload.
    pub limits: IngestLimits,
}

/// Rows or candidates to be added to a dataset.
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
    let files = vec![(upload.format, body)];
    upload_files(store, upload, files).await.map_err(|failed| failed.error)
}

/// The same for a log of several files, each with its format, which are read in this order. The format of `upload`
/// is not used.
///
/// # Errors
/// The same, with the position of the file that is at fault.
pub async fn upload_files<S>(
    store: &Store,
    upload: Upload,
    files: Vec<(FileFormat, S)>,
) -> Result<Dataset, FileFailed>
where
    S: Stream<Item = Result<Bytes, BodyError>> + Unpin,
{
    let (id, workspace, name) = (upload.id, upload.workspace.clone(), upload.name.clone());
    let logging_policy_id = upload.logging_policy.as_ref().map(|&(id, _)| id);
    let options = upload.options;
    let received = match read_into(store.blobs(), upload, files, Arc::default()).await {
        // The first attempt stored a body that was accepted, so this is a different one.
        Err(failed) if failed.error.is_of_the_body() && is_stored(store, &workspace, id).await? => {
            return Err(UploadError::AnotherBody.into());
        }
        received => received?,
    };
    let Received { content, rows, .. } = received;
    let parts: Vec<String> = content.parts.iter().map(|part| part.key.clone()).collect();
    let digest = content.digest.clone();
    let new = NewDataset {
        id,
        workspace: workspace.clone(),
        name,
        logging_policy_id,
        options,
        content,
        sketch: rows.all,
        import: None,
    };
    let stored = match store.repository().create_dataset(new).await {
        Err(StoreError::Exists(Resource::Dataset, _)) => {
            store.discard(&parts).await;
            the_same(store.repository().dataset_version(&workspace, id, 1).await?, &digest)
        }
        stored => keep_or_delete(store, &parts, stored).await,
    };
    Ok(stored?)
}

/// Reads the files of a new log, in this order, into a part among `blobs` that no row names yet. It stops soon after
/// `given_up` is set.
///
/// # Errors
/// Why the log was rejected, with the position of the file that is at fault.
pub(super) async fn read_into<S>(
    blobs: &Blobs,
    upload: Upload,
    files: Vec<(FileFormat, S)>,
    given_up: Arc<AtomicBool>,
) -> Result<Received, FileFailed>
where
    S: Stream<Item = Result<Bytes, BodyError>> + Unpin,
{
    let policy = upload.logging_policy.map(|(_, params)| params);
    let rules = Rules::new(upload.n_actions, upload.outcome, policy, upload.limits)?;
    let checker = Checker::new(rules.with_options(upload.options).with_outcomes(upload.outcomes));
    let part = dataset_part_key(upload.id, upload.id.into());
    receive(blobs, part, files, checker, Vec::new(), given_up).await
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
    let Append { dataset, request, format, logging_policy, limits } = append;
    let target = Target::find(store, dataset, request).await?;
    let before = &target.before;
    let mut checker = Checker::new(target.rules(logging_policy, limits)?);
    let seen = store.repository().seen_by_looks(&before.workspace, before.id).await?;
    // A repeated request may have been followed by jobs that saw its rows.
    if let Some(last) = seen.last_timestamp.filter(|_| target.done.is_none()) {
        checker.not_before(last);
    }
    let stored = store.fetch_log(before).await?;
    let health = serde_json::from_value(before.content.health.clone()).ok();
    let checker = on_blocking_thread(move || after(stored, checker, health)).await??;
    let (part, kept) = (dataset_part_key(before.id, request), before.content.parts.clone());
    let received = receive(store.blobs(), part, vec![(format, body)], checker, kept, Arc::default()).await;
    let received = target.unless_repeated(received.map_err(|failed| failed.error))?;
    let Received { content, mut rows, arrived } = received;
    rows.reaches_back =
        before.content.last_timestamp.zip(arrived.earliest).is_some_and(|(last, new)| new < last);
    if target.done.is_none() && !arrived.event_ids {
        let compared = check_repeats(store, before.id, rows).await;
        rows = target.or_discard(store, &content, compared).await?;
    }
    let seen_version = content.capabilities.timestamps.then_some(seen.version);
    target.store(store, content, Some(rows), seen_version).await
}

/// Rejects rows that the dataset has already, in another order. Runs in the same order were found by the checker.
async fn check_repeats(store: &Store, id: DatasetId, rows: AddedRows) -> Result<AddedRows, UploadError> {
    let parts = store.repository().row_sketches(id).await?;
    on_blocking_thread(move || {
        let before = rows.all.without(&rows.new);
        let repeated = parts.iter().chain([&before]).any(|stored| rows.new.beyond_chance(stored));
        match repeated || repeats_in_small_parts(&rows, &parts) {
            true => Err(UploadError::RepeatedRows),
            false => Ok(rows),
        }
    })
    .await?
}

/// Whether the new rows and the last parts together repeat the rows before them. Each of them alone may be too short
/// to tell.
fn repeats_in_small_parts(rows: &AddedRows, parts: &[RowSketch]) -> bool {
    let mut late = rows.new.clone();
    for part in parts.iter().rev() {
        late.merge(part);
        let early = rows.all.without(&late);
        if late.rows() > early.rows() {
            return false;
        }
        if late.beyond_chance(&early) {
            return true;
        }
    }
    false
}

/// The version of a dataset that a request adds to.
struct Target {
    before: Dataset,
    request: Uuid,
    /// What an earlier attempt of the request has stored.
    done: Option<Dataset>,
}

impl Target {
    async fn find(store: &Store, dataset: Dataset, request: Uuid) -> Result<Self, UploadError> {
        let (workspace, id) = (dataset.workspace.clone(), dataset.id);
        let done = store.appended(&workspace, id, request).await?;
        let before = match &done {
            Some(done) => {
                store.repository().dataset_version(&workspace, id, done.version.saturating_sub(1)).await?
            }
            None => dataset,
        };
        Ok(Target { before, request, done })
    }

    /// The rules for rows of the dataset.
    fn rules(&self, policy: Option<PolicyParams>, limits: IngestLimits) -> Result<Rules, IngestError> {
        let content = &self.before.content;
        let capabilities = &content.capabilities;
        // A later row may have a larger set than all rows before it.
        let n_actions = Some(content.n_actions).filter(|_| capabilities.action_sets.is_none());
        let rules = Rules::new(n_actions, content.outcome, policy, limits)?;
        Ok(rules
            .with_options(self.before.options())
            .with_outcomes(capabilities.outcomes.clone())
            .with_actions_declared(capabilities.actions_declared)
            .with_earlier_logged(capabilities.propensities_logged))
    }

    /// What was received. A body that is rejected although an earlier attempt was accepted is a different one.
    fn unless_repeated(&self, received: Result<Received, UploadError>) -> Result<Received, UploadError> {
        match received {
            Err(error) if error.is_of_the_body() && self.done.is_some() => Err(UploadError::AnotherBody),
            received => received,
        }
    }

    /// What was checked. If it was rejected, the new parts are deleted.
    async fn or_discard<T>(
        &self,
        store: &Store,
        content: &DatasetContent,
        checked: Result<T, UploadError>,
    ) -> Result<T, UploadError> {
        if checked.is_err() {
            store.blobs().delete(&self.new_parts(content)).await;
        }
        checked
    }

    /// The keys of the parts that the version before does not have.
    fn new_parts(&self, content: &DatasetContent) -> Vec<String> {
        let kept = &self.before.content.parts;
        content.parts.iter().filter(|part| !kept.contains(part)).map(|part| part.key.clone()).collect()
    }

    /// Stores the next version, or returns what an earlier attempt of the request has stored.
    async fn store(
        self,
        store: &Store,
        content: DatasetContent,
        added: Option<AddedRows>,
        seen_version: Option<u64>,
    ) -> Result<Dataset, UploadError> {
        let parts = self.new_parts(&content);
        let Target { before, request, done } = self;
        let (workspace, id) = (&before.workspace, before.id);
        let digest = content.digest.clone();
        if let Some(done) = done {
            store.discard(&parts).await;
            return the_same(done, &digest);
        }
        let new = NewVersion { after_version: before.version, content, added, seen_version };
        let added = store.repository().add_dataset_version(workspace, id, new).await;
        let Err(StoreError::InUse { .. }) = &added else {
            return keep_or_delete(store, &parts, added).await;
        };
        store.discard(&parts).await;
        // Another append came first. It may have been an attempt of this request that was given up.
        match store.appended(workspace, id, request).await? {
            // Its digest covers all rows before it, so it can be compared only if these are the same.
            Some(done) if done.version == before.version + 1 => the_same(done, &digest),
            Some(done) => Ok(done),
            None => Ok(added?),
        }
    }
}

/// A checker that has seen the stored rows.
fn after(stored: StoredLog, mut checker: Checker, health: Option<Health>) -> Result<Checker, UploadError> {
    let digest = stored.each_piece(|piece| {
        match piece {
            Piece::Rows(layout, rows) => checker.remember(layout, rows)?,
            Piece::EndOfPart => checker.end_part(),
        }
        Ok::<_, UploadError>(())
    })?;
    checker.follow(digest, health);
    Ok(checker)
}

/// A log that was read and encoded, and is not named by a row yet.
pub(super) struct Received {
    pub content: DatasetContent,
    pub rows: AddedRows,
    arrived: Arrived,
}

/// Tells the thread that decodes to stop when it is dropped: with the future of a request whose client has gone, of a
/// canceled job, or of an import that lost its lease. Some formats are decoded from a temporary file, which does not end
/// with the body.
#[derive(Default)]
struct GivingUp(Arc<AtomicBool>);

impl Drop for GivingUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Decodes the files through the checker into a new part, after those in `kept`. If `given_up` is set, or the future is
/// dropped, decoding stops soon and what it has written is removed.
async fn receive<S>(
    blobs: &Blobs,
    part: String,
    files: Vec<(FileFormat, S)>,
    checker: Checker,
    kept: Vec<BlobRef>,
    given_up: Arc<AtomicBool>,
) -> Result<Received, FileFailed>
where
    S: Stream<Item = Result<Bytes, BodyError>> + Unpin,
{
    let (mut readers, mut bodies) = (Vec::new(), Vec::new());
    for (format, body) in files {
        let (sender, reader) = pipe::pipe();
        readers.push((format, reader));
        bodies.push((body, sender));
    }
    let giving_up = GivingUp(given_up);
    let part = UploadPart::new(blobs.clone(), part, giving_up.0.clone());
    let decoding = tokio::task::spawn_blocking(move || decode(readers, checker, part, kept));
    let mut broken = None;
    for (i, (body, sender)) in bodies.into_iter().enumerate() {
        if let Err(error) = pipe::feed(body, sender).await {
            broken = Some(FileFailed { file: Some(i), error: error.into() });
            giving_up.0.store(true, Ordering::Relaxed);
            break;
        }
    }
    let decoded = decoding.await.map_err(|_| UploadError::Crashed)?;
    match broken {
        None => decoded,
        // The body ended early, which explains any error of the decoder.
        Some(failed) => {
            if let Some(part) = decoded.ok().and_then(|mut received| received.content.parts.pop()) {
                blobs.delete(&[part.key]).await;
            }
            Err(failed)
        }
    }
}

fn decode(
    files: Vec<(FileFormat, pipe::PipeReader)>,
    checker: Checker,
    mut part: UploadPart,
    mut parts: Vec<BlobRef>,
) -> Result<Received, FileFailed> {
    let summary = match guarantor_ingest::read_files(files, checker, &mut part) {
        Err(FileError { error: IngestError::Sink, .. }) => return Err(part.take_error().into()),
        Err(FileError { file, error }) => return Err(FileFailed { file, error: error.into() }),
        Ok(summary) => summary,
    };
    let arrived = part.arrived();
    parts.push(part.into_blob().ok_or(UploadError::Crashed)?);
    Ok(content(summary, parts, arrived)?)
}

fn content(summary: LogSummary, parts: Vec<BlobRef>, arrived: Arrived) -> Result<Received, UploadError> {
    let health = serde_json::to_value(summary.health)
        .map_err(|error| StoreError::damaged("a health report to be stored", error))?;
    let mut content = DatasetContent {
        rows: summary.rows,
        contexts: summary.contexts,
        n_actions: summary.n_actions,
        dim: summary.dim,
        outcome: summary.outcome,
        digest: summary.digest,
        capabilities: summary.capabilities,
        last_timestamp: summary.last_timestamp,
        health,
        parts,
    };
    let seal = seal(&content, content.parts.iter());
    if let Some(last) = content.parts.last_mut() {
        last.seal = seal;
    }
    let rows = AddedRows { new: summary.new_rows, all: summary.sketch, reaches_back: false };
    Ok(Received { content, rows, arrived })
}

/// Deletes the new parts if no row names them.
async fn keep_or_delete(
    store: &Store,
    parts: &[String],
    stored: Result<Dataset, StoreError>,
) -> Result<Dataset, UploadError> {
    if stored.is_err() {
        store.discard(parts).await;
    }
    Ok(stored?)
}

async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, UploadError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| UploadError::Crashed)
}
