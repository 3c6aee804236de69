//! Why an upload was rejected.

use guarantor_ingest::IngestError;

use crate::store::StoreError;

/// Why the body ended before its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("the body broke off: {0}")]
    Broken(String),
    /// The form around the data is not one.
    #[error("{0}")]
    Form(String),
    /// The bytes are not those that the sender took the digest of.
    #[error("{0}")]
    Digest(String),
}

/// Why an upload or an append did not happen.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The log itself was rejected.
    #[error(transparent)]
    Log(IngestError),
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An earlier attempt with the same idempotency key stored other rows.
    #[error("the request was sent before with another body")]
    AnotherBody,
    #[error("the upload could not be decoded because of an internal error")]
    Crashed,
}

impl UploadError {
    /// Whether the same body would be rejected again, whenever it is sent.
    pub fn is_of_the_body(&self) -> bool {
        matches!(self, UploadError::Log(error) if error.is_of_the_body())
    }
}

/// Temporary files are on the store's disk.
impl From<IngestError> for UploadError {
    fn from(error: IngestError) -> Self {
        match error {
            IngestError::Io(error) => UploadError::Store(error.into()),
            error => UploadError::Log(error),
        }
    }
}
