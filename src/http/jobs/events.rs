//! `GET /v1/jobs/{id}/events`: the history of a job, as a stream that can be resumed or as a list.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use futures_util::stream::{self, StreamExt};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};

use super::read::current;
use super::tails::Written;
use crate::http::App;
use crate::http::auth::Caller;
use crate::http::codes::Code;
use crate::http::extract::{Id, Params, header_text};
use crate::http::layers::admit::Admitted;
use crate::http::layers::share::InProgress;
use crate::http::page::{ListView, page_request};
use crate::http::problem::Problem;
use crate::http::tally::Taken;
use crate::queue::Subscription;
use crate::store::{JobEvent, JobId, KeyId, Timestamp, Workspace};

/// How many events a stream reads from the store at a time.
const BATCH: u32 = 100;

/// How long a stream that has sent all events waits before it looks for others. A job that learns reports many times
/// per second, and many readers may follow it; they get several reports at a time.
const PACE: Duration = Duration::from_millis(200);

/// When to try again if the key has too many streams.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// An event in the history of a job.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = JobEvent)]
pub struct EventView {
    /// 1 for the first event of the job, and so on.
    id: u64,
    /// `queued`, `started`, `progress`, `cancel_requested`, `requeued`, `succeeded`, `failed`, `cancelled`.
    event: String,
    #[schema(value_type = String, format = "date-time")]
    created_at: Timestamp,
    #[schema(value_type = Object)]
    data: serde_json::Value,
}

impl From<JobEvent> for EventView {
    fn from(event: JobEvent) -> Self {
        EventView { id: event.id, event: event.kind, created_at: event.created_at, data: event.data }
    }
}

/// The query parameters of a request for events.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventParams {
    /// The size of the page, at most 100 (lists only).
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u32>,
    /// Return only events after the one with this id.
    #[param(value_type = Option<u64>)]
    after: Option<String>,
}

/// List the events of a job, oldest first. With `Accept: text/event-stream`, the response is a stream that
/// ends with the job and can be resumed with `Last-Event-ID`.
#[utoipa::path(get, path = "/v1/jobs/{id}/events", tag = "Jobs", operation_id = "job_events",
    params(("id" = String, Path, format = "uuid"), EventParams,
           ("last-event-id" = Option<u64>, Header, description = "Return only events after this one")),
    responses((status = 200, description = "Events", content(
        (ListView<EventView> = "application/json"), (String = "text/event-stream"))),
              (status = 429, description = "`too_many_streams`: the key has too many open streams; `too_many_requests`",
               headers(("retry-after" = u32, description = "Seconds")))))]
pub async fn events(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<JobId>,
    Params(params): Params<EventParams>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers();
    let after = last_seen(&params, headers)?;
    let page = page_request(params.limit, None)?;
    app.store.repository().job(&workspace, id).await?;
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("");
    if accept.contains("text/event-stream") {
        let held = Held::take(&app, &request)?;
        let stream = follow(app, workspace, id, after, held);
        return Ok(Sse::new(stream)
            .keep_alive(KeepAlive::new().interval(Duration::from_secs(15)))
            .into_response());
    }
    let mut found = app.store.repository().job_events(&workspace, id, after, page.limit + 1).await?;
    let has_more = found.len() > page.limit as usize;
    found.truncate(page.limit as usize);
    let next = found.last().filter(|_| has_more).map(|event| event.id.to_string());
    let data = found.into_iter().map(EventView::from).collect();
    Ok(Json(ListView { data, has_more, next }).into_response())
}

/// The id to continue after: the one in the header, with which clients resume, or the one in the query.
fn last_seen(params: &EventParams, headers: &HeaderMap) -> Result<u64, Problem> {
    let message = "is not the id of an event";
    if let Some(text) = header_text(headers, "last-event-id")? {
        return text.parse().map_err(|_| Problem::field(Code::InvalidHeader, "last-event-id", message));
    }
    match &params.after {
        Some(text) => text.parse().map_err(|_| Problem::field(Code::InvalidCursor, "after", message)),
        None => Ok(0),
    }
}

/// What a stream takes for as long as it is open.
struct Held {
    _stream: Taken<Option<KeyId>>,
    _request: InProgress,
}

impl Held {
    fn take(app: &App, request: &Request) -> Result<Held, Problem> {
        let Admitted { identity, in_progress } = Admitted::of(request.extensions())?;
        let stream = app.streams.take(&identity.credential.key).map_err(|own| {
            let detail = format!(
                "This key has {own} open event streams, and a key may have {own}; close one, or poll the job with \
                 GET /v1/jobs/{{id}}?wait=."
            );
            Problem::new(Code::TooManyStreams, detail).retry_after(RETRY_AFTER)
        })?;
        Ok(Held { _stream: stream, _request: in_progress.clone() })
    }
}

struct Follower {
    app: App,
    workspace: Workspace,
    id: JobId,
    after: u64,
    /// The revision of the job up to which all events were sent.
    sent: Option<u64>,
    /// When to look for events again; `None` at once.
    again: Option<Instant>,
    changes: Subscription,
    ended: bool,
    _held: Held,
}

fn follow(
    app: App,
    workspace: Workspace,
    id: JobId,
    after: u64,
    held: Held,
) -> impl Stream<Item = Result<Event, Infallible>> {
    // Subscribed before the first read, so that no change is missed.
    let changes = app.queue.subscribe(id);
    let follower =
        Follower { app, workspace, id, after, sent: None, again: None, changes, ended: false, _held: held };
    stream::unfold(follower, |mut follower| async move {
        let batch = follower.next_batch().await?;
        Some((stream::iter(batch.into_iter().map(|event| Ok(event.message))), follower))
    })
    .flatten()
}

impl Follower {
    /// The next events, or `None` if the job has ended, the server shuts down, or the store fails. The
    /// client can then resume.
    async fn next_batch(&mut self) -> Option<Vec<Written>> {
        while !self.ended {
            if let Some(again) = self.again.take() {
                tokio::select! { _ = sleep_until(again) => {}, _ = self.app.drained() => {} }
            }
            let repository = self.app.store.repository();
            // Read before the events: a job that has ended by then has its last event among them. Many streams of one
            // job share both reads.
            let job = current(&self.app, &self.workspace, self.id).await.ok()?;
            // Every event increases the revision, so an idle stream costs no query.
            if self.sent != Some(job.revision) {
                let found = self.app.tails.after(repository, &job, self.after, BATCH).await;
                let batch =
                    found.inspect_err(|error| tracing::warn!(%error, "an event stream failed")).ok()?;
                if let Some(last) = batch.last() {
                    // A client that catches up with a long history is not held back.
                    self.again = (batch.len() < BATCH as usize).then(|| Instant::now() + PACE);
                    self.after = last.id;
                    self.ended = last.ends;
                    return Some(batch);
                }
                self.sent = Some(job.revision);
            }
            // The stream was resumed after the last event of a finished job: there will be no more.
            if job.status.is_finished() || self.app.is_draining() {
                return None;
            }
            tokio::select! { _ = self.changes.changed() => {}, _ = self.app.drained() => {} }
        }
        None
    }
}
