//! Ids, workspaces and times. Ids are UUIDv7, and text wherever they are stored or shown.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Decodes a type from a text column by its `FromStr`, in every database that has text.
macro_rules! stored_as_text {
    ($name:ty) => {
        impl<DB: sqlx::Database> sqlx::Type<DB> for $name
        where
            str: sqlx::Type<DB>,
        {
            fn type_info() -> DB::TypeInfo {
                <str as sqlx::Type<DB>>::type_info()
            }

            fn compatible(found: &DB::TypeInfo) -> bool {
                <str as sqlx::Type<DB>>::compatible(found)
            }
        }

        impl<'r, DB: sqlx::Database> sqlx::Decode<'r, DB> for $name
        where
            &'r str: sqlx::Decode<'r, DB>,
        {
            fn decode(value: DB::ValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
                Ok(<&str as sqlx::Decode<'r, DB>>::decode(value)?.parse::<$name>()?)
            }
        }
    };
}

pub(super) use stored_as_text;

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A new id, greater than every other that this process has made.
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

            /// Accepts the hyphenated form only: ids have one spelling.
            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                text.parse::<uuid::fmt::Hyphenated>().map(|id| $name(id.into_uuid()))
            }
        }

        stored_as_text!($name);
    };
}

id_type!(
    /// The id of a dataset.
    DatasetId
);
id_type!(
    /// The id of a policy.
    PolicyId
);
id_type!(
    /// The id of a job.
    JobId
);
id_type!(
    /// The id of an API key, which is not secret.
    KeyId
);
id_type!(
    /// The id of a standing gate. Clients know a gate by its name; a token belongs to the id.
    GateId
);
id_type!(
    /// The id of a gate's token, which is not secret.
    GateTokenId
);
id_type!(
    /// The id of a webhook.
    WebhookId
);
id_type!(
    /// The id of a delivery: one event for one webhook.
    DeliveryId
);
id_type!(
    /// Proof that a worker holds a job: every write of the worker names it.
    LeaseToken
);

/// The tenant that a key belongs to and that every resource is in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Workspace(String);

/// A text that is not the name of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a workspace name: use 1 to 64 characters from a-z, 0-9, - and _")]
pub struct BadWorkspace(String);

impl Workspace {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The workspace of everything when no keys are configured.
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

stored_as_text!(Workspace);

impl fmt::Display for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Microseconds since 1970 by the database's clock, shown as RFC 3339 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, sqlx::Type)]
#[sqlx(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The time by the clock of this process, which is also SQLite's.
    pub fn now() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    /// The seconds from `earlier` to this time; 0 if the clock went back.
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
