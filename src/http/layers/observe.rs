//! What every request and its response get: a request id, a span, a log line and metrics, the body of a problem, and
//! the headers that all responses have.
//!
//! tower-http has layers for some of this. Every layer of its own would be paid for by polling.

use std::task::{Context, Poll};
use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::response::Response;
use tower::{Layer, Service};
use tracing::Span;
use tracing::instrument::{Instrument, Instrumented};

use super::{Inner, OnResponse, Responding, Route, problems, public_path, request_id};
use crate::http::metrics;

/// Identifies, logs and counts every request.
#[derive(Clone, Copy)]
pub struct ObserveLayer;

impl<S> Layer<S> for ObserveLayer {
    type Service = Observe<S>;

    fn layer(&self, inner: S) -> Observe<S> {
        Observe { inner }
    }
}

/// The service of [`ObserveLayer`].
#[derive(Clone)]
pub struct Observe<S> {
    inner: S,
}

impl<S: Inner> Service<Request> for Observe<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = Responding<Instrumented<S::Future>, Observed>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        hide_keys(request.headers_mut());
        let route = Route::of(&request);
        let observed = Observed::begin(request.method(), request.uri(), request.headers(), route);
        let span = observed.span.clone();
        let response = span.in_scope(|| self.inner.call(request));
        Responding::new(response.instrument(span), observed)
    }
}

/// Marks API keys as sensitive, so that nothing that prints the headers shows them.
fn hide_keys(headers: &mut HeaderMap) {
    headers
        .iter_mut()
        .filter(|(name, _)| *name == header::AUTHORIZATION)
        .for_each(|(_, value)| value.set_sensitive(true));
}

/// What is known about a request when it is answered.
pub struct Observed {
    started: Instant,
    id: HeaderValue,
    method: Method,
    uri: Uri,
    route: Route,
    span: Span,
}

impl Observed {
    /// For a request that has just arrived.
    pub fn begin(method: &Method, uri: &Uri, headers: &HeaderMap, route: Route) -> Observed {
        let (method, uri, id) = (method.clone(), uri.clone(), request_id::of(headers));
        // The fields are evaluated only if somebody reads them.
        let span = tracing::info_span!(
            "request",
            request_id = id.to_str().unwrap_or(""),
            %method,
            path = %public_path(uri.path()),
        );
        Observed { started: Instant::now(), id, method, uri, route, span }
    }

    /// The span in which the request is handled.
    pub fn span(&self) -> &Span {
        &self.span
    }
}

impl OnResponse for Observed {
    fn on_response(self, response: Response) -> Response {
        let (response, span) = (problems::written(response, &self.uri), &self.span);
        let (status, seconds) = (response.status().as_u16(), self.started.elapsed().as_secs_f64());
        span.in_scope(|| tracing::info!(status, ms = seconds * 1e3, "answered"));
        metrics::request(&self.method, self.route.as_str(), status, seconds);
        with_headers(response, self.id)
    }
}

/// The response with the headers that all responses have.
fn with_headers(mut response: Response, id: HeaderValue) -> Response {
    let headers = response.headers_mut();
    headers.insert(request_id::REQUEST_ID, id);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
