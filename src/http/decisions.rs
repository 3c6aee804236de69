//! `/v1/policies/{id}/propensities` and `/actions`: what a stored policy would do, which the next
//! round of logging needs.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::auth::Caller;
use super::codes::Code;
use super::extract::{Id, JsonBody, Nothing, Params};
use super::problem::Problem;
use crate::store::{PolicyId, Workspace};
use guarantor_engine::EngineError;
use guarantor_engine::policy::PolicyParams;

/// Contexts × K of one request: each pair takes memory several times over, however short the request.
const MOST_PAIRS: usize = 1 << 21;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(propensities)).routes(routes!(actions))
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// A list of p numbers for each context.
    contexts: Vec<Vec<f64>>,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Propensities {
    /// π(·|x) of each context: K numbers that sum to 1.
    propensities: Vec<Vec<f64>>,
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionsRequest {
    /// A list of p numbers for each context.
    contexts: Vec<Vec<f64>>,
    /// The same seed and contexts draw the same actions. Left out, a new seed is drawn.
    #[schema(minimum = 0)]
    seed: Option<u64>,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Action {
    action: u32,
    /// Log it with the action: it cannot be computed afterwards.
    propensity: f64,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Actions {
    actions: Vec<Action>,
}

/// Propensities of all actions in each context.
#[utoipa::path(post, path = "/v1/policies/{id}/propensities", tag = "Policies", operation_id = "propensities",
    params(("id" = String, Path, format = "uuid")),
    request_body(content = Contexts, example = json!({"contexts": [[0.2, 1.0], [0.7, 0.1]]})),
    responses((status = 200, description = "A list of K propensities for each context", body = Propensities),
              (status = 422, description = "`invalid_contexts`; `too_large`: contexts × K is more than 2097152")))]
async fn propensities(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<PolicyId>,
    Params(_): Params<Nothing>,
    body: JsonBody<Contexts>,
) -> Result<Json<Propensities>, Problem> {
    let (params, x) = prepare(&app, &workspace, id, body.value.contexts).await?;
    let pi = app.compute(move || params.propensities(x.view())).await?.map_err(unfit)?;
    let propensities = pi.rows().into_iter().map(|row| row.to_vec()).collect();
    Ok(Json(Propensities { propensities }))
}

/// Draw an action in each context.
#[utoipa::path(post, path = "/v1/policies/{id}/actions", tag = "Policies", operation_id = "actions",
    params(("id" = String, Path, format = "uuid")),
    request_body(content = ActionsRequest, example = json!({"contexts": [[0.2, 1.0]], "seed": 7})),
    responses((status = 200, description = "An action and its propensity for each context", body = Actions),
              (status = 422, description = "`invalid_contexts`; `too_large`: contexts × K is more than 2097152")))]
async fn actions(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<PolicyId>,
    Params(_): Params<Nothing>,
    body: JsonBody<ActionsRequest>,
) -> Result<Json<Actions>, Problem> {
    // 64 of the 74 random bits of a fresh UUID make a seed that no client can foresee.
    let seed = body.value.seed.unwrap_or_else(|| uuid::Uuid::now_v7().as_u64_pair().1);
    let (params, x) = prepare(&app, &workspace, id, body.value.contexts).await?;
    let drawn = app.compute(move || params.sample(x.view(), seed)).await?.map_err(unfit)?;
    let actions = drawn.into_iter().map(|(action, propensity)| Action { action, propensity }).collect();
    Ok(Json(Actions { actions }))
}

/// The policy and the contexts as a matrix that fits it.
async fn prepare(
    app: &App,
    workspace: &Workspace,
    id: PolicyId,
    contexts: Vec<Vec<f64>>,
) -> Result<(PolicyParams, ndarray::Array2<f32>), Problem> {
    let policy = app.store.repository().policy(workspace, id).await?;
    let (n, k) = (contexts.len(), policy.n_actions);
    if n.saturating_mul(k) > MOST_PAIRS {
        let most = MOST_PAIRS / k.max(1);
        let message = format!("are {n}; of a policy over {k} actions ask for at most {most} at a time");
        return Err(Problem::field(Code::TooLarge, "contexts", message));
    }
    for (i, x) in contexts.iter().enumerate() {
        if x.len() != policy.dim {
            let message = format!("has {} numbers; the policy has {} features", x.len(), policy.dim);
            return Err(Problem::field(Code::InvalidContexts, format!("contexts[{i}]"), message));
        }
        if let Some(j) = x.iter().position(|v| !(*v as f32).is_finite()) {
            let message = "is too large for a 32-bit number";
            return Err(Problem::field(Code::InvalidContexts, format!("contexts[{i}][{j}]"), message));
        }
    }
    let shape = (contexts.len(), policy.dim);
    let x = ndarray::Array2::from_shape_vec(shape, contexts.iter().flatten().map(|v| *v as f32).collect())
        .map_err(Problem::internal)?;
    Ok((app.store.policy_params(&policy).await?, x))
}

/// A policy was checked when it was stored, so arithmetic that fails here is that of these contexts.
fn unfit(error: EngineError) -> Problem {
    match error {
        EngineError::Numerical(why) => {
            let message =
                format!("the policy has no propensities there: {why}; the numbers are too large for it");
            Problem::field(Code::InvalidContexts, "contexts", message)
        }
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_that_fails_is_that_of_the_contexts() {
        let problem = unfit(EngineError::Numerical("propensities sum to NaN".into()));
        assert_eq!(problem.code, Code::InvalidContexts);
        assert_eq!(unfit(EngineError::Cancelled).code, Code::Internal);
    }
}
