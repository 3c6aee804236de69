//! Temporary files, for formats that cannot be read in one pass.

use std::fs::File;
use std::io::{self, Read, Write};

use crate::IngestLimits;
use crate::errors::IngestError;
use crate::row::FormatError;

/// Copies `source` to a temporary file without a name, which disappears even if the process dies.
pub fn spool(mut source: impl Read, limits: &IngestLimits) -> Result<File, FormatError> {
    let ours = |error: io::Error| FormatError::Stopped(IngestError::Io(error));
    let file = match &limits.spool {
        Some(directory) => tempfile::tempfile_in(directory),
        None => tempfile::tempfile(),
    };
    let (mut file, mut buffer) = (file.map_err(ours)?, vec![0; 1 << 18]);
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(file),
            Ok(n) => file.write_all(&buffer[..n]).map_err(ours)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(FormatError::Unreadable(error.to_string())),
        }
    }
}
