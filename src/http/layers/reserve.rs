//! Connections of the reserve serve health checks only, so that these are answered however many requests are
//! in progress.

use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures_util::future::{Either, Ready, ready};
use tower::{Layer, Service};

use super::{Inner, route_of};
use crate::http::codes::Code;
use crate::http::problem::Problem;

/// When a client should try again. Some request ends at almost any time.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// In the extensions of a request whose connection is one of the reserve.
#[derive(Clone, Copy)]
pub struct OfTheReserve;

/// Rejects everything but health checks on connections of the reserve.
#[derive(Clone, Copy)]
pub struct ReserveLayer;

impl<S> Layer<S> for ReserveLayer {
    type Service = Reserve<S>;

    fn layer(&self, inner: S) -> Reserve<S> {
        Reserve { inner }
    }
}

/// The service of [`ReserveLayer`].
#[derive(Clone)]
pub struct Reserve<S> {
    inner: S,
}

impl<S: Inner> Service<Request> for Reserve<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let reserve = request.extensions().get::<OfTheReserve>().is_some();
        if reserve && !is_health(route_of(&request)) {
            let detail = "Every connection of the server has a request in progress; try again.";
            let problem = Problem::new(Code::Unavailable, detail).retry_after(RETRY_AFTER);
            return Either::Right(ready(Ok(problem.into_response())));
        }
        Either::Left(self.inner.call(request))
    }
}

/// Whether operators watch the service with `route`.
fn is_health(route: &str) -> bool {
    matches!(route, "/livez" | "/readyz" | "/healthz" | "/metrics")
}
