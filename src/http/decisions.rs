//! `/v1/policies/{id}/propensities` and `/actions`: the decisions of a stored policy, so that it can log
//! the next round of data.

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
use guarantor_engine::policy::{DRAWS, PolicyParams};

/// The maximum of contexts × K per request. A short request can ask for many pairs, and each takes memory.
const MOST_PAIRS: usize = 1 << 21;

/// The maximum of multiplications per request: a few seconds. A policy with a wide hidden layer reaches it with few
/// contexts.
const MOST_WORK: usize = 1 << 33;

/// The maximum of bytes for the random draws of a mixed logit, which are needed even for one context.
const MOST_DRAWN: usize = 256 << 20;

/// The routes of decisions.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(propensities)).routes(routes!(actions))
}

/// Contexts to decide in.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Contexts)]
pub struct ContextsRequest {
    /// A list of p numbers per context.
    contexts: Vec<Vec<f64>>,
}

/// The propensities of all actions.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Propensities {
    /// π(·|x) for each context: K numbers that sum to 1.
    propensities: Vec<Vec<f64>>,
}

/// Contexts to draw actions in.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionsRequest {
    /// A list of p numbers per context.
    contexts: Vec<Vec<f64>>,
    /// The same seed and contexts give the same actions. The default is a random seed.
    #[schema(minimum = 0)]
    seed: Option<u64>,
}

/// A drawn action.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Action {
    action: u32,
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
    responses((status = 200, description = "K propensities per context", body = Propensities),
              (status = 422, description = "`invalid_contexts`; `too_large`: contexts × K exceeds 2097152, or the policy is too wide for so many contexts")))]
async fn propensities(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<PolicyId>,
    Params(_): Params<Nothing>,
    body: JsonBody<ContextsRequest>,
) -> Result<Json<Propensities>, Problem> {
    let (params, x) = prepare(&app, &workspace, id, body.value.contexts).await?;
    let pi = app.compute(&workspace, move || params.propensities(x.view())).await?.map_err(unfit)?;
    let propensities = pi.rows().into_iter().map(|row| row.to_vec()).collect();
    Ok(Json(Propensities { propensities }))
}

/// Draw an action in each context.
#[utoipa::path(post, path = "/v1/policies/{id}/actions", tag = "Policies", operation_id = "actions",
    params(("id" = String, Path, format = "uuid")),
    request_body(content = ActionsRequest, example = json!({"contexts": [[0.2, 1.0]], "seed": 7})),
    responses((status = 200, description = "An action and its propensity per context", body = Actions),
              (status = 422, description = "`invalid_contexts`; `too_large`: contexts × K exceeds 2097152, or the policy is too wide for so many contexts")))]
async fn actions(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<PolicyId>,
    Params(_): Params<Nothing>,
    body: JsonBody<ActionsRequest>,
) -> Result<Json<Actions>, Problem> {
    // 64 of the 74 random bits of a new UUID are a seed that no client can predict.
    let seed = body.value.seed.unwrap_or_else(|| uuid::Uuid::now_v7().as_u64_pair().1);
    let (params, x) = prepare(&app, &workspace, id, body.value.contexts).await?;
    let drawn = app.compute(&workspace, move || params.sample(x.view(), seed)).await?.map_err(unfit)?;
    let actions = drawn.into_iter().map(|(action, propensity)| Action { action, propensity }).collect();
    Ok(Json(Actions { actions }))
}

/// The policy, and the contexts as a matrix that fits it.
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
        let message =
            format!("{n} contexts; the maximum for a policy with {k} actions is {most} per request");
        return Err(Problem::field(Code::TooLarge, "contexts", message));
    }
    for (i, x) in contexts.iter().enumerate() {
        if x.len() != policy.dim {
            let message = format!("has {} numbers, but the policy has {} features", x.len(), policy.dim);
            return Err(Problem::field(Code::InvalidContexts, format!("contexts[{i}]"), message));
        }
        if let Some(j) = x.iter().position(|v| !(*v as f32).is_finite()) {
            let message = "is too large for a 32-bit float";
            return Err(Problem::field(Code::InvalidContexts, format!("contexts[{i}][{j}]"), message));
        }
    }
    let params = app.store.policy_params(&policy).await?;
    check_work(&params, contexts.len())?;
    let shape = (contexts.len(), policy.dim);
    let x = ndarray::Array2::from_shape_vec(shape, contexts.iter().flatten().map(|v| *v as f32).collect())
        .map_err(Problem::internal)?;
    Ok((params, x))
}

/// Rejects requests that would take too long or too much memory, before anything is computed.
fn check_work(params: &PolicyParams, contexts: usize) -> Result<(), Problem> {
    let each = params.work();
    if contexts.saturating_mul(each) > MOST_WORK {
        let most = MOST_WORK / each.max(1);
        let message = format!(
            "{contexts} contexts; the maximum for this policy is {most} per request, because each takes {each} \
             multiplications"
        );
        return Err(Problem::field(Code::TooLarge, "contexts", message));
    }
    // The draws, a copy while they are made, and the softmax of each.
    let drawn = params.n_actions().saturating_mul(3 * std::mem::size_of::<f64>() * DRAWS);
    if params.mixes_logits() && drawn > MOST_DRAWN {
        let most = MOST_DRAWN / (3 * std::mem::size_of::<f64>() * DRAWS);
        let detail = format!(
            "The policy is a mixed logit with {} actions; the propensities of mixed logits are computed for at most \
             {most} actions.",
            params.n_actions()
        );
        return Err(Problem::new(Code::TooLarge, detail));
    }
    Ok(())
}

/// The policy was checked when it was stored, so if the arithmetic fails, the contexts are the cause.
fn unfit(error: EngineError) -> Problem {
    match error {
        EngineError::Numerical(why) => {
            let message =
                format!("the policy's propensities cannot be computed ({why}); the numbers are too large");
            Problem::field(Code::InvalidContexts, "contexts", message)
        }
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerical_failures_are_blamed_on_the_contexts() {
        let problem = unfit(EngineError::Numerical("propensities sum to NaN".into()));
        assert_eq!(problem.code, Code::InvalidContexts);
        assert_eq!(unfit(EngineError::Cancelled).code, Code::Internal);
    }
}
