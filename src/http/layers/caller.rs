//! Authentication: finds the caller of a request before its handler runs, and checks that its role allows it.

use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use tower::{Layer, Service};

use super::{Inner, Route};
use crate::http::problem::Problem;
use crate::http::{App, auth};

/// Lets only authenticated requests through, each with its [`auth::Caller`],
/// [`auth::CallerName`] and [`auth::Credential`].
#[derive(Clone)]
pub struct CallerLayer(pub App);

impl<S> Layer<S> for CallerLayer {
    type Service = Authenticated<S>;

    fn layer(&self, inner: S) -> Authenticated<S> {
        Authenticated { inner, app: self.0.clone() }
    }
}

/// The service of [`CallerLayer`].
#[derive(Clone)]
pub struct Authenticated<S> {
    inner: S,
    app: App,
}

impl<S> Service<Request> for Authenticated<S>
where
    S: Inner + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let app = self.app.clone();
        // The service that was polled ready is the one to call; its clone takes its place.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        Box::pin(async move {
            match identify(&app, &mut request).await {
                Ok(()) => inner.call(request).await,
                Err(problem) => Ok(problem.into_response()),
            }
        })
    }
}

async fn identify(app: &App, request: &mut Request) -> Result<(), Problem> {
    let (caller, name, credential) = auth::identify(app, request.headers()).await?;
    credential.check(request.method(), Route::of(request).as_str())?;
    let extensions = request.extensions_mut();
    extensions.insert(caller);
    extensions.insert(name);
    extensions.insert(credential);
    Ok(())
}
