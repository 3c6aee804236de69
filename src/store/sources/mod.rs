//! Logs by reference: objects of S3 and files, read where they lie.
//!
//! An object is read in ranges. Each answer is compared with the first one, and asks for the same ETag where there is
//! one, so that a log is never put together from two states of an object. What was read is recorded with its SHA-256.

mod allow;
mod files;
mod import;
mod object;
mod pinned;
mod uri;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;

use super::error::StoreError;
use super::records::ReadObject;
use super::s3::S3Place;

pub use allow::AllowedSources;
pub use import::{ImportError, ImportMeter, SourceReader, import};
pub use object::SourceObject;
pub(super) use pinned::scratch_folder;
pub use uri::SourceUri;

/// The most objects of one log.
pub const MOST_OBJECTS: usize = 10_000;
/// The most objects that are looked at to find those that match.
const MOST_LISTED: usize = 1_000_000;

/// Why a log by reference could not be found.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The address is not one.
    #[error(
        "{uri:?} {why}; name objects as s3://bucket/key or file:///path, where * and ? stand for characters of one segment"
    )]
    Uri {
        /// The address, cut.
        uri: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nothing is there.
    #[error("{0} does not exist, or nothing matches it")]
    NotFound(String),
    /// Too much is there.
    #[error(
        "{uri} matches or searches too many objects (at most {most}); name a narrower prefix, or write fewer and larger files"
    )]
    TooMany {
        /// The address.
        uri: String,
        /// The limit.
        most: usize,
    },
    /// The credentials do not suffice.
    #[error("{uri} may not be read with the credentials that are used")]
    Denied {
        /// The address.
        uri: String,
        /// What the store said.
        why: String,
    },
    /// The place cannot be read.
    #[error("{uri} cannot be read: {why}")]
    Unreadable {
        /// The address.
        uri: String,
        /// What the store said.
        why: String,
    },
    /// The settings of the place cannot be used.
    #[error(transparent)]
    Settings(#[from] StoreError),
}

/// The places that logs are read from. Connections are made when they are needed.
#[derive(Default)]
pub struct Sources {
    endpoint: S3Endpoint,
    buckets: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
}

/// The real paths of the folders that files may be in; `None` means anywhere.
pub type Within = Option<Arc<[PathBuf]>>;

/// The service that has the buckets. The default is what the environment says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct S3Endpoint {
    /// Its address; empty means that of AWS, or AWS_ENDPOINT_URL.
    pub address: String,
    /// The region; empty means AWS_REGION.
    pub region: String,
    /// Whether the address may be without TLS.
    pub allow_http: bool,
}

impl Sources {
    /// The buckets of this service, and the files of this machine.
    pub fn new(endpoint: S3Endpoint) -> Self {
        Sources { endpoint, buckets: Mutex::default() }
    }

    /// The objects that an address stands for, in the order of their keys.
    ///
    /// # Errors
    /// If there is none, there are too many, or the place cannot be read.
    pub async fn objects(&self, uri: &SourceUri, within: Within) -> Result<Vec<SourceObject>, SourceError> {
        let found = self.find(uri, within).await?;
        // What is read now may be read again by its address.
        for object in &found {
            object.uri.parse::<SourceUri>()?;
        }
        Ok(found)
    }

    async fn find(&self, uri: &SourceUri, within: Within) -> Result<Vec<SourceObject>, SourceError> {
        let whole = uri.to_string();
        let Some(bucket) = &uri.bucket else {
            let uri = uri.clone();
            let found = tokio::task::spawn_blocking(move || files::find(&uri, within)).await;
            return found
                .unwrap_or_else(|error| Err(SourceError::Unreadable { uri: whole, why: error.to_string() }));
        };
        let store = self.bucket(bucket)?;
        let Some(folder) = uri.folder() else {
            let path = path_of(&whole, &uri.key)?;
            let found = store.head(&path).await.map_err(|error| failed(&whole, error))?;
            return Ok(vec![SourceObject::found(whole, store, found)]);
        };
        let is_there = async |object: &ObjectMeta| match store.head(&object.location).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(failed(&whole, error)),
        };
        let folder = path_of(&whole, &folder)?;
        let mut listed = store.list(Some(&folder));
        let (mut found, mut seen) = (Vec::new(), 0);
        while let Some(object) = listed.try_next().await.map_err(|error| failed(&whole, error))? {
            seen += 1;
            // What looks like an empty object may be the mark of a folder, whose key ends with a slash.
            if uri.matches(object.location.as_ref()) && (object.size > 0 || is_there(&object).await?) {
                found.push(object);
            }
            for (number, most) in [(found.len(), MOST_OBJECTS), (seen, MOST_LISTED)] {
                if number > most {
                    return Err(SourceError::TooMany { uri: whole, most });
                }
            }
        }
        if found.is_empty() {
            return Err(SourceError::NotFound(whole));
        }
        // Stores list in any order, and the order of the files is that of the rows.
        found.sort_by(|one, other| one.location.as_ref().cmp(other.location.as_ref()));
        let object =
            |found: ObjectMeta| SourceObject::found(uri.at(found.location.as_ref()), store.clone(), found);
        Ok(found.into_iter().map(object).collect())
    }

    /// An object that was read before, as it was then.
    ///
    /// # Errors
    /// If its address or the settings of its place cannot be used.
    pub fn recorded(&self, object: &ReadObject, within: Within) -> Result<SourceObject, SourceError> {
        let uri: SourceUri = object.uri.parse()?;
        let Some(bucket) = &uri.bucket else {
            let file = files::recorded(&uri, within);
            return Ok(SourceObject::file(object.uri.clone(), object.bytes, file));
        };
        let path = path_of(&object.uri, &uri.key)?;
        Ok(SourceObject::recorded(self.bucket(bucket)?, path, object))
    }

    fn bucket(&self, bucket: &str) -> Result<Arc<dyn ObjectStore>, SourceError> {
        let mut buckets = self.buckets.lock();
        if let Some(known) = buckets.get(bucket) {
            return Ok(known.clone());
        }
        let mut place: S3Place = format!("s3://{bucket}").parse().map_err(StoreError::Refused)?;
        place.endpoint.clone_from(&self.endpoint.address);
        place.region.clone_from(&self.endpoint.region);
        place.allow_http = self.endpoint.allow_http;
        let store = place.objects(&format!("s3://{bucket}"))?;
        buckets.insert(bucket.to_owned(), store.clone());
        Ok(store)
    }
}

fn path_of(uri: &str, key: &str) -> Result<Path, SourceError> {
    Path::parse(key).map_err(|error| SourceError::Uri {
        uri: uri.to_owned(),
        why: format!("has no valid path ({error})"),
    })
}

fn failed(uri: &str, error: object_store::Error) -> SourceError {
    let (uri, why) = (uri.to_owned(), error.to_string());
    match error {
        object_store::Error::NotFound { .. } => SourceError::NotFound(uri),
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            SourceError::Denied { uri, why }
        }
        // Every list that contains such a key fails in the same way.
        object_store::Error::InvalidPath { .. } => {
            SourceError::Uri { uri, why: format!("has a key below it that cannot be read ({why})") }
        }
        _ => SourceError::Unreadable { uri, why },
    }
}
