//! A pipe from an async stream of bytes to a reader on another thread, with a few chunks in between.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc;

use super::BodyError;

/// The most chunks in the pipe.
const CHUNKS: usize = 16;

/// What goes through the pipe.
pub enum Piece {
    Bytes(Bytes),
    /// The body is complete. Without it, the reader takes the end of the pipe for an error, so that it never
    /// mistakes a broken body for a short one, even if the sender was dropped.
    End,
}

/// The blocking end of the pipe.
pub struct PipeReader {
    pieces: mpsc::Receiver<Piece>,
    current: Bytes,
    ended: bool,
}

/// A new pipe.
pub fn pipe() -> (mpsc::Sender<Piece>, PipeReader) {
    let (sender, pieces) = mpsc::channel(CHUNKS);
    (sender, PipeReader { pieces, current: Bytes::new(), ended: false })
}

/// Sends the body to its end, or until the reader is gone.
pub async fn feed<S>(mut body: S, sender: mpsc::Sender<Piece>) -> Result<(), BodyError>
where
    S: Stream<Item = Result<Bytes, BodyError>> + Unpin,
{
    while let Some(bytes) = body.next().await {
        if sender.send(Piece::Bytes(bytes?)).await.is_err() {
            return Ok(());
        }
    }
    // If the reader is gone, nobody needs to know that the body is complete.
    let _ = sender.send(Piece::End).await;
    Ok(())
}

impl Read for PipeReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() && !self.ended {
            match self.pieces.blocking_recv() {
                Some(Piece::Bytes(bytes)) => self.current = bytes,
                Some(Piece::End) => self.ended = true,
                None => return Err(io::Error::other("the body ended early")),
            }
        }
        let n = to.len().min(self.current.len());
        self.current.copy_to_slice(&mut to[..n]);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    fn read(pieces: Vec<Result<Bytes, BodyError>>) -> (Result<(), BodyError>, io::Result<String>) {
        let (sender, mut reader) = pipe();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).map(|_| text)
        });
        let fed = runtime.block_on(feed(stream::iter(pieces), sender));
        (fed, reading.join().unwrap())
    }

    #[test]
    fn a_complete_body_is_read_to_its_end() {
        let pieces = ["ab", "", "c"].map(|text| Ok(Bytes::from(text)));
        let (fed, text) = read(pieces.into());
        assert!(fed.is_ok());
        assert_eq!(text.unwrap(), "abc");
    }

    #[test]
    fn a_broken_body_is_not_a_short_one() {
        let broken = BodyError::Broken("reset".into());
        let (fed, text) = read(vec![Ok(Bytes::from("ab")), Err(broken.clone())]);
        assert_eq!(fed, Err(broken));
        assert!(text.is_err());
    }

    #[test]
    fn a_sender_that_is_dropped_breaks_the_body() {
        let (sender, mut reader) = pipe();
        sender.try_send(Piece::Bytes(Bytes::from("ab"))).unwrap();
        drop(sender);
        assert!(reader.read_to_string(&mut String::new()).is_err());
    }
}
