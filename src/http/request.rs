//! The outermost layer: every request gets an id, a time limit, a line in the log and a place in
//! the metrics; every problem gets its body; every panic becomes a 500 that reveals nothing.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;

use super::codes::Code;
use super::linger::Lingering;
use super::problem::Problem;
use super::{App, auth, takes_uploads};

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The layer's state: the routes that it lies over are open to all, or guarded.
#[derive(Clone)]
pub struct Door {
    pub app: App,
    pub guarded: bool,
}

/// The client's id where it is one that can be logged safely, else a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.:".contains(b);
    match headers.get(REQUEST_ID) {
        Some(id) if (1..=128).contains(&id.len()) && id.as_bytes().iter().all(plain) => id.clone(),
        _ => {
            let id = new_id();
            let mut text = uuid::Uuid::encode_buffer();
            let text = id.hyphenated().encode_lower(&mut text);
            HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("none"))
        }
    }
}

/// A UUIDv7 whose random part counts on from a random start: as unique, without a system call for
/// each. It is no secret.
fn new_id() -> uuid::Uuid {
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| {
        let (_, random) = uuid::Uuid::new_v7(uuid::Timestamp::now(uuid::NoContext)).as_u64_pair();
        AtomicU64::new(random)
    });
    let mut random = [0; 10];
    random[2..].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    uuid::Builder::from_unix_timestamp_millis(since.as_millis() as u64, &random).into_uuid()
}

pub async fn envelope(State(door): State<Door>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("unmatched", MatchedPath::as_str);
    let span =
        tracing::info_span!("request", request_id = id.to_str().unwrap_or(""), %method, path = %uri.path());
    let answer = async {
        let mut response = answer(&door, next, request, route).await;
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            response = problem.render(uri.path());
        }
        let (status, seconds) = (response.status().as_u16(), started.elapsed().as_secs_f64());
        tracing::info!(status, ms = seconds * 1e3, "answered");
        super::metrics::request(&method, route, status, seconds);
        response
    };
    let mut response = answer.instrument(span).await;
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn answer(door: &Door, next: Next, request: Request, route: &str) -> Response {
    let (parts, body) = request.into_parts();
    let stall = Duration::from_secs(door.app.config.upload_stall_seconds);
    let (body, rest) = Lingering::new(&parts.headers, body, stall);
    let request = Request::from_parts(parts, body);
    let limit = door.app.time_limit(route);
    let response = respond(door, next, request, route, limit).await;
    let Some(rest) = rest.filter(|_| !response.status().is_success()) else { return response };
    if rest.has_stalled() {
        let detail = format!("Nothing of the body came for {} seconds; send it again.", stall.as_secs());
        return Problem::new(Code::RequestTimeout, detail).into_response();
    }
    if response.status().is_client_error() {
        rest.drain().await;
    }
    response
}

async fn respond(door: &Door, next: Next, request: Request, route: &str, limit: Duration) -> Response {
    let handler = AssertUnwindSafe(enter(door, next, request, route)).catch_unwind();
    match tokio::time::timeout(limit, handler).await {
        Ok(Ok(response)) => response.unwrap_or_else(IntoResponse::into_response),
        Ok(Err(panic)) => Problem::internal(panic_message(&*panic)).into_response(),
        Err(_) => {
            let detail = format!("No answer within {} seconds; try again.", limit.as_secs());
            Problem::new(Code::RequestTimeout, detail).into_response()
        }
    }
}

/// Through the door, to the handler.
async fn enter(door: &Door, next: Next, mut request: Request, route: &str) -> Result<Response, Problem> {
    if door.guarded {
        let caller = auth::identify(&door.app, request.headers()).await?;
        request.extensions_mut().insert(caller);
    }
    if request.method() == Method::POST && takes_uploads(route) {
        let permit = upload_permit(&door.app)?;
        request.extensions_mut().insert(permit);
    }
    Ok(next.run(request).await)
}

/// Each upload takes memory and a thread, so only so many are read at a time. Its work goes on when the
/// client hangs up, so it is the work that holds the permit.
#[derive(Clone)]
pub struct UploadPermit(#[allow(dead_code)] Arc<OwnedSemaphorePermit>);

fn upload_permit(app: &App) -> Result<UploadPermit, Problem> {
    let permit = app.uploads.clone().try_acquire_owned().map_err(|_| {
        let most = app.config.max_concurrent_uploads;
        let detail = format!("{most} uploads are being read already; try again.");
        Problem::new(Code::TooManyUploads, detail).retry_after(Duration::from_secs(2))
    })?;
    Ok(UploadPermit(Arc::new(permit)))
}

/// What a panic said, for the log only.
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_ids_are_version_7_and_differ() {
        let ids: std::collections::HashSet<uuid::Uuid> = (0..1000).map(|_| new_id()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
    }

    #[test]
    fn only_ids_that_can_be_logged_are_taken_over() {
        let with =
            |value: &[u8]| HeaderMap::from_iter([(REQUEST_ID, HeaderValue::from_bytes(value).unwrap())]);
        assert_eq!(request_id(&with(b"trace-1.2:3_x")), "trace-1.2:3_x");
        for bad in [&b""[..], b"a b", b"a\tb", b"\xc3\xa9", b"a\"b", b"a=b", &[b'a'; 129]] {
            assert_ne!(request_id(&with(bad)).as_bytes(), bad);
        }
    }
}
