//! A simulated log as a file. It is written under another name and renamed when it is complete.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{Compressed, LogWriter, WriteLayout};
use crate::encoding::Encoding;
use crate::format::FileFormat;
use crate::outcome_options::declaration_of;

/// A writer of a log to a file or to standard output.
pub type FileWriter = LogWriter<Compressed<Box<dyn Write>>>;

/// The file that a log is written to. The path `-` is standard output.
pub struct OutputFile<'a> {
    /// The path of the file.
    pub path: &'a Path,
    /// Format and compression; `FileFormat::of_file` takes them from the path.
    pub format: FileFormat,
    /// The columns of the log.
    pub layout: &'a WriteLayout,
}

impl OutputFile<'_> {
    /// Writes the whole log, or leaves no file.
    ///
    /// # Errors
    /// What `write` returns, or why the file cannot be written. The message names the file.
    pub fn write<E: From<io::Error> + std::fmt::Display>(
        &self,
        write: impl FnOnce(&mut FileWriter) -> Result<(), E>,
    ) -> Result<(), String> {
        let name = self.name();
        let failed = |error: io::Error| format!("{name}: {error}");
        if self.is_stdout() {
            return self.write_to(Box::new(io::stdout()), write).map_err(|error| error.to_string());
        }
        let partial = PathBuf::from(format!("{name}.partial"));
        let to = Box::new(File::create(&partial).map_err(failed)?);
        match self.write_to(to, write) {
            Ok(()) => std::fs::rename(&partial, self.path).map_err(failed),
            Err(error) => {
                let _ = std::fs::remove_file(&partial);
                Err(format!("{name}: {error}"))
            }
        }
    }

    fn write_to<E: From<io::Error>>(
        &self,
        to: Box<dyn Write>,
        write: impl FnOnce(&mut FileWriter) -> Result<(), E>,
    ) -> Result<(), E> {
        let buffered: Box<dyn Write> = Box::new(BufWriter::with_capacity(1 << 16, to));
        let compressed = Compressed::new(self.format.encoding, buffered)?;
        let mut writer = LogWriter::new(self.format.format, self.layout, compressed)?;
        write(&mut writer)?;
        Ok(writer.finish()?.finish()?.flush()?)
    }

    /// The command that uploads the file; empty for standard output.
    pub fn upload_command(&self) -> String {
        if self.is_stdout() {
            return String::new();
        }
        let name = self.name();
        let FileFormat { format, encoding, .. } = self.format;
        let outcome = match self.layout.outcomes.is_empty() {
            true => format!("outcome={}", self.layout.outcome_name()),
            false => format!("outcomes={}", encoded(&declaration_of(&self.layout.outcomes))),
        };
        let mut query = vec![outcome];
        if !format.is_implied() {
            query.push(format!("format={}", format.name()));
        }
        if format.hashes_features() && self.layout.sets.is_none() {
            query.push(format!("hash_dims={}", self.format.for_dim(self.layout.dim).dims()));
        }
        let encoding = match encoding {
            Encoding::Identity => String::new(),
            encoding => format!(" -H 'content-encoding: {}'", encoding.name()),
        };
        format!(
            "curl -X POST 'localhost:8080/v1/datasets?{}' -H 'content-type: {}'{encoding} --data-binary @{name}\n",
            query.join("&"),
            format.content_type()
        )
    }

    fn name(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    fn is_stdout(&self) -> bool {
        self.path == Path::new("-")
    }
}

/// A text as a part of a query.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// The number of contexts that `rows` rows make, with `m` interactions each.
///
/// # Errors
/// `rows` is 0, not a multiple of `m`, or more than `most` contexts give.
pub fn contexts(rows: usize, m: usize, most: usize) -> Result<usize, String> {
    if rows == 0 || !rows.is_multiple_of(m) {
        return Err(format!("--rows {rows}: must be a positive multiple of --interactions {m}"));
    }
    if rows / m > most {
        let rows = most.saturating_mul(m);
        return Err(format!("--rows: {most} contexts give at most {rows} rows"));
    }
    Ok(rows / m)
}

/// The size of a log as readable text.
pub fn counts(rows: usize, contexts: usize, layout: &WriteLayout) -> String {
    let (k, p) = (layout.n_actions, layout.dim);
    format!("{rows} rows, {contexts} contexts, {k} actions, {p} features")
}
