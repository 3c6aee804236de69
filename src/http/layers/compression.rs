//! Compression of large JSON responses for clients that accept gzip; tower-http compresses.
//!
//! Event streams are not JSON and are never held back. Small responses are sent as they are: a job
//! that is polled fits a packet or two, and compressing it would cost more than sending it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use futures_util::future::Either;
use pin_project_lite::pin_project;
use tower::{Layer, Service};
use tower_http::compression::predicate::Predicate;
use tower_http::compression::{Compression, CompressionBody, ResponseFuture};

use super::Inner;

/// Bodies of fewer bytes are sent as they are.
pub const SMALLEST: u64 = 8 << 10;

/// Compresses large JSON responses for clients that accept gzip.
///
/// Other requests bypass tower-http's service. It would wrap the body of every response, which polling
/// would pay for, and answer 406 to an `Accept-Encoding` that excludes every coding, where RFC 9110 asks
/// for the plain body.
#[derive(Clone, Copy)]
pub struct GzipLayer;

impl<S: Clone> Layer<S> for GzipLayer {
    type Service = Gzip<S>;

    fn layer(&self, inner: S) -> Gzip<S> {
        Gzip(Compression::new(inner).compress_when(LargeJson))
    }
}

/// The service of [`GzipLayer`].
#[derive(Clone)]
pub struct Gzip<S>(Compression<S, LargeJson>);

impl<S: Inner> Service<Request> for Gzip<S> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, Gzipping<ResponseFuture<S::Future, LargeJson>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.get_mut().poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match accepts_gzip(request.headers()) {
            true => Either::Right(Gzipping { inner: self.0.call(request) }),
            false => Either::Left(self.0.get_mut().call(request)),
        }
    }
}

pin_project! {
    /// The future of a response that may be compressed.
    pub struct Gzipping<F> {
        #[pin]
        inner: F,
    }
}

impl<F> Future for Gzipping<F>
where
    F: Future<Output = Result<Response<CompressionBody<Body>>, Infallible>>,
{
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Ok(response) = ready!(self.project().inner.poll(context));
        Poll::Ready(Ok(weaken_etag(response).map(Body::new)))
    }
}

/// Compresses JSON whose length is known and large enough.
#[derive(Clone, Copy)]
pub struct LargeJson;

impl Predicate for LargeJson {
    fn should_compress<B: http_body::Body>(&self, response: &Response<B>) -> bool {
        let kind = response.headers().get(header::CONTENT_TYPE);
        let json = ["application/json", "application/problem+json"];
        response.body().size_hint().exact().is_some_and(|bytes| bytes >= SMALLEST)
            && kind.is_some_and(|kind| json.iter().any(|name| kind == name))
    }
}

/// Whether a request accepts gzip.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let (mut gzip, mut any) = (None, None);
    for member in values.flat_map(|value| value.split(',')) {
        let (coding, quality) = member.split_once(';').unwrap_or((member, "q=1"));
        let wanted = is_wanted(&quality.trim().to_ascii_lowercase());
        match coding.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => gzip = Some(wanted),
            "*" => any = Some(wanted),
            _ => {}
        }
    }
    gzip.or(any).unwrap_or(false)
}

/// Whether this is a weight above 0. One that is none by RFC 9110, such as one with four decimals, says nothing: tower-http
/// would not understand it.
fn is_wanted(weight: &str) -> bool {
    let number = weight.strip_prefix("q=").filter(|q| q.len() <= 5);
    let digits = number.filter(|q| q.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'));
    digits.and_then(|q| q.parse::<f32>().ok()).is_some_and(|q| q > 0.0 && q <= 1.0)
}

/// A strong `ETag` identifies the exact bytes, so a compressed response gets a weak one, which still
/// matches in `If-None-Match`.
fn weaken_etag<B>(mut response: Response<B>) -> Response<B> {
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
        for no in [
            "",
            "br",
            "identity",
            "gzip;q=0",
            "*;q=0",
            "gzip;q=0, *",
            "gzip;q=x",
            "identity;q=0",
            "gzip;q=0.5555",
            "gzip;q=1e0",
        ] {
            assert!(!accepts(no), "{no}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
