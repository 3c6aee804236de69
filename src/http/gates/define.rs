//! `/v1/gates`: creating, reading, changing and deleting standing gates. Every change is in the log with who
//! made it.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use serde_json::{Map, Value};

use super::MOST_GATES;
use super::request::GateRequest;
use crate::http::App;
use crate::http::auth::{Caller, CallerName};
use crate::http::codes::Code;
use crate::http::extract::{Id, JsonBody, Nothing, Params};
use crate::http::idempotency::{Created, Creation, Start, replay};
use crate::http::page::{ListParams, ListView, listed};
use crate::http::problem::Problem;
use crate::store::{
    Allowance, DatasetId, GateId, GateName, GateRequirements, NewGate, Resource, StandingGate, StoreError,
    Timestamp,
};

/// A standing gate as it is defined, with every default filled in.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = GateDefinition)]
pub struct GateView {
    #[schema(value_type = String)]
    name: GateName,
    #[schema(value_type = Option<String>, format = "uuid", required)]
    dataset_id: Option<DatasetId>,
    #[schema(value_type = Object)]
    selector: Map<String, Value>,
    /// The greatest δ of a certificate.
    delta: f64,
    requirements: GateRequirements,
    allow: BTreeSet<Allowance>,
    #[schema(value_type = String, format = "date-time")]
    created_at: Timestamp,
    /// The API key that created it.
    created_by: String,
    #[schema(value_type = String, format = "date-time")]
    changed_at: Timestamp,
    /// The API key that changed it last, or created it.
    changed_by: String,
}

impl From<StandingGate> for GateView {
    fn from(gate: StandingGate) -> Self {
        let definition = gate.definition;
        GateView {
            name: gate.name,
            dataset_id: definition.dataset_id,
            selector: definition.selector,
            delta: definition.delta,
            requirements: definition.requirements,
            allow: definition.allow,
            created_at: gate.created_at,
            created_by: gate.created_by,
            changed_at: gate.changed_at,
            changed_by: gate.changed_by,
        }
    }
}

fn record(what: &'static str, gate: &StandingGate, by: &str) {
    let definition = serde_json::to_string(&gate.definition).unwrap_or_default();
    tracing::info!(gate = %gate.name, workspace = %gate.workspace, by, definition, "{what}");
}

/// Create a standing gate.
#[utoipa::path(post, path = "/v1/gates", tag = "Gates", operation_id = "create_gate",
    params(("idempotency-key" = Option<String>, Header, description = "Repeated requests with this key get the first response")),
    request_body(content = GateRequest, example = json!(
        {"name": "recommender", "selector": {"app": "recommender"},
         "requirements": {"min_improvement": 0.01, "max_age": "7d", "version": "newest"}})),
    responses((status = 201, description = "Created", body = GateView,
               headers(("location" = String, description = "The path of the gate"))),
              (status = 409, description = "`name_taken`, `limit_reached` or `idempotency_in_progress`")))]
pub async fn create(
    State(app): State<App>,
    Caller(workspace): Caller,
    CallerName(by): CallerName,
    Params(_): Params<Nothing>,
    headers: HeaderMap,
    body: JsonBody<GateRequest>,
) -> Result<Response, Problem> {
    let name = body.value.new_name()?;
    let creation =
        Creation::new(&workspace, &headers, &[b"POST /v1/gates", &body.bytes], app.json_patience())?;
    let id = match creation.start(&app).await? {
        Start::Work(id) => GateId::from(id),
        Start::Replay(answer) => return replay(answer, None),
    };
    let worker = app.clone();
    let work = async move {
        let definition = body.value.resolve(&worker, &workspace).await?;
        store(&worker, NewGate { id, workspace, name, definition, by }).await
    };
    creation.finish(&app, work).await
}

async fn store(app: &App, new: NewGate) -> Result<Created, Problem> {
    let (id, workspace, name) = (new.id, new.workspace.clone(), new.name.clone());
    let gate = match app.store.repository().create_gate(new, MOST_GATES).await {
        Err(StoreError::Exists(Resource::Gate, _)) => {
            let gate = app.store.repository().gate(&workspace, &name).await?;
            // An earlier attempt of this request stored it, and the process died before it could respond.
            if gate.id != id {
                return Err(name_taken(&name));
            }
            gate
        }
        gate => gate?,
    };
    record("gate created", &gate, &gate.created_by);
    let location = [(header::LOCATION, format!("/v1/gates/{name}"))];
    Created::json(StatusCode::CREATED, &location, &GateView::from(gate))
}

fn name_taken(name: &GateName) -> Problem {
    let detail = format!(
        "There is a gate {name} already. Change it with PUT /v1/gates/{name}, or choose another name."
    );
    Problem::new(Code::NameTaken, detail)
}

/// List standing gates, newest first.
#[utoipa::path(get, path = "/v1/gates", tag = "Gates", operation_id = "list_gates", params(ListParams),
    responses((status = 200, description = "A page of gates", body = ListView<GateView>)))]
pub async fn list(
    State(app): State<App>,
    Caller(workspace): Caller,
    Params(params): Params<ListParams>,
) -> Result<Json<ListView<GateView>>, Problem> {
    Ok(listed(app.store.repository().gates(&workspace, &params.page()?).await?))
}

/// Get the definition of a standing gate.
#[utoipa::path(get, path = "/v1/gates/{name}/definition", tag = "Gates", operation_id = "get_gate_definition",
    params(("name" = String, Path)),
    responses((status = 200, description = "The definition", body = GateView)))]
pub async fn read(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(name): Id<GateName>,
    Params(_): Params<Nothing>,
) -> Result<Json<GateView>, Problem> {
    Ok(Json(app.store.repository().gate(&workspace, &name).await?.into()))
}

/// Replace the definition of a standing gate. What the body leaves out gets its default. Tokens stay valid.
#[utoipa::path(put, path = "/v1/gates/{name}", tag = "Gates", operation_id = "change_gate",
    params(("name" = String, Path)),
    request_body(content = GateRequest, example = json!(
        {"selector": {"app": "recommender"}, "requirements": {"min_improvement": 0.02}})),
    responses((status = 200, description = "Changed", body = GateView)))]
pub async fn change(
    State(app): State<App>,
    Caller(workspace): Caller,
    CallerName(by): CallerName,
    Id(name): Id<GateName>,
    Params(_): Params<Nothing>,
    body: JsonBody<GateRequest>,
) -> Result<Json<GateView>, Problem> {
    body.value.check_name(&name)?;
    let definition = body.value.resolve(&app, &workspace).await?;
    let gate = app.store.change_gate(&workspace, &name, &definition, &by).await?;
    record("gate changed", &gate, &by);
    Ok(Json(gate.into()))
}

/// Delete a standing gate and its tokens.
#[utoipa::path(delete, path = "/v1/gates/{name}", tag = "Gates", operation_id = "delete_gate",
    params(("name" = String, Path)),
    responses((status = 204, description = "Deleted")))]
pub async fn delete(
    State(app): State<App>,
    Caller(workspace): Caller,
    CallerName(by): CallerName,
    Id(name): Id<GateName>,
    Params(_): Params<Nothing>,
) -> Result<StatusCode, Problem> {
    app.store.delete_gate(&workspace, &name).await?;
    tracing::info!(gate = %name, workspace = %workspace, by, "gate deleted");
    Ok(StatusCode::NO_CONTENT)
}
