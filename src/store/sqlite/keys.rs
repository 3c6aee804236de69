use async_trait::async_trait;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use subtle::ConstantTimeEq;

use super::Sqlite;
use super::rows::{parsed, time, time_option};
use crate::store::error::{Resource, Result, StoreError};
use crate::store::ids::KeyId;
use crate::store::records::{ApiKey, NewKey};
use crate::store::repository::Keys;

fn key(row: &SqliteRow) -> Result<ApiKey> {
    Ok(ApiKey {
        id: parsed(row, "id")?,
        workspace: parsed(row, "workspace")?,
        name: row.try_get("name")?,
        created_at: time(row, "created_at")?,
        revoked_at: time_option(row, "revoked_at")?,
    })
}

#[async_trait]
impl Keys for Sqlite {
    async fn create_key(&self, new: NewKey) -> Result<ApiKey> {
        let mut write = self.write().await?;
        sqlx::query(
            "INSERT INTO api_keys (id, workspace, name, hash, created_at) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(new.id.to_string())
        .bind(new.workspace.as_str())
        .bind(&new.name)
        .bind(&new.hash)
        .bind(write.now.0)
        .execute(write.connection())
        .await?;
        let created_at = write.now;
        write.commit().await?;
        Ok(ApiKey { id: new.id, workspace: new.workspace, name: new.name, created_at, revoked_at: None })
    }

    async fn keys(&self) -> Result<Vec<ApiKey>> {
        let rows = sqlx::query("SELECT * FROM api_keys ORDER BY created_at DESC, id DESC")
            .fetch_all(&self.readers)
            .await?;
        rows.iter().map(key).collect()
    }

    async fn revoke_key(&self, id: KeyId) -> Result<ApiKey> {
        let mut write = self.write().await?;
        let row = sqlx::query(
            "UPDATE api_keys SET revoked_at = COALESCE(revoked_at, $2) WHERE id = $1 RETURNING *",
        )
        .bind(id.to_string())
        .bind(write.now.0)
        .fetch_optional(write.connection())
        .await?;
        let key = key(&row.ok_or_else(|| StoreError::not_found(Resource::Key, id))?)?;
        write.commit().await?;
        Ok(key)
    }

    async fn key_by_hash(&self, hash: &str) -> Result<Option<ApiKey>> {
        // The index finds by the hash's beginning; the rest is compared in constant time.
        let beginning = hash.get(..8).unwrap_or(hash);
        let rows = sqlx::query(
            "SELECT * FROM api_keys WHERE hash >= $1 AND hash < $1 || 'g' AND revoked_at IS NULL",
        )
        .bind(beginning)
        .fetch_all(&self.readers)
        .await?;
        for row in &rows {
            let stored: String = row.try_get("hash")?;
            if stored.as_bytes().ct_eq(hash.as_bytes()).into() {
                return key(row).map(Some);
            }
        }
        Ok(None)
    }
}
