//! `/v1/webhooks`: who is told when a job has ended. `define.rs` creates and changes webhooks, `secret.rs` rotates what
//! signs, and `deliveries.rs` shows what was sent. Only administrators see any of it: the address of a receiver may
//! itself be a secret.

mod define;
mod deliveries;
mod request;
mod secret;
mod view;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::codes::Code;
use super::problem::Problem;
use crate::notify::NotAllowed;

/// The most webhooks of a workspace.
const MOST_WEBHOOKS: u64 = 20;

/// The routes of webhooks.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(define::list, define::create))
        .routes(routes!(define::read, define::change, define::delete))
        .routes(routes!(secret::rotate))
        .routes(routes!(deliveries::test))
        .routes(routes!(deliveries::list))
        .routes(routes!(deliveries::redeliver))
}

/// Checks that this server delivers to webhooks at all.
fn check_on(app: &App) -> Result<(), Problem> {
    match app.notifier.allow().is_empty() {
        true => Err(Problem::new(
            Code::WebhooksOff,
            "The operator of this server allows no addresses for webhooks; the setting webhook_allow lists them.",
        )),
        false => Ok(()),
    }
}

/// Checks the address of a webhook.
fn check_url(app: &App, url: &str) -> Result<(), Problem> {
    check_on(app)?;
    match app.notifier.allow().check(url) {
        Ok(_) => Ok(()),
        Err(error @ NotAllowed::Malformed(_)) => {
            Err(Problem::field(Code::InvalidValue, "url", error.to_string()))
        }
        Err(error @ NotAllowed::NotListed) => {
            Err(Problem::field(Code::AddressNotAllowed, "url", error.to_string()))
        }
    }
}
