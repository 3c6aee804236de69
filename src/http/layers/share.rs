//! The share of each workspace in the requests in progress. A request in progress takes a connection, so one
//! workspace could otherwise take all of them: with `?wait=`, with event streams, with bodies that arrive
//! slowly.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures_util::future::{Either, Ready, ready};
use tower::{Layer, Service};

use super::{Inner, OnResponse, Responding};
use crate::http::App;
use crate::http::auth::Caller;
use crate::http::codes::Code;
use crate::http::problem::Problem;
use crate::http::tally::Taken;
use crate::store::Workspace;

/// When a client should try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A request in progress, in its extensions. What goes on after the response, such as an event stream, holds
/// it.
#[derive(Clone)]
pub struct InProgress(#[allow(dead_code)] Arc<Taken<Workspace>>);

/// Rejects requests of a workspace that has its share in progress. It needs the caller.
#[derive(Clone)]
pub struct ShareLayer(pub App);

impl<S> Layer<S> for ShareLayer {
    type Service = Share<S>;

    fn layer(&self, inner: S) -> Share<S> {
        Share { inner, app: self.0.clone() }
    }
}

/// The service of [`ShareLayer`].
#[derive(Clone)]
pub struct Share<S> {
    inner: S,
    app: App,
}

impl<S: Inner> Service<Request> for Share<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = Either<Responding<S::Future, InProgress>, Ready<Result<Response, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        match enter(&self.app, &request) {
            Ok(entered) => {
                request.extensions_mut().insert(entered.clone());
                Either::Left(Responding::new(self.inner.call(request), entered))
            }
            Err(problem) => Either::Right(ready(Ok(problem.into_response()))),
        }
    }
}

impl OnResponse for InProgress {
    /// The request has ended, unless the handler kept a clone.
    fn on_response(self, response: Response) -> Response {
        response
    }
}

fn enter(app: &App, request: &Request) -> Result<InProgress, Problem> {
    let Caller(workspace) = Caller::of(request.extensions())?;
    let taken = app.requests.take(workspace).map_err(|own| {
        let detail = format!(
            "This workspace has {own} requests in progress, which is its share of the server's connections; try \
             again when one of them has ended."
        );
        Problem::new(Code::TooManyRequests, detail).retry_after(RETRY_AFTER)
    })?;
    Ok(InProgress(Arc::new(taken)))
}
