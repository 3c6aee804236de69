//! A store in a directory: `guarantor.sqlite`, `blobs/` and `lock`.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::blobs::{Blobs, remove_unfinished};
use super::disk::Disk;
use super::error::{Result, StoreError};
use super::sqlite::Sqlite;
use super::{LogMemory, Repository, Store};

/// Held while a server owns the data directory. The operating system releases it when the process ends,
/// even after a crash.
pub struct DirectoryLock {
    _file: File,
}

impl Store {
    /// Opens the store in a directory, or creates one. Any number of processes may do so: the command line
    /// creates keys while a server runs.
    pub async fn open(directory: &Path) -> Result<Store> {
        std::fs::create_dir_all(directory).map_err(|error| {
            let message = format!("the data directory {} cannot be created: {error}", directory.display());
            StoreError::Refused(message)
        })?;
        let repository = Sqlite::open(&database_file(directory)).await?;
        let blobs = Blobs::in_directory(&blob_directory(directory))?;
        let disk = Some(Disk::new(directory.to_owned()));
        let store = Store { disk, ..Store::new(Arc::new(repository), blobs) };
        let scratch = Some(directory.to_path_buf());
        Ok(store.with_log_memory(LogMemory { scratch, ..LogMemory::default() }))
    }

    /// Makes this process the server of the directory: jobs and requests of an earlier process that died
    /// can be taken over at once, and what it left half-done is removed. Keep the lock for as long as the
    /// server runs.
    ///
    /// # Errors
    /// `Refused` if another server runs on the directory, `Damaged` if the database is damaged.
    pub async fn take_over(&self, directory: &Path) -> Result<DirectoryLock> {
        let path = directory.join("lock");
        let file = File::create(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Refused(format!(
                    "another server is using the data directory {}; stop it or choose another directory",
                    directory.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let repository: &dyn Repository = self.repository();
        repository.check_integrity().await?;
        remove_unfinished(&blob_directory(directory))?;
        repository.end_all_leases().await?;
        repository.release_requests().await?;
        // Nothing is being uploaded yet, so a file that no row names was left behind by a crash.
        self.sweep(None, Duration::ZERO).await?;
        Ok(DirectoryLock { _file: file })
    }
}

/// The database of a data directory.
pub fn database_file(directory: &Path) -> PathBuf {
    directory.join("guarantor.sqlite")
}

/// The blobs of a data directory.
pub fn blob_directory(directory: &Path) -> PathBuf {
    directory.join("blobs")
}
