//! Files: logs, policies' parameters, certificates. Written once under a key that nothing else
//! uses, never changed, deleted only when no row names them. Files on disk here, fsynced; another
//! `ObjectStore` elsewhere.

use std::ops::Range;
use std::path::Path as FsPath;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use tokio::task::JoinHandle;

use super::error::{Resource, Result, StoreError};
use super::records::BlobRef;

#[derive(Clone)]
pub struct Blobs {
    objects: Arc<dyn ObjectStore>,
    /// Where they are files in directories.
    root: Option<Arc<FsPath>>,
}

impl Blobs {
    pub fn new(objects: Arc<dyn ObjectStore>) -> Self {
        Blobs { objects, root: None }
    }

    /// Files under `root`, which is made if it is not there.
    pub fn in_directory(root: &FsPath) -> Result<Self> {
        std::fs::create_dir_all(root)?;
        let files = LocalFileSystem::new_with_prefix(root)?.with_fsync(true).with_automatic_cleanup(true);
        Ok(Blobs { objects: Arc::new(files), root: Some(root.into()) })
    }

    /// Durable when it returns. Fails when the key is taken.
    pub async fn put(&self, key: String, bytes: impl Into<Bytes>) -> Result<BlobRef> {
        let bytes = bytes.into();
        let length = bytes.len() as u64;
        let options = PutOptions::from(PutMode::Create);
        match self.objects.put_opts(&Path::from(key.as_str()), PutPayload::from_bytes(bytes), options).await {
            Ok(_) => Ok(BlobRef { key, bytes: length }),
            Err(object_store::Error::AlreadyExists { .. }) => Err(StoreError::Exists(Resource::Blob, key)),
            Err(error) => Err(error.into()),
        }
    }

    /// For what is too large to hold: nothing exists under the key until `BlobWriter::finish`.
    pub async fn writer(&self, key: String) -> Result<BlobWriter> {
        let upload = self.objects.put_multipart(&Path::from(key.as_str())).await?;
        let (pending, root) = (Vec::new(), self.root.clone());
        Ok(BlobWriter { key, upload, pending, pending_bytes: 0, on_its_way: None, bytes: 0, root })
    }

    pub async fn get(&self, blob: &BlobRef) -> Result<Bytes> {
        let found = self.objects.get(&Path::from(blob.key.as_str())).await;
        let bytes = found.map_err(|error| missing(blob, error))?.bytes().await?;
        check_length(blob, bytes.len() as u64)?;
        Ok(bytes)
    }

    /// Whether the blob is there in its whole length.
    pub async fn check(&self, blob: &BlobRef) -> Result<()> {
        let found = self.objects.head(&Path::from(blob.key.as_str())).await;
        check_length(blob, found.map_err(|error| missing(blob, error))?.size)
    }

    /// Some of a blob's bytes: all that were asked for, or an error.
    pub async fn get_range(&self, blob: &BlobRef, range: Range<u64>) -> Result<Bytes> {
        let bytes = self.objects.get_range(&Path::from(blob.key.as_str()), range.clone()).await;
        let bytes = bytes.map_err(|error| missing(blob, error))?;
        if bytes.len() as u64 != range.end - range.start {
            return Err(StoreError::damaged(&blob.key, "the file is shorter than it was written"));
        }
        Ok(bytes)
    }

    /// Deletes what is there of `keys`. What is left after a failure is for the orphan sweep.
    pub async fn delete(&self, keys: &[String]) {
        for key in keys {
            match self.objects.delete(&Path::from(key.as_str())).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => tracing::warn!(key, %error, "a blob was not deleted; the sweep will try again"),
            }
        }
    }

    /// The keys of all blobs.
    pub async fn keys(&self) -> Result<Vec<String>> {
        let all: Vec<_> = self.objects.list(None).try_collect().await?;
        Ok(all.into_iter().map(|meta| meta.location.to_string()).collect())
    }
}

fn missing(blob: &BlobRef, error: object_store::Error) -> StoreError {
    match error {
        object_store::Error::NotFound { .. } => StoreError::damaged(&blob.key, "the file is missing"),
        error => error.into(),
    }
}

fn check_length(blob: &BlobRef, length: u64) -> Result<()> {
    if length == blob.bytes {
        return Ok(());
    }
    Err(StoreError::damaged(&blob.key, format!("{length} bytes where {} were written", blob.bytes)))
}

/// Removes what a killed process left half-written. Only for the only process on this directory.
pub fn remove_unfinished(root: &FsPath) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_unfinished(&entry.path())?;
            // One that is not empty stays.
            let _ = std::fs::remove_dir(entry.path());
        } else if entry.file_name().to_string_lossy().contains('#') {
            // `LocalFileSystem` stages a file as `name#number`; none of our keys has a `#`.
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Parts go out as they fill, each while the next one fills, so memory stays at two of them. Dropped
/// unfinished, it leaves nothing.
pub struct BlobWriter {
    key: String,
    upload: Box<dyn MultipartUpload>,
    /// Of the next part.
    pending: Vec<Bytes>,
    pending_bytes: usize,
    on_its_way: Option<JoinHandle<object_store::Result<()>>>,
    bytes: u64,
    root: Option<Arc<FsPath>>,
}

/// S3 wants parts of 5 MiB or more.
const PART_BYTES: usize = 8 << 20;

impl BlobWriter {
    pub async fn write(&mut self, bytes: Vec<u8>) -> Result<()> {
        self.pending_bytes += bytes.len();
        self.bytes += bytes.len() as u64;
        if !bytes.is_empty() {
            self.pending.push(bytes.into());
        }
        if self.pending_bytes >= PART_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        self.arrival().await?;
        self.pending_bytes = 0;
        let part = self.upload.put_part(PutPayload::from_iter(self.pending.drain(..)));
        self.on_its_way = Some(tokio::spawn(part));
        Ok(())
    }

    /// Of the part that was sent last.
    async fn arrival(&mut self) -> Result<()> {
        match self.on_its_way.take() {
            Some(part) => Ok(part.await.map_err(std::io::Error::other)??),
            None => Ok(()),
        }
    }

    /// Durable when it returns; nothing is left of it where it fails.
    pub async fn finish(mut self) -> Result<BlobRef> {
        match self.complete().await {
            Ok(()) => Ok(BlobRef { key: std::mem::take(&mut self.key), bytes: self.bytes }),
            Err(error) => {
                self.abandon().await;
                Err(error)
            }
        }
    }

    async fn complete(&mut self) -> Result<()> {
        if self.pending_bytes > 0 {
            self.flush().await?;
        }
        self.arrival().await?;
        self.upload.complete().await?;
        Ok(())
    }

    /// Leaves nothing, the directories that were made for it included.
    pub async fn abandon(mut self) {
        // What is on its way must not arrive afterwards; that it failed is known, or of no interest.
        let _ = self.arrival().await;
        if let Err(error) = self.upload.abort().await {
            tracing::debug!(key = self.key, %error, "a file that is not wanted was not there to be removed");
        }
        self.tidy();
    }

    fn tidy(&self) {
        let Some(root) = &self.root else { return };
        let parents = FsPath::new(&self.key).ancestors().skip(1).filter(|parent| *parent != FsPath::new(""));
        for parent in parents {
            // The first that holds something else ends it.
            if std::fs::remove_dir(root.join(parent)).is_err() {
                return;
            }
        }
    }
}
