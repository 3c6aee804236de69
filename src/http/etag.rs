//! `ETag` and `If-None-Match`. A resource's tag is its revision, which grows with every change.

use axum::Json;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::problem::Problem;

/// Whether the client's `If-None-Match` names `tag` (weak comparison, as RFC 9110 asks for GET).
fn matches(headers: &HeaderMap, tag: &str) -> bool {
    let opaque = |t: &str| t.trim().trim_start_matches("W/") == tag;
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|v| v.to_str().ok());
    values.flat_map(|v| v.split(',')).any(|t| t.trim() == "*" || opaque(t))
}

/// 304 where the client has this version already, else `body` with its tag.
pub fn tagged<T: Serialize>(headers: &HeaderMap, tag: &str, body: impl FnOnce() -> T) -> Response {
    let tag = format!("\"{tag}\"");
    let response = match matches(headers, &tag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => Json(body()).into_response(),
    };
    with_tag(response, &tag)
}

/// The same for a body that is JSON already.
pub fn tagged_bytes(
    headers: &HeaderMap,
    revision: u64,
    body: impl FnOnce() -> Result<Bytes, Problem>,
) -> Result<Response, Problem> {
    let tag = format!("\"{revision}\"");
    let response = match matches(headers, &tag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(header::CONTENT_TYPE, "application/json")], body()?).into_response(),
    };
    Ok(with_tag(response, &tag))
}

fn with_tag(mut response: Response, tag: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, value);
    }
    // A cache between the client and us must ask each time; asking is cheap.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_match_singly_in_lists_weakly_and_by_star() {
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
