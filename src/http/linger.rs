//! Answers that come before the body was read. A connection that is closed on unread bytes is reset,
//! and the client may lose the answer that would have told it why; so a while is spent reading what is
//! left and throwing it away.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;

/// What is read and thrown away at most: enough for small faults, too little to be a burden.
const BYTES: usize = 8 << 20;
const TIME: Duration = Duration::from_secs(1);

/// A body that stays within reach when whoever reads it lets it go.
pub struct Lingering {
    body: Arc<Mutex<Body>>,
    /// A client that asked first has sent nothing yet, and should not be made to.
    asked_first: bool,
}

impl Lingering {
    /// The body to hand on, and the hold on it.
    pub fn new(headers: &HeaderMap, body: Body) -> (Body, Lingering) {
        let body = Arc::new(Mutex::new(body));
        let asked_first = headers.contains_key(header::EXPECT);
        (Body::new(Handed(body.clone())), Lingering { body, asked_first })
    }

    /// Reads what is left, for a while.
    pub async fn drain(self) {
        if self.asked_first || Arc::strong_count(&self.body) > 1 {
            // Somebody still reads it, in a task of its own.
            return;
        }
        let mut rest = Handed(self.body);
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

struct Handed(Arc<Mutex<Body>>);

impl HttpBody for Handed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        let mut body = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Pin::new(&mut *body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).size_hint()
    }
}
