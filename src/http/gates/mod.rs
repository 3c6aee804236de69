//! Gates: the URLs that rollout tools call. A gate answers 200 if a certificate allows the rollout and meets
//! every requirement, and never otherwise.
//!
//! `examine.rs` establishes what may be approved at all: the job succeeded, its certificate is signed, and what
//! the certificate is about still exists. `rules.rs` tests requirements. Both serve the gate of a job
//! (`GET /v1/jobs/{id}/gate`) and standing gates (`/v1/gates`), whose rollout files never change: a standing gate
//! asks about the job that ended last among those it selects.

mod ask;
mod define;
mod examine;
mod request;
mod rules;
mod stored;
mod tokens;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::codes::Code;
use super::problem::Problem;
use crate::store::GateRequirements;

pub use ask::ask_about_job;
pub use examine::{GateAnswer, Opened};

/// The most standing gates of a workspace.
const MOST_GATES: u64 = 1000;
/// The most tokens of a standing gate.
const MOST_TOKENS: u64 = 100;

/// The routes of standing gates.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(define::list, define::create))
        .routes(routes!(ask::ask, define::change, define::delete))
        .routes(routes!(define::read))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
}

/// The route that needs no API key: its path contains a token.
pub fn open_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(ask::ask_by_token, ask::post_by_token))
}

/// Checks requirements from a query.
///
/// # Errors
/// A problem that names the parameter that is wrong.
pub fn check_query(requirements: &GateRequirements) -> Result<(), Problem> {
    match requirements.fault() {
        Some((field, message)) => Err(Problem::field(Code::InvalidQuery, field, message)),
        None => Ok(()),
    }
}
