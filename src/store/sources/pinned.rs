//! Datasets whose rows stay in their objects. A job reads the objects again, into a temporary file, and compares them with
//! what was pinned: the SHA-256 of each object, and the digest of the rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::import::{ObjectBody, SourceReader, format_of};
use crate::store::blobs::Blobs;
use crate::store::error::{Result, StoreError};
use crate::store::records::{BlobRef, Dataset, PinnedLog, ReadObject};
use crate::store::uploads::{BodyError, FileFailed, UploadError, read_into};
use crate::store::{Owner, SourceUri, Store};
use guarantor_ingest::FileFormat;

/// Where the temporary files of a data directory are.
const FOLDER: &str = "pinned";

/// The folder for temporary blobs in a data directory. What a process that was killed left in it is removed at the start.
pub fn scratch_folder(directory: &Path) -> PathBuf {
    directory.join(FOLDER)
}

impl Store {
    /// A place for a log that is not kept. It is removed with the last clone of it, which a thread may have that still
    /// writes when nobody waits for it anymore.
    pub(super) fn scratch(&self) -> Result<Blobs> {
        let directory = match &self.log_memory.scratch {
            Some(directory) => {
                let folder = scratch_folder(directory);
                std::fs::create_dir_all(&folder)?;
                tempfile::tempdir_in(folder)?
            }
            None => tempfile::tempdir()?,
        };
        let blobs = Blobs::temporary(directory)?;
        Ok(match &self.disk {
            Some(disk) => blobs.on_disk(disk.clone()),
            None => blobs,
        })
    }

    /// Reads the rows of a pinned dataset into a temporary part.
    ///
    /// # Errors
    /// `SourceChanged` if an object is not the one anymore that was pinned, `Refused` if the operator does not allow its
    /// place anymore.
    pub(in crate::store) async fn read_pinned(&self, dataset: &Dataset) -> Result<(BlobRef, Blobs)> {
        let owner = Owner::Dataset(dataset.id);
        let missing = || StoreError::damaged("a pinned dataset", "its list of objects is missing").of(owner);
        let listed = dataset.content.parts.first().ok_or_else(missing)?;
        let pinned: PinnedLog = self.read_json(listed).await?;
        let reader = self.sources().ok_or_else(|| {
            StoreError::Refused(
                "this server reads no logs by reference (the setting sources_allow is empty)".into(),
            )
        })?;
        let mut upload = reader.upload(self, dataset.id, &dataset.workspace, &pinned.request).await?;
        // What was stated about the log may have been read by an earlier release, so the dataset's own record decides.
        upload.options = dataset.options();
        let files = (pinned.objects.iter()).map(|object| reader.open_pinned(dataset, &pinned, object));
        let files = files.collect::<Result<Vec<_>>>()?;
        let scratch = self.scratch()?;
        let received = read_into(&scratch, upload, files, Arc::default()).await.map_err(unread)?;
        if received.content.digest != dataset.content.digest {
            let why = format!("its rows have the digest {}", received.content.digest);
            return Err(StoreError::damaged("a pinned dataset", why).of(owner));
        }
        let part = received.content.parts.into_iter().next().ok_or_else(missing)?;
        Ok((part, scratch))
    }
}

impl SourceReader {
    fn open_pinned(
        &self,
        dataset: &Dataset,
        pinned: &PinnedLog,
        object: &ReadObject,
    ) -> Result<(FileFormat, ObjectBody)> {
        let unusable = |error: super::SourceError| StoreError::Refused(error.to_string());
        let uri: SourceUri = object.uri.parse().map_err(unusable)?;
        self.check(&dataset.workspace, &uri).map_err(StoreError::Refused)?;
        let within = self.allowed.real_folders(&dataset.workspace, &uri);
        let source = self.sources.recorded(object, within).map_err(unusable)?;
        let (changed, sha256) = (source.changed(), object.sha256.clone());
        let end = move |record: ReadObject| if record.sha256 == sha256 { Ok(()) } else { Err(changed) };
        Ok((format_of(&pinned.request, &object.uri), source.read_recorded(|_| {}, end)))
    }
}

/// The rows were valid when they were pinned, so it is the place that is at fault.
fn unread(failed: FileFailed) -> StoreError {
    match failed.error {
        UploadError::Store(error) => error,
        UploadError::Body(BodyError::Changed(uri)) => StoreError::SourceChanged(uri),
        UploadError::Body(error @ BodyError::Denied(_)) => StoreError::Refused(error.to_string()),
        UploadError::Body(error) => StoreError::Io(std::io::Error::other(error.to_string())),
        error => StoreError::damaged("a pinned dataset", error),
    }
}
