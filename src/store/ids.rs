//! Names of things. Ids are UUIDv7, text wherever they are stored or shown.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A new one, later than every other that this process has made.
            #[allow(clippy::new_without_default)]
            pub fn new() -> Self {
                $name(Uuid::now_v7())
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                $name(id)
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            /// Only the hyphenated form: ids have one spelling.
            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                text.parse::<uuid::fmt::Hyphenated>().map(|id| $name(id.into_uuid()))
            }
        }
    };
}

id_type!(DatasetId);
id_type!(PolicyId);
id_type!(JobId);
id_type!(KeyId);
id_type!(
    /// Proof of holding a job: every write of a worker names it.
    LeaseToken
);

/// The tenant that a key belongs to and that every resource lives in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Workspace(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a workspace is 1 to 64 of a-z, 0-9, - and _, not {0:?}")]
pub struct BadWorkspace(String);

impl Workspace {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where everything lives when no keys are configured.
impl Default for Workspace {
    fn default() -> Self {
        Workspace("default".into())
    }
}

impl FromStr for Workspace {
    type Err = BadWorkspace;

    fn from_str(text: &str) -> Result<Self, BadWorkspace> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
        if (1..=64).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Workspace(text.into()))
        } else {
            Err(BadWorkspace(text.into()))
        }
    }
}

impl fmt::Display for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Microseconds since 1970 by the database's clock; shown as RFC 3339 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl Timestamp {
    pub fn seconds_since(self, earlier: Timestamp) -> f64 {
        (self.0 - earlier.0).max(0) as f64 / 1e6
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let time = chrono::DateTime::from_timestamp_micros(self.0).unwrap_or_default();
        f.write_str(&time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_one_spelling_and_increase() {
        let (a, b) = (JobId::new(), JobId::new());
        assert!(a < b);
        assert_eq!(a.to_string().parse::<JobId>().unwrap(), a);
        assert!(a.to_string().replace('-', "").parse::<JobId>().is_err());
        assert!("".parse::<JobId>().is_err());
    }

    #[test]
    fn workspaces_are_plain_names() {
        assert!("team-a_1".parse::<Workspace>().is_ok());
        for bad in ["", "Team", "a b", "é", &"a".repeat(65)] {
            assert!(bad.parse::<Workspace>().is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(Timestamp(1_700_000_000_123_000).to_string(), "2023-11-14T22:13:20.123Z");
    }
}
