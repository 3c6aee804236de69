//! The disk under a store: whether it takes writes, tried rather than guessed, and how much room it
//! has.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{Result, StoreError};

/// What the trial writes: a file system counts in blocks, and an empty file may need none.
const TRIAL: [u8; 4096] = [1; 4096];

#[derive(Clone)]
pub struct Disk {
    directory: Arc<Path>,
}

impl Disk {
    pub fn new(directory: PathBuf) -> Self {
        Disk { directory: directory.into() }
    }

    /// `Full` or `ReadOnly` where nothing can be written at the moment. The file that is tried with
    /// has no name, so that a crash leaves nothing of it.
    pub async fn check_writable(&self) -> Result<()> {
        let directory = self.directory.clone();
        let trial = move || tempfile::tempfile_in(directory)?.write_all(&TRIAL);
        match tokio::task::spawn_blocking(trial).await {
            Ok(tried) => Ok(tried?),
            Err(error) => Err(StoreError::Io(std::io::Error::other(error))),
        }
    }

    /// Bytes that this process may still write.
    pub fn free_bytes(&self) -> Result<u64> {
        let found = rustix::fs::statvfs(&*self.directory).map_err(std::io::Error::from)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}
