//! Blobs: logs, policies' parameters, certificates. A blob is written once under a key that nothing else
//! uses, is never changed, and is deleted only when no row names it. Blobs are files on disk, synced when
//! they are written, or objects in S3 (`s3.rs`).

use std::ops::Range;
use std::path::Path as FsPath;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::disk::Disk;
use super::error::{Resource, Result, StoreError};
use super::private::create_private;
use super::records::BlobRef;

/// The object that says which database the blobs belong to. No row names it.
const INSTALLATION: &str = "installation";
/// How long the blob store may take to answer a health check.
const ANSWER: Duration = Duration::from_secs(5);

/// The blob store.
#[derive(Clone)]
pub struct Blobs {
    objects: Arc<dyn ObjectStore>,
    /// The directory of the files, if they are files.
    root: Option<Arc<FsPath>>,
    /// The disk whose reserve must be whole before anything is written.
    disk: Option<Disk>,
    /// The directory, if it is removed with the last clone.
    _temporary: Option<Arc<TempDir>>,
}

impl Blobs {
    /// Blobs in any object store.
    pub fn new(objects: Arc<dyn ObjectStore>) -> Self {
        Blobs { objects, root: None, disk: None, _temporary: None }
    }

    /// Blobs as files under `root`, which is created if necessary.
    pub fn in_directory(root: &FsPath) -> Result<Self> {
        create_private(root)?;
        let files = LocalFileSystem::new_with_prefix(root)?.with_fsync(true);
        Ok(Blobs { objects: Arc::new(files), root: Some(root.into()), disk: None, _temporary: None })
    }

    /// Blobs as files in a directory that is removed with the last clone.
    pub(super) fn temporary(directory: TempDir) -> Result<Self> {
        let blobs = Blobs::in_directory(directory.path())?;
        Ok(Blobs { _temporary: Some(Arc::new(directory)), ..blobs })
    }

    /// The same blobs, written only while the reserve of this disk is whole.
    pub(super) fn on_disk(self, disk: Disk) -> Self {
        Blobs { disk: Some(disk), ..self }
    }

    /// Whether the blobs are files on a disk of this machine.
    pub fn are_files(&self) -> bool {
        self.root.is_some()
    }

    /// Marks the blobs as those of the database with this name. Two databases must not share a place: each would take
    /// the blobs of the other for orphans and delete them.
    ///
    /// # Errors
    /// `Refused` if they belong to another database.
    pub async fn claim_for(&self, installation: &str) -> Result<()> {
        match self.put(INSTALLATION.into(), installation.to_owned()).await {
            Ok(_) => Ok(()),
            Err(StoreError::Exists(..)) => Err(StoreError::Refused(
                "the place that the setting blobs names belongs to another database: its object `installation` has \
                 another name; give each database a prefix of its own"
                    .into(),
            )),
            Err(error) => Err(error),
        }
    }

    /// Checks that the blobs can be read, if they are not files of this machine.
    pub async fn check_reachable(&self) -> Result<()> {
        if self.are_files() {
            return Ok(());
        }
        match tokio::time::timeout(ANSWER, self.objects.head(&Path::from(INSTALLATION))).await {
            Ok(found) => Ok(found.map(|_| ())?),
            Err(_) => Err(StoreError::Io(std::io::Error::other("the blob store does not answer in time"))),
        }
    }

    /// Stores a blob, which is durable when this returns.
    ///
    /// # Errors
    /// `Exists` if the key is taken.
    pub async fn put(&self, key: String, bytes: impl Into<Bytes>) -> Result<BlobRef> {
        check_space(&self.disk).await?;
        let bytes = bytes.into();
        let length = bytes.len() as u64;
        let options = PutOptions::from(PutMode::Create);
        let path = Path::from(key.as_str());
        match self.objects.put_opts(&path, PutPayload::from_bytes(bytes.clone()), options).await {
            Ok(_) => Ok(BlobRef::new(key, length)),
            // A request that was repeated may have been answered the first time, and the answer lost.
            Err(object_store::Error::AlreadyExists { .. })
                if !self.are_files() && self.objects.get(&path).await?.bytes().await? == bytes =>
            {
                Ok(BlobRef::new(key, length))
            }
            Err(object_store::Error::AlreadyExists { .. }) => Err(StoreError::Exists(Resource::Blob, key)),
            Err(error) => Err(error.into()),
        }
    }

    /// A writer for a blob that is too large for memory. Nothing exists under the key until
    /// `BlobWriter::finish`.
    pub async fn writer(&self, key: String) -> Result<BlobWriter> {
        check_space(&self.disk).await?;
        let upload = self.objects.put_multipart(&Path::from(key.as_str())).await?;
        let (pending, root, disk) = (Vec::new(), self.root.clone(), self.disk.clone());
        let (uploading, syncing) = (None, None);
        Ok(BlobWriter {
            key,
            upload,
            pending,
            pending_bytes: 0,
            uploading,
            syncing,
            bytes: 0,
            synced: 0,
            root,
            disk,
        })
    }

    /// The bytes of a blob.
    ///
    /// # Errors
    /// `Damaged` if the blob is missing or has another length.
    pub async fn get(&self, blob: &BlobRef) -> Result<Bytes> {
        let found = self.objects.get(&Path::from(blob.key.as_str())).await;
        let bytes = found.map_err(|error| missing(blob, error))?.bytes().await?;
        check_length(blob, bytes.len() as u64)?;
        Ok(bytes)
    }

    /// Whether the blob exists, with whatever contents.
    pub async fn exists(&self, blob: &BlobRef) -> Result<bool> {
        match self.objects.head(&Path::from(blob.key.as_str())).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Checks that the blob exists and has its length.
    pub async fn check(&self, blob: &BlobRef) -> Result<()> {
        let found = self.objects.head(&Path::from(blob.key.as_str())).await;
        check_length(blob, found.map_err(|error| missing(blob, error))?.size)
    }

    /// Some of a blob's bytes: all of the range, or an error.
    pub async fn get_range(&self, blob: &BlobRef, range: Range<u64>) -> Result<Bytes> {
        let bytes = self.objects.get_range(&Path::from(blob.key.as_str()), range.clone()).await;
        let bytes = bytes.map_err(|error| missing(blob, error))?;
        if bytes.len() as u64 != range.end - range.start {
            return Err(StoreError::damaged_blob(&blob.key, "the file is shorter than when it was written"));
        }
        Ok(bytes)
    }

    /// Deletes the blobs with these keys, as far as they exist. What is left after a failure is removed by
    /// the orphan sweep.
    pub async fn delete(&self, keys: &[String]) {
        for key in keys {
            match self.objects.delete(&Path::from(key.as_str())).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {
                    remove_empty_folders(self.root.as_deref(), key);
                }
                Err(error) => {
                    tracing::warn!(key, %error, "a blob could not be deleted; the sweep will try again")
                }
            }
        }
    }

    /// The keys of all blobs.
    pub async fn keys(&self) -> Result<Vec<String>> {
        let all: Vec<_> = self.objects.list(None).try_collect().await?;
        let keys = all.into_iter().map(|meta| meta.location.to_string());
        Ok(keys.filter(|key| key != INSTALLATION).collect())
    }
}

async fn check_space(disk: &Option<Disk>) -> Result<()> {
    match disk {
        Some(disk) => disk.check_reserve().await,
        None => Ok(()),
    }
}

/// Removes the directories of a blob that is gone, as far as they are empty. The top directory (`datasets`)
/// stays, because an upload may be about to create its own directory in it.
fn remove_empty_folders(root: Option<&FsPath>, key: &str) {
    let Some(root) = root else { return };
    let folders = FsPath::new(key).ancestors().skip(1);
    for folder in folders.take_while(|folder| folder.components().count() > 1) {
        // This fails, as it should, at the first directory that is not empty.
        if std::fs::remove_dir(root.join(folder)).is_err() {
            return;
        }
    }
}

fn missing(blob: &BlobRef, error: object_store::Error) -> StoreError {
    match error {
        object_store::Error::NotFound { .. } => StoreError::damaged_blob(&blob.key, "the file is missing"),
        error => error.into(),
    }
}

fn check_length(blob: &BlobRef, length: u64) -> Result<()> {
    if length == blob.bytes {
        return Ok(());
    }
    Err(StoreError::damaged_blob(
        &blob.key,
        format!("it has {length} bytes, but {} were written", blob.bytes),
    ))
}

/// Removes what a killed process left half-written, and empty directories. Only call this if no other process
/// uses the directory.
pub fn remove_unfinished(root: &FsPath) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_unfinished(&entry.path())?;
            // This fails, as it should, if the directory is not empty.
            let _ = std::fs::remove_dir(entry.path());
        } else if entry.file_name().to_string_lossy().contains('#') {
            // `LocalFileSystem` stages a file as `name#number`; no key of ours contains a `#`.
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes a blob piece by piece. A full part is uploaded while the next one fills, so at most two parts are
/// in memory. A writer that is dropped unfinished leaves no blob.
pub struct BlobWriter {
    key: String,
    upload: Box<dyn MultipartUpload>,
    /// The contents of the next part.
    pending: Vec<Bytes>,
    pending_bytes: usize,
    /// The part that is being uploaded.
    uploading: Option<JoinHandle<object_store::Result<()>>>,
    /// Brings a file to the disk while more of it is written, so that its end does not wait for all of it.
    syncing: Option<JoinHandle<()>>,
    bytes: u64,
    /// How many bytes there were when this was last begun.
    synced: u64,
    root: Option<Arc<FsPath>>,
    disk: Option<Disk>,
}

/// After so many bytes, a file is brought to the disk.
const SYNC_BYTES: u64 = 128 << 20;
/// S3 requires parts of at least 5 MiB.
const PART_BYTES: usize = 8 << 20;

impl BlobWriter {
    /// Adds bytes.
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

    /// Starts the upload of the next part.
    async fn flush(&mut self) -> Result<()> {
        self.uploaded().await?;
        self.sync_so_far();
        check_space(&self.disk).await?;
        self.pending_bytes = 0;
        let part = self.upload.put_part(PutPayload::from_iter(self.pending.drain(..)));
        self.uploading = Some(tokio::spawn(part));
        Ok(())
    }

    /// Begins to bring what is written to the disk, now and then. Whether that works is known when all of it is.
    fn sync_so_far(&mut self) {
        let done = self.syncing.as_ref().is_none_or(JoinHandle::is_finished);
        let due = self.bytes - self.synced >= SYNC_BYTES;
        if let (Some(root), true) = (&self.root, done && due) {
            self.synced = self.bytes;
            // As in `remove_unfinished`.
            let staged = root.join(format!("{}#1", self.key));
            self.syncing = Some(tokio::task::spawn_blocking(move || {
                let _ = std::fs::File::open(staged).and_then(|file| file.sync_data());
            }));
        }
    }

    /// Waits until the current part has been uploaded.
    async fn uploaded(&mut self) -> Result<()> {
        match self.uploading.take() {
            Some(part) => Ok(part.await.map_err(std::io::Error::other)??),
            None => Ok(()),
        }
    }

    /// Completes the blob, which is durable when this returns. If it fails, nothing is left.
    pub async fn finish(mut self) -> Result<BlobRef> {
        match self.complete().await {
            Ok(()) => Ok(BlobRef::new(std::mem::take(&mut self.key), self.bytes)),
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
        self.uploaded().await?;
        self.upload.complete().await?;
        Ok(())
    }

    /// Removes what was written, and the directory that was created for it.
    pub async fn abandon(mut self) {
        // A part must not arrive afterwards. Whether it failed no longer matters.
        let _ = self.uploaded().await;
        if let Err(error) = self.upload.abort().await {
            tracing::debug!(key = self.key, %error, "an abandoned blob could not be removed");
        }
        remove_empty_folders(self.root.as_deref(), &self.key);
    }
}
