//! Decides whether a request reaches its handler. In this order:
//!
//! 1. `origin`: without keys, 403 and 421 for requests of web pages of other sites
//! 2. `auth`: the workspace of the API key, or 401, or 403 if its role is too low
//! 3. `share`: 429 if the workspace has its share of requests in progress
//! 4. `uploads`: a permit for each upload, or 429
//!
//! Most requests to a server without keys are decided without asking the store, and then nothing is boxed.

use std::future::ready;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::http::Extensions;
use axum::response::{IntoResponse, Response};
use futures_util::future::{BoxFuture, Either};
use tower::{Layer, Service};

use super::share::InProgress;
use super::{Inner, OnResponse, Responding, is_upload, origin, route_of, share, uploads};
use crate::http::App;
use crate::http::auth::{self, Identity};
use crate::http::envelope::Access;
use crate::http::problem::Problem;

/// Lets only those requests through that `access` and the limits of the server allow.
#[derive(Clone)]
pub struct AdmitLayer {
    pub app: App,
    pub access: Access,
}

impl<S> Layer<S> for AdmitLayer {
    type Service = Admit<S>;

    fn layer(&self, inner: S) -> Admit<S> {
        Admit { inner, app: self.app.clone(), access: self.access }
    }
}

/// The service of [`AdmitLayer`].
#[derive(Clone)]
pub struct Admit<S> {
    inner: S,
    app: App,
    access: Access,
}

impl<S> Service<Request> for Admit<S>
where
    S: Inner + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Either<Responding<S::Future, Held>, BoxFuture<'static, Result<Response, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        match at_once(&self.app, self.access, &mut request) {
            Some(Ok(held)) => return Either::Left(Responding::new(self.inner.call(request), held)),
            Some(Err(problem)) => return Either::Right(Box::pin(ready(Ok(problem.into_response())))),
            None => {}
        }
        let (app, access) = (self.app.clone(), self.access);
        // The service that was polled ready is the one to call; its clone takes its place.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        Either::Right(Box::pin(async move {
            match after_asking(&app, access, &mut request).await {
                Ok(_held) => inner.call(request).await,
                Err(problem) => Ok(problem.into_response()),
            }
        }))
    }
}

/// What was found out about an admitted request, in its extensions.
#[derive(Clone)]
pub struct Admitted {
    pub identity: Identity,
    /// What goes on after the response, such as an event stream, holds it.
    pub in_progress: InProgress,
}

impl Admitted {
    /// What was found out about the request with these extensions.
    ///
    /// # Errors
    /// 500 on a route that anyone may call, whose handler must not ask.
    pub fn of(extensions: &Extensions) -> Result<&Admitted, Problem> {
        let not_guarded = || Problem::internal("a route that needs a caller is not behind authentication");
        extensions.get().ok_or_else(not_guarded)
    }
}

/// Holds the place of a request until its response.
pub struct Held(#[allow(dead_code)] Option<InProgress>);

impl OnResponse for Held {
    /// The request has ended, unless the handler kept a clone.
    fn on_response(self, response: Response) -> Response {
        response
    }
}

/// Decides without waiting; `None` if the store must be asked.
fn at_once(app: &App, access: Access, request: &mut Request) -> Option<Result<Held, Problem>> {
    if access != Access::Health && !app.auth.is_known_to_be_needed() {
        check_origin(app, request).ok()?;
    }
    let identity = match access {
        Access::Guarded => Some(auth::everyone(app)?),
        Access::Open | Access::Health => None,
    };
    Some(enter(app, identity, request))
}

async fn after_asking(app: &App, access: Access, request: &mut Request) -> Result<Held, Problem> {
    if access != Access::Health && !app.auth.is_known_to_be_needed() {
        let checked = check_origin(app, request);
        origin::unless_keys_exist(app, checked).await?;
    }
    let identity = match access {
        Access::Guarded => Some(auth::identify(app, request.headers()).await?),
        Access::Open | Access::Health => None,
    };
    enter(app, identity, request)
}

fn check_origin(app: &App, request: &Request) -> Result<(), Problem> {
    let operation = (request.method(), route_of(request));
    origin::check(&app.config, operation, request.uri(), request.headers())
}

/// Checks the role of the caller, and takes what the request takes while it is in progress.
fn enter(app: &App, identity: Option<Identity>, request: &mut Request) -> Result<Held, Problem> {
    let Some(identity) = identity else { return Ok(Held(None)) };
    identity.credential.check(request.method(), route_of(request))?;
    let in_progress = share::enter(app, &identity.caller.0)?;
    if is_upload(request) {
        let permit = uploads::permit(app, &identity)?;
        request.extensions_mut().insert(permit);
    }
    request.extensions_mut().insert(Admitted { identity, in_progress: in_progress.clone() });
    Ok(Held(Some(in_progress)))
}
