//! Conditional requests: `ETag` and `If-None-Match`. The tag of a resource is its revision, which
//! changes with every change of the resource, or its digest.

use std::fmt::Display;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;

use super::problem::Problem;

/// The JSON from `body` with its tag, or 304 if the client already has this version.
pub fn tagged(
    headers: &HeaderMap,
    tag: impl Display,
    body: impl FnOnce() -> Result<Bytes, Problem>,
) -> Result<Response, Problem> {
    let tag = format!("\"{tag}\"");
    // Polling is answered here, so no header is written twice.
    let mut response = Response::default();
    if matches(headers, &tag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        *response.body_mut() = Body::from(body()?);
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
    }
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(tag)) {
        response.headers_mut().insert(header::ETAG, value);
    }
    // A cache between the client and the server must ask every time; asking is cheap.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}

/// A value as JSON.
pub fn json<T: Serialize>(value: &T) -> Result<Bytes, Problem> {
    serde_json::to_vec(value).map(Bytes::from).map_err(Problem::internal)
}

/// Whether the client's `If-None-Match` names `tag` (weak comparison, as RFC 9110 requires for GET).
pub fn matches(headers: &HeaderMap, tag: &str) -> bool {
    let opaque = |t: &str| t.trim().trim_start_matches("W/") == tag;
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|v| v.to_str().ok());
    values.flat_map(|v| v.split(',')).any(|t| t.trim() == "*" || opaque(t))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_match_alone_in_lists_weakly_and_by_star() {
        let with = |value: &'static str| {
            HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_static(value))])
        };
        for yes in ["\"3\"", "W/\"3\"", "\"1\", \"3\"", "*"] {
            assert!(matches(&with(yes), "\"3\""), "{yes}");
        }
        for no in ["\"33\"", "3", "", "\"1\",\"2\""] {
            assert!(!matches(&with(no), "\"3\""), "{no}");
        }
        assert!(!matches(&HeaderMap::new(), "\"3\""));
    }
}
