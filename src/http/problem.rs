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
use crate::store::{Damage, Resource, StoreError};
use guarantor_engine::EngineError;
use guarantor_engine::error::SpecError;

/// One error in a request.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = Fault)]
pub struct FieldError {
    /// The row, 1-based, as in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<u64>,
    /// The field, dotted, as in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What is wrong with it.
    pub message: String,
}

/// An error on its way to the client.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Which error it is; it decides the status.
    pub code: Code,
    /// What happened, and what to do.
    pub detail: String,
    /// The rows or fields that are wrong.
    pub errors: Vec<FieldError>,
    /// Headers of the response, such as `Retry-After`.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Members of the body in addition to the standard ones.
    pub more: Map<String, Value>,
}

/// The shape of every error.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Problem, example = json!({
    "type": "urn:guarantor:problem:unknown_field", "title": "Unknown field", "status": 422,
    "detail": "unknown field `dleta`, expected one of `delta`, `tau`", "instance": "/v1/jobs",
    "code": "unknown_field", "errors": [{"field": "dleta", "message": "unknown field `dleta`"}]
}))]
pub struct ProblemBody {
    /// A URN that ends with the code.
    #[serde(rename = "type")]
    kind: String,
    /// What the code means.
    title: String,
    status: u16,
    /// What happened, and what to do.
    detail: String,
    /// The path of the request.
    instance: String,
    /// The stable code to branch on.
    #[schema(value_type = Code)]
    code: &'static str,
    /// The rows or fields that are wrong; empty if the error is not about rows or fields.
    errors: Vec<FieldError>,
    #[serde(flatten)]
    #[schema(ignore)]
    more: Map<String, Value>,
}

impl Problem {
    /// A problem about the request as a whole.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem { code, detail: detail.into(), errors: vec![], headers: vec![], more: Map::new() }
    }

    /// A problem about one field.
    pub fn field(code: Code, field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (field.into(), message.into());
        let problem = Problem::new(code, format!("{field}: {message}"));
        problem.with_fault(FieldError { row: None, field: Some(field), message })
    }

    /// A failure of the service: logged here in full, shown to the client as a code only.
    pub fn internal(what: impl std::fmt::Display) -> Self {
        tracing::error!(error = %what, "internal error");
        Problem::new(Code::Internal, "Look for the request id from x-request-id in the server's logs.")
    }

    /// Adds an error in a row or field.
    pub fn with_fault(mut self, fault: FieldError) -> Self {
        self.errors.push(fault);
        self
    }

    /// Tells the client to try again after `delay`, at least a second.
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.headers.push((header::RETRY_AFTER, HeaderValue::from(delay.as_secs().max(1))));
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Adds a member to the body.
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

    /// The response as it is sent, for a request to the path `instance`.
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
    /// Carries the problem to the layer that writes its body.
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<SpecError> for Problem {
    fn from(error: SpecError) -> Self {
        Problem::field(Code::from(error.code), error.field, error.message)
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Spec(error) => error.into(),
            EngineError::Unavailable(_) => {
                Problem::new(Code::Unavailable, "The log cannot be read at the moment; try again.")
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
            ResolveError::TooLarge(too_large) => {
                let message =
                    format!("{too_large}. The limit is the setting max_job_memory_bytes of the server");
                Problem::field(Code::JobTooLarge, "dataset_id", message)
                    .member("estimated_memory_bytes", too_large.footprint.total())
                    .member("max_job_memory_bytes", too_large.max_bytes)
            }
            ResolveError::Store(error) => error.into(),
        }
    }
}

/// When to try again after a failed write. A disk is rarely fixed sooner.
const UNWRITABLE: Duration = Duration::from_secs(60);

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound(Resource::Gate, name) => {
                Problem::new(Code::NotFound, format!("No gate has the name {name}."))
            }
            StoreError::NotFound(resource, id) => {
                Problem::new(Code::NotFound, format!("No {resource} has the id {id}."))
            }
            StoreError::InUse { resource, by } => Problem::new(
                Code::InUse,
                format!("The {resource} is in use by {by}; try again when that has finished."),
            ),
            StoreError::LimitReached { resource: Resource::Delivery, limit } => {
                let detail =
                    format!("{limit} deliveries of the webhook wait already, the maximum; try again later.");
                Problem::new(Code::LimitReached, detail)
            }
            StoreError::LimitReached { resource: Resource::Import, limit } => {
                let detail =
                    format!("{limit} imports are not finished, the maximum; try again when one has ended.");
                Problem::new(Code::LimitReached, detail)
            }
            StoreError::LimitReached { resource, limit } => {
                let detail = format!("There are {limit} {resource}s already, the maximum; delete one first.");
                Problem::new(Code::LimitReached, detail)
            }
            StoreError::QueueFull { queued, limit } => {
                let detail = format!("{queued} of {limit} jobs queued; try again later.");
                Problem::new(Code::QueueFull, detail).retry_after(Duration::from_secs(10))
            }
            StoreError::FamilyExhausted { looks, taken, held } => {
                let message = format!(
                    "all {looks} looks of the family are taken: {taken} by certificates and {held} by unfinished \
                     jobs; send `delta` instead, which the dataset's ledger adds to what is spent"
                );
                Problem::field(Code::FamilyExhausted, "family", message)
            }
            StoreError::Changed => Problem::new(
                Code::InUse,
                "The dataset changed several times while the job was submitted; submit it again.",
            ),
            StoreError::Finished(how) => {
                Problem::new(Code::JobFinished, format!("The job has already {how}."))
            }
            StoreError::ImportFinished(how) => {
                Problem::new(Code::ImportFinished, format!("The import has already {how}."))
            }
            StoreError::BadCursor => {
                let message = "is not a cursor of this list; use the `next` of an earlier page";
                Problem::field(Code::InvalidCursor, "after", message)
            }
            StoreError::Damaged(Damage { owner, what }) => {
                tracing::error!(error = what, "stored data is damaged");
                let owner = owner.map_or_else(|| "this resource".into(), |owner| owner.to_string());
                let detail = format!("The stored data of {owner} is damaged and was not used.");
                Problem::new(Code::Damaged, detail + " Restore it from a backup.")
            }
            StoreError::Full(why) => {
                tracing::error!(error = why, "no storage space left");
                let detail = "The server has no storage space left; nothing was stored. Try again when there is space.";
                Problem::new(Code::InsufficientStorage, detail).retry_after(UNWRITABLE)
            }
            StoreError::ReadOnly(why) => {
                tracing::error!(error = why, "the data directory is not writable");
                let detail = "The server cannot write to its storage; nothing was stored. Try again later.";
                Problem::new(Code::Unavailable, detail).retry_after(UNWRITABLE)
            }
            error if error.is_transient() => {
                tracing::error!(%error, "the store is unreachable");
                Problem::new(Code::Unavailable, "The store is unreachable; try again.")
                    .retry_after(Duration::from_secs(5))
            }
            other => Problem::internal(other),
        }
    }
}
