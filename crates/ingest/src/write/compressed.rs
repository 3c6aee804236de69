//! Compression of what is written.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::encoding::Encoding;

const ZSTD_LEVEL: i32 = 3;

/// Compresses bytes on their way to `W`.
pub enum Compressed<W: Write> {
    /// Without compression.
    Plain(W),
    /// With gzip.
    Gzip(GzEncoder<W>),
    /// With Zstandard.
    Zstd(zstd::stream::write::Encoder<'static, W>),
}

impl<W: Write> Compressed<W> {
    /// A writer with this encoding.
    ///
    /// # Errors
    /// The encoder could not be set up.
    pub fn new(encoding: Encoding, to: W) -> io::Result<Self> {
        Ok(match encoding {
            Encoding::Identity => Compressed::Plain(to),
            Encoding::Gzip => Compressed::Gzip(GzEncoder::new(to, Compression::default())),
            Encoding::Zstd => Compressed::Zstd(zstd::stream::write::Encoder::new(to, ZSTD_LEVEL)?),
        })
    }

    /// Completes the compressed data. Without this call it is truncated.
    ///
    /// # Errors
    /// The end could not be written.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Compressed::Plain(to) => Ok(to),
            Compressed::Gzip(encoder) => encoder.finish(),
            Compressed::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Compressed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Compressed::Plain(to) => to.write(bytes),
            Compressed::Gzip(encoder) => encoder.write(bytes),
            Compressed::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Compressed::Plain(to) => to.flush(),
            Compressed::Gzip(encoder) => encoder.flush(),
            Compressed::Zstd(encoder) => encoder.flush(),
        }
    }
}
