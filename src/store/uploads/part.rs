//! The blob that receives the rows of an upload. It is created with the first batch. A thread of its own
//! encodes the rows and computes their digest, next to the thread that checks them.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use tokio::runtime::Handle;

use guarantor_ingest::{LogDigest, LogLayout, LogRows, Sink, SinkFailed};

use super::UploadError;
use crate::store::{BlobRef, BlobWriter, Blobs, LogEncoder, StoreError};

/// A sink for one upload.
pub struct Part {
    blobs: Blobs,
    key: String,
    runtime: Handle,
    open: Option<Encoding>,
    blob: Option<BlobRef>,
    /// Why the sink failed.
    error: Option<UploadError>,
}

impl Part {
    /// Call this on an async thread; everything else here is for a blocking one.
    pub fn new(blobs: Blobs, key: String) -> Self {
        Part { blobs, key, runtime: Handle::current(), open: None, blob: None, error: None }
    }

    /// The finished blob.
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
            self.open = Some(Encoding::start(task)?);
        }
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

impl Sink for Part {
    fn write(&mut self, layout: &LogLayout, before: &LogDigest, rows: LogRows) -> Result<(), SinkFailed> {
        let sent = self.send(layout, before, rows);
        self.or_fail(sent)
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

/// The blob, and the digest of its rows and of the rows before them.
struct Written {
    blob: BlobRef,
    digest: LogDigest,
}

enum Message {
    Rows(LogRows),
    Finish,
}

/// The thread. When its sender is dropped before `Finish`, what it wrote is not kept.
struct Encoding {
    messages: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<Result<Option<Written>, UploadError>>>,
}

impl Encoding {
    fn start(task: Task) -> Result<Self, UploadError> {
        let (sender, messages) = sync_channel(1);
        let thread = Builder::new().name("encode".into()).spawn(move || task.run(messages));
        let thread = thread.map_err(StoreError::from)?;
        Ok(Encoding { messages: Some(sender), thread: Some(thread) })
    }

    fn send(&mut self, message: Message) -> Result<(), UploadError> {
        if self.messages.as_ref().is_some_and(|messages| messages.send(message).is_ok()) {
            return Ok(());
        }
        // It stopped listening, and its end says why.
        Err(self.end().err().unwrap_or(UploadError::Crashed))
    }

    fn end(&mut self) -> Result<Option<Written>, UploadError> {
        self.messages = None;
        let ended = self.thread.take().map(JoinHandle::join);
        ended.and_then(Result::ok).unwrap_or(Err(UploadError::Crashed))
    }
}

impl Drop for Encoding {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

struct Task {
    blobs: Blobs,
    key: String,
    runtime: Handle,
    layout: LogLayout,
    digest: LogDigest,
}

impl Task {
    fn run(mut self, messages: Receiver<Message>) -> Result<Option<Written>, UploadError> {
        let mut writer = self.runtime.block_on(self.blobs.writer(std::mem::take(&mut self.key)))?;
        match self.write(&mut writer, messages) {
            Ok(true) => {
                let blob = self.runtime.block_on(writer.finish())?;
                Ok(Some(Written { blob, digest: self.digest }))
            }
            unfinished => {
                self.runtime.block_on(writer.abandon());
                unfinished.map(|_| None)
            }
        }
    }

    /// Whether it was told to finish.
    fn write(&mut self, writer: &mut BlobWriter, messages: Receiver<Message>) -> Result<bool, UploadError> {
        let mut encoder = LogEncoder::new(self.layout.clone());
        for message in messages {
            match message {
                Message::Rows(rows) => {
                    self.digest.update(&self.layout, &rows);
                    encoder.write(rows).map_err(encoding)?;
                    self.runtime.block_on(writer.write(encoder.take_bytes()))?;
                }
                Message::Finish => {
                    let rest = encoder.finish().map_err(encoding)?;
                    self.runtime.block_on(writer.write(rest))?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

fn encoding(error: parquet::errors::ParquetError) -> UploadError {
    UploadError::Store(StoreError::Damaged(format!("the log could not be encoded: {error}")))
}
