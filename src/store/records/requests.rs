//! Requests with an idempotency key, and their stored responses.

use std::time::Duration;

use crate::store::ids::Workspace;

/// A request with an idempotency key.
#[derive(Debug, Clone)]
pub struct IdempotentRequest {
    /// The caller's workspace.
    pub workspace: Workspace,
    /// The idempotency key.
    pub key: String,
    /// A hash of the request, by which another request with the same key is noticed.
    pub fingerprint: String,
    /// The id that the resource gets if this is the first request with the key.
    pub resource_id: uuid::Uuid,
    /// How long the response may take before a repeated request may take over the work.
    pub patience: Duration,
}

/// A response that is returned again when its request is repeated.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// What to do with a request that has an idempotency key.
#[derive(Debug, Clone, PartialEq)]
pub enum Begun {
    /// Do the work and give the resource this id. If an earlier attempt stopped half-way, it is that
    /// attempt's id, and the resource may exist already: `StoreError::Exists` then says so.
    Proceed {
        /// The id for the resource.
        resource_id: uuid::Uuid,
    },
    /// Return this stored response.
    Replay(StoredAnswer),
    /// The key was used with another request.
    Mismatch,
    /// The first request is still being processed.
    InProgress,
}
