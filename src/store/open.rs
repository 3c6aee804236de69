//! A store in a directory: `guarantor.sqlite`, `blobs/`, `lock` and `reserve`. Or a store whose rows are in PostgreSQL and
//! whose blobs are in S3; the directory is then for temporary files only.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;

use super::blobs::{Blobs, remove_unfinished};
use super::disk::Disk;
use super::error::{Result, StoreError};
use super::postgres::Postgres;
use super::private::{create_private, make_private};
use super::s3::S3Place;
use super::sources::scratch_folder;
use super::sqlite::Sqlite;
use super::{LogMemory, Repository, Store};

/// Held while a server owns the data directory. The operating system releases it when the process ends,
/// even after a crash.
pub struct DirectoryLock {
    /// The file `lock`, which all releases lock.
    _file: File,
    /// The directory itself: somebody may delete the file while the server runs.
    _directory: File,
}

impl DirectoryLock {
    fn take(directory: &Path) -> Result<Self> {
        let lock = DirectoryLock {
            _file: File::create(directory.join("lock"))?,
            _directory: File::open(directory)?,
        };
        for file in [&lock._directory, &lock._file] {
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Refused(format!(
                        "another server is using the data directory {}; stop it or choose another directory: each \
                         server needs one of its own",
                        directory.display()
                    )));
                }
                // Some network file systems lock only files that are open for writing.
                Err(TryLockError::Error(error)) if std::ptr::eq(file, &lock._directory) => {
                    tracing::warn!(%error, "the data directory itself cannot be locked; do not delete its file `lock`");
                }
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        }
        Ok(lock)
    }
}

/// Where a store is.
#[derive(Clone, Default)]
pub struct Places {
    /// The directory for whatever is not elsewhere, and for temporary files.
    pub directory: PathBuf,
    /// The URL of a PostgreSQL database; empty means SQLite in the directory. It may contain a password.
    pub database: String,
    /// The most connections to it.
    pub connections: u32,
    /// The bucket for blobs; `None` means files in the directory.
    pub bucket: Option<S3Place>,
}

impl Places {
    /// Everything in a directory.
    pub fn in_directory(directory: &Path) -> Self {
        Places { directory: directory.to_owned(), ..Places::default() }
    }
}

impl Store {
    /// Opens the store in these places, or creates one. Any number of processes may do so.
    pub async fn open_at(places: &Places) -> Result<Store> {
        if places.database.is_empty() && places.bucket.is_none() {
            return Store::open(&places.directory).await;
        }
        let directory = &places.directory;
        create_directory(directory)?;
        let disk = Disk::new(directory.clone());
        let repository: Arc<dyn Repository> = match places.database.as_str() {
            "" => Arc::new(open_database(directory, &disk).await?),
            url => Arc::new(Postgres::open(url, places.connections).await?),
        };
        let blobs = match &places.bucket {
            Some(bucket) => bucket.blobs()?,
            None => Blobs::in_directory(&blob_directory(directory))?.on_disk(disk.clone()),
        };
        if !blobs.are_files() {
            blobs.claim_for(&repository.installation().await?).await.map_err(unreachable)?;
        }
        let store = Store { disk: Some(disk), ..Store::new(repository, blobs) };
        let scratch = Some(directory.clone());
        Ok(store.with_log_memory(LogMemory { scratch, ..LogMemory::default() }))
    }

    /// Opens the rows only, for whatever needs no blobs.
    pub async fn open_rows(places: &Places) -> Result<Store> {
        if places.database.is_empty() {
            return Store::open(&places.directory).await;
        }
        let repository = Postgres::open(&places.database, places.connections).await?;
        Ok(Store::new(Arc::new(repository), Blobs::new(Arc::new(InMemory::new()))))
    }

    /// Opens the store in a directory, or creates one. Any number of processes may do so: the command line
    /// creates keys while a server runs.
    pub async fn open(directory: &Path) -> Result<Store> {
        create_directory(directory)?;
        let disk = Disk::new(directory.to_owned());
        let repository = open_database(directory, &disk).await?;
        let blobs = Blobs::in_directory(&blob_directory(directory))?.on_disk(disk.clone());
        let store = Store { disk: Some(disk), ..Store::new(Arc::new(repository), blobs) };
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
        let lock = DirectoryLock::take(directory)?;
        make_private(directory)?;
        let repository: &dyn Repository = self.repository();
        repository.check_integrity().await?;
        if self.blobs().are_files() {
            remove_unfinished(&blob_directory(directory))?;
        }
        match std::fs::remove_dir_all(scratch_folder(directory)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        // Other servers may have leases, requests and uploads in progress.
        if repository.is_shared() {
            return Ok(lock);
        }
        repository.end_all_leases().await?;
        repository.release_requests().await?;
        // Nothing is being uploaded yet, so a file that no row names was left behind by a crash.
        self.sweep(None, Duration::ZERO).await?;
        Ok(lock)
    }
}

fn create_directory(directory: &Path) -> Result<()> {
    create_private(directory).map_err(|error| {
        StoreError::Refused(format!("the data directory {} cannot be created: {error}", directory.display()))
    })
}

/// At the start, whoever reads the message can do something about it.
fn unreachable(error: StoreError) -> StoreError {
    match error {
        StoreError::Blobs(error) => StoreError::Refused(format!(
            "the blob store cannot be used: {error}; check the settings blobs and s3_endpoint, and the credentials"
        )),
        error => error,
    }
}

/// Opens the database. Its first user creates two small files, with the space of the reserve if the disk is full.
async fn open_database(directory: &Path, disk: &Disk) -> Result<Sqlite> {
    let file = database_file(directory);
    let mut opened = Sqlite::open(&file).await;
    if let Err(StoreError::Full(_)) = opened {
        let mut reserve = disk.take_reserve().await;
        while matches!(opened, Err(StoreError::Full(_))) && reserve.release() {
            opened = Sqlite::open(&file).await;
        }
    }
    opened
}

/// The database of a data directory.
pub fn database_file(directory: &Path) -> PathBuf {
    directory.join("guarantor.sqlite")
}

/// The blobs of a data directory.
pub fn blob_directory(directory: &Path) -> PathBuf {
    directory.join("blobs")
}
