//! Streaming decompression of gzip and zstd, with a limit on the decompressed size. A body that expands too
//! much is rejected while it is being decompressed.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use flate2::read::MultiGzDecoder;

use crate::IngestLimits;
use crate::encoding::Encoding;
use crate::errors::IngestError;

/// zstd's window, 8 MiB: the maximum for HTTP (RFC 9659), and enough for all levels up to 19.
const WINDOW_LOG: u32 = 23;

/// The ratio of decompressed to compressed size is checked from this decompressed size on.
const RATIO_FROM: u64 = 16 << 20;

/// The decompressed bytes. If a limit stops them, the reason is in `rejection`, because format readers turn
/// I/O errors into text.
pub struct Decoded {
    source: Box<dyn Read + Send>,
    encoding: Encoding,
    taken: Arc<AtomicU64>,
    given: u64,
    most: u64,
    ratio: u64,
    rejection: Rejection,
}

/// Why decompression was stopped, if it was.
#[derive(Clone, Default)]
pub struct Rejection(Arc<OnceLock<String>>);

impl Rejection {
    /// Fails if a limit was exceeded, whatever other error occurred.
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
        Ok(Decoded { source, encoding, taken, given: 0, most, ratio, rejection: Rejection::default() })
    }

    pub fn rejection(&self) -> Rejection {
        self.rejection.clone()
    }

    fn check(&self) -> Result<(), String> {
        if self.given > self.most {
            return Err(format!("The body exceeds the limit of {} bytes after decompression.", self.most));
        }
        let taken = self.taken.load(Ordering::Relaxed);
        if self.given > RATIO_FROM && self.given / self.ratio > taken {
            return Err(format!(
                "The decompressed body is more than {} times as large as the compressed one; send it without a content encoding.",
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
            let _ = self.rejection.0.set(message);
            error
        })?;
        Ok(n)
    }
}

fn coding_error(encoding: Encoding, error: io::Error) -> io::Error {
    let what = error.to_string();
    let what = if error.kind() == io::ErrorKind::UnexpectedEof {
        "it is truncated".to_owned()
    } else if what.contains("too much memory") {
        "its window is larger than 8 MiB; compress it with level 19 or lower and without --long".into()
    } else {
        what
    };
    io::Error::other(format!("the body is not valid {} data: {what}", encoding.name()))
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
