//! Compression of logs: its names in HTTP and in file names.

/// How a log is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// Not compressed.
    #[default]
    Identity,
    /// gzip, of one or several members.
    Gzip,
    /// Zstandard.
    Zstd,
}

/// The registry entry of an encoding.
struct Entry {
    /// The names in `Content-Encoding`, the usual one first.
    names: &'static [&'static str],
    /// The extensions of file names, without their dots, the usual one first.
    extensions: &'static [&'static str],
}

impl Encoding {
    /// All encodings.
    pub const ALL: [Encoding; 3] = [Encoding::Identity, Encoding::Gzip, Encoding::Zstd];

    fn entry(self) -> &'static Entry {
        match self {
            Encoding::Identity => &Entry { names: &["identity", ""], extensions: &[] },
            Encoding::Gzip => &Entry { names: &["gzip", "x-gzip"], extensions: &["gz"] },
            Encoding::Zstd => &Entry { names: &["zstd"], extensions: &["zst", "zstd"] },
        }
    }

    /// The name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        self.entry().names[0]
    }

    /// The encoding that `Content-Encoding` calls `name`.
    pub fn named(name: &str) -> Option<Encoding> {
        let known = |encoding: &Encoding| encoding.entry().names.iter().any(|n| n.eq_ignore_ascii_case(name));
        Self::ALL.into_iter().find(known)
    }

    /// The encoding that the extension of a file name implies, and the name without that extension.
    pub fn of_file_name(name: &str) -> (Encoding, &str) {
        let implied = name.rsplit_once('.').and_then(|(stem, extension)| {
            let found = Self::ALL.into_iter().find(|e| e.entry().extensions.contains(&extension));
            found.map(|encoding| (encoding, stem))
        });
        implied.unwrap_or((Encoding::Identity, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_extensions() {
        assert_eq!(Encoding::named("X-GZIP"), Some(Encoding::Gzip));
        assert_eq!(Encoding::named(""), Some(Encoding::Identity));
        assert_eq!(Encoding::named("br"), None);
        assert_eq!(Encoding::of_file_name("log.csv.gz"), (Encoding::Gzip, "log.csv"));
        assert_eq!(Encoding::of_file_name("log.zstd"), (Encoding::Zstd, "log"));
        assert_eq!(Encoding::of_file_name("log.csv"), (Encoding::Identity, "log.csv"));
        assert_eq!(Encoding::of_file_name("gz"), (Encoding::Identity, "gz"));
    }
}
