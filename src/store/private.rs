//! Who may read the data directory: its owner, and nobody else. It has logs of users, hashes of keys and the
//! signing key.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::open::{blob_directory, database_file};

/// What a data directory contains besides its blobs and the signing key. SQLite gives its other files the mode of the
/// database.
const FILES: [&str; 6] = [
    "guarantor.sqlite",
    "guarantor.sqlite-wal",
    "guarantor.sqlite-shm",
    "guarantor.sqlite-journal",
    "lock",
    "reserve",
];

/// A signing key that others could read is refused and not fixed, because it may have been read.
const KEY: &str = "signing-key.json";

/// Files that this process creates from now on are readable by its user only. Called once, by commands that write to
/// a data directory, before there are other threads.
pub fn create_private_files() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

/// Creates a directory that only its owner may enter, unless it exists.
pub fn create_private(directory: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Takes the access of others away from a data directory that an earlier release, or somebody else, created. What
/// belongs to another user is left as it is, with a warning.
pub fn make_private(directory: &Path) -> io::Result<()> {
    let mut paths: Vec<PathBuf> = FILES.iter().map(|name| directory.join(name)).collect();
    // There are none if the blobs are in S3.
    let mut folders: Vec<PathBuf> =
        [blob_directory(directory)].into_iter().filter(|folder| folder.is_dir()).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => folders.push(entry.path()),
                false => paths.push(entry.path()),
            }
        }
        paths.push(folder);
    }
    // A directory with other things in it may be shared on purpose. Its files of ours are private nevertheless.
    match has_only_ours(directory)? {
        true => paths.push(directory.to_owned()),
        false if is_open(directory)? => tracing::warn!(
            directory = %directory.display(),
            "the data directory has other files in it and is accessible to other users; give it a directory of its own"
        ),
        false => {}
    }
    let left: Vec<&PathBuf> = paths.iter().filter(|path| close(path).is_err()).collect();
    if let Some(first) = left.first() {
        tracing::warn!(
            files = left.len(), first = %first.display(),
            "some of the data is accessible to other users, and belongs to another user: run chmod -R go= on it"
        );
    }
    Ok(())
}

fn has_only_ours(directory: &Path) -> io::Result<bool> {
    let ours = |name: &str| FILES.contains(&name) || matches!(name, KEY | "blobs" | "lost+found");
    for entry in std::fs::read_dir(directory)? {
        // Jobs have temporary files here, whose names begin with a dot.
        let name = entry?.file_name();
        if !name.to_str().is_some_and(|name| ours(name) || name.starts_with('.')) {
            return Ok(false);
        }
    }
    // A server that keeps its rows elsewhere has only this.
    Ok(database_file(directory).exists() || directory.join("lock").exists())
}

/// Whether other users have access.
fn is_open(path: &Path) -> io::Result<bool> {
    Ok(std::fs::symlink_metadata(path)?.mode() & 0o077 != 0)
}

/// Takes the access of others away from a file or directory. A link is not followed.
fn close(path: &Path) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if found.is_symlink() || found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let mode = found.mode() & 0o700;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}
