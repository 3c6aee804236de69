//! Who asks. Each API key belongs to a workspace, and a request sees only its key's workspace.
//! Where no key was ever created, everything lives in the default workspace.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};

use super::App;
use super::codes::Code;
use super::extract::header_text;
use super::problem::Problem;
use crate::store::{Result, Store, Workspace};

/// How long the absence of keys is believed before the store is asked again.
const RECHECK: Duration = Duration::from_secs(2);

/// Whether keys are needed. Once any key was created they are, for good: revoking the last one
/// closes the door, it does not open it.
pub struct Auth {
    needed: AtomicBool,
    asked: Mutex<Instant>,
}

impl Auth {
    pub fn new(keys_exist: bool) -> Self {
        Auth { needed: AtomicBool::new(keys_exist), asked: Mutex::new(Instant::now()) }
    }

    async fn needed(&self, store: &Store) -> Result<bool> {
        if self.needed.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let stale = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            let stale = asked.elapsed() > RECHECK;
            if stale {
                *asked = Instant::now();
            }
            stale
        };
        if stale && !store.repository().keys().await?.is_empty() {
            self.needed.store(true, Ordering::Relaxed);
        }
        Ok(self.needed.load(Ordering::Relaxed))
    }
}

/// The workspace that the request may see.
#[derive(Debug, Clone)]
pub struct Caller(pub Workspace);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    /// A route that the envelope does not guard has no caller, and must not run.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.ok_or_else(|| Problem::internal("a route that needs a caller is not guarded"))
    }
}

/// Whose request this is, or why it may not be answered.
pub async fn identify(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
    if !app.auth.needed(&app.store).await? {
        return Ok(Caller(Workspace::default()));
    }
    let Some(text) = header_text(headers, header::AUTHORIZATION.as_str()).map_err(|_| unauthorized())? else {
        return Err(unauthorized());
    };
    let Some((scheme, secret)) = text.split_once(' ') else { return Err(unauthorized()) };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(unauthorized());
    }
    let key = app.store.authenticate(secret.trim()).await?.ok_or_else(unauthorized)?;
    tracing::debug!(workspace = %key.workspace, key = %key.id, "authenticated");
    Ok(Caller(key.workspace))
}

fn unauthorized() -> Problem {
    let detail = "Send `Authorization: Bearer KEY` with a key that `guarantor keys create` gave out and \
                  that is not revoked.";
    Problem::new(Code::Unauthorized, detail)
        .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}
