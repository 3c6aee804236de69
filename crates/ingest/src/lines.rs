//! The lines of a body, read in blocks of whole lines, parsed on several threads and visited in order. Row
//! numbers are line numbers; empty lines are skipped.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, available_parallelism};

use crate::IngestLimits;
use crate::plain_columns::PlainColumns;
use crate::row::{FormatError, RawRow, RowFault, Visit};

/// A block is small enough to stay in a core's cache, and large enough that the cost of passing it to a
/// thread is negligible.
const BLOCK_BYTES: usize = 256 << 10;
/// The maximum number of blocks in flight per thread.
const IN_FLIGHT: usize = 2;
/// More threads do not help, because the thread that visits the rows becomes the bottleneck.
const MAX_THREADS: usize = 4;

/// Reads something from a line, which includes its line break.
pub type ParseLine<'a, T> = dyn Fn(&[u8]) -> Result<T, RowFault> + Sync + 'a;

/// Reads the columns of whole lines, and how many lines there are, if nothing about them is unusual.
pub type ParseBlock<'a> = dyn Fn(&[u8], usize) -> Option<(PlainColumns, u64)> + Sync + 'a;

/// Receives what was read from each line, in order, with the number of the line.
pub type VisitLine<'a, T> = dyn FnMut(u64, Result<T, RowFault>) -> Result<(), FormatError> + 'a;

/// Parses every line and visits the rows in order: in whole columns where `columns` can read a block of whole lines, and
/// the visitor takes them; it returns the columns and the number of lines.
pub fn each_row(
    source: impl Read,
    limits: &IngestLimits,
    columns: &ParseBlock,
    parse: &ParseLine<RawRow<'static>>,
    visit: &mut Visit,
) -> Result<(), FormatError> {
    let line_bytes = limits.line_bytes;
    // A visitor that refuses some columns is likely to refuse all.
    let refused = AtomicBool::new(false);
    let parse_block = |block: Block| {
        if !block.cut
            && !refused.load(Ordering::Relaxed)
            && let Some((rows, lines)) = columns(&block.bytes, line_bytes)
        {
            return Lines::Columns(Box::new(rows), lines, block);
        }
        Lines::Rows(block.parse(line_bytes, parse))
    };
    each_block(source, limits, &parse_block, &mut |before, lines| {
        let parsed = match lines {
            Lines::Columns(mut rows, lines, block) => {
                rows.numbers.iter_mut().for_each(|number| *number += before);
                if visit.columns(*rows).map_err(FormatError::Stopped)? {
                    return Ok(lines);
                }
                refused.store(true, Ordering::Relaxed);
                block.parse(line_bytes, parse)
            }
            Lines::Rows(parsed) => parsed,
        };
        parsed.visit(before, &mut |number, row| visit.row(number, row).map_err(FormatError::Stopped))
    })
}

enum Lines {
    Columns(Box<PlainColumns>, u64, Block),
    Rows(Parsed<RawRow<'static>>),
}

/// Parses every line and visits the results in order. Parsing runs on several threads, so the size of a result in
/// memory should be proportional to that of its line.
pub fn each_parsed<T: Send>(
    source: impl Read,
    limits: &IngestLimits,
    parse: &ParseLine<T>,
    visit: &mut VisitLine<T>,
) -> Result<(), FormatError> {
    let parse_block = |block: Block| block.parse(limits.line_bytes, parse);
    each_block(source, limits, &parse_block, &mut |before, parsed| parsed.visit(before, visit))
}

/// Parses blocks on several threads and visits the results in order, with the number of lines before them. The visitor
/// returns the number of lines of a block.
fn each_block<P: Send>(
    source: impl Read,
    limits: &IngestLimits,
    parse: &(dyn Fn(Block) -> P + Sync),
    visit: &mut dyn FnMut(u64, P) -> Result<u64, FormatError>,
) -> Result<(), FormatError> {
    let mut blocks = Blocks::new(source, limits);
    let Some(first) = blocks.next()? else { return Ok(()) };
    if blocks.is_done() {
        return visit(0, parse(first)).map(drop);
    }
    let threads = available_parallelism().map_or(1, |n| n.get()).min(MAX_THREADS);
    std::thread::scope(|scope| {
        let lanes: Vec<Lane<P>> =
            (0..threads).map(|_| Lane::start(scope, parse)).collect::<io::Result<_>>()?;
        // Blocks are dealt to the lanes in turn, so taking them back in the same turn keeps their order.
        let (mut sent, mut taken, mut next, mut lines) = (0, 0, Some(first), 0);
        loop {
            while sent - taken < threads * IN_FLIGHT
                && let Some(block) = next.take().map_or_else(|| blocks.next(), |b| Ok(Some(b)))?
            {
                lanes[sent % threads].put(block)?;
                sent += 1;
            }
            if taken == sent {
                return Ok(());
            }
            lines += visit(lines, lanes[taken % threads].take()?)?;
            taken += 1;
        }
    })
}

/// A thread that parses blocks, never more than `IN_FLIGHT` at a time, so that sending never blocks.
struct Lane<P> {
    blocks: SyncSender<Block>,
    parsed: Receiver<P>,
}

impl<P: Send> Lane<P> {
    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        parse: &'scope (dyn Fn(Block) -> P + Sync + 'scope),
    ) -> io::Result<Lane<P>>
    where
        P: 'scope,
    {
        let (blocks, to_parse) = sync_channel::<Block>(IN_FLIGHT);
        let (done, parsed) = sync_channel(IN_FLIGHT);
        let work = move || {
            for block in to_parse {
                if done.send(parse(block)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("parse".into()).spawn_scoped(scope, work)?;
        Ok(Lane { blocks, parsed })
    }

    fn put(&self, block: Block) -> io::Result<()> {
        self.blocks.send(block).map_err(|_| vanished())
    }

    fn take(&self) -> io::Result<P> {
        self.parsed.recv().map_err(|_| vanished())
    }
}

/// This happens only if the thread panicked, and then the scope ends with the same panic.
fn vanished() -> io::Error {
    io::Error::other("a parser thread ended unexpectedly")
}

/// Whole lines; the last line of a body may have no line break.
struct Block {
    bytes: Vec<u8>,
    /// The block is the beginning of one line that is too long.
    cut: bool,
}

struct Parsed<T> {
    lines: u64,
    /// What was read, with line numbers; the first line of a block is 1.
    rows: Vec<(u64, Result<T, RowFault>)>,
}

impl<T> Parsed<T> {
    /// Visits what was read from lines that follow so many others, and returns how many lines there were.
    fn visit(self, before: u64, visit: &mut VisitLine<T>) -> Result<u64, FormatError> {
        for (line, row) in self.rows {
            visit(before + line, row)?;
        }
        Ok(self.lines)
    }
}

impl Block {
    /// Calls `visit` with the lines that are not empty and their numbers in the block, and returns how
    /// many lines there are.
    fn each_line<E>(
        &self,
        line_bytes: usize,
        mut visit: impl FnMut(u64, Result<&[u8], RowFault>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut number = 0;
        for line in self.bytes.split_inclusive(|&byte| byte == b'\n') {
            number += 1;
            let length = line.strip_suffix(b"\n").unwrap_or(line).len();
            if self.cut || length > line_bytes {
                visit(number, Err(too_long(line_bytes)))?;
            } else if !line.trim_ascii().is_empty() {
                visit(number, Ok(line))?;
            }
        }
        Ok(number)
    }

    fn parse<T>(&self, line_bytes: usize, parse: &ParseLine<T>) -> Parsed<T> {
        let mut rows = Vec::new();
        let Ok(lines) = self.each_line::<std::convert::Infallible>(line_bytes, |number, line| {
            rows.push((number, line.and_then(parse)));
            Ok(())
        });
        Parsed { lines, rows }
    }
}

/// The fault of a line or record of more than `most` bytes.
pub fn too_long(most: usize) -> RowFault {
    RowFault::new("row", format!("is longer than {most} bytes"))
}

struct Blocks<R> {
    source: R,
    /// What was read beyond the last block.
    rest: Vec<u8>,
    line_bytes: usize,
    ended: bool,
}

impl<R: Read> Blocks<R> {
    fn new(source: R, limits: &IngestLimits) -> Self {
        Blocks { source, rest: Vec::new(), line_bytes: limits.line_bytes, ended: false }
    }

    fn is_done(&self) -> bool {
        self.ended && self.rest.is_empty()
    }

    fn next(&mut self) -> io::Result<Option<Block>> {
        let mut bytes = std::mem::take(&mut self.rest);
        let mut searched = 0;
        while !self.ended {
            let wanted = BLOCK_BYTES.saturating_sub(bytes.len()).max(BLOCK_BYTES / 4);
            self.read(wanted, &mut bytes)?;
            if let Some(at) = bytes[searched..].iter().rposition(|&byte| byte == b'\n') {
                self.rest = Vec::with_capacity(BLOCK_BYTES + BLOCK_BYTES / 4);
                self.rest.extend_from_slice(&bytes[searched + at + 1..]);
                bytes.truncate(searched + at + 1);
                return Ok(Some(Block { bytes, cut: false }));
            }
            if bytes.len() > self.line_bytes {
                self.skip_line()?;
                return Ok(Some(Block { bytes, cut: true }));
            }
            searched = bytes.len();
        }
        Ok((!bytes.is_empty()).then_some(Block { bytes, cut: false }))
    }

    fn read(&mut self, wanted: usize, to: &mut Vec<u8>) -> io::Result<()> {
        to.reserve(wanted);
        let read = self.source.by_ref().take(wanted as u64).read_to_end(to)?;
        self.ended = read < wanted;
        Ok(())
    }

    /// Skips everything up to the next line break.
    fn skip_line(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        while !self.ended {
            bytes.clear();
            self.read(BLOCK_BYTES, &mut bytes)?;
            if let Some(at) = bytes.iter().position(|&byte| byte == b'\n') {
                self.rest = bytes.split_off(at + 1);
                return Ok(());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a few bytes at a time, as a network does.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.1 = self.1 * 31 % 4099 + 1;
            let n = to.len().min(self.1).min(self.0.len());
            to[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    /// The rows that were visited; the parser returns each line in its error.
    fn visited(body: &str, line_bytes: usize) -> Vec<(u64, String)> {
        let parse =
            |line: &[u8]| Err::<RawRow<'static>, _>(RowFault::new("line", String::from_utf8_lossy(line)));
        let limits = IngestLimits { line_bytes, ..IngestLimits::default() };
        let mut rows = Vec::new();
        let mut visit = |number, row: Result<RawRow, RowFault>| {
            rows.push((number, row.unwrap_err().message));
            Ok(())
        };
        assert!(each_row(Trickle(body.as_bytes(), 7), &limits, &|_, _| None, &parse, &mut visit).is_ok());
        rows
    }

    fn expected(body: &str, line_bytes: usize) -> Vec<(u64, String)> {
        let lines = (1..).zip(body.split_inclusive('\n')).filter(|(_, line)| !line.trim().is_empty());
        let too_long = format!("is longer than {line_bytes} bytes");
        let row = |(number, line): (u64, &str)| match line.trim_end_matches('\n').len() > line_bytes {
            true => (number, too_long.clone()),
            false => (number, line.to_string()),
        };
        lines.map(row).collect()
    }

    #[test]
    fn lines_keep_their_order_and_numbers_over_blocks_and_threads() {
        let line = |i: usize| match i % 97 {
            0 => "\n".into(),
            1 => " \r\n".into(),
            _ => format!("{i} {}\n", "y".repeat(i * 7919 % 900)),
        };
        let body: String = (0..6000).map(line).collect();
        assert!(body.len() > 8 * BLOCK_BYTES);
        for body in [&body[..], body.trim_end(), "", "\n", "a", "a\nb", "\n\na\n"] {
            for line_bytes in [500, 1 << 20] {
                assert!(visited(body, line_bytes) == expected(body, line_bytes));
            }
        }
    }

    #[test]
    fn a_line_longer_than_a_block_is_read_or_rejected_and_the_next_one_is_read() {
        for length in [BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES, 5 * BLOCK_BYTES + 3] {
            for end in ["", "\n", "\nnext", "\nnext\n\nlast\n"] {
                let body = format!("first\n{}{end}", "z".repeat(length));
                for line_bytes in [100, length - 1, length, length + 1] {
                    assert!(visited(&body, line_bytes) == expected(&body, line_bytes), "{length} {end:?}");
                }
            }
        }
    }

    #[test]
    fn a_visitor_that_stops_ends_the_threads() {
        let body = "row\n".repeat(BLOCK_BYTES);
        let parse = |_: &[u8]| Ok(RawRow::default());
        let mut seen = 0;
        let mut visit = |_, _: Result<RawRow, RowFault>| {
            seen += 1;
            if seen < 10 { Ok(()) } else { Err(crate::IngestError::Sink) }
        };
        let ended = each_row(body.as_bytes(), &IngestLimits::default(), &|_, _| None, &parse, &mut visit);
        assert!(matches!(ended, Err(FormatError::Stopped(_))));
        assert_eq!(seen, 10);
    }
}
