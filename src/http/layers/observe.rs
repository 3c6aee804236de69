//! The log line and the metrics of every request, and the span in which it is handled.

use std::task::{Context, Poll};
use std::time::Instant;

use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use tower::{Layer, Service};
use tracing::Span;
use tracing::instrument::{Instrument, Instrumented};

use super::{Inner, OnResponse, Responding, Route, public_path, request_id};
use crate::http::metrics;

/// Logs and counts every request.
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

    fn call(&mut self, request: Request) -> Self::Future {
        let (method, path) = (request.method(), public_path(request.uri().path()));
        let span =
            tracing::info_span!("request", request_id = request_id::of(&request), %method, path = %path);
        let observed = Observed {
            started: Instant::now(),
            method: method.clone(),
            route: Route::of(&request),
            span: span.clone(),
        };
        let response = span.in_scope(|| self.inner.call(request));
        Responding::new(response.instrument(span), observed)
    }
}

/// What the log line and the metrics of a request need to know about it.
pub struct Observed {
    started: Instant,
    method: Method,
    route: Route,
    span: Span,
}

impl OnResponse for Observed {
    fn on_response(self, response: Response) -> Response {
        let (status, seconds) = (response.status().as_u16(), self.started.elapsed().as_secs_f64());
        self.span.in_scope(|| tracing::info!(status, ms = seconds * 1e3, "answered"));
        metrics::request(&self.method, self.route.as_str(), status, seconds);
        response
    }
}
