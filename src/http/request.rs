//! The outermost layer: every request gets an id, a time limit, a line in the log and a place in
//! the metrics; every problem gets its body; every panic becomes a 500 that reveals nothing.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tracing::Instrument;

use super::App;
use super::codes::Code;
use super::problem::Problem;

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The client's id where it is one that can be logged safely, else a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.:".contains(b);
    match headers.get(REQUEST_ID) {
        Some(id) if (1..=128).contains(&id.len()) && id.as_bytes().iter().all(plain) => id.clone(),
        _ => {
            let id = uuid::Uuid::now_v7().to_string();
            HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("none"))
        }
    }
}

pub async fn envelope(State(app): State<App>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let route =
        request.extensions().get::<MatchedPath>().map_or("unmatched".to_owned(), |p| p.as_str().to_owned());
    let span = tracing::info_span!("request", request_id = id.to_str().unwrap_or(""), %method, %path);
    let limit = app.time_limit(&route);
    let answer = async {
        let mut response = answer(next, request, limit).await;
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            response = problem.render(&path);
        }
        let (status, seconds) = (response.status().as_u16(), started.elapsed().as_secs_f64());
        tracing::info!(status, ms = seconds * 1e3, "answered");
        super::metrics::request(&method, &route, status, seconds);
        response
    };
    let mut response = answer.instrument(span).await;
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

async fn answer(next: Next, request: Request, limit: Duration) -> Response {
    let handler = AssertUnwindSafe(next.run(request)).catch_unwind();
    match tokio::time::timeout(limit, handler).await {
        Ok(Ok(response)) => response,
        Ok(Err(panic)) => Problem::internal(panic_message(&*panic)).into_response(),
        Err(_) => {
            let detail = format!("No answer within {} seconds; try again.", limit.as_secs());
            Problem::new(Code::RequestTimeout, detail).into_response()
        }
    }
}

/// What a panic said, for the log only.
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}
