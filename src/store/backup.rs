//! A copy of a data directory that is whole, taken while a server works on it.
//!
//! Rows name files, so the database's snapshot decides which files belong to the copy. Files never
//! change, but one may be deleted between the snapshot and its copying. So the files come first, then
//! the snapshot, then what files it names beyond those; where one of these has gone meanwhile, another
//! snapshot is taken, which no longer names it. Nothing here writes to the directory that is copied.

use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind::NotFound;
use std::path::{Component, Path, PathBuf};

use super::error::{Result, StoreError};
use super::open::{blob_directory, database_file};
use super::sqlite::Snapshot;

/// What lies beside the database and the blobs and cannot be made again: the key that certificates
/// are signed with.
const ALONE: [&str; 1] = ["signing-key.json"];

/// Each needs a deletion in a moment of the last one's copying.
const TRIES: usize = 20;

/// What a copy holds.
#[derive(Debug, PartialEq, Eq)]
pub struct BackedUp {
    pub files: usize,
    pub bytes: u64,
}

/// Copies the data directory `from` into `to`, which must be empty or not there yet. A server started
/// on `to` finds everything that was answered before the copy began.
pub async fn back_up(from: &Path, to: &Path) -> Result<BackedUp> {
    let database = database_file(from);
    if !database.is_file() {
        let message = format!("{} is no data directory: it has no guarantor.sqlite", from.display());
        return Err(StoreError::Refused(message));
    }
    std::fs::create_dir_all(to)?;
    if std::fs::read_dir(to)?.next().is_some() {
        let message = format!("{} is not empty; a backup needs a directory of its own", to.display());
        return Err(StoreError::Refused(message));
    }
    let (blobs, copies) = (blob_directory(from), blob_directory(to));
    std::fs::create_dir_all(&copies)?;
    for file in ALONE {
        copy(&from.join(file), &to.join(file))?;
    }
    for key in files_below(&blobs)? {
        copy(&blobs.join(&key), &copies.join(&key))?;
    }
    for _ in 0..TRIES {
        // Out of the way of a server until it is whole: it has another name until then.
        let unfinished = to.join("guarantor.sqlite.unfinished");
        let named = Snapshot::take(&database, &unfinished).await?;
        if complete(&named, &blobs, &copies)? {
            prune(&named, &copies)?;
            File::open(&unfinished)?.sync_all()?;
            std::fs::rename(&unfinished, database_file(to))?;
            File::open(to)?.sync_all()?;
            return Ok(BackedUp { files: named.len(), bytes: named.values().sum() });
        }
        std::fs::remove_file(&unfinished)?;
    }
    Err(StoreError::Refused("files were deleted faster than they could be copied; try again".into()))
}

/// Copies what is named and not there yet; false where a file has gone. A file of another length than
/// its row says is damage, and a backup that hides it is worse than none.
fn complete(named: &HashMap<String, u64>, blobs: &Path, copies: &Path) -> Result<bool> {
    for (key, bytes) in named {
        let to = copies.join(key);
        if !to.is_file() && !copy(&blobs.join(key), &to)? {
            return Ok(false);
        }
        let found = std::fs::metadata(&to)?.len();
        if found != *bytes {
            return Err(StoreError::damaged(key, format!("{found} bytes where {bytes} were written")));
        }
    }
    Ok(true)
}

/// Removes the copies of what was deleted, or not yet answered, when the snapshot was taken.
fn prune(named: &HashMap<String, u64>, copies: &Path) -> Result<()> {
    for key in files_below(copies)? {
        if key.to_str().is_none_or(|key| !named.contains_key(key)) {
            std::fs::remove_file(copies.join(key))?;
        }
    }
    Ok(())
}

/// Whether the file was there. On disk when it returns.
fn copy(from: &Path, to: &Path) -> Result<bool> {
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder)?;
    }
    match std::fs::copy(from, to) {
        Ok(_) => {
            File::open(to)?.sync_all()?;
            Ok(true)
        }
        Err(error) if error.kind() == NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The files below `root` by their paths from there, half-written ones left out.
fn files_below(root: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(root.join(&folder)) {
            // Emptied and removed since it was listed.
            Err(error) if error.kind() == NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(_) if is_whole(&path) => found.push(path),
                Ok(_) => {}
                Err(error) if error.kind() == NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(found)
}

/// Files that are being written have a `#` in their names, and no key has.
fn is_whole(path: &Path) -> bool {
    path.components()
        .all(|part| matches!(part, Component::Normal(name) if !name.to_string_lossy().contains('#')))
}
