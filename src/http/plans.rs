//! `/v1/plans`: how many rows would certify an improvement, before any log exists.

use axum::Json;
use guarantor_engine::certify::plan_before;
use guarantor_engine::plan::{Plan, PlanRequest};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::auth::Caller;
use super::extract::{JsonBody, Nothing, Params};
use super::problem::Problem;

/// The routes of plans.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(create))
}

/// Plan a log: how many rows would certify an improvement.
///
/// A plan before any log exists, from what you expect. It stores nothing. The certificate of a `keep` has a plan of its
/// own, from its rows.
#[utoipa::path(post, path = "/v1/plans", tag = "Plans", operation_id = "plan",
    request_body(content = PlanRequest, example = json!({"improvement": 0.02, "outcome_mean": 0.1, "n_actions": 4,
        "exploration": 0.1, "logging": "fixed", "rows_per_day": 20000})),
    responses((status = 200, description = "The plan: a forecast, not a guarantee", body = Plan),
              (status = 422, description = "`invalid_value`; `unknown_field`; `not_for_this_kind`")))]
async fn create(
    Caller(_): Caller,
    Params(_): Params<Nothing>,
    body: JsonBody<PlanRequest>,
) -> Result<Json<Plan>, Problem> {
    Ok(Json(plan_before(&body.value)?))
}
