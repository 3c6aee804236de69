//! From an async stream of bytes to a reader on another thread, a few chunks in between.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc;

use super::BodyError;

const CHUNKS: usize = 16;

type Chunk = Result<Bytes, ()>;

pub struct PipeReader {
    chunks: mpsc::Receiver<Chunk>,
    current: Bytes,
}

pub fn pipe() -> (mpsc::Sender<Chunk>, PipeReader) {
    let (sender, chunks) = mpsc::channel(CHUNKS);
    (sender, PipeReader { chunks, current: Bytes::new() })
}

/// Sends the whole body, or as much of it as the reader wants.
pub async fn feed<S>(mut body: S, sender: mpsc::Sender<Chunk>) -> Result<(), BodyError>
where
    S: Stream<Item = Result<Bytes, BodyError>> + Unpin,
{
    while let Some(chunk) = body.next().await {
        match chunk {
            Ok(bytes) => {
                if sender.send(Ok(bytes)).await.is_err() {
                    return Ok(());
                }
            }
            Err(error) => {
                // The reader must not take a broken body for a short one.
                let _ = sender.send(Err(())).await;
                return Err(error);
            }
        }
    }
    Ok(())
}

impl Read for PipeReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.chunks.blocking_recv() {
                Some(Ok(bytes)) => self.current = bytes,
                Some(Err(())) => return Err(io::Error::other("the body broke off")),
                None => return Ok(0),
            }
        }
        let n = to.len().min(self.current.len());
        self.current.copy_to_slice(&mut to[..n]);
        Ok(n)
    }
}
