//! Request ids: the client's, if it is safe to log, otherwise a new one. tower-http's layers put it
//! on the request and on the response.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use tower_http::request_id::{MakeRequestId, RequestId};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Removes an id that should not be written to a log, so that the request gets a new one.
pub fn remove_unsafe(mut request: Request) -> Request {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.:".contains(b);
    let safe = |id: &HeaderValue| (1..=128).contains(&id.len()) && id.as_bytes().iter().all(plain);
    if request.headers().get(REQUEST_ID).is_some_and(|id| !safe(id)) {
        request.headers_mut().remove(REQUEST_ID);
    }
    request
}

/// Makes the ids of requests that have none.
#[derive(Clone, Copy)]
pub struct NewIds;

impl MakeRequestId for NewIds {
    fn make_request_id<B>(&mut self, _: &axum::http::Request<B>) -> Option<RequestId> {
        let id = new_id();
        let mut text = uuid::Uuid::encode_buffer();
        let text = id.hyphenated().encode_lower(&mut text);
        HeaderValue::from_str(text).ok().map(RequestId::new)
    }
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
    let id = request.extensions().get::<RequestId>().map(RequestId::header_value);
    id.and_then(|id| id.to_str().ok()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    #[test]
    fn new_ids_are_version_7_and_unique() {
        let ids: std::collections::HashSet<uuid::Uuid> = (0..1000).map(|_| new_id()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
    }

    #[test]
    fn only_ids_that_are_safe_to_log_are_kept() {
        let kept = |value: &[u8]| {
            let request = Request::builder().header(REQUEST_ID, value).body(Body::empty()).unwrap();
            remove_unsafe(request).headers().contains_key(REQUEST_ID)
        };
        assert!(kept(b"trace-1.2:3_x"));
        for bad in [&b""[..], b"a b", b"a\tb", b"\xc3\xa9", b"a\"b", b"a=b", &[b'a'; 129]] {
            assert!(!kept(bad), "{bad:?}");
        }
    }
}
