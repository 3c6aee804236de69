//! Request ids: the client's, if it is safe to log, otherwise a new one.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// The header with the id, of requests and of responses.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id for a request with these headers.
pub fn of(headers: &HeaderMap) -> HeaderValue {
    safe_id(headers).cloned().unwrap_or_else(new_value)
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
