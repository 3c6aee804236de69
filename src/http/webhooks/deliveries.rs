//! What was sent to a webhook: tests, attempts, and deliveries that are asked for again.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::check_on;
use super::view::DeliveryView;
use crate::http::App;
use crate::http::auth::{Caller, CallerName};
use crate::http::codes::Code;
use crate::http::extract::{Id, Nothing, Params};
use crate::http::page::{ListParams, ListView, listed};
use crate::http::problem::Problem;
use crate::store::{DeliveryId, WebhookId, Workspace};

/// Checks that the webhook exists and that something can be sent to it.
async fn check_sending(app: &App, workspace: &Workspace, id: WebhookId) -> Result<(), Problem> {
    let webhook = app.store.repository().webhook(workspace, id).await?;
    check_on(app)?;
    if !webhook.enabled {
        let detail = format!("The webhook is disabled; enable it with PUT /v1/webhooks/{id} first.");
        return Err(Problem::new(Code::WebhookDisabled, detail));
    }
    Ok(())
}

/// Send a test event, of type `ping`, to a webhook. The list of deliveries shows whether it was received.
#[utoipa::path(post, path = "/v1/webhooks/{id}/test", tag = "Webhooks", operation_id = "test_webhook",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 202, description = "Queued", body = DeliveryView),
              (status = 403, description = "`webhooks_off`: the operator allows no addresses; or `role_not_sufficient`"),
              (status = 409, description = "`webhook_disabled`, or `limit_reached`: too many deliveries wait")))]
pub async fn test(
    State(app): State<App>,
    Caller(workspace): Caller,
    CallerName(by): CallerName,
    Id(id): Id<WebhookId>,
    Params(_): Params<Nothing>,
) -> Result<(StatusCode, Json<DeliveryView>), Problem> {
    check_sending(&app, &workspace, id).await?;
    let delivery = app.store.repository().ping_webhook(&workspace, id).await?;
    app.notifier.wake();
    tracing::info!(webhook_id = %id, %workspace, by, delivery_id = %delivery.id, "test of a webhook queued");
    Ok((StatusCode::ACCEPTED, Json(delivery.into())))
}

/// List what was sent to a webhook, newest first: attempts, statuses, errors and when the next attempt is. Deliveries
/// that have ended are kept for 7 days.
#[utoipa::path(get, path = "/v1/webhooks/{id}/deliveries", tag = "Webhooks", operation_id = "list_deliveries",
    params(("id" = String, Path, format = "uuid"), ListParams),
    responses((status = 200, description = "A page of deliveries", body = ListView<DeliveryView>)))]
pub async fn list(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<WebhookId>,
    Params(params): Params<ListParams>,
) -> Result<Json<ListView<DeliveryView>>, Problem> {
    Ok(listed(app.store.repository().deliveries(&workspace, id, &params.page()?).await?))
}

/// Deliver an event again, however the delivery has ended. The event keeps its id.
#[utoipa::path(post, path = "/v1/webhooks/{id}/deliveries/{delivery_id}/redeliver", tag = "Webhooks",
    operation_id = "redeliver",
    params(("id" = String, Path, format = "uuid"), ("delivery_id" = String, Path, format = "uuid")),
    responses((status = 202, description = "Queued", body = DeliveryView),
              (status = 403, description = "`webhooks_off`: the operator allows no addresses; or `role_not_sufficient`"),
              (status = 409, description = "`webhook_disabled`")))]
pub async fn redeliver(
    State(app): State<App>,
    Caller(workspace): Caller,
    CallerName(by): CallerName,
    path: Result<Path<(String, String)>, PathRejection>,
    Params(_): Params<Nothing>,
) -> Result<(StatusCode, Json<DeliveryView>), Problem> {
    let unknown = || Problem::new(Code::NotFound, "The path names no webhook or no delivery of it.");
    let Path((id, delivery)) = path.map_err(|_| unknown())?;
    let id: WebhookId = id.parse().map_err(|_| unknown())?;
    let delivery: DeliveryId = delivery.parse().map_err(|_| unknown())?;
    check_sending(&app, &workspace, id).await?;
    let delivery = app.store.repository().redeliver(&workspace, id, delivery).await?;
    app.notifier.wake();
    tracing::info!(webhook_id = %id, %workspace, by, delivery_id = %delivery.id, "delivery queued again");
    Ok((StatusCode::ACCEPTED, Json(delivery.into())))
}
