//! The time limit of a request: longer for uploads than for everything else. tower's `Timeout` has
//! one limit for all routes, and its error would have to be turned into a problem anyway.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use pin_project_lite::pin_project;
use tokio::task::coop::{Unconstrained, unconstrained};
use tokio::time::Sleep;
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
        Limited { inner: self.inner.call(request), limit, clock: None }
    }
}

pin_project! {
    /// The future of [`TimeLimit`]. The clock runs from when the response has to wait for something: most are ready at
    /// once, and need no timer.
    pub struct Limited<F> {
        #[pin]
        inner: F,
        limit: Duration,
        clock: Option<Pin<Box<Unconstrained<Sleep>>>>,
    }
}

impl<F: Future<Output = Result<Response, Infallible>>> Future for Limited<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if let Poll::Ready(response) = this.inner.poll(context) {
            return Poll::Ready(response);
        }
        let limit = *this.limit;
        // Unconstrained: a response that is always busy must not keep its clock from running.
        let clock = this.clock.get_or_insert_with(|| Box::pin(unconstrained(tokio::time::sleep(limit))));
        ready!(clock.as_mut().poll(context));
        let detail = format!("No response within {} seconds; try again.", limit.as_secs());
        Poll::Ready(Ok(Problem::new(Code::RequestTimeout, detail).into_response()))
    }
}
