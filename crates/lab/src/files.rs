//! The files of datasets: found by name and unpacked, with an error that names the file if something is
//! wrong.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

/// Why a dataset could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file is missing. The message says where it was looked for and where it is published.
    #[error("{dataset}: no {} in {}; {published}", .names.join(" or "), .directory.display())]
    Missing {
        /// The dataset that was requested.
        dataset: &'static str,
        /// The names under which the file was looked for.
        names: Vec<String>,
        /// The directory in which it was looked for.
        directory: PathBuf,
        /// Where the file is published.
        published: &'static str,
    },
    /// A file exists but cannot be read.
    #[error("{}: {error}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The content of a file is malformed.
    #[error("{}{}: {message}", .path.display(), .line.map_or(String::new(), |line| format!(", line {line}")))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1; `None` for binary files.
        line: Option<u64>,
        /// What is wrong.
        message: String,
    },
}

impl LoadError {
    pub(super) fn malformed(path: &Path, message: impl Into<String>) -> Self {
        LoadError::Malformed { path: path.into(), line: None, message: message.into() }
    }

    /// Adds alternatives for the missing file.
    pub(super) fn or(self, others: &[&str]) -> Self {
        match self {
            LoadError::Missing { dataset, mut names, directory, published } => {
                names.extend(others.iter().map(|name| format!("{name}[.gz]")));
                LoadError::Missing { dataset, names, directory, published }
            }
            other => other,
        }
    }

    pub(super) fn at_line(path: &Path, line: u64, message: impl Into<String>) -> Self {
        LoadError::Malformed { path: path.into(), line: Some(line), message: message.into() }
    }

    pub(super) fn unreadable(path: &Path, error: std::io::Error) -> Self {
        match error.kind() {
            // flate2's errors for bytes that are not gzip, or for truncated gzip.
            std::io::ErrorKind::InvalidInput
            | std::io::ErrorKind::InvalidData
            | std::io::ErrorKind::UnexpectedEof => Self::malformed(path, format!("damaged gzip: {error}")),
            _ => LoadError::Unreadable { path: path.into(), error },
        }
    }
}

/// Where a dataset's files are looked for, and what to report if they are missing.
pub struct Shelf<'a> {
    /// The dataset's name.
    pub dataset: &'static str,
    /// The directory of its files.
    pub directory: &'a Path,
    /// Where its files are published.
    pub published: &'static str,
}

impl Shelf<'_> {
    /// The first of these files that exists, with or without `.gz` after its name.
    pub fn find(&self, names: &[&str]) -> Result<PathBuf, LoadError> {
        let packed = names.iter().flat_map(|name| [format!("{name}.gz"), name.to_string()]);
        let found = packed.map(|name| self.directory.join(name)).find(|path| path.is_file());
        found.ok_or_else(|| LoadError::Missing {
            dataset: self.dataset,
            names: names.iter().map(|name| format!("{name}[.gz]")).collect(),
            directory: self.directory.into(),
            published: self.published,
        })
    }
}

/// Opens a file, and unpacks it if its name ends in `.gz`.
pub fn open(path: &Path) -> Result<Box<dyn BufRead>, LoadError> {
    let file = File::open(path).map_err(|error| LoadError::unreadable(path, error))?;
    Ok(match path.extension() {
        Some(extension) if extension == "gz" => {
            Box::new(BufReader::new(MultiGzDecoder::new(BufReader::new(file))))
        }
        _ => Box::new(BufReader::new(file)),
    })
}

/// The unpacked content of a file.
pub fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes).map_err(|error| LoadError::unreadable(path, error))?;
    Ok(bytes)
}

/// Calls `each` with every line that is not empty and its number.
pub fn for_each_line(
    path: &Path,
    mut each: impl FnMut(u64, &str) -> Result<(), String>,
) -> Result<(), LoadError> {
    let mut source = open(path)?;
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        number += 1;
        let read = source.read_until(b'\n', &mut line).map_err(|error| LoadError::unreadable(path, error))?;
        if read == 0 {
            return Ok(());
        }
        let malformed = |message: String| LoadError::at_line(path, number, message);
        let text = std::str::from_utf8(&line).map_err(|_| malformed("is not UTF-8 text".into()))?;
        let text = text.trim_end_matches(['\n', '\r']);
        if !text.is_empty() {
            each(number, text).map_err(malformed)?;
        }
    }
}
