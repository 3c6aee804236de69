//! The OpenAPI document, generated from the handlers, and the pages that serve it.

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::middleware::map_response;
use axum::response::IntoResponse;
use axum::routing::get;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder, Type, schema};
use utoipa::{OpenApi as _, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::SwaggerUi;

use super::codes::Code;
use super::problem::{FieldError, ProblemBody};
use super::{
    App, certificates, datasets, decisions, gates, health, imports, jobs, metrics, partials, plans, policies,
    webhooks,
};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Guarantor", description = "Certifies policy improvements before they are rolled out. \
        Upload the log of the deployed policy, submit a job, and ask the gate.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")),
    components(schemas(ProblemBody, FieldError, Code)),
    tags((name = "Datasets", description = "Logs of the deployed policy"),
         (name = "Policies", description = "Uploaded and learned policies, and their decisions"),
         (name = "Jobs", description = "Learn or evaluate policies, and decide about deployment"),
         (name = "Gates", description = "Ask whether a policy may be rolled out"),
         (name = "Webhooks", description = "Who is told when a job has ended"),
         (name = "Certificates", description = "What is guaranteed, and how to verify it"),
         (name = "Partials", description = "Certificates of logs that outgrow one machine"),
         (name = "Plans", description = "How many rows would certify an improvement"),
         (name = "Operations", description = "Health and metrics for operators"))
)]
struct Document;

/// The open routes, the guarded ones, and the document that describes both.
pub fn assemble(metrics_need_key: bool) -> (Router<App>, Router<App>, OpenApi) {
    let (open, guarded) = operations(metrics_need_key);
    let open = open.merge(gates::open_routes());
    let guarded = guarded
        .merge(datasets::routes())
        .merge(imports::routes())
        .merge(policies::routes())
        .merge(decisions::routes())
        .merge(jobs::routes())
        .merge(gates::routes())
        .merge(webhooks::routes())
        .merge(certificates::routes())
        .merge(plans::routes())
        .merge(partials::routes());
    let (open, open_api) = open.split_for_parts();
    let (guarded, guarded_api) = guarded.split_for_parts();
    let mut api = Document::openapi();
    api.merge(open_api);
    api.merge(guarded_api);
    complete(&mut api);
    (open, guarded, api)
}

/// The routes for operators, open and guarded.
fn operations(metrics_need_key: bool) -> (OpenApiRouter<App>, OpenApiRouter<App>) {
    let counters = OpenApiRouter::new().routes(routes!(metrics::metrics));
    match metrics_need_key {
        true => (health::routes(), counters),
        false => (health::routes().merge(counters), OpenApiRouter::new()),
    }
}

/// The same as routers without a document.
pub fn health(metrics_need_key: bool) -> (Router<App>, Router<App>) {
    let (open, guarded) = operations(metrics_need_key);
    (open.into(), guarded.into())
}

/// The document as it is committed and served, as JSON.
pub fn document() -> String {
    let (_, _, api) = assemble(false);
    let text = api.to_pretty_json().unwrap_or_default();
    format!("{text}\n")
}

/// `/openapi.json`, and `/docs` from files in the binary.
pub fn pages(api: OpenApi) -> Router<App> {
    let json = api.to_json().unwrap_or_default();
    let serve = move || async move { ([("content-type", "application/json")], json).into_response() };
    let page = SwaggerUi::new("/docs").config(utoipa_swagger_ui::Config::from("/openapi.json"));
    Router::from(page).layer(map_response(shield)).route("/openapi.json", get(serve))
}

/// Restricts the page to what this server sends, and forbids framing it.
async fn shield(mut response: axum::response::Response) -> axum::response::Response {
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                          img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                          frame-ancestors 'none'";
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Adds what all operations share: the security scheme, the problems that any of them can return, and
/// the request id. Handlers declare only the rest.
fn complete(api: &mut OpenApi) {
    let components = api.components.get_or_insert_default();
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.security_schemes.insert("api_key".into(), scheme.into());
    for (path, item) in &mut api.paths.paths {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            complete_operation(path, operation);
        }
    }
}

/// Paths whose POST or PUT stores something, and can run out of storage space.
const CREATING: [&str; 10] = [
    "/v1/datasets",
    "/v1/datasets/{id}/rows",
    "/v1/policies",
    "/v1/jobs",
    "/v1/gates",
    "/v1/gates/{name}",
    "/v1/gates/{name}/tokens",
    "/v1/webhooks",
    "/v1/webhooks/{id}",
    "/v1/webhooks/{id}/secret",
];

fn complete_operation(path: &str, operation: &mut Operation) {
    let mut problems = vec![Code::Internal];
    if operation.request_body.is_some() && super::takes_uploads(path) {
        problems.push(Code::TooManyUploads);
    }
    if path.starts_with("/v1/") {
        problems.extend([Code::InvalidQuery, Code::RequestTimeout, Code::Unavailable, Code::WrongHost]);
        // A token in the path stands for a key.
        if !path.contains("{token}") {
            // The empty requirement: without any keys, none is required.
            let key = SecurityRequirement::new("api_key", Vec::<String>::new());
            operation.security = Some(vec![key, SecurityRequirement::default()]);
            problems.extend([Code::Unauthorized, Code::RoleNotSufficient, Code::TooManyRequests]);
        }
    }
    if operation.request_body.is_some() && CREATING.contains(&path) {
        problems.push(Code::InsufficientStorage);
    }
    if path.contains('{') {
        problems.push(Code::NotFound);
    }
    if operation.request_body.is_some() {
        problems.extend([Code::BodyTooLarge, Code::UnsupportedMediaType, Code::InvalidValue]);
    }
    let responses = &mut operation.responses.responses;
    for code in problems {
        let status = code.status().as_u16().to_string();
        let response = ResponseBuilder::new().description(code.title()).build();
        responses.entry(status).or_insert(RefOr::T(response));
    }
    for (status, response) in responses {
        if let RefOr::T(response) = response {
            complete_response(status, response);
        }
    }
}

fn complete_response(status: &str, response: &mut Response) {
    if status.starts_with(['4', '5']) && response.content.is_empty() {
        let problem = Ref::from_schema_name(ProblemBody::name());
        let content = ContentBuilder::new().schema(Some(problem)).build();
        response.content.insert("application/problem+json".into(), content.into());
    }
    let id = schema::ObjectBuilder::new().schema_type(Type::String).build();
    let header = HeaderBuilder::new()
        .schema(Some(id))
        .description(Some("Identifies this request in the logs"))
        .build();
    response.headers.insert("x-request-id".into(), header.into());
}
