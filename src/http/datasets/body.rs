//! The body of an upload on its way to ingest: counted against the limit, and hashed if the request has an
//! idempotency key.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures_util::{Stream, StreamExt};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::store::BodyError;

/// The chunks of a body or of a part of a form.
pub type Chunks = std::pin::Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>;

/// The chunks of a body.
pub fn chunks(body: Body) -> Chunks {
    let data = body.into_data_stream();
    data.map(|chunk| chunk.map_err(|error| BodyError::Broken(error.to_string()))).boxed()
}

/// `body`. Reading fails after `limit` bytes.
pub fn limited(body: Chunks, limit: u64) -> Chunks {
    let mut passed = 0;
    let count = move |chunk: Result<Bytes, BodyError>| {
        let bytes = chunk?;
        passed += bytes.len() as u64;
        if passed > limit { Err(BodyError::TooLarge { limit }) } else { Ok(bytes) }
    };
    body.map(count).boxed()
}

/// The count and the hash of the bytes read so far. They are final once the body has ended.
#[derive(Clone)]
pub struct Passed {
    state: Arc<Mutex<(Option<Sha256>, u64)>>,
}

impl Passed {
    /// Hashing costs as much as the digest of the rows, so it is done only if the hash will be compared.
    pub fn new(hashed: bool) -> Self {
        Passed { state: Arc::new(Mutex::new((hashed.then(Sha256::new), 0))) }
    }

    fn add(&self, bytes: &[u8]) -> u64 {
        let mut state = self.state.lock();
        if let Some(hash) = &mut state.0 {
            hash.update(bytes);
        }
        state.1 += bytes.len() as u64;
        state.1
    }

    /// The number of bytes.
    pub fn bytes(&self) -> u64 {
        self.state.lock().1
    }

    /// The digest, or `None` if the body is not hashed.
    pub fn digest(&self) -> Option<String> {
        let hash = self.state.lock().0.clone();
        hash.map(|hash| hex::encode(hash.finalize()))
    }
}

/// `body`, counted and hashed by `passed`. Reading fails after `limit` bytes.
pub fn metered(
    body: Chunks,
    limit: u64,
    passed: Passed,
) -> impl Stream<Item = Result<Bytes, BodyError>> + Unpin {
    body.map(move |chunk| {
        let bytes = chunk?;
        match passed.add(&bytes) > limit {
            true => Err(BodyError::TooLarge { limit }),
            false => Ok(bytes),
        }
    })
}

/// Reads the beginning of `body`, up to about `bytes`, and returns a body that starts with it. A small body is then
/// received entirely.
///
/// # Errors
/// If the body cannot be read.
pub async fn read_ahead(
    mut body: impl Stream<Item = Result<Bytes, BodyError>> + Unpin,
    bytes: usize,
) -> Result<impl Stream<Item = Result<Bytes, BodyError>> + Unpin, BodyError> {
    let (mut beginning, mut read) = (Vec::new(), 0);
    while read < bytes
        && let Some(chunk) = body.next().await
    {
        let chunk = chunk?;
        read += chunk.len();
        beginning.push(Ok(chunk));
    }
    Ok(futures_util::stream::iter(beginning).chain(body))
}

/// Reads `body` to its end and discards it.
pub async fn drain(mut body: impl Stream<Item = Result<Bytes, BodyError>> + Unpin) -> Result<(), BodyError> {
    while let Some(chunk) = body.next().await {
        chunk?;
    }
    Ok(())
}
