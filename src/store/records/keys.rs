//! API keys, and the hashes under which they are stored.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::store::ids::{KeyId, Timestamp, Workspace, stored_as_text};

/// What a key may do in its workspace. Each role may do what the roles before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Ask gates, and nothing else.
    Gate,
    /// Read everything.
    Read,
    /// Everything but administration: upload logs, store policies, submit, cancel and delete.
    Submit,
    /// Everything, including the gates that decide about rollouts.
    Admin,
}

impl Role {
    /// Every role, the one that may do least first.
    pub const ALL: [Role; 4] = [Role::Gate, Role::Read, Role::Submit, Role::Admin];

    /// The name on the command line, in responses and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Role::Gate => "gate",
            Role::Read => "read",
            Role::Submit => "submit",
            Role::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let role = Role::ALL.into_iter().find(|role| role.name() == name);
        role.ok_or_else(|| format!("{name:?} is not a role; use gate, read, submit or admin"))
    }
}

stored_as_text!(Role);

/// An API key without its secret, which is not stored.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct ApiKey {
    /// Its id, which is not secret.
    pub id: KeyId,
    /// The workspace that it opens.
    pub workspace: Workspace,
    /// The name that its creator gave it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// An API key to be stored.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Its id.
    pub id: KeyId,
    /// The workspace that it opens.
    pub workspace: Workspace,
    /// A name for people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The hash of the secret.
    pub hash: KeyHash,
}

/// The SHA-256 of an API key's secret.
///
/// It deliberately has no `PartialEq`: [`KeyHash::matches`], which takes constant time, is the only way to
/// compare two of them.
#[derive(Clone)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// The hash of a secret.
    pub fn of(secret: &str) -> Self {
        KeyHash(Sha256::digest(secret.as_bytes()).into())
    }

    /// Reads the stored form, or `None` if the text is not one.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut hash = [0; 32];
        hex::decode_to_slice(text, &mut hash).ok()?;
        Some(KeyHash(hash))
    }

    /// The stored form: 64 hex digits.
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }

    /// Whether the two are equal, in time that does not depend on where they differ.
    pub fn matches(&self, other: &KeyHash) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// Prints no digit of the hash.
impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("KeyHash(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_ordered_by_what_they_may_do() {
        assert!(Role::ALL.is_sorted());
        for role in Role::ALL {
            assert_eq!(role.name().parse(), Ok(role));
        }
        assert!("Admin".parse::<Role>().unwrap_err().contains("submit"));
    }

    #[test]
    fn a_hash_matches_itself_and_survives_being_stored() {
        let (hash, other) = (KeyHash::of("gk_a"), KeyHash::of("gk_b"));
        let read = KeyHash::from_hex(&hash.to_hex()).unwrap();
        assert!(read.matches(&hash) && !read.matches(&other));
        assert!(!format!("{hash:?}").contains(&hash.to_hex()[..4]));
        for bad in ["", "00", &"g".repeat(64), &"0".repeat(65)] {
            assert!(KeyHash::from_hex(bad).is_none(), "{bad}");
        }
    }
}
