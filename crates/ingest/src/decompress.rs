//! Content codings: gzip and zstd, undone as the bytes pass, with a bound on what may come out. A
//! body that grows without measure is refused while it grows.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use flate2::read::MultiGzDecoder;

use super::IngestLimits;
use super::errors::IngestError;

/// How the body was coded for its way here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    #[default]
    Identity,
    Gzip,
    Zstd,
}

impl Encoding {
    pub const NAMES: &str = "gzip and zstd";

    /// By the name that `Content-Encoding` has for it.
    pub fn named(name: &str) -> Option<Encoding> {
        match name.to_ascii_lowercase().as_str() {
            "" | "identity" => Some(Encoding::Identity),
            "gzip" | "x-gzip" => Some(Encoding::Gzip),
            "zstd" => Some(Encoding::Zstd),
            _ => None,
        }
    }
}

/// zstd's window, 8 MiB: what HTTP's zstd coding allows (RFC 9659), and all levels up to 19 use.
const WINDOW_LOG: u32 = 23;

/// Bytes that may come out before their ratio to those that went in is looked at.
const RATIO_FROM: u64 = 16 << 20;

/// The decoded bytes. What stopped them is left in `refusal`, because readers above make texts of
/// the errors that they meet.
pub struct Decoded {
    source: Box<dyn Read + Send>,
    encoding: Encoding,
    taken: Arc<AtomicU64>,
    given: u64,
    most: u64,
    ratio: u64,
    refusal: Refusal,
}

#[derive(Clone, Default)]
pub struct Refusal(Arc<OnceLock<String>>);

impl Refusal {
    /// The upload grew beyond its bounds, whatever else was made of it.
    pub fn check(&self) -> Result<(), IngestError> {
        self.0.get().map_or(Ok(()), |message| Err(IngestError::Expands(message.clone())))
    }
}

impl Decoded {
    pub fn new(
        encoding: Encoding,
        source: impl Read + Send + 'static,
        limits: &IngestLimits,
    ) -> io::Result<Self> {
        let taken = Arc::new(AtomicU64::new(0));
        let counted = Counted { source, taken: taken.clone() };
        let source: Box<dyn Read + Send> = match encoding {
            Encoding::Identity => Box::new(counted),
            Encoding::Gzip => Box::new(MultiGzDecoder::new(io::BufReader::with_capacity(1 << 16, counted))),
            Encoding::Zstd => {
                let mut decoder = zstd::Decoder::new(counted)?;
                decoder.window_log_max(WINDOW_LOG)?;
                Box::new(decoder)
            }
        };
        let (most, ratio) = (limits.decoded_bytes, limits.decoded_ratio);
        Ok(Decoded { source, encoding, taken, given: 0, most, ratio, refusal: Refusal::default() })
    }

    pub fn refusal(&self) -> Refusal {
        self.refusal.clone()
    }

    fn check(&self) -> Result<(), String> {
        if self.given > self.most {
            return Err(format!(
                "The body is larger than {} bytes once it is decoded, this server's limit.",
                self.most
            ));
        }
        let taken = self.taken.load(Ordering::Relaxed);
        if self.given > RATIO_FROM && self.given / self.ratio > taken {
            return Err(format!(
                "The body grows to more than {} times its size when it is decoded; send it without a content encoding.",
                self.ratio
            ));
        }
        Ok(())
    }
}

impl Read for Decoded {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(to);
        if self.encoding == Encoding::Identity {
            return read;
        }
        let n = read.map_err(|error| coding_error(self.encoding, error))?;
        self.given += n as u64;
        self.check().map_err(|message| {
            let error = io::Error::other(message.clone());
            let _ = self.refusal.0.set(message);
            error
        })?;
        Ok(n)
    }
}

fn coding_error(encoding: Encoding, error: io::Error) -> io::Error {
    let name = if encoding == Encoding::Gzip { "gzip" } else { "zstd" };
    let what = error.to_string();
    let what = if error.kind() == io::ErrorKind::UnexpectedEof {
        "it ends too early".to_owned()
    } else if what.contains("too much memory") {
        "its window is larger than 8 MiB; compress it at level 19 or below and without --long".into()
    } else {
        what
    };
    io::Error::other(format!("the body is not whole {name} data: {what}"))
}

struct Counted<R> {
    source: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.source.read(to)?;
        self.taken.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}
