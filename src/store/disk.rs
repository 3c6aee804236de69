//! The disk under a store: whether it can be written, probed by writing one block, and how much space is
//! left.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{Result, StoreError};

/// What the probe writes: one block, because an empty file may need no space at all.
const PROBE: [u8; 4096] = [1; 4096];

/// The disk that a directory is on.
#[derive(Clone)]
pub struct Disk {
    directory: Arc<Path>,
}

impl Disk {
    /// The disk of this directory.
    pub fn new(directory: PathBuf) -> Self {
        Disk { directory: directory.into() }
    }

    /// Checks that the directory can be written. The file of the probe has no name, so a crash leaves nothing
    /// behind.
    ///
    /// # Errors
    /// `Full` or `ReadOnly` if it cannot.
    pub async fn check_writable(&self) -> Result<()> {
        let directory = self.directory.clone();
        let probe = move || tempfile::tempfile_in(directory)?.write_all(&PROBE);
        match tokio::task::spawn_blocking(probe).await {
            Ok(probed) => Ok(probed?),
            Err(error) => Err(StoreError::Io(std::io::Error::other(error))),
        }
    }

    /// How many bytes this process can still write.
    pub fn free_bytes(&self) -> Result<u64> {
        let found = rustix::fs::statvfs(&*self.directory).map_err(std::io::Error::from)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}
