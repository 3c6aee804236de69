//! Comma-separated records (RFC 4180) with quotes, line numbers and a bounded length. This reader is
//! stricter than most: a quote in the wrong place is an error that names its line, because a wrong guess
//! at its meaning could move a number into another column.

use std::io::{self, BufRead, BufReader, Read};

use crate::lines::too_long;
use crate::row::RowFault;

/// The byte order mark that some programs write before UTF-8. It is not part of the first cell.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads records one by one.
pub struct Records<R> {
    source: BufReader<R>,
    most: usize,
    /// The number of the line that was read last.
    line: u64,
    buffer: Vec<u8>,
    text: Vec<u8>,
    ends: Vec<usize>,
}

/// The cells of a record, without their quotes.
#[derive(Clone, Copy)]
pub struct Cells<'a> {
    text: &'a [u8],
    ends: &'a [usize],
}

impl<'a> Cells<'a> {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The cell with this index.
    pub fn get(&self, i: usize) -> Option<&'a [u8]> {
        let from = if i == 0 { 0 } else { *self.ends.get(i - 1)? };
        self.text.get(from..*self.ends.get(i)?)
    }

    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(self.ends).map(move |(from, &to)| &self.text[from..to])
    }
}

#[derive(Clone, Copy, PartialEq)]
enum At {
    Start,
    Plain,
    Quoted,
    /// After a quote inside quotes: the end of the cell, or the first of two quotes that represent one.
    Closed,
}

impl<R: Read> Records<R> {
    /// `most` is the maximum length of a record in bytes.
    pub fn new(source: R, most: usize) -> Self {
        let source = BufReader::with_capacity(1 << 16, source);
        Records { source, most, line: 0, buffer: Vec::new(), text: Vec::new(), ends: Vec::new() }
    }

    /// The next record and the number of its first line, or `None` at the end. Empty lines are skipped.
    pub fn next(&mut self) -> io::Result<Option<(u64, Result<Cells<'_>, RowFault>)>> {
        self.text.clear();
        self.ends.clear();
        let (mut at, mut number) = (At::Start, 0);
        loop {
            let whole = self.read_line()?;
            if self.buffer.is_empty() {
                let open = (at == At::Quoted).then(|| fault("has a quote that is never closed"));
                return Ok(open.map(|fault| (number, Err(fault))));
            }
            let (body, ending) = self.buffer.split_at(self.buffer.len() - ending(&self.buffer));
            if at != At::Quoted {
                number = self.line;
                if body.is_empty() {
                    continue;
                }
            }
            if !whole || self.text.len() + self.buffer.len() > self.most {
                return Ok(Some((number, Err(too_long(self.most)))));
            }
            match split(at, body, &mut self.text, &mut self.ends) {
                Ok(At::Quoted) => {
                    self.text.extend_from_slice(ending);
                    at = At::Quoted;
                }
                Ok(_) => {
                    self.ends.push(self.text.len());
                    return Ok(Some((number, Ok(Cells { text: &self.text, ends: &self.ends }))));
                }
                Err(fault) => return Ok(Some((number, Err(fault)))),
            }
        }
    }

    /// Reads a line, or as much of it as is allowed and skips the rest; returns whether it was read
    /// completely.
    fn read_line(&mut self) -> io::Result<bool> {
        self.buffer.clear();
        let most = self.most as u64 + 1;
        let read = self.source.by_ref().take(most).read_until(b'\n', &mut self.buffer)?;
        self.line += u64::from(read > 0);
        if self.line == 1 && self.buffer.starts_with(UTF8_MARK) {
            self.buffer.drain(..UTF8_MARK.len());
        }
        if read as u64 == most && self.buffer.last() != Some(&b'\n') {
            skip_line(&mut self.source)?;
            return Ok(false);
        }
        Ok(true)
    }
}

/// The length of the line's end.
fn ending(line: &[u8]) -> usize {
    match line {
        [.., b'\r', b'\n'] => 2,
        [.., b'\n'] => 1,
        _ => 0,
    }
}

/// Adds a line to the cells, and returns the state at its end.
fn split(mut at: At, line: &[u8], text: &mut Vec<u8>, ends: &mut Vec<usize>) -> Result<At, RowFault> {
    for &byte in line {
        at = match (at, byte) {
            (At::Start, b'"') => At::Quoted,
            (At::Quoted, b'"') => At::Closed,
            (At::Start | At::Plain | At::Closed, b',') => {
                ends.push(text.len());
                At::Start
            }
            (At::Plain, b'"') => {
                let message = "has a quote inside a cell that is not quoted; quote the whole cell and double the quotes in it";
                return Err(fault(message));
            }
            (At::Closed, b'"') | (At::Quoted, _) => {
                text.push(byte);
                At::Quoted
            }
            (At::Closed, _) => return Err(fault("has text between a closing quote and the next comma")),
            (At::Start | At::Plain, _) => {
                text.push(byte);
                At::Plain
            }
        };
    }
    Ok(at)
}

fn fault(message: impl Into<String>) -> RowFault {
    RowFault::new("row", message)
}

/// Skips the rest of a line.
fn skip_line(source: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = source.fill_buf()?;
        let end = buffer.iter().position(|&b| b == b'\n');
        let n = end.map_or(buffer.len(), |at| at + 1);
        source.consume(n);
        if end.is_some() || n == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every record as its line and its cells, or what is wrong with it.
    fn records(text: &str, most: usize) -> Vec<(u64, Result<Vec<String>, String>)> {
        let mut records = Records::new(text.as_bytes(), most);
        let mut all = Vec::new();
        while let Some((line, cells)) = records.next().unwrap() {
            let cells = cells.map(|c| c.iter().map(|b| String::from_utf8(b.to_vec()).unwrap()).collect());
            all.push((line, cells.map_err(|fault| fault.message)));
        }
        all
    }

    #[test]
    fn quotes_lines_and_ends() {
        let text = "a,b\r\n\n\"1,\"\"x\"\"\r\ny\",\n,\"\"\r\nlast,";
        let cells = |all: &[&str]| Ok(all.iter().map(|c| c.to_string()).collect::<Vec<_>>());
        let expected = vec![
            (1, cells(&["a", "b"])),
            (3, cells(&["1,\"x\"\r\ny", ""])),
            (5, cells(&["", ""])),
            (6, cells(&["last", ""])),
        ];
        assert_eq!(records(text, 100), expected);
        assert_eq!(records("", 100), vec![]);
        assert_eq!(records("\u{feff}", 100), vec![]);
        assert_eq!(records("\u{feff}\"a\",b\n", 100), vec![(1, cells(&["a", "b"]))]);
    }

    #[test]
    fn a_fault_names_its_line_and_the_next_record_is_read() {
        let cases = [
            ("a\"b\nnext", "inside a cell", 1),
            ("\"a\"b\nnext", "closing quote", 1),
            ("ok\n\"a\nb", "never closed", 2),
            ("aaaaaaaaaaaaaaaaaaaaaaaa\nnext", "longer than 20 bytes", 1),
            ("ok\n\"aaaaaaaaaaa\nbbbbbbbbbbbb\"\nnext", "longer than 20 bytes", 2),
        ];
        for (text, words, line) in cases {
            let all = records(text, 20);
            let wrong: Vec<_> = all.iter().filter(|(_, cells)| cells.is_err()).collect();
            assert_eq!(wrong.len(), 1, "{text}: {all:?}");
            assert_eq!(wrong[0].0, line, "{text}");
            assert!(wrong[0].1.as_ref().unwrap_err().contains(words), "{text}: {all:?}");
            let last = &all.last().unwrap().1;
            assert_eq!(last.is_ok(), text.ends_with("next"), "{text}: {all:?}");
        }
    }
}
