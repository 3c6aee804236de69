//! Ingest: bytes → rows (a file a format) → checked columns (`check.rs`) → a stored log.
//!
//! The bytes arrive on an async thread and are decoded on a blocking one, a bounded channel between
//! them, so that a large upload neither fills the memory nor holds up other requests. Every row is
//! looked at even after one was refused, because people want to know all that is wrong; but from
//! the first refusal on nothing is kept.

mod arrow;
mod arrow_stream;
mod check;
mod csv;
mod decompress;
mod dsjson;
mod dsjson_context;
mod errors;
mod hashing;
mod health;
mod identity;
mod line_by_line;
mod lines;
mod ndjson;
mod obd;
mod parquet;
mod parquet_sizes;
mod part;
mod pipe;
mod plain;
mod records;
mod row;
mod rules;
mod thrift;
pub mod write;

use std::io::Read;
use std::path::PathBuf;

use bytes::Bytes;
use futures_util::Stream;
use uuid::Uuid;

use crate::engine::log::{Outcome, OutcomeKind};
use crate::engine::policy::PolicyParams;
use crate::store::{
    Dataset, DatasetContent, DatasetId, NewDataset, PolicyId, Resource, Store, StoreError, StoredLog,
    Workspace, dataset_part_key,
};

pub use decompress::Encoding;
pub use errors::{BodyError, IngestError, RowErrors};
pub use hashing::Hashing;
pub use health::{Fit, Health, Warning};

use check::Checker;
use decompress::Decoded;
use errors::shortened;
use row::{FormatError, Notes, Visit};
use rules::Rules;

/// The formats; each has a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Ndjson,
    Csv,
    Parquet,
    ArrowStream,
    /// Vowpal Wabbit's decision-service JSON.
    Dsjson(Hashing),
    /// The Open Bandit Dataset's CSV.
    Obd(Hashing),
}

impl Format {
    /// Where features are hashed: into as many dimensions as make rows with `dim` features.
    pub fn with_dim(self, dim: usize) -> Format {
        match self {
            Format::Dsjson(_) => Format::Dsjson(Hashing { dims: dim }),
            Format::Obd(_) => Format::Obd(Hashing { dims: dim.saturating_sub(Hashing::POSITIONS) }),
            other => other,
        }
    }

    /// None where nothing is hashed.
    pub fn with_hash_dims(self, dims: usize) -> Option<Format> {
        match self {
            Format::Dsjson(_) => Some(Format::Dsjson(Hashing { dims })),
            Format::Obd(_) => Some(Format::Obd(Hashing { dims })),
            _ => None,
        }
    }

    /// The outcome of its rows, of which not all may be said. Clicks are rewards. The error is a range
    /// that is none.
    pub fn outcome(
        self,
        kind: Option<OutcomeKind>,
        min: Option<f64>,
        max: Option<f64>,
    ) -> Result<Outcome, (f64, f64)> {
        let unsaid = if matches!(self, Format::Obd(_)) { OutcomeKind::Reward } else { OutcomeKind::Cost };
        let usual = match kind.unwrap_or(unsaid) {
            OutcomeKind::Cost => Outcome::default(),
            OutcomeKind::Reward => Outcome::reward(),
        };
        let (min, max) = (min.unwrap_or(usual.min), max.unwrap_or(usual.max));
        Outcome::new(usual.kind, min, max).ok_or((min, max))
    }

    /// Whether its options can be, whatever the rows.
    fn check(self, limits: &IngestLimits) -> Result<(), IngestError> {
        let dims = match self {
            Format::Dsjson(hashing) => hashing.dims,
            Format::Obd(hashing) => hashing.dims.saturating_add(Hashing::POSITIONS),
            _ => return Ok(()),
        };
        if dims <= limits.dim {
            return Ok(());
        }
        let message = format!("makes {dims} features; at most {} can be", limits.dim);
        Err(IngestError::Option { field: "hash_dims", message })
    }

    /// Errors of rows with the fields' names in the file.
    fn in_its_words(self, error: IngestError) -> IngestError {
        let name: fn(&str) -> &str = match self {
            Format::Dsjson(_) => dsjson::field_name,
            Format::Obd(_) => obd::field_name,
            _ => return error,
        };
        match error {
            IngestError::Rows(mut rows) => {
                rows.first.iter_mut().for_each(|row| row.field = name(&row.field).to_owned());
                IngestError::Rows(rows)
            }
            other => other,
        }
    }
}

/// What an upload may at most be.
#[derive(Debug, Clone)]
pub struct IngestLimits {
    pub rows: u64,
    /// K.
    pub actions: usize,
    /// p.
    pub dim: usize,
    pub line_bytes: usize,
    /// Of what is kept to compare ids with: see `identity.rs`.
    pub identity_bytes: u64,
    /// Of one message of an Arrow stream, which is held whole.
    pub message_bytes: usize,
    /// What may come out of a compressed body or file, in bytes and in multiples of what went in.
    pub decoded_bytes: u64,
    pub decoded_ratio: u64,
    /// Where formats that cannot be read forwards are put down while they are read; the system's
    /// temporary directory where it is not given.
    pub spool: Option<PathBuf>,
}

impl Default for IngestLimits {
    fn default() -> Self {
        IngestLimits {
            rows: 1 << 30,
            actions: 10_000,
            dim: 100_000,
            line_bytes: 4 << 20,
            identity_bytes: 2 << 30,
            message_bytes: 256 << 20,
            decoded_bytes: 64 << 30,
            decoded_ratio: 500,
            spool: None,
        }
    }
}

pub struct Upload {
    pub id: DatasetId,
    pub workspace: Workspace,
    pub name: Option<String>,
    pub format: Format,
    pub encoding: Encoding,
    pub n_actions: Option<usize>,
    pub outcome: Outcome,
    /// The policy that logged, where it is stored.
    pub logging_policy: Option<(PolicyId, PolicyParams)>,
    pub limits: IngestLimits,
}

/// Rows to be added to a dataset, as `dataset` is now.
pub struct Append {
    pub dataset: Dataset,
    /// The same when the request is repeated: `Store::appended` finds what it made.
    pub request: Uuid,
    pub format: Format,
    pub encoding: Encoding,
    /// The dataset's own, where it has one.
    pub logging_policy: Option<PolicyParams>,
    pub limits: IngestLimits,
}

/// Reads `body` to its end and stores the dataset, or refuses it and stores nothing. Where an attempt of
/// the same request has stored it already, and died before it could answer, that is what it stored.
pub async fn upload<S>(store: &Store, upload: Upload, body: S) -> Result<Dataset, IngestError>
where
    S: Stream<Item = Result<Bytes, BodyError>> + Unpin,
{
    let (policy_id, policy) = upload.logging_policy.unzip();
    let rules = Rules::new(upload.n_actions, upload.outcome, policy, upload.limits)?;
    let coded = (upload.format, upload.encoding);
    let part = dataset_part_key(upload.id, upload.id.into());
    let content = match receive(store, part, coded, Checker::new(rules), Vec::new(), body).await {
        // What the first attempt stored was no such thing.
        Err(error) if error.is_of_the_body() && is_stored(store, &upload.workspace, upload.id).await? => {
            return Err(IngestError::AnotherBody);
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

async fn is_stored(store: &Store, workspace: &Workspace, id: DatasetId) -> Result<bool, StoreError> {
    match store.repository().dataset(workspace, id).await {
        Ok(_) => Ok(true),
        Err(StoreError::NotFound(..)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What the first attempt stored, if it was this.
fn the_same(stored: Dataset, digest: &str) -> Result<Dataset, IngestError> {
    if stored.content.digest == digest { Ok(stored) } else { Err(IngestError::AnotherBody) }
}

/// The same for rows that follow those of an earlier version.
pub async fn append<S>(store: &Store, append: Append, body: S) -> Result<Dataset, IngestError>
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
    let coded = (append.format, append.encoding);
    let part = dataset_part_key(id, request);
    let content = match receive(store, part, coded, checker, kept, body).await {
        Err(error) if error.is_of_the_body() && done.is_some() => return Err(IngestError::AnotherBody),
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
    if let Err(StoreError::InUse { .. }) = &added
        // Another append came first; it may be one of this very request that was given up.
        && let Some(done) = store.appended(&workspace, id, request).await?
    {
        store.blobs().delete(&parts).await;
        // Behind still others its rows have another digest than these here, whatever they are.
        let comparable = done.version == before.version + 1;
        return if comparable { the_same(done, &digest) } else { Ok(done) };
    }
    keep_or_delete(store, &parts, added).await
}

fn after(stored: StoredLog, mut checker: Checker, health: Option<Health>) -> Result<Checker, IngestError> {
    let digest = stored.each_batch(|layout, rows| checker.remember(layout, rows))?;
    checker.follow(digest, health);
    Ok(checker)
}

/// Decodes the body through the checker into a part of its own.
async fn receive<S>(
    store: &Store,
    part: String,
    coded: (Format, Encoding),
    checker: Checker,
    kept: Vec<crate::store::BlobRef>,
    body: S,
) -> Result<DatasetContent, IngestError>
where
    S: Stream<Item = Result<Bytes, BodyError>> + Unpin,
{
    let (sender, reader) = pipe::pipe();
    let sink = part::Part::new(store.blobs().clone(), part);
    let decoding = tokio::task::spawn_blocking(move || decode(coded, reader, checker, sink, kept));
    let fed = pipe::feed(body, sender).await;
    let decoded = decoding.await.map_err(|_| IngestError::Crashed)?;
    match (fed, decoded) {
        (Ok(()), decoded) => decoded,
        // A body that broke off is the reason for whatever the decoder made of its first half.
        (Err(error), decoded) => {
            if let Some(part) = decoded.ok().and_then(|mut content| content.parts.pop()) {
                store.blobs().delete(&[part.key]).await;
            }
            Err(error.into())
        }
    }
}

fn decode(
    (format, encoding): (Format, Encoding),
    reader: impl Read + Send + 'static,
    mut checker: Checker,
    mut sink: part::Part,
    mut parts: Vec<crate::store::BlobRef>,
) -> Result<DatasetContent, IngestError> {
    let limits = checker.limits().clone();
    format.check(&limits)?;
    let known = checker.known();
    let visit: &mut Visit = &mut |number, row| checker.accept(number, row, &mut sink);
    let mut source = Decoded::new(encoding, reader, &limits).map_err(StoreError::from)?;
    let refusal = source.refusal();
    let read = match format {
        Format::Ndjson => ndjson::read(&mut source, &limits, visit).map(|()| Notes::default()),
        Format::Csv => csv::read(&mut source, &limits, visit).map(|()| Notes::default()),
        Format::Parquet => parquet::read(&mut source, &limits, visit).map(|()| Notes::default()),
        Format::ArrowStream => arrow_stream::read(&mut source, &limits, visit).map(|()| Notes::default()),
        Format::Dsjson(hashing) => dsjson::read(&mut source, hashing, &known, &limits, visit),
        Format::Obd(hashing) => obd::read(&mut source, hashing, &known, &limits, visit),
    };
    let read = read.and_then(|notes| end_of(&mut source).map(|()| notes));
    refusal.check()?;
    let notes = match read {
        Ok(notes) => notes,
        Err(FormatError::Unreadable(message)) => return Err(IngestError::Unreadable(shortened(message))),
        Err(FormatError::Stopped(error)) => return Err(error),
    };
    let (mut content, part) = checker.finish(sink, notes).map_err(|error| format.in_its_words(error))?;
    parts.push(part);
    content.parts = parts;
    Ok(content)
}

/// Bytes that nobody has looked at are no part of a log, and must not be taken for one.
fn end_of(source: &mut impl Read) -> Result<(), FormatError> {
    match source.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(FormatError::Unreadable("there are bytes after the end of the log".into())),
        Err(error) => Err(FormatError::Unreadable(error.to_string())),
    }
}

async fn keep_or_delete(
    store: &Store,
    parts: &[String],
    stored: Result<Dataset, StoreError>,
) -> Result<Dataset, IngestError> {
    if stored.is_err() {
        store.blobs().delete(parts).await;
    }
    Ok(stored?)
}

async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, IngestError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| IngestError::Crashed)
}
