//! Panics become a 500 that reveals nothing.
//!
//! tower-http's `CatchPanic` boxes the body of every response, which polling would pay for, so this layer
//! is ours.

use std::any::Any;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures_util::future::{CatchUnwind, FutureExt};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use super::Inner;
use crate::http::problem::Problem;

/// Catches the panics of what is inside.
#[derive(Clone, Copy)]
pub struct PanicsLayer;

impl<S> Layer<S> for PanicsLayer {
    type Service = Panics<S>;

    fn layer(&self, inner: S) -> Panics<S> {
        Panics { inner }
    }
}

/// The service of [`PanicsLayer`].
#[derive(Clone)]
pub struct Panics<S> {
    inner: S,
}

impl<S: Inner> Service<Request> for Panics<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = Catching<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match catch_unwind(AssertUnwindSafe(|| self.inner.call(request))) {
            Ok(future) => Catching::Running { future: AssertUnwindSafe(future).catch_unwind() },
            Err(panic) => Catching::Panicked { panic: Some(panic) },
        }
    }
}

type Payload = Box<dyn Any + Send>;

pin_project! {
    /// The future of [`Panics`].
    #[project = Caught]
    pub enum Catching<F> {
        /// The inner service returned a future.
        Running { #[pin] future: CatchUnwind<AssertUnwindSafe<F>> },
        /// The inner service panicked before it returned one.
        Panicked { panic: Option<Payload> },
    }
}

impl<F: Future<Output = Result<Response, Infallible>>> Future for Catching<F> {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let panic = match self.project() {
            Caught::Running { future } => match std::task::ready!(future.poll(context)) {
                Ok(response) => return Poll::Ready(response),
                Err(panic) => panic,
            },
            Caught::Panicked { panic } => panic.take().unwrap_or_else(|| Box::new(())),
        };
        Poll::Ready(Ok(Problem::internal(message(&*panic)).into_response()))
    }
}

/// The message of a panic, for the log only.
pub fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}
