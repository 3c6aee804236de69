//! `POST /v1/webhooks/{id}/secret`: another secret, while the one before still signs.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use serde::Deserialize;

use super::request::sent_or_new;
use super::view::SecretView;
use crate::http::App;
use crate::http::auth::{Caller, CallerName};
use crate::http::codes::Code;
use crate::http::extract::{Id, Nothing, Params, optional_json};
use crate::http::problem::Problem;
use crate::store::{Age, WebhookId};

/// For how long the secret before signs, unless the request says something else.
const GRACE: u64 = 86_400;
/// For how long it may sign at most.
const LONGEST_GRACE: u64 = 30 * 86_400;

/// A rotation of a secret.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SecretRequest)]
pub struct SecretRequest {
    /// A secret of your own: `whsec_` and the base64 of 24 to 64 random bytes. Without it a new one is made.
    #[schema(max_length = 100)]
    secret: Option<String>,
    /// For how long the secret before signs too: `90s`, `30m`, `12h` or `7d`, at most `30d`. One day by default.
    #[schema(value_type = Option<String>, pattern = "^[0-9]+[smhd]$")]
    grace: Option<Age>,
}

/// Give a webhook another secret. For a while, deliveries have signatures of both. The secret is shown in this response
/// only.
#[utoipa::path(post, path = "/v1/webhooks/{id}/secret", tag = "Webhooks", operation_id = "rotate_webhook_secret",
    params(("id" = String, Path, format = "uuid")),
    request_body(content = Option<SecretRequest>, example = json!({"grace": "12h"})),
    responses((status = 200, description = "Rotated", body = SecretView)))]
pub async fn rotate(
    State(app): State<App>,
    Caller(workspace): Caller,
    CallerName(by): CallerName,
    Id(id): Id<WebhookId>,
    Params(_): Params<Nothing>,
    headers: HeaderMap,
    body: Body,
) -> Result<([(HeaderName, HeaderValue); 1], Json<SecretView>), Problem> {
    let request: SecretRequest = optional_json(&app, &headers, body).await?.unwrap_or_default();
    let grace = request.grace.map_or(GRACE, Age::seconds);
    if grace > LONGEST_GRACE {
        return Err(Problem::field(Code::InvalidValue, "grace", "is longer than 30d"));
    }
    let secret = sent_or_new(request.secret.as_deref())?;
    let grace = Duration::from_secs(grace);
    let webhook = app.store.repository().rotate_webhook_secret(&workspace, id, &secret, grace, &by).await?;
    tracing::info!(webhook_id = %id, %workspace, by, "secret of a webhook rotated");
    let headers = [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    Ok((headers, Json(SecretView::new(webhook, &secret))))
}
