//! Authentication. Each API key belongs to a workspace, and a request sees only the workspace of its
//! key. Until the first key is created, everything is in the default workspace.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use parking_lot::Mutex;

use super::App;
use super::codes::Code;
use super::extract::header_text;
use super::problem::Problem;
use crate::store::{ApiKey, Result, Store, Workspace};

/// How long the service assumes that there are still no keys before it asks the store again.
const RECHECK: Duration = Duration::from_secs(2);

/// Whether keys are required. They are from the first key that is created, permanently: revoking the last
/// key locks everyone out instead of opening the service.
pub struct Auth {
    needed: AtomicBool,
    asked: Mutex<Instant>,
}

impl Auth {
    /// The state at startup.
    pub fn new(keys_exist: bool) -> Self {
        Auth { needed: AtomicBool::new(keys_exist), asked: Mutex::new(Instant::now()) }
    }

    async fn needed(&self, store: &Store) -> Result<bool> {
        if self.needed.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let stale = {
            let mut asked = self.asked.lock();
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

/// The caller of a request: the workspace that it may see.
#[derive(Debug, Clone)]
pub struct Caller(pub Workspace);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    /// A route without the layer `caller` has no caller and must not run.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.ok_or_else(|| {
            Problem::internal("a route that needs a caller is not behind the authentication layer")
        })
    }
}

/// Who sent a request, as certificates name them: the name and the id of the API key, never the key itself.
#[derive(Debug, Clone)]
pub struct CallerName(pub String);

impl CallerName {
    /// The caller of a service without keys.
    fn anonymous() -> Self {
        CallerName("anonymous".into())
    }

    fn of(key: &ApiKey) -> Self {
        CallerName(match key.name.as_str() {
            "" => format!("key {}", key.id),
            name => format!("{name} (key {})", key.id),
        })
    }
}

impl<S: Sync> FromRequestParts<S> for CallerName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let name = parts.extensions.get::<CallerName>().cloned();
        name.ok_or_else(|| {
            Problem::internal("a route that needs a caller is not behind the authentication layer")
        })
    }
}

/// Finds the caller of a request by its API key.
///
/// # Errors
/// 401 if a key is required and the request has no valid one.
pub async fn identify(app: &App, headers: &HeaderMap) -> Result<(Caller, CallerName), Problem> {
    if !app.auth.needed(&app.store).await? {
        return Ok((Caller(Workspace::default()), CallerName::anonymous()));
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
    let name = CallerName::of(&key);
    Ok((Caller(key.workspace), name))
}

fn unauthorized() -> Problem {
    let detail = "Send `Authorization: Bearer KEY` with a key from `guarantor keys create` that is not \
                  revoked.";
    Problem::new(Code::Unauthorized, detail)
        .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}
