//! API keys: 256 random bits, stored only as their SHA-256. A slow hash would not add protection, because
//! such a key cannot be guessed, and it would slow down every request.

use super::Store;
use super::error::{Result, StoreError};
use super::ids::{KeyId, Workspace};
use super::records::{ApiKey, KeyHash, NewKey};

const PREFIX: &str = "gk_";

impl Store {
    /// Creates a key. Returns its record and its secret, which cannot be shown again.
    pub async fn create_key(&self, workspace: Workspace, name: &str) -> Result<(ApiKey, String)> {
        let mut random = [0u8; 32];
        getrandom::fill(&mut random).map_err(|error| {
            StoreError::Refused(format!("the operating system provided no random bytes: {error}"))
        })?;
        let secret = format!("{PREFIX}{}", hex::encode(random));
        let new = NewKey { id: KeyId::new(), workspace, name: name.into(), hash: KeyHash::of(&secret) };
        Ok((self.repository.create_key(new).await?, secret))
    }

    /// The key with this secret, if it exists and is not revoked.
    pub async fn authenticate(&self, secret: &str) -> Result<Option<ApiKey>> {
        if !secret.starts_with(PREFIX) {
            return Ok(None);
        }
        self.repository.key_by_hash(&KeyHash::of(secret)).await
    }
}
