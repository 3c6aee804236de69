//! A consistent copy of a data directory, taken while a server uses it.
//!
//! Rows name files, so the snapshot of the database decides which files belong to the copy. Files never
//! change, but one may be deleted between the snapshot and its copying. So the files are copied first, then
//! the snapshot is taken, then the other files that it names are copied. If one of these has been
//! deleted in the meantime, another snapshot is taken, which no longer names it. Nothing here writes to
//! the directory that is copied.

use std::collections::HashMap;
use std::fs::{File, Permissions};
use std::io::ErrorKind::NotFound;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use super::error::{Result, StoreError};
use super::open::{blob_directory, database_file};
use super::private::create_private;
use super::sqlite::Snapshot;

/// Files besides the database and the blobs that cannot be recreated: the signing key.
const ALONE: [&str; 1] = ["signing-key.json"];

/// How many snapshots are tried. Another one is needed only if a file is deleted while it is being copied.
const TRIES: usize = 20;

/// What a backup contains.
#[derive(Debug, PartialEq, Eq)]
pub struct BackedUp {
    /// The number of blobs.
    pub files: usize,
    /// Their total size.
    pub bytes: u64,
}

/// Copies the data directory `from` to `to`, which must be empty or not exist yet. A server started on `to`
/// finds everything that was acknowledged before the copy began.
///
/// # Errors
/// `Refused` if `from` is not a data directory or `to` is not empty, `Damaged` if a blob is damaged.
pub async fn back_up(from: &Path, to: &Path) -> Result<BackedUp> {
    let database = database_file(from);
    if !database.is_file() {
        let message = format!("{} is not a data directory: it has no guarantor.sqlite", from.display());
        return Err(StoreError::Refused(message));
    }
    create_private(to)?;
    if std::fs::read_dir(to)?.next().is_some() {
        let message = format!("{} is not empty; a backup needs an empty directory", to.display());
        return Err(StoreError::Refused(message));
    }
    let (blobs, copies) = (blob_directory(from), blob_directory(to));
    create_private(&copies)?;
    for file in ALONE {
        copy(&from.join(file), &to.join(file))?;
    }
    for key in files_below(&blobs)? {
        copy(&blobs.join(&key), &copies.join(&key))?;
    }
    for _ in 0..TRIES {
        // It has a temporary name until it is complete, so that no server opens it before then.
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

/// Copies the named files that are not copied yet; false if one of them no longer exists. A file that does
/// not have the length in its row is damaged, and a backup that hides this would be worse than no backup.
fn complete(named: &HashMap<String, u64>, blobs: &Path, copies: &Path) -> Result<bool> {
    for (key, bytes) in named {
        let to = copies.join(key);
        if !to.is_file() && !copy(&blobs.join(key), &to)? {
            return Ok(false);
        }
        let found = std::fs::metadata(&to)?.len();
        if found != *bytes {
            return Err(StoreError::damaged_blob(
                key,
                format!("it has {found} bytes, but {bytes} were written"),
            ));
        }
    }
    Ok(true)
}

/// Removes the copies of files that the snapshot does not name: they were deleted before it was taken, or
/// not yet acknowledged.
fn prune(named: &HashMap<String, u64>, copies: &Path) -> Result<()> {
    for key in files_below(copies)? {
        if key.to_str().is_none_or(|key| !named.contains_key(key)) {
            std::fs::remove_file(copies.join(key))?;
        }
    }
    Ok(())
}

/// Copies a file, which is on disk when this returns; false if there is no such file.
fn copy(from: &Path, to: &Path) -> Result<bool> {
    if let Some(folder) = to.parent() {
        create_private(folder)?;
    }
    match std::fs::copy(from, to) {
        Ok(_) => {
            // A copy has the mode of its original, which may be older than the rule that only the owner reads it.
            File::open(to)?.set_permissions(Permissions::from_mode(0o600))?;
            File::open(to)?.sync_all()?;
            Ok(true)
        }
        Err(error) if error.kind() == NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The files below `root` by their relative paths, without half-written ones.
fn files_below(root: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(root.join(&folder)) {
            // It was removed since it was listed.
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

/// Whether a file is complete: files that are being written have a `#` in their names, and no key has one.
fn is_whole(path: &Path) -> bool {
    path.components()
        .all(|part| matches!(part, Component::Normal(name) if !name.to_string_lossy().contains('#')))
}
