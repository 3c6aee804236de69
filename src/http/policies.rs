//! `/v1/policies`: the parameters of policies, uploaded or learned.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::auth::Caller;
use super::codes::Code;
use super::etag::{json, tagged};
use super::extract::{Id, JsonBody, Nothing, Params};
use super::idempotency::{Created, Creation, Start, replay};
use super::page::{ListParams, ListView, listed};
use super::problem::Problem;
use crate::store::{JobId, PolicyId, Resource, StoreError, StoredPolicy, Timestamp, Workspace};
use guarantor_engine::policy::{PolicyKind, PolicyParams};

/// The routes of policies.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(read, delete))
        .routes(routes!(parameters))
}

/// A policy, without its parameters unless they are requested.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Policy)]
pub struct PolicyView {
    #[schema(value_type = String, format = "uuid")]
    id: PolicyId,
    kind: PolicyKind,
    /// K; 0 for a policy that plays over the actions that it is given.
    n_actions: usize,
    /// p, the number of features of a context; 0 for a policy that plays over the actions that it is given.
    dim: usize,
    /// SHA-256 of the parameters.
    digest: String,
    #[schema(value_type = String, format = "date-time")]
    created_at: Timestamp,
    /// The job that learned it.
    #[schema(value_type = Option<String>, format = "uuid")]
    source_job_id: Option<JobId>,
    /// With `?include=mean`: p rows of K numbers. The uniform policy has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<Vec<Vec<f64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scale: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inverse_temperature: Option<f64>,
    /// The fixed transformation of contexts before `mean` is applied, unless it is the identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    features: Option<serde_json::Value>,
    /// With `?include=mean`, for a scorer of actions: its parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    scorer: Option<serde_json::Value>,
    /// With `?include=mean`, for a policy that explores: the probability with which it plays `with`.
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    /// The parameters of what it plays otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<PolicyParams>,
    /// The parameters of what it explores with.
    #[serde(skip_serializing_if = "Option::is_none")]
    with: Option<PolicyParams>,
}

impl PolicyView {
    fn with_params(mut self, params: PolicyParams) -> Result<Self, Problem> {
        let features = params.features();
        if params.kind() != PolicyKind::Exploring && !features.is_identity() {
            self.features = Some(serde_json::to_value(features).map_err(Problem::internal)?);
        }
        match params {
            PolicyParams::Softmax { mean, inverse_temperature, .. } => {
                (self.mean, self.inverse_temperature) = (Some(mean), Some(inverse_temperature));
            }
            PolicyParams::Lig { mean, scale, .. } | PolicyParams::MixedLogit { mean, scale, .. } => {
                (self.mean, self.scale) = (Some(mean), Some(scale));
            }
            PolicyParams::Uniform { .. } | PolicyParams::UniformOverSets {} => {}
            PolicyParams::ActionScorer(scorer) => {
                self.scorer = Some(serde_json::to_value(*scorer).map_err(Problem::internal)?);
            }
            PolicyParams::Exploring { share, base, with } => {
                (self.share, self.base, self.with) = (Some(share), Some(*base), Some(*with));
            }
        }
        Ok(self)
    }
}

impl From<StoredPolicy> for PolicyView {
    fn from(policy: StoredPolicy) -> Self {
        PolicyView {
            id: policy.id,
            kind: policy.kind,
            n_actions: policy.n_actions,
            dim: policy.dim,
            digest: policy.digest,
            created_at: policy.created_at,
            source_job_id: policy.source_job_id,
            mean: None,
            scale: None,
            inverse_temperature: None,
            features: None,
            scorer: None,
            share: None,
            base: None,
            with: None,
        }
    }
}

/// Create a policy.
#[utoipa::path(post, path = "/v1/policies", tag = "Policies", operation_id = "create_policy",
    params(("idempotency-key" = Option<String>, Header, description = "Repeated requests with this key get the first response")),
    request_body(content = PolicyParams, example = json!(
        {"kind": "softmax", "mean": [[0.4, -0.1, 0.0], [0.0, 0.3, -0.2]], "inverse_temperature": 1.0})),
    responses((status = 201, description = "Created", body = PolicyView,
               headers(("location" = String, description = "The path of the policy"))),
              (status = 409, description = "`idempotency_in_progress`")))]
async fn create(
    State(app): State<App>,
    Caller(workspace): Caller,
    Params(_): Params<Nothing>,
    headers: HeaderMap,
    body: JsonBody<PolicyParams>,
) -> Result<Response, Problem> {
    let params = body.value;
    params.check()?;
    check_size(&app, &params)?;
    let creation =
        Creation::new(&workspace, &headers, &[b"POST /v1/policies", &body.bytes], app.json_patience())?;
    let id = match creation.start(&app).await? {
        Start::Work(id) => PolicyId::from(id),
        Start::Replay(answer) => return replay(answer, None),
    };
    let worker = app.clone();
    creation.finish(&app, async move { store_policy(&worker, &workspace, id, &params).await }).await
}

async fn store_policy(
    app: &App,
    workspace: &Workspace,
    id: PolicyId,
    params: &PolicyParams,
) -> Result<Created, Problem> {
    let policy = match app.store.create_policy(workspace, id, params).await {
        // An earlier attempt of this request stored it, and the process died before it could respond.
        Err(StoreError::Exists(Resource::Policy, _)) => app.store.repository().policy(workspace, id).await?,
        policy => policy?,
    };
    let location = [(header::LOCATION, format!("/v1/policies/{id}"))];
    Created::json(StatusCode::CREATED, &location, &PolicyView::from(policy))
}

/// What a job takes per parameter of a policy, at least.
const BYTES_PER_PARAMETER: u64 = 64;

/// Rejects policies that are larger than this server accepts.
fn check_size(app: &App, params: &PolicyParams) -> Result<(), Problem> {
    if let PolicyParams::Exploring { base, with, .. } = params {
        check_size(app, base)?;
        return check_size(app, with);
    }
    let (actions, features) = (app.config.max_actions, app.config.max_features);
    // φ ends in a constant, which is not a hidden unit.
    let hidden = if params.features().is_identity() { 0 } else { params.width().saturating_sub(1) };
    let parameters = match params {
        PolicyParams::ActionScorer(scorer) => scorer.numbers(),
        _ => params.width().saturating_mul(params.n_actions().saturating_add(params.dim())),
    };
    let most = usize::try_from(app.job_memory.max_bytes / BYTES_PER_PARAMETER).unwrap_or(usize::MAX);
    let sizes = [
        ("actions", params.n_actions(), actions),
        ("features", params.dim(), features),
        ("hidden units", hidden, features),
        ("parameters", parameters, most),
    ];
    match sizes.into_iter().find(|(_, size, limit)| size > limit) {
        Some((what, size, limit)) => Err(Problem::new(
            Code::TooLarge,
            format!("{size} {what}; the maximum of this server is {limit}."),
        )),
        None => Ok(()),
    }
}

/// List policies, newest first.
#[utoipa::path(get, path = "/v1/policies", tag = "Policies", operation_id = "list_policies", params(ListParams),
    responses((status = 200, description = "A page of policies", body = ListView<PolicyView>)))]
async fn list(
    State(app): State<App>,
    Caller(workspace): Caller,
    Params(params): Params<ListParams>,
) -> Result<Json<ListView<PolicyView>>, Problem> {
    Ok(listed(app.store.repository().policies(&workspace, &params.page()?).await?))
}

/// What to add to a policy.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Include {
    /// The parameters.
    Mean,
}

/// The query parameters of a request for a policy.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReadParams {
    /// `mean` adds the parameters of the policy.
    #[param(inline)]
    pub include: Option<Include>,
}

/// Get a policy.
#[utoipa::path(get, path = "/v1/policies/{id}", tag = "Policies", operation_id = "get_policy",
    params(("id" = String, Path, format = "uuid"), ReadParams),
    responses((status = 200, description = "The policy", body = PolicyView),
              (status = 304, description = "Unchanged since the version in `If-None-Match`")))]
async fn read(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<PolicyId>,
    Params(params): Params<ReadParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let policy = app.store.repository().policy(&workspace, id).await?;
    show(&app, policy, params.include, &headers).await
}

/// The response with a policy.
pub async fn show(
    app: &App,
    policy: StoredPolicy,
    include: Option<Include>,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let tag = format!("{}{}", policy.revision, if include.is_some() { "-mean" } else { "" });
    let view = match include {
        Some(Include::Mean) => {
            let params = app.store.policy_params(&policy).await?;
            PolicyView::from(policy).with_params(params)?
        }
        None => policy.into(),
    };
    tagged(headers, tag, || json(&view))
}

/// Get the parameters of a policy, as `POST /v1/policies` takes them.
#[utoipa::path(get, path = "/v1/policies/{id}/parameters", tag = "Policies", operation_id = "get_policy_parameters",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The parameters", body = PolicyParams),
              (status = 304, description = "Unchanged since the version in `If-None-Match`")))]
async fn parameters(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<PolicyId>,
    Params(_): Params<Nothing>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let policy = app.store.repository().policy(&workspace, id).await?;
    let params = app.store.policy_params(&policy).await?;
    tagged(&headers, format!("{}-parameters", policy.revision), || json(&params))
}

/// Delete a policy.
#[utoipa::path(delete, path = "/v1/policies/{id}", tag = "Policies", operation_id = "delete_policy",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 204, description = "Deleted"),
              (status = 409, description = "`in_use`: an unfinished job or a dataset uses it")))]
async fn delete(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<PolicyId>,
    Params(_): Params<Nothing>,
) -> Result<StatusCode, Problem> {
    app.store.delete_policy(&workspace, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
