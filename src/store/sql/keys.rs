//! API keys.

use async_trait::async_trait;
use sqlx::{FromRow, Row};

use super::Repo;
use super::rows::plain;
use crate::store::error::{Resource, Result, StoreError};
use crate::store::ids::KeyId;
use crate::store::records::{ApiKey, KeyHash, NewKey};
use crate::store::repository::Keys;

#[async_trait]
impl Keys for Repo {
    async fn create_key(&self, new: NewKey) -> Result<ApiKey> {
        let mut write = self.write_rows().await?;
        sqlx::query(
            "INSERT INTO api_keys (id, workspace, name, role, hash, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(new.id.to_string())
        .bind(new.workspace.as_str())
        .bind(plain(&new.name))
        .bind(new.role.name())
        .bind(new.hash.to_hex())
        .bind(write.now.0)
        .execute(write.connection())
        .await?;
        let created_at = write.now;
        write.commit().await?;
        let NewKey { id, workspace, name, role, .. } = new;
        Ok(ApiKey { id, workspace, name, role, created_at, revoked_at: None })
    }

    async fn keys(&self) -> Result<Vec<ApiKey>> {
        let keys = sqlx::query_as("SELECT * FROM api_keys ORDER BY created_at DESC, id DESC")
            .fetch_all(&self.readers)
            .await?;
        Ok(keys)
    }

    async fn revoke_key(&self, id: KeyId) -> Result<ApiKey> {
        let mut write = self.write_rows().await?;
        let key: Option<ApiKey> = sqlx::query_as(
            "UPDATE api_keys SET revoked_at = COALESCE(revoked_at, $2) WHERE id = $1 RETURNING *",
        )
        .bind(id.to_string())
        .bind(write.now.0)
        .fetch_optional(write.connection())
        .await?;
        let key = key.ok_or_else(|| StoreError::not_found(Resource::Key, id))?;
        write.commit().await?;
        Ok(key)
    }

    async fn key_by_hash(&self, hash: &KeyHash) -> Result<Option<ApiKey>> {
        // The index finds candidates by the first 8 digits; all of the hash is then compared in constant
        // time.
        let rows = sqlx::query(
            "SELECT * FROM api_keys WHERE hash >= $1 AND hash < $1 || 'g' AND revoked_at IS NULL",
        )
        .bind(&hash.to_hex()[..8])
        .fetch_all(&self.readers)
        .await?;
        for row in &rows {
            if KeyHash::from_hex(row.try_get("hash")?).is_some_and(|stored| stored.matches(hash)) {
                return Ok(Some(ApiKey::from_row(row)?));
            }
        }
        Ok(None)
    }
}
