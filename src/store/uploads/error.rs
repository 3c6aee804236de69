//! Why an upload was rejected.

use guarantor_ingest::IngestError;

use crate::store::StoreError;

/// Why the body could not be read to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The body exceeds the limit.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The most bytes that a body may have.
        limit: u64,
    },
    /// The connection failed.
    #[error("the body ended early: {0}")]
    Broken(String),
    /// The multipart form around the data is not valid.
    #[error("{0}")]
    Form(String),
    /// The bytes do not have the digest that the sender stated.
    #[error("{0}")]
    Digest(String),
    /// An object that is read by reference is not the one anymore that was found.
    #[error("{0} was changed, replaced or deleted while it was read; start again when nobody writes to it")]
    Changed(String),
    /// An object may not be read.
    #[error("{0} may not be read with the credentials of this server")]
    Denied(String),
}

/// Why an upload or an append stored nothing.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The log itself was rejected.
    #[error(transparent)]
    Log(IngestError),
    /// The body could not be read.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The dataset has so many of the appended rows already that it cannot be chance.
    #[error(
        "the dataset already has these rows, or many of them, in some order, with the same actions and outcomes, \
         which is not a coincidence; send every decision once; if they are new decisions, log event_id, which must \
         then be different in every row"
    )]
    RepeatedRows,
    /// Candidates were added to the dataset too often.
    #[error(
        "candidates were added to the dataset {0} times, which is the maximum, because each time all of its rows are \
         stored again; upload the log with all of its candidates as a new dataset"
    )]
    TooManyAdditions(u64),
    /// An earlier attempt with the same idempotency key stored other rows.
    #[error("the request was sent before with a different body")]
    AnotherBody,
    /// A thread panicked, or the rows could not be encoded.
    #[error("the upload failed because of an internal error")]
    Crashed,
}

impl UploadError {
    /// Whether the same body would be rejected again, whenever it is sent.
    pub fn is_of_the_body(&self) -> bool {
        match self {
            UploadError::Log(error) => error.is_of_the_body(),
            UploadError::RepeatedRows => true,
            _ => false,
        }
    }
}

/// Temporary files are on the store's disk, so their failures are failures of the store.
impl From<IngestError> for UploadError {
    fn from(error: IngestError) -> Self {
        match error {
            IngestError::Io(error) => UploadError::Store(error.into()),
            error => UploadError::Log(error),
        }
    }
}

/// Why a log of several files was not stored.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct FileFailed {
    /// The position of the file that is at fault; `None` if it is the log as a whole, or something else.
    pub file: Option<usize>,
    /// What is wrong.
    pub error: UploadError,
}

impl<E: Into<UploadError>> From<E> for FileFailed {
    fn from(error: E) -> Self {
        FileFailed { file: None, error: error.into() }
    }
}
