//! Request ids: the client's, if it is safe to log, otherwise a new one.
//!
//! tower-http's layers also put the id into the headers of the request and the extensions of the response,
//! where nobody reads it. Polling would pay for that, so this layer is ours.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::SystemTime;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use tower::{Layer, Service};

use super::{Inner, OnResponse, Responding};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Gives each request an id, and its response the same.
#[derive(Clone, Copy)]
pub struct RequestIdLayer;

impl<S> Layer<S> for RequestIdLayer {
    type Service = Identified<S>;

    fn layer(&self, inner: S) -> Identified<S> {
        Identified { inner }
    }
}

/// The service of [`RequestIdLayer`].
#[derive(Clone)]
pub struct Identified<S> {
    inner: S,
}

impl<S: Inner> Service<Request> for Identified<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = Responding<S::Future, RequestId>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let id = RequestId(safe_id(request.headers()).cloned().unwrap_or_else(new_value));
        request.extensions_mut().insert(id.clone());
        Responding::new(self.inner.call(request), id)
    }
}

/// The id of a request, in its extensions.
#[derive(Clone)]
pub struct RequestId(HeaderValue);

impl OnResponse for RequestId {
    fn on_response(self, mut response: Response) -> Response {
        response.headers_mut().insert(REQUEST_ID, self.0);
        response
    }
}

/// The id that the client sent, if it is safe to write to a log.
fn safe_id(headers: &HeaderMap) -> Option<&HeaderValue> {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.:".contains(b);
    let safe = |id: &&HeaderValue| (1..=128).contains(&id.len()) && id.as_bytes().iter().all(plain);
    headers.get(REQUEST_ID).filter(safe)
}

/// A new id as the value of a header.
fn new_value() -> HeaderValue {
    let mut text = uuid::Uuid::encode_buffer();
    let text = new_id().hyphenated().encode_lower(&mut text);
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("none"))
}

/// A UUIDv7 whose random part counts up from a random start: just as unique, without a system call
/// for each. It is not a secret.
fn new_id() -> uuid::Uuid {
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| {
        let (_, random) = uuid::Uuid::new_v7(uuid::Timestamp::now(uuid::NoContext)).as_u64_pair();
        AtomicU64::new(random)
    });
    let mut random = [0; 10];
    random[2..].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    uuid::Builder::from_unix_timestamp_millis(since.as_millis() as u64, &random).into_uuid()
}

/// The id of a request, for its log lines.
pub fn of(request: &Request) -> &str {
    request.extensions().get::<RequestId>().and_then(|id| id.0.to_str().ok()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_ids_are_version_7_and_unique() {
        let ids: std::collections::HashSet<uuid::Uuid> = (0..1000).map(|_| new_id()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
    }

    #[test]
    fn only_ids_that_are_safe_to_log_are_kept() {
        let kept = |value: &[u8]| {
            let value = HeaderValue::from_bytes(value).unwrap();
            safe_id(&HeaderMap::from_iter([(REQUEST_ID, value)])).is_some()
        };
        assert!(kept(b"trace-1.2:3_x"));
        for bad in [&b""[..], b"a b", b"a\tb", b"\xc3\xa9", b"a\"b", b"a=b", &[b'a'; 129]] {
            assert!(!kept(bad), "{bad:?}");
        }
    }
}
