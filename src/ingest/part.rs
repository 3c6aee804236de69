//! The file that the rows of an upload go into, made with the first of them. It is encoded, and the
//! rows' digest taken, on a thread of its own, beside the one that checks the rows.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use tokio::runtime::Handle;

use super::errors::IngestError;
use crate::store::{BlobRef, BlobWriter, Blobs, LogDigest, LogEncoder, LogLayout, LogRows, StoreError};

pub struct Part {
    blobs: Blobs,
    key: String,
    runtime: Handle,
    open: Option<Encoding>,
}

impl Part {
    /// On an async thread; everything else here is for a blocking one.
    pub fn new(blobs: Blobs, key: String) -> Self {
        Part { blobs, key, runtime: Handle::current(), open: None }
    }

    /// `before` is the digest of the rows before the first.
    pub fn write(
        &mut self,
        layout: &LogLayout,
        before: &LogDigest,
        rows: LogRows,
    ) -> Result<(), IngestError> {
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
        let Some(encoding) = &mut self.open else { return Err(IngestError::Crashed) };
        encoding.send(Message::Rows(rows))
    }

    /// Nothing is left of it when this returns, nor when it is dropped.
    pub fn discard(&mut self) {
        self.open = None;
    }

    /// None where nothing was written.
    pub fn finish(mut self) -> Result<Option<Written>, IngestError> {
        let Some(mut encoding) = self.open.take() else { return Ok(None) };
        encoding.send(Message::Finish)?;
        encoding.end()
    }
}

/// The file, and the digest of the rows in it and before it.
pub struct Written {
    pub blob: BlobRef,
    pub digest: LogDigest,
}

enum Message {
    Rows(LogRows),
    Finish,
}

/// The thread. When its sender is dropped before `Finish`, what it wrote is not kept.
struct Encoding {
    messages: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<Result<Option<Written>, IngestError>>>,
}

impl Encoding {
    fn start(task: Task) -> Result<Self, IngestError> {
        let (sender, messages) = sync_channel(1);
        let thread = Builder::new().name("encode".into()).spawn(move || task.run(messages));
        let thread = thread.map_err(StoreError::from)?;
        Ok(Encoding { messages: Some(sender), thread: Some(thread) })
    }

    fn send(&mut self, message: Message) -> Result<(), IngestError> {
        if self.messages.as_ref().is_some_and(|messages| messages.send(message).is_ok()) {
            return Ok(());
        }
        // It stopped listening, and its end says why.
        Err(self.end().err().unwrap_or(IngestError::Crashed))
    }

    fn end(&mut self) -> Result<Option<Written>, IngestError> {
        self.messages = None;
        let ended = self.thread.take().map(JoinHandle::join);
        ended.and_then(Result::ok).unwrap_or(Err(IngestError::Crashed))
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
    fn run(mut self, messages: Receiver<Message>) -> Result<Option<Written>, IngestError> {
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
    fn write(&mut self, writer: &mut BlobWriter, messages: Receiver<Message>) -> Result<bool, IngestError> {
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

fn encoding(error: ::parquet::errors::ParquetError) -> IngestError {
    IngestError::Store(StoreError::Damaged(format!("the log could not be encoded: {error}")))
}
