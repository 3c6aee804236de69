//! The body of a request on its way to ingest: its bytes are counted against the limit and, if the request
//! has an idempotency key, hashed.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use futures_util::{Stream, StreamExt};
use sha2::{Digest, Sha256};

use crate::store::BodyError;
use guarantor_engine::certificate::hex;

/// The chunks of a body, or of a part of one.
pub type Chunks = std::pin::Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>;

/// The chunks of a request's body.
pub fn chunks(body: Body) -> Chunks {
    let data = body.into_data_stream();
    data.map(|chunk| chunk.map_err(|error| BodyError::Broken(error.to_string()))).boxed()
}

/// `body`, which fails if it has more than `limit` bytes.
pub fn limited(body: Chunks, limit: u64) -> Chunks {
    let mut passed = 0;
    let count = move |chunk: Result<Bytes, BodyError>| {
        let bytes = chunk?;
        passed += bytes.len() as u64;
        if passed > limit { Err(BodyError::TooLarge { limit }) } else { Ok(bytes) }
    };
    body.map(count).boxed()
}

/// The number and the digest of the bytes that have passed. Read them when the body has ended.
#[derive(Clone)]
pub struct Passed {
    state: Arc<Mutex<(Option<Sha256>, u64)>>,
}

impl Passed {
    /// Computes the digest only if `hashed`, because it costs as much as the digest of the rows.
    pub fn new(hashed: bool) -> Self {
        Passed { state: Arc::new(Mutex::new((hashed.then(Sha256::new), 0))) }
    }

    fn add(&self, bytes: &[u8]) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hash) = &mut state.0 {
            hash.update(bytes);
        }
        state.1 += bytes.len() as u64;
        state.1
    }

    /// The number of bytes.
    pub fn bytes(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// The digest, if it was computed.
    pub fn digest(&self) -> Option<String> {
        let hash = self.state.lock().unwrap_or_else(PoisonError::into_inner).0.clone();
        hash.map(|hash| hex(&hash.finalize()))
    }
}

/// `body` with its bytes recorded in `passed`. It fails if it has more than `limit` bytes.
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

/// Reads `body` to its end without keeping it.
pub async fn drain(mut body: impl Stream<Item = Result<Bytes, BodyError>> + Unpin) -> Result<(), BodyError> {
    while let Some(chunk) = body.next().await {
        chunk?;
    }
    Ok(())
}
