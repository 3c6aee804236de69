//! Bodies of problems. Handlers and layers return a [`Problem`] in the extensions of a response;
//! here it is written as `application/problem+json` with the path of the request.

use axum::http::Uri;
use axum::response::Response;

use super::public_path;
use crate::http::problem::Problem;

/// The response to a request for `uri`, with the body of its problem if it has one. A problem names the path as its
/// `instance`, without secrets.
pub fn written(mut response: Response, uri: &Uri) -> Response {
    match response.extensions_mut().remove::<Problem>() {
        Some(problem) => problem.render(&public_path(uri.path())),
        None => response,
    }
}
