//! Lines of a bounded length, each with its 1-based number; empty ones are passed over.

use std::io::{self, BufRead, BufReader, Read};

use super::records::skip_line;
use super::row::Fault;

/// A line with its number, or why it cannot be read.
type Numbered<'a> = (u64, Result<&'a [u8], Fault>);

pub struct Lines<R> {
    source: BufReader<R>,
    most: usize,
    line: Vec<u8>,
    number: u64,
}

impl<R: Read> Lines<R> {
    /// A line of more than `most` bytes is read to its end but not kept.
    pub fn new(source: R, most: usize) -> Self {
        Lines { source: BufReader::with_capacity(1 << 16, source), most, line: Vec::new(), number: 0 }
    }

    /// The next line without its end, or that it is too long; None after the last.
    pub fn next(&mut self) -> io::Result<Option<Numbered<'_>>> {
        loop {
            self.line.clear();
            let most = self.most as u64 + 1;
            let read = self.source.by_ref().take(most).read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.line.last() != Some(&b'\n') && read as u64 == most {
                skip_line(&mut self.source)?;
                let fault = Fault::new("row", format!("is longer than {} bytes", self.most));
                return Ok(Some((self.number, Err(fault))));
            }
            if !self.line.trim_ascii().is_empty() {
                let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
                return Ok(Some((self.number, Ok(line.strip_suffix(b"\r").unwrap_or(line)))));
            }
        }
    }
}
