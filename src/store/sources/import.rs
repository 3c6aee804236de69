//! Imports: finds the objects, reads them as an upload would be read, and stores the dataset in the transaction that
//! ends the import.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream, PollNext};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{AllowedSources, MOST_OBJECTS, SourceError, SourceObject, SourceUri, Sources};
use crate::store::blob_keys::pinned_key;
use crate::store::error::{Resource, StoreError};
use crate::store::ids::{DatasetId, Workspace};
use crate::store::records::{
    BlobRef, ClaimedImport, Dataset, ImportCode, ImportDone, ImportFailure, ImportProgress, NewDataset,
    PinnedLog, ReadObject, RowFault, SourceRequest,
};
use crate::store::uploads::{BodyError, FileFailed, Received, Upload, UploadError, read_into};
use crate::store::{Store, json_bytes};
use guarantor_ingest::{FileFormat, IngestError, IngestLimits};

/// What a server reads by reference.
pub struct SourceReader {
    /// The places.
    pub sources: Sources,
    /// Those that may be read.
    pub allowed: AllowedSources,
    /// The limits of a log.
    pub limits: IngestLimits,
    /// The most bytes of all objects of a log.
    pub max_bytes: u64,
}

/// Why an attempt stored nothing.
#[derive(Debug)]
pub enum ImportError {
    /// Reading again will not help.
    Failed(ImportFailure),
    /// Something outside of the import got in the way.
    Retry(ImportFailure),
    /// Another worker has the import, or its cancellation was acknowledged.
    LeaseLost,
    /// It was told to stop.
    Stopped,
}

/// What an attempt has read so far.
#[derive(Default)]
pub struct ImportMeter {
    objects: AtomicU64,
    bytes: AtomicU64,
    read: AtomicU64,
    records: Mutex<Vec<ReadObject>>,
    stopped: watch::Sender<bool>,
    /// The same for the thread that decodes.
    given_up: Arc<AtomicBool>,
}

impl ImportMeter {
    /// How far the attempt has come.
    pub fn progress(&self) -> ImportProgress {
        ImportProgress {
            objects: self.objects.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            bytes_read: self.read.load(Ordering::Relaxed),
        }
    }

    /// Tells the attempt to stop. It then removes what it has written, and ends.
    pub fn stop(&self) {
        self.stopped.send_replace(true);
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Returns when the attempt must stop.
    async fn stopped(&self) {
        // The sender is in `self`, so it is not gone.
        let _ = self.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }

    fn begin(&self, objects: &[SourceObject]) {
        self.objects.store(objects.len() as u64, Ordering::Relaxed);
        self.bytes.store(objects.iter().map(SourceObject::bytes).sum(), Ordering::Relaxed);
    }

    /// The objects that were read to their ends, in order.
    fn take_records(&self) -> Vec<ReadObject> {
        std::mem::take(&mut self.records.lock())
    }
}

/// The bytes of an object.
pub(super) type ObjectBody = BoxStream<'static, Result<Bytes, BodyError>>;

impl SourceReader {
    /// Checks that a workspace may read an address.
    ///
    /// # Errors
    /// If the operator does not allow it, which does not say what is there.
    pub fn check(&self, workspace: &Workspace, uri: &SourceUri) -> Result<(), String> {
        match self.allowed.allows(workspace, uri) {
            true => Ok(()),
            false => Err(format!(
                "{uri} is not in a place that this server may read for this workspace; its operator allows places with \
                 the setting sources_allow"
            )),
        }
    }

    /// The objects of a log, in order.
    async fn find(
        &self,
        workspace: &Workspace,
        request: &SourceRequest,
    ) -> Result<Vec<SourceObject>, ImportError> {
        let (mut objects, mut named) = (Vec::new(), HashSet::new());
        for text in &request.uris {
            let uri: SourceUri = text.parse().map_err(|error| failed(ImportCode::InvalidValue, error))?;
            self.check(workspace, &uri).map_err(|why| failed(ImportCode::SourceNotAllowed, why))?;
            let within = self.allowed.real_folders(workspace, &uri);
            for object in self.sources.objects(&uri, within).await? {
                if !named.insert(object.uri.clone()) {
                    let why = format!("{} is named twice; every object can be in a log once", object.uri);
                    return Err(failed(ImportCode::InvalidValue, why));
                }
                objects.push(object);
            }
            if objects.len() > MOST_OBJECTS {
                return Err(SourceError::TooMany { uri: text.clone(), most: MOST_OBJECTS }.into());
            }
        }
        let bytes: u64 = objects.iter().map(SourceObject::bytes).fold(0, u64::saturating_add);
        if bytes > self.max_bytes {
            let why = format!(
                "the objects have {bytes} bytes together; this server reads at most {} (the setting sources_max_bytes)",
                self.max_bytes
            );
            return Err(failed(ImportCode::TooLarge, why));
        }
        Ok(objects)
    }

    /// The options of an upload of the same log.
    pub(super) async fn upload(
        &self,
        store: &Store,
        id: DatasetId,
        workspace: &Workspace,
        request: &SourceRequest,
    ) -> Result<Upload, StoreError> {
        let logging_policy = match request.logging_policy_id {
            Some(policy) => {
                let stored = store.repository().policy(workspace, policy).await?;
                Some((policy, store.policy_params(&stored).await?))
            }
            None => None,
        };
        Ok(Upload {
            id,
            workspace: workspace.clone(),
            name: request.name.clone(),
            format: format_of(request, ""),
            n_actions: request.n_actions,
            outcome: request.outcome,
            outcomes: request.outcomes.clone(),
            options: request.options,
            logging_policy,
            limits: self.limits.clone(),
        })
    }
}

/// The format and the compression of an object.
pub(super) fn format_of(request: &SourceRequest, uri: &str) -> FileFormat {
    let plain = FileFormat::from(request.format);
    let format = FileFormat::of_file(Path::new(uri), Some(request.format)).unwrap_or(plain);
    match request.hash_dims {
        Some(dims) => format.with_hash_dims(dims).unwrap_or(format),
        None => format,
    }
}

/// Reads the log of a claimed import and stores its dataset, or rejects it and stores nothing. To stop it, tell the meter.
///
/// # Errors
/// Why there is no dataset, and whether to try again.
pub async fn import(
    store: &Store,
    reader: &SourceReader,
    claim: &ClaimedImport,
    meter: &Arc<ImportMeter>,
) -> Result<Dataset, ImportError> {
    let (id, workspace) = (claim.import.id, &claim.import.workspace);
    let request = &claim.import.request;
    let objects = tokio::select! {
        found = reader.find(workspace, request) => found?,
        () = meter.stopped() => return Err(ImportError::Stopped),
    };
    meter.begin(&objects);
    let upload = reader.upload(store, id, workspace, request).await?;
    let uris: Vec<String> = objects.iter().map(|object| object.uri.clone()).collect();
    let files = objects.into_iter().map(|object| metered(request, object, meter)).collect();
    let options = upload.options;
    let received = match request.materialize {
        true => read_into(store.blobs(), upload, files, meter.given_up.clone()).await,
        false => {
            let scratch = store.scratch()?;
            read_into(&scratch, upload, files, meter.given_up.clone()).await
        }
    };
    let Received { mut content, rows, .. } = match received {
        Err(_) if *meter.stopped.borrow() => return Err(ImportError::Stopped),
        received => received.map_err(|failed| of_file(failed, &uris))?,
    };
    let objects = meter.take_records();
    if !request.materialize {
        content.parts = vec![pin(store, id, request, &objects, &content.parts).await?];
    }
    let parts: Vec<String> = content.parts.iter().map(|part| part.key.clone()).collect();
    let new = NewDataset {
        id,
        workspace: workspace.clone(),
        name: request.name.clone(),
        logging_policy_id: request.logging_policy_id,
        options,
        content,
        sketch: rows.all,
        import: Some(ImportDone { token: claim.token, objects, progress: meter.progress() }),
    };
    let stored = store.repository().create_dataset(new).await;
    if stored.is_err() {
        store.discard(&parts).await;
    }
    Ok(stored?)
}

/// Stores the list of the objects in place of their rows.
async fn pin(
    store: &Store,
    id: DatasetId,
    request: &SourceRequest,
    objects: &[ReadObject],
    read: &[BlobRef],
) -> Result<BlobRef, StoreError> {
    let pinned = PinnedLog { request: request.clone(), objects: objects.to_vec() };
    let blob = store.blobs().put(pinned_key(id), json_bytes(&pinned)?).await?;
    Ok(BlobRef { sets: read.first().and_then(|part| part.sets), ..blob })
}

fn metered(
    request: &SourceRequest,
    object: SourceObject,
    meter: &Arc<ImportMeter>,
) -> (FileFormat, ObjectBody) {
    let format = format_of(request, &object.uri);
    let (pieces, ends) = (Arc::clone(meter), Arc::clone(meter));
    let each = move |bytes| {
        pieces.read.fetch_add(bytes, Ordering::Relaxed);
    };
    let end = move |record| {
        ends.records.lock().push(record);
        Ok(())
    };
    let body = object.read_recorded(each, end);
    let stopping = Arc::clone(meter);
    let stopped = async move {
        stopping.stopped().await;
        Err(BodyError::Broken("the import was told to stop".into()))
    };
    // A body that ends early is an error, so the end of the stream must not look like that of the object.
    let body = body.map(Some).chain(stream::iter([None]));
    let body =
        stream::select_with_strategy(body, stream::once(stopped).map(Some), |_: &mut ()| PollNext::Right);
    let body = body.take_while(|piece| std::future::ready(piece.is_some())).filter_map(std::future::ready);
    (format, body.boxed())
}

fn failed(code: ImportCode, why: impl ToString) -> ImportError {
    ImportError::Failed(ImportFailure::new(code, why.to_string()))
}

impl From<SourceError> for ImportError {
    fn from(error: SourceError) -> Self {
        let code = match &error {
            SourceError::Uri { .. } => ImportCode::InvalidValue,
            SourceError::NotFound(_) => ImportCode::SourceNotFound,
            SourceError::TooMany { .. } => ImportCode::TooLarge,
            SourceError::Denied { why, .. } => {
                tracing::warn!(why, "a source of logs may not be read");
                ImportCode::SourceUnreadable
            }
            SourceError::Unreadable { uri, why } => {
                // The cause may name hosts, so it is only in the log.
                tracing::warn!(uri, why, "a source of logs cannot be read");
                let failure =
                    ImportFailure::new(ImportCode::SourceUnreadable, format!("{uri} cannot be read"));
                return ImportError::Retry(failure);
            }
            SourceError::Settings(settings) => {
                tracing::error!(error = %settings, "a source of logs cannot be used");
                let why = "the settings of the place cannot be used; the server's log says why";
                return failed(ImportCode::SourceUnreadable, why);
            }
        };
        failed(code, error)
    }
}

impl From<StoreError> for ImportError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::LeaseLost(_) => ImportError::LeaseLost,
            StoreError::NotFound(Resource::Policy, id) => {
                let why = format!("the policy {id} was deleted before the log was read");
                failed(ImportCode::UnknownPolicy, why)
            }
            error => {
                tracing::warn!(%error, "could not store an import");
                let why = match error.is_unwritable() {
                    true => "the server has no storage space left, or cannot write to its storage",
                    false => "the log could not be stored; the server's log says why",
                };
                ImportError::Retry(ImportFailure::new(ImportCode::AttemptsExhausted, why))
            }
        }
    }
}

/// Why the objects were not read, with the one that is at fault.
fn of_file(failed: FileFailed, uris: &[String]) -> ImportError {
    let uri = failed.file.and_then(|file| uris.get(file)).cloned();
    let (code, message) = match failed.error {
        UploadError::Store(error) => return error.into(),
        UploadError::Body(error @ BodyError::Changed(_)) => (ImportCode::SourceChanged, error.to_string()),
        UploadError::Body(error @ BodyError::Denied(_)) => (ImportCode::SourceUnreadable, error.to_string()),
        UploadError::Body(error) => {
            tracing::warn!(uri, %error, "a source of logs cannot be read");
            let message = "the object could not be read to its end".to_owned();
            let failure = ImportFailure { uri, ..ImportFailure::new(ImportCode::SourceUnreadable, message) };
            return ImportError::Retry(failure);
        }
        UploadError::Log(error) => return of_log(error, uri),
        UploadError::Crashed => {
            let message = "reading stopped because of an internal error; the server's log has the cause";
            return ImportError::Retry(ImportFailure::new(ImportCode::AttemptsExhausted, message));
        }
        error @ (UploadError::RepeatedRows | UploadError::TooManyAdditions(_) | UploadError::AnotherBody) => {
            (ImportCode::RepeatedRows, error.to_string())
        }
    };
    ImportError::Failed(ImportFailure { uri, ..ImportFailure::new(code, message) })
}

fn of_log(error: IngestError, uri: Option<String>) -> ImportError {
    let code = match &error {
        IngestError::Rows(_) => ImportCode::InvalidRows,
        IngestError::Option { .. } => ImportCode::InvalidValue,
        IngestError::RepeatedRows { .. } | IngestError::MultipliedRows { .. } => ImportCode::RepeatedRows,
        IngestError::Unreadable(_) => ImportCode::InvalidFile,
        IngestError::TooLarge(_) | IngestError::Expands(_) => ImportCode::TooLarge,
        IngestError::Io(_) | IngestError::Sink => {
            return StoreError::Io(std::io::Error::other(error.to_string())).into();
        }
    };
    let message = error.to_string();
    let errors = match error {
        IngestError::Rows(rows) => rows.first,
        _ => Vec::new(),
    };
    let errors = errors.into_iter().map(|fault| RowFault {
        row: (fault.row > 0).then_some(fault.row),
        field: fault.field,
        message: fault.message,
    });
    let errors = errors.collect();
    ImportError::Failed(ImportFailure { uri, errors, ..ImportFailure::new(code, message) })
}
