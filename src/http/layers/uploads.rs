//! Permits for uploads: an upload takes memory and a thread, so the number of concurrent uploads is limited,
//! for each key, for each workspace and in total.
//!
//! tower's `ConcurrencyLimit` makes requests wait and releases a permit with the response. Here an
//! upload over the limit is rejected before its body is read. And an upload continues when its
//! client disconnects, so the permit belongs to the work and not to the response.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures_util::future::{Either, Ready, ready};
use tower::{Layer, Service};

use super::{Inner, is_upload};
use crate::http::App;
use crate::http::auth::{Caller, Credential};
use crate::http::codes::Code;
use crate::http::problem::Problem;
use crate::http::tally::Taken;
use crate::store::{KeyId, Workspace};

/// How long the client of a rejected upload should wait.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// Gives each upload a permit, or rejects it.
#[derive(Clone)]
pub struct UploadsLayer(pub App);

/// The permit of one upload, in the extensions of its request. The work must hold it to its end.
#[derive(Clone)]
pub struct UploadPermit(#[allow(dead_code)] Arc<(Taken<Option<KeyId>>, Taken<Workspace>)>);

impl<S> Layer<S> for UploadsLayer {
    type Service = Uploads<S>;

    fn layer(&self, inner: S) -> Uploads<S> {
        Uploads { inner, app: self.0.clone() }
    }
}

/// The service of [`UploadsLayer`].
#[derive(Clone)]
pub struct Uploads<S> {
    inner: S,
    app: App,
}

impl<S: Inner> Service<Request> for Uploads<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        if is_upload(&request) {
            match permit(&self.app, &request) {
                Ok(permit) => request.extensions_mut().insert(permit),
                Err(problem) => return Either::Right(ready(Ok(problem.into_response()))),
            };
        }
        Either::Left(self.inner.call(request))
    }
}

fn permit(app: &App, request: &Request) -> Result<UploadPermit, Problem> {
    let Caller(workspace) = Caller::of(request.extensions())?;
    let key = Credential::of(request.extensions())?.key;
    let of_key = app.uploads_of_keys.take(&key).map_err(|own| {
        too_many(format!("This key has {own} uploads in progress, and a key may have {own}"))
    })?;
    let of_workspace = app.uploads.take(workspace).map_err(|own| {
        let (all, most) = (app.uploads.in_use(), app.config.max_concurrent_uploads);
        too_many(match own {
            0 => format!("{all} of {most} concurrent uploads in progress"),
            _ => format!(
                "This workspace has {own} uploads in progress, which is its share: {all} of {most} are in progress"
            ),
        })
    })?;
    Ok(UploadPermit(Arc::new((of_key, of_workspace))))
}

fn too_many(why: String) -> Problem {
    Problem::new(Code::TooManyUploads, format!("{why}; try again.")).retry_after(RETRY_AFTER)
}
