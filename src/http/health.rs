//! Health checks: whether the process is alive, whether it should get requests, and its state.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::codes::Code;
use super::problem::Problem;
use crate::store::StoreError;

/// The routes of health checks.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(livez)).routes(routes!(readyz)).routes(routes!(healthz))
}

/// The response of a health check that passed.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Alive {
    /// Always `ok`.
    status: &'static str,
}

/// The state of the service.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ServiceHealth {
    /// `ok`, or `draining` during shutdown.
    status: &'static str,
    version: &'static str,
    queued_jobs: u64,
    running_jobs: u64,
}

/// Check that the process is alive. Restart it if this does not answer.
#[utoipa::path(get, path = "/livez", tag = "Operations",
    responses((status = 200, description = "Alive", body = Alive)))]
async fn livez() -> Json<Alive> {
    Json(Alive { status: "ok" })
}

/// Check that the service is ready for requests: the store is readable and writable, and the process is not
/// shutting down.
#[utoipa::path(get, path = "/readyz", tag = "Operations",
    responses((status = 200, description = "Ready", body = Alive),
              (status = 503, description = "`unavailable`: shutting down, or the store is unreachable, full or read-only")))]
async fn readyz(State(app): State<App>) -> Result<Json<Alive>, Problem> {
    if app.is_draining() {
        return Err(Problem::new(Code::Unavailable, "The server is shutting down."));
    }
    match app.store.check_ready().await {
        Err(StoreError::Full(_)) => {
            Err(Problem::new(Code::Unavailable, "No space left in the data directory."))
        }
        Err(StoreError::Refused(why)) => {
            tracing::error!(why, "the store cannot be used");
            Err(Problem::new(Code::Unavailable, "The database was changed by a newer release."))
        }
        ready => Ok(ready.map(|()| Json(Alive { status: "ok" }))?),
    }
}

/// Get the state of the service.
#[utoipa::path(get, path = "/healthz", tag = "Operations",
    responses((status = 200, description = "The state of the service", body = ServiceHealth),
              (status = 503, description = "`unavailable`: the store is unreachable")))]
async fn healthz(State(app): State<App>) -> Result<Json<ServiceHealth>, Problem> {
    let depth = app.store.repository().queue_depth().await?;
    Ok(Json(ServiceHealth {
        status: if app.is_draining() { "draining" } else { "ok" },
        version: guarantor_engine::VERSION,
        queued_jobs: depth.queued,
        running_jobs: depth.running,
    }))
}
