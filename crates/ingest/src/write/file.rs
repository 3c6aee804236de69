//! A simulated log as a file: written beside its place and renamed when it is complete.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{Format, Layout, LogWriter, Sink};

/// A writer of a log to a file or to standard output.
pub type FileWriter = LogWriter<Sink<Box<dyn Write>>>;

/// A file that a log is written to. The path `-` is standard output. The log is compressed if the name
/// ends in `.gz` or `.zst`.
pub struct LogFile<'a> {
    pub path: &'a Path,
    pub format: Format,
    pub layout: &'a Layout,
}

impl LogFile<'_> {
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
        let sink = Sink::by_name(&self.name(), buffered)?;
        let mut writer = LogWriter::new(self.format, self.layout.clone(), sink)?;
        write(&mut writer)?;
        Ok(writer.finish()?.finish()?.flush()?)
    }

    /// The command that uploads the file; empty for standard output.
    pub fn upload_command(&self) -> String {
        if self.is_stdout() {
            return String::new();
        }
        let name = self.name();
        let mut query = vec![format!("outcome={}", self.layout.outcome_name())];
        match self.format {
            Format::Dsjson => query.push(format!("format=dsjson&hash_dims={}", self.layout.dim)),
            Format::Obd => query.push("format=obd".into()),
            _ => {}
        }
        let encoding = match Sink::<io::Empty>::split(&name).1 {
            Some("gz") => " -H 'content-encoding: gzip'",
            Some(_) => " -H 'content-encoding: zstd'",
            None => "",
        };
        format!(
            "curl -X POST 'localhost:8080/v1/datasets?{}' -H 'content-type: {}'{encoding} --data-binary @{name}\n",
            query.join("&"),
            self.format.content_type()
        )
    }

    fn name(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    fn is_stdout(&self) -> bool {
        self.path == Path::new("-")
    }
}

/// The format that the command line names, or else the one that the ending of the file's name implies.
///
/// # Errors
/// Neither says which format.
pub fn format_of(path: &Path, named: Option<Format>) -> Result<Format, String> {
    let name = path.to_string_lossy();
    named.or_else(|| Format::by_name(&name)).ok_or_else(|| {
        format!(
            "{name}: the name does not imply a format; add --format, or end it in .ndjson, .csv, .parquet, .arrow or .dsjson"
        )
    })
}

/// The number of contexts that `rows` rows make, with `m` interactions each.
///
/// # Errors
/// `rows` is 0, no multiple of `m`, or more than `most` contexts can give.
pub fn contexts(rows: usize, m: usize, most: usize) -> Result<usize, String> {
    if rows == 0 || !rows.is_multiple_of(m) {
        return Err(format!("--rows {rows}: must be a positive multiple of --interactions {m}"));
    }
    if rows / m > most {
        let rows = most.saturating_mul(m);
        return Err(format!("--rows: there are {most} contexts, which give at most {rows} rows"));
    }
    Ok(rows / m)
}

/// The size of a log, in words.
pub fn counts(rows: usize, contexts: usize, layout: &Layout) -> String {
    let (k, p) = (layout.n_actions, layout.dim);
    format!("{rows} rows, {contexts} contexts, {k} actions, {p} features")
}
