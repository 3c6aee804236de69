//! Bodies of problems. Handlers and layers return a [`Problem`] in the extensions of a response;
//! this layer writes it as `application/problem+json` with the path of the request.

use std::task::{Context, Poll};

use axum::extract::Request;
use axum::http::Uri;
use axum::response::Response;
use tower::{Layer, Service};

use super::{Inner, OnResponse, Responding, public_path};
use crate::http::problem::Problem;

/// Writes the bodies of problems.
#[derive(Clone, Copy)]
pub struct ProblemsLayer;

impl<S> Layer<S> for ProblemsLayer {
    type Service = Problems<S>;

    fn layer(&self, inner: S) -> Problems<S> {
        Problems { inner }
    }
}

/// The service of [`ProblemsLayer`].
#[derive(Clone)]
pub struct Problems<S> {
    inner: S,
}

impl<S: Inner> Service<Request> for Problems<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = Responding<S::Future, Instance>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let instance = Instance(request.uri().clone());
        Responding::new(self.inner.call(request), instance)
    }
}

/// The URI whose path a problem names as its `instance`, without secrets.
pub struct Instance(Uri);

impl OnResponse for Instance {
    fn on_response(self, mut response: Response) -> Response {
        match response.extensions_mut().remove::<Problem>() {
            Some(problem) => problem.render(&public_path(self.0.path())),
            None => response,
        }
    }
}
