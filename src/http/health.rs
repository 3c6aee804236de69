//! Whether the service lives, whether it should be sent requests, and how it is.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::codes::Code;
use super::problem::Problem;
use crate::store::StoreError;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(livez)).routes(routes!(readyz)).routes(routes!(healthz))
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Alive {
    /// Always `ok`: a service that is not does not answer so.
    status: &'static str,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ServiceHealth {
    status: &'static str,
    version: &'static str,
    queued_jobs: u64,
    running_jobs: u64,
}

/// The process answers. Restart it when this does not.
#[utoipa::path(get, path = "/livez", tag = "Operations",
    responses((status = 200, description = "Alive", body = Alive)))]
async fn livez() -> Json<Alive> {
    Json(Alive { status: "ok" })
}

/// Ready for requests: the store answers and takes writes, and the process is not shutting down.
#[utoipa::path(get, path = "/readyz", tag = "Operations",
    responses((status = 200, description = "Ready", body = Alive),
              (status = 503, description = "`unavailable`: draining, or the store is away, full or read-only")))]
async fn readyz(State(app): State<App>) -> Result<Json<Alive>, Problem> {
    if app.is_draining() {
        return Err(Problem::new(Code::Unavailable, "The server is shutting down."));
    }
    match app.store.check_ready().await {
        Err(StoreError::Full(_)) => {
            Err(Problem::new(Code::Unavailable, "There is no room left in the data directory."))
        }
        ready => Ok(ready.map(|()| Json(Alive { status: "ok" }))?),
    }
}

/// Ready, and in what state.
#[utoipa::path(get, path = "/healthz", tag = "Operations",
    responses((status = 200, description = "How the service is", body = ServiceHealth),
              (status = 503, description = "`unavailable`: the store is away")))]
async fn healthz(State(app): State<App>) -> Result<Json<ServiceHealth>, Problem> {
    let depth = app.store.repository().queue_depth().await?;
    Ok(Json(ServiceHealth {
        status: if app.is_draining() { "draining" } else { "ok" },
        version: guarantor_engine::VERSION,
        queued_jobs: depth.queued,
        running_jobs: depth.running,
    }))
}
