//! The disk under a store: whether it can be written, probed by writing one block, how much space is left, and a
//! reserve of space for deletions, which need a little of it before they free any.

use std::future::Future;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{Result, StoreError};

/// What the probe writes: one block, because an empty file may need no space at all.
const PROBE: [u8; 4096] = [1; 4096];

/// The file whose space is used when the disk is full.
const RESERVE: &str = "reserve";
/// Its sizes: the first for which there is space.
const RESERVED: [u64; 4] = [4 << 20, 1 << 20, 256 << 10, 64 << 10];

/// The disk that a directory is on.
#[derive(Clone)]
pub struct Disk {
    directory: Arc<Path>,
    /// Held by a deletion that uses the reserve, so that others wait for the space that it frees.
    emergency: Arc<tokio::sync::Mutex<()>>,
}

impl Disk {
    /// The disk of this directory.
    pub fn new(directory: PathBuf) -> Self {
        Disk { directory: directory.into(), emergency: Arc::default() }
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

    /// Repeats `work`, which failed because the disk is full, with the space of the reserve.
    pub async fn with_reserve<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let _alone = self.emergency.lock().await;
        match std::fs::remove_file(self.directory.join(RESERVE)) {
            Ok(()) => tracing::warn!("the disk is full; a deletion uses the space that is reserved for it"),
            Err(error) => tracing::warn!(%error, "the disk is full, and no space is reserved for deletions"),
        }
        work.await
    }

    /// Creates the reserve unless it exists, as large as there is space for.
    pub async fn keep_reserve(&self) {
        let _alone = self.emergency.lock().await;
        let path = self.directory.join(RESERVE);
        let make = move || {
            if path.exists() {
                return Ok(());
            }
            let mut last = Ok(());
            for bytes in RESERVED {
                last = allocate(&path, bytes);
                if last.is_ok() {
                    return Ok(());
                }
                // What was allocated before the failure is of no use.
                std::fs::remove_file(&path)?;
            }
            last
        };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(make).await {
            tracing::warn!(%error, "no space could be reserved for deletions on a full disk");
        }
    }

    /// How many bytes this process can still write.
    pub fn free_bytes(&self) -> Result<u64> {
        let found = rustix::fs::statvfs(&*self.directory).map_err(std::io::Error::from)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

/// Creates a file that has its blocks on the disk already.
fn allocate(path: &Path, bytes: u64) -> std::io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let mut file = std::fs::File::create(path)?;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => Ok(()),
        // Not every file system can do this. Numbers that differ are not compressed away.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            let numbers = (0..bytes / 8).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let content: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
            file.write_all(&content)?;
            file.sync_all()
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_reserve_is_released_for_work_and_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::new(directory.path().to_owned());
        let reserve = directory.path().join(RESERVE);
        disk.keep_reserve().await;
        assert_eq!(std::fs::metadata(&reserve).unwrap().len(), RESERVED[0]);
        let there = disk.with_reserve(async { Ok(reserve.exists()) }).await.unwrap();
        assert!(!there);
        disk.keep_reserve().await;
        assert!(reserve.exists());
    }
}
