//! Imports: logs by reference, which a worker reads where they lie.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::JobStatus;
use crate::store::ids::{DatasetId, LeaseToken, PolicyId, Timestamp, Workspace};
use guarantor_engine::log::{NamedOutcome, Outcome};
use guarantor_ingest::{Format, LogOptions};

/// A log by reference, as it was requested. It is stored, so later releases must be able to read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceRequest {
    /// The addresses, in the order of the log.
    pub uris: Vec<String>,
    /// Whether the rows are copied. Otherwise the objects are pinned, and read again by every job.
    pub materialize: bool,
    /// The name of the dataset.
    pub name: Option<String>,
    /// The format of all objects.
    pub format: Format,
    /// The number of dimensions for named features, if the caller states it.
    pub hash_dims: Option<usize>,
    /// K, if the caller states it.
    pub n_actions: Option<usize>,
    /// The kind and range of the outcome, unless outcomes have names.
    pub outcome: Outcome,
    /// All outcomes, if they have names.
    pub outcomes: Vec<NamedOutcome>,
    /// What the caller states about the log.
    pub options: LogOptions,
    /// The stored policy that logged it, if there is one.
    pub logging_policy_id: Option<PolicyId>,
}

/// An object as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReadObject {
    /// Its address.
    #[schema(example = "s3://logs/2026-11-01.parquet")]
    pub uri: String,
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of its bytes.
    pub sha256: String,
    /// Its ETag, if the store has ETags.
    #[schema(required)]
    pub etag: Option<String>,
    /// Its version, if the bucket has versions.
    #[schema(required)]
    pub version: Option<String>,
}

/// A dataset whose rows stay in their objects: what its only file contains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PinnedLog {
    /// How the objects are read.
    pub request: SourceRequest,
    /// The objects, in the order of the log.
    pub objects: Vec<ReadObject>,
}

/// How far an import has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportProgress {
    /// The number of objects; 0 until they are found.
    pub objects: u64,
    /// Their size.
    pub bytes: u64,
    /// How many bytes were read.
    pub bytes_read: u64,
}

/// Why an import failed, as a stable code for clients and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImportCode {
    /// Rows are not valid; `errors` lists the first of them.
    InvalidRows,
    /// A file cannot be read in its format.
    InvalidFile,
    /// Rows were sent twice.
    RepeatedRows,
    /// Too many actions, features, contexts or bytes.
    TooLarge,
    /// An option does not fit the log.
    InvalidValue,
    /// The policy that the request names was deleted.
    UnknownPolicy,
    /// The server does not allow the address, or not anymore.
    SourceNotAllowed,
    /// No object is there, or none that matches.
    SourceNotFound,
    /// The place cannot be read.
    SourceUnreadable,
    /// An object was changed, replaced or deleted while it was read.
    SourceChanged,
    /// The import was started as often as allowed without an end.
    AttemptsExhausted,
}

impl ImportCode {
    /// The code as clients see it and as it is stored.
    pub fn name(self) -> &'static str {
        match self {
            ImportCode::InvalidRows => "invalid_rows",
            ImportCode::InvalidFile => "invalid_file",
            ImportCode::RepeatedRows => "repeated_rows",
            ImportCode::TooLarge => "too_large",
            ImportCode::InvalidValue => "invalid_value",
            ImportCode::UnknownPolicy => "unknown_policy",
            ImportCode::SourceNotAllowed => "source_not_allowed",
            ImportCode::SourceNotFound => "source_not_found",
            ImportCode::SourceUnreadable => "source_unreadable",
            ImportCode::SourceChanged => "source_changed",
            ImportCode::AttemptsExhausted => "attempts_exhausted",
        }
    }
}

impl fmt::Display for ImportCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An invalid row of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RowFault {
    /// The number of the row in its object, from 1; absent if the fault is not of a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<u64>,
    /// The field.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

/// Why an import failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportFailure {
    /// A stable code.
    pub code: ImportCode,
    /// What went wrong.
    pub message: String,
    /// The object that is at fault, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// The first invalid rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<RowFault>,
}

impl ImportFailure {
    /// A failure of the import as a whole.
    pub fn new(code: ImportCode, message: impl Into<String>) -> Self {
        ImportFailure { code, message: message.into(), uri: None, errors: Vec::new() }
    }
}

/// An import to be queued.
#[derive(Debug, Clone)]
pub struct NewImport {
    /// Its id, and that of the dataset that it creates.
    pub id: DatasetId,
    /// Its workspace.
    pub workspace: Workspace,
    /// Who submitted it.
    pub submitted_by: String,
    /// What to read.
    pub request: SourceRequest,
}

/// An import.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Import {
    /// Its id, and that of the dataset that it creates.
    pub id: DatasetId,
    /// Its workspace.
    pub workspace: Workspace,
    /// Its state.
    pub status: JobStatus,
    /// Who submitted it.
    pub submitted_by: String,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When its last attempt began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// How many times it was started.
    #[sqlx(try_from = "i64")]
    pub attempt: u32,
    /// Whether a client asked to cancel it.
    pub cancel_requested: bool,
    /// What to read.
    #[sqlx(json)]
    pub request: SourceRequest,
    /// How far it has come.
    #[sqlx(json(nullable))]
    pub progress: Option<ImportProgress>,
    /// Why it failed.
    #[sqlx(json(nullable))]
    pub failure: Option<ImportFailure>,
    /// Grows with every change.
    #[sqlx(try_from = "i64")]
    pub revision: u64,
}

/// An import that a worker has claimed.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedImport {
    /// The import.
    pub import: Import,
    /// Proof of the claim.
    pub token: LeaseToken,
}

/// How the transaction that stores a dataset ends its import.
#[derive(Debug, Clone)]
pub struct ImportDone {
    /// Proof of the claim.
    pub token: LeaseToken,
    /// The objects, as they were read.
    pub objects: Vec<ReadObject>,
    /// How much was read.
    pub progress: ImportProgress,
}

/// How a worker ends an attempt that stored nothing.
#[derive(Debug, Clone)]
pub enum ImportEnd {
    /// Reading again will not help.
    Failed(ImportFailure),
    /// It was canceled.
    Cancelled,
    /// The process is shutting down. The import returns to the queue as if this attempt had not started.
    Released,
    /// Something outside of the import got in the way. It returns to the queue, or fails if this was the last attempt.
    Retry(ImportFailure),
}
