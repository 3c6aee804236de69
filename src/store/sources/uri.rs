//! Addresses of logs: `s3://bucket/key` and `file:///path`, with `*` and `?` in their last segments.

use std::fmt;
use std::str::FromStr;

use super::SourceError;

/// The most bytes of an address: enough for every key of S3, which has up to 1024.
const LONGEST: usize = 2048;

/// An address that may stand for several objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceUri {
    /// The bucket; `None` for files of this machine.
    pub(super) bucket: Option<String>,
    /// The key, or the path without its first slash.
    pub(super) key: String,
}

impl fmt::Display for SourceUri {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.at(&self.key))
    }
}

impl FromStr for SourceUri {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let bad = |why: &str| SourceError::Uri { uri: text.chars().take(200).collect(), why: why.into() };
        let (bucket, key) = match (text.strip_prefix("s3://"), text.strip_prefix("file:///")) {
            (Some(rest), _) => {
                let (bucket, key) =
                    rest.split_once('/').ok_or_else(|| bad("names no object of the bucket"))?;
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
                if bucket.is_empty() || !bucket.bytes().all(plain) {
                    return Err(bad("has no valid name of a bucket"));
                }
                (Some(bucket.to_owned()), key)
            }
            (None, Some(path)) => (None, path),
            (None, None) => return Err(bad("is neither s3://bucket/key nor file:///path")),
        };
        if text.len() > LONGEST {
            return Err(bad("has more than 2048 bytes"));
        }
        // `//`, `.` and `..` could name the same object in two ways, or one outside of a prefix.
        if key.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(bad("has an empty segment, . or .. in its path, or ends with a slash"));
        }
        if key.chars().any(char::is_control) {
            return Err(bad("has a control character"));
        }
        Ok(SourceUri { bucket, key: key.to_owned() })
    }
}

impl SourceUri {
    /// Whether this text looks like an address, and not like the path of a file.
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with("s3://") || text.starts_with("file://")
    }

    /// The address of another key in the same place.
    pub(super) fn at(&self, key: &str) -> String {
        match &self.bucket {
            Some(bucket) => format!("s3://{bucket}/{key}"),
            None => format!("file:///{key}"),
        }
    }

    /// The segments before the first one with a wildcard, if there is one. All objects that match are below them.
    pub(super) fn folder(&self) -> Option<String> {
        let first = self.key.find(['*', '?'])?;
        Some(self.key[..first].rsplit_once('/').map_or("", |(folder, _)| folder).to_owned())
    }

    /// The part of the key that all objects have: the key itself, or the folder before the first wildcard.
    pub(super) fn literal(&self) -> String {
        self.folder().unwrap_or_else(|| self.key.clone())
    }

    /// Whether a key matches: `*` stands for any characters of one segment, and `?` for one of them.
    pub(super) fn matches(&self, key: &str) -> bool {
        let (pattern, key) = (self.key.split('/'), key.split('/'));
        pattern.clone().count() == key.clone().count()
            && pattern.zip(key).all(|(pattern, segment)| segment_matches(pattern, segment))
    }
}

/// Goes back to the last `*` only, so the time is at most the product of the lengths.
pub(super) fn segment_matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => (p, t) = (p + 1, t + 1),
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                (p, t) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_one_spelling() {
        for text in ["s3://logs/a", "s3://my-logs.v2/2026/11/a-*.parquet", "file:///mnt/a b.ndjson"] {
            let uri: SourceUri = text.parse().unwrap();
            assert_eq!(uri.at(&uri.key), text);
        }
        let bad = [
            "",
            "logs/a",
            "s3://logs",
            "s3://logs/",
            "s3:///a",
            "s3://u:p@logs/a",
            "s3://logs//a",
            "s3://logs/../a",
            "s3://logs/a/..",
            "s3://logs/./a",
            "s3://logs/a/",
            "s3://logs/a\nb",
            "file://host/a",
            "file:///",
            "file:////a",
            "https://logs/a",
        ];
        for text in bad {
            assert!(text.parse::<SourceUri>().is_err(), "{text:?}");
        }
        assert!(format!("s3://logs/{}", "a".repeat(2048)).parse::<SourceUri>().is_err());
    }

    #[test]
    fn wildcards_stay_within_a_segment() {
        let matches = |pattern: &str, key: &str| {
            format!("s3://logs/{pattern}").parse::<SourceUri>().unwrap().matches(key)
        };
        for (pattern, key, want) in [
            ("a/*.parquet", "a/b.parquet", true),
            ("a/*.parquet", "a/.parquet", true),
            ("a/*.parquet", "a/b/c.parquet", false),
            ("a/*.parquet", "b/a.parquet", false),
            ("a/*.parquet", "a/b.parquet.gz", false),
            ("2026-??/x", "2026-11/x", true),
            ("2026-??/x", "2026-1/x", false),
            ("*/*/x*y*z", "a/b/xxyyzz", true),
            ("*/*/x*y*z", "a/b/xzy", false),
            ("a.b", "aXb", false),
            ("a", "a", true),
        ] {
            assert_eq!(matches(pattern, key), want, "{pattern} {key}");
        }
        // No exponential time.
        assert!(!matches(&"*a".repeat(50), &"a".repeat(49)));
    }

    #[test]
    fn folders_end_before_the_first_wildcard() {
        let folder = |key: &str| format!("s3://logs/{key}").parse::<SourceUri>().unwrap().folder();
        assert_eq!(folder("a/b"), None);
        assert_eq!(folder("a/b/c-*.x").as_deref(), Some("a/b"));
        assert_eq!(folder("a/*/c").as_deref(), Some("a"));
        assert_eq!(folder("a*").as_deref(), Some(""));
    }
}
