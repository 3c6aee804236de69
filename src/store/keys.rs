//! API keys: 256 random bits, stored only as their SHA-256. A slow hash would not add protection, because
//! such a key cannot be guessed, and it would slow down every request.

use std::path::Path;

use super::Store;
use super::error::{Result, StoreError};
use super::ids::{KeyId, Workspace};
use super::records::{ApiKey, KeyHash, NewKey, Role, WebhookSecret};
use super::signing::read_secret;

const PREFIX: &str = "gk_";

/// The prefix of a gate's token, by which paths that contain one are recognized and redacted.
pub const TOKEN_PREFIX: &str = "gt_";

/// The number of hex digits after the prefix.
const DIGITS: usize = 64;

/// What became of the key in a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Bootstrap {
    /// It was not known and has been added.
    Added(ApiKey),
    /// It was added before.
    Known(ApiKey),
    /// It was added before, and revoked. It stays revoked.
    Revoked,
}

/// A new API key, which is not stored anywhere.
///
/// # Errors
/// `Refused` if there are no random bytes.
pub fn new_api_key() -> Result<String> {
    new_secret(PREFIX)
}

/// A new token of a gate, which is not stored anywhere.
///
/// # Errors
/// `Refused` if there are no random bytes.
pub fn new_gate_token() -> Result<String> {
    new_secret(TOKEN_PREFIX)
}

/// A new secret that signs the deliveries of a webhook.
///
/// # Errors
/// `Refused` if there are no random bytes.
pub fn new_webhook_secret() -> Result<WebhookSecret> {
    Ok(WebhookSecret::of(&random_bytes()?))
}

fn new_secret(prefix: &str) -> Result<String> {
    Ok(format!("{prefix}{}", hex::encode(random_bytes()?)))
}

fn random_bytes() -> Result<[u8; DIGITS / 2]> {
    let mut random = [0u8; DIGITS / 2];
    getrandom::fill(&mut random).map_err(|error| {
        StoreError::Refused(format!("the operating system provided no random bytes: {error}"))
    })?;
    Ok(random)
}

/// The API key in a file, without the white space around it.
fn read_api_key(path: &Path) -> Result<String> {
    let refused = |why: &str| StoreError::Refused(format!("the API key file {} {why}", path.display()));
    let bytes = read_secret("API key file", path)?.ok_or_else(|| refused("does not exist"))?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    let digits = text.trim().strip_prefix(PREFIX).unwrap_or_default();
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != DIGITS || !digits.bytes().all(is_digit) {
        return Err(refused("does not contain one API key, as `guarantor keys new` prints it"));
    }
    Ok(text.trim().to_owned())
}

impl Store {
    /// Creates a key. Returns its record and its secret, which cannot be shown again.
    pub async fn create_key(&self, workspace: Workspace, name: &str, role: Role) -> Result<(ApiKey, String)> {
        let secret = new_api_key()?;
        Ok((self.add_key(workspace, name, role, &secret).await?, secret))
    }

    /// Adds the key in a file to the workspace as its administrator, unless it was added before.
    ///
    /// # Errors
    /// `Refused` if the file does not exist, cannot be read, is readable by every user, or is not a key.
    pub async fn bootstrap_key(&self, workspace: Workspace, file: &Path) -> Result<Bootstrap> {
        let secret = read_api_key(file)?;
        if let Some(key) = self.authenticate(&secret).await? {
            return Ok(Bootstrap::Known(key));
        }
        match self.add_key(workspace, "bootstrap", Role::Admin, &secret).await {
            Ok(key) => Ok(Bootstrap::Added(key)),
            // The hash is taken, so the key is revoked, or another process has just added it.
            Err(StoreError::Database(error))
                if error.as_database_error().is_some_and(|error| error.is_unique_violation()) =>
            {
                Ok(self.authenticate(&secret).await?.map_or(Bootstrap::Revoked, Bootstrap::Known))
            }
            Err(error) => Err(error),
        }
    }

    /// Revokes a key, also on a full disk.
    pub async fn revoke_key(&self, id: KeyId) -> Result<ApiKey> {
        self.freeing(|| self.repository().revoke_key(id)).await
    }

    async fn add_key(&self, workspace: Workspace, name: &str, role: Role, secret: &str) -> Result<ApiKey> {
        let new = NewKey { id: KeyId::new(), workspace, name: name.into(), role, hash: KeyHash::of(secret) };
        self.repository.create_key(new).await
    }

    /// The key with this secret, if it exists and is not revoked.
    pub async fn authenticate(&self, secret: &str) -> Result<Option<ApiKey>> {
        if !secret.starts_with(PREFIX) {
            return Ok(None);
        }
        self.repository.key_by_hash(&KeyHash::of(secret)).await
    }
}
