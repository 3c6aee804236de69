//! The disk under a store: whether it can be written, probed by writing one block, how much space is left, and a
//! reserve of space for deletions and revocations, which must work on a full disk.
//!
//! The reserve is a file. An operation that needs its space makes it shorter, a step at a time, and it grows back
//! as soon as the operation ends. No other file is written while it is short, so nothing else uses up its space.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::{Result, StoreError};

/// What the probe writes: one block, because an empty file may need no space at all.
const PROBE: [u8; 4096] = [1; 4096];

/// The file whose space is used when the disk is full.
const RESERVE: &str = "reserve";
/// Its length when it is whole.
const RESERVED: u64 = 4 << 20;
/// What the first step takes from it. Each further step takes as much as all steps before it.
const STEP: u64 = 256 << 10;
/// The least by which it grows.
const BLOCK: u64 = 4096;

/// The disk that a directory is on.
#[derive(Clone)]
pub struct Disk {
    directory: Arc<Path>,
    /// Held by an operation that uses the reserve. The lock of the file is for other processes.
    emergency: Arc<tokio::sync::Mutex<()>>,
    /// Whether this process is the server, which keeps a reserve. Other processes only use it.
    keeps: Arc<AtomicBool>,
}

impl Disk {
    /// The disk of this directory.
    pub fn new(directory: PathBuf) -> Self {
        Disk { directory: directory.into(), emergency: Arc::default(), keeps: Arc::default() }
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

    /// Takes the reserve for one operation. It grows back when what is returned is dropped.
    pub async fn take_reserve(&self) -> Released {
        let alone = self.emergency.clone().lock_owned().await;
        let path = self.directory.join(RESERVE);
        let file = tokio::task::spawn_blocking(move || open_locked(&path, false)).await;
        match file.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(file) => {
                tracing::warn!("the disk is full; an operation uses the space that is reserved for it");
                Released { file: Some(file), _alone: alone }
            }
            Err(error) => {
                tracing::warn!(%error, "the disk is full, and there is no space in reserve");
                Released { file: None, _alone: alone }
            }
        }
    }

    /// Creates the reserve, or lets it grow to its length, as far as there is space. For the server only.
    pub async fn keep_reserve(&self) {
        self.keeps.store(true, Ordering::Relaxed);
        if let Err(error) = self.check_reserve().await {
            tracing::warn!(%error, "the space that is reserved for deletions on a full disk is incomplete");
        }
    }

    /// Checks that the reserve is whole, after an attempt to make it so. Ask this before a file is written.
    ///
    /// # Errors
    /// `Full` if there is no space for the reserve. A reserve that cannot be kept for another reason is no error.
    pub async fn check_reserve(&self) -> Result<()> {
        let path = self.directory.join(RESERVE);
        let is_whole = || std::fs::metadata(&path).is_ok_and(|file| file.len() >= RESERVED);
        if !self.keeps.load(Ordering::Relaxed) || is_whole() {
            return Ok(());
        }
        // An operation that uses the reserve ends first.
        let _alone = self.emergency.lock().await;
        let filled = tokio::task::spawn_blocking(move || fill(&open_locked(&path, true)?)).await;
        match filled.unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(StoreError::from) {
            Err(full @ StoreError::Full(_)) => Err(full),
            Err(error) => {
                tracing::warn!(%error, "no space can be reserved for deletions on a full disk");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// How many bytes this process can still write.
    pub fn free_bytes(&self) -> Result<u64> {
        let found = rustix::fs::statvfs(&*self.directory).map_err(std::io::Error::from)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

/// The reserve, taken for one operation.
pub struct Released {
    /// `None` if there is no reserve.
    file: Option<File>,
    _alone: tokio::sync::OwnedMutexGuard<()>,
}

impl Released {
    /// Gives some of the space to the operation. False if there is nothing left to give.
    pub fn release(&mut self) -> bool {
        let Some(file) = &self.file else { return false };
        let Ok(length) = file.metadata().map(|found| found.len()) else { return false };
        let step = STEP.max(RESERVED.saturating_sub(length));
        length > 0 && file.set_len(length.saturating_sub(step)).is_ok()
    }
}

/// Here and not after the operation, because the future of a request may be dropped at any time.
impl Drop for Released {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.file.as_ref().map(fill) {
            tracing::warn!(%error, "the space that is reserved for deletions on a full disk is incomplete");
        }
    }
}

/// Opens the file and waits for its lock, which ends when the file is closed.
fn open_locked(path: &Path, create: bool) -> std::io::Result<File> {
    let file = OpenOptions::new().write(true).create(create).truncate(false).open(path)?;
    file.lock()?;
    Ok(file)
}

/// Lets the reserve grow to its length, as far as there is space.
fn fill(file: &File) -> std::io::Result<()> {
    let mut piece = RESERVED;
    loop {
        let length = file.metadata()?.len();
        piece = piece.min(RESERVED.saturating_sub(length));
        if piece == 0 {
            return Ok(());
        }
        if let Err(error) = allocate(file, length, piece) {
            // What was allocated before the failure is tried again in smaller pieces.
            file.set_len(length)?;
            if piece <= BLOCK {
                return Err(error);
            }
            piece = (piece / 2).max(BLOCK);
        }
    }
}

/// Adds bytes at the end of a file that have their blocks on the disk already.
fn allocate(file: &File, end: u64, bytes: u64) -> std::io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    match fallocate(file, FallocateFlags::empty(), end, bytes) {
        Ok(()) => Ok(()),
        // Not every file system can do this. Numbers that differ are not compressed away.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            let numbers = (0..bytes.div_ceil(8)).map(|i| (end + i).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut content: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
            content.truncate(bytes as usize);
            file.write_all_at(&content, end)?;
            file.sync_all()
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_reserve_is_released_in_steps_and_grows_back() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::new(directory.path().to_owned());
        let length = || std::fs::metadata(directory.path().join(RESERVE)).unwrap().len();
        disk.keep_reserve().await;
        assert_eq!(length(), RESERVED);
        let mut released = disk.take_reserve().await;
        let lengths: Vec<u64> = std::iter::from_fn(|| released.release().then(length)).collect();
        assert_eq!(lengths, [RESERVED - STEP, RESERVED - 2 * STEP, RESERVED - 4 * STEP, RESERVED / 2, 0]);
        drop(released);
        assert_eq!(length(), RESERVED);
    }

    #[tokio::test]
    async fn without_a_server_there_is_no_reserve() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::new(directory.path().to_owned());
        disk.check_reserve().await.unwrap();
        assert!(!disk.take_reserve().await.release());
        assert!(!directory.path().join(RESERVE).exists());
    }
}
