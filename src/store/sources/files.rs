//! Files of this machine. Links are followed, but what is opened must be a regular file below one of the folders that were
//! allowed, by its real path. A file is opened once for reading, and compared before its first and after its last byte.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::uri::{SourceUri, segment_matches};
use super::{MOST_LISTED, MOST_OBJECTS, SourceError, SourceObject};
use crate::store::uploads::BodyError;

/// How much is read at a time.
const PIECE: usize = 2 << 20;

/// What identifies the contents of a file as long as it exists. Nobody can set the time of the last change of its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A file that was found.
#[derive(Debug, Clone)]
pub struct FoundFile {
    path: PathBuf,
    /// The real paths of the folders that it may be in; `None` means anywhere.
    within: Option<Arc<[PathBuf]>>,
    /// What it was when it was found; `None` if it was found long ago.
    stamp: Option<Stamp>,
}

/// The files that an address stands for, in the order of their names. A pattern leaves out folders, pipes and devices. What
/// matches and cannot be read is an error: a log without some of its files is another log.
///
/// # Errors
/// If there is none, there are too many, or one of them or a folder cannot be read.
pub fn find(uri: &SourceUri, within: Option<Arc<[PathBuf]>>) -> Result<Vec<SourceObject>, SourceError> {
    let whole = uri.to_string();
    let (mut found, mut seen) = (vec![PathBuf::from("/")], 0);
    for segment in uri.key.split('/') {
        let mut next = Vec::new();
        for folder in &found {
            match segment.contains(['*', '?']) {
                true => list(folder, segment, within.as_deref(), &mut next, &mut seen)
                    .map_err(|error| failed(&whole, error))?,
                false => next.push(folder.join(segment)),
            }
            if seen > MOST_LISTED {
                return Err(SourceError::TooMany { uri: whole, most: MOST_LISTED });
            }
        }
        found = next;
    }
    let literal = uri.folder().is_none();
    let mut objects = Vec::new();
    for path in found {
        if !literal && !is_there(&path).map_err(|error| failed(&whole, error))? {
            continue;
        }
        if objects.len() == MOST_OBJECTS {
            return Err(SourceError::TooMany { uri: whole, most: MOST_OBJECTS });
        }
        let Some(text) = path.to_str() else {
            let (uri, why) =
                (path.display().to_string(), "has a name that is not UTF-8; rename the file".into());
            return Err(SourceError::Uri { uri, why });
        };
        let name = format!("file://{text}");
        let stamp = match open(&path, within.as_deref()) {
            Ok((_, stamp)) => stamp,
            Err(Refused::NotAFile(_)) if !literal => continue,
            Err(refused) => return Err(failed(&name, refused.into())),
        };
        let found = FoundFile { path, within: within.clone(), stamp: Some(stamp) };
        objects.push(SourceObject::file(name, stamp.bytes, found));
    }
    if objects.is_empty() {
        return Err(SourceError::NotFound(whole));
    }
    objects.sort_by(|one, other| one.uri.cmp(&other.uri));
    Ok(objects)
}

/// Adds the entries of a folder that match. Folders outside of the allowed ones have none, whatever is in them.
fn list(
    folder: &Path,
    segment: &str,
    within: Option<&[PathBuf]>,
    next: &mut Vec<PathBuf>,
    seen: &mut usize,
) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(folder, flags, Mode::empty()) {
        Ok(opened) => File::from(opened),
        // Something else than a folder matched, or it leads elsewhere.
        Err(error) if matches!(error, Errno::NOTDIR | Errno::NOENT) || is_outside(folder, within) => {
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    if !is_in(&opened, within)? {
        return Ok(());
    }
    for entry in std::fs::read_dir(path_of(&opened))? {
        let name = entry?.file_name();
        *seen += 1;
        // A name that is no text matches too, and is an error then.
        if segment_matches(segment, &name.to_string_lossy()) {
            next.push(folder.join(name));
        }
        if *seen > MOST_LISTED {
            break;
        }
    }
    Ok(())
}

/// Whether there is anything at a path, also a link that leads nowhere.
fn is_there(path: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether the folder of a path is outside of the allowed ones. What cannot be told is outside.
fn is_outside(path: &Path, within: Option<&[PathBuf]>) -> bool {
    let Some(folders) = within else { return false };
    // Of a path that cannot be followed to its end, what can be followed decides.
    let real = path.ancestors().find_map(|folder| std::fs::canonicalize(folder).ok());
    !real.is_some_and(|real| folders.iter().any(|folder| real.starts_with(folder)))
}

/// The path by which what was opened can be opened again, wherever links lead by now.
fn path_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Whether the real path of what was opened is in one of the folders.
fn is_in(file: &File, within: Option<&[PathBuf]>) -> io::Result<bool> {
    let Some(folders) = within else { return Ok(true) };
    let real = std::fs::read_link(path_of(file))?;
    Ok(folders.iter().any(|folder| real.starts_with(folder)))
}

/// A file that was read before. What it was then is known to the caller.
pub fn recorded(uri: &SourceUri, within: Option<Arc<[PathBuf]>>) -> FoundFile {
    FoundFile { path: Path::new("/").join(&uri.key), within, stamp: None }
}

fn failed(uri: &str, error: io::Error) -> SourceError {
    let uri = uri.to_owned();
    match error.kind() {
        _ if is_missing(&error) => SourceError::NotFound(uri),
        io::ErrorKind::PermissionDenied => SourceError::Denied { uri, why: error.to_string() },
        io::ErrorKind::InvalidInput => SourceError::Uri { uri, why: error.to_string() },
        _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            SourceError::Uri { uri, why: "is a link that leads back to itself, or goes through one".into() }
        }
        _ => SourceError::Unreadable { uri, why: error.to_string() },
    }
}

/// Why a file is not read.
enum Refused {
    /// It is something else than a regular file.
    NotAFile(&'static str),
    /// A link leads to a place that is not allowed, or nowhere.
    Elsewhere,
    Failed(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Refused::Failed(error)
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        let why = match refused {
            Refused::NotAFile(kind) => format!("is {kind}"),
            Refused::Elsewhere => "is a link to a place that this server may not read".into(),
            Refused::Failed(error) => return error,
        };
        io::Error::new(io::ErrorKind::InvalidInput, why)
    }
}

/// Opens a file. First its place is taken hold of, which no pipe or device notices, and checked; between a check of a path
/// and its use, the path may lead elsewhere. What is outside of the allowed folders is refused in one way, whether it
/// exists or not.
fn open(path: &Path, within: Option<&[PathBuf]>) -> Result<(File, Stamp), Refused> {
    let missing = || Refused::Failed(io::ErrorKind::NotFound.into());
    if path.parent().is_some_and(|folder| is_outside(folder, within)) {
        return Err(missing());
    }
    let held = match rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(held) => File::from(held),
        Err(error) if within.is_some() && path.is_symlink() && error != Errno::LOOP => {
            return Err(Refused::Elsewhere);
        }
        Err(error) => return Err(Refused::Failed(error.into())),
    };
    if !is_in(&held, within)? {
        return Err(if path.is_symlink() { Refused::Elsewhere } else { missing() });
    }
    let kind = held.metadata()?.file_type();
    if !kind.is_file() {
        return Err(Refused::NotAFile(if kind.is_fifo() { "a pipe" } else { "not a file" }));
    }
    let file = File::open(path_of(&held))?;
    let stamp = stamp_of(&file)?;
    Ok((file, stamp))
}

fn stamp_of(file: &File) -> io::Result<Stamp> {
    let now = file.metadata()?;
    Ok(Stamp {
        device: now.dev(),
        inode: now.ino(),
        bytes: now.len(),
        modified: (now.mtime(), now.mtime_nsec()),
        changed: (now.ctime(), now.ctime_nsec()),
    })
}

impl FoundFile {
    /// Its bytes, in order. The stream ends with an error if the file changes while it is read, or is not the one that was
    /// found.
    pub fn read(self, uri: String) -> BoxStream<'static, Result<Bytes, BodyError>> {
        let reader = Reader { uri, found: self, open: None };
        let next = |mut reader: Reader| async {
            let read = move || {
                let piece = reader.next();
                piece.map(|piece| piece.map(|piece| (piece, reader)))
            };
            tokio::task::spawn_blocking(read)
                .await
                .unwrap_or_else(|error| Err(BodyError::Broken(error.to_string())))
        };
        stream::try_unfold(reader, next).boxed()
    }
}

struct Reader {
    uri: String,
    found: FoundFile,
    open: Option<(File, Stamp)>,
}

impl Reader {
    fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        let changed = || BodyError::Changed(self.uri.clone());
        let broken = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput => changed(),
            io::ErrorKind::PermissionDenied => BodyError::Denied(self.uri.clone()),
            _ => BodyError::Broken(format!("{}: {error}", self.uri)),
        };
        let (mut file, stamp) = match self.open.take() {
            Some(open) => open,
            None => open(&self.found.path, self.found.within.as_deref())
                .map_err(|refused| broken(refused.into()))?,
        };
        if self.found.stamp.is_some_and(|found| found != stamp) {
            return Err(changed());
        }
        let mut piece = vec![0; PIECE];
        let mut length = 0;
        while length < PIECE {
            match file.read(&mut piece[length..]) {
                Ok(0) => break,
                Ok(n) => length += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(error)),
            }
        }
        if length == 0 {
            return if stamp_of(&file).map_err(broken)? == stamp { Ok(None) } else { Err(changed()) };
        }
        piece.truncate(length);
        self.open = Some((file, stamp));
        Ok(Some(piece.into()))
    }
}
