//! Authentication. Each API key belongs to a workspace, and a request sees only the workspace of its
//! key. Until the first key is created, everything is in the default workspace.
//!
//! A key also has a role. [`decided`] is the only place that says which role a request needs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};

use super::App;
use super::codes::Code;
use super::extract::header_text;
use super::layers::admit::Admitted;
use super::problem::Problem;
use crate::store::{ApiKey, KeyId, Result, Role, Store, Workspace};

/// How long the service assumes that there are still no keys before it asks the store again.
const RECHECK: Duration = Duration::from_secs(2);

/// Whether keys are required. They are from the first key that is created, permanently: revoking the last
/// key locks everyone out instead of opening the service.
pub struct Auth {
    needed: AtomicBool,
    started: Instant,
    /// When the store was asked, in milliseconds since the start.
    asked: AtomicU64,
}

impl Auth {
    /// The state at startup.
    pub fn new(keys_exist: bool) -> Self {
        Auth { needed: AtomicBool::new(keys_exist), started: Instant::now(), asked: AtomicU64::new(0) }
    }

    /// Whether keys were required the last time that the store was asked. `false` may be outdated.
    pub fn is_known_to_be_needed(&self) -> bool {
        self.needed.load(Ordering::Relaxed)
    }

    /// Whether the store was asked a moment ago, and there were no keys.
    fn is_known_to_be_open(&self) -> bool {
        !self.is_known_to_be_needed() && self.outdated().is_none()
    }

    /// When the store was asked and what time it is now, if it must be asked again.
    fn outdated(&self) -> Option<(u64, u64)> {
        let (asked, now) = (self.asked.load(Ordering::Relaxed), self.started.elapsed().as_millis() as u64);
        (now.saturating_sub(asked) > RECHECK.as_millis() as u64).then_some((asked, now))
    }

    /// Whether keys are required.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn needed(&self, store: &Store) -> Result<bool> {
        if self.is_known_to_be_needed() {
            return Ok(true);
        }
        // One of those that find it outdated asks.
        let asks = self.outdated().is_some_and(|(asked, now)| {
            self.asked.compare_exchange(asked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        if asks && !store.repository().keys().await?.is_empty() {
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

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Admitted::of(&parts.extensions).map(|admitted| admitted.identity.caller.clone())
    }
}

/// The key of a request.
#[derive(Debug, Clone, Copy)]
pub struct Credential {
    /// Which key it is; `None` on a server without keys.
    pub key: Option<KeyId>,
    /// What it may do. Without keys, everyone may do everything.
    pub role: Role,
}

impl Credential {
    /// Checks that the role allows a request.
    ///
    /// # Errors
    /// 403 if it does not.
    pub fn check(self, method: &Method, route: &str) -> Result<(), Problem> {
        // The highest role may send everything.
        if self.role == Role::Admin {
            return Ok(());
        }
        let needed = decided(method, route).unwrap_or(Role::Admin);
        if self.role >= needed {
            return Ok(());
        }
        let detail = format!(
            "This needs a key with the role `{needed}`, and the role of this key is `{}`. An operator creates one with \
             `guarantor keys create --role {needed}`.",
            self.role
        );
        let problem = Problem::new(Code::RoleNotSufficient, detail);
        Err(problem.member("role", self.role.name()).member("needed_role", needed.name()))
    }
}

/// The lowest role that may send a request, by its method and its route. `None` if nobody decided that; then
/// only the highest may.
fn decided(method: &Method, route: &str) -> Option<Role> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let (reading, writing) = match route {
        "/v1/jobs/{id}/gate" => (Role::Gate, Role::Submit),
        // Standing gates and their tokens: whoever could change them could open them.
        "/v1/gates/{name}" => (Role::Gate, Role::Admin),
        _ if route == "/v1/gates" || route.starts_with("/v1/gates/") => (Role::Read, Role::Admin),
        // Their addresses and deliveries may be secrets of the receivers.
        _ if route == "/v1/webhooks" || route.starts_with("/v1/webhooks/") => (Role::Admin, Role::Admin),
        // They store nothing.
        "/v1/certificates/verify" | "/v1/plans" => (Role::Read, Role::Read),
        "/metrics"
        | "/v1/certificates/key"
        | "/v1/datasets"
        | "/v1/datasets/{id}"
        | "/v1/datasets/{id}/candidates"
        | "/v1/datasets/{id}/ledger"
        | "/v1/datasets/{id}/rows"
        | "/v1/datasets/{id}/versions"
        | "/v1/imports"
        | "/v1/imports/{id}"
        | "/v1/imports/{id}/cancel"
        | "/v1/imports/{id}/objects"
        | "/v1/jobs"
        | "/v1/jobs/{id}"
        | "/v1/jobs/{id}/cancel"
        | "/v1/jobs/{id}/certificate"
        | "/v1/jobs/{id}/events"
        | "/v1/jobs/{id}/policy"
        | "/v1/partials"
        | "/v1/policies"
        | "/v1/policies/{id}"
        | "/v1/policies/{id}/actions"
        | "/v1/policies/{id}/parameters"
        | "/v1/policies/{id}/propensities" => (Role::Read, Role::Submit),
        _ => return None,
    };
    Some(if reads { reading } else { writing })
}

/// Who sent a request, as certificates name them: the name and the id of the API key, never the key itself.
#[derive(Debug, Clone)]
pub struct CallerName(pub String);

impl CallerName {
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
        let named = Admitted::of(&parts.extensions)?.identity.name.clone();
        Ok(named.unwrap_or_else(|| CallerName("anonymous".into())))
    }
}

/// Who sent a request.
#[derive(Debug, Clone)]
pub struct Identity {
    pub caller: Caller,
    pub credential: Credential,
    /// `None` on a server without keys.
    name: Option<CallerName>,
}

impl Identity {
    /// The caller of a server without keys.
    fn everyone() -> Identity {
        let credential = Credential { key: None, role: Role::Admin };
        Identity { caller: Caller(Workspace::default()), credential, name: None }
    }
}

/// The caller, if it is known without asking the store that there are no keys.
pub fn everyone(app: &App) -> Option<Identity> {
    app.auth.is_known_to_be_open().then(Identity::everyone)
}

/// Finds the caller of a request by its API key.
///
/// # Errors
/// 401 if a key is required and the request has no valid one.
pub async fn identify(app: &App, headers: &HeaderMap) -> Result<Identity, Problem> {
    if !app.auth.needed(&app.store).await? {
        return Ok(Identity::everyone());
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
    let credential = Credential { key: Some(key.id), role: key.role };
    Ok(Identity { name: Some(CallerName::of(&key)), caller: Caller(key.workspace), credential })
}

fn unauthorized() -> Problem {
    let detail = "Send `Authorization: Bearer KEY` with a key from `guarantor keys create` that is not \
                  revoked.";
    Problem::new(Code::Unauthorized, detail)
        .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::openapi;

    #[test]
    fn a_role_is_decided_for_every_guarded_operation() {
        let (_, _, api) = openapi::assemble(true);
        let mut seen = 0;
        for (path, item) in &api.paths.paths {
            let operations = [
                (Method::GET, &item.get),
                (Method::HEAD, &item.head),
                (Method::POST, &item.post),
                (Method::PUT, &item.put),
                (Method::PATCH, &item.patch),
                (Method::DELETE, &item.delete),
            ];
            for (method, _) in operations.iter().filter(|(_, operation)| operation.is_some()) {
                // Health checks are open, and a token in the path takes the place of a key.
                let open = ["/livez", "/readyz", "/healthz", "/v1/gate/{token}"].contains(&path.as_str());
                let Some(role) = decided(method, path) else {
                    assert!(open, "{method} {path} is new: say in `decided` which role it needs");
                    continue;
                };
                seen += 1;
                let least = if *method == Method::GET { Role::Gate } else { Role::Read };
                assert!(!open && role >= least, "{method} {path} needs {role}");
            }
        }
        assert!(seen >= 20, "{seen}");
    }

    #[test]
    fn roles_are_as_documented() {
        use Role::{Admin, Gate, Read, Submit};
        let cases = [
            (Method::GET, "/v1/jobs/{id}/gate", Some(Gate)),
            (Method::HEAD, "/v1/jobs/{id}/gate", Some(Gate)),
            (Method::GET, "/v1/gates/{name}", Some(Gate)),
            (Method::GET, "/v1/gates", Some(Read)),
            (Method::POST, "/v1/gates", Some(Admin)),
            (Method::PUT, "/v1/gates/{name}", Some(Admin)),
            (Method::DELETE, "/v1/gates/{name}", Some(Admin)),
            (Method::GET, "/v1/gates/{name}/tokens", Some(Read)),
            (Method::POST, "/v1/gates/{name}/tokens", Some(Admin)),
            (Method::GET, "/v1/jobs/{id}", Some(Read)),
            (Method::POST, "/v1/certificates/verify", Some(Read)),
            (Method::POST, "/v1/plans", Some(Read)),
            (Method::POST, "/v1/jobs", Some(Submit)),
            (Method::POST, "/v1/datasets", Some(Submit)),
            (Method::DELETE, "/v1/datasets/{id}", Some(Submit)),
            (Method::POST, "/v1/policies/{id}/actions", Some(Submit)),
            (Method::GET, "/v1/webhooks", Some(Admin)),
            (Method::POST, "/v1/webhooks", Some(Admin)),
            (Method::GET, "/v1/webhooks/{id}/deliveries", Some(Admin)),
            (Method::GET, "/v1/webhooksome", None),
            (Method::GET, "/v1/gatesome", None),
            (Method::GET, "/v1/new", None),
            (Method::GET, "unmatched", None),
        ];
        for (method, route, role) in cases {
            assert_eq!(decided(&method, route), role, "{method} {route}");
            for own in Role::ALL {
                let allowed = Credential { key: None, role: own }.check(&method, route).is_ok();
                assert_eq!(allowed, own >= role.unwrap_or(Admin), "{own}: {method} {route}");
            }
        }
    }
}
