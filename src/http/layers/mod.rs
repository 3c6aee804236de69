//! The layers written for this service. `envelope.rs` lists all layers in the order in which requests
//! pass them.
//!
//! Every poll of a job passes all of them, so they must be cheap, and few: axum clones them for each request. Only
//! `admit` may have to wait before it can call the inner service, and only `linger` waits after a request with a
//! body; these box their futures then. The others have futures of their own.

pub mod admit;
pub mod compression;
pub mod linger;
pub mod observe;
pub mod origin;
pub mod panics;
pub mod problems;
pub mod request_id;
pub mod reserve;
pub mod share;
pub mod time_limit;
pub mod uploads;

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::response::Response;
use pin_project_lite::pin_project;
use tower::Service;

use super::takes_uploads;
use crate::store::TOKEN_PREFIX;

/// A service that always responds, which is what our layers wrap.
pub trait Inner: Service<Request, Response = Response, Error = Infallible> {}

impl<S: Service<Request, Response = Response, Error = Infallible>> Inner for S {}

/// The route of a request, such as `/v1/jobs/{id}`.
#[derive(Clone)]
pub enum Route {
    /// The router matched it, or nothing.
    Matched(Option<MatchedPath>),
    /// It was found without the router.
    Named(&'static str),
}

impl Route {
    /// The route that the router matched for `request`.
    pub fn of(request: &Request) -> Route {
        Route::Matched(request.extensions().get::<MatchedPath>().cloned())
    }

    /// The route as it is declared, or `unmatched`.
    pub fn as_str(&self) -> &str {
        match self {
            Route::Matched(matched) => matched.as_ref().map_or(UNMATCHED, MatchedPath::as_str),
            Route::Named(name) => name,
        }
    }
}

const UNMATCHED: &str = "unmatched";

/// The same of a request that is at hand, without a copy.
pub fn route_of(request: &Request) -> &str {
    request.extensions().get::<MatchedPath>().map_or(UNMATCHED, MatchedPath::as_str)
}

/// A path as it may be logged and shown. The token of a gate is a secret and is left out, also if the path has no
/// route because of a typing error around the token.
pub fn public_path(path: &str) -> Cow<'_, str> {
    // Everything after this is a token, however it is encoded.
    const BY_TOKEN: &str = "/v1/gate/";
    if path.starts_with(BY_TOKEN) {
        return Cow::Borrowed("/v1/gate/{token}");
    }
    if !path.contains(TOKEN_PREFIX) {
        return Cow::Borrowed(path);
    }
    let redacted = |segment| if str::contains(segment, TOKEN_PREFIX) { "{token}" } else { segment };
    Cow::Owned(path.split('/').map(redacted).collect::<Vec<&str>>().join("/"))
}

/// Whether a request uploads a log. Polls are told apart by their method, before their route is looked up.
pub fn is_upload(request: &Request) -> bool {
    request.method() == Method::POST && takes_uploads(route_of(request))
}

/// What a layer does with the response of the inner service.
pub trait OnResponse {
    /// Returns the response of the layer.
    fn on_response(self, response: Response) -> Response;
}

pin_project! {
    /// The future of a layer that works on the response of the inner service.
    pub struct Responding<F, W> {
        #[pin]
        inner: F,
        work: Option<W>,
    }
}

impl<F, W> Responding<F, W> {
    /// Awaits `inner`, then does `work` on its response.
    pub fn new(inner: F, work: W) -> Responding<F, W> {
        Responding { inner, work: Some(work) }
    }
}

impl<F, W> Future for Responding<F, W>
where
    F: Future<Output = Result<Response, Infallible>>,
    W: OnResponse,
{
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Ok(response) = ready!(this.inner.poll(context));
        Poll::Ready(Ok(match this.work.take() {
            Some(work) => work.on_response(response),
            None => response,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::public_path;

    #[test]
    fn tokens_are_left_out_of_paths() {
        for path in ["/v1/gate/gt_0af", "/v1/gate/gt_0af/", "/v1/gate/%67t_0af", "/v1/gate/0af/x"] {
            assert_eq!(public_path(path), "/v1/gate/{token}", "{path}");
        }
        assert_eq!(public_path("//v1/gate/gt_0af"), "//v1/gate/{token}");
        assert_eq!(public_path("/v1/gates/xgt_0af/tokens"), "/v1/gates/{token}/tokens");
        for path in ["/v1/gates/a", "/v1/jobs/1/gate", "/"] {
            assert_eq!(public_path(path), path);
        }
    }
}
