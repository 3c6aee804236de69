//! Compression of large JSON responses for clients that accept gzip; tower-http compresses.
//!
//! Event streams are not JSON and are never held back. Small responses are sent as they are: a job
//! that is polled fits a packet or two, and compressing it would cost more than sending it.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use http_body::Body;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::Predicate;

/// Bodies of fewer bytes are sent as they are.
const SMALLEST: u64 = 8 << 10;

/// The layer that compresses.
pub fn layer() -> CompressionLayer<LargeJson> {
    CompressionLayer::new().compress_when(LargeJson)
}

/// Compresses JSON whose length is known and large enough.
#[derive(Clone, Copy)]
pub struct LargeJson;

impl Predicate for LargeJson {
    fn should_compress<B: Body>(&self, response: &Response<B>) -> bool {
        let kind = response.headers().get(header::CONTENT_TYPE);
        let json = ["application/json", "application/problem+json"];
        response.body().size_hint().exact().is_some_and(|bytes| bytes >= SMALLEST)
            && kind.is_some_and(|kind| json.iter().any(|name| kind == name))
    }
}

/// Removes an `Accept-Encoding` that does not accept gzip. tower-http would answer 406 to one that
/// rules out every coding, although the work is done; RFC 9110 recommends the plain body instead.
pub fn remove_unusable(mut request: Request) -> Request {
    if request.headers().contains_key(header::ACCEPT_ENCODING) && !accepts_gzip(request.headers()) {
        request.headers_mut().remove(header::ACCEPT_ENCODING);
    }
    request
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let (mut gzip, mut any) = (None, None);
    for member in values.flat_map(|value| value.split(',')) {
        let (coding, quality) = member.split_once(';').unwrap_or((member, "q=1"));
        let quality = quality.trim().to_ascii_lowercase();
        let wanted = quality.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok());
        let wanted = wanted.is_some_and(|q| q > 0.0 && q <= 1.0);
        match coding.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => gzip = Some(wanted),
            "*" => any = Some(wanted),
            _ => {}
        }
    }
    gzip.or(any).unwrap_or(false)
}

/// A strong `ETag` identifies the exact bytes, so a compressed response gets a weak one, which still
/// matches in `If-None-Match`.
pub fn weaken_etag<B>(mut response: Response<B>) -> Response<B> {
    if !response.headers().contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    let tag = response.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok());
    if let Some(tag) = tag.filter(|tag| !tag.starts_with("W/"))
        && let Ok(weak) = HeaderValue::try_from(format!("W/{tag}"))
    {
        response.headers_mut().insert(header::ETAG, weak);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_accepted_by_name_or_by_star_unless_its_quality_is_0() {
        let accepts = |value: &'static str| {
            accepts_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))]))
        };
        for yes in ["gzip", "br, GZip;q=0.5", "*", "x-gzip", "identity;q=0, gzip", "gzip, *;q=0"] {
            assert!(accepts(yes), "{yes}");
        }
        for no in ["", "br", "identity", "gzip;q=0", "*;q=0", "gzip;q=0, *", "gzip;q=x", "identity;q=0"] {
            assert!(!accepts(no), "{no}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
