//! Datasets' files: found by name, unpacked, and told apart from what they are not.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Which file, where it was looked for, and where its owner publishes it.
    #[error("{dataset}: no {} in {}; {published}", .names.join(" or "), .directory.display())]
    Missing { dataset: &'static str, names: Vec<String>, directory: PathBuf, published: &'static str },
    #[error("{}: {error}", .path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    /// The bytes are there but not what they should be.
    #[error("{}{}: {message}", .path.display(), .line.map_or(String::new(), |line| format!(", line {line}")))]
    Malformed { path: PathBuf, line: Option<u64>, message: String },
}

impl LoadError {
    pub(super) fn malformed(path: &Path, message: impl Into<String>) -> Self {
        LoadError::Malformed { path: path.into(), line: None, message: message.into() }
    }

    /// What is missing might as well be one of these.
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
            // What flate2 says of bytes that are not gzip, or of gzip that ends too early.
            std::io::ErrorKind::InvalidInput
            | std::io::ErrorKind::InvalidData
            | std::io::ErrorKind::UnexpectedEof => Self::malformed(path, format!("damaged gzip: {error}")),
            _ => LoadError::Unreadable { path: path.into(), error },
        }
    }
}

/// Where a dataset's files are looked for, and what to say where they are not.
pub struct Shelf<'a> {
    pub dataset: &'static str,
    pub directory: &'a Path,
    pub published: &'static str,
}

impl Shelf<'_> {
    /// The first of these files that is there, each as it is or with `.gz` behind its name.
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

/// Unpacks what its name says is packed.
pub fn open(path: &Path) -> Result<Box<dyn BufRead>, LoadError> {
    let file = File::open(path).map_err(|error| LoadError::unreadable(path, error))?;
    Ok(match path.extension() {
        Some(extension) if extension == "gz" => {
            Box::new(BufReader::new(MultiGzDecoder::new(BufReader::new(file))))
        }
        _ => Box::new(BufReader::new(file)),
    })
}

pub fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes).map_err(|error| LoadError::unreadable(path, error))?;
    Ok(bytes)
}

/// Every line but empty ones, with its number.
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
        let text = std::str::from_utf8(&line).map_err(|_| malformed("is not text".into()))?;
        let text = text.trim_end_matches(['\n', '\r']);
        if !text.is_empty() {
            each(number, text).map_err(malformed)?;
        }
    }
}
