//! `/v1/policies/{id}/propensities` and `/actions`: the decisions of a stored policy, so that it can log
//! the next round of data.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::auth::Caller;
use super::contexts::{Context, decide};
use super::extract::{Id, JsonBody, Nothing, Params};
use super::problem::Problem;
use crate::store::PolicyId;

/// The routes of decisions.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(propensities)).routes(routes!(actions))
}

/// Contexts to decide in.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Contexts)]
pub struct ContextsRequest {
    /// A list of p numbers per context, or an object with `x` and `actions`.
    contexts: Vec<Context>,
}

/// The propensities of all actions.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Propensities {
    /// π(·|x) for each context: one number per action, which sum to 1.
    propensities: Vec<Vec<f64>>,
}

/// Contexts to draw actions in.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionsRequest {
    /// A list of p numbers per context, or an object with `x` and `actions`.
    contexts: Vec<Context>,
    /// The same seed and contexts give the same actions. The default is a random seed.
    #[schema(minimum = 0)]
    seed: Option<u64>,
}

/// A drawn action.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Action {
    /// The position of the action, among all actions or among those of the context.
    action: u32,
    /// Its id, if the context gave it one.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The probability with which the action was drawn. Log it with the action.
    propensity: f64,
}

/// The drawn actions.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Actions {
    /// One action per context.
    actions: Vec<Action>,
}

/// Get the propensities of all actions in each context.
#[utoipa::path(post, path = "/v1/policies/{id}/propensities", tag = "Policies", operation_id = "propensities",
    params(("id" = String, Path, format = "uuid")),
    request_body(content = ContextsRequest, example = json!({"contexts": [[0.2, 1.0], [0.7, 0.1]]})),
    responses((status = 200, description = "A propensity per action of each context", body = Propensities),
              (status = 422, description = "`invalid_contexts`; `too_large`: contexts × K exceeds 2097152, action lists have more than 4194304 features that are not 0, or the policy is too wide for so many contexts")))]
async fn propensities(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<PolicyId>,
    Params(_): Params<Nothing>,
    body: JsonBody<ContextsRequest>,
) -> Result<Json<Propensities>, Problem> {
    let sent = (body.value.contexts, body.bytes);
    let (pi, asked) = decide(&app, &workspace, id, sent, |params, x| params.propensities(x)).await?;
    // Sets are padded to the largest one.
    let of_context = |(i, row): (usize, ndarray::ArrayView1<f64>)| {
        row.iter().copied().take(asked.size(i).unwrap_or(row.len())).collect()
    };
    let propensities = pi.rows().into_iter().enumerate().map(of_context).collect();
    Ok(Json(Propensities { propensities }))
}

/// Draw an action in each context.
#[utoipa::path(post, path = "/v1/policies/{id}/actions", tag = "Policies", operation_id = "actions",
    params(("id" = String, Path, format = "uuid")),
    request_body(content = ActionsRequest, example = json!({"contexts": [[0.2, 1.0]], "seed": 7})),
    responses((status = 200, description = "An action and its propensity per context", body = Actions),
              (status = 422, description = "`invalid_contexts`; `too_large`: contexts × K exceeds 2097152, action lists have more than 4194304 features that are not 0, or the policy is too wide for so many contexts")))]
async fn actions(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<PolicyId>,
    Params(_): Params<Nothing>,
    body: JsonBody<ActionsRequest>,
) -> Result<Json<Actions>, Problem> {
    // 64 of the 74 random bits of a new UUID are a seed that no client can predict.
    let seed = body.value.seed.unwrap_or_else(|| uuid::Uuid::now_v7().as_u64_pair().1);
    let sent = (body.value.contexts, body.bytes);
    let (drawn, asked) = decide(&app, &workspace, id, sent, move |params, x| params.sample(x, seed)).await?;
    let action = |(i, (action, propensity)): (usize, (u32, f64))| Action {
        action,
        id: asked.id(i, action as usize),
        propensity,
    };
    let actions = drawn.into_iter().enumerate().map(action).collect();
    Ok(Json(Actions { actions }))
}
