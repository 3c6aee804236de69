//! The blob that receives the rows of an upload. It is created with the first batch. One thread computes the digest of the
//! rows and another one encodes them, in parallel with the thread that checks them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use tokio::runtime::Handle;

use guarantor_engine::footprint::SetSizes;
use guarantor_ingest::{LogDigest, LogLayout, LogRows, Sink, SinkFailed};

use super::UploadError;
use crate::store::{BlobRef, BlobWriter, Blobs, Encoded, LogEncoder, StoreError};

/// About how many bytes of batches wait for each thread, and how many batches at the most. A few should wait, because the
/// encoder stops for a while after every row group.
const QUEUED_BYTES: usize = 8 << 20;
const QUEUED: usize = 8;

/// The sink of one upload.
pub struct UploadPart {
    blobs: Blobs,
    key: String,
    runtime: Handle,
    /// The thread, from the first batch until the end.
    open: Option<EncodingThread>,
    blob: Option<BlobRef>,
    arrived: Arrived,
    /// Set when nobody waits for the upload anymore.
    given_up: Arc<AtomicBool>,
    /// Why the sink failed.
    error: Option<UploadError>,
}

/// What is known about the rows of a part besides their content.
#[derive(Debug, Clone, Copy, Default)]
pub struct Arrived {
    /// The earliest time of a row, if rows have times.
    pub earliest: Option<i64>,
    /// Whether rows have ids, by which repeated rows are found.
    pub event_ids: bool,
}

impl UploadPart {
    /// A sink that writes under this key. Call this on an async thread, and everything else on a blocking
    /// one.
    pub fn new(blobs: Blobs, key: String, given_up: Arc<AtomicBool>) -> Self {
        let (runtime, arrived) = (Handle::current(), Arrived::default());
        UploadPart { blobs, key, runtime, open: None, blob: None, arrived, given_up, error: None }
    }

    /// What is known about the rows so far.
    pub fn arrived(&self) -> Arrived {
        self.arrived
    }

    /// The finished blob, if there is one.
    pub fn into_blob(self) -> Option<BlobRef> {
        self.blob
    }

    /// Why the sink failed.
    pub fn take_error(&mut self) -> UploadError {
        self.error.take().unwrap_or(UploadError::Crashed)
    }

    fn or_fail<T>(&mut self, done: Result<T, UploadError>) -> Result<T, SinkFailed> {
        done.map_err(|error| {
            self.error = Some(error);
            SinkFailed
        })
    }

    fn send(&mut self, layout: &LogLayout, before: &LogDigest, rows: LogRows) -> Result<(), UploadError> {
        if self.open.is_none() {
            let task = Task {
                blobs: self.blobs.clone(),
                key: self.key.clone(),
                runtime: self.runtime.clone(),
                layout: layout.clone(),
                digest: before.clone(),
            };
            self.open = Some(EncodingThread::start(task)?);
        }
        let earliest = rows.timestamps.iter().copied().chain(self.arrived.earliest).min();
        self.arrived = Arrived { earliest, event_ids: layout.event_ids };
        let Some(encoding) = &mut self.open else { return Err(UploadError::Crashed) };
        encoding.send(Message::Rows(rows))
    }

    fn complete(&mut self) -> Result<Option<LogDigest>, UploadError> {
        let Some(mut encoding) = self.open.take() else { return Ok(None) };
        encoding.send(Message::Finish)?;
        let Some(Written { blob, digest }) = encoding.end()? else { return Ok(None) };
        self.blob = Some(blob);
        Ok(Some(digest))
    }
}

impl Sink for UploadPart {
    fn write(&mut self, layout: &LogLayout, before: &LogDigest, rows: LogRows) -> Result<(), SinkFailed> {
        if !self.is_awaited() {
            return Err(SinkFailed);
        }
        let sent = self.send(layout, before, rows);
        self.or_fail(sent)
    }

    fn is_awaited(&self) -> bool {
        !self.given_up.load(Ordering::Relaxed)
    }

    /// Removes the blob before it returns. Dropping the part does the same.
    fn discard(&mut self) {
        self.open = None;
    }

    fn finish(&mut self) -> Result<Option<LogDigest>, SinkFailed> {
        let completed = self.complete();
        self.or_fail(completed)
    }
}

/// The blob, and the digest of its rows and of all rows before them.
struct Written {
    blob: BlobRef,
    digest: LogDigest,
}

#[expect(clippy::large_enum_variant, reason = "all messages but the last have rows")]
enum Message {
    Rows(LogRows),
    Finish,
}

/// The thread that encodes. If its sender is dropped before `Finish`, what it wrote is removed.
struct EncodingThread {
    messages: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<Result<Option<Written>, UploadError>>>,
}

impl EncodingThread {
    fn start(task: Task) -> Result<Self, UploadError> {
        let (sender, messages) = sync_channel(queued(&task.layout));
        let thread = Builder::new().name("encode".into()).spawn(move || task.run(messages));
        let thread = thread.map_err(StoreError::from)?;
        Ok(EncodingThread { messages: Some(sender), thread: Some(thread) })
    }

    fn send(&mut self, message: Message) -> Result<(), UploadError> {
        if self.messages.as_ref().is_some_and(|messages| messages.send(message).is_ok()) {
            return Ok(());
        }
        // The thread has ended, and its result says why.
        Err(self.end().err().unwrap_or(UploadError::Crashed))
    }

    fn end(&mut self) -> Result<Option<Written>, UploadError> {
        self.messages = None;
        // A thread that panicked, or that was joined before, has no result.
        let ended = self.thread.take().map(JoinHandle::join);
        ended.and_then(Result::ok).unwrap_or(Err(UploadError::Crashed))
    }
}

impl Drop for EncodingThread {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// How large the action sets are, if there are any, and the hash of the index.
type End = (Option<SetSizes>, Option<String>);

/// What the thread does.
struct Task {
    blobs: Blobs,
    key: String,
    runtime: Handle,
    layout: LogLayout,
    digest: LogDigest,
}

impl Task {
    /// Passes batches on to the encoder after they were added to the digest.
    fn run(self, messages: Receiver<Message>) -> Result<Option<Written>, UploadError> {
        let Task { blobs, key, runtime, layout, mut digest } = self;
        let mut writer = runtime.block_on(blobs.writer(key))?;
        let encoder = LogEncoder::new(layout.clone());
        let blob = std::thread::scope(|scope| {
            let (sender, digested) = sync_channel(queued(&layout));
            let work = || add_to_digest(&mut digest, &layout, messages, sender);
            let digesting = Builder::new().name("digest".into()).spawn_scoped(scope, work);
            let encoded = match &digesting {
                Ok(_) => encode(encoder, &mut writer, &runtime, digested),
                Err(error) => Err(StoreError::from(std::io::Error::from(error.kind())).into()),
            };
            // What is half written is removed at once. The other thread ends only when the next batch comes, or none.
            let blob = match encoded {
                Ok(Some((sets, index))) => {
                    let blob = runtime.block_on(writer.finish());
                    blob.map(|blob| Some(BlobRef { sets, index, ..blob })).map_err(UploadError::from)
                }
                unfinished => {
                    runtime.block_on(writer.abandon());
                    unfinished.map(|_| None)
                }
            };
            match digesting.map(std::thread::ScopedJoinHandle::join) {
                Ok(Err(_)) => Err(UploadError::Crashed),
                _ => blob,
            }
        })?;
        Ok(blob.map(|blob| Written { blob, digest }))
    }
}

/// How many batches of this layout wait for each thread.
fn queued(layout: &LogLayout) -> usize {
    // Batches with action sets or texts may be longer than their numbers say.
    match layout.sets.is_some() || layout.context_ids || layout.event_ids || layout.versions {
        true => 1,
        false => (QUEUED_BYTES / layout.batch_bytes()).clamp(1, QUEUED),
    }
}

fn add_to_digest(
    digest: &mut LogDigest,
    layout: &LogLayout,
    messages: Receiver<Message>,
    digested: SyncSender<Message>,
) {
    for message in messages {
        if let Message::Rows(rows) = &message {
            digest.update(layout, rows);
        }
        if digested.send(message).is_err() {
            return;
        }
    }
}

fn encode(
    mut encoder: LogEncoder,
    writer: &mut BlobWriter,
    runtime: &Handle,
    messages: Receiver<Message>,
) -> Result<Option<End>, UploadError> {
    for message in messages {
        match message {
            Message::Rows(rows) => {
                encoder.write(rows).map_err(not_encoded)?;
                runtime.block_on(writer.write(encoder.take_bytes()))?;
            }
            Message::Finish => {
                let sets = encoder.set_sizes();
                let Encoded { bytes, index } = encoder.finish().map_err(not_encoded)?;
                runtime.block_on(writer.write(bytes))?;
                return Ok(Some((sets, index)));
            }
        }
    }
    Ok(None)
}

/// Checked rows can always be encoded, so a failure is a bug.
fn not_encoded(error: parquet::errors::ParquetError) -> UploadError {
    tracing::error!(%error, "the rows of an upload could not be encoded");
    UploadError::Crashed
}
