//! What can go wrong in the store, by what the caller can do about it.

use std::fmt;

use super::blob_keys::Owner;
use guarantor_engine::EngineError;
use uuid::Uuid;

/// The kinds of resources that a request can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// A dataset.
    Dataset,
    /// One version of a dataset.
    DatasetVersion,
    /// A policy.
    Policy,
    /// A job.
    Job,
    /// An API key.
    Key,
    /// A standing gate.
    Gate,
    /// A token of a standing gate.
    GateToken,
    /// A webhook.
    Webhook,
    /// A delivery of a webhook.
    Delivery,
    /// An import.
    Import,
    /// A stored file.
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
            Resource::Gate => "gate",
            Resource::GateToken => "token",
            Resource::Webhook => "webhook",
            Resource::Delivery => "delivery",
            Resource::Import => "import",
            Resource::Blob => "blob",
        })
    }
}

/// Stored data that cannot be read back, or that does not have the digest it was stored with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The resource that it belongs to, if that is known. A response may name it.
    pub owner: Option<Owner>,
    /// Which file or column it is and what is wrong with it. This is for the log, not for a response.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Why a call to the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such resource in the caller's workspace.
    #[error("there is no {0} {1}")]
    NotFound(Resource, String),
    /// Something unfinished still needs the resource.
    #[error("the {resource} is in use by {by}")]
    InUse {
        /// The resource that is needed.
        resource: Resource,
        /// What needs it, and what to do about it.
        by: String,
    },
    /// The id is taken: an earlier attempt of the same request got this far.
    #[error("the {0} {1} already exists")]
    Exists(Resource, String),
    /// The queue has no room for another job.
    #[error("{queued} of {limit} jobs queued")]
    QueueFull {
        /// The number of queued jobs.
        queued: u64,
        /// The most that may be queued.
        limit: u64,
    },
    /// There are as many of these resources as there may be.
    #[error("there are already {limit} of the resource {resource}, which is the maximum")]
    LimitReached {
        /// The kind of resource.
        resource: Resource,
        /// The most that there may be.
        limit: u64,
    },
    /// Every look of the family is taken, or held by an unfinished job.
    #[error("no look of the family is left: {taken} of {looks} taken, {held} held by unfinished jobs")]
    FamilyExhausted {
        /// The number of looks of the family.
        looks: u64,
        /// Looks that certificates or shown bounds have taken.
        taken: u64,
        /// Looks that unfinished jobs hold.
        held: u64,
    },
    /// The dataset has changed since the job's spec was resolved, or rows of it were seen since. Nothing was
    /// written; resolve the spec again.
    #[error("the dataset has changed since the spec was resolved")]
    Changed,
    /// The write came from a worker whose lease has passed to another. Nothing was written.
    #[error("the lease on {0} was lost")]
    LeaseLost(Uuid),
    /// The job has ended, so it cannot be changed anymore.
    #[error("the job has already {0}")]
    Finished(&'static str),
    /// The import has ended, so it cannot be canceled anymore.
    #[error("the import has already {0}")]
    ImportFinished(String),
    /// An object that a dataset's rows are in is not the one anymore that was pinned.
    #[error(
        "{0} was changed, replaced or deleted since the dataset was created from it; restore the object, or create \
         another dataset"
    )]
    SourceChanged(String),
    /// The cursor was not issued by this list.
    #[error("the cursor was not issued by this list")]
    BadCursor,
    /// Stored data is damaged and was not used.
    #[error("stored data is damaged: {0}")]
    Damaged(Damage),
    /// The store cannot be opened or used in this way: the database is from a newer release, for example, or
    /// the data directory belongs to another process.
    #[error("{0}")]
    Refused(String),
    /// The disk is full. Nothing was written; the same call may succeed once there is space.
    #[error("no space left for data: {0}")]
    Full(String),
    /// The data directory cannot be written. Nothing was written.
    #[error("the data directory is not writable: {0}")]
    ReadOnly(String),
    /// The database failed.
    #[error("database: {0}")]
    Database(sqlx::Error),
    /// The blob store failed.
    #[error("blob store: {0}")]
    Blobs(object_store::Error),
    /// The file system failed.
    #[error("file system: {0}")]
    Io(std::io::Error),
}

impl StoreError {
    /// There is no such resource.
    pub fn not_found(resource: Resource, id: impl fmt::Display) -> Self {
        StoreError::NotFound(resource, id.to_string())
    }

    /// `what` is damaged: `why`.
    pub fn damaged(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        StoreError::Damaged(Damage { owner: None, what: format!("{what}: {why}") })
    }

    /// The blob with this key is damaged.
    pub fn damaged_blob(key: &str, why: impl fmt::Display) -> Self {
        StoreError::Damaged(Damage { owner: Owner::of_blob(key), what: format!("{key}: {why}") })
    }

    /// The same error; damage without a known owner is attributed to this one.
    pub fn of(self, owner: Owner) -> Self {
        match self {
            StoreError::Damaged(Damage { owner: None, what }) => {
                StoreError::Damaged(Damage { owner: Some(owner), what: format!("{owner}: {what}") })
            }
            error => error,
        }
    }

    /// Whether the same call may succeed later, because the store failed and not the request.
    pub fn is_transient(&self) -> bool {
        let away = matches!(self, StoreError::Database(_) | StoreError::Blobs(_) | StoreError::Io(_));
        away || self.is_unwritable()
    }

    /// Whether data could not be written because of the disk, not because of the data.
    pub fn is_unwritable(&self) -> bool {
        matches!(self, StoreError::Full(_) | StoreError::ReadOnly(_))
    }
}

/// What PostgreSQL says by its SQLSTATE.
const PG_DISK_FULL: &str = "53100";
const PG_READ_ONLY: &str = "25006";
const PG_DATA_CORRUPTED: &str = "XX001";
const PG_INDEX_CORRUPTED: &str = "XX002";

/// SQLite's primary result codes. They are the low byte of its extended result codes.
const SQLITE_READONLY: i32 = 8;
const SQLITE_CORRUPT: i32 = 11;
const SQLITE_FULL: i32 = 13;
const SQLITE_NOTADB: i32 = 26;
/// The shared memory of the write-ahead log could not grow.
const SQLITE_IOERR_SHMSIZE: i32 = 4874;

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        // A column with a value that is not of its type: the database works, the row is damaged.
        if let sqlx::Error::ColumnDecode { index, source } = &error {
            return StoreError::damaged(index, source);
        }
        let Some(failed) = error.as_database_error() else { return StoreError::Database(error) };
        if failed.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() {
            return match failed.code().as_deref() {
                Some(PG_DISK_FULL) => StoreError::Full(error.to_string()),
                Some(PG_READ_ONLY) => StoreError::ReadOnly(error.to_string()),
                Some(PG_DATA_CORRUPTED | PG_INDEX_CORRUPTED) => StoreError::damaged("the database", error),
                _ => StoreError::Database(error),
            };
        }
        match failed.code().and_then(|code| code.parse::<i32>().ok()) {
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

/// The result of a call to the store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// For a log that the engine reads while it computes. The cause of a transient failure may name files and
/// hosts, so it is left out here; the code that converts the error logs it.
impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        if error.is_transient() {
            return EngineError::Unavailable("the store could not be reached".into());
        }
        EngineError::Log(error.to_string())
    }
}
