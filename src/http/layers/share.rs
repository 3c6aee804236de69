//! The share of each workspace in the requests in progress. A request in progress takes a connection, so one
//! workspace could otherwise take all of them: with `?wait=`, with event streams, with bodies that arrive
//! slowly.

use std::sync::Arc;
use std::time::Duration;

use crate::http::App;
use crate::http::codes::Code;
use crate::http::problem::Problem;
use crate::http::tally::Taken;
use crate::store::Workspace;

/// When a client should try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A request in progress. What goes on after the response, such as an event stream, holds
/// it.
#[derive(Clone)]
pub struct InProgress(#[allow(dead_code)] Arc<Taken<Workspace>>);

/// Takes a place for a request of a workspace, until it and its copies are dropped.
///
/// # Errors
/// 429 if the workspace has its share in progress.
pub fn enter(app: &App, workspace: &Workspace) -> Result<InProgress, Problem> {
    let taken = app.requests.take(workspace).map_err(|own| {
        let detail = format!(
            "This workspace has {own} requests in progress, which is its share of the server's connections; try \
             again when one of them has ended."
        );
        Problem::new(Code::TooManyRequests, detail).retry_after(RETRY_AFTER)
    })?;
    Ok(InProgress(Arc::new(taken)))
}
