//! A request's body on its way to ingest: counted against the limit, and hashed where it has a key, as it passes.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use futures_util::{Stream, StreamExt};
use sha2::{Digest, Sha256};

use crate::store::BodyError;

/// A body, or a part of one, on its way.
pub type Chunks = std::pin::Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>;

pub fn chunks(body: Body) -> Chunks {
    let data = body.into_data_stream();
    data.map(|chunk| chunk.map_err(|error| BodyError::Broken(error.to_string()))).boxed()
}

/// `body`, of which no more than `limit` bytes may come.
pub fn limited(body: Chunks, limit: u64) -> Chunks {
    let mut passed = 0;
    let count = move |chunk: Result<Bytes, BodyError>| {
        let bytes = chunk?;
        passed += bytes.len() as u64;
        if passed > limit { Err(BodyError::TooLarge { limit }) } else { Ok(bytes) }
    };
    body.map(count).boxed()
}

/// What passed: read it once the body has ended.
#[derive(Clone)]
pub struct Passed {
    state: Arc<Mutex<(Option<Sha256>, u64)>>,
}

impl Passed {
    /// The hash costs as much as the rows' own, so it is taken only where somebody will compare it.
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

    pub fn bytes(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// None where it was not asked for.
    pub fn digest(&self) -> Option<String> {
        let hash = self.state.lock().unwrap_or_else(PoisonError::into_inner).0.clone();
        hash.map(|hash| hex::encode(hash.finalize()))
    }
}

/// `body` with its bytes counted and held to `limit`.
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

/// Reads `body` to its end and keeps nothing of it but what `Passed` keeps.
pub async fn drain(mut body: impl Stream<Item = Result<Bytes, BodyError>> + Unpin) -> Result<(), BodyError> {
    while let Some(chunk) = body.next().await {
        chunk?;
    }
    Ok(())
}
