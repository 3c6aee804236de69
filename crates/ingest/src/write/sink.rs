//! Where the bytes go, compressed as the name says.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

const ZSTD_LEVEL: i32 = 3;

pub enum Sink<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
}

impl<W: Write> Sink<W> {
    /// Compresses where `name` ends in `.gz` or `.zst`.
    pub fn by_name(name: &str, to: W) -> io::Result<Self> {
        Ok(match Self::split(name).1 {
            Some("gz") => Sink::Gzip(GzEncoder::new(to, Compression::default())),
            Some("zst") => Sink::Zstd(zstd::stream::write::Encoder::new(to, ZSTD_LEVEL)?),
            _ => Sink::Plain(to),
        })
    }

    /// The name without the ending that says how it is compressed, and that ending.
    pub fn split(name: &str) -> (&str, Option<&str>) {
        match name.rsplit_once('.') {
            Some((stem, ending @ ("gz" | "zst"))) => (stem, Some(ending)),
            _ => (name, None),
        }
    }

    /// Writes the end of what is compressed. Without it the bytes are not whole.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Sink::Plain(to) => Ok(to),
            Sink::Gzip(encoder) => encoder.finish(),
            Sink::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Sink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Plain(to) => to.write(bytes),
            Sink::Gzip(encoder) => encoder.write(bytes),
            Sink::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Plain(to) => to.flush(),
            Sink::Gzip(encoder) => encoder.flush(),
            Sink::Zstd(encoder) => encoder.flush(),
        }
    }
}
