//! `/v1/gates/{name}/tokens`: tokens with which a caller without an API key asks one gate. A token is shown once
//! and stored as its SHA-256. It never appears in a log line, a metric or a problem.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};

use super::MOST_TOKENS;
use crate::http::App;
use crate::http::auth::{Caller, CallerName};
use crate::http::codes::Code;
use crate::http::extract::{Id, Nothing, Params, optional_json};
use crate::http::page::ListView;
use crate::http::problem::Problem;
use crate::store::{GateName, GateToken, GateTokenId, KeyHash, NewGateToken, Timestamp, new_gate_token};

/// The most bytes of the name of a token.
const LONGEST_NAME: usize = 200;

/// A token to be created.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GateTokenRequest)]
pub struct TokenRequest {
    /// What the token is for.
    #[schema(max_length = 200)]
    name: Option<String>,
}

/// A token of a gate, without its secret.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = GateToken)]
pub struct TokenView {
    #[schema(value_type = String, format = "uuid")]
    id: GateTokenId,
    /// What the token is for.
    name: String,
    #[schema(value_type = String, format = "date-time")]
    created_at: Timestamp,
    /// The API key that created it.
    created_by: String,
}

impl From<GateToken> for TokenView {
    fn from(token: GateToken) -> Self {
        TokenView {
            id: token.id,
            name: token.name,
            created_at: token.created_at,
            created_by: token.created_by,
        }
    }
}

/// A new token with its secret, which is shown this once.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = NewGateToken)]
pub struct NewTokenView {
    #[serde(flatten)]
    about: TokenView,
    /// The secret.
    token: String,
    /// The path that asks the gate, by GET or POST, without a header.
    url: String,
}

/// Create a token of a standing gate. The token is shown in this response only; a repeated request creates another.
#[utoipa::path(post, path = "/v1/gates/{name}/tokens", tag = "Gates", operation_id = "create_gate_token",
    params(("name" = String, Path)),
    request_body(content = Option<TokenRequest>, example = json!({"name": "flagger"})),
    responses((status = 201, description = "Created", body = NewTokenView,
               headers(("location" = String, description = "The path of the token, for DELETE"))),
              (status = 409, description = "`limit_reached`")))]
pub async fn create(
    State(app): State<App>,
    Caller(workspace): Caller,
    CallerName(by): CallerName,
    Id(gate): Id<GateName>,
    Params(_): Params<Nothing>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, [(HeaderName, HeaderValue); 2], Json<NewTokenView>), Problem> {
    let request: TokenRequest = optional_json(&app, &headers, body).await?.unwrap_or_default();
    let name = request.name.unwrap_or_default();
    if name.len() > LONGEST_NAME {
        let message = format!("has {} bytes; the maximum is {LONGEST_NAME}", name.len());
        return Err(Problem::field(Code::InvalidValue, "name", message));
    }
    let secret = new_gate_token()?;
    let new = NewGateToken { id: GateTokenId::new(), name, hash: KeyHash::of(&secret), by };
    let token = app.store.repository().create_gate_token(&workspace, &gate, new, MOST_TOKENS).await?;
    tracing::info!(%gate, %workspace, token_id = %token.id, by = token.created_by, "gate token created");
    let location = HeaderValue::try_from(format!("/v1/gates/{gate}/tokens/{}", token.id));
    let headers = [
        (header::LOCATION, location.map_err(Problem::internal)?),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    let view = NewTokenView { about: token.into(), url: format!("/v1/gate/{secret}"), token: secret };
    Ok((StatusCode::CREATED, headers, Json(view)))
}

/// List the tokens of a standing gate, newest first, without their secrets.
#[utoipa::path(get, path = "/v1/gates/{name}/tokens", tag = "Gates", operation_id = "list_gate_tokens",
    params(("name" = String, Path)),
    responses((status = 200, description = "All tokens that are not revoked, on one page", body = ListView<TokenView>)))]
pub async fn list(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(gate): Id<GateName>,
    Params(_): Params<Nothing>,
) -> Result<Json<ListView<TokenView>>, Problem> {
    let tokens = app.store.repository().gate_tokens(&workspace, &gate).await?;
    let data = tokens.into_iter().map(TokenView::from).collect();
    Ok(Json(ListView { data, has_more: false, next: None }))
}

/// Revoke a token of a standing gate. It stops working at once.
#[utoipa::path(delete, path = "/v1/gates/{name}/tokens/{id}", tag = "Gates", operation_id = "revoke_gate_token",
    params(("name" = String, Path), ("id" = String, Path, format = "uuid")),
    responses((status = 204, description = "Revoked")))]
pub async fn revoke(
    State(app): State<App>,
    Caller(workspace): Caller,
    CallerName(by): CallerName,
    path: Result<Path<(String, String)>, PathRejection>,
    Params(_): Params<Nothing>,
) -> Result<StatusCode, Problem> {
    let unknown = || Problem::new(Code::NotFound, "The path names no gate or no token of it.");
    let Path((gate, id)) = path.map_err(|_| unknown())?;
    let gate: GateName = gate.parse().map_err(|_| unknown())?;
    let id: GateTokenId = id.parse().map_err(|_| unknown())?;
    app.store.revoke_gate_token(&workspace, &gate, id).await?;
    tracing::info!(%gate, %workspace, token_id = %id, by, "gate token revoked");
    Ok(StatusCode::NO_CONTENT)
}
