//! Errors as `application/problem+json` (RFC 9457). Handlers and layers return a `Problem`; the layer
//! `layers/problems.rs` adds the path of the request and writes the body.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};

use super::codes::Code;
use crate::queue::ResolveError;
use crate::store::StoreError;
use guarantor_engine::EngineError;
use guarantor_engine::error::SpecError;

/// One thing that is wrong with a request.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Fault {
    /// 1-based, as in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<u64>,
    /// Dotted, as in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    pub message: String,
}

#[derive(Debug, Clone)]
pub struct Problem {
    pub code: Code,
    pub detail: String,
    pub errors: Vec<Fault>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Members beside the standard ones.
    pub more: Map<String, Value>,
}

/// The shape of every error.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Problem, example = json!({
    "type": "urn:guarantor:problem:unknown_field", "title": "A field is not known", "status": 422,
    "detail": "unknown field `dleta`, expected one of `delta`, `tau`", "instance": "/v1/jobs",
    "code": "unknown_field", "errors": [{"field": "dleta", "message": "unknown field `dleta`"}]
}))]
pub struct ProblemBody {
    /// A URN made of the code.
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    /// What happened this time, and what to do.
    detail: String,
    /// The path that was asked for.
    instance: String,
    /// Stable, snake_case.
    #[schema(value_type = Code)]
    code: &'static str,
    /// Which rows or fields; empty where the code says it all.
    errors: Vec<Fault>,
    #[serde(flatten)]
    #[schema(ignore)]
    more: Map<String, Value>,
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem { code, detail: detail.into(), errors: vec![], headers: vec![], more: Map::new() }
    }

    /// A problem with one field.
    pub fn field(code: Code, field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (field.into(), message.into());
        let problem = Problem::new(code, format!("{field}: {message}"));
        problem.with_fault(Fault { row: None, field: Some(field), message })
    }

    /// A fault of ours: logged here in full, shown to the client as nothing but a code.
    pub fn internal(what: impl std::fmt::Display) -> Self {
        tracing::error!(error = %what, "internal error");
        Problem::new(
            Code::Internal,
            "The request id in x-request-id finds this failure in the server's logs.",
        )
    }

    pub fn with_fault(mut self, fault: Fault) -> Self {
        self.errors.push(fault);
        self
    }

    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.headers.push((header::RETRY_AFTER, HeaderValue::from(delay.as_secs().max(1))));
        self
    }

    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    pub fn member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.into(), value.into());
        self
    }

    fn body(&self, instance: &str) -> ProblemBody {
        ProblemBody {
            kind: format!("urn:guarantor:problem:{}", self.code.name()),
            title: self.code.title().into(),
            status: self.code.status().as_u16(),
            detail: self.detail.clone(),
            instance: instance.into(),
            code: self.code.name(),
            errors: self.errors.clone(),
            more: self.more.clone(),
        }
    }

    /// The response as it goes out.
    pub fn render(&self, instance: &str) -> Response {
        let mut response = (self.code.status(), Json(self.body(instance))).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        for (name, value) in &self.headers {
            response.headers_mut().insert(name, value.clone());
        }
        response
    }
}

impl IntoResponse for Problem {
    /// Carries the problem to the outermost layer, which renders it.
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<SpecError> for Problem {
    fn from(error: SpecError) -> Self {
        Problem::field(Code::of_engine(error.code), error.field, error.message)
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Spec(error) => error.into(),
            EngineError::Unavailable(_) => {
                Problem::new(Code::Unavailable, "The log cannot be read; try again.")
                    .retry_after(Duration::from_secs(5))
            }
            other => Problem::internal(other),
        }
    }
}

impl From<ResolveError> for Problem {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::Spec(error) => error.into(),
            ResolveError::Store(error) => error.into(),
        }
    }
}

/// A disk is seldom mended sooner.
const UNWRITABLE: Duration = Duration::from_secs(60);

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound(resource, id) => {
                Problem::new(Code::NotFound, format!("There is no {resource} {id}."))
            }
            StoreError::InUse { resource, by } => Problem::new(
                Code::InUse,
                format!("The {resource} is needed by {by}; try again once that has ended."),
            ),
            StoreError::QueueFull { queued, limit } => {
                let detail = format!("{queued} jobs wait already, and {limit} may; try again later.");
                Problem::new(Code::QueueFull, detail).retry_after(Duration::from_secs(10))
            }
            StoreError::FamilyExhausted { looks, taken, held } => {
                let message = format!(
                    "its {looks} looks at this dataset are taken: {taken} by certificates and {held} by jobs that are \
                     not finished; send `delta`, whose cost the dataset's ledger counts on top"
                );
                Problem::field(Code::FamilyExhausted, "family", message)
            }
            StoreError::Finished(how) => {
                Problem::new(Code::JobFinished, format!("The job has already {how}."))
            }
            StoreError::BadCursor => {
                let message = "is not a cursor that this list gave out; use the `next` of an earlier page";
                Problem::field(Code::InvalidCursor, "after", message)
            }
            StoreError::Damaged(what) => {
                tracing::error!(error = what, "stored data is damaged");
                let detail = format!("What is stored of {} is damaged and was not used.", owner_of(&what));
                Problem::new(Code::Damaged, detail + " Restore it from a backup.")
            }
            StoreError::Full(why) => {
                tracing::error!(error = why, "there is no room for data");
                let detail =
                    "The server has no room to store this; nothing was stored. Try again once there is.";
                Problem::new(Code::InsufficientStorage, detail).retry_after(UNWRITABLE)
            }
            StoreError::ReadOnly(why) => {
                tracing::error!(error = why, "the data directory cannot be written");
                let detail = "The server cannot write its data at the moment; nothing was stored.";
                Problem::new(Code::Unavailable, detail).retry_after(UNWRITABLE)
            }
            error if error.is_transient() => {
                tracing::error!(%error, "the store is away");
                Problem::new(Code::Unavailable, "The store cannot be reached; try again.")
                    .retry_after(Duration::from_secs(5))
            }
            other => Problem::internal(other),
        }
    }
}

/// Whose file it is, by id: the log tells which file and what is wrong with it, an answer does not.
fn owner_of(what: &str) -> String {
    let mut key = what.split('/');
    match (key.next(), key.next().and_then(|id| id.get(..36)?.parse::<uuid::Uuid>().ok())) {
        (Some("datasets"), Some(id)) => format!("dataset {id}"),
        (Some("jobs"), Some(id)) => format!("job {id}"),
        (Some("policies"), Some(id)) => format!("policy {id}"),
        _ => "this".into(),
    }
}
