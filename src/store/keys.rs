//! API keys: 256 random bits, stored only as their SHA-256. A slow hash would protect nothing here,
//! for such a key cannot be guessed, and it would cost every request.

use sha2::{Digest, Sha256};

use super::Store;
use super::error::{Result, StoreError};
use super::ids::{KeyId, Workspace};
use super::records::{ApiKey, NewKey};

const PREFIX: &str = "gk_";

impl Store {
    /// The key's record and the secret, which cannot be shown again.
    pub async fn create_key(&self, workspace: Workspace, name: &str) -> Result<(ApiKey, String)> {
        let mut random = [0u8; 32];
        getrandom::fill(&mut random)
            .map_err(|error| StoreError::Refused(format!("the system gives no random bytes: {error}")))?;
        let secret = format!("{PREFIX}{}", hex::encode(random));
        let new = NewKey { id: KeyId::new(), workspace, name: name.into(), hash: hash(&secret) };
        Ok((self.repository.create_key(new).await?, secret))
    }

    /// The key that `secret` is, unless it is unknown or revoked.
    pub async fn authenticate(&self, secret: &str) -> Result<Option<ApiKey>> {
        if !secret.starts_with(PREFIX) {
            return Ok(None);
        }
        self.repository.key_by_hash(&hash(secret)).await
    }
}

fn hash(secret: &str) -> String {
    hex::encode(Sha256::digest(secret.as_bytes()))
}
