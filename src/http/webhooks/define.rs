//! Creating, reading, changing and deleting webhooks. Every change is in the log with who made it.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};

use super::request::WebhookRequest;
use super::view::{SecretView, WebhookView};
use super::{MOST_WEBHOOKS, check_url};
use crate::http::App;
use crate::http::auth::{Caller, CallerName};
use crate::http::extract::{Id, JsonBody, Nothing, Params};
use crate::http::page::{ListParams, ListView, listed};
use crate::http::problem::Problem;
use crate::store::{NewWebhook, Webhook, WebhookId};

/// Everything but the address, whose path may be a secret of the receiver.
fn record(what: &'static str, webhook: &Webhook, by: &str) {
    let events: Vec<&str> = webhook.definition.events.iter().map(|kind| kind.name()).collect();
    tracing::info!(webhook_id = %webhook.id, workspace = %webhook.workspace, by, enabled = webhook.enabled,
        events = events.join(","), "{what}");
}

/// Create a webhook. Its secret is shown in this response only; a repeated request creates another webhook.
#[utoipa::path(post, path = "/v1/webhooks", tag = "Webhooks", operation_id = "create_webhook",
    request_body(content = WebhookRequest, example = json!(
        {"name": "chat", "url": "https://hooks.example.com/guarantor", "events": ["job.succeeded", "job.failed"],
         "decision": "deploy"})),
    responses((status = 201, description = "Created", body = SecretView,
               headers(("location" = String, description = "The path of the webhook"))),
              (status = 403, description = "`webhooks_off`: the operator allows no addresses; or `role_not_sufficient`"),
              (status = 409, description = "`limit_reached`"),
              (status = 422, description = "`address_not_allowed`; other codes say which field is wrong")))]
pub async fn create(
    State(app): State<App>,
    Caller(workspace): Caller,
    CallerName(by): CallerName,
    Params(_): Params<Nothing>,
    body: JsonBody<WebhookRequest>,
) -> Result<(StatusCode, [(HeaderName, HeaderValue); 2], Json<SecretView>), Problem> {
    let request = body.value;
    check_url(&app, &request.url)?;
    let (secret, enabled) = (request.new_secret()?, request.enabled());
    let definition = request.resolve(&app, &workspace).await?;
    let new = NewWebhook { id: WebhookId::new(), workspace, definition, enabled, secret: secret.clone(), by };
    let webhook = app.store.repository().create_webhook(new, MOST_WEBHOOKS).await?;
    record("webhook created", &webhook, &webhook.created_by);
    let location =
        HeaderValue::try_from(format!("/v1/webhooks/{}", webhook.id)).map_err(Problem::internal)?;
    let headers =
        [(header::LOCATION, location), (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    Ok((StatusCode::CREATED, headers, Json(SecretView::new(webhook, &secret))))
}

/// List webhooks, newest first, without their secrets.
#[utoipa::path(get, path = "/v1/webhooks", tag = "Webhooks", operation_id = "list_webhooks", params(ListParams),
    responses((status = 200, description = "A page of webhooks", body = ListView<WebhookView>)))]
pub async fn list(
    State(app): State<App>,
    Caller(workspace): Caller,
    Params(params): Params<ListParams>,
) -> Result<Json<ListView<WebhookView>>, Problem> {
    Ok(listed(app.store.repository().webhooks(&workspace, &params.page()?).await?))
}

/// Get a webhook, without its secret.
#[utoipa::path(get, path = "/v1/webhooks/{id}", tag = "Webhooks", operation_id = "get_webhook",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The webhook", body = WebhookView)))]
pub async fn read(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<WebhookId>,
    Params(_): Params<Nothing>,
) -> Result<Json<WebhookView>, Problem> {
    Ok(Json(app.store.repository().webhook(&workspace, id).await?.into()))
}

/// Replace the definition of a webhook. What the body leaves out gets its default. The secret stays.
#[utoipa::path(put, path = "/v1/webhooks/{id}", tag = "Webhooks", operation_id = "change_webhook",
    params(("id" = String, Path, format = "uuid")),
    request_body(content = WebhookRequest, example = json!(
        {"url": "https://hooks.example.com/guarantor", "enabled": false})),
    responses((status = 200, description = "Changed", body = WebhookView),
              (status = 403, description = "`webhooks_off`: the operator allows no addresses; or `role_not_sufficient`"),
              (status = 422, description = "`address_not_allowed`; other codes say which field is wrong")))]
pub async fn change(
    State(app): State<App>,
    Caller(workspace): Caller,
    CallerName(by): CallerName,
    Id(id): Id<WebhookId>,
    Params(_): Params<Nothing>,
    body: JsonBody<WebhookRequest>,
) -> Result<Json<WebhookView>, Problem> {
    let (request, enabled) = (&body.value, body.value.enabled());
    let before = app.store.repository().webhook(&workspace, id).await?;
    request.check_no_secret()?;
    // A webhook whose address is not allowed anymore can still be disabled.
    if enabled || request.url != before.definition.url {
        check_url(&app, &request.url)?;
    }
    let definition = body.value.resolve(&app, &workspace).await?;
    let webhook = app.store.change_webhook(&workspace, id, &definition, enabled, &by).await?;
    app.notifier.wake();
    record("webhook changed", &webhook, &by);
    Ok(Json(webhook.into()))
}

/// Delete a webhook and its deliveries.
#[utoipa::path(delete, path = "/v1/webhooks/{id}", tag = "Webhooks", operation_id = "delete_webhook",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 204, description = "Deleted")))]
pub async fn delete(
    State(app): State<App>,
    Caller(workspace): Caller,
    CallerName(by): CallerName,
    Id(id): Id<WebhookId>,
    Params(_): Params<Nothing>,
) -> Result<StatusCode, Problem> {
    app.store.delete_webhook(&workspace, id).await?;
    tracing::info!(webhook_id = %id, %workspace, by, "webhook deleted");
    Ok(StatusCode::NO_CONTENT)
}
