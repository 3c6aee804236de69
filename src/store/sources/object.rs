//! One object, read and compared with what was found.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore};
use sha2::{Digest, Sha256};

use super::files::FoundFile;
use crate::store::records::ReadObject;
use crate::store::uploads::BodyError;

/// How many bytes one request asks for.
const RANGE: u64 = 2 << 20;
/// How many requests are under way at once. With the pieces that wait to be parsed, this bounds the memory.
const AHEAD: usize = 6;

/// One object or file of a log.
#[derive(Clone)]
pub struct SourceObject {
    /// Its address.
    pub uri: String,
    bytes: u64,
    place: Place,
}

#[derive(Clone)]
enum Place {
    File(FoundFile),
    Stored(Arc<StoredObject>),
}

/// An object of a bucket.
struct StoredObject {
    uri: String,
    store: Arc<dyn ObjectStore>,
    path: Path,
    bytes: u64,
    /// When it was written, in seconds: times in headers have no fractions, and those of lists may have them.
    modified: Option<i64>,
    etag: Option<String>,
    version: Option<String>,
    /// The ETag and the version of the first answer with bytes. Some services leave them out in other answers.
    answered: OnceLock<(Option<String>, Option<String>)>,
}

impl SourceObject {
    /// A file.
    pub(super) fn file(uri: String, bytes: u64, found: FoundFile) -> Self {
        SourceObject { uri, bytes, place: Place::File(found) }
    }

    /// An object as a store described it.
    pub(super) fn found(uri: String, store: Arc<dyn ObjectStore>, found: ObjectMeta) -> Self {
        let stored = StoredObject {
            uri: uri.clone(),
            store,
            path: found.location,
            bytes: found.size,
            modified: Some(found.last_modified.timestamp()),
            etag: found.e_tag,
            version: found.version,
            answered: OnceLock::new(),
        };
        SourceObject { uri, bytes: found.size, place: Place::Stored(Arc::new(stored)) }
    }

    /// An object of a bucket that was read before. If the bucket has versions, it is read at the version of that time. Its
    /// bytes are compared by their digest, which the caller knows, so the same bytes may have been stored again.
    pub(super) fn recorded(store: Arc<dyn ObjectStore>, path: Path, object: &ReadObject) -> Self {
        let stored = StoredObject {
            uri: object.uri.clone(),
            store,
            path,
            bytes: object.bytes,
            modified: None,
            etag: None,
            version: object.version.clone(),
            answered: OnceLock::new(),
        };
        SourceObject { uri: object.uri.clone(), bytes: object.bytes, place: Place::Stored(Arc::new(stored)) }
    }

    /// Its size when it was found.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its bytes, in order. The stream ends with an error if the object changes while it is read.
    pub fn read(self) -> BoxStream<'static, Result<Bytes, BodyError>> {
        let object = match self.place {
            Place::File(file) => return file.read(self.uri),
            Place::Stored(object) => object,
        };
        let size = self.bytes;
        // An empty object is asked for too: it may not be empty anymore.
        let ranges = (0..size.div_ceil(RANGE).max(1)).map(move |i| i * RANGE).map(move |from| {
            let object = Arc::clone(&object);
            async move { object.range(from..(from + RANGE).min(size)).await }
        });
        stream::iter(ranges).buffered(AHEAD).boxed()
    }

    /// The same. `each` is told the length of each piece, and `end` gets the record of the object after the last one; an
    /// error of it is the end of the stream.
    pub fn read_recorded(
        self,
        mut each: impl FnMut(u64) + Send + 'static,
        end: impl FnOnce(ReadObject) -> Result<(), BodyError> + Send + 'static,
    ) -> BoxStream<'static, Result<Bytes, BodyError>> {
        let body = self.clone().read().inspect_ok(move |bytes| each(bytes.len() as u64));
        let start = (body, Sha256::new(), self, end);
        let next = |(mut body, hash, object, end): (_, Sha256, SourceObject, _)| async move {
            match StreamExt::next(&mut body).await {
                Some(bytes) => {
                    let bytes: Bytes = bytes?;
                    let (hash, bytes) = hashed(hash, bytes).await?;
                    Ok(Some((bytes, (body, hash, object, end))))
                }
                None => Ok(object.record(hash)).and_then(end).map(|()| None),
            }
        };
        stream::try_unfold(start, next).boxed()
    }

    fn record(self, hash: Sha256) -> ReadObject {
        let (etag, version) = match &self.place {
            Place::File(_) => (None, None),
            Place::Stored(stored) => stored.answered.get().cloned().unwrap_or_default(),
        };
        ReadObject { uri: self.uri, bytes: self.bytes, sha256: hex::encode(hash.finalize()), etag, version }
    }

    /// The error of an object that is not the one anymore that was found.
    pub fn changed(&self) -> BodyError {
        BodyError::Changed(self.uri.clone())
    }
}

impl StoredObject {
    async fn range(&self, range: Range<u64>) -> Result<Bytes, BodyError> {
        let expected = range.end - range.start;
        let options = GetOptions {
            range: (expected > 0).then_some(GetRange::Bounded(range)),
            if_match: self.etag.clone(),
            version: self.version.clone(),
            ..GetOptions::default()
        };
        let answer = self.store.get_opts(&self.path, options).await.map_err(|error| self.broken(error))?;
        if !self.is_the_same(&answer.meta) {
            return Err(self.changed());
        }
        let bytes = answer.bytes().await.map_err(|error| self.broken(error))?;
        if bytes.len() as u64 == expected { Ok(bytes) } else { Err(self.changed()) }
    }

    /// Compares what both have, because some services leave out the ETag in one kind of answer.
    fn is_the_same(&self, now: &ObjectMeta) -> bool {
        let same_tag = self.etag.as_ref().zip(now.e_tag.as_ref()).is_none_or(|(found, now)| found == now);
        let answer = (now.e_tag.clone(), now.version.clone());
        now.size == self.bytes
            && self.modified.is_none_or(|found| found == now.last_modified.timestamp())
            && same_tag
            && *self.answered.get_or_init(|| answer.clone()) == answer
    }

    fn broken(&self, error: object_store::Error) -> BodyError {
        use object_store::Error::{NotFound, PermissionDenied, Precondition, Unauthenticated};
        match error {
            Precondition { .. } | NotFound { .. } => self.changed(),
            PermissionDenied { .. } | Unauthenticated { .. } => {
                tracing::warn!(uri = self.uri, %error, "a source of logs may not be read");
                BodyError::Denied(self.uri.clone())
            }
            error => BodyError::Broken(format!("{}: {error}", self.uri)),
        }
    }

    fn changed(&self) -> BodyError {
        BodyError::Changed(self.uri.clone())
    }
}

/// Hashes away from the threads that answer requests.
async fn hashed(mut hash: Sha256, bytes: Bytes) -> Result<(Sha256, Bytes), BodyError> {
    let work = move || {
        hash.update(&bytes);
        (hash, bytes)
    };
    tokio::task::spawn_blocking(work).await.map_err(|error| BodyError::Broken(error.to_string()))
}
