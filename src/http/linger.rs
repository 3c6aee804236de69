//! A request's body, held on to while its reader has it.
//!
//! Two reasons. A client that stops sending is given up after a while, whoever reads. And an answer may
//! come before the body was read: a connection that is closed on unread bytes is reset, and the client
//! may lose the answer that would have told it why; so a while is spent reading what is left and
//! throwing it away.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;
use tokio::time::{Instant, Sleep};

/// What is read and thrown away at most: enough for small faults, too little to be a burden.
const BYTES: usize = 8 << 20;
const TIME: Duration = Duration::from_secs(1);

/// A body that stays within reach when whoever reads it lets it go.
pub struct Lingering {
    held: Arc<Mutex<Held>>,
    /// A client that asked first has sent nothing yet, and should not be made to.
    asked_first: bool,
}

struct Held {
    body: Body,
    stall: Duration,
    /// Runs while the client is waited for.
    silence: Option<Pin<Box<Sleep>>>,
    waiting: bool,
    stalled: bool,
}

impl Lingering {
    /// The body to hand on and, where there is anything to read, the hold on it. Reading fails when
    /// nothing comes for `stall`.
    pub fn new(headers: &HeaderMap, body: Body, stall: Duration) -> (Body, Option<Lingering>) {
        if body.is_end_stream() {
            return (body, None);
        }
        let held = Held { body, stall, silence: None, waiting: false, stalled: false };
        let held = Arc::new(Mutex::new(held));
        let asked_first = headers.contains_key(header::EXPECT);
        (Body::new(Handed(held.clone())), Some(Lingering { held, asked_first }))
    }

    pub fn has_stalled(&self) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).stalled
    }

    /// Reads what is left, for a while.
    pub async fn drain(self) {
        if self.asked_first || Arc::strong_count(&self.held) > 1 {
            // Somebody still reads it, in a task of its own.
            return;
        }
        let mut rest = Handed(self.held);
        let reading = async {
            let mut read = 0;
            while let Some(Ok(frame)) = rest.frame().await {
                read += frame.data_ref().map_or(0, Bytes::len);
                if read > BYTES {
                    break;
                }
            }
        };
        // Time over: the connection closes as it would have without this.
        let _ = tokio::time::timeout(TIME, reading).await;
    }
}

type Frame = Option<Result<http_body::Frame<Bytes>, axum::Error>>;

impl Held {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Frame> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_ready() {
            self.waiting = false;
            return frame;
        }
        let deadline = Instant::now() + self.stall;
        let silence = self.silence.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if !self.waiting {
            self.waiting = true;
            silence.as_mut().reset(deadline);
        }
        match silence.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                self.stalled = true;
                Poll::Ready(Some(Err(axum::Error::new("the client stopped sending"))))
            }
        }
    }
}

struct Handed(Arc<Mutex<Held>>);

impl HttpBody for Handed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Frame> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).poll(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).body.size_hint()
    }
}
