//! Shares the body of a request with its handler, for two reasons.
//!
//! A client that stops sending must not hold a request forever: reading fails after
//! `upload_stall_seconds` of silence, and the response is a 408. And a request may be rejected
//! before its body was read: closing a connection with unread bytes resets it, and the client may
//! lose the response that explains the rejection. So the rest of the body is read and discarded,
//! within limits.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::{BoxFuture, Either};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};
use tower::{Layer, Service};

use super::Inner;
use crate::config::Config;
use crate::http::codes::Code;
use crate::http::problem::Problem;

/// The most bytes that are read and discarded: enough for small mistakes, too few to be a burden.
const DISCARDED_BYTES: usize = 8 << 20;
/// The most time spent on it.
const DISCARDING_TIME: Duration = Duration::from_secs(1);

/// Watches bodies for silence, and reads the rest of rejected ones.
#[derive(Clone, Copy)]
pub struct LingerLayer {
    stall: Duration,
}

impl LingerLayer {
    /// The layer with the time limit of `config`.
    pub fn new(config: &Config) -> LingerLayer {
        LingerLayer { stall: Duration::from_secs(config.upload_stall_seconds) }
    }
}

impl<S> Layer<S> for LingerLayer {
    type Service = Linger<S>;

    fn layer(&self, inner: S) -> Linger<S> {
        Linger { inner, stall: self.stall }
    }
}

/// The service of [`LingerLayer`].
#[derive(Clone)]
pub struct Linger<S> {
    inner: S,
    stall: Duration,
}

impl<S: Inner> Service<Request> for Linger<S>
where
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        if request.body().is_end_stream() {
            return Either::Left(self.inner.call(request));
        }
        let (parts, body) = request.into_parts();
        let (body, rest) = Lingering::new(&parts.headers, body, self.stall);
        let response = self.inner.call(Request::from_parts(parts, body));
        // Awaiting also drops the inner future, so that it no longer holds the body.
        Either::Right(Box::pin(async move { Ok(rest.settle(response.await?).await) }))
    }
}

/// A handle to a body that was passed to a handler.
struct Lingering {
    held: Arc<Mutex<Held>>,
    stall: Duration,
    /// Whether the client sent `Expect: 100-continue`. It then has sent no body yet, and need not.
    asked_first: bool,
}

struct Held {
    body: Body,
    stall: Duration,
    /// Runs while the next bytes are awaited.
    silence: Option<Pin<Box<Sleep>>>,
    waiting: bool,
    stalled: bool,
}

impl Lingering {
    /// The body to pass on, and the handle to it. Reading fails when nothing arrives for `stall`.
    fn new(headers: &HeaderMap, body: Body, stall: Duration) -> (Body, Lingering) {
        let held = Held { body, stall, silence: None, waiting: false, stalled: false };
        let held = Arc::new(Mutex::new(held));
        let asked_first = headers.contains_key(header::EXPECT);
        (Body::new(Handed(held.clone())), Lingering { held, stall, asked_first })
    }

    /// Replaces the response if the body stalled, and reads the rest of a rejected one.
    async fn settle(self, response: Response) -> Response {
        if response.status().is_success() {
            return response;
        }
        if self.has_stalled() {
            let seconds = self.stall.as_secs();
            let detail = format!("No bytes of the body arrived for {seconds} seconds; send it again.");
            return Problem::new(Code::RequestTimeout, detail).into_response();
        }
        // A full disk rejects a body in the middle, like a body that is not valid.
        let rejected =
            response.status().is_client_error() || response.status() == StatusCode::INSUFFICIENT_STORAGE;
        if rejected {
            self.drain().await;
        }
        response
    }

    fn has_stalled(&self) -> bool {
        self.held.lock().stalled
    }

    /// Reads and discards what is left, within the limits.
    async fn drain(self) {
        if self.asked_first || Arc::strong_count(&self.held) > 1 {
            // A background task is still reading it.
            return;
        }
        let mut rest = Handed(self.held);
        let reading = async {
            let mut read = 0;
            while let Some(Ok(frame)) = rest.frame().await {
                read += frame.data_ref().map_or(0, Bytes::len);
                if read > DISCARDED_BYTES {
                    break;
                }
            }
        };
        // Out of time: the connection closes as it would have without this.
        let _ = tokio::time::timeout(DISCARDING_TIME, reading).await;
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

/// The body as the handler sees it.
struct Handed(Arc<Mutex<Held>>);

impl HttpBody for Handed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Frame> {
        self.0.lock().poll(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.0.lock().body.size_hint()
    }
}
