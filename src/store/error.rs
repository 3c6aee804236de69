//! What can go wrong in the store, by what the caller can do about it.

use std::fmt;

use guarantor_engine::EngineError;

/// The kinds of things that a request can name and not find, or find in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    Dataset,
    DatasetVersion,
    Policy,
    Job,
    Key,
    Blob,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Resource::Dataset => "dataset",
            Resource::DatasetVersion => "dataset version",
            Resource::Policy => "policy",
            Resource::Job => "job",
            Resource::Key => "key",
            Resource::Blob => "blob",
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Also the answer for what belongs to another workspace.
    #[error("there is no {0} {1}")]
    NotFound(Resource, String),
    /// Something unfinished still needs it; `by` says what.
    #[error("the {resource} is needed by {by}")]
    InUse { resource: Resource, by: String },
    /// The id is taken: an earlier attempt of the same request got this far.
    #[error("the {0} {1} exists already")]
    Exists(Resource, String),
    #[error("{queued} jobs wait already; the limit is {limit}")]
    QueueFull { queued: u64, limit: u64 },
    /// Every look of the family was taken, or is held by a job that is not finished.
    #[error("the family's {looks} looks are taken: {taken} by certificates, {held} by jobs that wait or run")]
    FamilyExhausted { looks: u64, taken: u64, held: u64 },
    /// The write came from a worker whose lease has passed to another. Nothing was written.
    #[error("the lease on job {0} is lost")]
    LeaseLost(String),
    /// The job has ended, so the change that was asked for cannot happen any more.
    #[error("the job has already {0}")]
    Finished(&'static str),
    /// The cursor was not made by this list.
    #[error("the cursor is not one that this list gave out")]
    BadCursor,
    /// A stored document cannot be read back, or does not have the digest that it was stored with.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
    /// The database is of a newer release, or the data directory belongs to another process.
    #[error("{0}")]
    Refused(String),
    /// Nothing was written; the same call may succeed once there is room again.
    #[error("there is no room left for data: {0}")]
    Full(String),
    /// Nothing was written; somebody has to make the data directory writable again.
    #[error("the data cannot be written: {0}")]
    ReadOnly(String),
    #[error("database: {0}")]
    Database(sqlx::Error),
    #[error("blob store: {0}")]
    Blobs(object_store::Error),
    #[error("file system: {0}")]
    Io(std::io::Error),
}

impl StoreError {
    pub fn not_found(resource: Resource, id: impl fmt::Display) -> Self {
        StoreError::NotFound(resource, id.to_string())
    }

    pub fn damaged(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        StoreError::Damaged(format!("{what}: {why}"))
    }

    /// Whether the same call may succeed later: the store is away rather than the request wrong.
    pub fn is_transient(&self) -> bool {
        let away = matches!(self, StoreError::Database(_) | StoreError::Blobs(_) | StoreError::Io(_));
        away || self.is_unwritable()
    }

    /// Whether it was the place where data goes that refused, and not the data.
    pub fn is_unwritable(&self) -> bool {
        matches!(self, StoreError::Full(_) | StoreError::ReadOnly(_))
    }
}

/// SQLite's primary result codes, which the low byte of an extended one is.
const SQLITE_READONLY: i32 = 8;
const SQLITE_CORRUPT: i32 = 11;
const SQLITE_FULL: i32 = 13;
const SQLITE_NOTADB: i32 = 26;
/// The shared memory of the write-ahead log could not grow.
const SQLITE_IOERR_SHMSIZE: i32 = 4874;

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(|error| error.code()?.parse::<i32>().ok());
        match code {
            Some(SQLITE_IOERR_SHMSIZE) => StoreError::Full(error.to_string()),
            Some(code) => match code & 0xff {
                SQLITE_FULL => StoreError::Full(error.to_string()),
                SQLITE_READONLY => StoreError::ReadOnly(error.to_string()),
                SQLITE_CORRUPT | SQLITE_NOTADB => StoreError::damaged("the database", error),
                _ => StoreError::Database(error),
            },
            None => StoreError::Database(error),
        }
    }
}

impl From<object_store::Error> for StoreError {
    fn from(error: object_store::Error) -> Self {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(inner) = cause {
            if let Some(unwritable) = inner.downcast_ref().and_then(unwritable) {
                return unwritable;
            }
            cause = inner.source();
        }
        StoreError::Blobs(error)
    }
}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        unwritable(&error).unwrap_or(StoreError::Io(error))
    }
}

fn unwritable(error: &std::io::Error) -> Option<StoreError> {
    use std::io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded => Some(StoreError::Full(error.to_string())),
        ReadOnlyFilesystem | PermissionDenied => Some(StoreError::ReadOnly(error.to_string())),
        _ => None,
    }
}

pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// For a log that the engine reads while it computes.
impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        if error.is_transient() {
            // The cause may name files and hosts: it is for the log, not for whoever reads the job.
            tracing::warn!(%error, "a log could not be read");
            return EngineError::Unavailable("the store could not be reached".into());
        }
        EngineError::Log(error.to_string())
    }
}
