//! The time limit of a request: longer for uploads than for everything else. tower's `Timeout` has
//! one limit for all routes, and its error would have to be turned into a problem anyway.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use pin_project_lite::pin_project;
use tokio::time::Timeout;
use tower::{Layer, Service};

use super::{Inner, is_upload};
use crate::config::Config;
use crate::http::codes::Code;
use crate::http::problem::Problem;

/// Ends requests that take too long.
#[derive(Clone, Copy)]
pub struct TimeLimitLayer {
    uploads: Duration,
    others: Duration,
}

impl TimeLimitLayer {
    /// The limits of `config`.
    pub fn new(config: &Config) -> TimeLimitLayer {
        TimeLimitLayer {
            uploads: Duration::from_secs(config.upload_seconds),
            others: Duration::from_secs(config.request_seconds),
        }
    }
}

impl<S> Layer<S> for TimeLimitLayer {
    type Service = TimeLimit<S>;

    fn layer(&self, inner: S) -> TimeLimit<S> {
        TimeLimit { inner, limits: *self }
    }
}

/// The service of [`TimeLimitLayer`].
#[derive(Clone)]
pub struct TimeLimit<S> {
    inner: S,
    limits: TimeLimitLayer,
}

impl<S: Inner> Service<Request> for TimeLimit<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = Limited<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let limit = match is_upload(&request) {
            true => self.limits.uploads,
            false => self.limits.others,
        };
        Limited { inner: tokio::time::timeout(limit, self.inner.call(request)), limit }
    }
}

pin_project! {
    /// The future of [`TimeLimit`].
    pub struct Limited<F> {
        #[pin]
        inner: Timeout<F>,
        limit: Duration,
    }
}

impl<F: Future<Output = Result<Response, Infallible>>> Future for Limited<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        Poll::Ready(ready!(this.inner.poll(context)).unwrap_or_else(|_| {
            let detail = format!("No response within {} seconds; try again.", this.limit.as_secs());
            Ok(Problem::new(Code::RequestTimeout, detail).into_response())
        }))
    }
}
